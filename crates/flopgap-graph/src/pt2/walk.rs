//! The graph of an exported program, node by node.

use std::collections::BTreeSet;
use std::path::Path;

use flopgap_flops::ElementType;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::aten::{meaning, part};
use super::call::{Call, Operand};
use super::masks::Writers;
use super::recurrent::{OneStep, Stacked, one_step, stacked};
use super::symbols::{Open, Symbols, alone, evaluate, names, solve};
use crate::error::GraphError;
use crate::graph::Graph;
use crate::import::{Assembly, Meaning, Place, Stored, elementwise, linear};
use crate::op::{ElementwiseFunction, Op};
use crate::shapes::{Shapes, written};

/// Models of transformers that make their masks wherever they run (`allow_is_causal_skip=False`).
const MAKE_MASKS: [&str; 2] = ["falcon.", "diffusion_gemma."];

/// Graphs within graphs; deeper ones are damage.
const DEEPEST: usize = 16;

/// Reads the program of an archive's member.
pub(super) fn graph<'v>(
    path: &Path,
    member: &'v str,
    program: &'v Value,
    shapes: &Shapes,
    training: bool,
) -> Result<Graph, GraphError> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (assembly, symbols, open) = (Assembly::new(path, name), Symbols::new(), BTreeSet::new());
    let mut walk = Walk { assembly, member, symbols, open, training, writers: Writers::default() };
    let module = &program["graph_module"];
    let body = &module["graph"];
    let values = walk.object(body, "tensor_values")?;
    let parameters = walk.inputs(module, values)?;
    walk.bind(values, shapes)?;
    walk.values(values, &parameters)?;
    if !walk.open.is_empty() {
        return Err(walk.dynamic(values));
    }
    walk.nodes(body, "", 0)?;
    for output in list(body, "outputs") {
        if let Some(tensor) = name_of(&output["as_tensor"]).and_then(|name| walk.assembly.find(name)) {
            walk.assembly.graph.outputs.push(tensor);
        }
    }
    Ok(walk.assembly.graph)
}

struct Walk<'a> {
    assembly: Assembly,
    member: &'a str,
    symbols: Symbols,
    /// Symbols without a size.
    open: BTreeSet<String>,
    /// Whether norms and dropouts are read as a training step runs them.
    training: bool,
    writers: Writers<'a>,
}

/// A tensor that is stored with the model.
#[derive(Clone, Copy)]
struct Saved<'v> {
    /// Its name in the model.
    name: &'v str,
    trained: bool,
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The name in `{"name": …}`.
fn name_of(value: &Value) -> Option<&str> {
    value["name"].as_str()
}

impl<'a> Walk<'a> {
    fn damaged(&self, reason: impl Into<String>) -> GraphError {
        self.assembly.damaged(self.member, reason)
    }

