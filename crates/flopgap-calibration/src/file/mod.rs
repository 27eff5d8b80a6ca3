//! The calibration file: a header and the measured rows, one JSON object a line.
//!
//! The rows are the calibration: a predictor is fitted to them whenever the file is loaded. While a
//! sweep runs, each row is appended as soon as it is measured. A process that is killed leaves at
//! most one torn line behind, the last, which has no line end.

mod error;
mod origin;
mod writer;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use flopgap_files::run::{Format, FormatFault, now};
use flopgap_roofline::Ceilings;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use error::not_written;
pub use error::{FileError, FileFault};
pub use origin::OriginDifference;
pub use writer::Writer;

use crate::row::{Origin, Row};

/// The format of every calibration file: of its first line, and of the rows that follow.
static FORMAT: Format = Format { name: "flopgap-calibration", version: 1, noun: "calibration" };

/// A file that decompresses to more is refused: a million rows take less.
const LARGEST: u64 = 1 << 30;

/// How a zstd frame begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The first line of a calibration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// When the sweep was started (RFC 3339, UTC).
    pub created: String,
    /// The machine and the software that all rows come from.
    pub origin: Origin,
    /// The ceilings of the machine, if probed.
    pub ceilings: Option<Ceilings>,
    /// Best time of each reference kernel in nanoseconds, where rows are normalized by such: on a
    /// CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, f64>,
}

impl Header {
    /// A header created now.
    pub fn new(origin: Origin, ceilings: Option<Ceilings>) -> Self {
        Header { created: now(), origin, ceilings, references: BTreeMap::new() }
    }

    /// Checks that rows of this origin may be added to a file with this header. `path` is for
    /// errors.
    ///
    /// # Errors
    /// [`FileFault::OtherOrigin`].
    pub(crate) fn expect_origin(&self, ours: &Origin, path: &Path) -> Result<(), FileError> {
        let theirs = &self.origin;
        let differences = theirs.machine_differences(ours);
        match differences.into_iter().chain(theirs.version_differences(ours)).next() {
            Some(difference) => Err(FileError::new(path, FileFault::OtherOrigin { difference })),
            None => Ok(()),
        }
    }
}

/// A calibration: what a sweep measured on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The first line.
    pub header: Header,
    /// What was measured, in the order of the file. A workload that was measured repeatedly has
    /// several rows.
    pub rows: Vec<Row>,
    /// Whether the last line had no line end and was left out: the sweep was killed, or the file
    /// was cut off.
    pub torn: bool,
}

impl Calibration {
    /// Reads a file, plain or compressed with zstd, by its content.
    ///
    /// # Errors
    /// When it cannot be read, is not a calibration, was written by a newer version, or has a line
    /// that is not a row or whose numbers cannot be measurements.
    pub fn read(path: &Path) -> Result<Calibration, FileError> {
        let bytes = fs::read(path).map_err(|source| FileError::new(path, FileFault::Io { source }))?;
        Calibration::parse(&bytes, path)
    }

    /// Reads the bytes of a file. `path` is what errors name.
    ///
    /// # Errors
    /// As [`Calibration::read`].
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Calibration, FileError> {
        let contents = Contents::parse(bytes, path)?;
        Ok(Calibration { header: contents.header, rows: contents.rows, torn: contents.torn })
    }

    /// Writes a whole file, compressed if its name ends with `.zst`. It appears whole or not at
    /// all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        let mut text = FORMAT.line(&self.header);
        for row in &self.rows {
            text.push_str(&line(row));
        }
        let compressed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zst"));
        let bytes = if compressed {
            let level = 19;
            zstd::encode_all(text.as_bytes(), level)
                .map_err(|source| FileError::new(path, FileFault::Io { source }))?
        } else {
            text.into_bytes()
        };
        flopgap_files::write_atomic(path, &bytes).map_err(not_written)
    }
}

/// The JSON of a row as a line of the file.
fn line(value: &Row) -> String {
    // Serialization of these types cannot fail: their maps have text for keys.
    let mut json = serde_json::to_string(value).unwrap_or_else(|error| unreachable!("{error}"));
    json.push('\n');
    json
}

/// A file's content.
struct Contents {
    header: Header,
    rows: Vec<Row>,
    torn: bool,
    /// The length in bytes of all whole lines.
    whole: u64,
}

impl Contents {
    fn parse(bytes: &[u8], path: &Path) -> Result<Contents, FileError> {
        let unpacked;
        let bytes = if bytes.starts_with(&ZSTD) {
            unpacked = unpack(bytes, path)?;
            &unpacked
        } else {
            bytes
        };
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n');
        let Some(first) = lines.next() else {
            // A header that was cut off, or another kind of file.
            let fault =
                if bytes.is_empty() { FileFault::Empty } else { header_fault(bytes, "it has no line end") };
            return Err(FileError::new(path, fault));
        };
        let header = read_header(first, path)?;
        let mut rows = Vec::new();
        for (index, line) in lines.enumerate() {
            rows.push(read_row(line, index as u64 + 2, path)?);
        }
        Ok(Contents { header, rows, torn: whole < bytes.len(), whole: whole as u64 })
    }
}

fn unpack(bytes: &[u8], path: &Path) -> Result<Vec<u8>, FileError> {
    let io = |source| FileError::new(path, FileFault::Compressed { source });
    let decoder = zstd::Decoder::new(bytes).map_err(io)?;
    let mut unpacked = Vec::new();
    decoder.take(LARGEST + 1).read_to_end(&mut unpacked).map_err(io)?;
    if unpacked.len() as u64 > LARGEST {
        return Err(FileError::new(path, FileFault::TooLarge { largest: LARGEST }));
    }
    Ok(unpacked)
}

