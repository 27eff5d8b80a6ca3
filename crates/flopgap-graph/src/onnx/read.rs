//! Reads ONNX models.

mod broadcast;
mod equation;
mod fold;
mod infer;
mod meaning;
mod node;
mod types;
mod wire;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use rten_onnx::onnx::{
    DataLocation, DataType, Dimension, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use rustc_hash::FxHashMap;

use crate::error::GraphError;
use crate::graph::Graph;
use crate::import::{Assembly, Meaning, Place, Stored};
use crate::op::Op;
use crate::shapes::{Shapes, written};
use node::{Known, Node, Operand, known, stored};
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
    let file = File::open(path).map_err(failed)?;
    let model = ModelProto::parse_file(file).map_err(|error| GraphError::Damaged {
        path: path.to_owned(),
        place: "model".to_owned(),
        reason: error.to_string(),
    })?;
    let opset = opset(path, &model)?;
    let Some(proto) = &model.graph else {
        return Err(unknown("it has no graph".to_owned()));
    };
    external(path, proto)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut walk = Walk {
        assembly: Assembly::new(path, name),
        opset,
        values: FxHashMap::default(),
        stated: FxHashMap::default(),
        shapes,
        asked: BTreeSet::new(),
    };
    walk.graph(proto, &outline.modules)?;
    Ok(walk.assembly.graph)
}