    fn object<'v>(&self, value: &'v Value, key: &str) -> Result<&'v Map<String, Value>, GraphError> {
        value[key].as_object().ok_or_else(|| self.damaged(format!("`{key}` is missing or not an object")))
    }

    /// Sorts inputs into those of the caller and what is stored with the model; the latter with
    /// their names in the model.
    fn inputs<'v>(
        &mut self,
        module: &'v Value,
        values: &Map<String, Value>,
    ) -> Result<FxHashMap<&'v str, Saved<'v>>, GraphError> {
        let mut stored = FxHashMap::default();
        let specs = module["signature"]["input_specs"]
            .as_array()
            .ok_or_else(|| self.damaged("`input_specs` is missing or not a list"))?;
        for spec in specs {
            for (kind, key) in [
                ("parameter", "parameter_name"),
                ("buffer", "buffer_name"),
                ("tensor_constant", "tensor_constant_name"),
            ] {
                if let Some(called) = name_of(&spec[kind]["arg"]) {
                    let name = spec[kind][key].as_str().unwrap_or(called);
                    stored.insert(called, Saved { name, trained: kind == "parameter" });
                }
            }
            if let Some(called) = name_of(&spec["user_input"]["arg"]["as_tensor"]) {
                if !values.contains_key(called) {
                    return Err(self.damaged(format!("input `{called}` has no shape")));
                }
                // Added first, so that they come in the caller's order.
                let index = self.assembly.tensor(called, called, Vec::new(), Stored::other(0), false);
                self.assembly.graph.inputs.push(index);
            }
        }
        Ok(stored)
    }

    /// Gives symbols the sizes that the caller states.
    fn bind(&mut self, values: &Map<String, Value>, shapes: &Shapes) -> Result<(), GraphError> {
        let inputs = self.assembly.graph.inputs.clone();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for &input in &inputs {
            let name = self.assembly.graph.tensors[input].name.clone();
            let sizes = list(&values[&name], "sizes");
            known.insert(name.clone());
            for symbol in sizes.iter().filter_map(|size| size["as_expr"]["expr_str"].as_str()).flat_map(names)
            {
                if let Some(size) = shapes.dimension(&symbol) {
                    self.symbols.insert(symbol.clone(), size);
                }
                known.insert(symbol);
            }
        }
        for &input in &inputs {
            let name = self.assembly.graph.tensors[input].name.clone();
            let Some(given) = shapes.of(&name) else { continue };
            let sizes = list(&values[&name], "sizes");
            let mut fits = sizes.len() == given.len();
            for (size, &given) in sizes.iter().zip(given) {
                match size["as_expr"]["expr_str"].as_str() {
                    Some(expression) => {
                        if let Some(symbol) = alone(expression) {
                            fits &= *self.symbols.entry(symbol.to_owned()).or_insert(given) == given;
                        } else {
                            self.symbols.extend(solve(expression, &self.symbols, given));
                            fits &= evaluate(expression, &self.symbols).is_ok_and(|size| size == given);
                        }
                    }
                    None => fits &= size["as_int"].as_u64() == Some(given),
                }
            }
            if !fits {
                return Err(GraphError::WrongShape {
                    path: self.assembly.path().to_owned(),
                    name,
                    stated: sizes.iter().map(stated).collect::<Vec<_>>().join("x"),
                    given: written(given),
                });
            }
        }
        if let Some(name) = shapes.names().find(|name| !known.contains(*name)) {
            return Err(GraphError::NoSuchShape {
                path: self.assembly.path().to_owned(),
                name: name.to_owned(),
                known: known.into_iter().collect(),
            });
        }
        Ok(())
    }

    /// Adds the values of a graph as tensors.
    fn values(
        &mut self,
        values: &Map<String, Value>,
        stored: &FxHashMap<&str, Saved<'_>>,
    ) -> Result<(), GraphError> {
        for (called, meta) in values {
            let shape = self.sizes(called, list(meta, "sizes"))?;
            let strides = self.sizes(called, list(meta, "strides")).unwrap_or_default();
            let kind = element(meta["dtype"].as_u64()).ok_or_else(|| {
                self.damaged(format!("value `{called}` has an unknown type {}", meta["dtype"]))
            })?;
            let given = self.assembly.find(called).filter(|index| self.assembly.graph.inputs.contains(index));
            let index = if let Some(index) = given {
                let tensor = &mut self.assembly.graph.tensors[index];
                tensor.shape = shape;
                (tensor.element, tensor.element_bytes) = (kind.element, kind.bytes);
                index
            } else {
                let saved = stored.get(called.as_str());
                let name = saved.map_or(called.as_str(), |saved| saved.name);
                let index = self.assembly.tensor(called, name, shape, kind, saved.is_some());
                self.assembly.graph.tensors[index].trained = saved.is_some_and(|saved| saved.trained);
                index
            };
            self.assembly.graph.tensors[index].strides = strides;
        }
        Ok(())
    }

    /// Sizes with their symbols replaced; symbols without a size are remembered.
    fn sizes(&mut self, called: &str, sizes: &[Value]) -> Result<Vec<u64>, GraphError> {
        sizes
            .iter()
            .map(|size| {
                if let Some(size) = size["as_int"].as_u64() {
                    return Ok(size);
                }
                let expression = size["as_expr"]["expr_str"].as_str();
                match expression.map(|expression| evaluate(expression, &self.symbols)) {
                    Some(Ok(size)) => Ok(size),
                    Some(Err(Open::Symbol(symbol))) => {
                        self.open.insert(symbol);
                        Ok(0)
                    }
                    Some(Err(Open::Expression)) => {
                        let expression = expression.unwrap_or_default();
                        Err(self.damaged(format!("value `{called}` has the invalid size `{expression}`")))
                    }
                    None => Err(self.damaged(format!("value `{called}` has the invalid size {size}"))),
                }
            })
            .collect()
    }

    /// The error for symbols without sizes, with a size for the first of them.
    fn dynamic(&self, values: &Map<String, Value>) -> GraphError {
        let mut example = String::new();
        for &input in &self.assembly.graph.inputs {
            let name = &self.assembly.graph.tensors[input].name;
            let sizes = list(&values[name], "sizes");
            if example.is_empty() && sizes.iter().any(|size| size["as_int"].is_null()) {
                // The model was exported with these.
                let exported = |size: &Value| size["as_expr"]["hint"]["as_int"].as_u64();
                let of = |size: &Value| size["as_int"].as_u64().or_else(|| exported(size)).unwrap_or(1);
                let sizes: Vec<String> = sizes.iter().map(|size| of(size).to_string()).collect();
                example = format!("{name}={}", sizes.join("x"));
            }
        }
        if example.is_empty() {
            // Sizes that are only known when the model runs.
            example = format!("{}=1", self.open.first().map_or("NAME", String::as_str));
        }
        let names = self.open.iter().cloned().collect();
        GraphError::Dynamic { path: self.assembly.path().to_owned(), names, example }
    }

    fn nodes(&mut self, body: &'a Value, prefix: &str, depth: usize) -> Result<(), GraphError> {
        if depth > DEEPEST {
            return Err(self.damaged("graphs are nested too deeply"));
        }
        let nodes =
            body["nodes"].as_array().ok_or_else(|| self.damaged("`nodes` is missing or not a list"))?;
        for node in nodes {
            self.node(node, prefix, depth)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &'a Value, prefix: &str, depth: usize) -> Result<(), GraphError> {
        let target = node["target"].as_str().ok_or_else(|| self.damaged("a node has no `target`"))?;
        let operator = target.strip_prefix("torch.ops.").unwrap_or(target);
        let arguments = list(node, "inputs");
        let outputs = self.outputs(node, operator)?;
        if operator.starts_with("higher_order.wrap_with") {
            return self.inline(node, operator, arguments, &outputs, prefix, depth);
        }
        let mut operands = Vec::new();
        for argument in arguments {
            for name in tensor_names(&argument["arg"]) {
                let tensor = self
                    .assembly
                    .find(name)
                    .ok_or_else(|| self.damaged(format!("{operator} reads `{name}`, which has no shape")))?;
                operands.push(Operand { argument: argument["name"].as_str().unwrap_or_default(), tensor });
            }
        }
        self.mask(node, operator, &operands);
        let tensors: Vec<usize> = operands.iter().map(|operand| operand.tensor).collect();
        let first = outputs.first().map(|&index| self.assembly.graph.tensors[index].name.clone());
        let name = node["name"].as_str().map(str::to_owned).or(first).unwrap_or_else(|| operator.to_owned());
        let place = Place { name, module: module(node, prefix), operator: operator.to_owned() };
        for (path, class) in modules(node).filter_map(|(path, class)| Some((path, class?))) {
            if !self.assembly.graph.classes.contains_key(path) {
                self.assembly.graph.classes.insert(path.to_owned(), class.to_owned());
            }
        }
        let mut parts = operator.split('.');
        let (namespace, base, overload) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let in_place = base.ends_with('_') && !base.starts_with("__");
        let base = plain(base);
        // Products of experts, as Hugging Face's models call them where PyTorch's own do not fit.
        let known = matches!(namespace, "aten" | "quantized_decomposed" | "prims" | "_operator")
            || operator == "transformers.grouped_mm_fallback.default";
        if known {
            self.writers.note(&outputs, (base, arguments, operands.clone()));
        }
        let call = Call {
            name: base,
            overload,
            arguments,
            operands: &operands,
            tensors: &self.assembly.graph.tensors,
            outputs: &outputs,
            training: self.training,
        };
        let layers = if known { stacked(&call) } else { None };
        if let Some(layers) = layers {
            return self.recurrent(&place, &layers, &tensors, &outputs);
        }
        if let Some(meaning) = part(&call).filter(|_| known && in_place) {
            return self.part(place, meaning, &tensors, outputs);
        }
        let step = if known { one_step(&call) } else { None };
        if let Some(step) = step {
            return self.one_step(&place, &step, &tensors, outputs);
        }
        let meaning = if known {
            meaning(&call)
        } else if outputs.is_empty() {
            // Arithmetic on sizes and checks of them, which no device computes.
            Op::View.into()
        } else {
            Meaning::unknown()
        };
        self.assembly.layer(place, meaning, &tensors, outputs)
    }

    /// Notes a mask that Hugging Face's models make only where PyTorch records them
    /// (`_ignore_causal_mask_sdpa` in transformers' `masking_utils.py`).
    fn mask(&mut self, node: &Value, operator: &str, operands: &[Operand<'_>]) {
        let graph = &mut self.assembly.graph;
        let Some((_, Some(class))) = modules(node).next_back() else { return };
        let leaves_out = class
            .strip_prefix("transformers.models.")
            .is_some_and(|model| !MAKE_MASKS.iter().any(|other| model.starts_with(other)));
        if operator != "aten.scaled_dot_product_attention.default" || !leaves_out {
            return;
        }
        let Some(mask) = operands.iter().find(|operand| operand.argument == "attn_mask") else { return };
        if let Some(hidden) = self.writers.hidden(mask.tensor, &graph.tensors) {
            graph.recorded_masks.insert(mask.tensor, hidden);
        }
    }

    /// The tensors that a node writes.
    fn outputs(&self, node: &Value, operator: &str) -> Result<Vec<usize>, GraphError> {
        list(node, "outputs")
            .iter()
            .flat_map(tensor_names)
            // Results that nothing reads have no shape in the file.
            .filter_map(|name| match self.assembly.find(name) {
                Some(index) => Some(Ok(index)),
                None if name.contains("unused") => None,
                None => Some(Err(self.damaged(format!("{operator} writes `{name}`, which has no shape")))),
            })
            .collect()
    }

    /// The nodes of a graph that is called once where it stands.
    fn inline(
        &mut self,
        node: &'a Value,
        operator: &str,
        arguments: &'a [Value],
        outputs: &[usize],
        prefix: &str,
        depth: usize,
    ) -> Result<(), GraphError> {
        let position = arguments.iter().position(|argument| argument["arg"]["as_graph"].is_object());
        let position = position.ok_or_else(|| self.damaged(format!("{operator} has no graph")))?;
        let body = &arguments[position]["arg"]["as_graph"]["graph"];
        let given = arguments[position + 1..].iter().flat_map(|argument| tensor_names(&argument["arg"]));
        let given: Vec<Option<usize>> = given.map(|name| self.assembly.find(name)).collect();
        let names = self.assembly.names();
        let values = self.object(body, "tensor_values")?;
        self.values(values, &FxHashMap::default())?;
        if !self.open.is_empty() {
            return Err(self.dynamic(values));
        }
        for (name, given) in list(body, "inputs").iter().flat_map(tensor_names).zip(given) {
            if let Some(index) = given {
                self.assembly.alias(name, index);
            }
        }
        self.nodes(body, &module(node, prefix), depth + 1)?;
        for (name, &output) in list(body, "outputs").iter().flat_map(tensor_names).zip(outputs) {
            // What is called by the outer name is what the inner graph wrote.
            let inner = self
                .assembly
                .find(name)
                .ok_or_else(|| self.damaged(format!("{operator} gives `{name}`, which has no shape")))?;
            for layer in &mut self.assembly.graph.layers {
                for written in layer.outputs.iter_mut().filter(|written| **written == inner) {
                    *written = output;
                }
            }
        }
        self.assembly.restore(names);
        Ok(())
    }

    /// The layers of one call of a recurrent network, each reading what the one before it wrote.
    fn recurrent(
        &mut self,
        place: &Place,
        layers: &[Stacked],
        tensors: &[usize],
        outputs: &[usize],
    ) -> Result<(), GraphError> {
        let Some(&first) = tensors.first() else { return Ok(()) };
        let stored = {
            let tensor = &self.assembly.graph.tensors[first];
            Stored { element: tensor.element, bytes: tensor.element_bytes }
        };
        let mut input = first;
        for (index, stacked) in layers.iter().enumerate() {
            let layer = stacked.layer;
            let name = format!("{}.{index}", place.name);
            let last = index + 1 == layers.len();
            let output = match outputs.first() {
                Some(&output) if last => output,
                _ => {
                    let shape = vec![layer.length, layer.batch, layer.directions * layer.hidden];
                    self.assembly.tensor(&name, &name, shape, stored, false)
                }
            };
            let mut read = vec![input];
            read.extend(stacked.parameters.iter().map(|&position| tensors[position]));
            let mut written = vec![output];
            if last {
                written.extend(outputs.iter().skip(1));
            }
            let place = Place { name, ..place.clone() };
            self.assembly.layer(place, Op::Recurrent(layer).into(), &read, written)?;
            input = output;
        }
        Ok(())
    }
}

impl Walk<'_> {
    /// A change of a part of the first tensor where it lies: what is written is as large as what is
    /// put there, and the whole is a view of both, through which gradients reach both.
    fn part(
        &mut self,
        place: Place,
        meaning: Meaning,
        tensors: &[usize],
        outputs: Vec<usize>,
    ) -> Result<(), GraphError> {
        let read: Vec<usize> =
            meaning.order.iter().flatten().filter_map(|&position| tensors.get(position).copied()).collect();
        let (Some(&whole), Some(&put)) = (tensors.first(), read.first()) else { return Ok(()) };
        let of = &self.assembly.graph.tensors[put];
        let (shape, stored) = (of.shape.clone(), Stored { element: of.element, bytes: of.element_bytes });
        let part = format!("{}.part", place.name);
        let written = self.assembly.tensor(&part, &part, shape, stored, false);
        let view = Place { name: format!("{}.whole", place.name), ..place.clone() };
        self.assembly.layer(place, meaning, tensors, vec![written])?;
        self.assembly.layer(view, Op::View.into(), &[whole, written], outputs)
    }

    /// The two products of a cell's step, and the function of their sums.
    fn one_step(
        &mut self,
        place: &Place,
        step: &OneStep,
        tensors: &[usize],
        outputs: Vec<usize>,
    ) -> Result<(), GraphError> {
        let OneStep { batch, hidden, rows, flops, .. } = *step;
        let mut read: Vec<usize> = Vec::new();
        for (operands, name) in step.products.iter().zip(["input", "hidden"]) {
            let operands: Vec<usize> = operands.iter().map(|&place| tensors[place]).collect();
            let held = |index: usize| &self.assembly.graph.tensors[operands[index]];
            let op = linear(&held(0).shape, &held(1).shape);
            let stored = Stored { element: held(0).element, bytes: held(0).element_bytes };
            let name = format!("{}.{name}", place.name);
            let sums = self.assembly.tensor(&name, &name, vec![batch, rows], stored, false);
            self.assembly.layer(Place { name, ..place.clone() }, Meaning::of(op), &operands, vec![sums])?;
            read.push(sums);
        }
        read.extend(step.states.iter().map(|&place| tensors[place]));
        let shapes: Vec<&[u64]> =
            read.iter().map(|&tensor| self.assembly.graph.tensors[tensor].shape.as_slice()).collect();
        let function = ElementwiseFunction::Several(flops);
        let op = elementwise(function, &shapes, &[batch, hidden]);
        let place = Place { name: format!("{}.gates", place.name), ..place.clone() };
        self.assembly.layer(place, Meaning::of(op), &read, outputs)
    }
}

