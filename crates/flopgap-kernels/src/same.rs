//! Whether two spellings can be of one kernel.

use crate::normalize::normalize;
use crate::path::base_of;

/// How two names of kernels compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sameness {
    /// Two spellings of one kernel: bare name and template arguments agree, and namespaces as far
    /// as both have them.
    Same,
    /// The bare names agree, and one of the names is nothing but that: other template arguments
    /// would not be seen.
    Bare,
    /// Different kernels.
    Different,
}

/// Compares two names of kernels, however profilers spell them.
///
/// Profilers leave out namespaces and write parameters as `T1 *`, flags as `0` or `false`, and
/// casts before numbers; return types, parameters and these differences are ignored. Template
/// arguments are not: `vectorized_elementwise_kernel` of a sigmoid is another kernel than that of a
/// copy.
///
/// ```
/// use flopgap_kernels::{Sameness, compare_names};
///
/// let cupti = "void cublasLt::splitKreduce_kernel<32, 16, int, float, false>(cublasLt::Params<float>, float const*)";
/// let ncu = "void splitKreduce_kernel<(int)32, (int)16, int, float, (bool)0>(Params<T4>, const T4 *)";
/// assert_eq!(compare_names(cupti, ncu), Sameness::Same);
/// assert_eq!(compare_names(cupti, &ncu.replace("(int)16", "(int)8")), Sameness::Different);
/// assert_eq!(compare_names(cupti, "splitKreduce_kernel"), Sameness::Bare);
/// ```
pub fn compare_names(a: &str, b: &str) -> Sameness {
    if a == b {
        return Sameness::Same;
    }
    let (a, b) = (normalize(a), normalize(b));
    let [a, b] = [Name::new(&a), Name::new(&b)];
    let is_part = |part: &[&str], whole: &[&str]| {
        let mut rest = whole.iter();
        part.iter().all(|one| rest.any(|other| other == one))
    };
    let spaces = is_part(&a.spaces, &b.spaces) || is_part(&b.spaces, &a.spaces);
    if a.base != b.base || !spaces {
        return Sameness::Different;
    }
    match (a.arguments, b.arguments) {
        (None, None) => Sameness::Same,
        (Some(a), Some(b)) if agree(&tokens(a), &tokens(b)) => Sameness::Same,
        (Some(_), Some(_)) => Sameness::Different,
        _ => Sameness::Bare,
    }
}

/// The parts of a name that make it that kernel's.
struct Name<'a> {
    spaces: Vec<&'a str>,
    base: &'a str,
    /// Between the angle brackets behind the base.
    arguments: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn new(text: &'a str) -> Self {
        let base = base_of(text);
        let at = text.match_indices(base).map(|(at, _)| at).find(|&at| is_function(text, at, base.len()));
        let Some(at) = at else { return Name { spaces: Vec::new(), base, arguments: None } };
        let (before, behind) = (&text[..at], &text[at + base.len()..]);
        // Behind a return type, which may have spaces and brackets of its own.
        let path = before.rsplit([' ', '>']).next().unwrap_or_default();
        let spaces = path.split("::").filter(|space| !space.is_empty()).collect();
        Name { spaces, base, arguments: bracketed(behind) }
    }
}

/// Whether the word at `at` is the function's own name: outside of all brackets, and not part of a
/// word.
fn is_function(text: &str, at: usize, length: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    let depth = text[..at].bytes().fold(0_i32, |depth, byte| match byte {
        b'<' | b'(' => depth + 1,
        b'>' | b')' => depth - 1,
        _ => depth,
    });
    let whole =
        !word(at.checked_sub(1).and_then(|before| bytes.get(before))) && !word(bytes.get(at + length));
    depth == 0 && whole
}

/// What the angle brackets at the beginning of a text hold, up to its end where they are cut off.
fn bracketed(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let mut depth = 1;
    for (at, c) in inside.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inside[..at]);
        }
    }
    Some(inside)
}

/// Types that precede a number as a cast.
const CASTS: [&str; 6] = ["(int)", "(bool)", "(unsigned int)", "(unsigned long)", "(long)", "(char)"];

