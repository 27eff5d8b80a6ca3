//! The model to estimate.

use std::path::PathBuf;

use flopgap_cli::{Exit, Failure};
use flopgap_flops::Activation;
use flopgap_graph::{Graph, MlpSpec, PlannedStep, StatedShape, Workload, plan};

use crate::load::of_graph;

#[derive(clap::Args)]
pub(crate) struct ModelOptions {
    /// ONNX model, or `.pt2` archive of torch.export.save
    #[arg(value_name = "MODEL", conflicts_with = "input")]
    model: Option<PathBuf>,
    /// Sizes that the model leaves open: `input=8x3x224x224` for an input, `batch=8` for a
    /// dimension
    #[arg(long, value_name = "NAME=SIZES", requires = "model")]
    shape: Vec<StatedShape>,
    /// Input features of a fully connected network
    #[arg(long, value_name = "FEATURES", requires = "output")]
    input: Option<u64>,
    /// Widths of its hidden layers, such as 512,512
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', requires = "input")]
    hidden: Vec<u64>,
    /// Its output features
    #[arg(long, value_name = "FEATURES", requires = "input")]
    output: Option<u64>,
    /// Samples per call of the fully connected network
    #[arg(long, value_name = "SAMPLES", default_value_t = 1, requires = "input")]
    batch: u64,
    /// Activation after each of its hidden layers
    #[arg(long, value_name = "NAME", default_value = "relu", requires = "input")]
    #[arg(value_parser = |text: &str| text.parse::<Activation>().map_err(|error| error.to_string()))]
    activation: Activation,
}

/// A model as the steps that engines run.
pub(super) struct Model {
    pub(super) name: String,
    pub(super) steps: Vec<PlannedStep>,
    /// The layer that each step is named after.
    pub(super) layers: Vec<String>,
    /// Descriptions of the layers without a formula.
    pub(super) unknown: Vec<String>,
}

impl ModelOptions {
    pub(super) fn model(&self) -> Result<Model, Failure> {
        if let Some(path) = &self.model {
            let shapes = self.shape.iter().cloned().collect();
            let graph = flopgap_graph::read(path, &shapes).map_err(|error| of_graph(&error))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            return of(name.unwrap_or_default(), &graph);
        }
        let (Some(input), Some(output)) = (self.input, self.output) else {
            let hint = "pass MODEL.onnx, MODEL.pt2, or a network as --input I --hidden H,H --output O";
            return Err(Failure::new("no model to estimate").exit(Exit::Usage).hint(hint));
        };
        let (hidden, batch, activation) = (self.hidden.clone(), self.batch, self.activation);
        let workload = Workload::Mlp(MlpSpec { input, hidden, output, batch, activation });
        let graph = workload.graph().map_err(|error| of_graph(&error))?;
        of(workload.label(), &graph)
    }
}

fn of(name: String, graph: &Graph) -> Result<Model, Failure> {
    let steps = plan(graph).map_err(|error| of_graph(&error))?;
    let layers = steps.iter().map(|step| layer_name(graph, step)).collect();
    let unknown = graph
        .unknown()
        .map(|layer| {
            let shapes: Vec<String> =
                layer.outputs.iter().map(|&tensor| format!("{:?}", graph.tensors[tensor].shape)).collect();
            format!("{} `{}` {}", layer.operator, layer.name, shapes.join(", "))
        })
        .collect();
    Ok(Model { name, steps, layers, unknown })
}

/// The module of a step's operation, or the layer's own name where the model has no modules.
fn layer_name(graph: &Graph, step: &PlannedStep) -> String {
    let Some(layer) = step.layers.first().and_then(|&index| graph.layers.get(index)) else {
        return String::new();
    };
    if layer.module.is_empty() { layer.name.clone() } else { layer.module.clone() }
}
