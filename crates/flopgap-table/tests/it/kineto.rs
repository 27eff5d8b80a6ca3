//! Traces of `torch.profiler`.

use std::fs;

use flopgap_table::{Kind, Source};

use crate::{Cell, column, counts, fixtures, ints, open, texts};

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
    assert_eq!(
        ints(&table, "start_ns"),
        own.operators.iter().map(|operator| operator.start).collect::<Vec<_>>()
    );
    let flops: Vec<_> = own.operators.iter().map(|operator| operator.flops.map(|flops| flops.0)).collect();
    assert_eq!(counts(&table, "flops"), flops);
    let sum: u64 = flops.iter().flatten().sum();
    let recorded = fs::read_to_string(fixtures().join("kineto/key_averages.csv")).unwrap();
    assert!(sum > 0 && recorded.contains("aten::mm"), "{sum}");
}

#[test]
fn gpu_work_is_read_without_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("any name");
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
    assert_eq!((ints(&kernels, "start_ns"), counts(&kernels, "grid_x")), (vec![5000], vec![Some(4)]));
    let copies = source.table("copies").unwrap();
    assert_eq!(
        (column(&copies, "kind"), counts(&copies, "bytes")),
        (vec![Cell::from("copy")], vec![Some(64)])
    );
}
