//! Softmax, norms and means, with a block of threads for each row; selection of rows.

use flopgap_flops::Precision;
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Kernel as Loaded, Stream};
use flopgap_graph::op::{Norm, NormFunction};
use flopgap_graph::{Algorithm, Step};

use crate::engines::error::EngineError;

use super::kernel::{Addresses, Array, Arrays, Filling, Kernel, Memory, Numbers, Operand, Sample};
use super::pointwise::{activations, no_epilogue, ours, real, sample, stored};
use super::tools::{Tools, size, sizes, unsupported};
use super::value::Picker;

/// The number of rows that are checked, and of elements of each.
const CHECKED: (usize, usize) = (4, 16);

/// Added to the variance, as `PyTorch` does.
const EPSILON: f64 = 1e-5;

/// The input of a softmax.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scores {
    /// Factor of all numbers.
    pub(super) scale: f32,
    /// Of so many rows, the last sees all columns and each before it one less; 0: all see all.
    pub(super) queries: usize,
}

impl Scores {
    /// Columns that a row sees, the first ones.
    pub(super) fn seen(&self, row: usize, columns: usize) -> usize {
        let hidden = if self.queries == 0 { 0 } else { self.queries - 1 - row % self.queries };
        columns.saturating_sub(hidden).max(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Function {
    /// Of numbers times a scale.
    Softmax(Scores),
    /// Statistics of each row; scale and shift by row, else by column; without the mean where it is
    /// not centered.
    Norm { by_row: bool, centered: bool },
    /// A scale and a shift of each column.
    Affine,
    /// The mean of each row.
    Mean,
    /// Rows of a table.
    Gather,
}

struct RowKernel {
    arrays: Arrays,
    function: Function,
    rows: usize,
    columns: usize,
    precision: Precision,
    kernel: Loaded,
    launch: Launch,
}

fn make(
    tools: &Tools,
    function: Function,
    [rows, columns]: [u64; 2],
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    no_epilogue(step)?;
    let elements = sizes(step, &[rows, columns])?;
    let (rows, columns) = (size(step, rows)?, size(step, columns)?);
    if elements == 0 {
        return Err(unsupported(step, "it has no elements"));
    }
    let own = tools.own(Numbers::of(precision))?;
    let all = activations(elements, precision, 0.0, 1.0);
    let of_rows = Arrays { input: all, weights: None, bias: None, residual: None, output: all };
    let (name, arrays) = match function {
        Function::Softmax(_) => ("softmax", of_rows),
        Function::Norm { by_row, .. } => {
            let places = if by_row { rows } else { columns };
            ("normalize", scaled(of_rows, places, precision))
        }
        Function::Affine => ("affine", scaled(of_rows, columns, precision)),
        Function::Mean => ("reduce", Arrays { output: activations(rows, precision, 0.0, 1.0), ..of_rows }),
        Function::Gather => {
            let limit = u16::try_from(rows).map_or(65_535.0, f32::from);
            let indexes = Array {
                elements: rows,
                numbers: Numbers::I32,
                filling: Filling { center: limit, width: 0.0 },
            };
            ("gather", Arrays { weights: Some(indexes), ..of_rows })
        }
    };
    let launch = match function {
        Function::Affine => own.by_thread(if columns.is_multiple_of(4) { elements / 4 } else { elements }),
        Function::Gather => own.by_thread(gathered_pieces([rows, columns], precision)),
        Function::Softmax(_) | Function::Norm { .. } | Function::Mean => own.by_block(rows, columns),
    };
    let kernel = own.kernel(name)?;
    Ok(Box::new(RowKernel { arrays, function, rows, columns, precision, kernel, launch }))
}

/// Pieces that the kernel which picks rows moves: vectors of 16 bytes where rows are of whole ones,
/// else numbers.
fn gathered_pieces([rows, width]: [usize; 2], precision: Precision) -> usize {
    let numbers = 16 / Numbers::of(precision).bytes();
    rows * if width.is_multiple_of(numbers) { width / numbers } else { width }
}

/// With a scale around 1 and a shift around 0.
fn scaled(arrays: Arrays, places: usize, precision: Precision) -> Arrays {
    Arrays {
        weights: Some(activations(places, precision, 1.0, 0.5)),
        bias: Some(activations(places, precision, 0.0, 0.5)),
        ..arrays
    }
}

/// A softmax over each row.
pub(super) fn softmax(
    tools: &Tools,
    shape: [u64; 2],
    scores: Scores,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    make(tools, Function::Softmax(scores), shape, step, precision)
}

/// A normalization. Of a batch norm, rows are channels, which are innermost here.
pub(super) fn norm(
    tools: &Tools,
    norm: &Norm,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    let Norm { rows, columns, .. } = *norm;
    let (function, shape) = match norm.function {
        NormFunction::BatchInference => (Function::Affine, [columns, rows]),
        NormFunction::Layer => (Function::Norm { by_row: false, centered: true }, [rows, columns]),
        NormFunction::Rms => (Function::Norm { by_row: false, centered: false }, [rows, columns]),
        NormFunction::Group => (Function::Norm { by_row: true, centered: true }, [rows, columns]),
        _ => return Err(unsupported(step, "no kernel supports this norm")),
    };
    make(tools, function, shape, step, precision)
}

/// Whether the input has as many equal parts.
///
/// # Errors
/// [`EngineError::Unsupported`].
pub(super) fn parts([inputs, outputs]: [u64; 2], step: &Step) -> Result<(), EngineError> {
    if outputs > 0 && inputs % outputs == 0 {
        return Ok(());
    }
    Err(unsupported(step, format!("{inputs} elements cannot be divided into {outputs} equal parts")))
}

/// The mean of equal parts of the input, which lie one behind the other.
pub(super) fn reduce(
    tools: &Tools,
    [inputs, outputs]: [u64; 2],
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    parts([inputs, outputs], step)?;
    make(tools, Function::Mean, [outputs, inputs / outputs], step, precision)
}

/// Rows of a table that has as many.
pub(super) fn gather(
    tools: &Tools,
    shape: [u64; 2],
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    make(tools, Function::Gather, shape, step, precision)
}

/// The softmax of the first numbers, times a scale; 0 for the others.
pub(super) fn softmax_of(x: &[f64], scale: f64, seen: usize) -> Vec<f64> {
    let seen_of = &x[..seen.min(x.len())];
    let top = seen_of.iter().map(|x| scale * x).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = seen_of.iter().map(|x| (scale * x - top).exp()).sum();
    let value = |(place, x): (usize, &f64)| if place < seen { (scale * x - top).exp() / sum } else { 0.0 };
    x.iter().enumerate().map(value).collect()
}

impl RowKernel {
    /// The expected elements of a row, and the size of the sums behind them.
    fn expected(
        &self,
        x: &[f64],
        (row, columns): (usize, &[usize]),
        memory: &dyn Memory,
    ) -> Result<Vec<(f64, f64)>, EngineError> {
        let count = x.len() as f64;
        match self.function {
            Function::Softmax(scores) => {
                let values = softmax_of(x, f64::from(scores.scale), scores.seen(row, x.len()));
                Ok(columns.iter().map(|&column| (values[column], 0.0)).collect())
            }
            Function::Norm { by_row, centered } => {
                let mean = if centered { x.iter().sum::<f64>() / count } else { 0.0 };
                let square = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
                let factor = 1.0 / (square + EPSILON).sqrt();
                let value = |column: usize| {
                    let place = if by_row { row } else { column };
                    let (scale, shift) = self.scale_and_shift(place, memory)?;
                    Ok(((x[column] - mean) * factor * scale + shift, 0.0))
                };
                columns.iter().map(|&column| value(column)).collect()
            }
            Function::Affine => {
                let value = |column: usize| {
                    let (scale, shift) = self.scale_and_shift(column, memory)?;
                    Ok((x[column] * scale + shift, 0.0))
                };
                columns.iter().map(|&column| value(column)).collect()
            }
            Function::Mean => {
                let size = x.iter().map(|x| x * x).sum::<f64>().sqrt() / count;
                Ok(vec![(x.iter().sum::<f64>() / count, size)])
            }
            Function::Gather => Ok(columns.iter().map(|&column| (x[column], 0.0)).collect()),
        }
    }

    fn scale_and_shift(&self, place: usize, memory: &dyn Memory) -> Result<(f64, f64), EngineError> {
        let read = |operand| -> Result<f64, EngineError> {
            let stored = memory.read(operand, place, 1)?;
            Ok(real(self.arrays.input.numbers, stored.first().copied().unwrap_or(f64::NAN)))
        };
        Ok((read(Operand::Weights)?, read(Operand::Bias)?))
    }
}

impl Kernel for RowKernel {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn algorithm(&self) -> Algorithm {
        ours(match self.function {
            Function::Softmax(_) => "softmax",
            Function::Norm { .. } => "normalize",
            Function::Affine => "affine",
            Function::Mean => "reduce",
            Function::Gather => "gather",
        })
    }

    #[expect(unsafe_code, reason = "launches a kernel")]
    unsafe fn queue(&self, stream: &Stream, at: &Addresses) -> Result<(), EngineError> {
        let (rows, columns) = (self.rows as u64, self.columns as u64);
        let arguments = Arguments::default();
        let arguments = match self.function {
            Function::Softmax(Scores { scale, queries }) => arguments
                .addresses([at.input, at.output])
                .u64(rows)
                .u64(columns)
                .f32(scale)
                .u64(queries as u64),
            Function::Mean => arguments.addresses([at.input, at.output]).u64(rows).u64(columns),
            Function::Norm { by_row, centered } => arguments
                .addresses([at.input, at.weights, at.bias, at.output])
                .u64(rows)
                .u64(columns)
                .u32(u32::from(by_row))
                .u32(u32::from(centered)),
            Function::Affine => arguments
                .addresses([at.input, at.weights, at.bias, at.output])
                .u64(self.arrays.output.elements as u64)
                .u64(columns),
            Function::Gather => arguments.addresses([at.input, at.weights, at.output]).u64(rows).u64(columns),
        };
        // SAFETY: these are the kernel's arguments; the arrays are the caller's promise. Indexes
        // are below the rows of the table, as they were filled.
        Ok(unsafe { self.launch.queue(stream, &self.kernel, arguments) }?)
    }

    fn samples(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let numbers = self.arrays.output.numbers;
        let mut picker = Picker::new(seed);
        let width = if self.function == Function::Mean { 1 } else { self.columns };
        let columns = picker.some(width, CHECKED.1);
        let mut samples = Vec::new();
        for row in picker.some(self.rows, CHECKED.0) {
            let from = match self.function {
                Function::Gather => {
                    let index = memory.read(Operand::Weights, row, 1)?.first().copied().unwrap_or(f64::NAN);
                    (0..self.rows).find(|&row| (row as f64 - index).abs() < 0.5).unwrap_or(self.rows)
                }
                _ => row,
            };
            let stored = memory.read(Operand::Input, from * self.columns, self.columns)?;
            let x: Vec<f64> = stored.into_iter().map(|stored| real(numbers, stored)).collect();
            let found = memory.read(Operand::Output, row * width, width)?;
            let expected = self.expected(&x, (row, &columns), memory)?;
            for (&column, (expected, magnitude)) in columns.iter().zip(expected) {
                samples.push(sample(numbers, found[column], expected, magnitude));
            }
        }
        Ok(samples)
    }

    fn bound(&self) -> f64 {
        // The rounding of sums over a row.
        let sums = 2.0_f64.powi(-24) * 4.0 * (self.columns as f64).sqrt();
        stored(self.precision) + sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_queries_sees_all_keys() {
        let scores = Scores { scale: 1.0, queries: 3 };
        assert_eq!([0, 1, 2, 3].map(|row| scores.seen(row, 5)), [3, 4, 5, 3]);
        assert_eq!(Scores { scale: 1.0, queries: 0 }.seen(1, 5), 5);
        // More queries than keys: the first see one, so that their sum is not 0.
        assert_eq!(Scores { scale: 1.0, queries: 8 }.seen(0, 5), 1);
    }

    #[test]
    fn rows_are_picked_in_vectors_where_they_are_of_whole_ones() {
        assert_eq!(gathered_pieces([1, 1 << 20], Precision::Fp32), 1 << 18);
        assert_eq!(gathered_pieces([3, 16], Precision::Fp16), 6);
        assert_eq!(gathered_pieces([3, 12], Precision::Bf16), 36);
        assert_eq!(gathered_pieces([1000, 1], Precision::Int8), 1000);
    }

    #[test]
    fn what_is_not_seen_is_0() {
        let values = softmax_of(&[0.0, 2.0_f64.ln(), 9.0], 1.0, 2);
        assert!((values[0] - 1.0 / 3.0).abs() < 1e-12 && (values[1] - 2.0 / 3.0).abs() < 1e-12);
        assert!(values[2] == 0.0);
    }
}