fn opset(path: &Path, model: &ModelProto) -> Result<i64, GraphError> {
    let standard =
        model.opset_import.iter().find(|set| matches!(set.domain.as_deref(), None | Some("" | "ai.onnx")));
    let version = standard.and_then(|set| set.version);
    match version {
        Some(version) if OPSETS.contains(&version) => Ok(version),
        None if standard.is_none() && !model.opset_import.is_empty() => {
            let of = model.opset_import.iter().filter_map(|set| set.domain.as_deref());
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

/// Searches for the files with parameters next to the model.
fn external(path: &Path, graph: &GraphProto) -> Result<(), GraphError> {
    let mut missing: Option<(usize, String, String)> = None;
    let outside =
        graph.initializer.iter().filter(|tensor| tensor.data_location == Some(DataLocation::EXTERNAL));
    for tensor in outside {
        let entry = |key: &str| {
            let entry = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key));
            entry.and_then(|entry| entry.value.clone())
        };
        let name = tensor.name.clone().unwrap_or_default();
        let location = entry("location").unwrap_or_default();
        let beside = path.parent().unwrap_or(Path::new("")).join(&location);
        match std::fs::metadata(&beside) {
            Ok(found) if found.is_file() => {
                let number = |key| entry(key).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
                let end = number("offset").saturating_add(number("length"));
                if end > found.len() {
                    return Err(GraphError::Damaged {
                        path: beside,
                        place: format!("tensor `{name}`"),
                        reason: format!("it ends at byte {end} of {}; the file is truncated", found.len()),
                    });
                }
            }
            _ => match &mut missing {
                Some((count, _, _)) => *count += 1,
                None => missing = Some((1, name, location)),
            },
        }
    }
    match missing {
        Some((count, tensor, location)) => {
            Err(GraphError::ExternalData { path: path.to_owned(), count, tensor, location })
        }
        None => Ok(()),
    }
}

struct Walk<'a> {
    assembly: Assembly,
    opset: i64,
    /// Values of small tensors, by their index.
    values: FxHashMap<usize, Known>,
    /// The file's information about values: shape, if complete, and type.
    stated: FxHashMap<&'a str, (Option<Vec<u64>>, Option<Stored>)>,
    shapes: &'a Shapes,
    /// Names of inputs and dimensions that a caller may specify.
    asked: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn graph(&mut self, proto: &'a GraphProto, modules: &[Option<String>]) -> Result<(), GraphError> {
        for tensor in &proto.initializer {
            self.initializer(tensor)?;
        }
        self.inputs(proto)?;
        self.body(proto, modules)?;
        for output in &proto.output {
            let name = output.name.as_deref().unwrap_or_default();
            let index = self
                .assembly
                .find(name)
                .ok_or_else(|| self.assembly.damaged(format!("output `{name}`"), "no node writes it"))?;
            self.assembly.graph.outputs.push(index);
        }
        // A shape specified for an unknown name would be ignored silently.
        let known = |walk: &Self, name: &str| walk.asked.contains(name) || walk.assembly.find(name).is_some();
        if let Some(name) = self.shapes.names().find(|name| !known(self, name)) {
            return Err(GraphError::NoSuchShape {
                path: self.assembly.path().to_owned(),
                name: name.to_owned(),
                known: self.asked.iter().cloned().collect(),
            });
        }
        Ok(())
    }

    /// Adds the nodes of a graph, whose inputs are known.
    fn body(&mut self, proto: &'a GraphProto, modules: &[Option<String>]) -> Result<(), GraphError> {
        for value in proto.value_info.iter().chain(&proto.output) {
            self.state(value);
        }
        for (index, node) in proto.node.iter().enumerate() {
            let module = modules.get(index).cloned().flatten();
            self.node(node, index, module)?;
        }
        Ok(())
    }

    fn initializer(&mut self, tensor: &TensorProto) -> Result<(), GraphError> {
        let name = tensor.name.as_deref().unwrap_or_default();
        let shape = self.dims(name, &tensor.dims)?;
        let kind = stored(tensor.data_type.unwrap_or(DataType::FLOAT));
        let index = self.assembly.tensor(name, name, shape, kind, true);
        if let Some(known) = known(tensor) {
            self.values.insert(index, known);
        }
        Ok(())
    }

    fn dims(&self, name: &str, dims: &[i64]) -> Result<Vec<u64>, GraphError> {
        let sizes = dims.iter().map(|&size| u64::try_from(size).ok()).collect::<Option<_>>();
        sizes.ok_or_else(|| self.assembly.damaged(format!("tensor `{name}`"), "it has a negative size"))
    }

    /// Adds the inputs that callers supply. All open sizes are reported together.
    fn inputs(&mut self, proto: &'a GraphProto) -> Result<(), GraphError> {
        let mut open: Vec<String> = Vec::new();
        let mut example = None;
        for input in &proto.input {
            let name = input.name.as_deref().unwrap_or_default();
            // Before version 4 of the format, parameters are inputs, too.
            if self.assembly.find(name).is_some() {
                continue;
            }
            let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
            let kind = stored(tensor.and_then(|tensor| tensor.elem_type).unwrap_or(DataType(0)));
            let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| shape.dim.as_slice());
            self.asked.insert(name.to_owned());
            let given = self.shapes.of(name);
            let shape = match (dims, given) {
                (None, Some(given)) => given.to_vec(),
                (None, None) => {
                    open.push(name.to_owned());
                    example.get_or_insert_with(|| format!("{name}=1x3x224x224"));
                    Vec::new()
                }
                (Some(dims), given) => {
                    let fits = given.is_none_or(|given| {
                        given.len() == dims.len()
                            && dims
                                .iter()
                                .zip(given)
                                .all(|(dim, &given)| size(dim).is_none_or(|size| size == given))
                    });
                    if let (false, Some(given)) = (fits, given) {
                        return Err(GraphError::WrongShape {
                            path: self.assembly.path().to_owned(),
                            name: name.to_owned(),
                            stated: dims.iter().map(label).collect::<Vec<_>>().join("x"),
                            given: written(given),
                        });
                    }
                    let before = open.len();
                    let mut shape = Vec::new();
                    for (index, dim) in dims.iter().enumerate() {
                        let named = dim.dim_param.as_deref().filter(|name| !name.is_empty());
                        self.asked.extend(named.map(str::to_owned));
                        let stated = named.and_then(|named| self.shapes.dimension(named));
                        let found = size(dim).or(given.map(|given| given[index])).or(stated);
                        if found.is_none() {
                            open.push(named.map_or_else(|| format!("{name}[{index}]"), str::to_owned));
                        }
                        shape.push(found.unwrap_or(0));
                    }
                    if open.len() > before {
                        let sizes: Vec<u64> = dims.iter().map(|dim| size(dim).unwrap_or(1)).collect();
                        example.get_or_insert_with(|| format!("{name}={}", written(&sizes)));
                    }
                    shape
                }
            };
            let index = self.assembly.tensor(name, name, shape, kind, false);
            self.assembly.graph.inputs.push(index);
        }
        open.dedup();
        match example {
            Some(example) => {
                Err(GraphError::Dynamic { path: self.assembly.path().to_owned(), names: open, example })
            }
            None => Ok(()),
        }
    }

    /// Records the file's information about a value.
    fn state(&mut self, value: &'a ValueInfoProto) {
        let Some(name) = value.name.as_deref() else { return };
        let Some(tensor) = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()) else { return };
        let shape = tensor.shape.as_ref().and_then(|shape| {
            shape
                .dim
                .iter()
                .map(|dim| size(dim).or_else(|| self.shapes.dimension(dim.dim_param.as_deref()?)))
                .collect::<Option<Vec<u64>>>()
        });
        self.stated.insert(name, (shape, tensor.elem_type.map(stored)));
    }

    fn node(&mut self, proto: &'a NodeProto, index: usize, module: Option<String>) -> Result<(), GraphError> {
        let operator = proto.op_type.as_deref().unwrap_or_default();
        let domain = proto.domain.as_deref().unwrap_or_default();
        let standard = matches!(domain, "" | "ai.onnx");
        let name = match proto.name.as_deref() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => proto
                .output
                .first()
                .filter(|name| !name.is_empty())
                .cloned()
                .unwrap_or_else(|| format!("node {index}")),
        };
        if operator == "Constant" && standard {
            return self.constant(proto, &name);
        }
        let mut operands = Vec::new();
        let mut tensors = Vec::new();
        for input in &proto.input {
            if input.is_empty() {
                operands.push(None);
                tensors.push(None);
                continue;
            }
            let tensor = self.assembly.find(input).ok_or_else(|| {
                self.assembly.damaged(format!("node `{name}`"), format!("nothing before it writes `{input}`"))
            })?;
            let held = &self.assembly.graph.tensors[tensor];
            let operand = Operand {
                shape: held.shape.clone(),
                stored: Stored { element: held.element, bytes: held.element_bytes },
                known: self.values.get(&tensor).cloned(),
            };
            operands.push(Some(operand).filter(infer::consistent));
            tensors.push(Some(tensor));
        }
        let node = Node { proto, operator, standard, opset: self.opset, operands };
        if operator == "If" && standard {
            let condition = node.operand(0).and_then(|condition| condition.integers()?.first().copied());
            if let Some(condition) = condition {
                return self.branch(proto, &name, condition != 0);
            }
        }
        // Operators of other domains are known by name where ONNX Runtime has them.
        let known_domain = standard || domain == "com.microsoft";
        let inferred = if known_domain { infer::infer(&node).unwrap_or_default() } else { Vec::new() };
        let shapes = self.result_shapes(proto, &name, &inferred)?;
        let values = if standard { fold::fold(&node, &shapes) } else { vec![None; shapes.len()] };
        let types = types::results(&node, shapes.len());
        let sizes_alone = !values.is_empty() && values.iter().all(Option::is_some);
        let meaning = if sizes_alone {
            // Computed once, from shapes.
            Meaning { op: Some(Op::View), order: Some(vec![0]), factor: 1, extra: 0 }
        } else if known_domain {
            meaning::meaning(&node, &shapes)
        } else {
            Meaning::unknown()
        };
        let mut outputs = Vec::new();
        let results = proto.output.iter().filter(|name| !name.is_empty());
        for (((name, shape), value), kind) in results.zip(shapes).zip(values).zip(types) {
            let kind = self.stated.get(name.as_str()).and_then(|(_, kind)| *kind).unwrap_or(kind);
            let index = self.assembly.tensor(name, name, shape, kind, false);
            if let Some(value) = value {
                self.values.insert(index, value);
            }
            outputs.push(index);
        }
        let module = module.or_else(|| scope(&name)).unwrap_or_default();
        let operator = if standard { operator.to_owned() } else { format!("{domain}.{operator}") };
        let place = Place { name, module, operator };
        let (meaning, tensors) = present(meaning, &tensors);
        self.assembly.layer(place, meaning, &tensors, outputs)
    }

    /// The branch of an `If` that runs takes its place.
    fn branch(&mut self, proto: &'a NodeProto, name: &str, condition: bool) -> Result<(), GraphError> {
        let wanted = if condition { "then_branch" } else { "else_branch" };
        let attribute = proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(wanted));
        let branch = attribute.and_then(|attribute| attribute.g.as_ref());
        let damaged = |walk: &Self, reason: String| walk.assembly.damaged(format!("node `{name}`"), reason);
        let branch = branch.ok_or_else(|| damaged(self, format!("it has no {wanted}")))?;
        for tensor in &branch.initializer {
            self.initializer(tensor)?;
        }
        self.body(branch, &[])?;
        for (result, inner) in proto.output.iter().zip(&branch.output) {
            let inner = inner.name.as_deref().unwrap_or_default();
            let index = self
                .assembly
                .find(inner)
                .ok_or_else(|| damaged(self, format!("nothing writes `{inner}`")))?;
            self.assembly.alias(result, index);
        }
        Ok(())
    }

    /// The shape of each result that is not left out: the file's where it is whole, else the
    /// inferred one, else the caller's.
    fn result_shapes(
        &self,
        proto: &NodeProto,
        name: &str,
        inferred: &[Vec<u64>],
    ) -> Result<Vec<Vec<u64>>, GraphError> {
        let mut shapes = Vec::new();
        for (index, output) in proto.output.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
            let stated = self.stated.get(output.as_str()).and_then(|(shape, _)| shape.clone());
            let inferred = inferred.get(index).cloned();
            // The rounding of windows and scales at the edge differs between versions and
            // exporters, so the file's shape takes precedence.
            let rounded = matches!(
                proto.op_type.as_deref(),
                Some(
                    "MaxPool"
                        | "AveragePool"
                        | "LpPool"
                        | "QLinearAveragePool"
                        | "Resize"
                        | "Upsample"
                        | "ConvTranspose"
                )
            );
            if let (Some(stated), Some(inferred)) = (&stated, &inferred)
                && stated != inferred
                && !rounded
            {
                let (stated, inferred) = (written(stated), written(inferred));
                let reason = format!("`{output}` is {stated} in the file, but its operands give {inferred}");
                return Err(self.assembly.damaged(format!("node `{name}`"), reason));
            }
            let given = || self.shapes.of(output).map(<[u64]>::to_vec);
            let shape = stated.or(inferred).or_else(given).ok_or_else(|| self.open(proto, name, output))?;
            shapes.push(shape);
        }
        Ok(shapes)
    }

    /// The error of a result with open sizes.
    fn open(&self, proto: &NodeProto, name: &str, output: &str) -> GraphError {
        let path = self.assembly.path().to_owned();
        let operator = proto.op_type.as_deref().unwrap_or_default();
        if matches!(operator, "If" | "Loop" | "Scan") {
            let (node, operator) = (name.to_owned(), operator.to_owned());
            return GraphError::Flow { path, node, operator, output: output.to_owned() };
        }
        GraphError::Dynamic { path, names: vec![output.to_owned()], example: format!("{output}=1x64") }
    }

    /// A node that is a tensor of the model.
    fn constant(&mut self, proto: &NodeProto, name: &str) -> Result<(), GraphError> {
        let Some(output) = proto.output.first() else { return Ok(()) };
        let attribute =
            |name: &str| proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name));
        if let Some(tensor) = attribute("value").and_then(|attribute| attribute.t.as_ref()) {
            let mut named = tensor.clone();
            named.name = Some(output.clone());
            return self.initializer(&named);
        }
        let (shape, kind, value) =
            if let Some(value) = attribute("value_int").and_then(|attribute| attribute.i) {
                (Vec::new(), Stored::other(8), Some(Known::Integers(vec![value])))
            } else if let Some(values) = attribute("value_ints").map(|attribute| attribute.ints.clone()) {
                (vec![values.len() as u64], Stored::other(8), Some(Known::Integers(values)))
            } else if let Some(value) = attribute("value_float").and_then(|attribute| attribute.f) {
                (Vec::new(), stored(DataType::FLOAT), Some(Known::Floats(vec![value])))
            } else if let Some(values) = attribute("value_floats").map(|attribute| attribute.floats.clone()) {
                (vec![values.len() as u64], stored(DataType::FLOAT), Some(Known::Floats(values)))
            } else if attribute("value_string").is_some() {
                (Vec::new(), Stored::other(1), None)
            } else {
                return Err(self.assembly.damaged(format!("node `{name}`"), "a constant of an unknown kind"));
            };
        let index = self.assembly.tensor(output, output, shape, kind, true);
        if let Some(value) = value {
            self.values.insert(index, value);
        }
        Ok(())
    }
}

