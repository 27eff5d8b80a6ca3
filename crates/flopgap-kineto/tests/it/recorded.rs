//! A trace that `PyTorch` wrote, and small ones in the format of older versions.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flopgap_kineto::formula::Kind;
use flopgap_kineto::{OperatorTotal, Part, Source, Trace};
use proptest::prelude::*;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kineto/mlp_n10_d1024_m128.json.gz")
}

/// The trace of a list of events.
fn trace(events: &str) -> Trace {
    Trace::read(events.as_bytes(), "trace.json").unwrap()
}

fn total<'a>(totals: &'a [OperatorTotal], name: &str, part: Part) -> &'a OperatorTotal {
    totals.iter().find(|total| &*total.name == name && total.part == part).unwrap()
}

#[test]
fn a_training_step_of_a_network() {
    let trace = Trace::open(fixture()).unwrap();
    assert_eq!(trace.device.as_deref(), Some("NVIDIA H200"));
    assert_eq!(trace.warnings, []);
    let totals = trace.totals().unwrap();
    // By hand: a product of 1024×1024 by 1024×128 is 2 · 1024 · 1024 · 128 FLOP. Ten forward;
    // backward ten for the weights and nine for the inputs.
    let product = 268_435_456;
    let forward = total(&totals, "aten::mm", Part::Forward);
    assert_eq!((forward.calls, forward.counted, forward.flops), (10, 10, Some(10 * product)));
    assert_eq!(forward.kind, Some(Kind::MatMul));
    let backward = total(&totals, "aten::mm", Part::Backward);
    assert_eq!((backward.calls, backward.flops), (19, Some(19 * product)));
    let sigmoid = total(&totals, "aten::sigmoid", Part::Forward);
    assert_eq!((sigmoid.calls, sigmoid.counted, sigmoid.flops, sigmoid.kind), (10, 0, None, None));
    assert_eq!(total(&totals, "aten::sigmoid_backward", Part::Backward).calls, 10);
    // What calls a counted operator is not counted itself.
    assert_eq!(total(&totals, "aten::matmul", Part::Forward).flops, None);
    assert_eq!(totals.iter().filter(|total| total.flops.is_some()).count(), 2);
}

/// The profiler's own table for a step of the same network.
#[test]
fn the_sum_is_that_of_the_profilers_table() {
    let table = fixture().with_file_name("key_averages.csv");
    let table = std::fs::read_to_string(table).unwrap();
    let row = table.lines().find(|line| line.starts_with("1024,")).unwrap();
    let totals = Trace::open(fixture()).unwrap().totals().unwrap();
    let products = totals.iter().filter(|total| &*total.name == "aten::mm");
    let (calls, flops) =
        products.fold((0, 0), |sum, total| (sum.0 + total.calls, sum.1 + total.flops.unwrap()));
    assert_eq!(row, format!("1024,aten::mm,{calls},{flops}"));
}

#[test]
fn the_same_plain_or_compressed() {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(
        &mut flate2::read::GzDecoder::new(std::fs::File::open(fixture()).unwrap()),
        &mut plain,
    )
    .unwrap();
    let expected = Trace::open(fixture()).unwrap().operators;
    assert_eq!(Trace::read(plain.as_slice(), "plain").unwrap().operators, expected);
    let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
    assert_eq!(Trace::read(zstd.as_slice(), "zstd").unwrap().operators, expected);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&zstd).unwrap();
    assert_eq!(Trace::open(file.path()).unwrap().operators, expected);
}

