//! Folds names that differ only in a number.

use std::borrow::Cow;

/// `aten::view, op_id = 123` as `aten::view, op_id = *`: each number that stands for an occurrence
/// becomes `*`, so that names which differ in it alone become one.
///
/// A number stands for an occurrence when it is a word of its own, decimal or hexadecimal
/// (`0x7f3a`), outside of brackets: it begins the name or follows a space, `=`, `#` or `:`, and
/// ends it or comes before a space, `,` or `;`. So does one at the end of a word that counts:
/// `step`, `iter`, `iteration`, `epoch`, `batch`, `microbatch`, with or without `_` or `-` between.
/// All other digits are part of a name or of a shape and stay: `sm80`, `f32`, `layer1`,
/// `MmBackward0`, `encoder.block.14.layer.0`, `sizes = [[128, 256]]`, `(encoder 3)`, `lr = 0.01`,
/// `gemm_128x64`.
///
/// ```
/// use flopgap_trace::fold_name;
///
/// assert_eq!(fold_name("aten::view, op_id = 314290"), "aten::view, op_id = *");
/// assert_eq!(fold_name("FSDP::forward (block.14), op_id = 7"), "FSDP::forward (block.14), op_id = *");
/// assert_eq!(fold_name(":step_12"), ":step_*");
/// assert_eq!(fold_name("gemm_f32 layer1"), "gemm_f32 layer1");
/// ```
pub fn fold_name(name: &str) -> Cow<'_, str> {
    let bytes = name.as_bytes();
    let mut folded = String::new();
    // The end of the part of the name that `folded` already holds.
    let mut done = 0;
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b'0'..=b'9'
                if depth == 0 && !at.checked_sub(1).is_some_and(|before| bytes[before].is_ascii_digit()) =>
            {
                let end = end_of_number(bytes, at);
                if ends_word(bytes, end) && (begins_word(bytes, at) || counts(&name[..at])) {
                    folded.push_str(&name[done..at]);
                    folded.push('*');
                    (done, at) = (end, end);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if done == 0 {
        return Cow::Borrowed(name);
    }
    folded.push_str(&name[done..]);
    Cow::Owned(folded)
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let run =
        |from: usize, is: fn(&u8) -> bool| from + bytes[from..].iter().take_while(|byte| is(byte)).count();
    let end = run(start, u8::is_ascii_digit);
    if bytes[start..].starts_with(b"0x") {
        let hexadecimal = run(start + 2, u8::is_ascii_hexdigit);
        return if hexadecimal > start + 2 { hexadecimal } else { end };
    }
    end
}

fn begins_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || matches!(bytes[at - 1], b' ' | b'\t' | b'=' | b'#' | b':')
}

fn ends_word(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at), None | Some(b' ' | b'\t' | b',' | b';'))
}

/// Whether a text ends in a word that counts.
fn counts(text: &str) -> bool {
    let word = text.strip_suffix(['_', '-']).unwrap_or(text);
    ["step", "iter", "iteration", "epoch", "batch"].iter().any(|counter| {
        let begin = word.len().checked_sub(counter.len());
        // `microbatch` and `train_step` count, too.
        begin.and_then(|begin| word.get(begin..)).is_some_and(|end| end.eq_ignore_ascii_case(counter))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_occurrences_fold_and_all_others_stay() {
        for (name, folded) in [
            ("aten::view, op_id = 314290", "aten::view, op_id = *"),
            (
                "FSDP::pre_forward (encoder.block.14.layer.1), op_id = 314311",
                "FSDP::pre_forward (encoder.block.14.layer.1), op_id = *",
            ),
            (
                "aten::mm, seq = 17, sizes = [[128, 256], [256, 64]]",
                "aten::mm, seq = *, sizes = [[128, 256], [256, 64]]",
            ),
            ("ProfilerStep#12", "ProfilerStep#*"),
            ("step_0", "step_*"),
            (":step_0", ":step_*"),
            ("model:train_step-41", "model:train_step-*"),
            ("Microbatch3", "Microbatch*"),
            ("iteration 7 of 10", "iteration * of *"),
            ("buffer 0x7f3a00 freed", "buffer * freed"),
            (":12", ":*"),
            ("12", "*"),
            ("sm80_gemm_128x64", "sm80_gemm_128x64"),
            ("layer1", "layer1"),
            ("layer_1", "layer_1"),
            ("MmBackward0", "MmBackward0"),
            ("encoder.block.14.layer.0", "encoder.block.14.layer.0"),
            ("lr = 0.01", "lr = 0.01"),
            ("0xyz", "0xyz"),
            ("0x", "0x"),
            ("forward (call 3)", "forward (call 3)"),
            ("température 3", "température *"),
            ("", ""),
        ] {
            assert_eq!(fold_name(name), folded, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_folded_name_stays_and_numbers_do_not_matter(
            name in "[a-z0-9 =#:,;_.x<>()é-]{0,24}", one in 0_u32..1000, other in 0_u32..1000
        ) {
            let folded = fold_name(&name).into_owned();
            prop_assert_eq!(fold_name(&folded), folded.as_str());
            let with = |number: u32| fold_name(&format!("{}, op_id = {number}", name.replace(['(', '<'], ""))).into_owned();
            prop_assert_eq!(with(one), with(other));
        }
    }
}
