//! `flopgap calibrate flops MODEL`: the work of a model, by layer or module.

mod modules;

use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_flops::Work;
use flopgap_graph::{Graph, GraphError, Layer, Op, StatedShape};
use flopgap_report::table::{Cell, Column, Format, Table};
use serde_json::{Value, json};

use crate::PROGRAM;
use crate::load::of_graph;
use modules::Module;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate flops fixtures/models/resnet18.pt2 --by module --depth 1
  flopgap calibrate flops fixtures/models/mlp_old.onnx --shape batch=32 -o flops.csv")]
pub(crate) struct Arguments {
    /// ONNX model, or `.pt2` archive of torch.export.save
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Sizes that the model leaves open: `input=8x3x224x224` for an input, `batch=8` for a
    /// dimension
    #[arg(long, value_name = "NAME=SIZES")]
    shape: Vec<StatedShape>,
    /// Group rows by this
    #[arg(long, value_enum, value_name = "GROUP", default_value_t)]
    by: By,
    /// Show modules down to this depth; 1 shows those of the model itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    depth: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// One row for each operation
    #[default]
    Layer,
    /// One row for each module, with all that it contains
    Module,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    if arguments.depth.is_some() && arguments.by == By::Layer {
        return Err(Failure::new("--depth requires --by module").exit(Exit::Usage));
    }
    let shapes = arguments.shape.iter().cloned().collect();
    let read = || flopgap_graph::read(&arguments.model, &shapes);
    let what = format_args!("{}: model, read", arguments.model.display());
    let graph = console.timed(what, read).map_err(|error| of_graph(&error))?;
    let output = &arguments.output;
    let result = match (output.format(), arguments.by) {
        (Format::Json, _) => in_json(arguments, &graph)?,
        (format, By::Layer) => by_layer(&graph, format)?.render(format, &output.text())?,
        (format, By::Module) => by_module(&graph, arguments.depth)?.render(format, &output.text())?,
    };
    output.write(console, &result)?;
    flopgap_cli::warn_all(PROGRAM, graph.unknown().map(|layer| unknown(&graph, layer)));
    Ok(())
}

/// Shapes of tensors, such as `1x64x56x56, 64x64x3x3`.
fn shapes(graph: &Graph, tensors: &[usize]) -> String {
    let shape = |tensor: &usize| {
        let sizes: Vec<String> = graph.tensors[*tensor].shape.iter().map(u64::to_string).collect();
        if sizes.is_empty() { "scalar".to_owned() } else { sizes.join("x") }
    };
    tensors.iter().map(shape).collect::<Vec<_>>().join(", ")
}

fn unknown(graph: &Graph, layer: &Layer) -> String {
    format!(
        "{}: {} has no formula and is in no total: {} -> {}",
        layer.name,
        layer.operator,
        shapes(graph, &layer.inputs),
        shapes(graph, &layer.outputs)
    )
}

fn multiply_adds(layer: &Layer) -> Result<Option<u64>, Failure> {
    let count = layer.op.as_ref().map(Op::multiply_adds).transpose();
    count.map_err(|error| Failure::from_error(&error))
}

/// The columns behind the first.
fn columns() -> [Column; 5] {
    [
        Column::number("macs", "MACs").rank(3),
        Column::number("flops", "FLOPs").rank(0),
        Column::number("bytes_read", "read").unit("B"),
        Column::number("bytes_written", "written").unit("B"),
        Column::number("intensity", "FLOP/B"),
    ]
}

/// The cells of those columns.
fn cells(macs: Option<u64>, work: Option<Work>) -> Result<[Cell; 5], Failure> {
    let bytes = work.map(|work| work.bytes()).transpose()?;
    let moved = work.zip(bytes).filter(|(_, bytes)| *bytes > 0);
    let intensity = moved.map(|(work, bytes)| work.flops as f64 / bytes as f64);
    Ok([
        macs.into(),
        work.map(|work| work.flops).into(),
        work.map(|work| work.bytes_read).into(),
        work.map(|work| work.bytes_written).into(),
        Cell::optional(intensity, |intensity| Cell::float(intensity, 2)),
    ])
}

