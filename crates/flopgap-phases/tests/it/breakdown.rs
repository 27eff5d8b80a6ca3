//! Breakdowns of recorded passes.

use flopgap_phases::Cause;

use crate::{analyze, fixture};

/// The counts of the kernels are NVIDIA's, straight from the notebook's reports.
#[test]
fn the_notebook_adds_up_by_cause() {
    let stages =
        ["setup", "forward", "forward_backward"].map(|stage| fixture(format!("notebook/{stage}.csv")));
    let analysis = analyze((10, 1024, 128), stages).unwrap();
    for part in [&analysis.forward, &analysis.backward] {
        let breakdown = part.breakdown().unwrap();
        assert_eq!(breakdown.steps.iter().map(|step| step.flops).sum::<i128>(), i128::from(breakdown.total));
        assert_eq!(breakdown.total, part.decomposition.measured.total().unwrap());
        assert!(breakdown.steps.is_sorted_by_key(|step| step.cause));
        let padding = breakdown.steps.iter().filter(|step| step.cause == Cause::Padding);
        let [measured, theory] =
            [part.decomposition.measured, part.decomposition.theory].map(|sum| i128::from(sum.gemm));
        assert_eq!(padding.map(|step| step.flops).sum::<i128>(), measured - theory);
    }
}
