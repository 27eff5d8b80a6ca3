//! Writes reports for the tests: the kinds of result, damage and NVTX states that no recording
//! available holds.

use super::MAGIC;

/// A protobuf message in the making.
#[derive(Clone, Default)]
pub(super) struct Proto(pub(super) Vec<u8>);

impl Proto {
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    pub(super) fn double(mut self, field: u32, value: f64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn float(mut self, field: u32, value: f32) -> Self {
        self.varint(u64::from(field) << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(super) fn message(self, field: u32, message: &Proto) -> Self {
        self.bytes(field, &message.0)
    }

    #[allow(clippy::cast_possible_truncation)] // the low seven bits are what is wanted
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Three dimensions.
pub(super) fn dims(x: u64, y: u64, z: u64) -> Proto {
    Proto::default().number(1, x).number(2, y).number(3, z)
}

/// A metric with this index into the string table and a `ProfileMetricValue`.
pub(super) fn metric(name: u64, value: &Proto) -> Proto {
    Proto::default().number(1, name).message(2, value)
}

/// A kernel result without metrics.
pub(super) fn kernel(demangled: &str) -> Proto {
    Proto::default()
        .number(1, 77)
        .bytes(5, "_Z6mangle")
        .bytes(6, "function")
        .bytes(7, demangled)
        .message(10, &dims(4, 2, 1))
        .message(11, &dims(128, 1, 1))
        .number(22, 1)
        .number(23, 7)
}

/// The messages of one block, in the order in which a file has them.
#[derive(Default)]
pub(super) struct Block {
    pub(super) strings: Vec<&'static str>,
    pub(super) process: Option<Proto>,
    pub(super) sources: Vec<Vec<u8>>,
    pub(super) kernels: Vec<Proto>,
    pub(super) ranges: Vec<Proto>,
    pub(super) cmdlists: Vec<Proto>,
    pub(super) graphs: Vec<Proto>,
    /// Payload after the results, and the number of graph descriptions recorded for it.
    pub(super) rest: (Vec<u8>, u64),
}

impl Block {
    fn write(&self, file: &mut Vec<u8>) {
        let mut payload = Vec::new();
        for source in &self.sources {
            frame(&mut payload, source);
        }
        for result in [&self.kernels, &self.ranges, &self.cmdlists, &self.graphs].into_iter().flatten() {
            frame(&mut payload, &result.0);
        }
        payload.extend(&self.rest.0);
        let strings = self.strings.iter().fold(Proto::default(), |table, text| table.bytes(1, text));
        let mut header = Proto::default()
            .number(1, self.sources.len() as u64)
            .number(2, self.kernels.len() as u64)
            .message(4, &strings)
            .number(5, payload.len() as u64)
            .number(7, self.ranges.len() as u64)
            .number(8, self.cmdlists.len() as u64)
            .number(9, self.graphs.len() as u64)
            .number(10, self.rest.1);
        if let Some(process) = &self.process {
            header = header.message(6, process);
        }
        frame(file, &header.0);
        file.extend(payload);
    }
}

/// A file of these blocks.
pub(super) fn file(version: u64, blocks: &[Block]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    frame(&mut file, &Proto::default().number(1, version).0);
    for block in blocks {
        block.write(&mut file);
    }
    file
}

fn frame(file: &mut Vec<u8>, bytes: &[u8]) {
    file.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
    file.extend(bytes);
}
