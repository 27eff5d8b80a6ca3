//! Evidence that a recording does not belong to the required network.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use flopgap_flops::{Pass, Plausibility};
use flopgap_hint::{Hint, Text};

use crate::NumberedLaunch;

/// A kind of launch that every square network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

/// Where launches are missing from a phase, as far as their order shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clue {
    /// Products of these layers are missing.
    Products {
        /// Of how many layers.
        layers: usize,
        /// The first of them, from 1.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The launch before this one is missing.
    Before(NumberedLaunch),
    /// The launch after this one is missing.
    After(NumberedLaunch),
    /// The phase ends with this launch.
    End(NumberedLaunch),
    /// The name of this kernel does not say what it computes.
    Unclassified {
        /// The kernel's display name.
        kernel: String,
    },
}

impl fmt::Display for Clue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clue::Products { first, last, .. } if first == last => {
                write!(f, "a product of layer {first} is missing")
            }
            Clue::Products { layers, first, last } => {
                write!(f, "products of {layers} layers, {first} to {last}, are missing")
            }
            Clue::Before(launch) => write!(f, "the one before {launch}, is missing"),
            Clue::After(launch) => write!(f, "the one after {launch}, is missing"),
            Clue::End(launch) => write!(f, "the phase ends with {launch}"),
            Clue::Unclassified { kernel } => {
                write!(f, "the name of `{kernel}` does not say what it computes")
            }
        }
    }
}

/// A launch, or the products of a pass, that required sizes cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeEvidence {
    /// The FLOPs that an activation executed are not a whole number for each element.
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
    Products {
        /// The pass.
        pass: Pass,
        /// Counted FLOPs.
        counted: u64,
        /// Theoretical FLOPs.
        theory: u64,
    },
    /// The forward products executed less than whole tiles of the required sizes.
    Tiles {
        /// Counted FLOPs.
        counted: u64,
        /// What the tiles of their kernels execute at least.
        least: u128,
    },
}

impl fmt::Display for SizeEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeEvidence::Fraction { pass, launch, flops, elements } => write!(
                f,
                "{pass}: {launch}, executed {flops} FLOPs, {:.4} for each of {elements} elements, which is not a whole \
                 number",
                *flops as f64 / *elements as f64
            ),
            SizeEvidence::Gradient { launch, flops, elements, expected } => write!(
                f,
                "backward: {launch}, executed {flops} FLOPs, {:.4} for each of {elements} elements, and the gradient \
                 of a sigmoid takes {expected}",
                *flops as f64 / *elements as f64
            ),
            SizeEvidence::Grid { pass, launch, least, most, elements } => {
                write!(f, "{pass}: {launch}, has a grid for {least} to {most} elements, not for {elements}")
            }
            SizeEvidence::Products { pass, counted, theory } => write!(
                f,
                "{pass}: {counted} GEMM FLOPs were counted, {:.1} times the {theory} that these sizes need, and more \
                 than padding to whole tiles can explain",
                *counted as f64 / *theory as f64
            ),
            SizeEvidence::Tiles { counted, least } => write!(
                f,
                "forward: {counted} GEMM FLOPs were counted, and the tiles of these kernels execute {least} for \
                 these sizes"
            ),
        }
    }
}

/// A reason why the counts of a recording cannot be those of one complete step of the required
/// network.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        /// Where they are missing.
        clues: Vec<Clue>,
    },
    /// Both passes have exactly the products of a network with another number of layers.
    OtherLayers {
        /// The recording.
        run: PathBuf,
        /// The layers that were required.
        stated: u64,
        /// The layers whose products were recorded.
        recorded: u64,
    },
    /// Width or columns are not those that ran.
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
    Impossible {
        /// The recording.
        run: PathBuf,
        /// The pass.
        pass: Pass,
        /// The class, the counts and the likely causes.
        verdict: Plausibility,
    },
    /// The overheads do not give the measured total: a bug of this program.
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
            Contradiction::MissingLaunches { run, pass, kind, expected, found, clues } => {
                write!(f, "{}: the {pass} phase has {found} of {expected} {kind}", run.display())?;
                clues.iter().try_for_each(|clue| write!(f, "; {clue}"))
            }
            Contradiction::OtherLayers { run, stated, recorded } => write!(
                f,
                "{}: {recorded} products forward and {} backward, which are those of {recorded} layers, not of {stated}",
                run.display(),
                recorded + (recorded - 1)
            ),
            Contradiction::OtherSizes { run, width, columns, evidence, fits } => {
                write!(
                    f,
                    "{}: the counts are not those of width {width} and {columns} columns",
                    run.display()
                )?;
                evidence.iter().try_for_each(|one| write!(f, "; {one}"))?;
                for (index, (width, columns)) in fits.iter().enumerate() {
                    let before = if index == 0 { "; they fit" } else { ", or" };
                    write!(f, "{before} width {width} and {columns} columns")?;
                }
                Ok(())
            }
            Contradiction::Impossible { run, pass, verdict } => {
                write!(f, "{}: {pass}: {verdict}", run.display())
            }
            Contradiction::Reconstruction { pass, reconstructed, measured } => write!(
                f,
                "{pass}: the overheads give {reconstructed} FLOPs, but {measured} were counted; this is a bug of flopgap"
            ),
        }
    }
}

impl Error for Contradiction {}

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
