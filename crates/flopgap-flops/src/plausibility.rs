//! Detects counts that cannot be right.

use std::fmt;

use crate::{ClassFlops, FlopError, Pass, SquareMlp};

/// Counted GEMM FLOPs above this multiple of theory are questioned.
const QUESTIONABLE_GEMM_FACTOR: u64 = 8;

/// Edge of the largest output tile that FP32 GEMM kernels use; a partial tile executes in full.
const TILE: u64 = 256;

/// Steps along the summed dimension are padded to this many.
const STEP: u64 = 32;

/// The relative error of a count that ncu printed rounded: two decimals behind at least one digit
/// (`1.32 Minst`).
const ROUNDING: f64 = 0.005;

/// Verdict on the counted FLOPs of one class of one pass.
///
/// Small shapes are honestly far above theory, because a tile that is mostly padding still executes
/// in full: epsilon is 3.1 at `N=2 D=256 M=16` on an H200. A finding of
/// [`FarAbove`](Self::FarAbove) is therefore a question, with
/// [`TilePadding`](LikelyCause::TilePadding) first among its causes where padding alone can explain
/// the count; a finding of [`BelowTheory`](Self::BelowTheory) is a certainty.
///
/// ```
/// use flopgap_flops::{ClassFlops, Exactness, LikelyCause, Pass, Plausibility, SquareMlp};
///
/// let model = SquareMlp::new(10, 1024, 128)?;
/// let counted = ClassFlops { gemm: 1_351_352_320, ..ClassFlops::default() };
/// let verdict = Plausibility::of_gemm(model, Pass::Forward, &counted, Exactness::Exact)?;
/// assert!(matches!(verdict, Plausibility::BelowTheory { theory: 2_684_354_560, .. }));
/// assert!(verdict.likely_causes().contains(&LikelyCause::MissingLaunches));
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Plausibility {
    /// Neither below theory nor questionably far above it.
    Plausible,
    /// Fewer FLOPs than the mathematics needs: impossible for a complete count of the stated
    /// network.
    BelowTheory {
        /// The class: matrix products or activations.
        class: Bounded,
        /// Counted FLOPs of the class.
        counted: u64,
        /// Theoretical FLOPs of the class.
        theory: u64,
        /// The usual causes, most likely first.
        causes: Vec<LikelyCause>,
    },
    /// More GEMM FLOPs than eight times theory, or than padding every matrix
    /// to the largest tiles can explain.
    FarAbove {
        /// Counted GEMM FLOPs.
        counted: u64,
        /// Theoretical GEMM FLOPs.
        theory: u64,
        /// The usual causes, most likely first.
        causes: Vec<LikelyCause>,
    },
}

/// A class whose theory is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bounded {
    /// Matrix products.
    Gemm,
    /// Activations: a sigmoid takes more than the one FLOP an element that theory charges.
    Activation,
}

/// The usual cause of an implausible count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LikelyCause {
    /// The stated layers, width or columns are not those that ran.
    WrongSizes,
    /// Launches are missing from the recording.
    MissingLaunches,
    /// The products ran on tensor cores (TF32, FP16, BF16), whose work the FADD/FMUL/FFMA counters
    /// do not see.
    TensorCores,
    /// The recordings that were subtracted or paired do not belong together.
    WrongFilePairing,
    /// Tiles larger than the matrices: honest work on padding.
    TilePadding,
    /// The activation is computed inside of the products' kernels, or it is one that executes no
    /// counted FLOP.
    FusedActivation,
}

/// Whether counts are exact or rounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Exactness {
    /// Every FLOP was counted.
    #[default]
    Exact,
    /// The profiler printed at least one count rounded to three digits.
    Rounded,
}

