//! The reconstruction gives back the measured total: exactly for everything, in double precision up
//! to 2^48.

use flopgap_flops::{ClassFlops, EXACT_F64_TOTAL, FlopError, OverheadFactors, Overheads, Pass, SquareMlp};
use proptest::prelude::*;

/// Integers whose bit length is uniform, so that small and huge ones are equally likely.
fn count_up_to(max: u64) -> impl Strategy<Value = u64> {
    (0..=64_u32, any::<u64>()).prop_map(move |(bits, random)| {
        let value = if bits == 0 { 0 } else { random >> (64 - bits) };
        value.min(max)
    })
}

/// A double rounded to a FLOP, in all its digits.
fn to_flop(double: f64) -> String {
    format!("{:.0}", double.round())
}

fn pass() -> impl Strategy<Value = Pass> {
    prop_oneof![Just(Pass::Forward), Just(Pass::Backward)]
}

/// Networks whose theoretical totals do not exceed `max`, over the whole range that this leaves.
fn model_up_to(max: u64) -> impl Strategy<Value = SquareMlp> {
    (0..=62_u32, 0..=31_u32, 0..=62_u32, any::<[u64; 3]>()).prop_filter_map(
        "theory exceeds the limit",
        move |(n, d, m, random)| {
            // Sizes of at most that many bits, the largest reduced until the network fits.
            let size = |bits: u32, random: u64| 1 + (random & ((1_u64 << bits) - 1));
            let (mut n, mut d, mut m) = (size(n, random[0]), size(d, random[1]), size(m, random[2]));
            loop {
                let model = SquareMlp::new(n, d, m).ok()?;
                let fits = Pass::ALL
                    .iter()
                    .all(|&pass| model.theory(pass).and_then(|t| t.total()).is_ok_and(|total| total <= max));
                if fits {
                    return Some(model);
                }
                let largest = n.max(d).max(m);
                for size in [&mut n, &mut d, &mut m] {
                    if *size == largest {
                        *size = largest.div_ceil(2);
                        break;
                    }
                }
            }
        },
    )
}

/// Counts whose total does not exceed `max`; half of the time it is exactly `max`.
fn counts_up_to(max: u64) -> impl Strategy<Value = ClassFlops> {
    (
        any::<bool>(),
        0..4_usize,
        0..4_usize,
        any::<[u64; 4]>()
            .prop_flat_map(move |_| [count_up_to(max), count_up_to(max), count_up_to(max), count_up_to(max)]),
    )
        .prop_map(move |(full, first, rest, counts)| {
            let mut left = max;
            let mut classes = [0; 4];
            for offset in 0..4 {
                let class = (first + offset) % 4;
                classes[class] = counts[class].min(left);
                left -= classes[class];
            }
            if full {
                classes[rest] += left;
            }
            let [gemm, split_k, activation, other] = classes;
            ClassFlops { gemm, split_k, activation, other }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// For every network and every count that fit a u64 at all.
    #[test]
    fn exact_over_the_whole_range(model in model_up_to(u64::MAX), pass in pass(), measured in counts_up_to(u64::MAX)) {
        let overheads = Overheads::of(model, pass, &measured).unwrap();
        prop_assert_eq!(overheads.reconstruct(), measured.total());
    }

    /// The stated range of the double-precision form.
    #[test]
    fn doubles_round_back_up_to_2_to_the_48(
        model in model_up_to(EXACT_F64_TOTAL),
        pass in pass(),
        measured in counts_up_to(EXACT_F64_TOTAL),
    ) {
        let factors = Overheads::of(model, pass, &measured).unwrap().factors();
        let double = factors.reconstruct_f64(model, pass, measured.other);
        prop_assert!((double - measured.total().unwrap() as f64).abs() < 0.5, "{double} for {measured:?}");
        prop_assert_eq!(to_flop(double), measured.total().unwrap().to_string());
    }

    /// The same when the factors were computed in double precision, as a script does: `counted /
    /// theory - 1`.
    #[test]
    fn doubles_computed_naively_round_back_too(
        model in model_up_to(EXACT_F64_TOTAL),
        pass in pass(),
        measured in counts_up_to(EXACT_F64_TOTAL),
    ) {
        let theory = model.theory(pass).unwrap();
        let factors = OverheadFactors {
            epsilon: measured.gemm as f64 / theory.gemm as f64 - 1.0,
            rho: measured.split_k as f64 / model.activation_elements(pass).unwrap() as f64,
            kappa: measured.activation as f64 / theory.activation as f64 - 1.0,
            omega: 0.0,
        };
        let double = factors.reconstruct_f64(model, pass, measured.other);
        prop_assert_eq!(to_flop(double), measured.total().unwrap().to_string());
    }

    /// Published factors are the nearest doubles of the exact ones, and omega is what it says.
    #[test]
    fn factors_are_the_fractions(model in model_up_to(1 << 53), pass in pass(), measured in counts_up_to(1 << 53)) {
        let overheads = Overheads::of(model, pass, &measured).unwrap();
        let theory = model.theory(pass).unwrap();
        let difference = |counted: u64, expected: u64| (counted.cast_signed() - expected.cast_signed()) as f64;
        let factors = overheads.factors();
        let epsilon = difference(measured.gemm, theory.gemm) / theory.gemm as f64;
        prop_assert_eq!(factors.epsilon.to_bits(), epsilon.to_bits());
        let kappa = difference(measured.activation, theory.activation) / theory.activation as f64;
        prop_assert_eq!(factors.kappa.to_bits(), kappa.to_bits());
        let (total, expected) = (measured.total().unwrap(), theory.total().unwrap());
        let omega = difference(total, expected) / expected as f64;
        prop_assert_eq!(factors.omega.to_bits(), omega.to_bits());
        prop_assert_eq!(
            overheads.rho().denominator() * u128::from(measured.split_k),
            overheads.rho().numerator().unsigned_abs() * u128::from(model.activation_elements(pass).unwrap())
        );
    }

    /// Any sizes and counts whatever: a value or an error that names the quantity, never a panic.
    #[test]
    fn nothing_panics(sizes in any::<[u64; 3]>(), counts in any::<[u64; 4]>(), pass in pass()) {
        let [gemm, split_k, activation, other] = counts;
        let measured = ClassFlops { gemm, split_k, activation, other };
        if let Ok(model) = SquareMlp::new(sizes[0], sizes[1], sizes[2]) {
            match Overheads::of(model, pass, &measured) {
                Ok(overheads) => prop_assert_eq!(overheads.reconstruct(), measured.total()),
                Err(FlopError::Overflow { quantity }) => prop_assert!(quantity.ends_with("FLOPs")),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}

/// The limit is not idle: a little above it, double precision loses a FLOP.
#[test]
fn doubles_do_lose_flops_beyond_the_range() {
    let model = SquareMlp::new(1_000_003, 1_009, 1_013).unwrap();
    let lost = (0..1_000_u64).any(|step| {
        let measured = ClassFlops {
            gemm: (1 << 53) + 7_919 * step,
            split_k: 3 * step,
            activation: 5_000_000_000_011 + step,
            other: 0,
        };
        let factors = Overheads::of(model, Pass::Backward, &measured).unwrap().factors();
        to_flop(factors.reconstruct_f64(model, Pass::Backward, 0)) != measured.total().unwrap().to_string()
    });
    assert!(lost);
}
