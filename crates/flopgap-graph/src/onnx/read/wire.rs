//! A first look at the bytes of a model, before its messages are decoded.
//!
//! The decoder of `rten-onnx` takes lengths and lists of numbers as the file states them and
//! follows graphs within graphs as deep as they go. This walk over the fields checks all of them,
//! and picks up what the decoder leaves out: the modules that nodes came from.

use std::io::{self, Read, Seek, SeekFrom};

/// The result of the first pass.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Whether there are a format version and a graph; otherwise this is not an ONNX model.
    pub(super) model: bool,
    /// The module of each node of the main graph, where the exporter wrote it.
    pub(super) modules: Vec<Option<String>>,
}

/// Why the bytes are not a model.
#[derive(Debug)]
pub(super) enum Malformed {
    /// The file cannot be read.
    Read(io::Error),
    /// The problem, with its position.
    At(u64, &'static str),
}

impl From<io::Error> for Malformed {
    fn from(error: io::Error) -> Self {
        Malformed::Read(error)
    }
}

/// The messages that are walked into: all that the decoder decodes, which takes the length of a
/// text within any of them as it is. All others are skipped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Message {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Value,
    Type,
    Sequence,
    Entry,
    Tensor,
    SparseTensor,
    TensorType,
    Shape,
    Dimension,
    OperatorSet,
}

/// The message of a field, where it is one that is walked into. Numbers are those of `onnx.proto`.
fn inner(message: Message, field: u64) -> Option<Message> {
    Some(match (message, field) {
        (Message::Model, 7) | (Message::Attribute, 6 | 11) => Message::Graph,
        (Message::Model, 25) => Message::Function,
        (Message::Graph, 1) | (Message::Function, 7) => Message::Node,
        (Message::Graph, 11..=13) | (Message::Function, 12) => Message::Value,
        (Message::Node, 5) | (Message::Function, 11) => Message::Attribute,
        (Message::Node, 9) | (Message::Model, 14) | (Message::Tensor, 13) => Message::Entry,
        (Message::Graph | Message::Attribute, 5) | (Message::SparseTensor, 1 | 2) => Message::Tensor,
        (Message::Graph, 15) => Message::SparseTensor,
        (Message::Model, 8) | (Message::Function, 9) => Message::OperatorSet,
        (Message::Value, 2) | (Message::Sequence, 1) => Message::Type,
        (Message::Type, 4) => Message::Sequence,
        (Message::Type, 1) => Message::TensorType,
        (Message::TensorType, 2) => Message::Shape,
        (Message::Shape, 1) => Message::Dimension,
        _ => return None,
    })
}

/// Messages within messages: far more than models have, and few enough for any stack.
const DEEPEST: usize = 48;
/// A field of text that is read here.
const LONGEST: u64 = 1 << 16;

/// Walks over a file.
pub(super) fn outline<R: Read + Seek>(reader: R) -> Result<Outline, Malformed> {
    let mut walk = Walk::new(reader);
    let end = walk.reader.seek(SeekFrom::End(0))?;
    walk.reader.seek(SeekFrom::Start(0))?;
    let mut seen = (false, false);
    walk.message(Message::Model, end, 0, &mut seen)?;
    walk.outline.model = seen == (true, true);
    Ok(walk.outline)
}

/// Whether the outermost fields are those of a model, up to the beginning of its graph. They are
/// written in the order of their numbers, which are those of `onnx.proto`.
pub(super) fn begins_as_model<R: Read + Seek>(reader: R) -> io::Result<bool> {
    let mut walk = Walk::new(reader);
    let end = walk.reader.seek(SeekFrom::End(0))?;
    walk.reader.seek(SeekFrom::Start(0))?;
    match walk.reaches_graph(end) {
        Ok(reached) => Ok(reached),
        Err(Malformed::Read(error)) => Err(error),
        Err(Malformed::At(..)) => Ok(false),
    }
}

