//! Reads a model from a file of any kind.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::GraphError;
use crate::graph::Graph;
use crate::shapes::Shapes;
use crate::{onnx, pt2};

/// Reads a model: an ONNX file, or a `.pt2` archive that `torch.export.save` wrote. Its content
/// decides which.
///
/// Every value of a model gets a shape, from the file or inferred from the inputs and parameters.
/// `shapes` specifies the sizes that the file leaves open, by the name of an input or of a
/// dimension. An operator without a formula is a layer without work ([`Graph::unknown`]).
///
/// # Errors
/// [`GraphError`] with the file and the place; its hint says what to do.
pub fn read(path: &Path, shapes: &Shapes) -> Result<Graph, GraphError> {
    read_as(path, shapes, false)
}

/// Reads a model as [`read`] does, but as a training step runs it even if it was exported for
/// inference: batch norms of a `.pt2` archive take their statistics from the batch, and dropouts
/// drop. What an export for inference leaves out stays out: stochastic depth, dropout within
/// attention.
///
/// # Errors
/// As [`read`].
pub fn read_training(path: &Path, shapes: &Shapes) -> Result<Graph, GraphError> {
    read_as(path, shapes, true)
}

fn read_as(path: &Path, shapes: &Shapes, training: bool) -> Result<Graph, GraphError> {
    let failed = |source| GraphError::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    let mut start = [0; 4];
    let mut length = 0;
    while length < start.len() {
        match file.read(&mut start[length..]).map_err(failed)? {
            0 => break,
            read => length += read,
        }
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let unknown = |reason: &str| GraphError::Unknown { path: path.to_owned(), reason: reason.to_owned() };
    match start {
        _ if length == 0 => Err(unknown("it is empty")),
        [b'P', b'K', 3, 4] => pt2::read(path, file, shapes, training),
        [b'P', b'K', 5, 6] => Err(unknown("it is an empty zip archive")),
        [0x80, 2..=5, ..] => Err(unknown("it is a pickle, which holds code, not a graph")),
        _ => onnx::read(path, &file, shapes),
    }
}

/// Whether a file is a model that [`read`] reads, by its structure: a zip archive with an exported
/// program, or the outermost fields of an ONNX model up to its graph.
///
/// # Errors
/// When the file cannot be read.
pub fn is_model(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Ok(false);
    }
    let mut start = Vec::new();
    (&mut file).take(4).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    if start == *b"PK\x03\x04" { pt2::is_program(file) } else { onnx::is_model(&file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_recognized() {
        let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"));
        let is = |name: &str| is_model(&fixtures.join(name)).unwrap();
        let mut models = 0;
        for entry in std::fs::read_dir(fixtures.join("models")).unwrap() {
            let path = entry.unwrap().path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let model = ["onnx", "pt2"].contains(&ending);
            assert_eq!(is_model(&path).unwrap(), model, "{}", path.display());
            models += usize::from(model);
        }
        assert!(models > 20, "only {models} models");
        for other in [
            "ncu/h200_range.ncu-rep",
            "nsys/two_gpus.sqlite.zst",
            "kineto/key_averages.csv",
            "dense/mixed.safetensors",
            "models",
        ] {
            assert!(!is(other), "{other}");
        }
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_model(empty.path()).unwrap());
        // A model that ends within its graph is still one, which its reader reports as damaged.
        let bytes = std::fs::read(fixtures.join("models/resnet18.onnx")).unwrap();
        std::fs::write(empty.path(), &bytes[..bytes.len() / 2]).unwrap();
        assert!(is_model(empty.path()).unwrap());
    }
}
