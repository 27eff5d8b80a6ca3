//! Values of small tensors: the arithmetic on shapes that models do before they reshape, slice or
//! expand.

use rten_onnx::onnx::DataType;

use super::node::{KEPT, Known, Node, Operand, axis, known};
use super::slice::{Cut, cuts, range};
use crate::import::count;

/// The values of the results of a node, where those of its operands are known and the results are
/// small. `shapes` are theirs.
pub(super) fn fold(node: &Node<'_>, shapes: &[Vec<u64>]) -> Vec<Option<Known>> {
    let mut values = match node.operator {
        "Split" => pieces(node, shapes).unwrap_or_default().into_iter().map(Some).collect(),
        _ => vec![one(node, shapes)],
    };
    values.resize(shapes.len(), None);
    for (value, shape) in values.iter_mut().zip(shapes) {
        let length = value.as_ref().map(|value| match value {
            Known::Integers(values) => values.len(),
            Known::Floats(values) => values.len(),
        });
        // A value that does not fit its shape is none.
        if length.map(|length| length as u64) != count(shape) {
            *value = None;
        }
    }
    values
}

fn one(node: &Node<'_>, shapes: &[Vec<u64>]) -> Option<Known> {
    let elements = usize::try_from(count(shapes.first()?)?).ok().filter(|&count| count <= KEPT)?;
    let first = || node.operand(0);
    match node.operator {
        "Shape" => {
            let shape = node.shape(0)?;
            let rank = i64::try_from(shape.len()).ok()?;
            let place = |at: i64| if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank);
            let start = usize::try_from(place(node.integer("start").unwrap_or(0))).ok()?;
            let sizes = shape.iter().skip(start).take(elements);
            Some(Known::Integers(sizes.map(|&size| i64::try_from(size).ok()).collect::<Option<_>>()?))
        }
        "Size" => Some(Known::Integers(vec![i64::try_from(count(node.shape(0)?)?).ok()?])),
        "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Dropout" => first()?.known.clone(),
        "Transpose" => transposed(node),
        "Cast" => cast(first()?.known.as_ref()?, DataType(i32::try_from(node.integer("to")?).ok()?)),
        "Concat" => concatenated(node),
        "Gather" => gathered(node),
        "Slice" => sliced(node),
        "Expand" | "Tile" => match first()?.known.as_ref()? {
            Known::Integers(values) if values.len() == 1 => Some(Known::Integers(vec![values[0]; elements])),
            Known::Floats(values) if values.len() == 1 => Some(Known::Floats(vec![values[0]; elements])),
            all => Some(all.clone()),
        },
        "ConstantOfShape" => {
            let Some(value) = node.attribute("value") else {
                return Some(Known::Floats(vec![0.0; elements]));
            };
            match value.t.as_ref().and_then(known) {
                Some(Known::Integers(values)) => Some(Known::Integers(vec![*values.first()?; elements])),
                Some(Known::Floats(values)) => Some(Known::Floats(vec![*values.first()?; elements])),
                None => None,
            }
        }
        "Range" => {
            if let Some(floats) = node.operand(0)?.floats() {
                let (start, step) = (*floats.first()?, *node.operand(2)?.floats()?.first()?);
                #[expect(clippy::cast_precision_loss, reason = "at most so many elements are kept")]
                let values = (0..elements).map(|index| start + index as f32 * step);
                return Some(Known::Floats(values.collect()));
            }
            let value = |position: usize| Some(*node.operand(position)?.integers()?.first()?);
            let (start, step) = (value(0)?, value(2)?);
            let values = (0..i64::try_from(elements).ok()?)
                .map(|index| step.checked_mul(index).and_then(|offset| start.checked_add(offset)));
            Some(Known::Integers(values.collect::<Option<_>>()?))
        }
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" if elements == 1 => {
            let values = first()?.integers()?;
            let result = match node.operator {
                "ReduceProd" => {
                    values.iter().try_fold(1_i64, |product, &value| product.checked_mul(value))?
                }
                "ReduceSum" => values.iter().try_fold(0_i64, |sum, &value| sum.checked_add(value))?,
                "ReduceMax" => *values.iter().max()?,
                _ => *values.iter().min()?,
            };
            Some(Known::Integers(vec![result]))
        }
        "Where" => {
            let condition = first()?.integers()?;
            let (yes, no) = (node.operand(1)?.integers()?, node.operand(2)?.integers()?);
            let at = |values: &[i64], index: usize| {
                if values.len() == 1 { Some(values[0]) } else { values.get(index).copied() }
            };
            let values = (0..elements)
                .map(|index| if at(condition, index)? == 0 { at(no, index) } else { at(yes, index) });
            Some(Known::Integers(values.collect::<Option<_>>()?))
        }
        _ => arithmetic(node, elements),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "as the operator does; sizes are far below where floats lose digits"
)]
fn cast(value: &Known, to: DataType) -> Option<Known> {
    let float = to == DataType::FLOAT || to == DataType::DOUBLE || to == DataType::FLOAT16;
    let integer = to == DataType::INT64 || to == DataType::INT32;
    Some(match value {
        Known::Integers(values) if float => Known::Floats(values.iter().map(|&value| value as f32).collect()),
        Known::Floats(values) if integer => {
            Known::Integers(values.iter().map(|&value| value as i64).collect())
        }
        Known::Integers(values) if to == DataType::BOOL => {
            Known::Integers(values.iter().map(|&value| i64::from(value != 0)).collect())
        }
        Known::Integers(values) if integer => Known::Integers(values.clone()),
        Known::Floats(values) if float => Known::Floats(values.clone()),
        _ => return None,
    })
}

