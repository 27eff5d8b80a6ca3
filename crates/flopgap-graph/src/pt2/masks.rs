//! Masks of attention whose values follow from positions alone, such as that of a causal model
//! without padding: what they hide, by computing them.

use std::cell::Cell;

use flopgap_flops::AttentionMask;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::call::{Call, Operand};
use crate::graph::Tensor;

/// Dimensions of a tensor that a mask comes from; batches, heads, queries and keys are four.
const DIMENSIONS: usize = 6;

/// Values of a mask that are computed: of larger ones those of rows at equal distances, and of the
/// last.
const COMPUTED: u64 = 1 << 18;

/// Operators that a mask comes from; that of a causal model with padding has some 20.
const OPERATORS: usize = 64;

/// What an additive mask has at most where it hides: the least number of 16 bits is -65,504.
const HIDES: f64 = -60_000.0;

/// A node of the file: its operator, arguments, and the tensors among them.
type Node<'v> = (&'v str, &'v [Value], Vec<Operand<'v>>);

/// The nodes that wrote tensors.
#[derive(Default)]
pub(super) struct Writers<'v> {
    nodes: FxHashMap<usize, Node<'v>>,
    /// What masks hide that were computed.
    hidden: FxHashMap<usize, Option<AttentionMask>>,
}

/// A value by its position.
type At = Box<dyn Fn(&[u64]) -> f64>;

/// The values of a tensor.
struct Values {
    shape: Vec<u64>,
    /// Whether they differ along each dimension.
    differ: Vec<bool>,
    at: At,
}

impl Values {
    fn number(number: f64, shape: &[u64]) -> Self {
        Self { shape: shape.to_vec(), differ: vec![false; shape.len()], at: Box::new(move |_| number) }
    }

    /// Values of a shape, each that of another at a position: `from` has, for each dimension of the
    /// other, that of this and the position where it begins.
    fn moved(self, shape: &[u64], from: Vec<(usize, u64)>) -> Self {
        let Self { shape: own, differ: before, at } = self;
        let mut differ = vec![false; shape.len()];
        for ((dimension, _), before) in from.iter().zip(before) {
            differ[*dimension] |= before;
        }
        let moved = move |position: &[u64]| {
            let mut places = [0; DIMENSIONS];
            for ((place, (dimension, start)), size) in places.iter_mut().zip(&from).zip(&own) {
                // A dimension of one element is read again at every position.
                *place = if *size == 1 { 0 } else { start + position[*dimension] };
            }
            at(&places[..own.len()])
        };
        Self { shape: shape.to_vec(), differ, at: Box::new(moved) }
    }

    /// The same along dimensions of one element, and others before the first.
    fn expanded(self, shape: &[u64]) -> Option<Self> {
        let more = shape.len().checked_sub(self.shape.len())?;
        let dimensions = (more..shape.len()).map(|dimension| (dimension, 0)).collect();
        Some(self.moved(shape, dimensions))
    }

    fn with(self, other: Self, function: fn(f64, f64) -> f64) -> Self {
        let Self { shape, differ, at } = self;
        let differ = differ.into_iter().zip(other.differ).map(|(own, other)| own || other).collect();
        let (left, right) = (at, other.at);
        Self { shape, differ, at: Box::new(move |position| function(left(position), right(position))) }
    }
}

impl<'v> Writers<'v> {
    /// Notes the node that wrote a tensor.
    pub(super) fn note(&mut self, outputs: &[usize], node: Node<'v>) {
        if let &[output] = outputs {
            self.nodes.insert(output, node);
        }
    }

    /// What a mask hides, whose last dimensions are queries and keys: nothing, or of as many keys
    /// as queries those after each query. `None` where it hides others, or where its values depend
    /// on more than these positions.
    pub(super) fn hidden(&mut self, mask: usize, tensors: &[Tensor]) -> Option<AttentionMask> {
        if let Some(known) = self.hidden.get(&mask) {
            return *known;
        }
        let hidden = self.computed(mask, tensors);
        self.hidden.insert(mask, hidden);
        hidden
    }

    fn computed(&self, mask: usize, tensors: &[Tensor]) -> Option<AttentionMask> {
        let is_truth = tensors[mask].element.is_none();
        let values = self.values(mask, tensors, &Cell::new(OPERATORS))?;
        let &[ref batches @ .., queries, keys] = values.shape.as_slice() else { return None };
        let first = batches.len();
        if queries == 0 || !(1..=COMPUTED).contains(&keys) || values.differ[..first].contains(&true) {
            return None;
        }
        let step = usize::try_from(queries.saturating_mul(keys).div_ceil(COMPUTED)).ok()?;
        let (mut is_full, mut is_causal) = (true, queries == keys);
        let mut position = vec![0; first + 2];
        for query in (0..queries).step_by(step).chain([queries - 1]) {
            position[first] = query;
            for key in 0..keys {
                position[first + 1] = key;
                let value = (values.at)(&position);
                let sees = match value {
                    _ if is_truth => value != 0.0,
                    0.0 => true,
                    _ if value < HIDES => false,
                    _ => return None,
                };
                is_full &= sees;
                is_causal &= sees == (key <= query);
            }
        }
        match (is_full, is_causal) {
            (true, _) => Some(AttentionMask::Full),
            (_, true) => Some(AttentionMask::Causal),
            _ => None,
        }
    }

