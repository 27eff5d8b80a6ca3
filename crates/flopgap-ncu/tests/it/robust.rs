//! No bytes may panic, hang or exhaust memory.

use std::fmt::Write;
use std::io::{Cursor, Read};

use flopgap_ncu::{FlopCounter, Reader};
use proptest::prelude::*;

use crate::support::{bytes, parse, plains};

/// Reads everything and looks at everything.
fn drain(bytes: Vec<u8>) {
    let Ok(mut reader) = Reader::from_reader(Cursor::new(bytes), "fuzz") else { return };
    let mut counter = FlopCounter::new();
    while let Ok(Some(launch)) = reader.next_launch() {
        let flops = counter.count(launch);
        let _ = (flops.total(), flops.iter().count(), launch.kernel_name().len());
        for metric in &launch.metrics {
            let _ = metric.in_base_units(launch.strings);
        }
    }
    let _ = reader.warnings().iter().map(|warning| warning.to_string().len()).sum::<usize>();
    assert!(reader.next_launch().is_ok_and(|launch| launch.is_none()), "nothing comes after the end");
}

const FILES: [&str; 7] = [
    "n4_d512_m64_forward.csv",
    "nvtx_names/stdout.csv",
    "nvtx_names/summary_per_nvtx.csv",
    "nvtx_names/raw_de_DE.csv.zst",
    "nvtx_names/details_all.csv.zst",
    "nvtx_names/metric_label-name.csv.zst",
    "nvtx_names/names.ncu-rep.zst",
];

fn small(index: usize) -> Vec<u8> {
    let mut bytes = bytes(FILES[index]);
    bytes.truncate(60_000);
    bytes
}

/// Gives a few bytes at a time, as a pipe may.
struct Trickle<R>(R, usize);

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(out.len());
        self.0.read(&mut out[..count])
    }
}

#[test]
fn how_much_a_read_returns_does_not_matter() {
    for (name, size) in
        [("nvtx_names/stdout.csv", 1), ("nvtx_names/details_all.csv.zst", 977), ("lm_raw.csv.zst", 4096)]
    {
        let bytes = bytes(name);
        let expected = parse(bytes.clone()).unwrap();
        let reader = Reader::from_reader(Trickle(Cursor::new(bytes), size), name).unwrap();
        let found = reader.into_report().unwrap();
        assert_eq!(plains(&found), plains(&expected), "{name}");
        assert_eq!(found.notes, expected.notes);
    }
}

#[test]
fn files_made_to_be_slow_are_not() {
    // Each would take minutes if a line were examined again for every line before it.
    let headers = [
        "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n",
        "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n",
    ];
    let patterns = [
        "\"b\n",
        "\"1\",\"",
        "\"",
        "\"\"",
        "a\"1\",\"",
        "\"1\",\"a\n",
        ",",
        "\n",
        "1,\n",
        "\"1\",\"x\",\"\",\"\"\n",
        "a\"1\",\"x\",",
        "\"ID\",\"",
        "\"1\",\"2\",\"Kernel Name\"",
    ];
    for header in headers {
        for pattern in patterns {
            drain((header.to_owned() + &pattern.repeat(1_000_000 / pattern.len())).into_bytes());
        }
    }
    drain(vec![b'x'; 12_000_000]);
}

#[test]
fn launches_that_wait_are_bounded() {
    // Every value is ambiguous and nothing decides: an error, after a bounded wait.
    let mut text = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
    for id in 0..100_000 {
        writeln!(text, "\"{id}\",\"k\",\"rate\",\"%\",\"1.234\"").unwrap();
    }
    let mut reader = Reader::from_reader(Cursor::new(text), "waits.csv").unwrap();
    assert!(reader.next_launch().is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        drain(bytes);
    }

    #[test]
    fn arbitrary_rows(rows in proptest::collection::vec("[\"0-9a,.:( )\u{a0};n/\r\n-]{0,40}", 0..60), header in 0..3_usize) {
        let header = [
            "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n",
            "ID,Kernel Name,a__b.sum,c__d\n",
            "\"Process ID\",\"Kernel Name\",\"Invocations\",\"Metric Name\",\"Minimum\",\"Maximum\",\"Average\"\n",
        ][header];
        let mut text = header.to_owned();
        for (id, row) in rows.iter().enumerate() {
            writeln!(text, "\"{id}\",\"{row}\"\n{row}").unwrap();
        }
        drain(text.into_bytes());
    }

    #[test]
    fn mutated_files(
        file in 0..FILES.len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0..5_u8, any::<u8>()), 1..30),
    ) {
        let mut bytes = small(file);
        for (index, kind, byte) in edits {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, *b"\"\n,.\0".get(usize::from(byte) % 5).unwrap()),
                2 => { bytes.remove(at); }
                3 => { bytes.drain(at..(at + usize::from(byte) * 8).min(bytes.len() - 1).max(at)); }
                _ => { let copy = bytes[at..(at + usize::from(byte)).min(bytes.len())].to_vec(); bytes.splice(at..at, copy); }
            }
        }
        drain(bytes);
    }
}
