//! Nodes that stand for others: functions of the model, `If` with a known branch, `Loop` and `Scan`
//! with a known number of turns.
//!
//! What runs is put in the place of the node, each turn by itself, since sizes may change from one
//! to the next.

use rten_onnx::onnx::{GraphProto, NodeProto};

use super::function::Function;
use super::node::{Known, Node, axis};
use super::walk::{Stated, Walk};
use super::{OPSETS, standard_set};
use crate::error::GraphError;
use crate::import::{Meaning, Place, Stored, count};
use crate::op::Op;

/// Calls and turns within each other; deeper ones are damage.
const DEEPEST: usize = 24;
/// Layers that loops are unrolled to: more than models have, and little enough to hold.
const MOST_LAYERS: usize = 200_000;
/// Calls and turns in all: a few nodes may stand for any number of them.
const MOST_TURNS: usize = 20_000;

/// What an iteration carries on and collects.
struct Turns<'p> {
    node: &'p Node<'p>,
    name: &'p str,
    body: &'p GraphProto,
    /// Results of each turn that the next one reads.
    carried: Vec<usize>,
    /// Results of each turn that are put together, one list for each.
    collected: Vec<Vec<usize>>,
    done: u64,
}

/// A place to return to.
struct Mark {
    tensors: usize,
    layers: usize,
    names: rustc_hash::FxHashMap<String, usize>,
    stated: Stated,
    prefix: String,
    depth: usize,
    opset: i64,
}

