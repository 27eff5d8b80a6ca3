//! Reads a model from a file of any kind.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
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
        [b'P', b'K', 3, 4] => pt2::read(path, file, shapes),
        [b'P', b'K', 5, 6] => Err(unknown("it is an empty zip archive")),
        [0x80, 2..=5, ..] => Err(unknown("it is a pickle, which holds code, not a graph")),
        _ => onnx::read(path, &file, shapes),
    }
}
