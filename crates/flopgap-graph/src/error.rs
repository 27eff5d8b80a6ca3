//! What can be wrong with a model or a workload.

use std::io;
use std::path::PathBuf;

use flopgap_flops::FlopError;

/// Why a model cannot be read, counted or written. [`hint`](Self::hint) says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A size or count is impossible or too large.
    #[error("{place}: {source}")]
    Count {
        /// The layer or family.
        place: String,
        /// What is wrong.
        source: FlopError,
    },
    /// A workload's sizes describe no network.
    #[error("{what}: {reason}")]
    Workload {
        /// The workload.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is no model of a known kind.
    #[error("{}: neither an ONNX model nor a .pt2 archive of torch.export: {reason}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What it looks like instead.
        reason: String,
    },
    /// The file is of a known kind, and damaged or incomplete.
    #[error("{}: {place}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where: an archive member, a node, a tensor.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// The file is of a version that this crate does not know.
    #[error("{}: {what} {found} is not known; this program reads {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What has the version: `opset`, `schema version`.
        what: &'static str,
        /// The file's.
        found: String,
        /// Those that are known.
        known: &'static str,
    },
    /// Dimensions that the file leaves open.
    #[error("{}: the sizes of {} are not in the file", path.display(), list(names))]
    Dynamic {
        /// The file.
        path: PathBuf,
        /// Dimensions by name, or `input[0]` where they have none.
        names: Vec<String>,
        /// An option that would set the first.
        option: String,
    },
    /// A `--shape` that fits nothing in the model.
    #[error("{}: the model has no input or dimension `{name}`; it has {}", path.display(), list(known))]
    NoSuchShape {
        /// The file.
        path: PathBuf,
        /// The name that was given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A given shape contradicts the model.
    #[error("{}: input `{name}` is {stated} in the file, not {given}", path.display())]
    WrongShape {
        /// The file.
        path: PathBuf,
        /// The input.
        name: String,
        /// Its shape in the file.
        stated: String,
        /// The shape that was given.
        given: String,
    },
    /// A `--shape` that cannot be read.
    #[error("`{text}` is no shape: {reason}")]
    Shape {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Parameters are kept in another file, which is not there.
    #[error("{}: {count} tensors, first `{tensor}`, are in `{location}`, which is not beside it", path.display())]
    ExternalData {
        /// The model.
        path: PathBuf,
        /// How many tensors are there.
        count: usize,
        /// The first of them.
        tensor: String,
        /// The file as the model names it.
        location: String,
    },
    /// The graph cannot be written.
    #[error("{what} cannot be written as ONNX: {reason}")]
    Write {
        /// The layer or graph.
        what: String,
        /// Why not.
        reason: String,
    },
}

impl GraphError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Dynamic { option, .. } => Some(format!("state the sizes, such as {option}")),
            Self::Shape { .. } => {
                Some("write --shape NAME=8x3x224x224 for an input, --shape NAME=8 for a dimension".to_owned())
            }
            Self::ExternalData { location, .. } => {
                Some(format!("copy `{location}` to the folder of the model"))
            }
            Self::Unknown { .. } => Some(
                "export the model with torch.onnx.export, or with torch.export.save to a .pt2 file"
                    .to_owned(),
            ),
            Self::Damaged { .. } => Some("copy or export the model again".to_owned()),
            Self::Version { what: "opset", .. } => {
                Some("convert the model with onnx.version_converter".to_owned())
            }
            Self::Version { .. } => {
                Some("export the model again with a PyTorch of a version that is known".to_owned())
            }
            _ => None,
        }
    }

    /// Whether what was asked for is not there, rather than wrong.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::ExternalData { .. } | Self::NoSuchShape { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn count(place: impl Into<String>) -> impl FnOnce(FlopError) -> Self {
        let place = place.into();
        move |source| Self::Count { place, source }
    }
}

/// The first of some names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => format!("{shown} and {} more", count - SHOWN),
        _ => shown,
    }
}
