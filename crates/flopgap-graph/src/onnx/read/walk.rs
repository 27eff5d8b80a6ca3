//! The graph of a model, node by node.

use std::collections::BTreeSet;
use std::path::Path;

use rten_onnx::onnx::{DataType, Dimension, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use rustc_hash::{FxHashMap, FxHashSet};

use super::external::External;
use super::function::{Extras, Function};
use super::node::{Known, Node, Operand, by_name, known, stored};
use super::order::order;
use super::{fold, infer, meaning, types};
use crate::error::GraphError;
use crate::graph::Graph;
use crate::import::{Assembly, Meaning, Place, Stored};
use crate::op::Op;
use crate::shapes::{Shapes, written};

pub(super) struct Walk<'a> {
    pub(super) assembly: Assembly,
    pub(super) opset: i64,
    /// Values of small tensors, by their index.
    pub(super) values: FxHashMap<usize, Known>,
    /// The file's information about values: shape, if complete, and type.
    pub(super) stated: Stated,
    /// Functions by domain and name.
    pub(super) functions: FxHashMap<(&'a str, &'a str), &'a Function>,
    /// The calls and turns that lead here, as the beginning of names: `loop/3/`.
    pub(super) prefix: String,
    /// How many calls and turns these are.
    pub(super) depth: usize,
    /// How many there were in all.
    pub(super) turns: usize,
    /// Channels that convolutions with channels side by side read, by the name of what they read.
    channels: FxHashMap<String, u64>,
    extras: &'a Extras,
    external: External,
    /// Tensors whose values are in a file that is not there, or follow from such.
    pub(super) unread: FxHashSet<usize>,
    shapes: &'a Shapes,
    /// Names of inputs and dimensions that a caller may specify.
    asked: BTreeSet<String>,
}

/// What a file says about values, by their names: the shape, if complete, and the type.
pub(super) type Stated = FxHashMap<String, (Option<Vec<u64>>, Option<Stored>)>;

impl<'a> Walk<'a> {
    pub(super) fn new(
        path: &Path,
        opset: i64,
        shapes: &'a Shapes,
        extras: &'a Extras,
        external: External,
    ) -> Self {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut functions = FxHashMap::default();
        let mut several = FxHashSet::default();
        for function in &extras.functions {
            let key = (function.domain.as_str(), function.name.as_str());
            // Which of several is called is in a field that is not read.
            if functions.insert(key, function).is_some() {
                several.insert(key);
            }
        }
        functions.retain(|key, _| !several.contains(key));
        Walk {
            assembly: Assembly::new(path, name),
            opset,
            values: FxHashMap::default(),
            stated: Stated::default(),
            functions,
            prefix: String::new(),
            depth: 0,
            turns: 0,
            channels: FxHashMap::default(),
            extras,
            external,
            unread: FxHashSet::default(),
            shapes,
            asked: BTreeSet::new(),
        }
    }

    pub(super) fn into_graph(self) -> Graph {
        self.assembly.graph
    }

