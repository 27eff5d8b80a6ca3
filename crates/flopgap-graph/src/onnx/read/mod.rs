//! Reads ONNX models.

mod broadcast;
mod equation;
mod external;
mod flow;
mod fold;
mod function;
mod infer;
mod meaning;
mod node;
mod order;
mod rare;
mod slice;
mod types;
mod walk;
mod wire;

use std::fs::File;
use std::io;
use std::path::Path;

use rten_onnx::onnx::{ModelProto, OperatorSetIdProto};
use rten_onnx::protobuf::{DecodeMessage as _, ValueReader};

use crate::error::GraphError;
use crate::graph::Graph;
use crate::shapes::Shapes;
use external::External;
use function::Extras;
use walk::Walk;
use wire::Malformed;

/// The operator sets whose rules this crate knows.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;

/// Whether a file begins as a model does.
pub(crate) fn is_model(file: &File) -> io::Result<bool> {
    wire::begins_as_model(file)
}

/// Reads a model.
pub(crate) fn read(path: &Path, file: &File, shapes: &Shapes) -> Result<Graph, GraphError> {
    let failed = |source| GraphError::Read { path: path.to_owned(), source };
    let unknown = |reason: String| GraphError::Unknown { path: path.to_owned(), reason };
    let outline = match wire::outline(file) {
        Ok(outline) if outline.model => outline,
        Ok(_) => return Err(unknown("it has neither the version nor the graph of an ONNX model".to_owned())),
        Err(Malformed::Read(source)) => return Err(failed(source)),
        // A file that begins like a model is truncated or damaged.
        Err(Malformed::At(place, reason)) if place > 16 => {
            return Err(GraphError::Damaged {
                path: path.to_owned(),
                place: format!("byte {place}"),
                reason: format!("{reason}; the file is truncated or damaged"),
            });
        }
        Err(Malformed::At(place, reason)) => return Err(unknown(format!("{reason}, at byte {place}"))),
    };
    let damaged = |error: rten_onnx::protobuf::ProtobufError| GraphError::Damaged {
        path: path.to_owned(),
        place: "model".to_owned(),
        reason: error.to_string(),
    };
    let open = || File::open(path).map_err(failed);
    let model = ModelProto::parse_file(open()?).map_err(damaged)?;
    let extras = Extras::decode(ValueReader::from_file(open()?)).map_err(damaged)?;
    let opset = opset(path, &model.opset_import)?;
    let Some(proto) = &model.graph else {
        return Err(unknown("it has no graph".to_owned()));
    };
    let external = External::new(path, proto)?;
    let mut walk = Walk::new(path, opset, shapes, &extras, external);
    walk.graph(proto, &outline.modules)?;
    Ok(walk.into_graph())
}

/// The version of the standard operators among the sets that a model or function imports.
fn standard_set(imports: &[OperatorSetIdProto]) -> Option<&OperatorSetIdProto> {
    imports.iter().find(|set| matches!(set.domain.as_deref(), None | Some("" | "ai.onnx")))
}

fn opset(path: &Path, imports: &[OperatorSetIdProto]) -> Result<i64, GraphError> {
    let standard = standard_set(imports);
    let version = standard.and_then(|set| set.version);
    match version {
        Some(version) if OPSETS.contains(&version) => Ok(version),
        None if standard.is_none() && !imports.is_empty() => {
            let of = imports.iter().filter_map(|set| set.domain.as_deref());
            Err(GraphError::Version {
                path: path.to_owned(),
                what: "operators",
                found: of.collect::<Vec<_>>().join(", "),
                known: "those of ai.onnx, operator sets 7 to 28",
            })
        }
        _ => Err(GraphError::Version {
            path: path.to_owned(),
            what: "opset",
            found: version.map_or_else(|| "none".to_owned(), |version| version.to_string()),
            known: "7 to 28",
        }),
    }
}
