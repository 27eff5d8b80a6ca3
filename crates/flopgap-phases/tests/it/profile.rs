//! Totals by kernel and class.

use flopgap_files::Hint as _;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_ncu::{OperationType, Reader, Unknown};
use flopgap_phases::{PhaseError, Place, Profile};

use crate::{fixture, unpacked_text};

fn load(name: &str) -> Result<Profile, PhaseError> {
    Profile::open(fixture(name))
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
    let bf16 = classes[0].1.by_precision[&OperationType::TensorBf16];
    assert_eq!(classes[0].1.complete(bf16), Some(10_708_058_112));
    assert!(classes[0].1.intensity().is_some_and(|intensity| (intensity - 220.93).abs() < 0.01));
}

#[test]
fn what_was_not_measured_for_every_launch_is_absent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("partial.csv");
    let text = std::fs::read_to_string(fixture("notebook/forward.csv")).unwrap();
    // The FMA counter of eight sigmoids becomes `n/a`: their total, and every total that they are
    // part of, is unknown.
    let damaged = text.replace("\"917,436\"", "\"n/a\"");
    assert!(damaged != text);
    std::fs::write(&path, damaged).unwrap();
    let profile = Profile::open(&path).unwrap();
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

/// A report of the fixtures as it would be if some of its counters had not been recorded: their
/// names mean nothing.
fn without(name: &str, counters: &[&str]) -> Profile {
    let mut text = unpacked_text(name);
    for counter in counters {
        assert!(text.contains(counter), "{counter}");
        text = text.replace(counter, "not__recorded");
    }
    of_text(text, name)
}

/// The profile of a report in memory.
fn of_text(text: String, name: &str) -> Profile {
    let reader = Reader::from_reader(std::io::Cursor::new(text.into_bytes()), name).unwrap();
    Profile::read_within(reader, std::path::Path::new(name), &Classifier::new(), None, |_| Ok(true)).unwrap()
}

/// One BF16 training step with the three counters of FP32 instructions: its products run on the
/// tensor cores.
#[test]
fn work_on_tensor_cores_without_their_counters_is_not_zero() {
    for name in ["ncu/lm_raw_base.csv.zst", "ncu/lm_raw.csv.zst", "ncu/lm_details.csv.zst"] {
        let profile = without(name, &["sm__ops_path_tensor", "sm__inst_executed_pipe_tensor", "_op_hfma_"]);
        let classes = profile.by_class().unwrap();
        let (first, matmul) = &classes[0];
        assert_eq!((*first, matmul.launches), (KernelClass::Matmul, 27), "what is not known comes first");
        assert_eq!(matmul.complete(matmul.flops), None, "{name}");
        for (class, totals) in &classes[1..] {
            assert!(totals.complete(totals.flops).is_some(), "{class}");
        }
        assert_eq!(profile.totals.complete(profile.totals.flops), None);
        assert_eq!(profile.totals.lacking(profile.totals.flops), Some(27));
        let [gap] = &profile.missing_counters[..] else { panic!("{:?}", profile.missing_counters) };
        assert_eq!(gap.reason, Unknown::TensorCores(Some(OperationType::TensorBf16)));
        assert_eq!(gap.counters, ["sm__ops_path_tensor_src_bf16_dst_fp32.sum"]);
        assert_eq!((gap.missing.launches, gap.missing.kernels.len()), (27, 15));
        assert!(matches!(gap.missing.first, Place::Line(_)));
        assert!(gap.missing.describe().contains(" and 13 more kernels, the first in line "));
    }
}