impl Plausibility {
    /// Judges the counted GEMM FLOPs of one pass.
    ///
    /// A product over an inner dimension of K is charged `2 K` FLOPs an element, but `K`
    /// multiplications and `K - 1` additions are enough: with one column, `dW` is nothing but
    /// multiplications. A count is below theory when it is below that.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when the theoretical FLOPs exceed `u64`.
    pub fn of_gemm(
        model: SquareMlp,
        pass: Pass,
        measured: &ClassFlops,
        exactness: Exactness,
    ) -> Result<Self, FlopError> {
        let theory = model.theory(pass)?.gemm;
        let counted = measured.gemm;
        if exactness.is_below(counted, theory - saved_additions(model, pass)) {
            use LikelyCause::{MissingLaunches, TensorCores, WrongFilePairing, WrongSizes};
            let causes = if counted == 0 {
                vec![TensorCores, MissingLaunches, WrongFilePairing]
            } else {
                vec![WrongSizes, MissingLaunches, TensorCores, WrongFilePairing]
            };
            return Ok(Self::BelowTheory { class: Bounded::Gemm, counted, theory, causes });
        }
        let padding_explains = padding_explains(model, pass, counted);
        let many = u128::from(counted) > u128::from(theory) * u128::from(QUESTIONABLE_GEMM_FACTOR);
        if many || !padding_explains {
            let mut causes = vec![LikelyCause::WrongSizes, LikelyCause::WrongFilePairing];
            if padding_explains {
                causes.insert(0, LikelyCause::TilePadding);
            }
            return Ok(Self::FarAbove { counted, theory, causes });
        }
        Ok(Self::Plausible)
    }

    /// Judges the counted activation FLOPs of one pass of a sigmoid network: below theory or
    /// plausible.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when the theoretical FLOPs exceed `u64`.
    pub fn of_activation(
        model: SquareMlp,
        pass: Pass,
        measured: &ClassFlops,
        exactness: Exactness,
    ) -> Result<Self, FlopError> {
        use LikelyCause::{FusedActivation, MissingLaunches, WrongSizes};
        let (counted, theory) = (measured.activation, model.theory(pass)?.activation);
        if !exactness.is_below(counted, theory) {
            return Ok(Self::Plausible);
        }
        let causes = if counted == 0 {
            vec![FusedActivation, MissingLaunches]
        } else {
            vec![WrongSizes, MissingLaunches, FusedActivation]
        };
        Ok(Self::BelowTheory { class: Bounded::Activation, counted, theory, causes })
    }

    /// Whether there is no finding.
    pub const fn is_plausible(&self) -> bool {
        matches!(self, Self::Plausible)
    }

    /// Whether a complete count of the stated network cannot have this result.
    pub const fn is_impossible(&self) -> bool {
        matches!(self, Self::BelowTheory { .. })
    }

    /// Whether more was counted than padding every matrix to the largest tiles can explain.
    pub fn is_beyond_padding(&self) -> bool {
        matches!(self, Self::FarAbove { .. }) && !self.padding_is_likely()
    }

    /// What usually explains the finding, most likely first; empty when there is none.
    pub fn likely_causes(&self) -> &[LikelyCause] {
        match self {
            Self::Plausible => &[],
            Self::BelowTheory { causes, .. } | Self::FarAbove { causes, .. } => causes,
        }
    }
}

impl Plausibility {
    fn padding_is_likely(&self) -> bool {
        self.likely_causes().contains(&LikelyCause::TilePadding)
    }
}

impl Exactness {
    fn is_below(self, counted: u64, bound: u64) -> bool {
        match self {
            Self::Exact => counted < bound,
            Self::Rounded => (counted as f64) < bound as f64 * (1.0 - ROUNDING),
        }
    }
}

/// The additions that theory charges and a product need not execute: one for each element of its
/// result.
fn saved_additions(model: SquareMlp, pass: Pass) -> u64 {
    let (layers, width, columns) = (model.layers(), model.width(), model.columns());
    // Smaller than the theory of the pass, which exists, so nothing overflows.
    match pass {
        Pass::Forward => layers * width * columns,
        Pass::Backward => layers * width * width + (layers - 1) * width * columns,
    }
}

/// Whether the same network with every side rounded up to whole tiles, and a quarter more for the
/// epilogue and what slices of a tile add up, needs at least `counted` GEMM FLOPs.
fn padding_explains(model: SquareMlp, pass: Pass, counted: u64) -> bool {
    let up = |size: u64, to: u64| u128::from(size).next_multiple_of(u128::from(to));
    let (n, d, m) = (u128::from(model.layers()), model.width(), model.columns());
    let product =
        |sides: [u128; 3]| sides.into_iter().try_fold(2_u128, u128::checked_mul).unwrap_or(u128::MAX);
    let onward = product([up(d, TILE), up(d, STEP), up(m, TILE)]);
    let padded = match pass {
        Pass::Forward => n.saturating_mul(onward),
        Pass::Backward => {
            let weights = product([up(d, TILE), up(d, TILE), up(m, STEP)]);
            n.saturating_mul(weights).saturating_add((n - 1).saturating_mul(onward))
        }
    };
    padded.saturating_add(padded / 4) >= u128::from(counted)
}