/// The names of the tensors that an argument or result is or lists.
fn tensor_names(argument: &Value) -> Vec<&str> {
    if let Some(name) = name_of(&argument["as_tensor"]) {
        return vec![name];
    }
    let many = list(argument, "as_tensors").iter().filter_map(name_of);
    let optional = list(argument, "as_optional_tensors").iter().filter_map(|one| name_of(&one["as_tensor"]));
    let nested = list(argument, "as_nested_tensors");
    let nested =
        nested.iter().flat_map(|list| list.as_array().map_or(&[][..], Vec::as_slice)).filter_map(name_of);
    many.chain(optional).chain(nested).collect()
}

/// An operator without the underscores that mark in-place variants: `relu_`, `__and__`.
fn plain(name: &str) -> &str {
    if let Some(inner) = name.strip_prefix("__").and_then(|name| name.strip_suffix("__")) {
        return inner;
    }
    name.strip_suffix('_').unwrap_or(name)
}

/// The modules that a node came from, outer ones first, with their classes:
/// `L__self__,,Class;L__self___fc,fc,Class`.
fn modules(node: &Value) -> impl DoubleEndedIterator<Item = (&str, Option<&str>)> {
    let stack = node["metadata"]["nn_module_stack"].as_str().unwrap_or_default();
    stack.split(';').filter_map(|entry| {
        let mut parts = entry.split(',').skip(1);
        let path = parts.next()?;
        Some((named(path), parts.next()))
    })
}

