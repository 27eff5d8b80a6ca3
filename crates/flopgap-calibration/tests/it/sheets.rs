//! Tables: recorded sweeps of another estimator, and what can be wrong with a table.

use std::path::{Path, PathBuf};

use flopgap_calibration::accuracy::Errors;
use flopgap_calibration::sheet::{
    Role, Sheet, SheetError, SheetRow, SheetWarning, Values, identity_of, join, parse, read, to_csv, to_rows,
};
use flopgap_calibration::{Measurement, Origin, Row, Timing};
use flopgap_files::Hint as _;
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{MlpSpec, Mode, Op, Workload};

const HEADER: &str = "model,input_dim,hidden_dims,output_dim,batch_size,device,precision,empirical_time_ms";

fn parse_text(text: &str, role: Role) -> Result<Sheet, SheetError> {
    parse(text.as_bytes(), Path::new("a.csv"), role, None)
}

fn empirical(rows: &str) -> Result<Sheet, SheetError> {
    parse_text(&format!("{HEADER}\n{rows}"), Role::Empirical)
}

fn message(result: Result<Sheet, SheetError>) -> String {
    result.unwrap_err().to_string()
}

/// Rows of branes-ai/graphs b6c5e82, `validation/empirical/results/mlp_sweep_full_cuda_maxn.csv`
/// (MIT).
const MLP_SWEEP: &str = "\
model,input_dim,hidden_dims,output_dim,batch_size,device,precision,empirical_time_ms,empirical_time_std_ms,empirical_memory_mb,empirical_throughput,analytical_time_ms,analytical_memory_traffic_mb,analytical_flops,analytical_ai,analytical_bottleneck,time_error_pct
mlp_1layer,256,[128],64,1,cuda,fp32,0.6094828248023987,0.1102062463760376,9.28466796875,tensor(1640.7354),0.32,0.16064453125,81920,0.48632218844984804,memory,47.496469633291525
mlp_4layer,1024,\"[2048, 2048, 2048, 2048]\",512,64,cuda,fp32,2.416447162628174,0.039650700986385345,123.94384765625,tensor(26485.1621),4.245126184519764,50.650390625,1476788224,27.80580727258705,compute,75.67635039462995
";

#[test]
fn a_table_of_another_estimator_is_read_as_it_is() {
    let sheet = parse_text(MLP_SWEEP, Role::Both).unwrap();
    let record = &sheet.records[1];
    let Some(Workload::Mlp(spec)) = &record.workload else { panic!("{record:?}") };
    assert_eq!(
        (spec.input, spec.hidden.as_slice(), spec.output, spec.batch),
        (1024, &[2048; 4][..], 512, 64)
    );
    assert_eq!(record.measured.memory_mb, Some(123.943_847_656_25));
    assert_eq!(record.estimated.flops, Some(1_476_788_224.0));
    assert_eq!(record.bottleneck.as_deref(), Some("compute"));
    // Traffic is not memory in use.
    assert_eq!(record.estimated.memory_mb, None);
    assert_eq!(sheet.warnings, [SheetWarning::MemoryTraffic]);
}

#[test]
fn the_whole_sweep_on_a_jetson_has_the_error_that_is_stated_for_it() {
    let Some(corpus) = std::env::var_os("FLOPGAP_CORPUS") else {
        return flopgap_testing::skip("corpus", "FLOPGAP_CORPUS is not set");
    };
    let path = PathBuf::from(corpus).join("calibration/branes_jetson_mlp.csv");
    if !path.exists() {
        return flopgap_testing::skip("corpus", "it has no branes_jetson_mlp.csv");
    }
    let sheet = read(&path, Role::Both, None).unwrap();
    assert_eq!(sheet.records.len(), 336);
    let pairs = sheet.records.iter().map(|r| (r.measured.time_ms.unwrap(), r.estimated.time_ms.unwrap()));
    let errors = Errors::of(pairs).unwrap();
    assert!((errors.mape - 0.619).abs() < 0.0005, "{errors:?}");
}

#[test]
fn products_and_convolutions_are_recognized_by_their_columns() {
    let gemm = parse_text(
        "M,N,K,batch_size,precision,device,flops,empirical_time_ms,analytical_time_ms\n\
         1024,128,512,4,fp16,cuda,536870912,0.39,0.08\n",
        Role::Both,
    );
    let Some(Workload::Step(step)) = gemm.unwrap().records.remove(0).workload else { panic!() };
    assert_eq!(step.op, Op::Gemm(Gemm { batch: 4, m: 1024, n: 128, k: 512 }));
    let conv = parse_text(
        "conv_type,in_channels,out_channels,spatial_size,kernel_size,stride,groups,batch_size,precision,\
         device,flops,empirical_time_ms,analytical_time_ms\n\
         standard,64,128,56,3,2,1,4,fp32,cuda,462422016,0.499,1.345\n",
        Role::Both,
    );
    let Some(Workload::Step(step)) = conv.unwrap().records.remove(0).workload else { panic!() };
    let Op::Conv(conv) = &step.op else { panic!("{step:?}") };
    assert_eq!((conv.inputs, conv.outputs, conv.padding[0], conv.stride[0]), (64, 128, [1, 1], 2));
}

