//! FLOPs from reports.

use std::collections::BTreeMap;
use std::fmt::Write;

use flopgap_ncu::{
    Arithmetic, Count, FlopCounter, Flops, Layout, Measurement, OperationType, Report, Unknown, Value,
};

use crate::support::{parse, read, text};

pub(crate) fn flops(report: &Report) -> Vec<Flops> {
    let mut counter = FlopCounter::new();
    report.iter().map(|launch| counter.count(launch)).collect()
}

type Shape = (String, Option<[u64; 3]>, Option<[u64; 3]>);

/// FLOPs by kernel and shape and precision.
fn by_shape(report: &Report) -> BTreeMap<(Shape, OperationType), u64> {
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
        long.iter().filter(|((_, p), _)| *p == OperationType::TensorBf16).map(|(_, value)| value).sum();
    assert!(bf16 > 0 && bf16 < total);
}

/// Kernels and shapes whose FP16 work is suspect.
fn suspects(file: &str) -> usize {
    let report = read(file);
    let mut shapes = std::collections::BTreeSet::new();
    for (launch, flops) in report.iter().zip(flops(&report)) {
        if matches!(flops.get(OperationType::Fp16), Measurement::Artifact(_) | Measurement::Undecided(_)) {
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
            flops(&read(file)).iter().map(|f| f.get(OperationType::Fp32).count().unwrap().value).sum();
        assert_eq!(fp32, op("fadd") + op("fmul") + 2 * op("ffma"), "{file}");
    }
    let rows = crate::naive::rows(&text("lm_details.csv.zst"));
    let report = read("lm_details.csv.zst");
    let bf16: u64 =
        flops(&report).iter().map(|f| f.get(OperationType::TensorBf16).count().unwrap().value).sum();
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
    let Measurement::Incomplete(missing) = flops.get(OperationType::Fp64) else { panic!("{flops:?}") };
    assert_eq!(
        missing.to_string(),
        "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum, smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"
    );
    assert_eq!(flops.incomplete().count(), 1);
    assert_eq!(flops.get(OperationType::TensorFp16), Measurement::NotMeasured, "its counter is n/a");
    assert_eq!(flops.get(OperationType::TensorFp8), Measurement::NotMeasured);
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
        assert_eq!(csv.get(OperationType::Fp32), report.get(OperationType::Fp32));
        assert_eq!(csv.get(OperationType::Fp32).count(), Some(Count { value: 2 << 20, rounded: false }));
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
    assert_eq!(one("9.0", &three).get(OperationType::Fp32), exact(211));
    let packed =
        ["fadd2", "fmul2", "ffma2"].map(|op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"));
    let mut six = three.to_vec();
    six.extend(packed.iter().map(|name| (name.as_str(), "inst", "1000")));
    assert_eq!(one("10.0", &six).get(OperationType::Fp32), exact(211 + 8000));
    // A B200 without them: the sum would be too small.
    let Measurement::Incomplete(missing) = one("10.0", &three).get(OperationType::Fp32) else { panic!() };
    assert_eq!(missing.names().collect::<Vec<_>>(), packed);
    assert_eq!(one("12.0", &three).get(OperationType::Fp32), exact(211), "an RTX 50 has none");
}

#[test]
fn one_counter_under_two_names_counts_once() {
    let twin = FFMA.replace("smsp__", "sm__");
    let both =
        |other: &str| one("9.0", &[(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", "5"), (&twin, "", other)]);
    assert_eq!(both("5").total(), Some(Count { value: 10, rounded: false }));
    assert!(matches!(both("6").get(OperationType::Fp32), Measurement::Conflicting(_)));
    assert_eq!(both("6").total(), None);
}

#[test]
fn half_precision_has_ncus_weights_and_constants_are_suspect() {
    let op = |op: &str| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
    let (hadd, hmul, hfma) = (op("hadd"), op("hmul"), op("hfma"));
    let of = |ffma: &'static str, a: &'static str, m: &'static str, f: &'static str| {
        let mut metrics = [(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", ffma)].to_vec();
        metrics.extend([(hadd.as_str(), "", a), (hmul.as_str(), "", m), (hfma.as_str(), "", f)]);
        one("9.0", &metrics)
    };
    let work = of("7", "1", "10", "100");
    assert_eq!(work.get(OperationType::Fp16).count().unwrap().value, 2 + 20 + 400);
    assert_eq!(work.total().unwrap().value, 14 + 422);
    let constants = of("400", "0", "0", "100");
    assert_eq!(
        constants.get(OperationType::Fp16),
        Measurement::Artifact(Count { value: 400, rounded: false })
    );
    assert_eq!(constants.total().unwrap().value, 800, "suspect work is in no total");
    assert_eq!(of("7", "0", "0", "0").get(OperationType::Fp16).count().unwrap().value, 0);
    // So many constants nobody loads, and a few other instructions do not explain them.
    for half in [of("7", "0", "0", "100"), of("1000", "0", "0", "1000000000")] {
        assert!(matches!(half.get(OperationType::Fp16), Measurement::Undecided(_)), "{half:?}");
        assert_eq!(half.work(), Err(Unknown::HalfPrecision));
    }
    assert_eq!(of("1000", "5", "5", "1000000000").work(), Err(Unknown::HalfPrecision));
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
    assert_eq!(of(&[("fp16", "8")], OperationType::TensorFp16), exact(8));
    assert_eq!(of(&[("fp16_dst_fp16", "8"), ("fp16_dst_fp32", "30")], OperationType::TensorFp16), exact(38));
    assert_eq!(
        of(&[("fp8_sparsity_on", "8"), ("fp8_sparsity_off", "30")], OperationType::TensorFp8),
        exact(38)
    );
    // The total is not added to its parts.
    assert_eq!(
        of(&[("fp16", "38"), ("fp16_dst_fp16", "8"), ("fp16_dst_fp32", "30")], OperationType::TensorFp16),
        exact(38)
    );
    let missing = |forms: &[(&str, &str)], precision| match of(forms, precision) {
        Measurement::Incomplete(missing) => missing.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&[("fp16_dst_fp32", "30")], OperationType::TensorFp16), path("fp16_dst_fp16"));
    assert_eq!(missing(&[("fp8_sparsity_off", "30")], OperationType::TensorFp8), path("fp8_sparsity_on"));
    // A part by instruction says that there is such work, not how much.
    let part = one("9.0", &[("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", "", "5")]);
    assert!(matches!(part.get(OperationType::TensorBf16), Measurement::Incomplete(_)));
    // Integer operations are counted, but are no FLOPs.
    let int8 = one("9.0", &[("sm__ops_path_tensor_src_int8.sum", "", "5")]);
    assert_eq!(int8.get(OperationType::TensorInt8), exact(5));
    assert_eq!(int8.total(), None);
}

#[test]
fn rounded_and_overflowing_counts_say_so() {
    let three = |ffma: (&'static str, &'static str)| {
        one("9.0", &[(FADD, "inst", "0"), (FMUL, "inst", "0"), (FFMA, ffma.0, ffma.1), ("x.pct", "%", "1.5")])
    };
    assert_eq!(three(("Minst", "1.32")).total(), Some(Count { value: 2_640_000, rounded: true }));
    assert_eq!(three(("inst", "18446744073709551615")).get(OperationType::Fp32), Measurement::Overflow);
    assert_eq!(three(("inst", "-5")).get(OperationType::Fp32).count(), None);
    assert_eq!(three(("inst", "text")).get(OperationType::Fp32).count(), None);
}

#[test]
fn a_summary_is_exact_where_its_launches_are_alike() {
    let report = read("lm_summary.csv.zst");
    let mut rounded = 0;
    for (launch, flops) in report.iter().zip(flops(&report)) {
        let count = flops.get(OperationType::Fp32).count().unwrap();
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

/// `--set full` stores instructions for each elapsed cycle and no sums; the sums of the same
/// kernels are known from other recordings.
#[test]
fn rates_of_a_full_set_give_the_counts() {
    let report = read("full_raw.csv.zst");
    let mut counter = FlopCounter::new();
    let fp32: Vec<_> = report
        .iter()
        .map(|launch| {
            counter.count(launch).get(OperationType::Fp32).count().expect("rates and cycles are there")
        })
        .collect();
    // 256×256 normal numbers: fadd 131,072, fmul 917,504, ffma 2,031,616, as counted by name in
    // n2_d256_m16.
    assert_eq!(fp32[0], Count { value: 131_072 + 917_504 + 2 * 2_031_616, rounded: false });
    assert_eq!(fp32[0], fp32[1]);
    // The product executes ffma only, a tile of 64 columns for 16.
    assert_eq!(fp32[3].value % 2, 0);
    assert!(fp32.iter().all(|count| !count.rounded), "{fp32:?}");
}

/// The FLOPs of a report's kernels whose name holds `part`, computed as `arithmetic` says.
fn of_kernel(report: &Report, part: &str, arithmetic: &Arithmetic) -> Flops {
    let mut counter = FlopCounter::new();
    let launch = report.iter().find(|launch| launch.kernel_name().contains(part)).expect(part);
    counter.count_as(launch, arithmetic)
}

/// A report of the fixture with only those of its metrics whose names hold one of these.
fn with_metrics(file: &str, kept: &[&str]) -> Report {
    let mut report = read(file);
    let strings = report.strings.clone();
    for launch in &mut report.launches {
        launch.metrics.retain(|metric| kept.iter().any(|part| strings.get(metric.name).contains(part)));
    }
    report
}

const ON_TENSOR_CORES: Arithmetic = Arithmetic {
    tensor_cores: Some(true),
    is_product: true,
    is_composite: false,
    precision: None,
    tensor_precision: None,
    instruction: None,
    half_arithmetic: None,
};

#[test]
fn work_on_tensor_cores_that_was_not_counted_is_unknown() {
    let three = with_metrics("h200_gemms_raw.csv.zst", &["_op_fadd_", "_op_fmul_", "_op_ffma_"]);
    let bf16 = Arithmetic { tensor_precision: Some(OperationType::TensorBf16), ..ON_TENSOR_CORES };
    let flops = of_kernel(&three, "nvjet_sm90_tst", &bf16);
    assert_eq!(flops.work(), Err(Unknown::TensorCores(Some(OperationType::TensorBf16))));
    assert_eq!(flops.total(), None);
    let Err(reason) = flops.work() else { panic!() };
    assert_eq!(reason.counters_to_record(Some((9, 0))), ["sm__ops_path_tensor_src_bf16_dst_fp32.sum"]);
    assert_eq!(
        Unknown::TensorCores(Some(OperationType::TensorFp16)).counters_to_record(Some((7, 5))),
        ["sm__ops_path_tensor_src_fp16_dst_fp16.sum", "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum"]
    );
    // A product whose name says nothing: however many fused multiply-adds there are, products on
    // the tensor cores may be beside them.
    let product = Arithmetic { is_product: true, ..Arithmetic::default() };
    assert_eq!(of_kernel(&three, "nvjet_sm90_tst", &product).work(), Err(Unknown::PerhapsTensorCores));
    assert_eq!(of_kernel(&three, "cudnn_generated", &product).work(), Err(Unknown::PerhapsTensorCores));
    let exact = |value| Ok(Count { value, rounded: false });
    let on_shader_cores = "sm80_xmma_gemm_f32f32";
    assert_eq!(of_kernel(&three, on_shader_cores, &product).work(), Err(Unknown::PerhapsTensorCores));
    let simt = Arithmetic { tensor_cores: Some(false), ..product };
    assert_eq!(of_kernel(&three, on_shader_cores, &simt).work(), exact(2 * 512 * 512 * 512));
    // Pascal has no tensor cores.
    let mut older = three;
    older.launches.iter_mut().for_each(|launch| launch.compute_capability = Some((6, 1)));
    assert_eq!(of_kernel(&older, on_shader_cores, &product).work(), exact(2 * 512 * 512 * 512));
    // Everything was counted.
    let all = read("h200_gemms_raw.csv.zst");
    for (kernel, work) in
        [("nvjet_sm90_tst", 301_989_888), ("cudnn_generated", 100_663_296 + 815_104 + 2 * 12_288 + 737_280)]
    {
        assert_eq!(of_kernel(&all, kernel, &product).work(), exact(work), "{kernel}");
        assert_eq!(of_kernel(&all, kernel, &ON_TENSOR_CORES).work(), exact(work), "{kernel}");
    }
}

#[test]
fn the_tensor_pipe_proves_what_names_do_not_say() {
    let sass = ["_op_fadd_", "_op_fmul_", "_op_ffma_", "_op_hfma_"];
    let pipe = |more: &[&str]| with_metrics("h200_gemms_raw.csv.zst", &[&sass[..], more].concat());
    let nothing = Arithmetic::default();
    // More instructions than HFMA accounts for, of which A100 and H100 execute some on this pipe.
    let all = pipe(&["pipe_tensor.sum"]);
    assert_eq!(of_kernel(&all, "nvjet_sm90_hsh", &nothing).work(), Err(Unknown::TensorCores(None)));
    // 16,384 instructions, all of them HFMA2.MMA.
    let integers = Arithmetic { half_arithmetic: Some(false), ..nothing };
    assert_eq!(of_kernel(&all, "random_from_to", &integers).total().unwrap().value, 0);
    // The counters outweigh the name.
    let named = Arithmetic { half_arithmetic: Some(false), ..ON_TENSOR_CORES };
    assert!(of_kernel(&all, "sm80_xmma_gemm_f32f32", &named).work().is_err());
    let distinguished = pipe(&["pipe_tensor.sum", "type_hfma2.sum"]);
    assert!(of_kernel(&distinguished, "sm80_xmma_gemm_f32f32", &named).work().is_ok());
    // One kind of instruction is enough.
    let gmma = pipe(&["op_gmma.sum"]);
    assert_eq!(of_kernel(&gmma, "nvjet_sm90_tst", &nothing).work(), Err(Unknown::TensorCores(None)));
}

/// 2·M·N·K of the products that the kernels computed, from instructions alone.
#[test]
fn instructions_of_known_size_are_operations() {
    let pipe = ["_op_fadd_", "_op_fmul_", "_op_ffma_", "pipe_tensor.sum", "type_hfma2.sum"];
    let report = with_metrics("h200_gemms_raw.csv.zst", &pipe);
    for (kernel, instruction, precision) in [
        ("cutlass_80_tensorop_s1688gemm", [16, 8, 8], OperationType::TensorTf32),
        ("sm90_xmma_gemm_f64f64", [16, 8, 16], OperationType::TensorFp64),
        ("cutlass_80_tensorop_i16832gemm", [16, 8, 32], OperationType::TensorInt8),
    ] {
        let arithmetic = Arithmetic {
            instruction: Some(instruction),
            tensor_precision: Some(precision),
            ..ON_TENSOR_CORES
        };
        let counted = of_kernel(&report, kernel, &arithmetic).get(precision).count();
        assert_eq!(counted, Some(Count { value: 2 * 512 * 512 * 512, rounded: false }), "{kernel}");
        let all = read("h200_gemms_raw.csv.zst");
        assert_eq!(of_kernel(&all, kernel, &ON_TENSOR_CORES).get(precision).count(), counted, "{kernel}");
    }
    // V100 has one instruction, of 512 operations.
    let volta = |metric: &str| {
        one("7.0", &[(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", "7"), (metric, "inst", "1000")])
    };
    for metric in [
        "sm__inst_executed_pipe_tensor.sum",
        "smsp__inst_executed_pipe_tensor.sum",
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
    ] {
        assert_eq!(volta(metric).total(), Some(Count { value: 512_014, rounded: false }), "{metric}");
    }
    // ncu of 2020 did not print the compute capability; the kernel's name (`volta_fp16_s884gemm`)
    // says as much.
    let mut text = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
    for (name, value) in [(FADD, 0), (FMUL, 0), (FFMA, 7), ("sm__inst_executed_pipe_tensor.sum", 1000)] {
        writeln!(text, "\"0\",\"volta\",\"{name}\",\"inst\",\"{value}\"").unwrap();
    }
    let fp16 = Arithmetic {
        instruction: Some([8, 8, 4]),
        tensor_precision: Some(OperationType::TensorFp16),
        ..ON_TENSOR_CORES
    };
    let old = of_kernel(&parse(text).unwrap(), "volta", &fp16);
    assert_eq!(old.total(), Some(Count { value: 512_014, rounded: false }));
    // Elsewhere their size is unknown, so the operations are.
    for (cc, metric) in [
        ("7.5", "sm__inst_executed_pipe_tensor.sum"),
        ("8.9", "sm__inst_executed_pipe_tensor_v2.sum"),
        ("10.0", "sm__inst_executed_pipe_tensor_subpipe_hmma.sum"),
    ] {
        let packed = ["fadd2", "fmul2", "ffma2"]
            .map(|op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"));
        let mut metrics = vec![(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", "7"), (metric, "inst", "1000")];
        if cc == "10.0" {
            metrics.extend(packed.iter().map(|name| (name.as_str(), "", "0")));
        }
        assert_eq!(one(cc, &metrics).work(), Err(Unknown::TensorCores(None)), "{cc}");
        metrics[3].2 = "0";
        assert_eq!(one(cc, &metrics).total(), Some(Count { value: 14, rounded: false }), "{cc}");
    }
}

#[test]
fn the_counters_of_every_gpu_are_whole() {
    for cc in [(7, 0), (7, 2), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0)] {
        let names = Unknown::TensorCores(None).counters_to_record(Some(cc));
        assert!(
            names.len() >= 2 && names.iter().all(|name| name.starts_with("sm__ops")),
            "{cc:?}: {names:?}"
        );
        let metrics: Vec<_> = names.iter().map(|name| (name.as_str(), "", "3")).collect();
        let flops = one(&format!("{}.{}", cc.0, cc.1), &metrics);
        let sum = Count { value: 3 * names.len() as u64, rounded: false };
        assert_eq!(flops.total(), Some(sum), "{cc:?}: {:?}", flops.iter().collect::<Vec<_>>());
        assert_eq!(flops.incomplete().count(), 0, "{cc:?}");
        // At either level of the hierarchy.
        let twins: Vec<String> = names.iter().map(|name| name.replace("sm__", "smsp__")).collect();
        let twins: Vec<_> = twins.iter().map(|name| (name.as_str(), "", "3")).collect();
        assert_eq!(one(&format!("{}.{}", cc.0, cc.1), &twins).total(), Some(sum), "{cc:?}");
    }
    let turing = one("7.5", &[("sm__ops_path_tensor_src_fp16_dst_fp16.sum", "", "3")]);
    let Measurement::Incomplete(missing) = turing.get(OperationType::TensorFp16) else {
        panic!("{turing:?}")
    };
    assert_eq!(missing.to_string(), "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum");
}

/// HFMA and HADD of PyTorch's kernels are constants and conversions, whatever else they execute.
#[test]
fn half_precision_is_judged_by_what_the_kernel_computes() {
    let report = read("h200_pytorch_raw.csv.zst");
    let in_float = Arithmetic { half_arithmetic: Some(false), ..Arithmetic::default() };
    for (kernel, work) in [
        ("upsample_nearest2d_out_frame<float", 524_288),
        ("splitKreduce_kernel", 528_384),
        ("direct_copy_kernel_cuda", 0),
        ("CUDAFunctorOnSelf_add<c10::Half>", 524_288),
    ] {
        assert_eq!(
            of_kernel(&report, kernel, &in_float).total(),
            Some(Count { value: work, rounded: false }),
            "{kernel}"
        );
    }
    // Without knowledge of the kernel: with FP32 work it is constants; alone it may be anything.
    let nothing = Arithmetic::default();
    assert_eq!(of_kernel(&report, "splitKreduce_kernel", &nothing).total().unwrap().value, 528_384);
    let copy = of_kernel(&report, "direct_copy_kernel_cuda", &nothing);
    assert_eq!(copy.work(), Err(Unknown::HalfPrecision));
    assert_eq!(
        copy.get(OperationType::Fp16),
        Measurement::Undecided(Count { value: 4 * 524_288, rounded: false })
    );
    // Conversions of a kernel on 16-bit data cost as much as its arithmetic.
    let on_half = Arithmetic { precision: Some(OperationType::Fp16), ..Arithmetic::default() };
    let add = of_kernel(&report, "CUDAFunctorOnSelf_add<c10::Half>", &on_half);
    assert!(matches!(add.get(OperationType::Fp16), Measurement::Undecided(_)), "{add:?}");
}

#[test]
fn a_precision_that_the_kernel_computes_in_must_be_counted() {
    let three = [(FADD, "", "0"), (FMUL, "", "0"), (FFMA, "", "0")];
    let with = |precision| {
        let mut text =
            "\"ID\",\"Kernel Name\",\"CC\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
        for (name, unit, value) in three {
            writeln!(text, "\"0\",\"k\",\"9.0\",\"{name}\",\"{unit}\",\"{value}\"").unwrap();
        }
        let report = parse(text).unwrap();
        let arithmetic = Arithmetic { precision: Some(precision), ..Arithmetic::default() };
        FlopCounter::new().count_as(report.iter().next().unwrap(), &arithmetic).work()
    };
    assert_eq!(with(OperationType::Fp64), Err(Unknown::NotCounted(OperationType::Fp64)));
    assert_eq!(with(OperationType::Fp16), Err(Unknown::NotCounted(OperationType::Fp16)));
    assert_eq!(with(OperationType::Fp32), Ok(Count::default()));
}

#[test]
fn time_is_cycles_over_their_rate_where_it_was_not_recorded() {
    let report = with_metrics("h200_gemms_raw.csv.zst", &["cycles_elapsed"]);
    for (launch, whole) in report.iter().zip(read("h200_gemms_raw.csv.zst").iter()) {
        let recorded = FlopCounter::new().count(whole).duration_ns.unwrap();
        let computed = FlopCounter::new().count(launch).duration_ns.unwrap();
        assert!(!recorded.rounded && computed.rounded);
        // The two are measured in different passes of a kernel of microseconds.
        assert!(computed.value.abs_diff(recorded.value) * 5 < recorded.value, "{computed:?} {recorded:?}");
    }
    // As the first versions of ncu wrote the rate.
    for (unit, rate) in [
        ("cycle/nsecond", "1.25"),
        ("cycle/second", "1,250,000,000"),
        ("Ghz", "1.25"),
        ("hz", "1,250,000,000"),
    ] {
        let metrics = [
            ("sm__cycles_elapsed.avg", "cycle", "1,250,000.00"),
            ("sm__cycles_elapsed.avg.per_second", unit, rate),
        ];
        assert_eq!(
            one("7.0", &metrics).duration_ns,
            Some(Count { value: 1_000_000, rounded: true }),
            "{unit}"
        );
    }
}

/// The binary report holds doubles: sums from its rates are exact where the printed ones are not.
#[test]
fn rates_of_a_binary_report_are_exact() {
    let (csv, report) = (read("nvtx_names/raw_C.csv.zst"), read("nvtx_names/full.ncu-rep.zst"));
    for (printed, exact) in flops(&csv).iter().zip(flops(&report)) {
        let (printed, exact) = (
            printed.get(OperationType::Fp32).count().unwrap(),
            exact.get(OperationType::Fp32).count().unwrap(),
        );
        assert!(!exact.rounded, "{exact:?}");
        assert!(printed.value.abs_diff(exact.value) <= 1, "{printed:?} {exact:?}");
    }
}
