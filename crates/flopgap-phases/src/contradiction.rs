//! What shows that a recording is not one of the stated network.

use std::fmt;
use std::path::PathBuf;

use flopgap_flops::{Pass, Plausibility};

/// A launch that every network of the square kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchKind {
    /// A matrix product: matmul or gemv. The reductions of its slices are not counted.
    Product,
    /// An activation, or in the backward pass its gradient.
    Activation,
    /// The launch that adds up the slices of a product.
    SplitKReduction,
}

impl fmt::Display for LaunchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LaunchKind::Product => "matrix products",
            LaunchKind::Activation => "activations",
            LaunchKind::SplitKReduction => "split-K reductions",
        })
    }
}

/// Why the counts of a recording cannot be those of one complete step of the stated network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contradiction {
    /// Fewer launches of a kind than the mathematics needs.
    MissingLaunches {
        /// The recording.
        run: PathBuf,
        /// The pass that lacks them.
        pass: Pass,
        /// Which launches.
        kind: LaunchKind,
        /// How many the network needs at least.
        expected: u64,
        /// How many there are.
        found: u64,
        /// Where they are missing, as far as the order tells, in words: empty, or beginning with `; `.
        place: String,
    },
    /// Both passes have exactly the products of a network with another number of layers.
    OtherLayers {
        /// The recording.
        run: PathBuf,
        /// The layers that were stated.
        stated: u64,
        /// The layers whose products were recorded.
        recorded: u64,
    },
    /// Fewer FLOPs than the mathematics needs.
    Impossible {
        /// The recording.
        run: PathBuf,
        /// The pass.
        pass: Pass,
        /// The class, the counts and the likely causes.
        verdict: Plausibility,
    },
    /// The overheads do not give the measured total back: a bug of this program.
    Reconstruction {
        /// The pass.
        pass: Pass,
        /// What the closed form gives with the overheads.
        reconstructed: u64,
        /// What was counted.
        measured: u64,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contradiction::MissingLaunches { run, pass, kind, expected, found, place } => {
                write!(f, "{}: the {pass} phase has {found} of {expected} {kind}{place}", run.display())
            }
            Contradiction::OtherLayers { run, stated, recorded } => write!(
                f,
                "{}: it has {recorded} products forward and {} backward, which are those of {recorded} layers, not of \
                 {stated}",
                run.display(),
                recorded + (recorded - 1)
            ),
            Contradiction::Impossible { run, pass, verdict } => {
                write!(f, "{}: {pass}: {verdict}", run.display())
            }
            Contradiction::Reconstruction { pass, reconstructed, measured } => write!(
                f,
                "{pass}: the overheads give {reconstructed} FLOPs back, but {measured} were counted; this is a bug of \
                 flopgap"
            ),
        }
    }
}

impl Contradiction {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Contradiction::MissingLaunches { kind: LaunchKind::Product, .. } => {
                "record it again, to the end of the program and without filters on kernels (-k, --launch-count); check \
                 that the number of layers is that of the network that ran"
            }
            Contradiction::MissingLaunches { kind: LaunchKind::SplitKReduction, .. } => {
                "record it again, to the end of the program and without filters on kernels (-k, --launch-count)"
            }
            Contradiction::MissingLaunches { kind: LaunchKind::Activation, .. } => {
                "record it again, to the end of the program and without filters on kernels (-k, --launch-count); a \
                 network whose activations are fused into its products has no kappa of its own"
            }
            Contradiction::OtherLayers { .. } => {
                "state the number of layers that ran, or name the recording after it"
            }
            Contradiction::Impossible { .. } => {
                "check layers, width and tokens (n, d, m) against the program that ran, and that the report holds all \
                 of its launches"
            }
            Contradiction::Reconstruction { .. } => "please report it with the recording",
        }
    }
}
