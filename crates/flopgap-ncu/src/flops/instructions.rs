//! How many instructions of each kind the shader cores executed.

use strum::{EnumCount as _, VariantArray as _};

use super::Count;
use super::counters::INSTRUCTIONS;

/// An arithmetic instruction of the shader cores that is counted by itself, once for each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[derive(strum::EnumCount, strum::VariantArray)]
pub enum Instruction {
    /// Single-precision addition.
    Fadd,
    /// Single-precision multiplication.
    Fmul,
    /// Single-precision fused multiply-add.
    Ffma,
    /// Two single-precision additions (Blackwell).
    Fadd2,
    /// Two single-precision multiplications (Blackwell).
    Fmul2,
    /// Two single-precision fused multiply-adds (Blackwell).
    Ffma2,
    /// Double-precision addition.
    Dadd,
    /// Double-precision multiplication.
    Dmul,
    /// Double-precision fused multiply-add.
    Dfma,
    /// Half-precision addition, packed in twos.
    Hadd,
    /// Half-precision multiplication, packed in twos.
    Hmul,
    /// Half-precision fused multiply-add, packed in twos.
    Hfma,
}

impl Instruction {
    /// All of them.
    pub const ALL: [Instruction; Instruction::COUNT] =
        *Instruction::VARIANTS.first_chunk().expect("all variants");

    /// Its name in the counters: `ffma`.
    pub fn as_str(self) -> &'static str {
        INSTRUCTIONS[self as usize]
    }
}

/// The instructions of one launch. A kind that the report has no counter for is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instructions([Option<Count>; INSTRUCTIONS.len()]);

impl Instructions {
    /// Those among `values` whose bits are in `present`.
    pub(super) fn new(present: u128, values: &[Count]) -> Instructions {
        let mut instructions = Instructions::default();
        for (index, (slot, &count)) in instructions.0.iter_mut().zip(values).enumerate() {
            *slot = (present >> index & 1 == 1).then_some(count);
        }
        instructions
    }

    /// How many of a kind were executed.
    pub fn get(&self, instruction: Instruction) -> Option<Count> {
        self.0[instruction as usize]
    }

    /// The kinds that were counted.
    pub fn iter(&self) -> impl Iterator<Item = (Instruction, Count)> + '_ {
        Instruction::ALL.into_iter().filter_map(|instruction| Some((instruction, self.get(instruction)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_the_counters() {
        let labels = Instruction::ALL.map(Instruction::as_str);
        assert_eq!(labels, INSTRUCTIONS);
        assert_eq!(format!("{:?}", Instruction::Hfma).to_lowercase(), Instruction::Hfma.as_str());
    }
}