fn read_header(line: &[u8], path: &Path) -> Result<Header, FileError> {
    let header: Header = FORMAT.parse(line).map_err(|fault| match fault {
        FormatFault::Shape { source, .. } => FileError::new(path, header_fault(line, &source.to_string())),
        fault => FileError::new(path, FileFault::Format(fault)),
    })?;
    for (name, &nanoseconds) in &header.references {
        if !(nanoseconds.is_finite() && nanoseconds > 0.0) {
            let what = format!("the reference `{name}`");
            return Err(FileError::in_line(path, 1, FileFault::Number { what, value: nanoseconds }));
        }
    }
    Ok(header)
}

/// What is wrong with a first line, whose shape is not that of a header for this reason.
fn header_fault(line: &[u8], reason: &str) -> FileFault {
    let reason = match serde_json::from_slice::<serde_json::Value>(line) {
        Err(_) => "the first line is not JSON".to_owned(),
        Ok(value) if value.get("format").is_none() || value.get("version").is_none() => {
            "the first line has no `format` and `version`".to_owned()
        }
        Ok(_) => error::in_line(reason),
    };
    FileFault::NotACalibration { reason }
}

fn read_row(bytes: &[u8], line: u64, path: &Path) -> Result<Row, FileError> {
    let row: Row = serde_json::from_slice(bytes).map_err(|error| {
        let fault = match FORMAT.parse::<IgnoredAny>(bytes) {
            Err(FormatFault::Shape { .. }) => FileFault::Row { reason: error::in_line(&error.to_string()) },
            _ => FileFault::SecondHeader,
        };
        FileError::in_line(path, line, fault)
    })?;
    match row.measurement.fault() {
        None => Ok(row),
        Some((what, value)) => {
            Err(FileError::in_line(path, line, FileFault::Number { what: what.to_owned(), value }))
        }
    }
}

#[cfg(test)]
mod tests {
    use flopgap_files::Hint as _;

    use super::*;
    use crate::testing;

    fn text(rows: usize) -> String {
        let mut text = FORMAT.line(&testing::header());
        for row in testing::rows(rows) {
            text.push_str(&line(&row));
        }
        text
    }

    fn parse(bytes: impl AsRef<[u8]>) -> Result<Calibration, FileError> {
        Calibration::parse(bytes.as_ref(), Path::new("a.jsonl"))
    }

    #[test]
    fn files_come_back_plain_and_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let calibration = Calibration { header: testing::header(), rows: testing::rows(20), torn: false };
        for name in ["a.jsonl", "a.jsonl.zst"] {
            let path = dir.path().join(name);
            calibration.write(&path).unwrap();
            assert_eq!(Calibration::read(&path).unwrap(), calibration);
            assert_eq!(fs::read(&path).unwrap().starts_with(&ZSTD), name.ends_with("zst"));
        }
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_said_so() {
        let whole = text(3);
        let cut = parse(&whole.as_bytes()[..whole.len() - 1]).unwrap();
        assert!(cut.torn);
        assert_eq!(cut.rows, testing::rows(2));
        assert!(!parse(&whole).unwrap().torn);
    }

    #[test]
    fn what_is_not_a_calibration_is_named() {
        let message = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert_eq!(message(b""), "a.jsonl: file is empty");
        for text in ["n,d,m\n", "{\"format\":\"flopgap-cal"] {
            assert_eq!(message(text.as_bytes()), "a.jsonl: not a calibration: the first line is not JSON");
        }
        assert_eq!(
            message(b"{}\n"),
            "a.jsonl: not a calibration: the first line has no `format` and `version`"
        );
        assert_eq!(
            message(b"{\"format\":\"flopgap-calibration\",\"version\":2}\n"),
            "a.jsonl: unsupported format `flopgap-calibration` version 2; supported: \
             flopgap-calibration version 1"
        );
        assert_eq!(
            message(b"{\"format\":\"flopgap-calibration\",\"version\":1}\n"),
            "a.jsonl: not a calibration: missing field `created` at column 44"
        );
    }

    #[test]
    fn bad_rows_are_named_by_line() {
        let twice = text(2) + &text(1);
        assert_eq!(
            parse(twice).unwrap_err().to_string(),
            "a.jsonl:4: second header: the file holds two calibrations"
        );
        let zero = text(2).replacen("\"median_ns\":1001", "\"median_ns\":0", 1);
        assert_eq!(parse(zero).unwrap_err().to_string(), "a.jsonl:3: median_ns is 0, which is impossible");
        let garbled = text(2).replacen("\"median_ns\":1001", "\"median_ns\":null", 1);
        assert!(parse(garbled).unwrap_err().to_string().starts_with("a.jsonl:3: not a row: "));
    }

    #[test]
    fn a_compressed_file_that_was_cut_off_is_refused() {
        let packed = zstd::encode_all(text(50).as_bytes(), 3).unwrap();
        let error = parse(&packed[..packed.len() / 2]).unwrap_err();
        assert!(error.to_string().starts_with("a.jsonl: cannot be decompressed"), "{error}");
        assert!(error.hint().unwrap().contains("copy"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, at in 0usize..2000, byte: u8) {
            let _ = parse(&bytes);
            let mut damaged = text(3).into_bytes();
            let at = at % damaged.len();
            damaged[at] = byte;
            let _ = parse(&damaged);
        }
    }
}
