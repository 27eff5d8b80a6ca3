//! Public reports of other GPUs and older versions, found through `FLOPGAP_CORPUS` (a directory
//! with an `ncu` directory in it).

use std::path::PathBuf;

use flopgap_ncu::{FlopCounter, Measurement, OperationType, Report, Value};

pub(crate) fn corpus(name: &str) -> Option<Report> {
    let Some(directory) = std::env::var_os("FLOPGAP_CORPUS") else {
        return flopgap_testing::none("corpus", format!("{name}: FLOPGAP_CORPUS is not set"));
    };
    Some(flopgap_ncu::read(PathBuf::from(directory).join("ncu").join(name)).unwrap())
}

#[test]
fn an_a100_gemm_under_print_fp() {
    let Some(report) = corpus("real_a100_details_printfp_sgemm.csv") else { return };
    let gemm = report.iter().nth(2).unwrap();
    let ffma = gemm.metric_named("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum").unwrap();
    assert_eq!(ffma.value, Value::U64(34_359_738_368_000), "printed as 34,359,738,368,000.00");
    let flops = FlopCounter::new().count(gemm);
    assert_eq!(flops.get(OperationType::Fp32).count().unwrap().value, 2 * 40_960 * 40_960 * 20_480);
    let Measurement::Artifact(hfma) = flops.get(OperationType::Fp16) else { panic!("{flops:?}") };
    assert_eq!(hfma.value, 4 * 2_149_161_369_600);
    assert_eq!(flops.total(), flops.get(OperationType::Fp32).count());
}

#[test]
fn windows_files_with_a_mark_and_crlf() {
    let Some(report) = corpus("real_rtx5070_win_bom_saxpy.csv") else { return };
    let launch = report.iter().next().unwrap();
    assert_eq!(
        (launch.kernel_name(), launch.metrics.len()),
        ("unnamed>::saxpy_kernel(float, const float *, float *, int)", 12)
    );
    assert_eq!(FlopCounter::new().count(launch).dram_bytes.unwrap().value, 134_221_568 + 43_631_104);
    assert_eq!(report.lost_at, None);
}

#[test]
fn ragged_rows_of_a_t4_and_a_b200() {
    let Some(report) = corpus("real_t4_details_rules_ragged_copy_blocked.csv") else { return };
    assert_eq!((report.launches[0].metrics.len(), report.rule_rows), (72, 11));
    let Some(report) = corpus("real_b200_details_rules_nosep_cublaslt.log") else { return };
    assert_eq!((report.launches[0].metrics.len(), report.rule_rows), (50, 8));
    assert!(report.warnings.is_empty());
}

#[test]
fn a_truncated_file_of_two_processes() {
    let Some(report) = corpus("synthetic_truncated_multiproc.csv") else { return };
    assert_eq!(report.launches.len(), 3);
    assert_eq!(report.launches[2].metrics.len(), 0, "(!) nan");
    assert_eq!(report.lost_at, Some(9));
    assert_eq!(report.warnings.len(), 2);
}

#[test]
fn a_public_binary_report() {
    let Some(report) = corpus("real_mojo.ncu-rep") else { return };
    assert!(!report.launches.is_empty());
}