fn total(graph: &Graph) -> Result<[Cell; 5], Failure> {
    let macs = graph.multiply_adds().map_err(|error| of_graph(&error))?;
    cells(Some(macs), Some(graph.work().map_err(|error| of_graph(&error))?))
}

fn by_layer(graph: &Graph, format: Format) -> Result<Table, Failure> {
    let first = [
        Column::text("layer", "layer"),
        Column::text("module", "module").rank(2),
        Column::text("operator", "operator"),
        Column::text("output", "output").rank(2),
    ];
    // Layers that only change shapes neither compute nor move anything, so their rows would be all
    // zeros.
    let views = |layer: &&Layer| format.is_csv() || layer.op != Some(Op::View);
    let shown: Vec<&Layer> = graph.layers.iter().filter(views).collect();
    let hidden = graph.layers.len() - shown.len();
    let title = match hidden {
        0 => format!("{}: {} layers", graph.name, shown.len()),
        _ => format!("{}: {} layers, and {hidden} that only change shapes", graph.name, shown.len()),
    };
    let mut table = Table::new(title, first.into_iter().chain(columns()))?;
    for layer in shown {
        let names = [
            Cell::text(layer.name.clone()),
            Cell::text(layer.module.clone()),
            Cell::text(layer.operator.clone()),
            Cell::text(shapes(graph, &layer.outputs)),
        ];
        let counts = cells(multiply_adds(layer)?, layer.work)?;
        table.push(names.into_iter().chain(counts))?;
    }
    let names = [Cell::text("total"), Cell::text(""), Cell::text(""), Cell::text("")];
    table.push(names.into_iter().chain(total(graph)?))?;
    Ok(table)
}

fn by_module(graph: &Graph, depth: Option<u64>) -> Result<Table, Failure> {
    let modules = modules::of(graph)?;
    let first = [
        Column::text("module", "module"),
        Column::number("layers", "layers").rank(2),
        Column::number("unknown", "unknown"),
        Column::number("parameters", "parameters"),
    ];
    let title = format!("{}: modules with all that they contain", graph.name);
    let mut table = Table::new(title, first.into_iter().chain(columns()))?;
    let shown = modules.iter().filter(|module| depth.is_none_or(|depth| module.depth() <= depth));
    for module in shown {
        let name = if module.path.is_empty() { "(model)" } else { module.path.as_str() };
        let counts = [
            Cell::text(name),
            Cell::from(module.layers),
            Cell::from(module.unknown),
            Cell::from(module.parameters),
        ];
        table.push(counts.into_iter().chain(cells(Some(module.macs), Some(module.work))?))?;
    }
    Ok(table)
}

/// `{"file", "model", "total": {…}, "parameters", "parameter_bytes", "unknown": […], "layers": […],
/// "modules": […]}`.
fn in_json(arguments: &Arguments, graph: &Graph) -> Result<String, Failure> {
    let shape = |tensors: &[usize]| -> Vec<Value> {
        tensors.iter().map(|&tensor| json!(graph.tensors[tensor].shape)).collect()
    };
    let mut layers = Vec::new();
    for layer in &graph.layers {
        layers.push(json!({
            "name": layer.name,
            "module": layer.module,
            "operator": layer.operator,
            "op": layer.op,
            "inputs": shape(&layer.inputs),
            "outputs": shape(&layer.outputs),
            "macs": multiply_adds(layer)?,
            "work": layer.work,
        }));
    }
    let modules = modules::of(graph)?;
    let shown = modules.iter().filter(|module| arguments.depth.is_none_or(|depth| module.depth() <= depth));
    let counted = |error: GraphError| of_graph(&error);
    Ok(format!(
        "{:#}",
        json!({
            "file": arguments.model.display().to_string(),
            "model": graph.name,
            "total": {
                "macs": graph.multiply_adds().map_err(counted)?,
                "work": graph.work().map_err(counted)?,
            },
            "parameters": graph.parameters().map_err(counted)?,
            "parameter_bytes": graph.parameter_bytes().map_err(counted)?,
            "unknown": graph.unknown().map(|layer| unknown(graph, layer)).collect::<Vec<_>>(),
            "layers": layers,
            "modules": shown.map(Module::in_json).collect::<Vec<_>>(),
        })
    ))
}