impl fmt::Display for Plausibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plausible => return f.write_str("the counted GEMM FLOPs are plausible"),
            Self::BelowTheory { class, counted, theory, .. } => {
                let class = match class {
                    Bounded::Gemm => "GEMM",
                    Bounded::Activation => "activation",
                };
                write!(
                    f,
                    "{counted} {class} FLOPs were counted, but the stated network needs {theory}: the count or the \
                     sizes are wrong"
                )?;
            }
            Self::FarAbove { counted, theory, .. }
                if counted / QUESTIONABLE_GEMM_FACTOR < *theory || !self.padding_is_likely() =>
            {
                write!(
                    f,
                    "{counted} GEMM FLOPs were counted, {:.1} times the {theory} that the stated network needs, and \
                     more than padding to whole tiles can explain",
                    *counted as f64 / *theory as f64
                )?;
            }
            Self::FarAbove { counted, theory, .. } => write!(
                f,
                "{counted} GEMM FLOPs were counted, more than {QUESTIONABLE_GEMM_FACTOR} times the {theory} that the \
                 stated network needs"
            )?,
        }
        for (index, cause) in self.likely_causes().iter().enumerate() {
            write!(f, "{}{cause}", if index == 0 { "; likely: " } else { ", or " })?;
        }
        Ok(())
    }
}

