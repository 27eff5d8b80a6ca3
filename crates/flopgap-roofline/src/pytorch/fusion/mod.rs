//! Which layers `torch.compile` puts into one kernel: those by element go to what computes their
//! operands, and into reductions of the same rows, as long as nothing lies between them.

mod beside;
mod inlining;

use std::collections::{BTreeMap, BTreeSet};

use flopgap_graph::op::{Conv, NormFunction, PoolFunction};
use flopgap_graph::{Graph, Layer, Layout, Op};

pub(super) use self::inlining::takes_statistics;
use super::fast_path::FastPaths;
use super::splits;

/// A kernel of a compiled model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiled {
    /// The kernels of a layer, by a library.
    Library {
        /// Its index.
        layer: usize,
        /// Whether they add its bias, if it has one: otherwise a fused kernel does.
        adds_bias: bool,
    },
    /// Layers in one kernel.
    Fused(Fused),
}

/// Layers in one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fused {
    /// Their indexes; of a convolution, what is around it: its bias, or weights in another order.
    pub layers: Vec<usize>,
    /// Bytes of the tensors that it reads or writes, each once.
    pub bytes: u64,
    /// Bytes of the largest of them.
    pub largest: u64,
    /// How many of them have more than one element.
    pub tensors: u64,
    /// Bytes of an element of the largest.
    pub width: u64,
    /// What decides how fast it moves them.
    pub pattern: Pattern,
    /// Channels of a group whose statistics it takes, if channels come last: so far are the
    /// elements of a channel apart. Otherwise 0.
    pub channels: u64,
}

/// What a fused kernel does, as far as that decides how fast it moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Functions of each element.
    Map,
    /// Tensors written beside each other.
    Concatenation,
    /// Sums, means, norms.
    Reduction,
    /// A softmax.
    Softmax,
    /// Statistics of groups of channels.
    Statistics,
}

/// What a layer does to the elements it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// A library's kernels.
    Library,
    /// Each element that is written is a function of few that are read.
    Map,
    /// Each of so many rows becomes a value, and maybe a row again.
    Reduce { rows: u64, columns: u64 },
}

impl Does {
    /// `None` of what computes nothing.
    pub(super) fn of(op: &Op) -> Option<Self> {
        Some(match op {
            Op::View | Op::Empty => return None,
            Op::Norm(norm) if norm.function != NormFunction::BatchInference => {
                Self::Reduce { rows: norm.rows, columns: norm.columns }
            }
            Op::Softmax { rows, columns } => Self::Reduce { rows: *rows, columns: *columns },
            Op::Reduce { inputs, outputs } => {
                Self::Reduce { rows: *outputs, columns: inputs / outputs.max(&1) }
            }
            // Inductor has a mean for it.
            Op::Pool(pool)
                if pool.function == PoolFunction::Average && pool.output.iter().all(|size| *size == 1) =>
            {
                let columns = pool.image.iter().copied().fold(1, u64::saturating_mul);
                Self::Reduce { rows: pool.planes, columns }
            }
            Op::Elementwise(_) | Op::Norm(_) | Op::Copy { .. } | Op::Gather { .. } | Op::Pool(_) => Self::Map,
            _ => Self::Library,
        })
    }

    /// Whether a layer that does this reads tensors from memory: a library's, and windows, which
    /// read each element several times.
    fn reads_memory(self, layer: &Layer) -> bool {
        self == Self::Library || self == Self::Map && matches!(layer.op, Some(Op::Pool(_)))
    }
}

/// A kernel as it grows.
struct Unit {
    does: Does,
    layers: Vec<usize>,
    /// Elements of its largest member.
    elements: u64,
    /// What it reads: bytes by tensor.
    reads: BTreeMap<usize, u64>,
    /// Those of which it reads all.
    whole: BTreeSet<usize>,
    /// The tensors that it computes.
    writes: Vec<usize>,
    /// Those that it reads although it writes them: sums to which it adds a bias.
    again: Vec<usize>,
    /// Bytes that it writes into a part of a tensor, or into a copy.
    into_part: u64,
    /// The units that it needs, those of them included.
    above: Set,
    /// The place of its last member: that of the first is its own.
    last: usize,
    is_gone: bool,
}

impl Unit {
    /// Not a kernel: a unit that is part of another, or a tensor that several write.
    fn none(last: usize) -> Self {
        Self {
            does: Does::Map,
            layers: Vec::new(),
            elements: 0,
            reads: BTreeMap::new(),
            whole: BTreeSet::new(),
            writes: Vec::new(),
            again: Vec::new(),
            into_part: 0,
            above: Set::default(),
            last,
            is_gone: true,
        }
    }
}

