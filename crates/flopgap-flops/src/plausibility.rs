//! Counts that cannot be what they claim to be.

use std::fmt;

use serde::Serialize;

use crate::{ClassFlops, FlopError, Pass, SquareMlp};

/// Counted GEMM FLOPs above this multiple of theory are questioned.
pub const QUESTIONABLE_GEMM_FACTOR: u64 = 8;

/// Edge of the largest output tile that FP32 GEMM kernels commonly use; a partial tile executes in full.
const TILE: u64 = 128;

/// Verdict on the counted GEMM FLOPs of one pass. Only GEMM is judged: it is the class whose theory is a
/// lower bound.
///
/// Small shapes are honestly far above theory, because a tile that is mostly padding still executes in full:
/// epsilon is 3.1 at `N=2 D=256 M=16` on an H200. A finding of [`FarAbove`](Self::FarAbove) is therefore a
/// question, with [`TilePadding`](LikelyCause::TilePadding) first among its causes where padding alone can
/// explain the count; a finding of [`BelowTheory`](Self::BelowTheory) is a certainty.
///
/// ```
/// use flopgap_flops::{ClassFlops, LikelyCause, Pass, Plausibility, SquareMlp};
///
/// let model = SquareMlp::new(10, 1024, 128)?;
/// let counted = ClassFlops { gemm: 1_351_352_320, ..ClassFlops::default() };
/// let verdict = Plausibility::check(model, Pass::Forward, &counted)?;
/// assert!(matches!(verdict, Plausibility::BelowTheory { theory: 2_684_354_560, .. }));
/// assert!(verdict.likely_causes().contains(&LikelyCause::MissingLaunches));
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Plausibility {
    /// Between theory and [`QUESTIONABLE_GEMM_FACTOR`] times theory.
    Plausible,
    /// Fewer GEMM FLOPs than the mathematics needs: impossible for a complete count of the stated network.
    BelowTheory {
        /// Counted GEMM FLOPs.
        counted: u64,
        /// Theoretical GEMM FLOPs.
        theory: u64,
        /// What usually explains it, most likely first.
        causes: Vec<LikelyCause>,
    },
    /// More than [`QUESTIONABLE_GEMM_FACTOR`] times theory.
    FarAbove {
        /// Counted GEMM FLOPs.
        counted: u64,
        /// Theoretical GEMM FLOPs.
        theory: u64,
        /// What usually explains it, most likely first.
        causes: Vec<LikelyCause>,
    },
}

/// What usually lies behind an implausible count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LikelyCause {
    /// The stated layers, width or tokens are not those that ran.
    WrongSizes,
    /// Launches are missing from the recording.
    MissingLaunches,
    /// The products ran on tensor cores (TF32, FP16, BF16), whose work the FADD/FMUL/FFMA counters do not
    /// see.
    TensorCores,
    /// The recordings that were subtracted or paired do not belong together.
    WrongFilePairing,
    /// Tiles larger than the matrices: honest work on padding.
    TilePadding,
}

impl Plausibility {
    /// Judges the counted GEMM FLOPs of one pass.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when the theoretical FLOPs exceed `u64`.
    pub fn check(model: SquareMlp, pass: Pass, measured: &ClassFlops) -> Result<Self, FlopError> {
        let theory = model.theory(pass)?.gemm;
        let counted = measured.gemm;
        if counted < theory {
            use LikelyCause::{MissingLaunches, TensorCores, WrongFilePairing, WrongSizes};
            let causes = if counted == 0 {
                vec![TensorCores, MissingLaunches, WrongFilePairing]
            } else {
                vec![WrongSizes, MissingLaunches, TensorCores, WrongFilePairing]
            };
            return Ok(Self::BelowTheory { counted, theory, causes });
        }
        if u128::from(counted) > u128::from(theory) * u128::from(QUESTIONABLE_GEMM_FACTOR) {
            let mut causes = vec![LikelyCause::WrongSizes, LikelyCause::WrongFilePairing];
            if padding_explains(model, pass, counted) {
                causes.insert(0, LikelyCause::TilePadding);
            }
            return Ok(Self::FarAbove { counted, theory, causes });
        }
        Ok(Self::Plausible)
    }

    /// Whether there is no finding.
    pub const fn is_plausible(&self) -> bool {
        matches!(self, Self::Plausible)
    }

    /// What usually explains the finding, most likely first; empty when there is none.
    pub fn likely_causes(&self) -> &[LikelyCause] {
        match self {
            Self::Plausible => &[],
            Self::BelowTheory { causes, .. } | Self::FarAbove { causes, .. } => causes,
        }
    }
}

/// Whether the same network with every side rounded up to whole tiles needs at least `counted` GEMM FLOPs.
fn padding_explains(model: SquareMlp, pass: Pass, counted: u64) -> bool {
    let whole_tiles = |size: u64| size.checked_next_multiple_of(TILE);
    let padded = whole_tiles(model.width())
        .zip(whole_tiles(model.tokens()))
        .and_then(|(width, tokens)| SquareMlp::new(model.layers(), width, tokens).ok())
        .and_then(|padded| padded.theory(pass).ok());
    // A padded network beyond u64 is larger than any count.
    padded.is_none_or(|theory| theory.gemm >= counted)
}

impl fmt::Display for Plausibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plausible => return f.write_str("the counted GEMM FLOPs are plausible"),
            Self::BelowTheory { counted, theory, .. } => write!(
                f,
                "{counted} GEMM FLOPs were counted, but the stated network needs {theory}: the count or the sizes are \
                 wrong"
            )?,
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
            Self::WrongSizes => "layers, width or tokens are not those that ran",
            Self::MissingLaunches => "launches are missing from the recording",
            Self::TensorCores => {
                "the products ran on tensor cores (TF32 or half precision), which FFMA does not count"
            }
            Self::WrongFilePairing => "the recordings that were paired do not belong together",
            Self::TilePadding => "the matrices are small and the tiles mostly padding, which is honest work",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: (u64, u64, u64), gemm: u64) -> Plausibility {
        let model = SquareMlp::new(sizes.0, sizes.1, sizes.2).unwrap();
        Plausibility::check(model, Pass::Forward, &ClassFlops { gemm, ..ClassFlops::default() }).unwrap()
    }

    #[test]
    fn the_limits_are_inclusive() {
        let theory = 2 * 256 * 256 * 16 * 2;
        assert!(check((2, 256, 16), theory).is_plausible());
        assert!(check((2, 256, 16), theory * 8).is_plausible());
        assert!(matches!(check((2, 256, 16), theory - 1), Plausibility::BelowTheory { .. }));
        assert!(matches!(check((2, 256, 16), theory * 8 + 1), Plausibility::FarAbove { .. }));
    }

    #[test]
    fn small_shapes_with_epsilon_of_three_are_plausible() {
        assert!(check((2, 256, 16), (2 * 256 * 256 * 16 * 2) * 41 / 10).is_plausible());
    }

    #[test]
    fn padding_is_named_only_where_it_explains_the_count() {
        // One column in tiles of 128: up to 128 times theory.
        let theory = 2 * 512 * 512;
        assert_eq!(check((1, 512, 1), theory * 100).likely_causes()[0], LikelyCause::TilePadding);
        assert!(!check((1, 512, 1), theory * 129).likely_causes().contains(&LikelyCause::TilePadding));
        assert!(!check((1, 512, 128), theory * 128 * 9).likely_causes().contains(&LikelyCause::TilePadding));
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
