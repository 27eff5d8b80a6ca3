//! The engine of cuDNN that computes something, and how it was chosen.

use std::fmt;

use cudarc::cudnn::sys;
use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendBehaviorNote_t as Behavior;
use sys::cudnnBackendDescriptorType_t as Kind;
use sys::cudnnBackendHeurMode_t as Mode;
use sys::cudnnBackendNumericalNote_t as Note;

use super::convolution::Arithmetic;
use super::descriptor::{BehaviorNote, Descriptor, KnobType, NumericalNote};
use super::operations::Form;
use crate::error::GpuError;

/// Knobs that an engine has at most: more than cuDNN has kinds of them.
const MOST_KNOBS: usize = 64;
/// Notes that an engine has at most.
const MOST_NOTES: usize = 16;

/// Which of cuDNN's heuristics ranked the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heuristic {
    /// `CUDNN_HEUR_MODE_A`: fast, and right for most.
    A,
    /// `CUDNN_HEUR_MODE_FALLBACK`: engines that compute nearly everything, slowly.
    Fallback,
}

impl Heuristic {
    pub(super) fn mode(self) -> Mode {
        match self {
            Heuristic::A => Mode::CUDNN_HEUR_MODE_A,
            Heuristic::Fallback => Mode::CUDNN_HEUR_MODE_FALLBACK,
        }
    }
}

/// An engine of cuDNN with its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    /// cuDNN's number of the engine, which counts within operations of one pattern.
    pub engine: i64,
    /// What the engine is set to: cuDNN's number of the knob and its value.
    pub knobs: Vec<(u32, i64)>,
    /// The heuristic that named it.
    pub heuristic: Heuristic,
    /// Its place in the heuristic's list, 0 is the best. Engines that may not compute this are
    /// counted, too.
    pub rank: usize,
    /// Whether it is an engine that computes nearly everything, slowly: [`Heuristic::Fallback`]
    /// names it, too.
    pub last_resort: bool,
    /// The form of the operations passed to cuDNN.
    pub form: Form,
    /// Bytes of workspace.
    pub workspace: usize,
    /// cuDNN's notes on it.
    pub traits: Vec<Trait>,
}

/// A note of cuDNN on an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trait {
    /// It multiplies on tensor cores; 8-bit engines do not say so.
    TensorCores,
    /// It transforms tiles first, and multiplies less often than the definition.
    Winograd,
    /// It goes through a Fourier transform.
    Fft,
    /// cuDNN writes and compiles it for the operation.
    Compiled,
}

impl Choice {
    /// cuDNN's number of a knob's kind, such as 2 for the tile, and its value, where the engine has
    /// it.
    pub fn knob(&self, kind: u32) -> Option<i64> {
        self.knobs.iter().find(|(found, _)| *found == kind).map(|&(_, value)| value)
    }
}

/// As cuDNN's own logs name it: `eng41_k2=4_k13=0`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eng{}", self.engine)?;
        self.knobs.iter().try_for_each(|(kind, value)| write!(f, "_k{kind}={value}"))
    }
}

/// What a configuration says of itself.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) engine: i64,
    pub(super) knobs: Vec<(u32, i64)>,
    notes: Vec<u32>,
    compiled: bool,
}

impl Candidate {
    /// Reads a configuration that a heuristic returned.
    pub(super) fn new(configuration: &Descriptor) -> Result<Self, GpuError> {
        let engines = configuration.descriptors(
            Name::CUDNN_ATTR_ENGINECFG_ENGINE,
            Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR,
            1,
        )?;
        let unknown = || GpuError::Cudnn {
            action: "ask cuDNN for an engine",
            status: "a configuration without an engine".to_owned(),
        };
        let engine = engines.first().ok_or_else(unknown)?;
        let number = engine.get::<i64>(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1)?;
        let notes = engine.get::<NumericalNote>(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, MOST_NOTES)?;
        let behavior = engine.get::<BehaviorNote>(Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, MOST_NOTES)?;
        let choices = configuration.descriptors(
            Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
            Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
            MOST_KNOBS,
        )?;
        let mut knobs = Vec::with_capacity(choices.len());
        for choice in &choices {
            let kind = choice.get::<KnobType>(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1)?;
            let value = choice.get::<i64>(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1)?;
            if let (Some(kind), Some(&value)) = (kind.first(), value.first()) {
                knobs.push((kind.0, value));
            }
        }
        knobs.sort_unstable();
        let compiled = Behavior::CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION as u32;
        Ok(Candidate {
            engine: number.first().copied().ok_or_else(unknown)?,
            knobs,
            notes: notes.iter().map(|note| note.0).collect(),
            compiled: behavior.iter().any(|note| note.0 == compiled),
        })
    }

    fn has(&self, note: Note) -> bool {
        self.notes.contains(&(note as u32))
    }

    /// Whether the engine computes in this arithmetic: not with fewer bits, and the same in every
    /// run.
    pub(super) fn is_allowed(&self, arithmetic: Arithmetic) -> bool {
        let less = [
            Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
            Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
            Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
        ];
        // On tensor cores, 32-bit floats are multiplied as TF32.
        let rounds = arithmetic == Arithmetic::Fp32 && self.has(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        !rounds && !less.into_iter().any(|note| self.has(note))
    }

    /// The record of this configuration; `slow` are the engines of last resort.
    pub(super) fn choice(
        self,
        (heuristic, rank): (Heuristic, usize),
        form: Form,
        workspace: usize,
        slow: &[i64],
    ) -> Choice {
        let traits = [
            (Trait::TensorCores, self.has(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE)),
            (Trait::Winograd, self.has(Note::CUDNN_NUMERICAL_NOTE_WINOGRAD)),
            (Trait::Fft, self.has(Note::CUDNN_NUMERICAL_NOTE_FFT)),
            (Trait::Compiled, self.compiled),
        ];
        Choice {
            traits: traits.into_iter().filter(|(_, said)| *said).map(|(one, _)| one).collect(),
            last_resort: slow.contains(&self.engine),
            engine: self.engine,
            knobs: self.knobs,
            heuristic,
            rank,
            form,
            workspace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_with_fewer_bits_is_refused() {
        let with = |notes: &[Note]| Candidate {
            engine: 1,
            knobs: vec![(2, 4), (13, 0)],
            notes: notes.iter().map(|&note| note as u32).collect(),
            compiled: false,
        };
        let cores = with(&[Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE]);
        assert!(!cores.is_allowed(Arithmetic::Fp32));
        assert!(cores.is_allowed(Arithmetic::Tf32));
        let half_sums = with(&[
            Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
            Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        ]);
        assert!(!half_sums.is_allowed(Arithmetic::Fp16));
        assert!(with(&[]).is_allowed(Arithmetic::Fp32));
        let choice = cores.choice((Heuristic::A, 3), Form::Classic, 8, &[0, 1]);
        assert!(choice.last_resort);
        assert_eq!(choice.to_string(), "eng1_k2=4_k13=0");
        assert_eq!((choice.knob(13), choice.knob(14)), (Some(0), None));
    }
}
