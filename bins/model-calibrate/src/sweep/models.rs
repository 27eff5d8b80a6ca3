//! Users' models, measured as given.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flopgap_calibration::engines::ModelFile;
use flopgap_cli::Failure;
use flopgap_flops::{Activation, Precision};
use flopgap_graph::{FileSpec, Graph, MlpSpec, Mode, StatedShape, Workload, plan};
use sha2::{Digest as _, Sha256};

use super::arguments::{Options, Widths};
use crate::load::of_graph;
use flopgap_calibration::grid::Point;

/// A model from a file.
#[derive(Debug, Clone)]
pub(crate) struct UserModel {
    pub(crate) path: PathBuf,
    pub(crate) spec: FileSpec,
    /// The sizes that the caller stated.
    pub(crate) shapes: BTreeMap<String, Vec<u64>>,
    /// Whether it is an archive of `torch.export`, and not ONNX.
    pub(crate) is_archive: bool,
    /// Descriptions of layers that are not understood.
    pub(crate) unknown: Vec<String>,
}

impl UserModel {
    /// What engines that load the file receive.
    pub(crate) fn file(&self) -> ModelFile {
        ModelFile { path: self.path.clone(), shapes: self.shapes.clone() }
    }

    /// Whether an engine of this name can be given the model: one that loads the file needs a file
    /// of its kind; one that runs steps needs to know all of them, or its time would be another
    /// model's.
    pub(crate) fn suits(&self, engine: &str) -> Result<(), String> {
        match engine {
            "ort" if self.is_archive => Err("it reads only ONNX, and this is a .pt2 archive".to_owned()),
            "ort" => Ok(()),
            name if name.starts_with("torch") && !self.is_archive => {
                Err("it reads only .pt2 archives, and this is ONNX".to_owned())
            }
            name if name.starts_with("torch") => Ok(()),
            _ => match self.unknown.first() {
                None => Ok(()),
                Some(first) => {
                    let layers = self.unknown.len();
                    Err(format!("{layers} layers have no known operation, the first {first}"))
                }
            },
        }
    }
}

/// Reads the models that are requested.
///
/// # Errors
/// A file that is none, or leaves sizes open.
pub(crate) fn read(options: &Options) -> Result<Vec<UserModel>, Failure> {
    options.model.iter().map(|path| read_one(path, &options.shape)).collect()
}

fn read_one(path: &Path, stated: &[StatedShape]) -> Result<UserModel, Failure> {
    let graph =
        flopgap_graph::read(path, &stated.iter().cloned().collect()).map_err(|error| of_graph(&error))?;
    let steps = plan(&graph).map_err(|error| of_graph(&error))?;
    let steps = steps.into_iter().map(|planned| planned.step).collect();
    let name =
        path.file_stem().map_or_else(|| graph.name.clone(), |stem| stem.to_string_lossy().into_owned());
    let unknown = graph.unknown().map(|layer| format!("{} `{}`", layer.operator, layer.name)).collect();
    let (sha256, is_archive) = digest(path)?;
    let spec = FileSpec { name, sha256, batch: batch(&graph), steps };
    let shapes = stated.iter().map(|stated| (stated.name.clone(), stated.sizes.clone())).collect();
    Ok(UserModel { path: path.to_owned(), spec, shapes, is_archive, unknown })
}

/// The first size of the first input, which is that of the samples by custom; 1 for a model without
/// inputs.
fn batch(graph: &Graph) -> u64 {
    let first = graph.inputs.first().and_then(|&tensor| graph.tensors.get(tensor));
    first.and_then(|tensor| tensor.shape.first().copied()).unwrap_or(1)
}

/// The SHA-256 of a file, hexadecimal, and whether it is a zip archive.
fn digest(path: &Path) -> Result<(String, bool), Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut part = vec![0; 1 << 16];
    let mut is_archive = None;
    loop {
        match file.read(&mut part).map_err(failed)? {
            0 => break,
            length => {
                is_archive.get_or_insert(part[..length].starts_with(b"PK"));
                hasher.update(&part[..length]);
            }
        }
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok((text, is_archive.unwrap_or(false)))
}

/// The models, and the networks that widths describe (`None`), in the precisions and modes that are
/// requested; in fp32 where none is.
pub(crate) fn points<'m>(
    models: &'m [UserModel],
    options: &Options,
    launched: &[Mode],
) -> Vec<(Option<&'m UserModel>, Point)> {
    let precisions = if options.precision.is_empty() { &[Precision::Fp32] } else { &options.precision[..] };
    let batches = if options.batch.is_empty() { &[1] } else { &options.batch[..] };
    let networks = options.widths.iter().flat_map(|widths| {
        batches.iter().map(|&batch| {
            let Widths { input, hidden, output } = widths.clone();
            let activation = Activation::Relu;
            (None, Workload::Mlp(MlpSpec { input, hidden, output, batch, activation }))
        })
    });
    let files = models.iter().map(|model| (Some(model), Workload::File(model.spec.clone())));
    let mut points = Vec::new();
    for (model, workload) in files.chain(networks) {
        for &precision in precisions {
            for &mode in launched {
                points.push((model, Point { workload: workload.clone(), mode, precision }));
            }
        }
    }
    points
}