/// The words of template arguments that all profilers write: identifiers without their namespaces,
/// and numbers.
fn tokens(arguments: &str) -> Vec<String> {
    let mut text = arguments.to_owned();
    for cast in CASTS {
        text = text.replace(cast, "");
    }
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_alphanumeric() || c == '_' || c == '*' || c == '&') {
        rest = &rest[start..];
        let length = match rest.find(|c: char| !c.is_alphanumeric() && c != '_') {
            Some(0) => 1,
            Some(length) => length,
            None => rest.len(),
        };
        let (word, behind) = rest.split_at(length);
        rest = behind;
        // A namespace: what comes next names the thing.
        if behind.starts_with("::") || matches!(word, "const" | "instance" | "unnamed") {
            continue;
        }
        words.push(match word {
            "true" => "1".to_owned(),
            "false" => "0".to_owned(),
            word => word.to_owned(),
        });
    }
    words
}

/// Whether the words agree, where ncu's `T2` stands for one or more of any.
fn agree(a: &[String], b: &[String]) -> bool {
    let is_placeholder = |word: &String| {
        word.strip_prefix('T')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
    };
    match (a.split_first(), b.split_first()) {
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
        (Some((one, after)), Some((other, behind))) => {
            if is_placeholder(one) || is_placeholder(other) {
                let rest = |words: &[String], others: &[String]| {
                    (1..=words.len()).any(|taken| agree(&words[taken..], others))
                };
                return if is_placeholder(one) { rest(b, after) } else { rest(a, behind) };
            }
            one == other && agree(after, behind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As CUPTI and ncu spell kernels of one network, recorded on one GPU.
    #[test]
    fn spellings_of_one_kernel_are_the_same() {
        for (a, b) in [
            ("void lib::gemm<float>(T1 *)", "lib::gemm<float>(float*)"),
            ("sigmoid", "sigmoid()"),
            (
                "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(cutlass_80_simt_sgemm_64x64_8x5_nn_align1::Params)",
                "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(T1::Params)",
            ),
            (
                "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, false, float, float, float, true, false, false, false>(cublasLt::cublasSplitKParams<float>, float const*)",
                "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, 0, float, float, float, 1, 0, 0, 0>(cublasLt::cublasSplitKParams<T6>, const T4 *)",
            ),
            (
                "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, false, 7>(cublasGemvParamsEx<int, float>)",
                "std::enable_if<!0, void>::type internal::gemvx::kernel<int, int, float, (bool)0, (int)7>(T9)",
            ),
            (
                "void at::vectorized_elementwise_kernel<4, at::sigmoid_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)], std::array<char *, 2>>(int, T2, T3)",
                "void at::native::vectorized_elementwise_kernel<(int)4, at::native::sigmoid_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}, std::array<char*, (unsigned long)2>>(int, A, B)",
            ),
            (
                "void k<void impl<float, float>(at::TensorIteratorBase &, T2)::[lambda(float)]>(int)",
                "void k<void impl<float, float>(at::TensorIteratorBase&, unsigned long)::[lambda(float)]>(int)",
            ),
            ("_ZN8cublasLt19splitKreduce_kernelILi32EEEvPf", "void splitKreduce_kernel<32>(float*)"),
        ] {
            assert_eq!(compare_names(a, b), Sameness::Same, "{a}\n{b}");
        }
    }

    #[test]
    fn unlike_kernels_with_one_bare_name_are_different() {
        let generic = |operation: &str| {
            format!(
                "void at::native::vectorized_elementwise_kernel<4, at::native::{operation}, std::array<char *, 2>>(int)"
            )
        };
        for (a, b) in [
            (
                generic("sigmoid_kernel_cuda(at::TensorIteratorBase &)"),
                generic("tanh_kernel_cuda(at::TensorIteratorBase &)"),
            ),
            ("gemm<float>".to_owned(), "gemm<double>".to_owned()),
            ("gemm<128, 64>".to_owned(), "gemm<64, 128>".to_owned()),
            ("gemm<float*>".to_owned(), "gemm<float>".to_owned()),
            ("one::gemm<float>".to_owned(), "other::gemm<float>".to_owned()),
            ("sigmoid".to_owned(), "tanh".to_owned()),
            (
                "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>".to_owned(),
                "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>".to_owned(),
            ),
        ] {
            assert_eq!(compare_names(&a, &b), Sameness::Different, "{a}\n{b}");
        }
    }

    #[test]
    fn a_bare_name_says_no_more_than_it_has() {
        assert_eq!(compare_names("gemm", "void lib::gemm<float>(float*)"), Sameness::Bare);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_compared(a in ".{0,60}", b in ".{0,60}") {
            proptest::prop_assert_eq!(compare_names(&a, &b), compare_names(&b, &a));
            proptest::prop_assert_eq!(compare_names(&a, &a), Sameness::Same);
        }
    }
}
