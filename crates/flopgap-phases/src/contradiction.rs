//! Evidence that a recording does not belong to the required network.

use std::fmt;
use std::path::PathBuf;

use flopgap_files::{Hint, Text};
use flopgap_flops::{Pass, Plausibility};

use crate::NumberedLaunch;

/// A kind of launch that every square network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchKind {
    /// A matrix product: matmul or gemv. The reductions of its slices are not counted.
    #[error("matrix products")]
    Product,
    /// An activation, or in the backward pass its gradient.
    #[error("activations")]
    Activation,
    /// The launch that adds up the slices of a product.
    #[error("split-K reductions")]
    SplitKReduction,
}

/// Where launches are missing from a phase, as far as their order shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Clue {
    /// Products of these layers are missing.
    #[error("{}", products(*layers, *first, *last))]
    Products {
        /// Of how many layers.
        layers: usize,
        /// The first of them, from 1.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The launch before this one is missing.
    #[error("the one before {0}, is missing")]
    Before(NumberedLaunch),
    /// The launch after this one is missing.
    #[error("the one after {0}, is missing")]
    After(NumberedLaunch),
    /// The phase ends with this launch.
    #[error("the phase ends with {0}")]
    End(NumberedLaunch),
    /// The name of this kernel does not say what it computes.
    #[error("the name of `{kernel}` does not say what it computes")]
    Unclassified {
        /// The kernel's display name.
        kernel: String,
    },
}

/// A launch, or the products of a pass, that required sizes cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeEvidence {
    /// The FLOPs that an activation executed are not a whole number for each element.
    #[error(
        "{pass}: {launch}, executed {flops} FLOPs, {:.4} for each of {elements} elements, which is not a whole number",
        *flops as f64 / *elements as f64
    )]
    Fraction {
        /// The pass.
        pass: Pass,
        /// The launch.
        launch: NumberedLaunch,
        /// What it executed.
        flops: u64,
        /// Elements of a layer with the required sizes.
        elements: u64,
    },
    /// The gradient of a sigmoid executed another number of FLOPs for each element than it takes.
    #[error(
        "backward: {launch}, executed {flops} FLOPs, {:.4} for each of {elements} elements, and the gradient of a sigmoid \
         takes {expected}",
        *flops as f64 / *elements as f64
    )]
    Gradient {
        /// The launch.
        launch: NumberedLaunch,
        /// What it executed.
        flops: u64,
        /// Elements of a layer with the required sizes.
        elements: u64,
        /// What an element takes.
        expected: u64,
    },
    /// The grid of an activation is for another number of elements.
    #[error("{pass}: {launch}, has a grid for {least} to {most} elements, not for {elements}")]
    Grid {
        /// The pass.
        pass: Pass,
        /// The launch.
        launch: NumberedLaunch,
        /// The least number that needs this grid.
        least: u64,
        /// The largest.
        most: u64,
        /// Elements of a layer with the required sizes.
        elements: u64,
    },
    /// The products executed more than whole tiles of the required sizes.
    #[error(
        "{pass}: {counted} GEMM FLOPs were counted, {:.1} times the {theory} that these sizes need, and more than padding \
         to whole tiles can explain",
        *counted as f64 / *theory as f64
    )]
    Products {
        /// The pass.
        pass: Pass,
        /// Counted FLOPs.
        counted: u64,
        /// Theoretical FLOPs.
        theory: u64,
    },
    /// The forward products executed less than whole tiles of the required sizes.
    #[error(
        "forward: {counted} GEMM FLOPs were counted, and the tiles of these kernels execute {least} for these sizes"
    )]
    Tiles {
        /// Counted FLOPs.
        counted: u64,
        /// What the tiles of their kernels execute at least.
        least: u128,
    },
}