/// Drops operands that are left out, and the places of the order that meant them.
fn present(mut meaning: Meaning, tensors: &[Option<usize>]) -> (Meaning, Vec<usize>) {
    let place = |position: usize| tensors[..position].iter().flatten().count();
    if let Some(order) = &mut meaning.order {
        *order = order
            .iter()
            .filter(|&&position| tensors.get(position).is_some_and(Option::is_some))
            .map(|&position| place(position))
            .collect();
    }
    (meaning, tensors.iter().copied().flatten().collect())
}

/// The size of a dimension, where the file states it.
fn size(dim: &Dimension) -> Option<u64> {
    u64::try_from(dim.dim_value?).ok().filter(|_| dim.dim_param.as_deref().is_none_or(str::is_empty))
}

/// A dimension as the file has it.
fn label(dim: &Dimension) -> String {
    let named = dim.dim_param.clone().filter(|name| !name.is_empty());
    size(dim).map(|size| size.to_string()).or(named).unwrap_or_else(|| "?".to_owned())
}

/// The module in the name of a node as the older exporter of `PyTorch` writes it:
/// `/layer1/layer1.0/conv1/Conv` is of `layer1.0.conv1`.
fn scope(name: &str) -> Option<String> {
    let scopes = name.strip_prefix('/')?;
    let mut module = String::new();
    let mut parts: Vec<&str> = scopes.split('/').collect();
    parts.pop();
    for part in parts {
        // A scope repeats the path that leads to it from the list it is in.
        let inside = module
            .rsplit('.')
            .next()
            .is_some_and(|last| part.starts_with(last) && part[last.len()..].starts_with('.'));
        if inside {
            let last = module.rfind('.').map_or(0, |dot| dot + 1);
            module.truncate(last);
            module.push_str(part);
        } else {
            if !module.is_empty() {
                module.push('.');
            }
            module.push_str(part);
        }
    }
    Some(module)
}
