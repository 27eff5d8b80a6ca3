//! Overheads of a measurement relative to theory (epsilon, rho, kappa and omega), and the
//! reconstruction.

use crate::{ClassFlops, FlopError, Pass, Ratio, SquareMlp};

/// How far the counted FLOPs of one pass lie above theory, as exact fractions.
///
/// | factor | definition | reads as |
/// |---|---|---|
/// | epsilon | `gemm / theory.gemm - 1` | relative excess of the matrix products: padding of tiles, epilogues |
/// | rho | `split_k / (N D M)` forward, `split_k / ((2N-1) D M)` backward | reduction FLOPs per activation element |
/// | kappa | `activation / theory.activation - 1` | relative excess of the activation over 1 FLOP per element |
/// | omega | `total / theory.total - 1` | relative excess of everything, `other` included |
///
/// The factors describe the measurement completely: [`reconstruct`](Self::reconstruct) evaluates
/// the closed form with them and returns the measured total, to the FLOP, for all sizes and counts
/// for which they exist.
///
/// ```
/// use flopgap_flops::{ClassFlops, Overheads, Pass, SquareMlp};
///
/// let model = SquareMlp::new(10, 1024, 128)?;
/// let counted = ClassFlops { gemm: 2_702_704_640, split_k: 3_932_160, activation: 20_969_786, other: 0 };
/// let overheads = Overheads::of(model, Pass::Forward, &counted)?;
/// assert_eq!(format!("{:.4}", overheads.epsilon()), "0.0068");
/// assert_eq!(format!("{:.4}", overheads.rho()), "3.0000");
/// assert_eq!(format!("{:.4}", overheads.kappa()), "14.9987");
/// assert_eq!(overheads.reconstruct()?, counted.total()?);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Overheads {
    model: SquareMlp,
    pass: Pass,
    epsilon: Ratio,
    rho: Ratio,
    kappa: Ratio,
    omega: Ratio,
    other: u64,
}

impl Overheads {
    /// The overheads of `measured` FLOPs of one pass over `model`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a theoretical class, the theoretical total or the measured
    /// total exceeds `u64`.
    pub fn of(model: SquareMlp, pass: Pass, measured: &ClassFlops) -> Result<Self, FlopError> {
        let theory = model.theory(pass)?;
        Ok(Self {
            model,
            pass,
            epsilon: Ratio::excess(measured.gemm, theory.gemm)?,
            rho: Ratio::of_counts(measured.split_k, model.activation_elements(pass)?)?,
            kappa: Ratio::excess(measured.activation, theory.activation)?,
            omega: Ratio::excess(measured.total()?, theory.total()?)?,
            other: measured.other,
        })
    }

    /// The network that was measured.
    pub const fn model(&self) -> SquareMlp {
        self.model
    }

    /// The pass that was measured.
    pub const fn pass(&self) -> Pass {
        self.pass
    }

    /// Relative excess of the GEMM FLOPs. Below 0 is impossible for a complete count, see
    /// [`Plausibility`](crate::Plausibility).
    pub const fn epsilon(&self) -> Ratio {
        self.epsilon
    }

    /// Split-K FLOPs per activation element of the pass.
    pub const fn rho(&self) -> Ratio {
        self.rho
    }

    /// Relative excess of the activation FLOPs. It can be negative: a `ReLU` executes no counted
    /// FLOP at all.
    pub const fn kappa(&self) -> Ratio {
        self.kappa
    }

    /// Relative excess of the total, kernels outside the three classes included.
    pub const fn omega(&self) -> Ratio {
        self.omega
    }

    /// Measured FLOPs outside the three classes; they enter omega and the reconstruction as they
    /// are.
    pub const fn other(&self) -> u64 {
        self.other
    }

    /// The measured total, recovered from the factors alone: the closed form of the pass evaluated
    /// term by term in exact fractions, plus [`other`](Self::other).
    ///
    /// ```text
    /// forward   N (2(1+epsilon) D^2 M + (1+kappa+rho) D M)
    /// backward  (N-1) (4(1+epsilon) D^2 M + 2(1+kappa+rho) D M) + 2(1+epsilon) D^2 M + (1+kappa+rho) D M
    /// ```
    ///
    /// The result is the measured total exactly. No intermediate can overflow for overheads that
    /// [`of`](Self::of) accepted: every product divides the denominator of its factor, so in lowest
    /// terms no numerator reaches 2^127.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] is reserved for a bug: the arithmetic is checked all the same.
    pub fn reconstruct(&self) -> Result<u64, FlopError> {
        self.closed_form()
            .and_then(Ratio::round_to_count)
            .and_then(|classes| classes.checked_add(self.other))
            .ok_or_else(|| FlopError::overflow("reconstructed total FLOPs"))
    }

