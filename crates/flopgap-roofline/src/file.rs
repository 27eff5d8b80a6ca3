//! Ceilings in a file.
//!
//! JSON: `{"format":"flopgap-ceilings","version":1,"device":…}`, the fields of [`Ceilings`] after
//! the first two.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flopgap_files::{ErrorKind, Hint, Text};
use serde::{Deserialize, Serialize};

use crate::Ceilings;

/// The value of the first field.
const FORMAT: &str = "flopgap-ceilings";
/// The version that is written, and the newest version that is read.
const VERSION: u32 = 1;

/// An error of a ceilings file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingsError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] flopgap_files::WriteError),
    /// The file does not hold ceilings.
    #[error("{}: not a ceilings file: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column where it is JSON.
        reason: String,
    },
    /// The file was written by a newer version of flopgap.
    #[error("{}: format version {version} is newer than the supported version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A number in the file is impossible.
    #[error("{}: {place} is {value}; expected a positive number", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// Its path in the document.
        place: String,
        /// The number.
        value: f64,
    },
    /// The ceilings were measured on another machine.
    #[error("ceilings are from another machine: {what} is {found} there and {expected} here")]
    OtherMachine {
        /// The property that differs.
        what: String,
        /// The value in the file.
        found: String,
        /// The value on this machine.
        expected: String,
    },
}

impl Hint for CeilingsError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            CeilingsError::Format { .. } | CeilingsError::Number { .. } => {
                Some("measure the ceilings again with `flopgap calibrate probe`".into())
            }
            CeilingsError::Version { .. } => Some("update flopgap, or measure the ceilings again".into()),
            CeilingsError::OtherMachine { .. } => {
                Some("measure the ceilings of this machine with `flopgap calibrate probe`".into())
            }
            CeilingsError::Write(error) => error.hint(),
            CeilingsError::Read { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            CeilingsError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::Absent
            }
            _ => ErrorKind::Failed,
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    format: &'a str,
    version: u32,
    #[serde(flatten)]
    ceilings: &'a Ceilings,
}

#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

impl Ceilings {
    /// The ceilings as the text of a file.
    ///
    /// # Errors
    /// A number that JSON does not have (NaN, infinity).
    pub fn to_json(&self) -> io::Result<String> {
        let mut text =
            serde_json::to_string_pretty(&Written { format: FORMAT, version: VERSION, ceilings: self })?;
        text.push('\n');
        Ok(text)
    }