#[derive(Clone, Default)]
struct Set(Vec<u64>);

impl Set {
    fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn insert(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    fn extend(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * at + bit)
        })
    }
}

/// Units, and which of them computes each tensor.
pub(super) struct Units<'a> {
    graph: &'a Graph,
    all: Vec<Unit>,
    /// The tensor whose memory a tensor is.
    root: Vec<usize>,
    writer: Vec<Option<usize>>,
    /// The layers that read each tensor.
    users: Vec<Vec<usize>>,
    /// What is computed again by each of its readers: the layers, until one of them has them, and
    /// what they read.
    inlined: BTreeMap<usize, (Vec<usize>, BTreeMap<usize, u64>)>,
    /// Tensors that are stored in 32 bits, though the model has them in 16.
    wide: BTreeSet<usize>,
    /// Kernels that reduce what parts of reductions leave.
    partial: Vec<Fused>,
    /// Whether images lie with channels last.
    channels_last: bool,
    paths: &'a FastPaths,
}

impl<'a> Units<'a> {
    pub(super) fn new(graph: &'a Graph, channels_last: bool, paths: &'a FastPaths) -> Self {
        let count = graph.tensors.len();
        let mut users = vec![Vec::new(); count];
        for (place, layer) in graph.layers.iter().enumerate() {
            for &input in &layer.inputs {
                users[input].push(place);
            }
        }
        Self {
            users,
            graph,
            all: Vec::new(),
            root: (0..count).collect(),
            writer: vec![None; count],
            inlined: BTreeMap::new(),
            wide: BTreeSet::new(),
            partial: Vec::new(),
            channels_last,
            paths,
        }
    }

    /// The kernels that a reduction of few rows takes beside its own: what its parts leave is
    /// reduced once or twice more.
    pub(super) fn split(&mut self, place: usize, does: Does) {
        let Does::Reduce { rows, columns } = does else { return };
        let layer = &self.graph.layers[place];
        let norm = match &layer.op {
            Some(Op::Norm(norm)) => Some(norm.function),
            _ => None,
        };
        let is_image = |input: &usize| self.graph.tensors[*input].shape.len() > 3;
        let is_strided = self.channels_last
            && layer.inputs.first().is_some_and(is_image)
            && norm.is_none_or(|function| function == NormFunction::Group);
        // Norms leave mean, variance and count of each part.
        let (tensors, pattern) =
            if norm.is_some() { (3, Pattern::Statistics) } else { (1, Pattern::Reduction) };
        for parts in splits::steps(rows, columns, is_strided) {
            let largest = rows.saturating_mul(parts).saturating_mul(4);
            let bytes = largest.saturating_mul(tensors);
            let (layers, tensors) = (vec![place], 2 * tensors);
            self.partial.push(Fused { layers, bytes, largest, tensors, width: 4, pattern, channels: 0 });
        }
    }

    /// A layer that shows its first operand in another shape, or each of several (a mesh).
    pub(super) fn view(&mut self, layer: &Layer) {
        let (inputs, outputs) = (&layer.inputs, &layer.outputs);
        if let (Some(first), Some(Op::View)) = (inputs.first(), &layer.op) {
            for (place, &output) in outputs.iter().enumerate() {
                let input = if inputs.len() == outputs.len() { inputs[place] } else { *first };
                self.show(input, &[output]);
            }
        }
    }

    /// Of a layer that writes tensors beside each other, the only one that is not empty, unless it
    /// has gaps in memory: nothing has to be written.
    pub(super) fn only(&self, layer: &Layer) -> Option<usize> {
        let tensors = &self.graph.tensors;
        let mut some = layer.inputs.iter().filter(|input| tensors[**input].elements() != Ok(0));
        let is_copy = layer.inputs.len() > 1 && matches!(layer.op, Some(Op::Copy { .. }));
        let only = some.next().filter(|_| is_copy && some.next().is_none())?;
        (tensors[*only].layout() != Layout::Gaps).then_some(*only)
    }

    /// Results that are an operand.
    pub(super) fn show(&mut self, input: usize, outputs: &[usize]) {
        for &output in outputs {
            self.root[output] = self.root[input];
        }
    }