#[test]
fn bad_tables_are_refused_by_place() {
    for time in ["0", "-1", "NaN", "", "fast"] {
        let rows =
            format!("mlp_1layer,256,[128],64,1,cpu,fp32,1\nmlp_1layer,256,[128],64,1,cpu,fp32,{time}\n");
        let expected = format!("a.csv:3: empirical_time_ms is `{time}`; a time is a number above 0");
        assert_eq!(message(empirical(&rows)), expected);
    }
    for (rows, expected) in [
        ("mlp_2layer,256,[512, 512],64,1,cpu,fp32,1\n", "a.csv:2: 9 fields; the header has 8"),
        (
            "mlp_2layer,256,[512;512],64,1,cpu,fp32,1\n",
            "a.csv:2: hidden_dims is `[512;512]`; expected a list of widths: [512, 512]",
        ),
        (
            "mlp_1layer,256,[128],64,0,cpu,fp32,1\n",
            "a.csv:2: batch_size is `0`; expected a whole number above 0",
        ),
        ("", "a.csv: no rows below the header"),
        (
            "mlp_1layer,256,[128],64,1,cpu,fp32,1\nmlp_1layer,256,[128],64,1,cuda,fp32,1\n",
            "a.csv: rows from 2 devices: cpu (1 rows), cuda (1 rows)",
        ),
    ] {
        assert_eq!(message(empirical(rows)), expected);
    }
    let twice = format!("mlp_1layer,256,[128],64,1,cpu,fp32,1\n{HEADER}\n");
    assert_eq!(message(empirical(&twice)), "a.csv:3: second header: the file holds two tables");
    assert_eq!(message(parse_text(" \n", Role::Both)), "a.csv: the file is empty");
    assert_eq!(
        message(parse_text("model,empirical_time_ms\nmlp,1\n", Role::Both)),
        "a.csv: missing columns: batch_size, device, precision, analytical_time_ms; the file has: model, \
         empirical_time_ms"
    );
    assert_eq!(
        message(parse_text("model,model,analytical_time_ms\na,b,1\n", Role::Analytical)),
        "a.csv: two columns are named `model`"
    );
    let latin = b"model,analytical_time_ms\nm\xfcller,1\n";
    let error = parse(latin, Path::new("a.csv"), Role::Analytical, None).unwrap_err();
    assert_eq!(error.to_string(), "a.csv:2: not CSV: field 1 is not UTF-8");
}

#[test]
fn one_device_is_chosen_of_several() {
    let rows = "a,,,,1,cpu,fp32,1\nb,,,,1,cuda,fp32,1\n";
    let text = format!("{HEADER}\n{rows}");
    let of = |device| parse(text.as_bytes(), Path::new("a.csv"), Role::Empirical, Some(device));
    let sheet = of("cuda").unwrap();
    assert_eq!(sheet.records.len(), 1);
    assert_eq!(sheet.records[0].identity[0], "b");
    let error = of("tpu").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.csv: no rows from device `tpu`; the file has cpu (1 rows), cuda (1 rows)"
    );
    assert!(error.is_absence());
}

#[test]
fn estimates_of_another_table_are_put_beside_their_rows() {
    let measured = empirical(
        "mlp_2layer,256,\"[512, 512]\",64,1,cpu,fp32,2\nmlp_1layer,256,[128],64,1,cpu,fp32,1\n\
         mlp_1layer,256,[128],64,2,cpu,fp32,1\n",
    );
    let estimates = "hidden_dims,model,batch_size,analytical_time_ms,analytical_memory_mb\n\
                     \"[512,512]\",mlp_2layer,1,2.5,10\n[128],mlp_1layer,1,0.5,\n[128],mlp_1layer,64,0.5,\n";
    let analytical = parse_text(estimates, Role::Analytical).unwrap();
    let sheet = join(measured.unwrap(), analytical.clone(), Path::new("b.csv")).unwrap();
    let times: Vec<_> = sheet.records.iter().map(|r| (r.measured.time_ms, r.estimated.time_ms)).collect();
    assert_eq!(times, [(Some(2.0), Some(2.5)), (Some(1.0), Some(0.5))]);
    assert_eq!(
        sheet.warnings,
        [
            SheetWarning::NotEstimated { rows: 1, measured: 3 },
            SheetWarning::NotMeasured { rows: 1, estimates: 3 }
        ]
    );

    let other = empirical("mlp_1layer,256,[64],64,1,cpu,fp32,1\n").unwrap();
    let error = join(other, analytical, Path::new("b.csv")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "b.csv: no estimate for any of the 1 measured rows; the first is mlp_1layer 256 [64] 64 1 cpu fp32"
    );
    let twice = parse_text("model,analytical_time_ms\na,1\na,2\n", Role::Analytical).unwrap();
    let error = join(empirical("a,,,,1,cpu,fp32,1\n").unwrap(), twice, Path::new("b.csv")).unwrap_err();
    assert_eq!(error.to_string(), "b.csv:3: estimates the same row as line 2: a");
}

