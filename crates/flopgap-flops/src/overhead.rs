//! Overheads of a measurement relative to theory (epsilon, rho, kappa and omega), and the
//! reconstruction.

use crate::{ClassFlops, FlopError, Pass, SquareMlp};

/// How far the counted FLOPs of one pass lie above theory.
///
/// | factor | definition | reads as |
/// |---|---|---|
/// | epsilon | `gemm / theory.gemm - 1` | relative excess of the matrix products: padding of tiles, epilogues |
/// | rho | `split_k / (N D M)` forward, `split_k / ((2N-1) D M)` backward | reduction FLOPs per activation element |
/// | kappa | `activation / theory.activation - 1` | relative excess of the activation over 1 FLOP per element |
/// | omega | `total / theory.total - 1` | relative excess of everything, `other` included |
///
/// They are the nearest doubles for counts up to 2^53.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct OverheadFactors {
    /// Relative excess of the GEMM FLOPs. Below 0 is impossible for a complete count, see
    /// [`Plausibility`](crate::Plausibility).
    pub epsilon: f64,
    /// Split-K FLOPs per activation element of the pass.
    pub rho: f64,
    /// Relative excess of the activation FLOPs. It can be negative: a `ReLU` executes no counted
    /// FLOP at all.
    pub kappa: f64,
    /// Relative excess of the total, kernels outside the three classes included.
    pub omega: f64,
}

/// One pass of one network, counted and in theory, with the overheads between them, as an analysis
/// writes it.
///
/// ```
/// use flopgap_flops::{ClassFlops, Decomposition, Pass, SquareMlp};
///
/// let model = SquareMlp::new(10, 1024, 128)?;
/// let counted = ClassFlops { gemm: 5_120_196_608, split_k: 10_824_176, activation: 3_932_160, other: 0 };
/// let decomposition = Decomposition::new(model, Pass::Backward, counted)?;
/// assert_eq!(decomposition.reconstructed, 5_134_952_944);
/// assert_eq!(decomposition.difference, 0);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
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
    /// The total recovered from the exact factors: the closed form of the pass evaluated term by
    /// term in fractions, plus `other`.
    ///
    /// ```text
    /// forward   N (2(1+epsilon) D^2 M + (1+kappa+rho) D M)
    /// backward  (N-1) (4(1+epsilon) D^2 M + 2(1+kappa+rho) D M) + 2(1+epsilon) D^2 M + (1+kappa+rho) D M
    /// ```
    pub reconstructed: u64,
    /// `reconstructed` minus the measured total: 0, or the factors do not describe the measurement.
    pub difference: i128,
}

impl Decomposition {
    /// Decomposes the counted FLOPs of one pass.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a theoretical class, the theoretical total or the measured
    /// total exceeds `u64`.
    pub fn new(model: SquareMlp, pass: Pass, measured: ClassFlops) -> Result<Self, FlopError> {
        let theory = model.theory(pass)?;
        let total = measured.total()?;
        let epsilon = Fraction::excess(measured.gemm, theory.gemm);
        let rho = Fraction::new(measured.split_k.into(), model.activation_elements(pass)?.into());
        let kappa = Fraction::excess(measured.activation, theory.activation);
        let omega = Fraction::excess(total, theory.total()?);
        // Every product divides the denominator of its factor, so in lowest terms no numerator
        // reaches 2^127; the arithmetic is checked all the same.
        let reconstructed = closed_form(model, pass, [epsilon, rho, kappa])
            .and_then(Fraction::as_count)
            .and_then(|classes| classes.checked_add(measured.other))
            .ok_or_else(|| FlopError::overflow("reconstructed total FLOPs"))?;
        let [epsilon, rho, kappa, omega] = [epsilon, rho, kappa, omega].map(Fraction::to_f64);
        Ok(Self {
            model,
            pass,
            theory,
            measured,
            factors: OverheadFactors { epsilon, rho, kappa, omega },
            reconstructed,
            difference: i128::from(reconstructed) - i128::from(total),
        })
    }
}