    /// The closed form without `other`, as the fraction that it evaluates to.
    fn closed_form(&self) -> Option<Ratio> {
        let (n, d, m) = (self.model.layers(), self.model.width(), self.model.columns());
        let gemm_factor = Ratio::ONE.checked_add(self.epsilon)?;
        let element_factor = Ratio::ONE.checked_add(self.kappa)?.checked_add(self.rho)?;
        let gemm = |products: u64| {
            gemm_factor.checked_scale(products)?.checked_scale(d)?.checked_scale(d)?.checked_scale(m)
        };
        let elements = |each: u64| element_factor.checked_scale(each)?.checked_scale(d)?.checked_scale(m);
        match self.pass {
            Pass::Forward => gemm(2)?.checked_add(elements(1)?)?.checked_scale(n),
            Pass::Backward => gemm(4)?
                .checked_add(elements(2)?)?
                .checked_scale(n - 1)?
                .checked_add(gemm(2)?)?
                .checked_add(elements(1)?),
        }
    }

    /// The factors as the nearest `f64`, for JSON and tables.
    pub fn factors(&self) -> OverheadFactors {
        OverheadFactors {
            epsilon: self.epsilon.to_f64(),
            rho: self.rho.to_f64(),
            kappa: self.kappa.to_f64(),
            omega: self.omega.to_f64(),
        }
    }
}

/// The four overhead factors in double precision, as written to JSON; [`Overheads`] defines them.
///
/// A JSON reader must parse numbers to the nearest `f64` for
/// [`reconstruct_f64`](Self::reconstruct_f64) to keep its promise. Python does; `serde_json` does
/// with its feature `float_roundtrip`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OverheadFactors {
    /// Relative excess of the GEMM FLOPs.
    pub epsilon: f64,
    /// Split-K FLOPs per activation element.
    pub rho: f64,
    /// Relative excess of the activation FLOPs.
    pub kappa: f64,
    /// Relative excess of the total.
    pub omega: f64,
}

/// Largest total, measured and theoretical, up to which [`OverheadFactors::reconstruct_f64`] rounds
/// back to the measured FLOP: 2^48, 281 TFLOP.
pub const EXACT_F64_TOTAL: u64 = 1 << 48;

impl OverheadFactors {
    /// The closed form of [`Overheads::reconstruct`] evaluated in double precision, in the order in
    /// which it is written, plus `other`. Round the result to get FLOPs.
    ///
    /// It rounds back to the measured total whenever neither that total nor the theoretical one
    /// exceeds [`EXACT_F64_TOTAL`]. Proof: with `u = 2^-53`, measured classes `G`, `A`, `S`, `O`,
    /// theory `Tg` and `Ta`,
    ///
    /// - `1 + epsilon` is off by at most `3 max(G, Tg) / Tg * u`, whether the factor is the nearest
    ///   `f64` or was computed as `G / Tg - 1` in `f64`; `1 + kappa` likewise with `A` and `Ta`;
    /// - after scaling, products with D, D and M add `3 G u`; rounding rho adds `S u`, adding it
    ///   `(A + S) u`, products with D and M `2 (A + S) u`; the sums, the product with N and the
    ///   addition of `other` at most 5 roundings more.
    ///
    /// So the error is below `u * (3 max(G, Tg) + 3 max(A, Ta) + 8 (G + A + O) + 9 S)` up to terms
    /// in `u^2`. With both totals at most `B`, and `Ta` at most half of `Tg`, that is largest for
    /// `A = Tg = B`: `14 B u`, which for `B = 2^48` is 7/16, less than half a FLOP.
    pub fn reconstruct_f64(&self, model: SquareMlp, pass: Pass, other: u64) -> f64 {
        let (n, d, m) = (model.layers() as f64, model.width() as f64, model.columns() as f64);
        let gemm = |products: f64| products * (1.0 + self.epsilon) * d * d * m;
        let elements = |each: f64| each * (1.0 + self.kappa + self.rho) * d * m;
        let classes = match pass {
            Pass::Forward => n * (gemm(2.0) + elements(1.0)),
            Pass::Backward => (n - 1.0) * (gemm(4.0) + elements(2.0)) + gemm(2.0) + elements(1.0),
        };
        classes + other as f64
    }
}

/// One pass of one network, counted and in theory, with the overheads between them, as an analysis
/// writes it.
///
/// ```
/// use flopgap_flops::{ClassFlops, Decomposition, Pass, SquareMlp};
///
/// let model = SquareMlp::new(10, 1024, 128)?;
/// let counted = ClassFlops { gemm: 5_120_196_608, split_k: 10_824_176, activation: 3_932_160, other: 0 };
/// let decomposition = Decomposition::of(model, Pass::Backward, counted)?;
/// assert_eq!(decomposition.reconstructed, 5_134_952_944);
/// assert_eq!(decomposition.difference, 0);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Decomposition {
    /// The network.
    pub model: SquareMlp,
    /// The pass.
    pub pass: Pass,
    /// Theoretical FLOPs.
    pub theory: ClassFlops,
    /// Counted FLOPs.
    pub measured: ClassFlops,
    /// The factors in double precision.
    pub factors: OverheadFactors,
    /// The total recovered from the exact factors.
    pub reconstructed: u64,
    /// `reconstructed` minus the measured total: 0, or the factors do not describe the measurement.
    pub difference: i128,
}

