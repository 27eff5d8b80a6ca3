//! FLOPs from reports.

use std::collections::BTreeMap;
use std::fmt::Write;

use flopgap_ncu::{Count, FlopCounter, Flops, Layout, Measurement, Precision, Report, Value};

use crate::support::{parse, read, text};

fn flops(report: &Report) -> Vec<Flops> {
    let mut counter = FlopCounter::new();
    report.iter().map(|launch| counter.count(launch)).collect()
}

type Shape = (String, Option<[u64; 3]>, Option<[u64; 3]>);

/// FLOPs by kernel and shape and precision.
fn by_shape(report: &Report) -> BTreeMap<(Shape, Precision), u64> {
    let mut sums = BTreeMap::new();
    for (launch, flops) in report.iter().zip(flops(report)) {
        let shape = (launch.kernel_name().to_owned(), launch.grid, launch.block);
        for (precision, measurement) in flops.iter() {
            if let Some(count) = measurement.count() {
                *sums.entry((shape.clone(), precision)).or_default() += count.value;
            }
        }
    }
    sums
}

#[test]
fn every_layout_of_a_report_gives_the_same_flops() {
    let long = by_shape(&read("lm_details.csv.zst"));
    assert_eq!(long.len(), 61 * 4 - suspects("lm_details.csv.zst"));
    for file in ["lm_raw.csv.zst", "lm_raw_base.csv.zst", "lm_summary.csv.zst"] {
        let found = by_shape(&read(file));
        assert_eq!(found.len(), long.len(), "{file}");
        for (key, value) in &long {
            assert_eq!(found.get(key), Some(value), "{file} {key:?}");
        }
    }
    let total: u64 = long.values().sum();
    let bf16: u64 =
        long.iter().filter(|((_, p), _)| *p == Precision::TensorBf16).map(|(_, value)| value).sum();
    assert!(bf16 > 0 && bf16 < total);
}

/// Kernels and shapes whose FP16 work is suspect.
fn suspects(file: &str) -> usize {
    let report = read(file);
    let mut shapes = std::collections::BTreeSet::new();
    for (launch, flops) in report.iter().zip(flops(&report)) {
        if matches!(flops.get(Precision::Fp16), Measurement::Suspect(_)) {
            shapes.insert((launch.kernel_name(), launch.grid, launch.block));
        }
    }
    shapes.len()
}

/// The sums over the file's cells, by a straight scan of the text.
fn cell_sum(rows: &[Vec<String>], metric: &str) -> u64 {
    let name = rows[0].iter().position(|column| column == "Metric Name").unwrap();
    let cells = rows.iter().filter(|row| row[name] == metric);
    cells.map(|row| row[name + 2].replace(',', "").parse::<u64>().unwrap()).sum()
}