    /// The values of a tensor, of so many operators at most.
    fn values(&self, tensor: usize, tensors: &[Tensor], operators: &Cell<usize>) -> Option<Values> {
        let shape = tensors[tensor].shape.as_slice();
        let (name, arguments, operands) = self.nodes.get(&tensor)?;
        operators.set(operators.get().checked_sub(1)?);
        if shape.len() > DIMENSIONS {
            return None;
        }
        let call =
            Call { name, overload: "", arguments, operands, tensors, outputs: &[tensor], training: false };
        let read = |argument: &str| {
            let position = call.position(argument)?;
            self.values(operands[position].tensor, tensors, operators)
        };
        let operand = |argument: &str| match call.position(argument) {
            Some(_) => read(argument)?.expanded(shape),
            None => Some(Values::number(call.number(argument)?, shape)),
        };
        let both = |function| Some(operand("self")?.with(operand("other")?, function));
        // Factors of sums, and steps of slices, are 1 in masks.
        let alone = ["alpha", "step"].iter().all(|other| call.integer(other).is_none_or(|step| step == 1));
        let dimension = || {
            let own = call.integer("dim").unwrap_or(0);
            let distance = usize::try_from(own.unsigned_abs()).ok()?;
            if own < 0 { shape.len().checked_sub(distance) } else { Some(distance) }
        };
        Some(match *name {
            "arange" if alone && shape.len() == 1 => {
                let start = call.number("start").unwrap_or(0.0);
                let at = Box::new(move |position: &[u64]| start + position[0] as f64);
                Values { shape: shape.to_vec(), differ: vec![true], at }
            }
            "ones" | "ones_like" | "new_ones" => Values::number(1.0, shape),
            "zeros" | "zeros_like" | "new_zeros" => Values::number(0.0, shape),
            "full" | "full_like" | "new_full" => Values::number(call.number("fill_value")?, shape),
            "to" | "_to_copy" | "clone" | "contiguous" | "expand" => operand("self")?,
            "unsqueeze" => {
                let added = dimension()?;
                let others = (0..shape.len()).filter(|&other| other != added);
                read("self")?.moved(shape, others.map(|other| (other, 0)).collect())
            }
            "slice" if alone => {
                let (cut, start) = (dimension()?, u64::try_from(call.integer("start").unwrap_or(0)).ok()?);
                let begins = |other: usize| (other, if other == cut { start } else { 0 });
                read("self")?.moved(shape, (0..shape.len()).map(begins).collect())
            }
            // A column of numbers.
            "reshape" | "view" => {
                let from = read("self")?;
                let &[length] = from.shape.as_slice() else { return None };
                let long = shape.iter().position(|size| *size == length)?;
                if shape.iter().enumerate().any(|(other, size)| other != long && *size != 1) {
                    return None;
                }
                from.moved(shape, vec![(long, 0)])
            }
            // Whatever is picked of equal values.
            "index" => read("self").filter(|of| !of.differ.contains(&true))?.moved(shape, Vec::new()),
            "triu" | "tril" if shape.len() == 2 => {
                let (of, from, keeps_lower) =
                    (operand("self")?, call.number("diagonal").unwrap_or(0.0), *name == "tril");
                let at = move |position: &[u64]| {
                    let distance = position[1] as f64 - position[0] as f64;
                    let is_kept = if keeps_lower { distance <= from } else { distance >= from };
                    if is_kept { (of.at)(position) } else { 0.0 }
                };
                Values { shape: shape.to_vec(), differ: vec![true; 2], at: Box::new(at) }
            }
            "add" if alone => both(|a, b| a + b)?,
            "sub" if alone => both(|a, b| a - b)?,
            "mul" => both(|a, b| a * b)?,
            "ge" => both(|a, b| f64::from(a >= b))?,
            "gt" => both(|a, b| f64::from(a > b))?,
            "le" => both(|a, b| f64::from(a <= b))?,
            "lt" => both(|a, b| f64::from(a < b))?,
            // Of positions, which are whole numbers.
            "eq" => both(|a, b| f64::from((a - b).abs() < 0.5))?,
            "ne" => both(|a, b| f64::from((a - b).abs() > 0.5))?,
            "abs" => operand("self")?.with(Values::number(0.0, shape), |a, _| a.abs()),
            "floor_divide" => both(|a, b| (a / b).floor())?,
            "and" | "logical_and" | "bitwise_and" => both(f64::min)?,
            "or" | "logical_or" | "bitwise_or" => both(f64::max)?,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A node: its operator, the nodes that it reads by their arguments and places, its other
    /// arguments, the shape that it writes.
    type Written<'a> = (&'a str, &'a [(&'a str, usize)], Value, &'a [u64]);

    /// What a mask hides that the last of these nodes writes.
    fn hidden(nodes: &[Written<'_>], is_truth: bool) -> Option<AttentionMask> {
        let element = (!is_truth).then_some(flopgap_flops::ElementType::Fp16);
        let tensor = |shape: &[u64]| Tensor {
            name: String::new(),
            shape: shape.to_vec(),
            element,
            element_bytes: 2,
            parameter: false,
            trained: false,
            strides: Vec::new(),
        };
        let tensors: Vec<Tensor> = nodes.iter().map(|(.., shape)| tensor(shape)).collect();
        let mut writers = Writers::default();
        for (place, (name, reads, arguments, _)) in nodes.iter().enumerate() {
            let reads = reads.iter().map(|&(argument, tensor)| Operand { argument, tensor }).collect();
            writers.note(&[place], (name, arguments.as_array().unwrap(), reads));
        }
        writers.hidden(nodes.len() - 1, &tensors)
    }

    fn arguments(numbers: &[(&str, i64)]) -> Value {
        numbers.iter().map(|(name, number)| json!({"name": name, "arg": {"as_int": number}})).collect()
    }

    #[test]
    fn a_mask_of_positions_is_what_it_hides() {
        // Whether a key is at most so far behind the query that it is before, and not after it.
        let window = |queries: u64, width: i64| {
            let nodes: [Written<'_>; 7] = [
                ("arange", &[], arguments(&[("end", 8)]), &[8]),
                ("arange", &[], arguments(&[("start", 0), ("end", 8), ("step", 1)]), &[queries]),
                ("unsqueeze", &[("self", 1)], arguments(&[("dim", -1)]), &[queries, 1]),
                ("le", &[("self", 0), ("other", 2)], arguments(&[]), &[queries, 8]),
                ("sub", &[("self", 2)], arguments(&[("other", width)]), &[queries, 1]),
                ("gt", &[("self", 0), ("other", 4)], arguments(&[]), &[queries, 8]),
                ("logical_and", &[("self", 3), ("other", 5)], arguments(&[]), &[queries, 8]),
            ];
            hidden(&nodes, true)
        };
        assert_eq!(window(8, 8), Some(AttentionMask::Causal));
        assert_eq!(window(8, 7), None, "a window shorter than the keys");
        assert_eq!(window(5, 8), None, "fewer queries than keys");

        // The upper triangle of numbers, added.
        let added = |number: i64, diagonal: i64| {
            let nodes: [Written<'_>; 3] = [
                ("full", &[], arguments(&[("fill_value", number)]), &[8, 8]),
                ("triu", &[("self", 0)], arguments(&[("diagonal", diagonal)]), &[8, 8]),
                ("expand", &[("self", 1)], arguments(&[]), &[2, 1, 8, 8]),
            ];
            hidden(&nodes, false)
        };
        assert_eq!(added(-65_504, 1), Some(AttentionMask::Causal));
        assert_eq!(added(-65_504, 0), None, "a query that does not see itself");
        assert_eq!(added(-65_504, 8), Some(AttentionMask::Full));
        assert_eq!(added(-4, 1), None, "a bias hides nothing and changes scores");

        // Numbers where a key is after the position of its query, as transformers 4 makes them.
        let nodes: [Written<'_>; 6] = [
            ("full", &[], arguments(&[("fill_value", -65_504)]), &[8, 8]),
            ("arange", &[], arguments(&[]), &[8]),
            ("reshape", &[("self", 1)], arguments(&[]), &[8, 1]),
            ("gt", &[("self", 1), ("other", 2)], arguments(&[]), &[8, 8]),
            ("mul", &[("self", 0), ("other", 3)], arguments(&[]), &[8, 8]),
            ("expand", &[("self", 4)], arguments(&[]), &[3, 1, 8, 8]),
        ];
        assert_eq!(hidden(&nodes, false), Some(AttentionMask::Causal));

        // As many queries as a damaged file may state.
        let zeros = |keys: u64| hidden(&[("zeros", &[], arguments(&[]), &[1 << 62, keys])], false);
        assert_eq!((zeros(1), zeros(0)), (Some(AttentionMask::Full), None));

        // What differs by batch, and what comes from elsewhere.
        let batches: [Written<'_>; 3] = [
            ("arange", &[], arguments(&[]), &[2]),
            ("unsqueeze", &[("self", 0)], arguments(&[("dim", 1)]), &[2, 1]),
            ("unsqueeze", &[("self", 1)], arguments(&[("dim", 2)]), &[2, 1, 1]),
        ];
        assert_eq!(hidden(&batches, true), None);
        assert_eq!(hidden(&[("relu", &[], arguments(&[]), &[4, 4])], true), None);
        let itself: [Written<'_>; 1] = [("add", &[("self", 0), ("other", 0)], arguments(&[]), &[4, 4])];
        assert_eq!(hidden(&itself, true), None, "a damaged file");
    }
}
