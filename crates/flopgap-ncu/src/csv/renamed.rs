//! Kernel names behind an NVTX range's: `--print-nvtx-rename kernel` prints `forward/sgemm(float
//! *)`, the name of the innermost push/pop range, a slash and the kernel.
//!
//! A range's name may hold slashes and anything else. A kernel's name is a C++ declaration or an
//! identifier, in which a slash only stands between brackets (`enable_if<((8)/(2))>(1), void>::type
//! f<...>`).

/// Splits the cell into the range's name and the kernel's, if it holds both.
///
/// `ranges` are the names of the push/pop ranges around the launch, outermost first, where the
/// report has them: the innermost one that the cell begins with decides where the kernel begins.
/// Without them (a summary has no such column) it is the last slash outside of all brackets.
pub(super) fn split<'a, 'r>(
    cell: &'a str,
    ranges: impl DoubleEndedIterator<Item = &'r str>,
) -> Option<(&'a str, &'a str)> {
    if !cell.contains('/') {
        return None;
    }
    let behind = |range: &str| {
        let kernel = cell.strip_prefix(range)?.strip_prefix('/').filter(|kernel| !kernel.is_empty())?;
        (!range.is_empty()).then(|| (&cell[..range.len()], kernel))
    };
    ranges.rev().find_map(behind).or_else(|| {
        let slash = last_slash(cell.as_bytes())?;
        Some((&cell[..slash], &cell[slash + 1..]))
            .filter(|(range, kernel)| !range.is_empty() && !kernel.is_empty())
    })
}

/// The last slash outside of brackets, searched from the right: the kernel's brackets are balanced,
/// a range's need not be.
fn last_slash(name: &[u8]) -> Option<usize> {
    let mut open = Vec::new();
    for (at, &byte) in name.iter().enumerate().rev() {
        match byte {
            b'/' if open.is_empty() => return Some(at),
            // `unnamed>::f` is what ncu's shortening leaves of `<unnamed>::f`; `->` is no bracket.
            b'>' if cut_namespace(&name[..at]) || name[..at].ends_with(b"-") => {}
            b')' | b'>' | b']' | b'}' => open.push(byte),
            // In parentheses, `<` and `>` may compare: only a `>` that is still open is closed, and
            // a parenthesis closes all inside.
            b'<' if open.last() == Some(&b'>') => drop(open.pop()),
            b'(' => while !matches!(open.pop(), Some(b')') | None) {},
            b'[' => while !matches!(open.pop(), Some(b']') | None) {},
            b'{' => while !matches!(open.pop(), Some(b'}') | None) {},
            _ => {}
        }
    }
    None
}

/// Whether a `>` behind `before` closes a bracket that ncu cut off.
fn cut_namespace(before: &[u8]) -> bool {
    before.strip_suffix(b"unnamed").is_some_and(|rest| !rest.ends_with(b"<"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: &str, ranges: &[&str], expected: Option<(&str, &str)>) {
        assert_eq!(split(cell, ranges.iter().copied()), expected, "{cell} in {ranges:?}");
    }

    #[test]
    fn the_range_is_what_the_report_says_it_is() {
        check("forward/sgemm", &["step", "forward"], Some(("forward", "sgemm")));
        check("a/b/void f<int>(int)", &["a", "a/b"], Some(("a/b", "void f<int>(int)")));
        check("line\nbreak/f", &["line\nbreak"], Some(("line\nbreak", "f")));
        check("loss (a/b/f(float *)", &["loss (a/b"], Some(("loss (a/b", "f(float *)")));
        check("axpy(float *)", &["step"], None);
        check("axpy(float *)", &[""], None);
    }

    #[test]
    fn without_ranges_the_kernel_begins_behind_the_last_bare_slash() {
        check(
            "blocks.0/mlp a/b/nvjet_sm90_tst_64x8_64x16",
            &[],
            Some(("blocks.0/mlp a/b", "nvjet_sm90_tst_64x8_64x16")),
        );
        let kernel = "std::enable_if<(((8) / (2)) > (1)), void>::type f<int, (4)/(2)>(int)";
        check(&format!("loss (a, b)/{kernel}"), &[], Some(("loss (a, b)", kernel)));
        check(kernel, &[], None);
        check(
            "step/unnamed>::saxpy(float, const float *)",
            &[],
            Some(("step", "unnamed>::saxpy(float, const float *)")),
        );
        check("x>/f<[lambda(int) (instance 1)]>(T1)", &[], Some(("x>", "f<[lambda(int) (instance 1)]>(T1)")));
        for odd in ["/f", "f/", "/", "//", "a)/", "\u{e9}/"] {
            split(odd, std::iter::empty());
        }
        check("/f", &[], None);
    }
}
