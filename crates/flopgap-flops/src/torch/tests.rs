//! What operators need, beside what is computed by hand.

use super::*;

#[expect(clippy::unnecessary_wraps, reason = "as operators are called with it")]
fn stored(name: &str, sizes: &[u64]) -> Option<Operand> {
    let stored = Stored::by_name(name);
    Some(Operand { sizes: sizes.to_vec(), stored, ..Operand::default() })
}

fn bf16(sizes: &[u64]) -> Option<Operand> {
    stored("c10::BFloat16", sizes)
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

/// By the definitions; beside what the framework counts in tests of `flopgap-gap`.
#[test]
fn flops_are_those_of_the_definitions() {
    let mm = work("aten::addmm", &[bf16(&[64]), bf16(&[128, 256]), bf16(&[256, 64])], &[]).unwrap();
    assert_eq!((mm.flops, mm.kind, mm.element), (4_194_304, OperatorKind::Product, Some(ElementType::Bf16)));
    let settings = texts(&["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]);
    let (input, weight) = (bf16(&[4, 6, 15, 15]), bf16(&[8, 3, 3, 3]));
    let forward = work("aten::convolution", &[input.clone(), weight.clone()], &settings).unwrap();
    assert_eq!(forward.flops, 2 * 4 * 8 * 8 * 8 * 3 * 9);
    let own = texts(&["", "", "[1, 1]", "[2, 2]", "[1, 1]", "2"]);
    let same = work("aten::cudnn_convolution", &[input.clone(), weight.clone()], &own).unwrap();
    assert_eq!(same, forward);
    let mut settings = texts(&["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]);
    settings.push("[True, True, False]".to_owned());
    let operands = [bf16(&[4, 8, 8, 8]), input, weight];
    let backward = work("aten::convolution_backward", &operands, &settings).unwrap();
    assert_eq!((backward.flops, backward.element), (2 * forward.flops, Some(ElementType::Bf16)));
    assert_eq!(backward.bytes, 2 * (4 * 8 * 8 * 8 + 4 * 6 * 15 * 15 + 8 * 3 * 9));
    settings[10] = "[False, True, False]".to_owned();
    let first = work("aten::convolution_backward", &operands, &settings).unwrap();
    assert_eq!(first.flops, forward.flops);
}

/// Sequences, and the same filters transposed, which count for each input instead.
#[test]
fn convolutions_have_at_least_one_dimension() {
    // 4 · 8 · 8 results of the first; those of a transposed one depend on more and are not counted.
    for (input, weight, transposed, expected) in [
        (&[4, 6, 15][..], &[8, 3, 3][..], "False", Some((2 * 256 * 3 * 3, 2 * (360 + 72 + 256)))),
        (&[4, 6, 15], &[6, 8, 3], "True", Some((2 * 360 * 8 * 3, 2 * (360 + 144)))),
        (&[4, 6], &[8, 6], "False", None),
        (&[4, 6, 15], &[8, 3, 3, 3], "False", None),
    ] {
        let settings = texts(&["", "", "", "[2]", "[1]", "[1]", transposed, "[0]", "2"]);
        let found = work("aten::convolution", &[bf16(input), bf16(weight)], &settings);
        assert!(found.is_none_or(|found| found.element == Some(ElementType::Bf16)));
        assert_eq!(found.map(|found| (found.flops, found.bytes)), expected, "{input:?} {weight:?}");
    }
}

#[test]
fn attention_counts_the_pairs_that_it_needs() {
    let query = bf16(&[2, 8, 5, 64]);
    let keys = bf16(&[2, 2, 5, 64]);
    let operands = [query.clone(), keys.clone(), keys.clone()];
    let full = texts(&["", "", "", "", "0.", "False"]);
    let all = work("aten::scaled_dot_product_attention", &operands, &full).unwrap();
    assert_eq!(all.flops, 4 * 2 * 8 * 5 * 5 * 64);
    let causal = texts(&["", "", "", "", "0.", "True"]);
    let half = work("aten::scaled_dot_product_attention", &operands, &causal).unwrap();
    assert_eq!(half.flops, 4 * 2 * 8 * 15 * 64);
    let mut settings = vec![String::new(); 15];
    settings[14] = "True".to_owned();
    let operands = [query.clone(), query, keys.clone(), keys];
    let name = "aten::_scaled_dot_product_cudnn_attention_backward";
    let backward = work(name, &operands, &settings).unwrap();
    assert_eq!((backward.flops, backward.repeated_flops), (2 * half.flops, half.flops / 2));
    assert_eq!((backward.bytes, backward.element), (2 * half.bytes, Some(ElementType::Bf16)));
    for name in ["flash", "efficient"] {
        let mut settings = vec![String::new(); 13];
        settings[11] = "True".to_owned();
        let name = format!("aten::_scaled_dot_product_{name}_attention_backward");
        assert_eq!(work(&name, &operands, &settings), Some(backward), "{name}");
    }
    // Of 7 queries, the last two see all 5 keys too; values are half as wide as keys.
    let [query, keys, values] = [[2, 8, 7, 64], [2, 8, 5, 64], [2, 8, 5, 32]].map(|sizes| bf16(&sizes));
    let more = work("aten::scaled_dot_product_attention", &[query, keys, values], &causal).unwrap();
    assert_eq!((more.flops, more.result), (2 * 16 * (15 + 2 * 5) * (64 + 32), Some([7, 5])));
    assert_eq!(more.bytes, 2 * 16 * (7 * 64 + 5 * 64 + 5 * 32 + 7 * 32));
    let flat = [bf16(&[5, 64]), bf16(&[5, 64]), bf16(&[5, 64])];
    assert_eq!(work("aten::scaled_dot_product_attention", &flat, &causal), None);
    // Where it is not recorded whether it is causal, its work is not known.
    assert_eq!(work(name, &operands, &[]), None);
}

#[test]
fn bytes_are_of_what_is_stored() {
    let whole = bf16(&[4, 1024, 16]);
    let add = work("aten::add", &[whole.clone(), bf16(&[16])], &[]).unwrap();
    assert_eq!((add.bytes, add.kind), (2 * (2 * 65_536 + 16), OperatorKind::Memory));
    // A number takes the type of the tensor.
    let scaled = work("aten::mul", &[stored("float", &[8, 8]), stored("double", &[])], &[]).unwrap();
    assert_eq!(scaled.bytes, 4 * 64 + 8 + 4 * 64);
    let expanded = Operand { strides: vec![0, 16, 1], ..whole.clone().unwrap() };
    let from_expanded = work("aten::copy_", &[whole.clone(), Some(expanded)], &[]).unwrap();
    assert_eq!(from_expanded.bytes, 2 * (65_536 + 16_384));
    assert_eq!(work("aten::zero_", std::slice::from_ref(&whole), &[]).unwrap().bytes, 131_072);
    assert_eq!(work("aten::add_", &[whole.clone(), bf16(&[16])], &[]).unwrap().bytes, add.bytes);
    assert_eq!(work("aten::sum", &[whole], &[]).unwrap().bytes, 131_072);
    let mut lists = vec![Some(Operand { list: Some(1_000), ..Operand::default() }); 4];
    lists.push(Some(Operand::default()));
    let adam = work("aten::_fused_adamw_", &lists, &[]).unwrap();
    assert_eq!((adam.bytes, adam.elements), (0, 7_000));
    assert_eq!(work("aten::_foreach_add_", &lists[2..], &[]).unwrap().elements, 3_000);
    assert_eq!(work("aten::_foreach_copy_", &lists[..2], &[]).unwrap().elements, 2_000);
    assert_eq!(work("aten::_foreach_norm", &lists[..1], &[]).unwrap().elements, 1_000);
    assert_eq!(work("aten::_foreach_add_", &lists[4..], &[]), None);
    // What is stored in a way that was not recorded is not known.
    let unknown = Some(Operand { sizes: vec![8], ..Operand::default() });
    assert_eq!(work("aten::copy_", &[unknown.clone(), unknown], &[]), None);
    assert_eq!(work("aten::add", &[bf16(&[3]), bf16(&[4])], &[]), None);
    assert_eq!(triangle(4), Some(10));
    assert_eq!(triangle(5), Some(15));
}

#[test]
fn sizes_that_do_not_fit_are_no_work() {
    assert_eq!(work("aten::mm", &[bf16(&[2, 3]), bf16(&[4, 5])], &[]), None);
    assert_eq!(work("aten::mm", &[bf16(&[2, 3]), None], &[]), None);
    assert_eq!(work("aten::bmm", &[bf16(&[2, 3]), bf16(&[3, 5])], &[]), None);
    assert_eq!(work("aten::mm", &[bf16(&[1 << 40, 1 << 40]), bf16(&[1 << 40, 2])], &[]), None);
    assert_eq!(work("aten::sum", &[], &[]), None);
    assert!(is_known("aten::mm") && !is_known("aten::linear") && !is_known("mm"));
}
