//! Folds the numbers in names of ranges, so that instances and layers share a row.

use std::borrow::Cow;

use flopgap_trace::fold_name;

use crate::kind::{PassKind, is_interleaved};

/// Words after which a number distinguishes one layer from the others, also at the end of a longer
/// word: `layer_7`, `TransformerBlock3`.
const LAYERS: [&str; 8] = ["layer", "layers", "block", "blocks", "blk", "stage", "expert", "experts"];

/// Names of parameters that count: their numbers tell instances apart. Those of all others (`bs=4`)
/// are sizes.
const COUNTERS: [&str; 14] = [
    "step",
    "iter",
    "iteration",
    "epoch",
    "batch",
    "microbatch",
    "i",
    "n",
    "id",
    "idx",
    "index",
    "no",
    "num",
    "token",
];

/// The name of a range, without its domain, with the numbers of its instances folded: all numbers
/// in the name of a pass (`warmup_3`, but not those of parameters, `prefill bs=4`), in others those
/// that [`fold_name`] takes for occurrences.
pub(crate) fn fold_instances(text: &str) -> Cow<'_, str> {
    match PassKind::of(text) {
        Some(_) if is_interleaved(text) => Cow::Borrowed(text),
        Some(_) => fold_counts(text),
        None => fold_name(text),
    }
}

/// The name under which a range is shown: numbers of instances and of layers are folded.
///
/// ```
/// assert_eq!(flopgap_timings::fold_range("ProfilerStep#12"), "ProfilerStep#*");
/// assert_eq!(flopgap_timings::fold_range("blocks.21.attn"), "blocks.*.attn");
/// ```
pub fn fold_range(text: &str) -> String {
    fold_layers(&fold_instances(text)).into_owned()
}

/// All numbers except those of parameters, and except that nothing is computed: `context_0`.
fn fold_counts(text: &str) -> Cow<'_, str> {
    let is_nothing = |start: usize, end: usize| {
        &text[start..end] == "0" && ["context_", "generation_"].iter().any(|key| text[..start].ends_with(key))
    };
    // A server's iterations differ in all their sizes.
    let is_size = |start: usize| !text.starts_with("step[") && is_parameter(&text[..start]);
    let numbers = numbers(text).filter(|&(start, end)| !is_size(start) && !is_nothing(start, end));
    replaced(text, numbers)
}

/// Whether what comes after is the value of a parameter that does not count: `bs=`, `seq = `.
fn is_parameter(before: &str) -> bool {
    let Some(key) = before.trim_end().strip_suffix(['=']) else { return false };
    let key = key.trim_end();
    let key = key.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    !COUNTERS.iter().any(|counter| counter.eq_ignore_ascii_case(key))
}

/// Numbers that tell layers apart: those that are a part of their own of a dotted path
/// (`blocks.7.attn`, `model/3`, `layers[3]`), and those after a word for a layer.
///
/// Sizes and types are not layers: `gemm_128x64`, `[[128, 256]]`, `lr = 0.01`, `fc1`.
fn fold_layers(text: &str) -> Cow<'_, str> {
    let layers = numbers(text).filter(|&(start, end)| {
        let (before, after) = (&text[..start], &text[end..]);
        let ends = after.chars().next().is_none_or(|c| !c.is_alphanumeric());
        ends && (is_in_path(before, after) || follows_layer(before))
    });
    replaced(text, layers)
}

/// Whether a number between these texts is a part of its own of a path that begins with a letter.
fn is_in_path(before: &str, after: &str) -> bool {
    if !before.ends_with(['.', '/']) || !after.chars().next().is_none_or(|c| !matches!(c, '_' | '-')) {
        return false;
    }
    let in_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '*' | '[' | ']');
    let path = before.rsplit(|c| !in_path(c)).next().unwrap_or_default();
    path.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether a text ends in a word for a layer, with or without something between it and a number:
