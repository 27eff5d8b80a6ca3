//! Counts of a PyTorch network of ten 1024-wide sigmoid layers on 128 columns, FP32, profiled with
//! Nsight Compute, and the factors worked out from them.

use flopgap_flops::{ClassFlops, Decomposition, Exactness, Pass, Plausibility, SquareMlp};

fn model() -> SquareMlp {
    SquareMlp::new(10, 1024, 128).unwrap()
}

const FORWARD: ClassFlops =
    ClassFlops { gemm: 2_702_704_640, split_k: 3_932_160, activation: 20_969_786, other: 0 };
const BACKWARD: ClassFlops =
    ClassFlops { gemm: 5_120_196_608, split_k: 10_824_176, activation: 3_932_160, other: 0 };

fn printed(pass: Pass, measured: &ClassFlops) -> [String; 4] {
    let factors = Decomposition::new(model(), pass, *measured).unwrap().factors;
    [factors.epsilon, factors.rho, factors.kappa, factors.omega].map(|factor| format!("{factor:.4}"))
}

#[test]
fn theory() {
    let forward = model().theory(Pass::Forward).unwrap();
    assert_eq!(forward, ClassFlops { gemm: 2_684_354_560, activation: 1_310_720, ..ClassFlops::default() });
    assert_eq!(forward.total(), Ok(2_685_665_280));
    let backward = model().theory(Pass::Backward).unwrap();
    assert_eq!(backward, ClassFlops { gemm: 5_100_273_664, activation: 2_490_368, ..ClassFlops::default() });
    assert_eq!(backward.total(), Ok(5_102_764_032));
}

#[test]
fn measured_totals() {
    assert_eq!(FORWARD.total(), Ok(2_727_606_586));
    assert_eq!(BACKWARD.total(), Ok(5_134_952_944));
}

#[test]
fn factors() {
    assert_eq!(printed(Pass::Forward, &FORWARD), ["0.0068", "3.0000", "14.9987", "0.0156"]);
    assert_eq!(printed(Pass::Backward, &BACKWARD), ["0.0039", "4.3464", "0.5789", "0.0063"]);
}

#[test]
fn reconstruction_differs_by_zero() {
    for (pass, measured) in [(Pass::Forward, FORWARD), (Pass::Backward, BACKWARD)] {
        let decomposition = Decomposition::new(model(), pass, measured).unwrap();
        assert_eq!(decomposition.difference, 0);
        assert_eq!(decomposition.reconstructed, measured.total().unwrap());
    }
}

#[test]
fn the_counts_are_plausible() {
    for (pass, measured) in [(Pass::Forward, FORWARD), (Pass::Backward, BACKWARD)] {
        assert_eq!(
            Plausibility::of_gemm(model(), pass, &measured, Exactness::Exact),
            Ok(Plausibility::Plausible)
        );
    }
    // The forward count taken for the backward pass: too few.
    let verdict = Plausibility::of_gemm(model(), Pass::Backward, &FORWARD, Exactness::Exact).unwrap();
    assert!(matches!(verdict, Plausibility::BelowTheory { .. }), "{verdict}");
}
