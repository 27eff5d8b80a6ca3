//! Totals by kernel and class.

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_ncu::Precision;
use flopgap_phases::{PhaseError, Profile};

use crate::fixture;

fn load(name: &str) -> Result<Profile, PhaseError> {
    Profile::load(&fixture(name), &Classifier::new())
}

/// One bf16 training step, in four layouts of one report: the same kernels with the same FLOPs.
#[test]
fn every_layout_of_a_report_has_the_same_totals() {
    let of = |name: &str| {
        let profile = load(name).unwrap();
        let mut kernels: Vec<_> = profile
            .kernels
            .iter()
            .map(|kernel| {
                (kernel.name.clone(), kernel.totals.launches, kernel.totals.complete(kernel.totals.flops))
            })
            .collect();
        kernels.sort();
        (kernels, profile.totals.complete(profile.totals.flops))
    };
    let details = of("ncu/lm_details.csv.zst");
    assert_eq!(details.0.iter().map(|kernel| kernel.1).sum::<u64>(), 141);
    // The tensor cores' 10,708,058,112 are most of it.
    assert!(details.1.is_some_and(|total| total > 10_708_058_112), "{:?}", details.1);
    for name in ["ncu/lm_raw.csv.zst", "ncu/lm_raw_base.csv.zst", "ncu/lm_summary.csv.zst"] {
        assert_eq!(of(name), details, "{name}");
    }
}

#[test]
fn classes_and_precisions_add_up() {
    let profile = load("ncu/lm_raw.csv.zst").unwrap();
    let classes = profile.by_class().unwrap();
    let sum: u64 = classes.iter().map(|(_, totals)| totals.complete(totals.flops).unwrap()).sum();
    assert_eq!(Some(sum), profile.totals.complete(profile.totals.flops));
    let launches: u64 = classes.iter().map(|(_, totals)| totals.launches).sum();
    assert_eq!(launches, profile.totals.launches);
    assert_eq!(classes[0].0, KernelClass::Matmul);
    let bf16 = classes[0].1.by_precision[&Precision::TensorBf16];
    assert_eq!(classes[0].1.complete(bf16), Some(10_708_058_112));
    assert!(classes[0].1.intensity().is_some_and(|intensity| (intensity - 220.93).abs() < 0.01));
}

#[test]
fn what_was_not_measured_for_every_launch_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("partial.csv");
    let text = std::fs::read_to_string(fixture("notebook/forward.csv")).unwrap();
    // The FMA counter of eight sigmoids becomes `n/a`: their total, and every total that they are part of, is unknown.
    let damaged = text.replace("\"917,436\"", "\"n/a\"");
    assert!(damaged != text);
    std::fs::write(&path, damaged).unwrap();
    let profile = Profile::load(&path, &Classifier::new()).unwrap();
    assert_eq!(profile.totals.complete(profile.totals.flops), None);
    assert_eq!(profile.totals.lacking(profile.totals.flops), Some(8));
    let gemm = profile.kernels.iter().find(|kernel| kernel.info.class == KernelClass::Matmul).unwrap();
    assert_eq!(gemm.totals.complete(gemm.totals.flops), Some(2_702_704_640));
}

#[test]
fn overlapping_rows_are_refused() {
    let error = load("ncu/nvtx_names/summary_per_nvtx.csv").unwrap_err();
    assert!(matches!(error, PhaseError::NvtxSummary { .. }), "{error}");
    assert!(error.hint().is_some());
}
