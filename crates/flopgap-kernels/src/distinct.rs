//! Display names that distinguish the rows of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// At most this many characters are shown of what distinguishes two names.
const SHOWN: usize = 40;

/// The display names of the kernels of one table, each different where the kernels are.
///
/// Kernels that differ only in types or template arguments share
/// [`KernelInfo::short`](crate::KernelInfo::short). Where several of a table do, each is followed
/// by the part of its own name in which it differs from the others, from the first difference on:
/// `vectorized_elementwise_kernel [mul] (BinaryFunctor<float, float…)`. Where that part is too long
/// to show what differs, a number follows, in the order of the rows. `kernels` are pairs of a full
/// name and its display name; the result is in their order.
///
/// ```
/// use flopgap_kernels::distinct_names;
///
/// let kernels = [("void fill<float>(int)", "fill"), ("void fill<half>(int)", "fill"), ("void copy(int)", "copy")];
/// assert_eq!(distinct_names(&kernels), ["fill (float…)", "fill (half…)", "copy"]);
/// ```
pub fn distinct_names<N: AsRef<str>, S: AsRef<str>>(kernels: &[(N, S)]) -> Vec<String> {
    let mut by_short: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, short) in kernels {
        by_short.entry(short.as_ref()).or_default().insert(name.as_ref());
    }
    let mut shown: Vec<String> = Vec::with_capacity(kernels.len());
    let mut numbers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, short) in kernels {
        let (name, short) = (name.as_ref(), short.as_ref());
        let group = &by_short[short];
        shown.push(if group.len() == 1 {
            short.to_owned()
        } else {
            format!("{short} ({})", difference(name, common_start(group)))
        });
        let same = numbers.entry(shown[shown.len() - 1].clone()).or_default();
        if !same.contains(&name) {
            same.push(name);
        }
    }
    for ((name, _), shown) in kernels.iter().zip(&mut shown) {
        let same = &numbers[shown.as_str()];
        if same.len() > 1
            && let Some(place) = same.iter().position(|other| *other == name.as_ref())
        {
            let _ = write!(shown, " #{}", place + 1);
        }
    }
    shown
}

/// The length of the common prefix of all names, in bytes.
fn common_start(names: &BTreeSet<&str>) -> usize {
    // In sorted order, the first and the last name differ the earliest.
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return 0 };
    let same = first.char_indices().zip(last.chars()).find(|((_, a), b)| a != b);
    same.map_or(first.len().min(last.len()), |((at, _), _)| at)
}

/// A name from the first differing word on.
fn difference(name: &str, common: usize) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let before = &name[..common];
    let start = before
        .rfind(|c: char| !word(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let rest = name[start..].trim_start();
    match rest.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", rest[..end].trim_end()),
        None if rest.is_empty() => "…".to_owned(),
        None => first_argument(rest),
    }
}

/// What is left of a short rest up to the bracket that was opened before it.
fn first_argument(rest: &str) -> String {
    let mut depth = 0_i32;
    for (at, c) in rest.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' if depth == 0 => return format!("{}…", &rest[..at]),
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    rest.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify;

    #[test]
    fn kernels_of_a_recorded_step() {
        // From a training step and a compiled one, recorded on an H200.
        let names = [
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BinaryFunctor<float, float, float, \
             at::native::binary_internal::MulFunctor<float>>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::AUnaryFunctor<float, float, float, \
             at::native::binary_internal::MulFunctor<float>>, std::array<char *, (unsigned long)2>>(int, T2, T3)",
            "void splitKreduce_kernel<(int)32, (int)16, int, float, float, float, float, (bool)1, (bool)0, (bool)0>()",
        ];
        let kernels: Vec<(&str, String)> = names.iter().map(|name| (*name, classify(name).short)).collect();
        assert_eq!(
            distinct_names(&kernels),
            [
                "vectorized_elementwise_kernel [mul] (BinaryFunctor<float, float, float, at::n…)",
                "vectorized_elementwise_kernel [mul] (AUnaryFunctor<float, float, float, at::n…)",
                "splitKreduce_kernel",
            ]
        );
    }

    #[test]
    fn a_short_difference_ends_with_the_brackets_around_it() {
        let kernels = [("f<g<int>>(a)", "f"), ("f<h[0], (1)>(a)", "f")];
        assert_eq!(distinct_names(&kernels), ["f (g<int>…)", "f (h[0], (1)…)"]);
    }

    #[test]
    fn what_differs_too_late_is_numbered() {
        let long = "x".repeat(3 * SHOWN);
        let (a, b) = (format!("f<{long}a>()"), format!("f<{long}b>()"));
        let found = distinct_names(&[(&a, "f"), (&b, "f"), (&a, "f")]);
        assert!(found[0].ends_with("…) #1") && found[1].ends_with("…) #2"), "{found:?}");
        assert_eq!(found[0], found[2]);
    }

    proptest! {
        /// Rows are equal exactly where names are, whatever they are called.
        #[test]
        fn equal_names_alone_are_equal(names in proptest::collection::vec("[a-cé<>(), ]{0,60}", 0..12)) {
            let kernels: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "k")).collect();
            let shown = distinct_names(&kernels);
            for (a, shown_a) in names.iter().zip(&shown) {
                for (b, shown_b) in names.iter().zip(&shown) {
                    prop_assert_eq!(a == b, shown_a == shown_b, "{:?} {:?}", shown_a, shown_b);
                }
            }
        }
    }
}