/// With the tensor pipe's instructions, those products are known whose instruction's size is in the
/// kernel's name.
#[test]
fn products_are_counted_by_their_instructions_where_the_name_has_their_size() {
    let profile = without("ncu/h200_gemms_raw.csv.zst", &["sm__ops_path_tensor"]);
    let known = |part: &str| {
        let kernel = profile.kernels.iter().find(|kernel| kernel.name.contains(part)).unwrap();
        kernel.totals.complete(kernel.totals.flops)
    };
    assert_eq!(known("cutlass_80_tensorop_s1688gemm"), Some(2 * 512 * 512 * 512 + 262_144));
    assert_eq!(known("sm90_xmma_gemm_f64f64"), Some(2 * 512 * 512 * 512 + 262_144));
    assert_eq!(known("_ffma_aligna4_alignc4_execute_kernel"), Some(2 * 512 * 512 * 512));
    let unknown: Vec<&str> = profile
        .kernels
        .iter()
        .filter(|kernel| kernel.totals.complete(kernel.totals.flops).is_none())
        .map(|kernel| kernel.info.short.split('_').next().unwrap())
        .collect();
    assert_eq!(unknown, ["fmha", "cudnn", "nvjet", "nvjet", "nvjet"]);
}

/// Constants and conversions are no FLOPs, whatever instructions they take.
#[test]
fn half_precision_instructions_of_other_arithmetic_are_not_counted() {
    let profile = load("ncu/h200_pytorch_raw.csv.zst").unwrap();
    assert_eq!((profile.missing_counters.len(), profile.undecided.as_ref()), (0, None));
    let single: u64 = profile
        .kernels
        .iter()
        .map(|kernel| kernel.totals.complete(kernel.totals.by_precision[&OperationType::Fp32]).unwrap())
        .sum();
    assert_eq!(profile.totals.complete(profile.totals.flops), Some(single));
    assert_eq!(profile.totals.half_artifacts, 88_161_152);
    let nearest = profile.kernels.iter().find(|kernel| kernel.name.contains("upsample_nearest2d")).unwrap();
    assert_eq!(nearest.totals.complete(nearest.totals.flops), Some(524_288));
    for (class, totals) in profile.by_class().unwrap() {
        if [KernelClass::Copy, KernelClass::Index].contains(&class) {
            assert_eq!(totals.complete(totals.flops), Some(0), "{class}");
        }
    }
}

/// What some launches have and others lack names those that lack it, wherever they stand.
#[test]
fn launches_without_what_others_have_are_named() {
    let text = unpacked_text("ncu/lm_details.csv.zst");
    let time = "\"gpu__time_duration.sum\",\"us\",\"";
    let rows: Vec<&str> = text.lines().collect();
    let of = |lost: &dyn Fn(usize) -> bool| {
        let mut seen = 0;
        let mut partial = String::new();
        for row in &rows {
            let is_time = row.contains(time);
            if is_time && lost(seen) {
                let (front, _) = row.split_once(time).unwrap();
                partial.extend([front, time, "n/a\"\n"]);
            } else {
                partial.extend([row, "\n"]);
            }
            seen += usize::from(is_time);
        }
        of_text(partial, "partial.csv").missing
    };
    let [None, None, Some(first)] = of(&|index| index < 3) else { panic!() };
    assert_eq!((first.launches, first.kernels.values().sum::<u64>()), (3, 3));
    let [_, _, Some(last)] = of(&|index| index >= 140) else { panic!() };
    assert_eq!((last.launches, last.kernels.len()), (1, 1));
    assert!(matches!((first.first, last.first), (Place::Line(2), Place::Line(line)) if line > 1000));
    assert_eq!(of(&|_| false), [None, None, None]);
    assert_eq!(of(&|_| true), [None, None, None], "none has it: that is no gap");
}