    /// Writes a file of ceilings, whole or not at all.
    ///
    /// # Errors
    /// [`CeilingsError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), CeilingsError> {
        let text = self
            .to_json()
            .map_err(|error| CeilingsError::Format { path: path.to_owned(), reason: error.to_string() })?;
        Ok(flopgap_files::write_atomic(path, text.as_bytes())?)
    }

    /// Reads a file of ceilings and checks that its numbers are possible.
    ///
    /// # Errors
    /// All of [`CeilingsError`] but `Write` and `OtherMachine`.
    pub fn read(path: &Path) -> Result<Self, CeilingsError> {
        let text = fs::read_to_string(path)
            .map_err(|source| CeilingsError::Read { path: path.to_owned(), source })?;
        let format = |reason: String| CeilingsError::Format { path: path.to_owned(), reason };
        let head: Head = serde_json::from_str(&text).map_err(|error| format(error.to_string()))?;
        match head.format.as_deref() {
            Some(FORMAT) => {}
            Some(other) => return Err(format(format!("its format is `{other}`; expected `{FORMAT}`"))),
            None => return Err(format(format!("the field `format` is missing; expected `{FORMAT}`"))),
        }
        match head.version {
            Some(version) if version > u64::from(VERSION) => {
                return Err(CeilingsError::Version { path: path.to_owned(), version });
            }
            Some(1) => {}
            _ => return Err(format("the field `version` is missing".to_owned())),
        }
        let ceilings: Self = serde_json::from_str(&text).map_err(|error| format(error.to_string()))?;
        match ceilings.impossible() {
            None => Ok(ceilings),
            Some((place, value)) => Err(CeilingsError::Number { path: path.to_owned(), place, value }),
        }
    }

    /// The first number that is not positive, with its place.
    fn impossible(&self) -> Option<(String, f64)> {
        let mut numbers: Vec<(String, f64)> = vec![("launch_ns".to_owned(), self.launch_ns.value)];
        numbers.extend(self.graph_node_ns.map(|node| ("graph_node_ns".to_owned(), node.value)));
        let one = self.details.one_thread.as_ref();
        let peaks = self.peaks.iter().chain(one.iter().flat_map(|one| &one.peaks));
        numbers
            .extend(peaks.map(|peak| (format!("the peak of {}", peak.precision), peak.ops_per_second.value)));
        let curves = self.bandwidth.iter().chain(&self.details.own_slices);
        for point in curves.chain(one.iter().flat_map(|one| &one.bandwidth)) {
            for (what, quantity) in [("read", point.read), ("write", point.write), ("copy", point.copy)] {
                numbers.push((format!("{what} bandwidth over {} bytes", point.bytes), quantity.value));
            }
        }
        for level in &self.levels {
            for (what, value) in [("read", level.read), ("copy", level.copy)] {
                numbers.push((format!("{what} bandwidth of {}", level.name), value));
            }
        }
        numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0))
    }

    /// Whether these were measured on the machine with this kind, device and properties.
    ///
    /// Only properties that both have are compared.
    ///
    /// # Errors
    /// [`CeilingsError::OtherMachine`] with the first difference.
    pub fn expect_machine<'a>(
        &self,
        kind: &str,
        device: &str,
        properties: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<(), CeilingsError> {
        let other = |what: &str, found: &str, expected: &str| CeilingsError::OtherMachine {
            what: what.to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        };
        if self.kind != kind {
            return Err(other("the kind of device", &self.kind, kind));
        }
        if self.device != device {
            return Err(other("the device", &self.device, device));
        }
        for (name, expected) in properties {
            if let Some(found) = self.details.properties.get(name)
                && found != expected
            {
                return Err(other(name, found, expected));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flopgap_flops::Precision;

    use super::*;
    use crate::{Bandwidth, Details, Level, Peak, Quantity};

    fn ceilings() -> Ceilings {
        let quantity = |value| Quantity { value, spread: 0.01 };
        let point =
            Bandwidth { bytes: 1 << 20, read: quantity(4e12), write: quantity(3e12), copy: quantity(3.5e12) };
        let peak = |rate| Peak {
            precision: Precision::Fp16,
            tensor: true,
            ops_per_second: quantity(rate),
            instruction: None,
        };
        Ceilings {
            device: "NVIDIA H200".to_owned(),
            kind: "cuda".to_owned(),
            units: 132,
            peaks: vec![peak(6e14), peak(9e14)],
            bandwidth: vec![point],
            levels: vec![Level { name: "HBM".to_owned(), bytes: None, read: 4e12, copy: 3.5e12 }],
            launch_ns: quantity(2000.0),
            graph_node_ns: Some(quantity(900.0)),
            details: Details {
                properties: BTreeMap::from([("compute capability".to_owned(), "9.0".to_owned())]),
                ..Details::default()
            },
        }
    }

    fn read(text: &str) -> Result<Ceilings, CeilingsError> {
        let (_directory, [path]) = flopgap_testing::paths(["ceilings.json"]);
        fs::write(&path, text).unwrap();
        Ceilings::read(&path)
    }

    fn message(text: &str) -> String {
        let error = read(text).unwrap_err().to_string();
        // Without the temporary directory.
        error.split_once("ceilings.json: ").unwrap().1.to_owned()
    }

    #[test]
    fn what_is_written_is_read() {
        let (_directory, [path]) = flopgap_testing::paths(["ceilings.json"]);
        ceilings().write(&path).unwrap();
        assert_eq!(Ceilings::read(&path).unwrap(), ceilings());
        assert!(fs::read_to_string(&path).unwrap().starts_with("{\n  \"format\": \"flopgap-ceilings\",\n"));
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let good = ceilings().to_json().unwrap();
        assert!(message("").contains("EOF while parsing a value at line 1 column 0"));
        assert!(message("{}").contains("the field `format` is missing"));
        let other = good.replace("flopgap-ceilings", "flopgap-plan");
        assert!(message(&other).contains("its format is `flopgap-plan`; expected `flopgap-ceilings`"));
        let newer = good.replace("\"version\": 1", "\"version\": 7");
        assert_eq!(message(&newer), "format version 7 is newer than the supported version 1");
        let cut = &good[..good.len() / 2];
        assert!(message(cut).contains("not a ceilings file: EOF"));
        let without = good.replace("\"peaks\"", "\"hills\"");
        assert!(message(&without).contains("missing field `peaks`"));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_with_their_place() {
        let zero = ceilings().to_json().unwrap().replace("2000.0", "0.0");
        assert_eq!(message(&zero), "launch_ns is 0; expected a positive number");
        let negative = ceilings().to_json().unwrap().replace("900000000000000.0", "-5.0");
        assert_eq!(message(&negative), "the peak of fp16 is -5; expected a positive number");
    }

    #[test]
    fn another_machine_is_refused() {
        let nine = BTreeMap::from([("compute capability".to_owned(), "9.0".to_owned())]);
        let eight = BTreeMap::from([("compute capability".to_owned(), "8.0".to_owned())]);
        let ceilings = ceilings();
        assert!(ceilings.expect_machine("cuda", "NVIDIA H200", &nine).is_ok());
        let message = |error: CeilingsError| error.to_string();
        assert_eq!(
            message(ceilings.expect_machine("cuda", "NVIDIA L4", &nine).unwrap_err()),
            "ceilings are from another machine: the device is NVIDIA H200 there and NVIDIA L4 here"
        );
        assert!(
            message(ceilings.expect_machine("cpu", "EPYC", &nine).unwrap_err()).contains("kind of device")
        );
        let error = ceilings.expect_machine("cuda", "NVIDIA H200", &eight).unwrap_err();
        assert!(message(error).contains("compute capability is 9.0 there and 8.0 here"));
    }

    #[test]
    fn the_fastest_peak_of_a_precision_counts() {
        assert!(ceilings().peak(Precision::Fp16).unwrap().ops_per_second.value > 8e14);
        assert!(ceilings().peak(Precision::Int8).is_none());
        assert!(ceilings().level("HBM").is_some() && ceilings().level("L1").is_none());
    }
}