fn concatenated(node: &Node<'_>) -> Option<Known> {
    let operands = || node.operands.iter().flatten();
    if operands().any(|operand| operand.rank() > 1) {
        return None;
    }
    if operands().all(|operand| operand.integers().is_some()) {
        let values = operands().filter_map(Operand::integers).flatten().copied();
        return Some(Known::Integers(values.collect()));
    }
    let values: Option<Vec<&[f32]>> = operands().map(Operand::floats).collect();
    Some(Known::Floats(values?.concat()))
}

/// The elements of a tensor at some places.
fn picked(table: &Operand, places: &[usize]) -> Option<Known> {
    fn at<T: Copy>(values: &[T], places: &[usize]) -> Option<Vec<T>> {
        places.iter().map(|&place| values.get(place).copied()).collect()
    }
    Some(match table.known.as_ref()? {
        Known::Integers(values) => Known::Integers(at(values, places)?),
        Known::Floats(values) => Known::Floats(at(values, places)?),
    })
}

/// The places of the elements of a result in a tensor, from what each dimension of the result adds
/// to the place; the last runs fastest. Both have at most [`KEPT`] elements.
fn places(dimensions: &[Vec<usize>]) -> Vec<usize> {
    dimensions.iter().fold(vec![0], |places, added| {
        places.iter().flat_map(|place| added.iter().map(move |add| place + add)).collect()
    })
}

/// By how much a step along each dimension moves in memory; of what is empty, nothing.
fn strides(shape: &[u64]) -> Option<Vec<usize>> {
    if shape.contains(&0) {
        return None;
    }
    let mut strides = vec![1_usize; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].checked_mul(usize::try_from(shape[at]).ok()?)?;
    }
    Some(strides)
}

fn gathered(node: &Node<'_>) -> Option<Known> {
    let table = node.operand(0).filter(|table| table.rank() == 1)?;
    let indexes = node.operand(1)?.integers()?.iter();
    let size = usize::try_from(table.shape[0]).ok()?;
    picked(table, &indexes.map(|&index| axis(index, size)).collect::<Option<Vec<_>>>()?)
}

fn transposed(node: &Node<'_>) -> Option<Known> {
    let table = node.operand(0).filter(|table| table.known.is_some())?;
    let strides = strides(&table.shape)?;
    let order: Vec<usize> = match node.integers("perm") {
        Some(order) => order.iter().map(|&at| axis(at, table.rank())).collect::<Option<_>>()?,
        None => (0..table.rank()).rev().collect(),
    };
    let along = |&at: &usize| {
        Some((0..usize::try_from(table.shape[at]).ok()?).map(|index| index * strides[at]).collect())
    };
    picked(table, &places(&order.iter().map(along).collect::<Option<Vec<_>>>()?))
}

