//! The passes that are timed.

use clap::ValueEnum;

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Pass {
    /// Outputs.
    Forward,
    /// Gradients by inputs, weights and biases, given those by the outputs.
    Backward,
    /// Both.
    Train,
}

impl Pass {
    /// All of them.
    pub(crate) const ALL: [Pass; 3] = [Pass::Forward, Pass::Backward, Pass::Train];

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
            Pass::Train => "train",
        }
    }
}