    /// Writes a tensor to another place, in a kernel of what computes it or in one of its own.
    fn copy(&mut self, place: usize, input: usize) -> usize {
        let own = self.add(Does::Map, place, &[input], &[]);
        self.all[own].into_part += self.bytes(input);
        own
    }

    /// Tensors that are written into their places one by one.
    pub(super) fn concatenate(&mut self, place: usize, layer: &Layer) {
        let whole = self.all.len();
        self.all.push(Unit::none(whole));
        for &input in &layer.inputs {
            let own = self.copy(place, input);
            self.need(whole, own);
        }
        for &output in &layer.outputs {
            self.writer[output] = Some(whole);
        }
    }

    /// A product. It reads matrices that follow each other at one distance: others are copied
    /// first.
    pub(super) fn product(&mut self, place: usize, layer: &Layer, batch: u64) {
        let last = if batch > 1 { 2 } else { 1 };
        let (scattered, read): (Vec<usize>, Vec<usize>) =
            layer.inputs.iter().partition(|&&input| self.graph.tensors[input].is_scattered(last));
        let copies: Vec<usize> = scattered.into_iter().map(|input| self.copy(place, input)).collect();
        let own = self.add(Does::Library, place, &read, &layer.outputs);
        for copy in copies {
            self.need(own, copy);
        }
    }

    /// Notes that a unit needs another, and what that needs.
    fn need(&mut self, own: usize, other: usize) {
        let needed = self.all[other].above.clone();
        let above = &mut self.all[own].above;
        above.insert(other);
        above.extend(&needed);
    }

    fn bytes(&self, tensor: usize) -> u64 {
        let stored = self.graph.tensors[tensor].bytes().unwrap_or(u64::MAX);
        if self.wide.contains(&tensor) { stored.saturating_mul(2) } else { stored }
    }

    /// Bytes of an element as it is stored.
    fn width(&self, tensor: usize) -> u64 {
        let of = self.graph.tensors.get(tensor).filter(|_| !self.wide.contains(&tensor));
        of.map_or(4, |tensor| tensor.element_bytes)
    }

    /// The bytes of a view: those that it shows, and of an expanded tensor those in memory.
    fn read(&self, tensor: usize) -> (usize, u64) {
        let root = self.root[tensor];
        (root, self.bytes(tensor).min(self.bytes(root)))
    }

    /// What is read for some tensors, at most so many bytes of each.
    fn reads(&self, inputs: &[usize], limit: u64) -> BTreeMap<usize, u64> {
        let mut reads: BTreeMap<usize, u64> = BTreeMap::new();
        let mut add = |tensor: usize, bytes: u64| {
            let known = reads.entry(tensor).or_default();
            *known = (*known).max(bytes);
        };
        for &input in inputs {
            let (root, bytes) = self.read(input);
            match self.inlined.get(&root) {
                Some((_, reads)) => reads.iter().for_each(|(tensor, bytes)| add(*tensor, *bytes)),
                None => add(root, bytes.min(limit)),
            }
        }
        reads
    }

    fn unit(&self, does: Does, layer: usize, inputs: &[usize], outputs: &[usize]) -> Unit {
        let graph = self.graph;
        let elements = |tensors: &[usize]| {
            let elements = tensors.iter().map(|&tensor| graph.tensors[tensor].elements().unwrap_or(u64::MAX));
            elements.max().unwrap_or(0)
        };
        let of = match does {
            Does::Reduce { rows, columns } => rows.saturating_mul(columns),
            // What is written in another order is not fused with what reduces rows.
            _ if outputs.is_empty() => {
                let in_order =
                    |input: &&usize| graph.tensors[**input].strides.last().is_none_or(|own| *own == 1);
                elements(&inputs.iter().filter(in_order).copied().collect::<Vec<_>>())
            }
            _ => elements(outputs),
        };
        let limit = match &graph.layers[layer].op {
            // Of a table, only the rows that are picked.
            Some(Op::Gather { rows, width }) => {
                let of = outputs.first().map_or(0, |&output| graph.tensors[output].element_bytes);
                rows.saturating_mul(*width).saturating_mul(of)
            }
            _ => u64::MAX,
        };
        let reads = self.reads(inputs, limit);
        let is_whole = |input: &&usize| self.bytes(**input) >= self.bytes(self.root[**input]);
        let whole: Vec<usize> = inputs.iter().filter(is_whole).copied().collect();
        let picks = matches!(graph.layers[layer].op, Some(Op::Gather { .. }));
        let whole = if picks { BTreeSet::new() } else { self.reads(&whole, limit).into_keys().collect() };
        let mut above = Set::default();
        for writer in self.writers(&reads) {
            above.insert(writer);
            above.extend(&self.all[writer].above);
        }
        let again = inputs.iter().filter(|input| outputs.contains(input)).copied().collect();
        let (layers, writes) = (vec![layer], outputs.to_vec());
        let last = self.all.len();
        let (into_part, is_gone) = (0, false);
        Unit { does, layers, elements: of, reads, whole, writes, again, into_part, above, last, is_gone }
    }