struct Walk<R> {
    reader: io::BufReader<R>,
    position: u64,
    /// Whether this is within the main graph.
    in_graph: bool,
    outline: Outline,
}

impl<R: Read> Walk<R> {
    fn new(reader: R) -> Self {
        Walk { reader: io::BufReader::new(reader), position: 0, in_graph: false, outline: Outline::default() }
    }
}

impl<R: Read + Seek> Walk<R> {
    fn reaches_graph(&mut self, end: u64) -> Result<bool, Malformed> {
        let mut version = false;
        while self.position < end {
            let tag = self.varint(end)?;
            match (tag >> 3, tag & 7) {
                (1, 0) => {
                    self.varint(end)?;
                    version = true;
                }
                (5, 0) => {
                    self.varint(end)?;
                }
                (2..=4 | 6 | 8 | 14 | 20 | 25 | 26, 2) => {
                    let length = self.varint(end)?;
                    self.skip(length, end)?;
                }
                (7, 2) => return Ok(version),
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn message(
        &mut self,
        message: Message,
        end: u64,
        depth: usize,
        seen: &mut (bool, bool),
    ) -> Result<(), Malformed> {
        if depth > DEEPEST {
            return Err(Malformed::At(self.position, "messages are nested too deeply"));
        }
        let mut entry = (None, None);
        while self.position < end {
            let tag = self.varint(end)?;
            let (field, wire) = (tag >> 3, tag & 7);
            if field == 0 {
                return Err(Malformed::At(self.position, "a field has the number 0"));
            }
            match wire {
                0 => {
                    self.varint(end)?;
                    seen.0 |= message == Message::Model && field == 1;
                }
                1 => self.skip(8, end)?,
                5 => self.skip(4, end)?,
                2 => {
                    let length = self.varint(end)?;
                    let stop = self.position.checked_add(length).filter(|&stop| stop <= end);
                    let stop = stop.ok_or(Malformed::At(
                        self.position,
                        "a field extends beyond the end of the file or of its message",
                    ))?;
                    if message == Message::Model {
                        self.in_graph = field == 7;
                        seen.1 |= self.in_graph;
                    }
                    if message == Message::Graph && field == 1 && depth == 1 {
                        self.outline.modules.push(None);
                    }
                    match inner(message, field) {
                        Some(inner) => self.message(inner, stop, depth + 1, seen)?,
                        None if message == Message::Entry && field <= 2 && length <= LONGEST => {
                            let text = self.text(length)?;
                            if field == 1 { entry.0 = Some(text) } else { entry.1 = Some(text) }
                        }
                        // The decoder never leaves a list that has a number of more than ten bytes.
                        None if message == Message::Tensor && matches!(field, 5 | 7) => {
                            while self.position < stop {
                                self.varint(stop)?;
                            }
                        }
                        None => self.skip(length, end)?,
                    }
                }
                _ => return Err(Malformed::At(self.position, "a field has an unknown type")),
            }
        }
        if message == Message::Entry
            && depth == 3
            && self.in_graph
            && let (Some(key), Some(value)) = entry
            && key == "pkg.torch.onnx.name_scopes"
            && let Some(module) = self.outline.modules.last_mut()
        {
            *module = scope(&value);
        }
        Ok(())
    }

    fn byte(&mut self, end: u64) -> Result<u8, Malformed> {
        if self.position >= end {
            return Err(Malformed::At(self.position, "a number is truncated"));
        }
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        self.position += 1;
        Ok(byte[0])
    }

    fn varint(&mut self, end: u64) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(end)?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::At(self.position, "a number has more than ten bytes"))
    }

    fn skip(&mut self, length: u64, end: u64) -> Result<(), Malformed> {
        match (self.position.checked_add(length), i64::try_from(length)) {
            (Some(stop), Ok(length)) if stop <= end => {
                self.reader.seek_relative(length)?;
                self.position = stop;
                Ok(())
            }
            _ => Err(Malformed::At(
                self.position,
                "a field extends beyond the end of the file or of its message",
            )),
        }
    }

    fn text(&mut self, length: u64) -> Result<String, Malformed> {
        let mut bytes = Vec::new();
        (&mut self.reader).take(length).read_to_end(&mut bytes)?;
        self.position += length;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The module in a list of scopes as Python prints it: `['', 'layer1', 'layer1.0', 'conv2d_1']`,
/// whose last is the operation itself.
fn scope(list: &str) -> Option<String> {
    let inner = list.strip_prefix('[')?.strip_suffix(']')?;
    let mut scopes: Vec<&str> =
        inner.split(", ").map(|scope| scope.trim_matches(|quote| quote == '\'' || quote == '"')).collect();
    scopes.pop();
    scopes.last().map(|&scope| scope.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn modules_are_the_scope_before_the_last() {
        assert_eq!(scope("['', 'layer1', 'layer1.0', 'conv2d_1']").as_deref(), Some("layer1.0"));
        assert_eq!(scope("['', 'relu']").as_deref(), Some(""));
        assert_eq!(scope("['relu']"), None);
        assert_eq!(scope("relu"), None);
    }

    /// The decoder would set aside as much as the length says.
    #[test]
    fn lengths_within_every_decoded_message_are_checked() {
        // A text of 16 GB, and the messages around it, from the innermost.
        let text = [0x0A, 0x80, 0x80, 0x80, 0x80, 0x40];
        let places: [&[u8]; 12] = [
            &[5, 7],
            &[13, 5, 7],
            &[5, 5, 1, 7],
            &[1, 7],
            &[11, 7],
            &[1, 2, 1, 2, 11, 7],
            &[8],
            &[14],
            &[9, 1, 7],
            // Within a function, and in a sparse parameter.
            &[5, 7, 25],
            &[7, 25],
            &[1, 15, 7],
        ];
        for fields in places {
            let mut message = text.to_vec();
            for &field in fields {
                let length = u8::try_from(message.len()).unwrap();
                let mut tag = vec![field << 3 | 2];
                if field > 15 {
                    tag = vec![(field & 15) << 3 | 2 | 128, field >> 4];
                }
                message = [&tag[..], &[length], &message[..]].concat();
            }
            let found = outline(Cursor::new(message));
            assert!(matches!(found, Err(Malformed::At(..))), "{fields:?}: {found:?}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    fn lengths_and_depths_are_checked() {
        let outline = |bytes: &[u8]| outline(Cursor::new(bytes.to_vec()));
        assert!(outline(&[0x08, 9, 0x3A, 0]).unwrap().model);
        assert!(!outline(&[0x08, 9]).unwrap().model);
        // A graph of 2^60 bytes; a number without an end; groups, which ONNX has none of.
        let long = [0x3A, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
        // A tensor whose list of numbers has one of twelve bytes.
        let endless = [&[0x3A, 16, 0x2A, 14, 0x3A, 12][..], &[0xFF; 12]].concat();
        for bytes in [&long[..], &endless, &[0x08, 0x80], &[0x0B], &[0x00, 0x00]] {
            assert!(matches!(outline(bytes), Err(Malformed::At(..))), "{bytes:?}");
        }
        let mut nested = Vec::new();
        for _ in 0..40 {
            for field in [6_u8, 5, 1] {
                let mut outer = vec![field << 3 | 2];
                let mut length = nested.len();
                while length >= 128 {
                    outer.push((length & 127) as u8 | 128);
                    length >>= 7;
                }
                outer.push(length as u8);
                outer.append(&mut nested);
                nested = outer;
            }
        }
        // The outermost is the graph of a model.
        let mut model = vec![0x3A, (nested.len() & 127) as u8 | 128, (nested.len() >> 7) as u8];
        model.extend(&nested);
        match outline(&model) {
            Err(Malformed::At(_, reason)) => assert_eq!(reason, "messages are nested too deeply"),
            other => panic!("{other:?}"),
        }
    }
}
