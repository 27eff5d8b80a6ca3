//! The model to estimate.

use std::path::{Path, PathBuf};

use flopgap_cli::{Exit, Failure};
use flopgap_flops::{Activation, ElementType, Precision};
use flopgap_graph::language::is_language_model;
use flopgap_graph::{Graph, MlpSpec, Op, PlannedStep, StatedShape, Tensor, Workload, each_layer, plan};
use flopgap_roofline::pytorch::Gradients;

use crate::load::of_graph;

#[derive(clap::Args)]
pub(crate) struct ModelOptions {
    /// ONNX model, `.pt2` archive of torch.export.save, or config.json of a language model
    #[arg(value_name = "MODEL", conflicts_with = "widths")]
    model: Option<PathBuf>,
    /// Sizes that the model leaves open: `input=8x3x224x224` for an input, `batch=8` for a
    /// dimension
    #[arg(long, value_name = "NAME=SIZES", requires = "model")]
    shape: Vec<StatedShape>,
    /// Widths of a fully connected network from inputs to outputs, such as 784,512,512,10
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',')]
    widths: Vec<u64>,
    /// Samples in a batch of the fully connected network, or sequences of the language model
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u64).range(1..1 << 24))]
    batch: Option<u64>,
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
    /// What a file computes in; `None` of a network that only has sizes, and of one without
    /// floats.
    pub(super) own: Option<ElementType>,
    graph: Graph,
}

impl Model {
    /// The same model with a step for each layer.
    pub(super) fn by_layer(self) -> Self {
        let steps = each_layer(&self.graph);
        let layers = steps.iter().map(|step| layer_name(&self.graph, step)).collect();
        Self { steps, layers, ..self }
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether anything in it is a convolution.
    pub(super) fn has_convolutions(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.step.op, Op::Conv(_)))
    }

    /// The requested precision, or else that of the model.
    pub(super) fn precision(&self, requested: Option<Precision>) -> Result<Precision, Failure> {
        let own = || self.own.map_or(Some(Precision::Fp32), Precision::of);
        requested.or_else(own).ok_or_else(|| {
            let own = self.own.map_or("unknown types", ElementType::name);
            Failure::new(format!("{}: computes in {own}, which is not estimated", self.name))
                .hint("`--precision PRECISION` estimates it in fp32, tf32, fp16, bf16 or int8")
        })
    }

    /// Bytes of the parameters that training changes.
    pub(super) fn trained_bytes(&self, precision: Precision) -> Result<u64, Failure> {
        let gradients = Gradients::new(&self.graph);
        let elements: Result<Vec<u64>, _> = gradients.trained(&self.graph).map(Tensor::elements).collect();
        let elements = elements.map_err(|error| Failure::new(format!("{}: {error}", self.name)))?;
        let elements = elements.into_iter().fold(0, u64::saturating_add);
        Ok(elements.saturating_mul(precision.element().bytes()))
    }

    /// Bytes that any engine holds at a time: all parameters, and what the largest step reads and
    /// writes beside them.
    pub(super) fn least_bytes(&self, precision: Precision) -> Result<u64, Failure> {
        let bytes = |tensor: usize| {
            let tensor = &self.graph.tensors[tensor];
            let width = match tensor.element {
                Some(_) => precision.element().bytes(),
                None => tensor.element_bytes,
            };
            tensor.elements().map(|elements| elements.saturating_mul(width))
        };
        let mut most = 0_u64;
        for step in &self.steps {
            let mut touched: Vec<usize> = step.operands.iter().chain(&step.outputs).copied().collect();
            touched.extend(step.residual);
            touched.retain(|&tensor| !self.graph.tensors[tensor].parameter);
            touched.sort_unstable();
            touched.dedup();
            let sizes: Result<Vec<u64>, _> = touched.into_iter().map(bytes).collect();
            most = most.max(sizes?.into_iter().fold(0, u64::saturating_add));
        }
        let width = precision.element().bytes();
        let parameters = self.graph.parameters().map_err(|error| of_graph(&error))?;
        Ok(parameters.saturating_mul(width).saturating_add(most))
    }
}

impl ModelOptions {
    /// The file, if it is the configuration of a language model.
    pub(super) fn language(&self) -> Option<&Path> {
        // A file that cannot be read is reported by the reader of models.
        self.model.as_deref().filter(|path| is_language_model(path).unwrap_or(false))
    }

    /// Samples or sequences.
    pub(super) fn batch(&self) -> u64 {
        self.batch.unwrap_or(1)
    }

    /// The model, where `train` as a training step runs it.
    pub(super) fn model(&self, train: bool) -> Result<Model, Failure> {
        if let Some(path) = &self.model {
            if self.batch.is_some() {
                let hint = "`--shape batch=N` specifies a dimension of a model that leaves it open";
                return Err(Failure::new("--batch is for --widths and language models")
                    .exit(Exit::Usage)
                    .hint(hint));
            }
            let shapes = self.shape.iter().cloned().collect();
            let read = if train { flopgap_graph::read_training } else { flopgap_graph::read };
            let graph = read(path, &shapes).map_err(|error| of_graph(&error))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let own = graph.arithmetic().map_err(|error| of_graph(&error))?;
            return of(name.unwrap_or_default(), graph, own);
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
        let (batch, activation) = (self.batch(), self.activation);
        let workload = Workload::Mlp(MlpSpec { input, hidden, output, batch, activation });
        let graph = workload.graph().map_err(|error| of_graph(&error))?;
        of(workload.label(), graph, None)
    }
}

fn of(name: String, graph: Graph, own: Option<ElementType>) -> Result<Model, Failure> {
    let steps = plan(&graph).map_err(|error| of_graph(&error))?;
    let layers = steps.iter().map(|step| layer_name(&graph, step)).collect();
    let unknown: Vec<String> = graph
        .unknown()
        .map(|layer| {
            let shapes: Vec<String> =
                layer.outputs.iter().map(|&tensor| format!("{:?}", graph.tensors[tensor].shape)).collect();
            format!("{} `{}` {}", layer.operator, layer.name, shapes.join(", "))
        })
        .collect();
    if steps.is_empty() {
        let message = format!("{name}: nothing to estimate");
        return Err(if unknown.is_empty() {
            Failure::new(message + ": no layer computes anything")
        } else {
            Failure::new(format!("{message}: no formula for {}", unknown.join("; ")))
        });
    }
    Ok(Model { name, steps, layers, unknown, own, graph })
}

/// The module of a step's operation, or the layer's own name where the model has no modules.
fn layer_name(graph: &Graph, step: &PlannedStep) -> String {
    let Some(layer) = step.layers.first().and_then(|&index| graph.layers.get(index)) else {
        return String::new();
    };
    if layer.module.is_empty() { layer.name.clone() } else { layer.module.clone() }
}