impl fmt::Display for LikelyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::WrongSizes => "layers, width or columns are not those that ran",
            Self::MissingLaunches => "launches are missing from the recording",
            Self::TensorCores => {
                "the products ran on tensor cores (TF32 or half precision), which FFMA does not count"
            }
            Self::WrongFilePairing => "the recordings that were paired do not belong together",
            Self::FusedActivation => {
                "the activation is computed inside of other kernels, or is one that executes no counted FLOP (a ReLU)"
            }
            Self::TilePadding => "the matrices are small and the tiles mostly padding, which is honest work",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: (u64, u64, u64), gemm: u64) -> Plausibility {
        let model = SquareMlp::new(sizes.0, sizes.1, sizes.2).unwrap();
        let counted = ClassFlops { gemm, ..ClassFlops::default() };
        Plausibility::of_gemm(model, Pass::Forward, &counted, Exactness::Exact).unwrap()
    }

    #[test]
    fn the_limits_are_inclusive() {
        let theory = 2 * 256 * 256 * 16 * 2;
        assert!(check((2, 256, 16), theory).is_plausible());
        assert!(check((2, 256, 16), theory * 8).is_plausible());
        // 2 K - 1 operations for each of 2 · 256 · 16 elements: the first product of a sum is added
        // to nothing.
        let least = theory - 2 * 256 * 16;
        assert!(check((2, 256, 16), least).is_plausible());
        assert!(matches!(check((2, 256, 16), least - 1), Plausibility::BelowTheory { .. }));
        assert!(matches!(check((2, 256, 16), theory * 8 + 1), Plausibility::FarAbove { .. }));
    }

    #[test]
    fn small_shapes_with_epsilon_of_three_are_plausible() {
        assert!(check((2, 256, 16), (2 * 256 * 256 * 16 * 2) * 41 / 10).is_plausible());
    }

    #[test]
    fn padding_is_named_only_where_it_explains_the_count() {
        // One column in tiles of 256, and a quarter more: up to 320 times theory.
        let theory = 2 * 512 * 512;
        assert_eq!(check((1, 512, 1), theory * 320).likely_causes()[0], LikelyCause::TilePadding);
        assert!(!check((1, 512, 1), theory * 321).likely_causes().contains(&LikelyCause::TilePadding));
        for (counted, is_beyond) in [(0, false), (theory, false), (theory * 320, false), (theory * 321, true)]
        {
            assert_eq!(check((1, 512, 1), counted).is_beyond_padding(), is_beyond, "{counted}");
        }
        for counted in [theory * 8 + 1, theory * 320] {
            let text = check((1, 512, 1), counted).to_string();
            assert!(text.contains(" counted, more than 8 times the 524288 that "), "{text}");
        }
        assert!(!check((1, 512, 128), theory * 128 * 9).likely_causes().contains(&LikelyCause::TilePadding));
    }

    #[test]
    fn more_than_padding_is_questioned_below_eight_times_theory() {
        // Whole tiles leave nothing to pad: twice the theory is another network's, such as one of
        // 512 columns.
        let theory = 2 * 1024 * 1024 * 256;
        assert!(check((1, 1024, 256), theory * 5 / 4).is_plausible());
        assert_eq!(
            check((1, 1024, 256), theory * 2).to_string(),
            "1073741824 GEMM FLOPs were counted, 2.0 times the 536870912 that the stated network needs, and more than \
             padding to whole tiles can explain; likely: layers, width or columns are not those that ran, or the \
             recordings that were paired do not belong together"
        );
    }

    #[test]
    fn one_column_needs_no_additions_for_the_gradient_of_the_weights() {
        // Of three layers, two have a gradient of their input, with 127 operations an element.
        for (layers, theory, least) in
            [(1, 2 * 64 * 64, 64 * 64), (3, (3 + 2) * 2 * 64 * 64, 3 * 64 * 64 + 2 * 64 * 127)]
        {
            let model = SquareMlp::new(layers, 64, 1).unwrap();
            let of = |gemm| {
                let counted = ClassFlops { gemm, ..ClassFlops::default() };
                Plausibility::of_gemm(model, Pass::Backward, &counted, Exactness::Exact).unwrap()
            };
            assert_eq!(model.theory(Pass::Backward).unwrap().gemm, theory);
            assert!(of(least).is_plausible());
            assert!(of(least - 1).is_impossible());
        }
    }

    #[test]
    fn rounded_counts_may_be_half_a_percent_low() {
        let model = SquareMlp::new(10, 1024, 128).unwrap();
        let of = |gemm, exactness| {
            let counted = ClassFlops { gemm, ..ClassFlops::default() };
            Plausibility::of_gemm(model, Pass::Forward, &counted, exactness).unwrap().is_impossible()
        };
        let low = 2_684_354_560 / 1000 * 996;
        assert!(of(low, Exactness::Exact) && !of(low, Exactness::Rounded));
        assert!(of(2_684_354_560 / 1000 * 994, Exactness::Rounded));
    }

    #[test]
    fn activations_below_one_flop_an_element_are_no_sigmoids() {
        let model = SquareMlp::new(2, 4, 8).unwrap();
        let of = |activation| {
            let counted = ClassFlops { activation, ..ClassFlops::default() };
            Plausibility::of_activation(model, Pass::Forward, &counted, Exactness::Exact).unwrap()
        };
        assert!(of(64).is_plausible());
        assert_eq!(of(0).likely_causes()[0], LikelyCause::FusedActivation);
        let text = of(63).to_string();
        assert!(
            text.starts_with("63 activation FLOPs were counted, but the stated network needs 64"),
            "{text}"
        );
    }

    #[test]
    fn no_gemm_at_all_points_to_tensor_cores() {
        let verdict = check((4, 512, 64), 0);
        assert_eq!(verdict.likely_causes()[0], LikelyCause::TensorCores);
        assert_eq!(
            verdict.to_string(),
            "0 GEMM FLOPs were counted, but the stated network needs 134217728: the count or the sizes are wrong; \
             likely: the products ran on tensor cores (TF32 or half precision), which FFMA does not count, \
             or launches are missing from the recording, or the recordings that were paired do not belong together"
        );
    }

    #[test]
    fn eight_times_theory_may_exceed_u64() {
        assert!(check((1, 1 << 31, 1), u64::MAX).is_plausible());
    }

    #[test]
    fn json_names_the_verdict() {
        assert_eq!(
            serde_json::to_value(check((1, 1, 1), 17)).unwrap(),
            serde_json::json!({
                "verdict": "far_above", "counted": 17, "theory": 2,
                "causes": ["tile_padding", "wrong_sizes", "wrong_file_pairing"]
            })
        );
    }
}
