//! Errors of models and workloads.

use std::io;
use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::FlopError;

/// An error of reading, counting or writing a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A size or count is impossible or too large.
    #[error("{place}: cannot be counted")]
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
        /// The reason.
        reason: String,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a model of a known kind.
    #[error("{}: neither an ONNX model nor a `.pt2` archive of `torch.export`: {reason}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What it appears to be instead.
        reason: String,
    },
    /// The file is of a known kind, but damaged or incomplete.
    #[error("{}: {place}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position: an archive member, a node, a tensor.
        place: String,
        /// The damage.
        reason: String,
    },
    /// The file has an unsupported version.
    #[error("{}: unsupported {what} {found}; supported: {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The kind of version: `opset`, `schema version`.
        what: &'static str,
        /// The file's version.
        found: String,
        /// The supported versions.
        known: &'static str,
    },
    /// Dimensions that the file leaves open.
    #[error("{}: the file leaves the sizes of {} open", path.display(), list(names))]
    Dynamic {
        /// The file.
        path: PathBuf,
        /// Dimensions by name, or `input[0]` where they have none.
        names: Vec<String>,
        /// Sizes for the first of them, as [`Shapes`](crate::Shapes) reads them: `input=1x784`.
        example: String,
    },
    /// Which nodes run, or how often, depends on values that only a run has.
    #[error("{}: what `{node}` runs ({operator}) depends on values that are not in the file, so the sizes of `{output}` are open", path.display())]
    Flow {
        /// The file.
        path: PathBuf,
        /// The node.
        node: String,
        /// `If`, `Loop` or `Scan`.
        operator: String,
        /// Its first result with open sizes.
        output: String,
    },
    /// An operator cannot have these operands.
    #[error("{}: node `{node}`: {reason}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The node.
        node: String,
        /// The operator and the shapes of its operands.
        reason: String,
        /// Whether the caller specified sizes.
        given: bool,
    },
    /// A given shape names nothing in the model.
    #[error("{}: no input or dimension `{name}`; the model has {}", path.display(), list(known))]
    NoSuchShape {
        /// The file.
        path: PathBuf,
        /// The name that was given.
        name: String,
        /// The names in the model.
        known: Vec<String>,
    },
    /// A given shape contradicts the model.
    #[error("{}: input `{name}` is {stated} in the file, but {given} was given", path.display())]
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
    /// A given shape cannot be parsed.
    #[error("invalid shape `{text}`: {reason}")]
    Shape {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Parameters whose values decide about shapes are in another file, which is missing.
    #[error("{}: `{location}` with {count} tensors (first `{tensor}`) is missing", path.display())]
    ExternalData {
        /// The model.
        path: PathBuf,
        /// The number of its tensors.
        count: usize,
        /// The first of them.
        tensor: String,
        /// The missing file, as the model names it.
        location: String,
    },
    /// The graph cannot be written.
    #[error("{what} cannot be written as ONNX: {reason}")]
    Write {
        /// The layer or graph.
        what: String,
        /// The reason.
        reason: String,
    },
}

impl Hint for GraphError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::Dynamic { example, .. } => Some(format!("specify the sizes, such as `{example}`").into()),
            Self::Flow { output, .. } => Some(
                format!("export the model with what runs, or specify the sizes, such as `{output}=1x64`")
                    .into(),
            ),
            Self::Mismatch { given: true, .. } => Some("check the sizes that are specified".into()),
            Self::Mismatch { .. } => Some("export the model again".into()),
            Self::Shape { .. } => {
                Some("write `NAME=8x3x224x224` for an input, `NAME=8` for a dimension".into())
            }
            Self::ExternalData { location, .. } => {
                Some(format!("copy `{location}` to the directory of the model").into())
            }
            Self::Unknown { .. } => Some(
                "export the model with `torch.onnx.export`, or with `torch.export.save` to a `.pt2` file"
                    .into(),
            ),
            Self::Damaged { .. } => Some("copy or export the model again".into()),
            Self::Version { what: "opset", .. } => {
                Some("convert the model with `onnx.version_converter`".into())
            }
            Self::Version { what: "schema version", .. } => {
                Some("export the model again with a supported version of PyTorch".into())
            }
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::Absent,
            Self::ExternalData { .. } | Self::NoSuchShape { .. } => ErrorKind::Absent,
            Self::Shape { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        }
    }
}

impl GraphError {
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
