//! The reconstruction gives back the measured total.

use flopgap_flops::{ClassFlops, Decomposition, FlopError, Pass, SquareMlp};
use proptest::prelude::*;

/// Integers whose bit length is uniform, so that small and huge ones are equally likely.
fn count_up_to(max: u64) -> impl Strategy<Value = u64> {
    (0..=64_u32, any::<u64>()).prop_map(move |(bits, random)| {
        let value = if bits == 0 { 0 } else { random >> (64 - bits) };
        value.min(max)
    })
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
        let decomposition = Decomposition::new(model, pass, measured).unwrap();
        prop_assert_eq!(decomposition.reconstructed, measured.total().unwrap());
        prop_assert_eq!(decomposition.difference, 0);
    }

    /// Factors are the nearest doubles of the exact ones, and omega is what it says.
    #[test]
    fn factors_are_the_fractions(model in model_up_to(1 << 53), pass in pass(), measured in counts_up_to(1 << 53)) {
        let factors = Decomposition::new(model, pass, measured).unwrap().factors;
        let theory = model.theory(pass).unwrap();
        let difference = |counted: u64, expected: u64| (counted.cast_signed() - expected.cast_signed()) as f64;
        let epsilon = difference(measured.gemm, theory.gemm) / theory.gemm as f64;
        prop_assert_eq!(factors.epsilon.to_bits(), epsilon.to_bits());
        let kappa = difference(measured.activation, theory.activation) / theory.activation as f64;
        prop_assert_eq!(factors.kappa.to_bits(), kappa.to_bits());
        let (total, expected) = (measured.total().unwrap(), theory.total().unwrap());
        let omega = difference(total, expected) / expected as f64;
        prop_assert_eq!(factors.omega.to_bits(), omega.to_bits());
        let rho = measured.split_k as f64 / model.activation_elements(pass).unwrap() as f64;
        prop_assert_eq!(factors.rho.to_bits(), rho.to_bits());
    }

    /// Any sizes and counts whatever: a value or an error that names the quantity, never a panic.
    #[test]
    fn nothing_panics(sizes in any::<[u64; 3]>(), counts in any::<[u64; 4]>(), pass in pass()) {
        let [gemm, split_k, activation, other] = counts;
        let measured = ClassFlops { gemm, split_k, activation, other };
        if let Ok(model) = SquareMlp::new(sizes[0], sizes[1], sizes[2]) {
            match Decomposition::new(model, pass, measured) {
                Ok(decomposition) => prop_assert_eq!(decomposition.difference, 0),
                Err(FlopError::Overflow { quantity }) => prop_assert!(quantity.ends_with("FLOPs")),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}