#[test]
fn what_contradicts_itself_is_said() {
    let text = format!(
        "{HEADER},empirical_memory_mb,analytical_time_ms,time_error_pct\n{}",
        "a,,,,1,cpu,fp32,2,0,1,50\nb,,,,1,cpu,fp32,2,0,1,100\n"
    );
    let sheet = parse_text(&text, Role::Both).unwrap();
    assert_eq!(
        sheet.warnings,
        [SheetWarning::ZeroMemory { rows: 2 }, SheetWarning::ContradictoryError { rows: 1 }]
    );
    assert_eq!(sheet.records[0].measured.memory_mb, None);
}

#[test]
fn a_table_that_was_written_is_read_again() {
    let sheet = parse_text(MLP_SWEEP, Role::Both).unwrap();
    let rows: Vec<SheetRow> = sheet.records.iter().map(SheetRow::from).collect();
    let csv = to_csv(&sheet.identity, &rows);
    assert!(csv.starts_with("model,input_dim,hidden_dims,output_dim,batch_size,device,precision,empirical_time_ms,empirical_memory_mb,empirical_flops,analytical_time_ms,analytical_memory_mb,analytical_flops,time_error_pct,memory_error_pct,flops_error_pct,"));
    let again = parse_text(&csv, Role::Both).unwrap();
    for (one, other) in sheet.records.iter().zip(&again.records) {
        assert_eq!(
            (&one.workload, one.measured, one.estimated),
            (&other.workload, other.measured, other.estimated)
        );
    }
}

/// What `report` writes is fitted as what it was made from.
#[test]
fn a_written_table_keeps_mode_and_threads() {
    let spec =
        MlpSpec { input: 784, hidden: vec![64, 32], output: 10, batch: 8, activation: Activation::Relu };
    let time = Timing {
        median_ns: 2e6,
        low_ns: 2e6,
        high_ns: 2e6,
        minimum_ns: 2e6,
        runs: 1,
        capped: false,
        wall_ns: None,
    };
    let row = |engine: &str, mode, threads| Row {
        workload: Workload::Mlp(spec.clone()),
        engine: engine.to_owned(),
        mode,
        precision: Precision::Fp16,
        threads,
        measurement: Measurement::of_time(time),
    };
    let rows = [row("cuda", Mode::Graph, 0), row("cuda", Mode::Stream, 0), row("native", Mode::Call, 4)];
    let origin = Origin { kind: "cuda".to_owned(), ..Origin::default() };
    let mut identity = Vec::new();
    let sheet_rows: Vec<SheetRow> = rows
        .iter()
        .map(|row| {
            let (names, cells) = identity_of(row, &origin, "");
            identity = names;
            let measured =
                Values { time_ms: Some(row.measurement.time.median_ns / 1e6), ..Values::default() };
            SheetRow { identity: cells, measured, estimated: Values::default(), interval_ms: None }
        })
        .collect();
    let text = to_csv(&identity, &sheet_rows);
    let sheet = parse(text.as_bytes(), Path::new("a.csv"), Role::Empirical, None).unwrap();
    let (_, again, without) = to_rows(&sheet);
    assert_eq!((again.as_slice(), without), (rows.as_slice(), Vec::new()));
    let other = text.replacen("fp16", "fp8", 1).replacen("stream", "eager", 1);
    let sheet = parse(other.as_bytes(), Path::new("a.csv"), Role::Empirical, None).unwrap();
    let (_, again, without) = to_rows(&sheet);
    assert_eq!(again, rows[2..]);
    let without: Vec<String> = without.iter().map(ToString::to_string).collect();
    assert_eq!(
        without,
        [
            "1 row is left out: the precision `fp8` is none of fp32, tf32, fp16, bf16, int8",
            "1 row is left out: the mode `eager` is none of call, stream, graph"
        ]
    );
    let nameless = "batch_size,device,precision,empirical_time_ms\n8,cpu,fp32,1\n9,cpu,fp32,1\n";
    let sheet = parse(nameless.as_bytes(), Path::new("a.csv"), Role::Empirical, None).unwrap();
    let (_, none, without) = to_rows(&sheet);
    assert!(none.is_empty());
    assert_eq!(without[0].to_string(), "2 rows do not describe what was run and are left out");
}

proptest::proptest! {
    #[test]
    fn no_table_panics(bytes: Vec<u8>, at in 0usize..2000, byte: u8) {
        let roles = [Role::Empirical, Role::Analytical, Role::Both];
        let mut damaged = MLP_SWEEP.as_bytes().to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        for text in [bytes, damaged] {
            for role in roles {
                if let Ok(sheet) = parse(&text, Path::new("a.csv"), role, None) {
                    let rows: Vec<SheetRow> = sheet.records.iter().map(SheetRow::from).collect();
                    to_csv(&sheet.identity, &rows);
                    flopgap_calibration::judge::of_sheet(&sheet);
                    flopgap_calibration::sheet::to_rows(&sheet);
                }
            }
        }
    }
}