/// `layer_`, `Block`, `layers[`.
fn follows_layer(before: &str) -> bool {
    let word = before.strip_suffix(['_', '-', ' ', '#', '[', '(']).unwrap_or(before);
    LAYERS.iter().any(|layer| {
        let begin = word.len().checked_sub(layer.len());
        begin.and_then(|begin| word.get(begin..)).is_some_and(|end| end.eq_ignore_ascii_case(layer))
    })
}

/// From where to where each run of digits is.
fn numbers(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let bytes = text.as_bytes();
    let digit = move |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let starts = (0..bytes.len()).filter(move |&at| digit(at) && !at.checked_sub(1).is_some_and(digit));
    starts.map(move |start| (start, (start..=bytes.len()).find(|&at| !digit(at)).unwrap_or(start)))
}

fn replaced(text: &str, numbers: impl Iterator<Item = (usize, usize)>) -> Cow<'_, str> {
    let mut folded = String::new();
    let mut done = 0;
    for (start, end) in numbers {
        folded.push_str(&text[done..start]);
        folded.push('*');
        done = end;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    folded.push_str(&text[done..]);
    Cow::Owned(folded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn instances_and_layers_fold_and_sizes_stay() {
        for (name, folded) in [
            ("forward_3", "forward_*"),
            ("warmup_3", "warmup_*"),
            ("batch_12", "batch_*"),
            ("decode_step_3", "decode_step_*"),
            ("step 3 of 10", "step * of *"),
            ("prefill bs=4 step=7", "prefill bs=4 step=*"),
            ("decode[batch = 3, seqlen = 512]", "decode[batch = *, seqlen = 512]"),
            ("1F1B", "1F1B"),
            ("step[EXTEND bs=15 toks=15360]", "step[EXTEND bs=* toks=*]"),
            (
                "execute_32_context_0(sq0sk0)_generation_32(sq32sk55086)",
                "execute_*_context_0(sq*sk*)_generation_*(sq*sk*)",
            ),
            ("aten::view, op_id = 7", "aten::view, op_id = *"),
            ("blocks.7", "blocks.*"),
            ("blocks.21.attn", "blocks.*.attn"),
            ("transformer.h.11.mlp.c_fc", "transformer.h.*.mlp.c_fc"),
            ("encoder.block.14.layer.0", "encoder.block.*.layer.*"),
            (
                "FSDP::pre_forward (encoder.block.14.layer.1), op_id = 7",
                "FSDP::pre_forward (encoder.block.*.layer.*), op_id = *",
            ),
            ("model/3/attention", "model/*/attention"),
            ("layer1", "layer*"),
            ("layer_7_attn", "layer_*_attn"),
            ("TransformerBlock12", "TransformerBlock*"),
            ("layers[3].mlp", "layers[*].mlp"),
            ("Layer 3", "Layer *"),
            ("expert-5", "expert-*"),
            ("fc1", "fc1"),
            ("conv2d", "conv2d"),
            ("sm80_gemm_128x64", "sm80_gemm_128x64"),
            ("block_128x64", "block_128x64"),
            ("MmBackward0", "MmBackward0"),
            ("aten::mm, sizes = [[128, 256]]", "aten::mm, sizes = [[128, 256]]"),
            ("lr = 0.01", "lr = 0.01"),
            ("température.é", "température.é"),
            ("", ""),
        ] {
            assert_eq!(fold_range(name), folded, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_folded_name_stays(name in "[a-z0-9 =.#:,;_/\\[\\]()é-]{0,20}") {
            let folded = fold_layers(&name).into_owned();
            prop_assert_eq!(fold_layers(&folded).into_owned(), folded.clone());
            let counted = fold_counts(&name).into_owned();
            prop_assert_eq!(fold_counts(&counted).into_owned(), counted);
        }

        #[test]
        fn layers_of_one_kind_are_one(one in 0_u32..1000, other in 0_u32..1000, name in "[a-z]{1,5}\\.[a-z]{1,5}") {
            let with = |number: u32| fold_range(&format!("{name}.{number}.mlp"));
            prop_assert_eq!(with(one), with(other));
        }
    }
}