#[test]
fn totals_are_the_weighted_sums_of_the_cells() {
    for file in ["n4_d512_m64_forward.csv", "lm_details.csv.zst"] {
        let rows = crate::naive::rows(&text(file));
        let op = |op: &str| cell_sum(&rows, &format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"));
        let fp32: u64 =
            flops(&read(file)).iter().map(|f| f.get(Precision::Fp32).count().unwrap().value).sum();
        assert_eq!(fp32, op("fadd") + op("fmul") + 2 * op("ffma"), "{file}");
    }
    let rows = crate::naive::rows(&text("lm_details.csv.zst"));
    let report = read("lm_details.csv.zst");
    let bf16: u64 = flops(&report).iter().map(|f| f.get(Precision::TensorBf16).count().unwrap().value).sum();
    assert_eq!(
        bf16,
        cell_sum(&rows, "sm__ops_path_tensor_src_bf16_dst_fp32.sum"),
        "already operations: not doubled"
    );
}

#[test]
fn a_precision_with_a_missing_counter_names_it() {
    let report = read("lm_details.csv.zst");
    let flops = flops(&report)[0];
    let Measurement::Incomplete(missing) = flops.get(Precision::Fp64) else { panic!("{flops:?}") };
    assert_eq!(
        missing.to_string(),
        "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum, smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"
    );
    assert_eq!(flops.incomplete().count(), 1);
    assert_eq!(flops.get(Precision::TensorFp16), Measurement::NotMeasured, "its counter is n/a");
    assert_eq!(flops.get(Precision::TensorFp8), Measurement::NotMeasured);
}

#[test]
fn traffic_and_time_come_along() {
    let (long, base) = (flops(&read("lm_details.csv.zst")), flops(&read("lm_raw_base.csv.zst")));
    for (long, base) in long.iter().zip(&base) {
        for (scaled, exact) in [
            (long.dram_read_bytes, base.dram_read_bytes),
            (long.dram_write_bytes, base.dram_write_bytes),
            (long.dram_bytes, base.dram_bytes),
            (long.l2_bytes, base.l2_bytes),
            (long.duration_ns, base.duration_ns),
        ] {
            let (scaled, exact) = (scaled.unwrap(), exact.unwrap());
            assert!(!exact.rounded, "base units are exact");
            let tolerance = if scaled.rounded { exact.value / 50 + 10 } else { 0 };
            assert!(scaled.value.abs_diff(exact.value) <= tolerance, "{scaled:?} {exact:?}");
        }
        assert_eq!(base.l1_bytes, None);
        assert!(long.duration_ns.unwrap().rounded, "us with two decimals");
    }
    let label = flops(&read("nvtx_names/metric_label.csv.zst"))[0];
    assert_eq!(label.duration_ns, Some(Count { value: 5820, rounded: true }));
}

#[test]
fn csv_and_report_give_the_same_flops() {
    let (csv, report) = (read("nvtx_names/metric_name.csv.zst"), read("nvtx_names/names.ncu-rep.zst"));
    for (csv, report) in flops(&csv).iter().zip(flops(&report)) {
        assert_eq!(csv.get(Precision::Fp32), report.get(Precision::Fp32));
        assert_eq!(csv.get(Precision::Fp32).count(), Some(Count { value: 2 << 20, rounded: false }));
        let (printed, exact) = (csv.duration_ns.unwrap(), report.duration_ns.unwrap());
        assert!(printed.value.abs_diff(exact.value) <= 5 && printed.rounded && !exact.rounded);
        assert!(!report.dram_bytes.unwrap().rounded);
    }
}

#[test]
fn csv_and_report_agree_metric_by_metric() {
    let (csv, report) = (read("nvtx_names/raw_C.csv.zst"), read("nvtx_names/full.ncu-rep.zst"));
    assert_eq!((csv.layout, report.layout), (Layout::Wide, Layout::Report));
    let mut compared = 0;
    for (csv, report) in csv.iter().zip(report.iter()) {
        assert_eq!((csv.kernel_name(), csv.grid, csv.id), (report.kernel_name(), report.grid, report.id));
        for metric in &csv.metrics {
            let Some(exact) = report.metric_named(csv.strings.get(metric.name)) else { continue };
            let (Some(printed), Some(exact)) = (metric.in_base_units(csv.strings), exact.value.as_f64())
            else {
                continue;
            };
            // Two decimals, or six, of whatever unit was printed.
            let step = printed.value / metric.value.as_f64().filter(|value| *value != 0.0).unwrap_or(1.0);
            assert!(
                (printed.value - exact).abs() <= 0.0051 * step.abs() + exact.abs() * 1e-9,
                "{}: {} {exact}",
                csv.strings.get(metric.name),
                printed.value
            );
            compared += 1;
        }
    }
    assert!(compared > 4000, "{compared}");
}

/// One launch with these metrics on a GPU of this compute capability.
fn one(cc: &str, metrics: &[(&str, &str, &str)]) -> Flops {
    let mut text =
        "\"ID\",\"Kernel Name\",\"CC\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
    for (name, unit, value) in metrics {
        writeln!(text, "\"0\",\"k\",\"{cc}\",\"{name}\",\"{unit}\",\"{value}\"").unwrap();
    }
    flops(&parse(text).unwrap())[0]
}

const FADD: &str = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum";
const FMUL: &str = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum";
const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";

#[test]
fn blackwells_packed_instructions_count_twice() {
    let three = [(FADD, "inst", "1"), (FMUL, "inst", "10"), (FFMA, "inst", "100")];
    let exact = |value| Measurement::Counted(Count { value, rounded: false });
    assert_eq!(one("9.0", &three).get(Precision::Fp32), exact(211));
    let packed =
        ["fadd2", "fmul2", "ffma2"].map(|op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"));
    let mut six = three.to_vec();
    six.extend(packed.iter().map(|name| (name.as_str(), "inst", "1000")));
    assert_eq!(one("10.0", &six).get(Precision::Fp32), exact(211 + 8000));
    // A B200 without them: the sum would be too small.
    let Measurement::Incomplete(missing) = one("10.0", &three).get(Precision::Fp32) else { panic!() };
    assert_eq!(missing.names().collect::<Vec<_>>(), packed);
    assert_eq!(one("12.0", &three).get(Precision::Fp32), exact(211), "an RTX 50 has none");
}

#[test]
fn one_counter_under_two_names_counts_once() {
    let twin = FFMA.replace("smsp__", "sm__");
    let both =
        |other: &str| one("9.0", &[(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", "5"), (&twin, "", other)]);
    assert_eq!(both("5").total(), Some(Count { value: 10, rounded: false }));
    assert!(matches!(both("6").get(Precision::Fp32), Measurement::Conflicting(_)));
    assert_eq!(both("6").total(), None);
}

#[test]
fn half_precision_has_ncus_weights_and_constants_are_suspect() {
    let op = |op: &str| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
    let (hadd, hmul, hfma) = (op("hadd"), op("hmul"), op("hfma"));
    let fp32 = [(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", "7")];
    let with = |a: &'static str, m: &'static str, f: &'static str| {
        let mut metrics = fp32.to_vec();
        metrics.extend([(hadd.as_str(), "", a), (hmul.as_str(), "", m), (hfma.as_str(), "", f)]);
        one("9.0", &metrics)
    };
    let work = with("1", "10", "100");
    assert_eq!(work.get(Precision::Fp16).count().unwrap().value, 2 + 20 + 400);
    assert_eq!(work.total().unwrap().value, 14 + 422);
    let constants = with("0", "0", "100");
    assert_eq!(constants.get(Precision::Fp16), Measurement::Suspect(Count { value: 400, rounded: false }));
    assert_eq!(constants.total().unwrap().value, 14, "suspect work is in no total");
    assert_eq!(with("0", "0", "0").get(Precision::Fp16).count().unwrap().value, 0);
}

#[test]
fn tensor_operations_add_up_over_all_forms() {
    let path = |form: &str| format!("sm__ops_path_tensor_src_{form}.sum");
    let of = |forms: &[(&str, &str)], precision| {
        let names: Vec<_> = forms.iter().map(|(form, value)| (path(form), *value)).collect();
        let metrics: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), "", *value)).collect();
        one("9.0", &metrics).get(precision)
    };
    let exact = |value| Measurement::Counted(Count { value, rounded: false });
    assert_eq!(of(&[("fp16", "8")], Precision::TensorFp16), exact(8));
    assert_eq!(of(&[("fp16_dst_fp16", "8"), ("fp16_dst_fp32", "30")], Precision::TensorFp16), exact(38));
    assert_eq!(of(&[("fp8_sparsity_on", "8"), ("fp8_sparsity_off", "30")], Precision::TensorFp8), exact(38));
    // The total is not added to its parts.
    assert_eq!(
        of(&[("fp16", "38"), ("fp16_dst_fp16", "8"), ("fp16_dst_fp32", "30")], Precision::TensorFp16),
        exact(38)
    );
    let missing = |forms: &[(&str, &str)], precision| match of(forms, precision) {
        Measurement::Incomplete(missing) => missing.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&[("fp16_dst_fp32", "30")], Precision::TensorFp16), path("fp16_dst_fp16"));
    assert_eq!(missing(&[("fp8_sparsity_off", "30")], Precision::TensorFp8), path("fp8_sparsity_on"));
    // A part by instruction says that there is such work, not how much.
    let part = one("9.0", &[("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", "", "5")]);
    assert!(matches!(part.get(Precision::TensorBf16), Measurement::Incomplete(_)));
    // Integer operations are counted, but are no FLOPs.
    let int8 = one("9.0", &[("sm__ops_path_tensor_src_int8.sum", "", "5")]);
    assert_eq!(int8.get(Precision::TensorInt8), exact(5));
    assert_eq!(int8.total(), None);
}

#[test]
fn rounded_and_overflowing_counts_say_so() {
    let three = |ffma: (&'static str, &'static str)| {
        one("9.0", &[(FADD, "inst", "0"), (FMUL, "inst", "0"), (FFMA, ffma.0, ffma.1), ("x.pct", "%", "1.5")])
    };
    assert_eq!(three(("Minst", "1.32")).total(), Some(Count { value: 2_640_000, rounded: true }));
    assert_eq!(three(("inst", "18446744073709551615")).get(Precision::Fp32), Measurement::Overflow);
    assert_eq!(three(("inst", "-5")).get(Precision::Fp32).count(), None);
    assert_eq!(three(("inst", "text")).get(Precision::Fp32).count(), None);
}

#[test]
fn a_summary_is_exact_where_its_launches_are_alike() {
    let report = read("lm_summary.csv.zst");
    let mut rounded = 0;
    for (launch, flops) in report.iter().zip(flops(&report)) {
        let count = flops.get(Precision::Fp32).count().unwrap();
        let ffma = launch.metric_named(FFMA).unwrap();
        if launch.invocations == 1 {
            assert!(!count.rounded);
        }
        if count.rounded {
            rounded += 1;
            assert!(["fadd", "fmul", "ffma"].iter().any(|op| {
                let name = format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
                let (low, high) = launch.metric_named(&name).unwrap().spread.unwrap();
                low < high
            }));
        } else {
            assert!(matches!(ffma.value, Value::U64(_)));
        }
    }
    assert!(rounded < 10, "{rounded}");
}

/// `--set full` stores instructions for each elapsed cycle and no sums; the sums of the same kernels are known from other recordings.
#[test]
fn rates_of_a_full_set_give_the_counts() {
    let report = read("full_raw.csv.zst");
    let mut counter = FlopCounter::new();
    let fp32: Vec<_> = report
        .iter()
        .map(|launch| counter.count(launch).get(Precision::Fp32).count().expect("rates and cycles are there"))
        .collect();
    // 256×256 normal numbers: fadd 131,072, fmul 917,504, ffma 2,031,616, as counted by name in n2_d256_m16.
    assert_eq!(fp32[0], Count { value: 131_072 + 917_504 + 2 * 2_031_616, rounded: false });
    assert_eq!(fp32[0], fp32[1]);
    // The product executes ffma only, a tile of 64 columns for 16.
    assert_eq!(fp32[3].value % 2, 0);
    assert!(fp32.iter().all(|count| !count.rounded), "{fp32:?}");
}