fn sliced(node: &Node<'_>) -> Option<Known> {
    let table = node.operand(0).filter(|table| table.known.is_some())?;
    let strides = strides(&table.shape)?;
    let mut dimensions: Vec<Vec<usize>> = Vec::new();
    for (&size, stride) in table.shape.iter().zip(&strides) {
        dimensions.push((0..usize::try_from(size).ok()?).map(|index| index * stride).collect());
    }
    for Cut { axis, start, end, step } in cuts(node, table.rank())? {
        let (start, length) = range(start, end, step, table.shape[axis])?;
        let indexes = (0..i64::try_from(length).ok()?)
            .map(|index| usize::try_from(start.checked_add(index.checked_mul(step)?)?).ok());
        dimensions[axis] = indexes.map(|index| Some(index? * strides[axis])).collect::<Option<_>>()?;
    }
    picked(table, &places(&dimensions))
}

/// The pieces of a list that is split.
fn pieces(node: &Node<'_>, shapes: &[Vec<u64>]) -> Option<Vec<Known>> {
    let mut rest = node.operand(0).filter(|table| table.rank() == 1)?.integers()?;
    shapes
        .iter()
        .map(|shape| {
            let (piece, behind) = rest.split_at_checked(usize::try_from(*shape.first()?).ok()?)?;
            rest = behind;
            Some(Known::Integers(piece.to_vec()))
        })
        .collect()
}

/// Functions of one value or two.
fn arithmetic(node: &Node<'_>, elements: usize) -> Option<Known> {
    // Broadcasting beyond one value for all does not occur between shapes.
    let fits = |length: usize| length == elements || length == 1;
    match node.operands.as_slice() {
        [Some(a)] => match a.known.as_ref()? {
            Known::Integers(values) => {
                let function = match node.operator {
                    "Neg" => i64::checked_neg,
                    "Abs" => i64::checked_abs,
                    "Not" => |value| Some(i64::from(value == 0)),
                    _ => return None,
                };
                Some(Known::Integers(values.iter().map(|&value| function(value)).collect::<Option<_>>()?))
            }
            Known::Floats(values) => {
                let function = match node.operator {
                    "Floor" => f32::floor,
                    "Ceil" => f32::ceil,
                    "Round" => f32::round_ties_even,
                    "Neg" => |value: f32| -value,
                    "Sqrt" => f32::sqrt,
                    _ => return None,
                };
                Some(Known::Floats(values.iter().map(|&value| function(value)).collect()))
            }
        },
        [Some(a), Some(b)] => {
            if let (Some(a), Some(b)) = (a.integers(), b.integers()) {
                let function = integer_function(node)?;
                if !fits(a.len()) || !fits(b.len()) {
                    return None;
                }
                let at =
                    |values: &[i64], index: usize| if values.len() == 1 { values[0] } else { values[index] };
                let values = (0..elements).map(|index| function(at(a, index), at(b, index)));
                return Some(Known::Integers(values.collect::<Option<_>>()?));
            }
            let (a, b) = (a.floats()?, b.floats()?);
            let function: fn(f32, f32) -> f32 = match node.operator {
                "Add" => |a, b| a + b,
                "Sub" => |a, b| a - b,
                "Mul" => |a, b| a * b,
                "Div" => |a, b| a / b,
                "Max" => f32::max,
                "Min" => f32::min,
                _ => return None,
            };
            if !fits(a.len()) || !fits(b.len()) {
                return None;
            }
            let at = |values: &[f32], index: usize| if values.len() == 1 { values[0] } else { values[index] };
            Some(Known::Floats((0..elements).map(|index| function(at(a, index), at(b, index))).collect()))
        }
        _ => None,
    }
}

fn integer_function(node: &Node<'_>) -> Option<fn(i64, i64) -> Option<i64>> {
    Some(match node.operator {
        "Add" => i64::checked_add,
        "Sub" => i64::checked_sub,
        "Mul" => i64::checked_mul,
        // Toward zero, as integers are divided in ONNX.
        "Div" => i64::checked_div,
        "Mod" if node.integer("fmod") != Some(1) => |a, b| {
            let rest = a.checked_rem(b)?;
            if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
        },
        "Max" => |a, b| Some(a.max(b)),
        "Min" => |a, b| Some(a.min(b)),
        "Equal" => |a, b| Some(i64::from(a == b)),
        "Less" => |a, b| Some(i64::from(a < b)),
        "LessOrEqual" => |a, b| Some(i64::from(a <= b)),
        "Greater" => |a, b| Some(i64::from(a > b)),
        "GreaterOrEqual" => |a, b| Some(i64::from(a >= b)),
        "And" => |a, b| Some(i64::from(a != 0 && b != 0)),
        "Or" => |a, b| Some(i64::from(a != 0 || b != 0)),
        _ => return None,
    })
}