impl Decomposition {
    /// Decomposes the counted FLOPs of one pass.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] as for [`Overheads::of`].
    pub fn of(model: SquareMlp, pass: Pass, measured: ClassFlops) -> Result<Self, FlopError> {
        let overheads = Overheads::of(model, pass, &measured)?;
        let reconstructed = overheads.reconstruct()?;
        Ok(Self {
            model,
            pass,
            theory: model.theory(pass)?,
            measured,
            factors: overheads.factors(),
            reconstructed,
            difference: i128::from(reconstructed) - i128::from(measured.total()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omega_includes_other_and_the_factors_do_not() {
        let model = SquareMlp::new(1, 1, 1).unwrap();
        let measured = ClassFlops { gemm: 2, split_k: 0, activation: 1, other: 3 };
        let overheads = Overheads::of(model, Pass::Forward, &measured).unwrap();
        assert_eq!(
            [overheads.epsilon(), overheads.rho(), overheads.kappa(), overheads.omega()],
            [Ratio::ZERO, Ratio::ZERO, Ratio::ZERO, Ratio::ONE]
        );
        assert_eq!(overheads.reconstruct(), Ok(6));
    }

    #[test]
    fn the_closed_form_depends_on_every_factor() {
        let model = SquareMlp::new(3, 5, 7).unwrap();
        let measured = ClassFlops { gemm: 2_000, split_k: 30, activation: 400, other: 5 };
        for pass in Pass::ALL {
            let exact = Overheads::of(model, pass, &measured).unwrap();
            assert_eq!(exact.reconstruct(), Ok(2_435));
            let gemm = model.theory(pass).unwrap().gemm;
            let elements = model.activation_elements(pass).unwrap();
            let one_more =
                |ratio: Ratio, whole| ratio.checked_add(Ratio::of_counts(1, whole).unwrap()).unwrap();
            let changed = [
                Overheads { epsilon: one_more(exact.epsilon, gemm), ..exact },
                Overheads { rho: one_more(exact.rho, elements), ..exact },
                Overheads { kappa: one_more(exact.kappa, elements), ..exact },
                Overheads { other: exact.other + 1, ..exact },
            ];
            for overheads in changed {
                assert_eq!(overheads.reconstruct(), Ok(2_436), "{overheads:?}");
            }
        }
    }

    #[test]
    fn the_largest_counts_reconstruct() {
        // The most layers for which the theoretical backward total still fits: 6N-3 <= 2^64-1 at D
        // = M = 1.
        let layers = (u64::MAX - 3) / 6 + 1;
        for layers in [layers, layers - 1, 1 << 61, 2, 1] {
            let model = SquareMlp::new(layers, 1, 1).unwrap();
            for gemm in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
                let measured = ClassFlops { gemm, split_k: (u64::MAX - gemm) / 3, activation: 0, other: 0 };
                let measured = ClassFlops { activation: u64::MAX - gemm - measured.split_k, ..measured };
                for pass in Pass::ALL {
                    let overheads = Overheads::of(model, pass, &measured).unwrap();
                    assert_eq!(overheads.closed_form().unwrap().denominator(), 1);
                    assert_eq!(overheads.reconstruct(), Ok(u64::MAX), "{layers} {pass} {gemm}");
                }
            }
        }
        let model = SquareMlp::new(layers + 1, 1, 1).unwrap();
        assert_eq!(
            Overheads::of(model, Pass::Backward, &ClassFlops::default()),
            Err(FlopError::overflow("total FLOPs"))
        );
    }

    #[test]
    fn decomposition_json() {
        let model = SquareMlp::new(2, 4, 8).unwrap();
        let measured = ClassFlops { gemm: 640, split_k: 16, activation: 128, other: 0 };
        let decomposition = Decomposition::of(model, Pass::Forward, measured).unwrap();
        assert_eq!(
            serde_json::to_value(&decomposition).unwrap(),
            serde_json::json!({
                "model": {"layers": 2, "width": 4, "columns": 8},
                "pass": "forward",
                "theory": {"gemm": 512, "split_k": 0, "activation": 64, "other": 0, "total": 576},
                "measured": {"gemm": 640, "split_k": 16, "activation": 128, "other": 0, "total": 784},
                "factors": {"epsilon": 0.25, "rho": 0.25, "kappa": 1.0, "omega": 0.361_111_111_111_111_1},
                "reconstructed": 784,
                "difference": 0
            })
        );
    }
}
