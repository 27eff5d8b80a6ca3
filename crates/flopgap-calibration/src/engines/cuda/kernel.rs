//! The interface of a step's kernel, and the memory that it works on.

use flopgap_flops::Precision;
use flopgap_gpu::Stream;
use flopgap_graph::Algorithm;
use half::{bf16, f16};

use crate::engines::error::EngineError;

/// How numbers are stored on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// 32-bit floats.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit integers. Where a function of real numbers is computed, 1 stands for a
    /// [`SIXTEENTH`](I8_UNIT).
    I8,
    /// 32-bit integers: sums, indexes.
    I32,
}

/// The real number that an 8-bit 1 represents in functions of real numbers.
pub(crate) const I8_UNIT: f64 = 1.0 / 16.0;

/// The largest 8-bit integer: errors of 8-bit results are relative to it.
pub(crate) const I8_MOST: f64 = 127.0;

/// The error that rounding to an integer allows, over [`I8_MOST`]: half a unit, and a little for
/// sums in 32 bits that lie halfway.
pub(crate) const I8_BOUND: f64 = 0.55 / I8_MOST;

impl Numbers {
    /// How activations and weights are stored.
    pub(crate) const fn of(precision: Precision) -> Self {
        match precision {
            Precision::Fp32 | Precision::Tf32 => Numbers::F32,
            Precision::Fp16 => Numbers::F16,
            Precision::Bf16 => Numbers::Bf16,
            Precision::Int8 => Numbers::I8,
        }
    }

    /// Bytes of a number.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Numbers::F32 | Numbers::I32 => 4,
            Numbers::F16 | Numbers::Bf16 => 2,
            Numbers::I8 => 1,
        }
    }

    /// The numbers in these bytes; integers as they are, without a scale.
    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Numbers::F32 => chunks(bytes).map(|bytes| f64::from(f32::from_le_bytes(bytes))).collect(),
            Numbers::F16 => chunks(bytes).map(|bytes| f16::from_le_bytes(bytes).to_f64()).collect(),
            Numbers::Bf16 => chunks(bytes).map(|bytes| bf16::from_le_bytes(bytes).to_f64()).collect(),
            Numbers::I8 => bytes.iter().map(|&byte| f64::from(byte.cast_signed())).collect(),
            Numbers::I32 => chunks(bytes).map(|bytes| f64::from(i32::from_le_bytes(bytes))).collect(),
        }
    }
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// What an array holds before the first run: `center + width * u`, with `u` uniform in -1 to 1 from
/// a seed, rounded. Of integers both are in units of the integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Filling {
    /// The mean.
    pub(crate) center: f32,
    /// Half of the interval.
    pub(crate) width: f32,
}

/// An array that a kernel reads or writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Array {
    /// Numbers in it, without gaps.
    pub(crate) elements: usize,
    /// How they are stored.
    pub(crate) numbers: Numbers,
    /// Its initial contents, if nothing computes it.
    pub(crate) filling: Filling,
}

impl Array {
    /// Bytes of the array.
    pub(crate) fn bytes(&self) -> usize {
        self.elements.saturating_mul(self.numbers.bytes())
    }
}

/// All arrays of a step. A kernel touches no byte beyond them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrays {
    /// The first operand: activations.
    pub(crate) input: Array,
    /// The weights, or the second operand.
    pub(crate) weights: Option<Array>,
    /// The bias; of a norm, what is added.
    pub(crate) bias: Option<Array>,
    /// What is added before the activation.
    pub(crate) residual: Option<Array>,
    /// The result.
    pub(crate) output: Array,
}

/// An array of a step, by its part in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// See [`Arrays::input`].
    Input,
    /// See [`Arrays::weights`].
    Weights,
    /// See [`Arrays::bias`].
    Bias,
    /// See [`Arrays::residual`].
    Residual,
    /// See [`Arrays::output`].
    Output,
}

impl Arrays {
    /// The array with this part, if there is one.
    pub(crate) fn get(&self, operand: Operand) -> Option<Array> {
        match operand {
            Operand::Input => Some(self.input),
            Operand::Weights => self.weights,
            Operand::Bias => self.bias,
            Operand::Residual => self.residual,
            Operand::Output => Some(self.output),
        }
    }
}

/// Where the arrays of a step lie on the device: addresses that are multiples of 256, 0 for what it
/// does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// See [`Arrays::input`].
    pub(crate) input: u64,
    /// See [`Arrays::weights`].
    pub(crate) weights: u64,
    /// See [`Arrays::bias`].
    pub(crate) bias: u64,
    /// See [`Arrays::residual`].
    pub(crate) residual: u64,
    /// See [`Arrays::output`].
    pub(crate) output: u64,
    /// As many bytes as [`Kernel::workspace`] says, shared by all steps.
    pub(crate) workspace: u64,
}

/// Reads the arrays of a step that has just run.
pub(crate) trait Memory {
    /// So many numbers of an array, from `start` on. Integers come without a scale.
    ///
    /// # Errors
    /// When they are not all in the array; the driver's.
    fn read(&self, operand: Operand, start: usize, length: usize) -> Result<Vec<f64>, EngineError>;
}

/// An output element and its expected value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// The value from the device.
    pub(crate) found: f64,
    /// What it should be by 64-bit arithmetic, from the same operands, not rounded to how results
    /// are stored.
    pub(crate) expected: f64,
    /// The size of what was added up: the root of the sum of squares of its terms. An error is held
    /// against this where the sum itself happens to cancel.
    pub(crate) magnitude: f64,
}

/// What computes a step: one kernel of a library with its algorithm chosen, or kernels of our own.
pub(crate) trait Kernel {
    /// The arrays that it reads and writes.
    fn arrays(&self) -> &Arrays;

    /// Bytes of workspace.
    fn workspace(&self) -> usize {
        0
    }

    /// How it computes, as far as known.
    fn algorithm(&self) -> Algorithm;

    /// Queues the step. Nothing is allocated, so that it can be captured.
    ///
    /// # Errors
    /// The library's, the driver's.
    ///
    /// # Safety
    /// The addresses must be those of arrays as [`Kernel::arrays`] and [`Kernel::workspace`] say,
    /// entered in a `Submission` that is alive or owned by the graph that is captured; and the
    /// output must not overlap the operands.
    #[expect(unsafe_code, reason = "kernels read and write by address")]
    unsafe fn queue(&self, stream: &Stream, at: &Addresses) -> Result<(), EngineError>;

    /// Some outputs of the run that has just ended, with their expected values. Which ones follows
    /// from `seed`. Empty where there is no output.
    ///
    /// # Errors
    /// Those of `memory`.
    fn samples(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError>;

    /// The largest error that its arithmetic allows, relative to the largest magnitude of the
    /// samples.
    fn bound(&self) -> f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decoded_as_they_are_stored() {
        let halves = [f16::from_f32(1.5), f16::from_f32(-2.0)];
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        assert_eq!(Numbers::F16.decode(&bytes), [1.5, -2.0]);
        assert_eq!(Numbers::Bf16.decode(&bf16::from_f32(3.0).to_le_bytes()), [3.0]);
        assert_eq!(Numbers::I8.decode(&[1, 0xff]), [1.0, -1.0]);
        assert_eq!(Numbers::I32.decode(&(-7_i32).to_le_bytes()), [-7.0]);
        assert!(Numbers::F32.decode(&[0, 0, 0]).is_empty(), "a part of a number is none");
    }
}