    /// The units that compute what is read.
    fn writers(&self, reads: &BTreeMap<usize, u64>) -> Vec<usize> {
        reads.keys().filter_map(|root| self.writer[*root]).collect()
    }

    /// A layer, in a kernel of those whose results it reads or in one of its own: its place.
    pub(super) fn add(&mut self, does: Does, layer: usize, inputs: &[usize], outputs: &[usize]) -> usize {
        let mut unit = self.unit(does, layer, inputs, outputs);
        unit.layers.extend(self.take_inlined(inputs));
        let writers = self.writers(&unit.reads);
        let mut own = self.all.len();
        self.all.push(unit);
        if !does.reads_memory(&self.graph.layers[layer]) {
            // The latest first: what is nearest in time is what is fused.
            for &writer in writers.iter().rev() {
                if !self.all[writer].is_gone && writer != own && self.fits(writer, own) {
                    self.merge(writer, own);
                    own = writer;
                }
            }
            while let Some(other) = self.beside(own) {
                let (into, from) = (own.min(other), own.max(other));
                self.merge(into, from);
                own = into;
            }
        }
        for &output in outputs {
            self.writer[output] = Some(own);
        }
        own
    }

    /// Puts the weights of a convolution into another order, and an image that comes from outside.
    pub(super) fn reorder(&mut self, layer: usize, conv: &Conv) {
        let [image, weights] = [0, 1].map(|place| self.graph.layers[layer].inputs.get(place).copied());
        let has_window = conv.kernel.iter().any(|size| *size > 1) && conv.inputs > conv.groups;
        for tensor in weights.filter(|_| has_window).into_iter().chain(image) {
            // What a kernel writes it writes in this order.
            if self.writer[self.root[tensor]].is_none() {
                let unit = self.unit(Does::Map, layer, &[tensor], &[]);
                self.all.push(Unit { into_part: self.bytes(tensor), ..unit });
            }
        }
    }

