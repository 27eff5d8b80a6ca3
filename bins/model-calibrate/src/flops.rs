//! `model-calibrate flops MODEL`: what a model computes, by layer or module.

use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure, FormatArg};
use flopgap_graph::{Graph, GraphError, Layer, StatedShape};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table, TextOptions};
use serde_json::{Value, json};

use crate::PROGRAM;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An ONNX model, or a .pt2 archive that torch.export.save wrote.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Sizes that the model leaves open: of an input, `input=8x3x224x224`, or of a dimension, `batch=8`.
    #[arg(long, value_name = "NAME=SIZES")]
    shape: Vec<StatedShape>,
    /// What a row stands for.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// One operation of the model.
    #[default]
    Layer,
    /// A module with all that it contains.
    Module,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shapes = arguments.shape.iter().cloned().collect();
    let graph = flopgap_graph::read(&arguments.model, &shapes).map_err(|error| failure(&error))?;
    let result = match arguments.format {
        FormatArg::Json => in_json(&graph),
        format => table(&graph, arguments.by).and_then(|table| {
            Ok(table.render(format.into(), &TextOptions::for_stdout()).map_err(|error| report(&error))?)
        }),
    }?;
    flopgap_cli::print(&result)?;
    for layer in graph.unknown() {
        let shapes = |tensors: &[usize]| {
            tensors.iter().map(|&tensor| shape(&graph, tensor)).collect::<Vec<_>>().join(", ")
        };
        flopgap_cli::warn(
            PROGRAM,
            format!(
                "{}: {} has no formula and is in no total: {} -> {}",
                layer.name,
                layer.operator,
                shapes(&layer.inputs),
                shapes(&layer.outputs)
            ),
        );
    }
    Ok(())
}

/// How an error of the library ends this program.
pub(crate) fn failure(error: &GraphError) -> Failure {
    let exit = match error {
        GraphError::Shape { .. } => Exit::Usage,
        error if error.is_absence() => Exit::Absent,
        _ => Exit::Failed,
    };
    Failure::from_error(error).maybe_hint(error.hint().as_deref()).exit(exit)
}

fn report(error: &ReportError) -> Failure {
    Failure::from_error(error)
}

fn shape(graph: &Graph, tensor: usize) -> String {
    let tensor = &graph.tensors[tensor];
    let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    if sizes.is_empty() { "scalar".to_owned() } else { sizes.join("x") }
}

fn table(graph: &Graph, by: By) -> Result<Table, Failure> {
    let _ = by;
    let mut table = Table::new(
        graph.name.clone(),
        [
            Column::text("layer", "layer"),
            Column::text("operator", "operator"),
            Column::number("macs", "MACs"),
            Column::number("flops", "FLOPs"),
        ],
    )
    .map_err(|error| report(&error))?;
    for layer in &graph.layers {
        table.push(row(layer)?).map_err(|error| report(&error))?;
    }
    let total = graph.work().map_err(|error| failure(&error))?;
    let macs = graph.multiply_adds().map_err(|error| failure(&error))?;
    table
        .push([Cell::text("total"), Cell::text(""), Cell::from(macs), Cell::from(total.flops)])
        .map_err(|error| report(&error))?;
    Ok(table)
}

fn row(layer: &Layer) -> Result<[Cell; 4], Failure> {
    let macs = layer
        .op
        .as_ref()
        .map(|op| op.multiply_adds())
        .transpose()
        .map_err(|error| Failure::from_error(&error))?;
    Ok([
        Cell::text(layer.name.clone()),
        Cell::text(layer.operator.clone()),
        macs.into(),
        layer.work.map(|work| work.flops).into(),
    ])
}

fn in_json(graph: &Graph) -> Result<String, Failure> {
    let layers: Vec<Value> = graph.layers.iter().map(|layer| json!({"name": layer.name, "module": layer.module, "operator": layer.operator, "op": layer.op, "work": layer.work})).collect();
    Ok(format!("{:#}", json!({"name": graph.name, "layers": layers})))
}
