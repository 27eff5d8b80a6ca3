//! The same report printed in different layouts.

use std::collections::BTreeMap;
use std::fmt::Write;

use flopgap_ncu::{Layout, NumberFormat, Reader, Value, WarningKind};

use crate::support::{Plain, bytes, parse, path, plains, read, text};

#[test]
fn the_layout_follows_from_the_header() {
    let cases = [
        ("n4_d512_m64_forward.csv", Layout::Long, 17),
        ("lm_details.csv.zst", Layout::Long, 141),
        ("lm_raw.csv.zst", Layout::Wide, 141),
        ("lm_raw_base.csv.zst", Layout::Wide, 141),
        ("lm_summary.csv.zst", Layout::Summary, 61),
        ("full_details.csv.zst", Layout::Long, 9),
        ("full_raw.csv.zst", Layout::Wide, 9),
        ("nvtx_names/summary_per_gpu.csv", Layout::Summary, 1),
        ("nvtx_names/summary_per_kernel.csv", Layout::Summary, 1),
        ("nvtx_names/summary_per_nvtx.csv", Layout::NvtxSummary, 5),
        ("nvtx_names/names.ncu-rep.zst", Layout::Report, 5),
    ];
    for (name, layout, launches) in cases {
        let report = read(name);
        assert_eq!((report.layout, report.launches.len()), (layout, launches), "{name}");
        assert_eq!(report.lost_at, None, "{name}");
    }
}

