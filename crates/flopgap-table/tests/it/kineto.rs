//! Traces of `torch.profiler`.

use std::fs;

use flopgap_table::{Kind, Source};

use crate::{counts, fixtures, ints, open, texts};

const TRACE: &str = "kineto/mlp_n10_d1024_m128.json.gz";

#[test]
fn operators_are_those_of_the_reader() {
    let own = flopgap_kineto::Trace::open(fixtures().join(TRACE)).unwrap();
    let source = open(TRACE);
    assert_eq!(source.kind(), Kind::Kineto);
    let names: Vec<_> = source.tables().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["operators"]);
    let table = source.table("operators").unwrap();
    let names: Vec<_> = own.operators.iter().map(|operator| Some(operator.name.to_string())).collect();
    assert_eq!(texts(&table, "name"), names);
    let begin = own.begin().unwrap();
    assert_eq!(
        ints(&table, "start_ns"),
        own.operators.iter().map(|operator| operator.start - begin).collect::<Vec<_>>()
    );
    let flops: Vec<_> = own.operators.iter().map(|operator| operator.flops.map(|flops| flops.0)).collect();
    assert_eq!(counts(&table, "flops"), flops);
    let sum: u64 = flops.iter().flatten().sum();
    let recorded = fs::read_to_string(fixtures().join("kineto/key_averages.csv")).unwrap();
    assert!(sum > 0 && recorded.contains("aten::mm"), "{sum}");
}

#[test]
fn gpu_work_is_read_without_shapes() {
    let (_folder, [path]) = flopgap_testing::paths(["any name"]);
    let event = |category: &str, name: &str, ts: u32, arguments: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":2,"args":{{{arguments}}}}}"#
        )
    };
    let events = [
        event(
            "kernel",
            "ampere_sgemm_128x64_nn",
            5,
            r#""device":0,"stream":7,"grid":[4,1,1],"block":[128,1,1]"#,
        ),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 9, r#""bytes":64"#),
    ];
    fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let source = Source::open(&path).unwrap();
    let names: Vec<_> = source.tables().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["kernels", "copies"]);
    let kernels = source.table("kernels").unwrap();
    assert_eq!(texts(&kernels, "class"), [Some("matmul".to_owned())]);
    assert_eq!((ints(&kernels, "start_ns"), ints(&kernels, "grid_x")), (vec![0], vec![4]));
    let copies = source.table("copies").unwrap();
    assert_eq!(texts(&copies, "kind"), [Some("Host-to-Device".to_owned())]);
    assert_eq!((ints(&copies, "start_ns"), ints(&copies, "bytes")), (vec![4000], vec![64]));
}

/// One query reads the tables of both profilers.
#[test]
fn tables_have_the_columns_of_an_export_of_nsys() {
    let kineto = open("kineto/layer.json.gz");
    let nsys = open("kineto/layer_nsys.sqlite.zst");
    let columns = |source: &Source, table: &str| -> Vec<(String, String)> {
        let table = source.table(table).unwrap();
        let schema = table.schema();
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string())).collect()
    };
    for table in ["kernels", "copies", "memsets", "ranges", "api_calls"] {
        assert_eq!(columns(&kineto, table), columns(&nsys, table), "{table}");
    }
    let rows = |source: &Source, table: &str| ints(&source.table(table).unwrap(), "start_ns").len();
    for table in ["kernels", "copies", "memsets"] {
        assert_eq!(rows(&kineto, table), rows(&nsys, table), "{table}");
    }
    assert_eq!(rows(&kineto, "ranges"), 21);
    let durations: i64 = ints(&kineto.table("kernels").unwrap(), "duration_ns").iter().sum();
    assert_eq!(durations, 1_104_511);
    assert!(kineto.trace().is_some() && nsys.trace().is_some());
}
