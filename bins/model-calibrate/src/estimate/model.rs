//! The model to estimate.

use std::path::PathBuf;

use flopgap_cli::{Exit, Failure};
use flopgap_flops::Activation;
use flopgap_graph::{Graph, MlpSpec, PlannedStep, StatedShape, Workload, plan};

use crate::load::of_graph;

#[derive(clap::Args)]
pub(crate) struct ModelOptions {
    /// ONNX model, or `.pt2` archive of torch.export.save
    #[arg(value_name = "MODEL", conflicts_with = "widths")]
    model: Option<PathBuf>,
    /// Sizes that the model leaves open: `input=8x3x224x224` for an input, `batch=8` for a
    /// dimension
    #[arg(long, value_name = "NAME=SIZES", requires = "model")]
    shape: Vec<StatedShape>,
    /// Widths of a fully connected network from inputs to outputs, such as 784,512,512,10
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',')]
    widths: Vec<u64>,
    /// Samples in a batch of the fully connected network
    #[arg(long, value_name = "SAMPLES", default_value_t = 1, requires = "widths")]
    batch: u64,
    /// Activation of its hidden layers
    #[arg(long, value_name = "NAME", default_value = "relu", requires = "widths")]
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
        let [input, hidden @ .., output] = self.widths.as_slice() else {
            let message = match self.widths.as_slice() {
                [] => "no model to estimate".to_owned(),
                only => format!("--widths: expected two or more widths, found {}", only.len()),
            };
            let hint = "pass MODEL.onnx, MODEL.pt2, or a network as --widths INPUTS,HIDDEN,HIDDEN,OUTPUTS";
            return Err(Failure::new(message).exit(Exit::Usage).hint(hint));
        };
        let (input, output, hidden) = (*input, *output, hidden.to_vec());
        let (batch, activation) = (self.batch, self.activation);
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