#[test]
fn rows_of_rules_are_counted_and_are_no_metrics() {
    let report = read("full_details.csv.zst");
    assert_eq!(report.rule_rows, 112);
    assert_eq!(report.launches.iter().map(|launch| launch.metrics.len()).sum::<usize>(), 783);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn the_columns_of_a_launch_are_read() {
    let report = read("nvtx_names/two_processes.csv.zst");
    assert_eq!(report.launches.len(), 10);
    for (launch, id) in report.iter().zip(0..) {
        assert_eq!(launch.id, Some(id));
        assert_eq!(launch.process_id, Some(if id < 5 { 2181 } else { 2182 }));
        assert_eq!(launch.strings.get(launch.process_name), "colon");
        assert_eq!(launch.strings.get(launch.host), "127.0.0.1");
        assert_eq!(launch.kernel_name(), "axpy(float *, const float *, float, int)");
        assert_eq!((launch.context, launch.stream, launch.device), (Some(1), Some(7), Some(0)));
        assert_eq!((launch.grid, launch.block), (Some([4096, 1, 1]), Some([256, 1, 1])));
        assert_eq!(launch.compute_capability, Some((9, 0)));
        assert_eq!((launch.segment, launch.invocations), (0, 1));
        assert_eq!(launch.metrics.len(), 6);
    }
    // Line 7 of the file is its header.
    assert_eq!(report.launches[0].position, 8);
    assert_eq!(report.launches[1].position, 14);
}

#[test]
fn absent_values_are_left_out() {
    let report = read("lm_details.csv.zst");
    assert!(report.strings.find("sm__ops_path_tensor_src_fp16_dst_fp32.sum").is_some(), "its rows say n/a");
    let named = |name: &str| report.iter().filter(|launch| launch.metric_named(name).is_some()).count();
    assert_eq!(named("sm__ops_path_tensor_src_fp16_dst_fp32.sum"), 0);
    assert_eq!(named("sm__ops_path_tensor_src_bf16_dst_fp32.sum"), 141);

    let report = read("nvtx_names/unknown_metric.csv");
    assert_eq!(report.launches.len(), 5, "the launches are there");
    assert!(report.launches.iter().all(|launch| launch.metrics.is_empty()), "their only metric is n/a");

    // The raw page has `no data`, `nan` and empty cells.
    let report = read("full_raw.csv.zst");
    let launch = report.iter().next().unwrap();
    assert!(launch.metric_named("sass__inst_executed_register_spilling_mem_local").is_none());
    assert!(launch.metric_named("derived_tempMetric4").is_none());
    assert!(
        launch
            .metric_named("FBSP.TriageCompute.dramc__throughput.avg.pct_of_peak_sustained_elapsed")
            .is_none()
    );
    for metric in &launch.metrics {
        assert!(metric.value.as_f64().is_none_or(f64::is_finite));
    }
}

#[test]
fn a_wide_page_has_units_text_and_numbers() {
    let report = read("full_raw.csv.zst");
    let launch = report.iter().next().unwrap();
    let metric = |name: &str| {
        let metric = launch.metric_named(name).unwrap_or_else(|| panic!("{name}"));
        (launch.strings.get(metric.unit), metric.value)
    };
    // One file mixes grouped numbers and `%f`.
    assert_eq!(metric("FE_B.TriageCompute.gr__ctas_launched_realtime.sum"), ("block", Value::U64(256)));
    assert_eq!(metric("device__attribute_max_grid_dim_x").1, Value::U64(2_147_483_647));
    let text = |name: &str| match metric(name).1 {
        Value::Text(symbol) => launch.strings.get(symbol),
        value => panic!("{name}: {value:?}"),
    };
    assert_eq!(text("device__attribute_display_name"), "NVIDIA H200");
    assert_eq!(text("launch__cluster_scheduling_policy"), "PolicySpread");
    assert_eq!(metric("gpu__time_duration.sum").0, "us");
}

/// Whole values of the metrics that both pages have, by launch.
fn whole(launch: &Plain) -> BTreeMap<&str, &str> {
    let counts = launch
        .metrics
        .iter()
        .filter(|(_, _, unit, value)| !value.contains(['f', '"']) && (unit.is_empty() || unit == "inst"));
    counts.map(|(_, name, _, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn long_and_wide_pages_of_one_report_agree() {
    let (long, wide) = (plains(&read("lm_details.csv.zst")), plains(&read("lm_raw.csv.zst")));
    let base = plains(&read("lm_raw_base.csv.zst"));
    assert_eq!(long.len(), wide.len());
    for ((long, wide), base) in long.iter().zip(&wide).zip(&base) {
        let identity = |launch: &Plain| Plain { metrics: Vec::new(), ..launch.clone() };
        assert_eq!(identity(long), identity(wide));
        assert_eq!(identity(long), identity(base));
        let (in_wide, in_base) = (whole(wide), whole(base));
        assert_eq!(whole(long).len(), 10);
        for (name, value) in whole(long) {
            assert_eq!(in_wide.get(name), Some(&value), "{name}");
            assert_eq!(in_base.get(name), Some(&value), "{name}");
        }
    }
}

#[test]
fn labels_and_names_together_go_by_the_name() {
    let (names, both) =
        (read("nvtx_names/metric_name.csv.zst"), read("nvtx_names/metric_label-name.csv.zst"));
    assert_eq!(plains(&names), plains(&both));
    let labels = read("nvtx_names/metric_label.csv.zst");
    let launch = labels.iter().next().unwrap();
    assert!(launch.metric_named("Duration").is_some());
    assert!(names.iter().next().unwrap().metric_named("gpu__time_duration.sum").is_some());
}

#[test]
fn kernel_names_are_kept_as_printed() {
    let name = |file: &str| read(file).iter().next().unwrap().kernel_name().to_owned();
    assert_eq!(name("nvtx_names/kernel_function.csv.zst"), "axpy");
    assert_eq!(name("nvtx_names/kernel_mangled.csv.zst"), "_Z4axpyPfPKffi");
}

#[test]
fn instances_do_not_hide_the_aggregate() {
    let plain = plains(&read("nvtx_names/raw_C.csv.zst"));
    for file in ["raw_instances_values", "raw_instances_details"] {
        let with = plains(&read(&format!("nvtx_names/{file}.csv.zst")));
        for (plain, with) in plain.iter().zip(&with) {
            let names =
                |launch: &Plain| launch.metrics.iter().map(|metric| metric.1.clone()).collect::<Vec<_>>();
            assert_eq!(names(plain), names(with), "{file}: a list of instances alone is no value");
            for (plain, with) in plain.metrics.iter().zip(&with.metrics) {
                let number = |text: &str| text.trim_end_matches('f').parse::<f64>();
                match (number(&plain.3), number(&with.3)) {
                    // Printed with six decimals in one file and with two in the other.
                    (Ok(plain), Ok(with)) => assert!((plain - with).abs() <= 0.005_001, "{plain} {with}"),
                    _ => assert_eq!(plain, with),
                }
            }
        }
    }
    assert_eq!(
        plains(&read("nvtx_names/details_instances.csv.zst")),
        plains(&read("nvtx_names/details_C.csv.zst"))
    );
}

#[test]
fn print_fp_leaves_counts_whole() {
    let plain = read("nvtx_names/details_print_fp.csv.zst");
    let launch = plain.iter().next().unwrap();
    let value = |name: &str| launch.metric_named(name).unwrap().value;
    assert_eq!(value("Elapsed Cycles"), Value::U64(8566));
    assert_eq!(value("Threads"), Value::U64(1_048_576));
    assert!(matches!(value("DRAM Frequency"), Value::F64(_)));
}

#[test]
fn the_body_items_of_a_section_are_read_too() {
    let report = read("nvtx_names/details_all.csv.zst");
    assert_eq!(report.launches.len(), 2);
    // Small tables stand between the rows; they are notes, not lost rows.
    assert_eq!(report.lost_at, None, "{:?}", report.warnings);
    assert!(report.notes.iter().any(|note| note.text.contains("NVLink")));
    assert!(report.iter().next().unwrap().metrics.len() > 1000);
}

#[test]
fn a_summary_row_stands_for_its_launches() {
    let report = read("lm_summary.csv.zst");
    assert_eq!(report.launches.iter().map(|launch| launch.invocations).sum::<u64>(), 141);
    for launch in report.iter() {
        assert_eq!((launch.id, launch.context, launch.stream), (None, None, None));
        assert_eq!(launch.metrics.len(), 14);
        for metric in &launch.metrics {
            let (low, high) = metric.spread.expect("summaries have a minimum and a maximum");
            let value = metric.value.as_f64().unwrap();
            assert!(low <= value && value <= high, "{low} <= {value} <= {high}");
        }
    }
}

#[test]
fn several_tables_in_one_file_are_segments() {
    let mut joined = bytes("n4_d512_m64_forward.csv");
    joined.extend(bytes("lm_raw.csv.zst"));
    joined.extend(bytes("n4_d512_m64_forward.csv"));
    joined.extend(bytes("lm_summary.csv.zst"));
    let report = parse(joined).unwrap();
    assert_eq!(report.launches.len(), 17 + 141 + 17 + 61);
    let of = |segment| report.launches.iter().filter(move |launch| launch.segment == segment);
    assert_eq!([of(0).count(), of(1).count(), of(2).count(), of(3).count()], [17, 141, 17, 61]);
    for (first, third) in of(0).zip(of(2)) {
        assert_eq!((first.id, &first.metrics), (third.id, &third.metrics));
    }
    assert!(report.warnings.is_empty(), "ids may start over: {:?}", report.warnings);
}

#[test]
fn columns_go_by_name_wherever_they_stand() {
    let text = text("lm_details.csv.zst");
    let rows = crate::naive::rows(&text);
    let width = rows[0].len();
    let (mut reversed, mut widened) = (String::new(), String::new());
    for (index, row) in rows.iter().enumerate() {
        let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
        let fields: Vec<String> = row.iter().map(quote).collect();
        let backwards: Vec<String> = fields.iter().rev().cloned().collect();
        reversed += &(backwards.join(",") + "\n");
        let unknown = if index == 0 { "\"Weather\"" } else { "\"117.344\"" };
        let (head, tail) = fields.split_at(width / 2);
        writeln!(widened, "{unknown},{},{unknown},{},{unknown}", head.join(","), tail.join(",")).unwrap();
    }
    let expected = plains(&parse(text).unwrap());
    assert_eq!(plains(&parse(reversed).unwrap()), expected);
    assert_eq!(plains(&parse(widened).unwrap()), expected);
}

#[test]
fn the_header_of_2019_is_read() {
    // Kernel Time instead of launch shape and device, and units spelled out.
    let old = "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Kernel Time\",\"Context\",\"Stream\",\
               \"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\
               \"0\",\"7\",\"app\",\"host\",\"saxpy\",\"2020-Apr-09 15:38:19\",\"1\",\"7\",\"Command line profiler metrics\",\
               \"gpu__time_duration.sum\",\"nsecond\",\"117344\"\n";
    let report = parse(old).unwrap();
    let launch = report.iter().next().unwrap();
    assert_eq!((launch.id, launch.process_id, launch.stream, launch.grid), (Some(0), Some(7), Some(7), None));
    assert_eq!(launch.metric_named("gpu__time_duration.sum").unwrap().value, Value::U64(117_344));
}

#[test]
fn rows_that_stand_apart_are_joined_and_reported() {
    let text = text("nvtx_names/exit_code_9.csv");
    let (mut rows, mut rest): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("\"0\""));
    let late = rows.split_off(3);
    rest.splice(5..5, rows);
    rest.extend(late);
    let apart = rest.join("\n") + "\n";
    let report = parse(apart.clone()).unwrap();
    assert_eq!(plains(&report), plains(&parse(text).unwrap()));
    let process = report.launches[0].process_id;
    let repeated = WarningKind::LaunchRepeated { id: 0, process };
    assert_eq!(report.warnings.iter().filter(|warning| warning.kind == repeated).count(), 1);
    let mut reader = Reader::from_reader(std::io::Cursor::new(apart), "apart.csv").unwrap();
    let mut launches = 0;
    while reader.next_launch().unwrap().is_some() {
        launches += 1;
    }
    assert_eq!(launches, 6, "streaming gives launch 0 in two parts");
}

#[test]
fn an_explicit_format_overrides_inference() {
    let options = Reader::options().number_format(NumberFormat::Point);
    assert!(options.read(path("nvtx_names/raw_C.csv.zst")).is_ok());
    let error = options.read(path("nvtx_names/details_de_DE.csv.zst")).unwrap_err();
    assert!(error.to_string().contains("contradicts"), "{error}");
}

/// ncu's raw per-gpu summary has its cells in other columns than its header says: no number of it
/// may be believed.
#[test]
fn displaced_cells_are_left_out_and_reported() {
    let report = read("raw_per_gpu_displaced.csv");
    assert_eq!(report.launches, []);
    assert_eq!(report.lost_at, Some(2));
    assert!(report.warnings[0].kind == WarningKind::RowDisplaced, "{}", report.warnings[0]);
}

/// Reports of one process that were put together without their headers: in a container, every run
/// has the same process.
#[test]
fn rows_of_one_id_with_two_kernels_are_two_launches() {
    let row = |kernel: &str, grid: &str, metric: &str, value: &str| {
        format!("\"0\",\"1\",\"{kernel}\",\"({grid}, 1, 1)\",\"{metric}\",\"\",\"{value}\"\n")
    };
    let header = "\"ID\",\"Process ID\",\"Kernel Name\",\"Grid Size\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    let (bytes, time) = ("dram__bytes.sum", "gpu__time_duration.sum");
    let rows = [
        row("k1", "64", bytes, "5"),
        row("k1", "64", time, "6"),
        row("k2", "64", bytes, "7"),
        row("k2", "64", time, "8"),
        row("k2", "32", time, "9"),
        // Apart from its first rows.
        row("k1", "64", "lts__t_bytes.sum", "10"),
    ];
    let report = parse(format!("{header}{}", rows.concat())).unwrap();
    let found: Vec<_> = report
        .iter()
        .map(|launch| (launch.kernel_name().to_owned(), launch.grid.unwrap()[0], launch.metrics.len()))
        .collect();
    assert_eq!(found, [("k1".to_owned(), 64, 3), ("k2".to_owned(), 64, 2), ("k2".to_owned(), 32, 1)]);
    let warnings: Vec<_> = report.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].contains("launch 0 of process 1 stands for several kernels"), "{warnings:?}");
    assert_eq!(report.lost_at, None);
    // Two runs, the ids of the second far from those of the first: a kernel of another name is
    // another launch, which the warning allows.
    let run = |kernel: &str| [0, 1].map(|id| row(kernel, "64", time, "6").replacen('0', &id.to_string(), 1));
    let report = parse(format!("{header}{}{}", run("k1").concat(), run("k2").concat())).unwrap();
    assert_eq!(report.launches.len(), 4);
    let warnings: Vec<_> = report.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let apart = "4: launch 0 of process 1 occurs again, apart from its first rows: reports were put together";
    assert!(warnings[0].starts_with(apart), "{warnings:?}");
}