/// A reason why the counts of a recording cannot be those of one complete step of the required
/// network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// Fewer launches of a kind than the mathematics needs.
    #[error("{}: the {pass} phase has {found} of {expected} {kind}{}", run.display(), listed(clues))]
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
        /// Where they are missing.
        clues: Vec<Clue>,
    },
    /// Both passes have exactly the products of a network with another number of layers.
    #[error(
        "{}: {recorded} products forward and {} backward, which are those of {recorded} layers, not of {stated}",
        run.display(), recorded + (recorded - 1)
    )]
    OtherLayers {
        /// The recording.
        run: PathBuf,
        /// The layers that were required.
        stated: u64,
        /// The layers whose products were recorded.
        recorded: u64,
    },
    /// Width or columns are not those that ran.
    #[error(
        "{}: the counts are not those of width {width} and {columns} columns{}{}",
        run.display(), listed(evidence), fitting(fits)
    )]
    OtherSizes {
        /// The recording.
        run: PathBuf,
        /// The width that was required.
        width: u64,
        /// The columns that were required.
        columns: u64,
        /// What contradicts them; empty where the sums do, which are listed with this.
        evidence: Vec<SizeEvidence>,
        /// Widths and columns with which all counts agree, the least padded first; empty where none
        /// follow.
        fits: Vec<(u64, u64)>,
    },
    /// Fewer FLOPs than the mathematics needs.
    #[error("{}: {pass}: {verdict}", run.display())]
    Impossible {
        /// The recording.
        run: PathBuf,
        /// The pass.
        pass: Pass,
        /// The class, the counts and the likely causes.
        verdict: Plausibility,
    },
    /// The overheads do not give the measured total: a bug of this program.
    #[error(
        "{pass}: the overheads give {reconstructed} FLOPs, but {measured} were counted; this is a bug of flopgap"
    )]
    Reconstruction {
        /// The pass.
        pass: Pass,
        /// What the closed form gives with the overheads.
        reconstructed: u64,
        /// What was counted.
        measured: u64,
    },
}

fn products(layers: usize, first: u64, last: u64) -> String {
    if first == last {
        format!("a product of layer {first} is missing")
    } else {
        format!("products of {layers} layers, {first} to {last}, are missing")
    }
}

fn listed(parts: &[impl fmt::Display]) -> String {
    parts.iter().fold(String::new(), |text, part| text + "; " + &part.to_string())
}

fn fitting(sizes: &[(u64, u64)]) -> String {
    let sizes: Vec<String> =
        sizes.iter().map(|(width, columns)| format!("width {width} and {columns} columns")).collect();
    if sizes.is_empty() { String::new() } else { format!("; they fit {}", sizes.join(", or ")) }
}

impl Hint for Contradiction {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            Contradiction::MissingLaunches { kind: LaunchKind::Product, .. } => {
                "record again, to the end of the program and without filters of ncu (-k, --launch-count); check \
                 that the number of layers is that of the network that ran"
            }
            Contradiction::MissingLaunches { kind: LaunchKind::SplitKReduction, .. } => {
                "record again, to the end of the program and without filters of ncu (-k, --launch-count)"
            }
            Contradiction::MissingLaunches { kind: LaunchKind::Activation, .. } => {
                "record again, to the end of the program and without filters of ncu (-k, --launch-count); a \
                 network whose activations are fused into its products has no kappa of its own"
            }
            Contradiction::OtherLayers { .. } => {
                "pass the number of layers that ran, or name the recording after it"
            }
            Contradiction::OtherSizes { fits, .. } => match fits[..] {
                [(width, columns)] => {
                    let sizes =
                        format!("pass width {width} and {columns} columns, or name the recording after them");
                    return Some(sizes.into());
                }
                _ => "compare width and columns (d, m) with the program that ran",
            },
            Contradiction::Impossible { .. } => {
                "compare layers, width and columns (n, d, m) with the program that ran, and check that the \
                 report has all of its launches"
            }
            Contradiction::Reconstruction { .. } => "report the bug with the recording",
        };
        Some(hint.into())
    }
}