#[test]
fn the_pass_is_known_without_the_names_of_the_engine() {
    let event = |more: &str| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":2,{more},"args":{{"Input Dims":[[2,3],[3,5]]}}}}"#
        )
    };
    // An arrow ends at the start of the second; the third is marked by its forward thread; the last
    // lies in an optimizer's step.
    let events = [
        event(r#""ts":1,"dur":1"#),
        event(r#""ts":10.5,"dur":4"#),
        r#"{"ph":"f","cat":"fwdbwd","name":"fwdbwd","id":1,"pid":1,"tid":2,"ts":10.5,"bp":"e"}"#.to_owned(),
        r#"{"ph":"X","cat":"Operator","name":"aten::add","pid":1,"tid":2,"ts":20,"dur":9,"args":{"Fwd thread id":1,"Input dims":[[7],[7],[]]}}"#.to_owned(),
        r#"{"ph":"X","cat":"user_annotation","name":"Optimizer.step#SGD.step","pid":1,"tid":2,"ts":"30","dur":"9"}"#.to_owned(),
        event(r#""ts":31,"dur":1"#),
    ];
    let parts: Vec<_> = trace(&format!("[{}]", events.join(",")))
        .operators
        .iter()
        .map(|operator| (operator.part, operator.start, operator.flops))
        .collect();
    let product = Some((2 * 2 * 3 * 5, Source::Formula));
    assert_eq!(
        parts,
        [
            (Part::Forward, 1_000, product),
            (Part::Backward, 10_500, product),
            (Part::Backward, 20_000, Some((7, Source::Formula))),
            (Part::Optimizer, 31_000, product),
        ]
    );
}

#[test]
fn recorded_flops_are_taken_before_the_formula() {
    let trace = trace(
        r#"{"traceEvents":[{"args":{"flops":42,"Input Dims":[[2,3],[3,5]]},"name":"aten::mm","cat":"cpu_op","ph":"X","ts":1,"dur":1},
        {"ph":"X","cat":"cpu_op","name":"fused::attention","ts":2,"dur":1,"args":{"Flops":"7"}}]}"#,
    );
    let flops: Vec<_> = trace.operators.iter().map(|operator| operator.flops).collect();
    assert_eq!(flops, [Some((42, Source::Recorded)), Some((7, Source::Recorded))]);
}

#[test]
fn a_convolution_needs_its_arguments_wherever_they_stand() {
    let args = r#""args":{"Concrete Inputs":["","","","[2, 2]","[3, 3]","[1, 1]","1"],"Input Dims":[[8,3,224,224],[64,3,7,7],[],[],[],[],[]]}"#;
    let name = r#""ph":"X","cat":"cpu_op","name":"aten::conv2d","ts":1,"dur":1"#;
    for event in [format!("{{{args},{name}}}"), format!("{{{name},{args}}}")] {
        let trace = trace(&format!("[{event}]"));
        assert_eq!(trace.operators[0].flops, Some((2 * 8 * 112 * 112 * 7 * 7 * 3 * 64, Source::Formula)));
    }
}

#[test]
fn operators_without_shapes_and_nested_ones_are_reported() {
    let trace = trace(
        r#"[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1,"args":{}},
        {"ph":"X","cat":"cpu_op","name":"aten::add","ts":2,"dur":9,"args":{"Input Dims":[[4]]}},
        {"ph":"X","cat":"cpu_op","name":"aten::mul","ts":3,"dur":1,"args":{"Input Dims":[[4]]}},
        {"ph":"X","cat":"cpu_op","name":"aten::cat","ts":20,"args":{"Input Dims":[[[4],[4]]]}}]"#,
    );
    let warnings: Vec<_> = trace.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "event 1: `aten::mm` is not counted: the shape of input 0 is not in the trace",
            "event 4: `aten::cat` has no start or no duration; skipped",
            "the framework counts an operator that another counted operator calls, too (1 times)",
        ]
    );
    let totals = trace.totals().unwrap();
    let product = total(&totals, "aten::mm", Part::Forward);
    assert_eq!((product.calls, product.counted, product.flops), (1, 0, None));
}

proptest! {
    /// Any list of products adds up to what the definition says, whatever the threads and the
    /// order.
    #[test]
    fn sums_are_those_of_the_shapes(products in proptest::collection::vec((0u64..99, 0u64..99, 0u64..99, 0u32..3), 1..30)) {
        let events: Vec<String> = products.iter().enumerate().map(|(at, (m, k, n, thread))| format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":{thread},"ts":{at},"dur":0.5,"args":{{"Input Dims":[[{m},{k}],[{k},{n}]]}}}}"#
        )).collect();
        let trace = trace(&format!("[{}]", events.join(",")));
        let expected: u64 = products.iter().map(|(m, k, n, _)| 2 * m * k * n).sum();
        prop_assert_eq!(trace.totals().unwrap()[0].flops, Some(expected));
    }
}