/// The innermost module that a node came from.
fn module(node: &Value, otherwise: &str) -> String {
    modules(node).next_back().map_or_else(|| named(otherwise), |(path, _)| path).to_owned()
}

fn named(path: &str) -> &str {
    path.strip_prefix("L['self'].").or_else(|| path.strip_prefix("L['self']")).unwrap_or(path)
}

/// A size as the file has it.
fn stated(size: &Value) -> String {
    let expression = size["as_expr"]["expr_str"].as_str();
    expression.map_or_else(|| size["as_int"].to_string(), |text| alone(text).unwrap_or(text).to_owned())
}

/// The element type by its number in the schema.
fn element(number: Option<u64>) -> Option<Stored> {
    Some(match number? {
        // Unsigned and signed bytes.
        1 | 2 => Stored::number(ElementType::Int8),
        3 | 28 => Stored::other(2),
        4 => Stored::other(4),
        5 => Stored::other(8),
        6 => Stored::number(ElementType::Fp16),
        7 => Stored::number(ElementType::Fp32),
        8 => Stored::number(ElementType::Fp64),
        9 => Stored::complex(ElementType::Fp16),
        10 => Stored::complex(ElementType::Fp32),
        11 => Stored::complex(ElementType::Fp64),
        12 => Stored::other(1),
        13 => Stored::number(ElementType::Bf16),
        29..=32 => Stored::number(ElementType::Fp8),
        _ => return None,
    })
}