/// The closed form without `other`, as the fraction that it evaluates to.
fn closed_form(model: SquareMlp, pass: Pass, [epsilon, rho, kappa]: [Fraction; 3]) -> Option<Fraction> {
    let (n, d, m) = (model.layers(), model.width(), model.columns());
    let one = Fraction::new(1, 1);
    let (gemm_factor, element_factor) = (one.plus(epsilon)?, one.plus(kappa)?.plus(rho)?);
    let gemm = |products: u64| gemm_factor.times(products)?.times(d)?.times(d)?.times(m);
    let elements = |each: u64| element_factor.times(each)?.times(d)?.times(m);
    match pass {
        Pass::Forward => gemm(2)?.plus(elements(1)?)?.times(n),
        Pass::Backward => gemm(4)?.plus(elements(2)?)?.times(n - 1)?.plus(gemm(2)?)?.plus(elements(1)?),
    }
}

/// A signed fraction in lowest terms. Its denominator is a count of theory, so it is not 0.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    fn new(numerator: i128, denominator: i128) -> Self {
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let common = a.abs();
        Self { numerator: numerator / common, denominator: denominator / common }
    }

    /// `counted / expected - 1`.
    fn excess(counted: u64, expected: u64) -> Self {
        Self::new(i128::from(counted) - i128::from(expected), expected.into())
    }

    /// Over the least common denominator, so that fractions of the same whole never grow.
    fn plus(self, other: Self) -> Option<Self> {
        let common = Self::new(self.denominator, other.denominator);
        let left = self.numerator.checked_mul(common.denominator)?;
        let right = other.numerator.checked_mul(common.numerator)?;
        Some(Self::new(left.checked_add(right)?, self.denominator.checked_mul(common.denominator)?))
    }

    /// Common factors are canceled before multiplying, so the product overflows only if its lowest
    /// terms do.
    fn times(self, factor: u64) -> Option<Self> {
        let factor = Self::new(factor.into(), self.denominator);
        let numerator = self.numerator.checked_mul(factor.numerator)?;
        Some(Self { numerator, denominator: factor.denominator })
    }

    /// The count, if it is one.
    fn as_count(self) -> Option<u64> {
        (self.denominator == 1).then(|| u64::try_from(self.numerator).ok())?
    }

    fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omega_includes_other_and_the_factors_do_not() {
        let model = SquareMlp::new(1, 1, 1).unwrap();
        let measured = ClassFlops { gemm: 2, split_k: 0, activation: 1, other: 3 };
        let decomposition = Decomposition::new(model, Pass::Forward, measured).unwrap();
        let factors = OverheadFactors { epsilon: 0.0, rho: 0.0, kappa: 0.0, omega: 1.0 };
        assert_eq!((decomposition.factors, decomposition.reconstructed), (factors, 6));
    }

    #[test]
    fn the_closed_form_depends_on_every_factor() {
        let model = SquareMlp::new(3, 5, 7).unwrap();
        for pass in Pass::ALL {
            let (gemm, elements) =
                (model.theory(pass).unwrap().gemm.into(), model.activation_elements(pass).unwrap().into());
            let exact = [(2_000, gemm), (30, elements), (400, elements)]
                .map(|(part, whole)| Fraction::new(part, whole));
            let base = closed_form(model, pass, exact).unwrap();
            for (index, whole) in [gemm, elements, elements].into_iter().enumerate() {
                let mut changed = exact;
                changed[index] = changed[index].plus(Fraction::new(1, whole)).unwrap();
                let one_more = base.plus(Fraction::new(1, 1));
                assert_eq!(closed_form(model, pass, changed), one_more, "{pass} {index}");
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
                    let decomposition = Decomposition::new(model, pass, measured).unwrap();
                    assert_eq!(decomposition.reconstructed, u64::MAX, "{layers} {pass} {gemm}");
                }
            }
        }
        let model = SquareMlp::new(layers + 1, 1, 1).unwrap();
        assert_eq!(
            Decomposition::new(model, Pass::Backward, ClassFlops::default()),
            Err(FlopError::overflow("total FLOPs"))
        );
    }

    #[test]
    fn decomposition_json() {
        let model = SquareMlp::new(2, 4, 8).unwrap();
        let measured = ClassFlops { gemm: 640, split_k: 16, activation: 128, other: 0 };
        let decomposition = Decomposition::new(model, Pass::Forward, measured).unwrap();
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