    /// The kernels as they are.
    pub(super) fn finish(self) -> Vec<Compiled> {
        let Self { graph, all, partial, .. } = &self;
        let mut is_output = vec![false; graph.tensors.len()];
        for &output in &graph.outputs {
            is_output[self.root[output]] = true;
        }
        let mut needed = is_output.clone();
        for unit in all {
            for &tensor in unit.reads.keys().filter(|tensor| !unit.writes.contains(tensor)) {
                needed[tensor] = true;
            }
        }
        // What is read for the last time is overwritten.
        let mut last_read: Vec<usize> = vec![usize::MAX; graph.tensors.len()];
        for (place, unit) in all.iter().enumerate().filter(|(_, unit)| !unit.is_gone) {
            for &tensor in unit.reads.keys() {
                last_read[tensor] = place;
            }
        }
        let all = all.iter().enumerate();
        let made = all.filter(|(_, unit)| !unit.is_gone).filter_map(|(place, unit)| {
            if unit.does == Does::Library {
                let layer = unit.layers[0];
                let adds_bias = !self.leaves_bias(&graph.layers[layer]);
                return Some(Compiled::Library { layer, adds_bias });
            }
            let pattern = |layer: &usize| {
                let layer = &graph.layers[*layer];
                match &layer.op {
                    Some(Op::Softmax { .. }) => Pattern::Softmax,
                    Some(Op::Norm(norm))
                        if norm.function == NormFunction::Group
                            && matches!(unit.does, Does::Reduce { .. }) =>
                    {
                        Pattern::Statistics
                    }
                    _ if matches!(unit.does, Does::Reduce { .. }) => Pattern::Reduction,
                    Some(Op::Copy { .. }) if layer.inputs.len() > 1 => Pattern::Concatenation,
                    _ => Pattern::Map,
                }
            };
            let pattern = unit.layers.iter().map(pattern).max().unwrap_or(Pattern::Map);
            let is_read = |tensor: &usize| !unit.writes.contains(tensor) || unit.again.contains(tensor);
            let read = unit.reads.iter().filter(|(tensor, _)| is_read(tensor));
            let written =
                unit.writes.iter().filter(|tensor| needed[**tensor] && !unit.again.contains(tensor));
            let moved = read.map(|(tensor, bytes)| (*tensor, *bytes));
            let mut moved: Vec<(usize, u64)> = moved.collect();
            let mut free: Vec<u64> = moved
                .iter()
                .filter(|(tensor, _)| {
                    let is_own = self.writer[*tensor].is_some() && !unit.writes.contains(tensor);
                    is_own && !is_output[*tensor] && last_read[*tensor] == place
                })
                .map(|(_, bytes)| *bytes)
                .collect();
            for &tensor in written {
                let bytes = self.bytes(tensor);
                match free.iter().position(|own| *own == bytes) {
                    Some(place) => _ = free.swap_remove(place),
                    None => moved.push((tensor, bytes)),
                }
            }
            if unit.into_part > 0 {
                moved.push((usize::MAX, unit.into_part));
            }
            let statistics = unit.layers.iter().find_map(|layer| self.channels(*layer));
            let channels = statistics.filter(|_| pattern == Pattern::Statistics && self.channels_last);
            let (of, largest) = moved.iter().copied().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
            // What is empty, and what nobody needs, takes no kernel.
            (largest > 0).then(|| {
                Compiled::Fused(Fused {
                    layers: unit.layers.clone(),
                    bytes: moved.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)),
                    largest,
                    tensors: moved.iter().filter(|(_, bytes)| *bytes > 8).count() as u64,
                    width: self.width(of),
                    pattern,
                    channels: channels.unwrap_or(0),
                })
            })
        });
        made.chain(partial.iter().cloned().map(Compiled::Fused)).collect()
    }

    /// Channels of a group of images, of a layer that takes statistics of them.
    fn channels(&self, layer: usize) -> Option<u64> {
        let layer = &self.graph.layers[layer];
        let (Some(Op::Norm(norm)), Some(&input)) = (&layer.op, layer.inputs.first()) else { return None };
        let &[images, channels, ..] = self.graph.tensors[input].shape.as_slice() else { return None };
        (norm.function == NormFunction::Group).then(|| images.saturating_mul(channels) / norm.rows.max(1))
    }

    /// Whether a unit and one that reads it can be one kernel.
    fn fits(&self, before: usize, after: usize) -> bool {
        let [a, b] = [before, after].map(|at| &self.all[at]);
        let takes_statistics = |layer: &usize| takes_statistics(&self.graph.layers[*layer]);
        let sizes = match (a.does, b.does) {
            (Does::Reduce { .. }, _) if a.layers.iter().any(takes_statistics) => false,
            (Does::Map, Does::Map) => true,
            (Does::Map, Does::Reduce { .. }) => a.elements <= b.elements,
            (Does::Reduce { rows, .. }, Does::Map) => b.elements == a.elements || b.elements == rows,
            (Does::Reduce { rows, columns }, Does::Reduce { rows: others, columns: other }) => {
                (rows, columns) == (others, other)
            }
            (Does::Library, _) | (_, Does::Library) => false,
        };
        // Nothing lies between them.
        sizes
            && !b
                .above
                .iter()
                .any(|at| at != before && !self.all[at].is_gone && self.all[at].above.has(before))
    }

    /// Makes the second a part of the first.
    fn merge(&mut self, into: usize, from: usize) {
        let other = std::mem::replace(&mut self.all[from], Unit::none(from));
        let mut above = other.above;
        above.remove(into);
        let unit = &mut self.all[into];
        if matches!(other.does, Does::Reduce { .. }) {
            unit.does = other.does;
        }
        unit.elements = unit.elements.max(other.elements);
        unit.layers.extend(other.layers);
        for (tensor, bytes) in other.reads {
            let known = unit.reads.entry(tensor).or_default();
            *known = (*known).max(bytes);
        }
        for &tensor in &other.writes {
            self.writer[tensor] = Some(into);
        }
        unit.whole.extend(other.whole);
        unit.writes.extend(other.writes);
        unit.again.extend(other.again);
        unit.into_part += other.into_part;
        unit.last = unit.last.max(other.last);
        unit.above.extend(&above);
        let own = unit.above.clone();
        // What needs it needs what it needs now.
        for unit in self.all.iter_mut().filter(|unit| unit.above.has(into) || unit.above.has(from)) {
            unit.above.remove(from);
            unit.above.insert(into);
            unit.above.extend(&own);
        }
    }
}
