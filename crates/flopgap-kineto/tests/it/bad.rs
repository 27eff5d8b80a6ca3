//! Damaged files, and files that are not traces.

use flopgap_files::Hint as _;
use flopgap_kineto::{Error, Trace};
use proptest::prelude::*;

const GOOD: &str = r#"{"traceEvents":[
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":1,"args":{"Input Dims":[[2,3],[3,5]]}}
]}"#;

fn error(text: impl AsRef<[u8]>) -> Error {
    Trace::read(text.as_ref(), "t.json").unwrap_err()
}

fn message(text: &str) -> String {
    error(text).to_string()
}

#[test]
fn each_has_its_place_and_its_advice() {
    Trace::read(GOOD.as_bytes(), "t.json").unwrap();
    assert_eq!(message(&GOOD[..GOOD.len() - 3]), "t.json:2:110: the trace is cut off here");
    assert_eq!(message(""), "t.json:1:0: the trace is cut off here");
    assert_eq!(message("{}"), "t.json: not a Chrome trace: it has no traceEvents");
    assert_eq!(message("kernel,time\n"), "t.json:1:1: expected a Chrome trace: an object or a list");
    assert_eq!(message("17"), "t.json:1:1: expected a Chrome trace: an object or a list");
    assert_eq!(message(&GOOD.replace("\"ts\":1,", "\"ts\":?,")), "t.json:2:65: expected a value");
    assert_eq!(message(&GOOD.replace("]]}}", "]}}")), "t.json:2:108: a bracket that does not fit");
    assert_eq!(message(r#"{"traceEvents":[17]}"#), "t.json:1:17: expected an event of a trace");
    assert_eq!(
        message(r#"{"traceEvents":[{"ph":"M"}]}"#),
        "t.json: it has 1 events, but no operator of the framework"
    );
    assert_eq!(
        message(&GOOD.replace("Input Dims", "Something")),
        "t.json: it has 1 operators, but the input shapes of none"
    );
    let no_shapes = error(GOOD.replace("Input Dims", "Something"));
    assert!(no_shapes.hint().unwrap().contains("record_shapes=True"));
    assert!(error("{}").hint().unwrap().contains("export_chrome_trace"));
    assert!(matches!(error(format!("{GOOD} x")), Error::Json { line: 3, .. }));
}

#[test]
fn damaged_compression_and_missing_files_are_named() {
    let zstd = zstd::encode_all(GOOD.as_bytes(), 3).unwrap();
    let cut = error(&zstd[..zstd.len() - 4]);
    assert!(matches!(cut, Error::Io { .. } | Error::Truncated { .. }), "{cut}");
    assert!(cut.hint().unwrap().contains("record again"), "{cut}");
    let missing = Trace::open("no/such/trace.json").unwrap_err();
    assert!(missing.to_string().starts_with("no/such/trace.json: "), "{missing}");
    assert_eq!(missing.hint(), None);
}

#[test]
fn more_flops_than_an_integer_holds() {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"x","ts":1,"dur":1,"args":{"flops":9000000000000000000}}"#;
    let trace = Trace::read(format!("[{event},{event},{event}]").as_bytes(), "t.json").unwrap();
    assert_eq!(trace.totals().unwrap_err().to_string(), "the FLOPs of `x` exceed 64 bits");
}

proptest! {
    #[test]
    fn nothing_panics(at in 0..GOOD.len(), byte: u8, cut in 0..GOOD.len()) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = Trace::read(bytes.as_slice(), "t.json");
        let _ = Trace::read(&bytes[..cut], "t.json");
    }
}
