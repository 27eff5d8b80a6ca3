//! Tokens of a language model that nobody marked.

use flopgap_gap::{FoundBy, Gap, Options, gap};
use flopgap_kineto::Job;

use crate::fixture;

fn of(name: &str) -> Gap {
    gap(&Job::open(&[fixture(name)]).unwrap(), &Options::default()).unwrap()
}

/// `generate` of Hugging Face, eager: a prompt of 16 tokens, then six. A step reaches from the
/// attention over one number of keys to that over the next, as the trace itself has their sizes.
#[test]
fn a_token_is_a_step_where_attention_sees_one_key_more() {
    let found = of("advice/generate.before.json.zst");
    assert_eq!(found.found_by, FoundBy::GrowingCache);
    let names: Vec<(&str, bool)> =
        found.steps.iter().map(|step| (step.name.as_str(), step.warm_up)).collect();
    let expected = [("prefill 16", true), ("decode 17", false), ("decode 18", false), ("decode 19", false)];
    assert_eq!(names[..4], expected);
    assert_eq!((names.len() as u64, found.measured), (5, 4));

    // Of each token: attention's and the network's products, those of the head, and the rotation;
    // then two products over as many keys as there are. The model is 512 wide and has one layer.
    let weights: u64 = 4 * 512 * 512 + 3 * 512 * 1024 + 512 * 1024 + 32;
    let flops: u64 = (17..=20).map(|keys| 2 * weights + 4 * 512 * keys).sum();
    let own = &found.floor.as_ref().unwrap().flops;
    assert_eq!(own.iter().map(|own| own.model).sum::<u64>(), flops);

    let text = flopgap_testing::unpacked_text("advice/generate.before.json.zst");
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let mut calls: Vec<(f64, i64)> = events
        .iter()
        .filter(|event| event["name"] == "aten::scaled_dot_product_attention")
        .map(|event| (event["ts"].as_f64().unwrap(), event["args"]["Input Dims"][1][2].as_i64().unwrap()))
        .collect();
    calls.sort_by(|one, other| one.partial_cmp(other).unwrap());
    assert_eq!(calls.iter().map(|(_, keys)| *keys).collect::<Vec<_>>(), [16, 17, 18, 19, 20, 21]);
    let pairs = calls.windows(2).map(|pair| (pair[1].0 - pair[0].0) * 1e3);
    for (step, ns) in found.steps.iter().zip(pairs) {
        assert!((step.wall_ns as f64 - ns).abs() < 2.0, "{}: {} {ns}", step.name, step.wall_ns);
    }
}

/// Training steps have gradients and encoders have no cache: neither is divided into tokens.
#[test]
fn attention_without_a_cache_makes_no_tokens() {
    for name in ["kineto/plain.json.gz", "advice/healthy-transformer.healthy.json.zst"] {
        assert_ne!(of(name).found_by, FoundBy::GrowingCache, "{name}");
    }
}