impl Walk<'_> {
    /// Puts what a node stands for in its place; `None` where it stands for itself. After an error
    /// of open sizes, nothing has been added.
    pub(super) fn inline(&mut self, node: &Node<'_>, name: &str) -> Option<Result<(), GraphError>> {
        let proto = node.proto;
        let domain = proto.domain.as_deref().unwrap_or_default();
        let function = self.functions.get(&(domain, node.operator)).copied();
        let given: Vec<Option<usize>> = proto.input.iter().map(|input| self.assembly.find(input)).collect();
        let attempt: &dyn Fn(&mut Self) -> Result<Vec<usize>, GraphError> = match (function, node.operator) {
            (Some(function), _) => &|walk| walk.call(function, proto, &given, name),
            (None, "If") if node.standard => &|walk| walk.branch(node, name),
            (None, "Loop") if node.standard => &|walk| walk.repeat(node, name),
            (None, "Scan") if node.standard => &|walk| walk.scan(node, name),
            _ => return None,
        };
        let mark = self.mark(function.is_some());
        self.depth += 1;
        let result = if self.depth > DEEPEST {
            Err(self.assembly.damaged(format!("node `{name}`"), "functions and loops are nested too deeply"))
        } else {
            self.count(name).and_then(|()| attempt(self))
        };
        self.reset(mark, result.is_err());
        Some(result.map(|results| {
            let results = proto.output.iter().zip(results);
            results.for_each(|(output, index)| self.assembly.alias(output, index));
        }))
    }

    /// What [`reset`](Self::reset) returns to; with no names left where none is seen inside.
    fn mark(&mut self, alone: bool) -> Mark {
        let names = if alone { self.assembly.take_names() } else { self.assembly.names() };
        let stated = if alone { std::mem::take(&mut self.stated) } else { self.stated.clone() };
        Mark {
            tensors: self.assembly.graph.tensors.len(),
            layers: self.assembly.graph.layers.len(),
            names,
            stated,
            prefix: self.prefix.clone(),
            depth: self.depth,
            opset: self.opset,
        }
    }

    /// Restores names and what else holds outside, and removes what was added where that failed.
    fn reset(&mut self, mark: Mark, failed: bool) {
        self.assembly.restore(mark.names);
        (self.stated, self.prefix) = (mark.stated, mark.prefix);
        (self.depth, self.opset) = (mark.depth, mark.opset);
        if failed {
            self.assembly.graph.tensors.truncate(mark.tensors);
            self.assembly.graph.layers.truncate(mark.layers);
            self.values.retain(|&index, _| index < mark.tensors);
            self.unread.retain(|&index| index < mark.tensors);
        }
    }

    /// Counts a call or turn.
    fn count(&mut self, name: &str) -> Result<(), GraphError> {
        self.turns += 1;
        if self.turns > MOST_TURNS || self.assembly.graph.layers.len() > MOST_LAYERS {
            let reason = format!("more than {MOST_TURNS} calls and turns, or {MOST_LAYERS} layers");
            return Err(self.assembly.damaged(format!("node `{name}`"), reason));
        }
        Ok(())
    }

    /// The nodes of a function, which see nothing but its operands.
    fn call(
        &mut self,
        function: &Function,
        proto: &NodeProto,
        given: &[Option<usize>],
        name: &str,
    ) -> Result<Vec<usize>, GraphError> {
        if let Some(version) = standard_set(&function.opset_import).and_then(|set| set.version) {
            if !OPSETS.contains(&version) {
                let reason = format!("its function is of operator set {version}, supported: 7 to 28");
                return Err(self.assembly.damaged(format!("node `{name}`"), reason));
            }
            self.opset = version;
        }
        self.prefix = format!("{name}/");
        for (input, index) in function.inputs.iter().zip(given) {
            if let Some(index) = *index {
                self.assembly.alias(input, index);
            }
        }
        for value in &function.value_info {
            self.state(value);
        }
        self.nodes(&function.nodes(proto), &[])?;
        self.found(name, function.outputs.iter().map(String::as_str))
    }

    /// The tensors of these names, which nodes have written.
    fn found<'n>(&self, name: &str, names: impl Iterator<Item = &'n str>) -> Result<Vec<usize>, GraphError> {
        names
            .map(|inner| {
                self.assembly.find(inner).ok_or_else(|| {
                    self.assembly.damaged(format!("node `{name}`"), format!("nothing writes `{inner}`"))
                })
            })
            .collect()
    }

    fn graph_of<'p>(
        &self,
        node: &Node<'p>,
        attribute: &str,
        name: &str,
    ) -> Result<&'p GraphProto, GraphError> {
        let graph = node.attribute(attribute).and_then(|attribute| attribute.g.as_ref());
        graph.ok_or_else(|| self.assembly.damaged(format!("node `{name}`"), format!("it has no {attribute}")))
    }

    /// The error of a node whose course depends on data.
    fn depends(&self, node: &Node<'_>, name: &str) -> GraphError {
        let outputs = || node.proto.output.iter().filter(|output| !output.is_empty());
        let unstated =
            |output: &&String| self.stated.get(output.as_str()).is_none_or(|(shape, _)| shape.is_none());
        let output = outputs().find(unstated).or_else(|| outputs().next());
        self.open(node.proto, name, output.map_or("", String::as_str))
    }

    /// The branch of an `If` that runs.
    fn branch(&mut self, node: &Node<'_>, name: &str) -> Result<Vec<usize>, GraphError> {
        let condition = node.operand(0).and_then(|condition| condition.integers()?.first().copied());
        let condition = condition.ok_or_else(|| self.depends(node, name))?;
        let branch = self.graph_of(node, if condition == 0 { "else_branch" } else { "then_branch" }, name)?;
        for tensor in &branch.initializer {
            self.initializer(tensor)?;
        }
        self.body(branch, &[])?;
        let outputs = branch.output.iter().map(|output| output.name.as_deref().unwrap_or_default());
        self.found(name, outputs)
    }

    /// The turns of a `Loop`, as many as its count and condition say.
    fn repeat(&mut self, node: &Node<'_>, name: &str) -> Result<Vec<usize>, GraphError> {
        let first = |place: usize| node.operand(place).map(|operand| Some(*operand.integers()?.first()?));
        let depends = |walk: &Self| walk.depends(node, name);
        let limit = match first(0) {
            None => i64::MAX,
            Some(limit) => limit.ok_or_else(|| depends(self))?,
        };
        let mut goes_on = match first(1) {
            None => true,
            Some(condition) => condition.ok_or_else(|| depends(self))? != 0,
        };
        let body = self.graph_of(node, "body", name)?;
        let carried = node.proto.input.iter().skip(2).map(|input| self.assembly.find(input));
        let carried: Vec<usize> = carried.collect::<Option<_>>().ok_or_else(|| depends(self))?;
        let mut turns = self.turns(node, name, body, carried, 1)?;
        let mut turn = 0;
        while goes_on && turn < limit {
            let number = self.number("turn", Stored::other(8), turn);
            let condition = self.number("condition", Stored::other(1), 1);
            let given: Vec<usize> =
                [number, condition].into_iter().chain(turns.carried.iter().copied()).collect();
            let results = self.turn(&mut turns, &given, 1)?;
            turn += 1;
            let written = self.values.get(&results[0]);
            match written {
                Some(Known::Integers(values)) => goes_on = values.first().is_some_and(|&value| value != 0),
                // After the last turn it does not matter.
                _ if turn == limit => {}
                _ => return Err(depends(self)),
            }
        }
        self.collect(turns, &[])
    }

    /// The turns of a `Scan`, one for each part of what it goes through.
    fn scan(&mut self, node: &Node<'_>, name: &str) -> Result<Vec<usize>, GraphError> {
        let depends = |walk: &Self| walk.depends(node, name);
        let body = self.graph_of(node, "body", name)?;
        let inputs = self.found(name, node.proto.input.iter().map(String::as_str))?;
        let through = node.integer("num_scan_inputs").and_then(|count| usize::try_from(count).ok());
        // The first version had a batch.
        let kept = through.filter(|_| node.opset >= 9).and_then(|through| inputs.len().checked_sub(through));
        let kept = kept.ok_or_else(|| depends(self))?;
        let axes = |walk: &Self, list: &str, place: usize, rank: usize| {
            let at = node.integers(list).unwrap_or_default().get(place).copied().unwrap_or(0);
            axis(at, rank).ok_or_else(|| depends(walk))
        };
        let mut turns = self.turns(node, name, body, inputs[..kept].to_vec(), 0)?;
        let mut length = None;
        for (place, &input) in inputs[kept..].iter().enumerate() {
            let shape = self.assembly.graph.tensors[input].shape.clone();
            let size = shape[axes(self, "scan_input_axes", place, shape.len())?];
            if *length.get_or_insert(size) != size {
                let reason = "what it goes through differs in length";
                return Err(self.assembly.damaged(format!("node `{name}`"), reason));
            }
        }
        for turn in 0..length.unwrap_or(0) {
            let mut given = turns.carried.clone();
            for (place, &input) in inputs[kept..].iter().enumerate() {
                let whole = &self.assembly.graph.tensors[input];
                let (mut shape, stored) =
                    (whole.shape.clone(), Stored { element: whole.element, bytes: whole.element_bytes });
                let at = axes(self, "scan_input_axes", place, shape.len())?;
                shape.remove(at);
                let called = format!("{name}/{turn}/part {place}");
                // Only parts along the first dimension lie in one piece.
                let op = if at == 0 { Op::View } else { Op::Copy { elements: count(&shape).unwrap_or(0) } };
                let part = self.assembly.tensor(&called, &called, shape, stored, false);
                let place = Place { name: called, module: String::new(), operator: "Scan".to_owned() };
                self.assembly.layer(place, Meaning::of(Some(op)), &[input], vec![part])?;
                given.push(part);
            }
            self.turn(&mut turns, &given, 0)?;
        }
        let axes = node.integers("scan_output_axes").unwrap_or_default();
        self.collect(turns, axes)
    }

    /// Prepares the turns over a body that gives so many conditions before what it carries on.
    fn turns<'p>(
        &mut self,
        node: &'p Node<'p>,
        name: &'p str,
        body: &'p GraphProto,
        carried: Vec<usize>,
        conditions: usize,
    ) -> Result<Turns<'p>, GraphError> {
        let collected = body.output.len().checked_sub(conditions + carried.len());
        let wrong = || {
            let reason = "its body has other results than it has";
            self.assembly.damaged(format!("node `{name}`"), reason)
        };
        let collected = collected.ok_or_else(wrong)?;
        for tensor in &body.initializer {
            self.initializer(tensor)?;
        }
        Ok(Turns { node, name, body, carried, collected: vec![Vec::new(); collected], done: 0 })
    }

    /// One turn with these operands; all its results.
    fn turn(
        &mut self,
        turns: &mut Turns<'_>,
        given: &[usize],
        conditions: usize,
    ) -> Result<Vec<usize>, GraphError> {
        self.count(turns.name)?;
        self.prefix = format!("{}/{}/", turns.name, turns.done);
        for (input, &index) in turns.body.input.iter().zip(given) {
            self.assembly.alias(input.name.as_deref().unwrap_or_default(), index);
        }
        self.body(turns.body, &[])?;
        let outputs = turns.body.output.iter().map(|output| output.name.as_deref().unwrap_or_default());
        let results = self.found(turns.name, outputs)?;
        let carried = turns.carried.len();
        turns.carried = results[conditions..conditions + carried].to_vec();
        for (list, &result) in turns.collected.iter_mut().zip(&results[conditions + carried..]) {
            list.push(result);
        }
        turns.done += 1;
        Ok(results)
    }

    /// Ends the turns: what was carried on, and what was collected as one tensor each.
    fn collect(&mut self, turns: Turns<'_>, axes: &[i64]) -> Result<Vec<usize>, GraphError> {
        let Turns { node, name, carried, collected, done, .. } = turns;
        let mut results = carried;
        let lists = node.proto.output.iter().skip(results.len()).zip(collected).enumerate();
        for (place, (output, parts)) in lists {
            let Some(&first) = parts.first() else { return Err(self.depends(node, name)) };
            let tensors = &self.assembly.graph.tensors;
            if parts.iter().any(|&part| tensors[part].shape != tensors[first].shape) {
                return Err(self.depends(node, name));
            }
            let stored = Stored { element: tensors[first].element, bytes: tensors[first].element_bytes };
            let mut shape = tensors[first].shape.clone();
            let at = axis(axes.get(place).copied().unwrap_or(0), shape.len() + 1);
            shape.insert(at.ok_or_else(|| self.depends(node, name))?, done);
            let op = count(&shape).map(|elements| Op::Copy { elements });
            let index = self.assembly.tensor(output, &format!("{name}/{output}"), shape, stored, false);
            let place = Place {
                name: format!("{name}/{output}"),
                module: String::new(),
                operator: node.operator.to_owned(),
            };
            self.assembly.layer(place, Meaning::of(op), &parts, vec![index])?;
            results.push(index);
        }
        Ok(results)
    }

    /// A known whole number as a tensor.
    fn number(&mut self, name: &str, stored: Stored, value: i64) -> usize {
        let name = self.called(name);
        let index = self.assembly.tensor(&name, &name, Vec::new(), stored, true);
        self.values.insert(index, Known::Integers(vec![value]));
        index
    }
}