/// A range or a graph that ncu profiled as one may hold products in any precision.
#[test]
fn ranges_and_graphs_may_use_the_tensor_cores() {
    let text = unpacked_text("ncu/lm_raw_base.csv.zst");
    let layer = "void at::<unnamed>::vectorized_layer_norm_kernel<float, float, 0>";
    let of = |text: String| of_text(text, "range.csv");
    let start = text.find(layer).unwrap();
    let kernel = &text[start..start + text[start..].find("\",\"").unwrap()];
    let ranges =
        text.replace(kernel, "range").replace("\"nvjet_sm90_tst_64x24_64x16_2x4_h_bz_TNT\"", "\"graph\"");
    let partly = of(ranges.replace("sm__ops_path_tensor", "not__recorded").replace("_pipe_tensor", "_no"));
    let reasons: Vec<Unknown> = partly.missing_counters.iter().map(|gap| gap.reason).collect();
    assert!(reasons.contains(&Unknown::PerhapsTensorCores), "{reasons:?}");
    for name in ["range", "graph"] {
        let one = |profile: &Profile| {
            let kernel = profile.kernels.iter().find(|kernel| kernel.name == name).unwrap();
            kernel.totals.complete(kernel.totals.flops)
        };
        assert_eq!(one(&partly), None, "{name}");
        assert_eq!(one(&of(ranges.clone())).is_some(), name == "graph", "its products are counted: {name}");
    }
}

/// The ceilings that the counters of `--set full` give, and those of the GPU's properties: the
/// shares that Python's `csv` computes from the same columns.
#[test]
fn rates_and_shares_of_the_roofline_are_those_of_the_columns() {
    let near = |found: Option<f64>, expected: f64| {
        let found = found.unwrap();
        assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
    };
    let full = load("ncu/full_raw.csv.zst").unwrap().totals;
    near(full.roofline_share(), 0.011_070_26);
    near(full.mean_occupancy(), 0.093_271_47);
    near(full.bytes_per_second(), 31.622_285e9);
    let step = load("ncu/lm_raw_base.csv.zst").unwrap().totals;
    near(step.roofline_share(), 0.134_324_47);
    near(step.flops_per_second(), 14.610_111_6e12);
    near(step.bytes_per_second(), 635.403_984e9);
    assert_eq!(step.mean_occupancy(), None);
    // FLOPs alone, without a time.
    let counted = load("ncu/n4_d512_m64_forward.csv").unwrap().totals;
    assert_eq!((counted.flops_per_second(), counted.roofline_share()), (None, None));
}

/// The binary report and its raw page give the same shares.
#[test]
fn ceilings_are_the_same_in_the_report_and_its_page() {
    let of = |name: &str| load(name).unwrap().totals;
    let (report, page) = (of("ncu/nvtx_names/full.ncu-rep.zst"), of("ncu/nvtx_names/raw_C.csv.zst"));
    let near = |a: Option<f64>, b: Option<f64>| {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!((a / b - 1.0).abs() < 1e-3, "{a} {b}");
    };
    near(report.mean_occupancy(), page.mean_occupancy());
    near(report.roofline_share(), page.roofline_share());
}

/// Two processes on two GPUs: a kernel has a profile on each.
#[test]
fn kernels_of_two_gpus_are_kept_apart() {
    let csv = |device: &str, id: u64| {
        format!(
            "\"{id}\",\"1\",\"h\",\"f\",\"{device}\",\"9.0\",\"gpu__time_duration.sum\",\"ns\",\"{}\"\n",
            10 + id
        )
    };
    let header = "\"ID\",\"Process ID\",\"Host Name\",\"Kernel Name\",\"Device\",\"CC\",\"Metric Name\",\"Metric Unit\",\
                  \"Metric Value\"\n";
    let text = format!("{header}{}{}{}", csv("0", 0), csv("1", 1), csv("0", 2));
    let reader = Reader::from_reader(std::io::Cursor::new(text), "gpus.csv").unwrap();
    let profile =
        Profile::read_within(reader, std::path::Path::new("gpus.csv"), &Classifier::new(), None, |_| {
            Ok(true)
        })
        .unwrap();
    let of = |kernel: &flopgap_phases::KernelProfile| {
        (kernel.gpu.device, kernel.totals.complete(kernel.totals.duration_ns))
    };
    let mut kernels: Vec<_> = profile.kernels.iter().map(of).collect();
    kernels.sort();
    assert_eq!(kernels, [(Some(0), Some(22)), (Some(1), Some(11))]);
}