    pub(super) fn graph(&mut self, proto: &GraphProto, modules: &[Option<String>]) -> Result<(), GraphError> {
        for tensor in &proto.initializer {
            self.initializer(tensor)?;
        }
        for sparse in &self.extras.sparse {
            let shape = self.dims(&sparse.name, &sparse.dims)?;
            let kind = stored(sparse.data_type.unwrap_or(DataType::FLOAT));
            self.assembly.tensor(&sparse.name, &sparse.name, shape, kind, true);
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
    pub(super) fn body(&mut self, proto: &GraphProto, modules: &[Option<String>]) -> Result<(), GraphError> {
        for value in proto.value_info.iter().chain(&proto.output) {
            self.state(value);
        }
        self.nodes(&proto.node, modules)
    }

    /// Adds nodes in an order in which they can run.
    pub(super) fn nodes(
        &mut self,
        nodes: &[NodeProto],
        modules: &[Option<String>],
    ) -> Result<(), GraphError> {
        for node in nodes.iter().filter(|node| node.domain.as_deref() == Some("com.microsoft.nchwc")) {
            self.needs(node);
        }
        for index in order(nodes) {
            let module = modules.get(index).cloned().flatten();
            self.node(&nodes[index], index, module)?;
        }
        Ok(())
    }

    /// Remembers the channels that a convolution needs: its weights have as many.
    fn needs(&mut self, node: &NodeProto) {
        let (Some("Conv"), [input, weights, ..]) = (node.op_type.as_deref(), node.input.as_slice()) else {
            return;
        };
        let group = node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some("group"));
        let group = group.and_then(|attribute| u64::try_from(attribute.i?).ok()).unwrap_or(1);
        let shape = self.assembly.find(weights).map(|index| &self.assembly.graph.tensors[index].shape);
        if let Some(channels) = shape.and_then(|shape| shape.get(1)?.checked_mul(group)) {
            self.channels.insert(input.clone(), channels);
        }
    }

    pub(super) fn initializer(&mut self, tensor: &TensorProto) -> Result<(), GraphError> {
        let name = tensor.name.as_deref().unwrap_or_default();
        let shape = self.dims(name, &tensor.dims)?;
        let kind = stored(tensor.data_type.unwrap_or(DataType::FLOAT));
        let index = self.assembly.tensor(name, &self.called(name), shape, kind, true);
        let loaded = self.external.loaded(tensor);
        if let Some(known) = known(loaded.as_ref().unwrap_or(tensor)) {
            self.values.insert(index, known);
        } else if self.external.is_missing(tensor) {
            self.unread.insert(index);
        }
        Ok(())
    }

    /// The name of a value or node of this call or turn.
    pub(super) fn called(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn dims(&self, name: &str, dims: &[i64]) -> Result<Vec<u64>, GraphError> {
        let sizes = dims.iter().map(|&size| u64::try_from(size).ok()).collect::<Option<_>>();
        sizes.ok_or_else(|| self.assembly.damaged(format!("tensor `{name}`"), "it has a negative size"))
    }

    /// Adds the inputs that callers supply. All open sizes are reported together.
    fn inputs(&mut self, proto: &GraphProto) -> Result<(), GraphError> {
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
    pub(super) fn state(&mut self, value: &ValueInfoProto) {
        let Some(name) = value.name.as_deref() else { return };
        let Some(tensor) = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()) else { return };
        let shape = tensor.shape.as_ref().and_then(|shape| {
            shape
                .dim
                .iter()
                .map(|dim| size(dim).or_else(|| self.shapes.dimension(dim.dim_param.as_deref()?)))
                .collect::<Option<Vec<u64>>>()
        });
        self.stated.insert(name.to_owned(), (shape, tensor.elem_type.map(stored)));
    }

    fn node(&mut self, proto: &NodeProto, index: usize, module: Option<String>) -> Result<(), GraphError> {
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
        let name = self.called(&name);
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
        let channels = proto.output.first().and_then(|output| self.channels.get(output).copied());
        let mut node = Node { proto, operator, standard, opset: self.opset, channels, operands };
        let mut cause = None;
        if let Some(inlined) = self.inline(&node, &name) {
            match inlined {
                // What runs is not known, but what comes out may be in the file.
                Err(error @ (GraphError::Dynamic { .. } | GraphError::Flow { .. })) => cause = Some(error),
                done => return done,
            }
        }
        let known = by_name(domain, proto);
        node.operator = known.unwrap_or(operator);
        let inferred = if known.is_some() { infer::infer(&node) } else { None };
        if let (None, Some(reason)) = (&inferred, known.and_then(|_| infer::contradiction(&node))) {
            let (path, given) = (self.assembly.path().to_owned(), !self.shapes.is_empty());
            return Err(GraphError::Mismatch { path, node: name, reason, given });
        }
        let unread = tensors.iter().flatten().any(|tensor| self.unread.contains(tensor));
        let shapes = match self.result_shapes(&node, &name, &inferred.unwrap_or_default()) {
            // What is inside is the better reason.
            Err(error) => return Err(cause.or(self.external.error().filter(|_| unread)).unwrap_or(error)),
            Ok(shapes) => shapes,
        };
        let values = if standard { fold::fold(&node, &shapes) } else { vec![None; shapes.len()] };
        let types = types::results(&node, shapes.len());
        let sizes_alone = !values.is_empty() && values.iter().all(Option::is_some);
        let meaning = if sizes_alone {
            // Computed once, from shapes.
            Meaning { op: Some(Op::View), order: Some(vec![0]), factor: 1, extra: 0 }
        } else if known.is_some() {
            meaning::meaning(&node, &shapes)
        } else {
            Meaning::unknown()
        };
        let mut outputs = Vec::new();
        let results = proto.output.iter().filter(|name| !name.is_empty());
        for (((name, shape), value), kind) in results.zip(shapes).zip(values).zip(types) {
            let kind = self.stated.get(name.as_str()).and_then(|(_, kind)| *kind).unwrap_or(kind);
            let index = self.assembly.tensor(name, &self.called(name), shape, kind, false);
            if let Some(value) = value {
                self.values.insert(index, value);
            } else if unread {
                self.unread.insert(index);
            }
            outputs.push(index);
        }
        let module = module.or_else(|| scope(&name)).unwrap_or_default();
        let operator = if standard { operator.to_owned() } else { format!("{domain}.{operator}") };
        let place = Place { name, module, operator };
        let (meaning, tensors) = present(meaning, &tensors);
        self.assembly.layer(place, meaning, &tensors, outputs)
    }

    /// The shape of each result that is not left out: what follows from the operands, else the
    /// file's, else the caller's. A file may keep shapes of other inputs than its own, which
    /// runtimes ignore.
    fn result_shapes(
        &self,
        node: &Node<'_>,
        name: &str,
        inferred: &[Vec<u64>],
    ) -> Result<Vec<Vec<u64>>, GraphError> {
        let mut shapes = Vec::new();
        let outputs = node.proto.output.iter().enumerate();
        for (index, output) in outputs.filter(|(_, output)| !output.is_empty()) {
            let stated = self.stated.get(output.as_str()).and_then(|(shape, _)| shape.clone());
            let inferred = inferred.get(index).cloned();
            let shape = match (stated, inferred) {
                // The rounding of windows and scales at the edge differs between versions and
                // exporters.
                (Some(stated), Some(inferred)) if node.rounds() && close(&stated, &inferred) => stated,
                (stated, inferred) => {
                    let given = || self.shapes.of(&self.called(output)).map(<[u64]>::to_vec);
                    inferred.or(stated).or_else(given).ok_or_else(|| self.open(node.proto, name, output))?
                }
            };
            shapes.push(shape);
        }
        Ok(shapes)
    }

    /// The error of a result with open sizes.
    pub(super) fn open(&self, proto: &NodeProto, name: &str, output: &str) -> GraphError {
        let path = self.assembly.path().to_owned();
        let operator = proto.op_type.as_deref().unwrap_or_default();
        let output = self.called(output);
        if matches!(operator, "If" | "Loop" | "Scan") {
            let (node, operator) = (name.to_owned(), operator.to_owned());
            return GraphError::Flow { path, node, operator, output };
        }
        let example = format!("{output}=1x64");
        GraphError::Dynamic { path, names: vec![output], example }
    }

    /// A node that is a tensor of the model.
    fn constant(&mut self, proto: &NodeProto, name: &str) -> Result<(), GraphError> {
        let Some(output) = proto.output.first() else { return Ok(()) };
        // In later turns of a loop it is the same.
        if self.assembly.find(output).is_some() {
            return Ok(());
        }
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
        let index = self.assembly.tensor(output, &self.called(output), shape, kind, true);
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

/// Whether sizes differ by rounding alone.
fn close(stated: &[u64], inferred: &[u64]) -> bool {
    stated.len() == inferred.len() && stated.iter().zip(inferred).all(|(a, b)| a.abs_diff(*b) <= 1)
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
