//! FLOPs of a step beside those that `torch.utils.flop_counter` counted as the same programs ran,
//! and utilizations beside another way to compute them.

use flopgap_gap::{Bar, Cause, FoundBy, Gap, Options, gap};
use flopgap_kernels::NumberType;
use serde_json::Value;

use crate::{fixture, open};

fn found(path: &str) -> Gap {
    let opened = open(&fixture(path));
    gap(opened.trace.as_ref(), &Options::default()).unwrap()
}

#[test]
fn flops_are_those_that_the_framework_counted() {
    let text = std::fs::read_to_string(fixture("advice/experiments.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let (mut equal, mut with_attention) = (0, 0);
    for row in all["experiments"].as_array().unwrap() {
        let (name, variant) = (row["name"].as_str().unwrap(), row["variant"].as_str().unwrap());
        let Some(counted) = row["framework_flops"].as_u64().filter(|_| variant != "after") else { continue };
        let found = found(&format!("advice/{name}.{variant}.json.zst"));
        // Steps that are replayed as a graph have no operators, and tokens are not a whole program.
        let Some(floor) = found.floor.as_ref().filter(|_| found.found_by != FoundBy::GrowingCache) else {
            continue;
        };
        let model: u64 = floor.flops.iter().map(|own| own.model).sum();
        let all: u64 = floor.flops.iter().map(|own| own.model + own.repeated).sum();
        let counted = counted * found.measured;
        if found.parts.iter().any(|part| part.cause == Cause::Attention) {
            // The framework counts the pairs that a causal mask leaves out, too.
            assert!(all <= counted && 20 * all > 19 * counted, "{name}: {all} {counted}");
            with_attention += 1;
        } else {
            assert_eq!(all, counted, "{name}");
            equal += 1;
        }
        let is_recomputed = name == "needless-recomputation";
        assert_eq!(
            model < all,
            is_recomputed || variant == "healthy" && name.contains("transformer"),
            "{name}"
        );
        assert!((floor.covered - 1.0).abs() < 1e-9, "{name}: {}", floor.covered);
        // Of one type, utilization is a quotient.
        if let ([own], Some(peaks)) = (&floor.flops[..], &floor.peaks) {
            let seconds = found.total_ns() as f64 / 1e9;
            let expected = own.model as f64 / seconds / peaks.peak(own.number).unwrap();
            assert!((floor.mfu.unwrap() / expected - 1.0).abs() < 1e-9, "{name}");
        }
    }
    assert!(equal >= 18 && with_attention >= 2, "{equal} {with_attention}");
}

/// What is published of the GPU, the sizes in the program, and the time: 70 % of 67 TFLOP/s.
#[test]
fn utilization_is_of_the_type_that_kernels_multiply() {
    let found = found("advice/fp32-products.before.json.zst");
    let floor = found.floor.as_ref().unwrap();
    assert_eq!(floor.flops.iter().map(|own| own.number).collect::<Vec<_>>(), [NumberType::Fp32]);
    let expected = 381_178_347_520.0 / 66.9e12 / (found.step_ns as f64 / 1e9);
    assert!((floor.mfu.unwrap() / expected - 1.0).abs() < 0.01, "{:?} {expected}", floor.mfu);
    let bars = found.waterfall();
    let share = |bar: Bar| found.share(bars.iter().filter(|(own, _)| *own == bar).map(|(_, ns)| ns).sum());
    assert!((0.70..0.80).contains(&share(Bar::Needed)), "{bars:?}");
    assert!(share(Bar::FloorUnknown) < 0.1, "{bars:?}");
}

/// Without sizes nothing is known, and nothing is 0.
#[test]
fn without_sizes_there_is_no_floor() {
    let streams = found("advice/serialized-streams.before.json.zst").floor.unwrap();
    assert!(streams.flops.is_empty() && streams.mfu.is_none(), "no products: {streams:?}");
    let found = found("kineto/stack.json.gz");
    assert_eq!(found.floor, None);
    assert!(found.waterfall().iter().all(|(bar, _)| !matches!(bar, Bar::Needed | Bar::AboveFloor)));
}

/// Fused `AdamW` reads four lists of parameters and writes three, each element once.
#[test]
fn lists_of_tensors_have_the_floor_of_their_elements() {
    let found = found("advice/healthy-transformer.healthy.json.zst");
    let floor = found.floor.as_ref().unwrap();
    let own = floor.parts.iter().find(|part| part.cause == Cause::Optimizer).unwrap();
    let parameters = 2 * 4096 + 12288 * 4096 + 4096 * 4096 + 2 * 16384 * 4096 + 64 * 4096;
    let seconds = 7.0 * f64::from(parameters) * 2.0 / floor.peaks.as_ref().unwrap().bytes;
    let expected = seconds * 1e9 * found.measured as f64;
    assert!((own.floor_ns as f64 / expected - 1.0).abs() < 0.01, "{own:?} {expected}");
    assert!(own.known_ns > own.ns / 2, "{own:?}");
}

/// `PyTorch` marks operators with their sizes for NVTX; the products by the statement
/// `SELECT text FROM NVTX_EVENTS WHERE text LIKE 'aten::%mm,%'`: four of `addmm`, eight of `mm`.
#[test]
fn sizes_in_names_of_ranges_are_the_work_of_products() {
    let opened = open(&fixture("nsys/torch_compiled.sqlite.zst"));
    let work = opened.trace.operator_work().unwrap();
    assert_eq!(work.len(), 12);
    assert!(work.iter().all(|(_, work)| work.flops == 2 * 64 * 128 * 256 && work.element.is_none()));
    let ranges = opened.trace.ranges().unwrap();
    for (at, _) in &*work {
        let name = &ranges.names.get(ranges.ranges[*at].name).text;
        assert!(name.starts_with("aten::addmm, ") || name.starts_with("aten::mm, "), "{name}");
    }
}

/// Where the types of a product were not recorded, as in names for NVTX, its kernel says them: here
/// 229,376 elements of 2 bytes take longer than 33,554,432 FLOPs.
#[test]
fn products_of_unknown_types_have_the_floor_of_their_kernels() {
    let json = r#"{"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [
        {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":1000},
        {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":50,"args":{"Input Dims":[[512,256],[256,128]]}},
        {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":20,"dur":5,"args":{"correlation":1}},
        {"ph":"X","cat":"kernel","name":"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn","pid":0,"tid":7,"ts":100,"dur":10,"args":{"correlation":1,"device":0,"stream":7}}]}"#;
    let trace = flopgap_kineto::Trace::options().read(json.as_bytes(), "t.json").unwrap();
    let found = gap(&flopgap_kineto::Job::of(vec![trace]).unwrap(), &Options::default()).unwrap();
    let floor = found.floor.as_ref().unwrap();
    assert_eq!(
        floor.flops.iter().map(|own| (own.number, own.model)).collect::<Vec<_>>(),
        [(NumberType::Bf16, 33_554_432)]
    );
    let own = floor.parts.iter().find(|part| part.cause == Cause::TensorCores).unwrap();
    assert_eq!(own.known_ns, 10_000);
    assert!((own.floor_ns as f64 - 229_376.0 * 2.0 / 3.35e3).abs() < 1.0, "{own:?}");
    assert!((floor.covered - 1.0).abs() < 1e-9);
}

/// An operator with a product of 4,100 rows and columns in tiles of 128 x 64 and a reduction of
/// split-K, and one whose bytes take longer than even its padded FLOPs: by hand.
#[test]
fn padding_and_split_k_are_a_part_of_their_own() {
    let mm = |at: u32, sizes: &str| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":{at},"dur":50,"args":{{"Input Dims":{sizes},"Input type":["c10::BFloat16","c10::BFloat16"]}}}},"#
        )
    };
    let launch = |at: u32, correlation: u32| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at},"dur":5,"args":{{"correlation":{correlation}}}}},"#
        )
    };
    let kernel = |name: &str, at: u32, dur: u32, correlation: u32| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{at},"dur":{dur},"args":{{"correlation":{correlation},"device":0,"stream":7}}}},"#
        )
    };
    let gemm = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn";
    let events = [
        mm(10, "[[4100,4096],[4096,4100]]"),
        launch(20, 1),
        launch(30, 2),
        mm(100, "[[130,4096],[4096,100]]"),
        launch(110, 3),
        kernel(gemm, 200, 300, 1),
        kernel("void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)", 500, 7, 2),
        kernel(gemm, 507, 20, 3),
    ];
    let json = format!(
        r#"{{"deviceProperties":[{{"id":0,"name":"NVIDIA H100 80GB HBM3"}}],"traceEvents":[{}{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":1000}}]}}"#,
        events.concat()
    );
    let trace = flopgap_kineto::Trace::options().read(json.as_bytes(), "t.json").unwrap();
    let found = gap(&flopgap_kineto::Job::of(vec![trace]).unwrap(), &Options::default()).unwrap();
    let floor = found.floor.as_ref().unwrap();
    let sum = |ns: fn(&flopgap_gap::FloorPart) -> i64| floor.parts.iter().map(ns).sum::<i64>();
    // 4,100 columns take 65 tiles of 64, or 33 of 128, which is more.
    let flops = 2.0 * 4096.0 * (4224.0 * 4160.0 - 4100.0 * 4100.0);
    let padded = flops / 989.4e12 * 1e9;
    assert!((sum(|part| part.executed_ns) as f64 - padded - 7000.0).abs() < 2.0, "{floor:?}");
    assert_eq!(sum(|part| part.known_ns), 327_000);
    let bars = found.waterfall();
    assert_eq!(bars.iter().map(|(_, ns)| ns).sum::<i64>(), found.total_ns());
    let executed = bars.iter().find(|(bar, _)| *bar == Bar::Executed).unwrap().1;
    assert_eq!(executed, sum(|part| part.executed_ns));
}

/// 50,257 columns are 393 tiles of 128, 47 elements more; the third product of a step sums over
/// them. What makes this program slow is no padding: kernels for rows that are not aligned.
#[test]
fn an_odd_vocabulary_has_little_padding() {
    let found = found("advice/odd-vocabulary.before.json.zst");
    let floor = found.floor.as_ref().unwrap();
    let executed: i64 = floor.parts.iter().map(|part| part.executed_ns).sum();
    let each = 2.0 * 8192.0 * 2048.0 * 47.0 / 989.4e12 * 1e9;
    let expected = 2.0 * each * found.measured as f64;
    assert!((executed as f64 - expected).abs() < 8.0, "{executed} {expected}");
}
