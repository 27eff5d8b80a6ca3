//! The shape of a demangled name: its path, template arguments and parameters.
//!
//! A full C++ parser is neither possible (profilers shorten names and lose brackets) nor needed:
//! the path before the template arguments is intact in every spelling met so far, and only its end
//! has to be found.

use std::borrow::Cow;

use crate::normalize::normalize;

/// A parsed name. All parts borrow from the normalized text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    /// The identifiers of the path, namespaces first, without template arguments, `operator()` and
    /// lambdas.
    pub(crate) parts: Vec<&'a str>,
    /// The text between the angle brackets of the last identifier; the rest of the name if they are
    /// unbalanced.
    pub(crate) args: Option<&'a str>,
    /// The text between the parentheses of the last identifier; the rest of the name if they are
    /// unbalanced.
    pub(crate) params: Option<&'a str>,
}

impl<'a> Path<'a> {
    /// The last identifier, if any.
    pub(crate) fn base(&self) -> Option<&'a str> {
        self.parts.last().copied().map(strip_counter)
    }

    /// Parses a normalized name.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut path = Self::default();
        let mut at = 0;
        while let Some(next) = path.component(text, at) {
            at = next;
        }
        path
    }

    /// Reads one component of the path at `at`; the start of the next one, or `None` at the end of
    /// the path.
    fn component(&mut self, text: &'a str, at: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let start = skip_space(bytes, at);
        let first = *bytes.get(start)?;
        if matches!(first, b'{' | b'[') {
            // A lambda: `{lambda(int)#1}` or `[lambda(int) (instance 1)]`.
            let close = if first == b'{' { '}' } else { ']' };
            let end = start + text[start..].find(close)? + 1;
            return after_separator(bytes, end);
        }
        if !is_word(first) {
            return None;
        }
        let end = word_end(bytes, start);
        let named = &text[start..end] != "operator";
        let mut after = end;
        if named {
            self.parts.push(&text[start..end]);
            self.args = None;
            self.params = None;
        } else {
            after = skip_operator(bytes, end);
        }
        let mut called = false;
        loop {
            let (close, inside) = match bytes.get(after) {
                Some(b'<') => (close_bracket(bytes, after), &mut self.args),
                Some(b'(') => {
                    called = true;
                    (close_bracket(bytes, after), &mut self.params)
                }
                Some(b'[') => {
                    // numba's `name[abi:v1,...]`: nothing of use inside.
                    after += text[after..].find(']')? + 1;
                    continue;
                }
                _ => break,
            };
            if named {
                *inside = Some(&text[after + 1..close.unwrap_or(text.len())]);
            }
            after = close? + 1;
        }
        if let Some(next) = after_separator(bytes, after) {
            return Some(next);
        }
        // Words before the path are the return type: `std::enable_if<true, void>::type
        // internal::kernel<...>`.
        let mut next = skip_space(bytes, after);
        while matches!(bytes.get(next), Some(b'*' | b'&')) {
            next = skip_space(bytes, next + 1);
        }
        if !called && named && next > after && bytes.get(next).is_some_and(|&b| is_word(b)) {
            self.parts.clear();
            self.args = None;
            return Some(next);
        }
        None
    }
}

/// The kernel's bare name, the same for every spelling of one kernel.
///
/// Return type, namespaces, anonymous namespaces, template arguments and parameters are stripped;
/// what remains is the last identifier. ncu shortens namespaces differently from run to run, so
/// this is the name by which launches of two recordings are compared. It equals the `shortName`
/// that Nsight Systems stores. A mangled name is demangled first; a lambda or `operator()` gives
/// the name of what encloses it; a counter that numba appends (`kernel$241`) is dropped. Memory
/// operations keep their words (`Memcpy HtoD`), and a text without any identifier is returned
/// whole.
///
/// Applying it twice changes nothing, and it accepts any text.
///
/// ```
/// use flopgap_kernels::base_name;
///
/// let forward = "void at::<unnamed>::distribution_elementwise_grid_stride_kernel<float, 4, void normal_and";
/// let setup = "void unnamed>::distribution_elementwise_grid_stride_kernel<float, 4, void normal_and_tra";
/// assert_eq!(base_name(forward), "distribution_elementwise_grid_stride_kernel");
/// assert_eq!(base_name(setup), base_name(forward));
/// assert_eq!(base_name("_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE"), "Kernel2");
/// ```
pub fn base_name(name: &str) -> Cow<'_, str> {
    resolve(base_once(name))
}

/// A base name can itself be mangled, or end where another counter begins. Each round shortens the
/// text in all but contrived cases, which the bound ends.
pub(crate) fn resolve(mut base: Cow<'_, str>) -> Cow<'_, str> {
    for _ in 0..8 {
        let next = base_once(&base);
        if next == base {
            break;
        }
        base = Cow::Owned(next.into_owned());
    }
    base
}

fn base_once(name: &str) -> Cow<'_, str> {
    match normalize(name) {
        Cow::Borrowed(text) => Cow::Borrowed(base_of(text)),
        Cow::Owned(text) => Cow::Owned(base_of(&text).to_owned()),
    }
}

/// The base name of a normalized text.
pub(crate) fn base_of(text: &str) -> &str {
    memory_operation(text).or_else(|| Path::parse(text).base()).unwrap_or(text)
}

/// `CUDA memcpy HtoD` of `[CUDA memcpy HtoD]` (Nsight), `Memcpy HtoD` of `Memcpy HtoD (Pageable ->
/// Device)` (kineto).
pub(crate) fn memory_operation(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('[').unwrap_or(text);
    if !["CUDA mem", "Memcpy ", "Memset "].iter().any(|start| inside.starts_with(start)) {
        return None;
    }
    let end = inside.find(['(', ']']).unwrap_or(inside.len());
    Some(inside[..end].trim_end())
}

/// Drop the `$241` that numba counts its functions with: it differs from run to run. All of them,
/// if there are several: a base name is its own base name.
fn strip_counter(mut word: &str) -> &str {
    while let Some((name, digits)) = word.rsplit_once('$')
        && !name.is_empty()
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
    {
        word = name;
    }
    word
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'~') || byte >= 0x80
}

/// The end of the word that starts at `start`. A dot belongs to it when a word goes on behind
/// (`fusion.1`).
fn word_end(bytes: &[u8], start: usize) -> usize {
    let mut end = start;
    while let Some(&byte) = bytes.get(end) {
        let joins = byte == b'.' && end > start && bytes.get(end + 1).is_some_and(|&next| is_word(next));
        if !is_word(byte) && !joins {
            break;
        }
        end += 1;
    }
    end
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The place behind `::`, if that is what follows, possibly after ` const`.
fn after_separator(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = skip_space(bytes, at);
    if bytes.get(at..).is_some_and(|rest| rest.starts_with(b"const"))
        && bytes.get(at + 5).is_none_or(|&b| !is_word(b))
    {
        at = skip_space(bytes, at + 5);
    }
    bytes.get(at..).filter(|rest| rest.starts_with(b"::")).map(|_| at + 2)
}

/// The place behind the symbol of an `operator` whose keyword ends at `at`.
fn skip_operator(bytes: &[u8], at: usize) -> usize {
    let mut at = skip_space(bytes, at);
    if bytes.get(at..).is_some_and(|rest| rest.starts_with(b"()")) {
        return at + 2;
    }
    while bytes.get(at).is_some_and(|b| b"+-*/%^&|~!=<>,[]".contains(b)) {
        at += 1;
    }
    word_end(bytes, at)
}

/// The place of the bracket that closes the one at `open` (`<` or `(`).
///
/// Inside parentheses a `>` closes nothing (`(a > b)`), unless a `<` was opened there; a `)` closes
/// every `<` that is still open inside its parentheses.
fn close_bracket(bytes: &[u8], open: usize) -> Option<usize> {
    let mut stack = Vec::new();
    let mut parentheses = 0_usize;
    let mut at = open;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'<' | b'(' => {
                stack.push(byte);
                parentheses += usize::from(byte == b'(');
            }
            b'>' if stack.last() == Some(&b'<') && bytes[at - 1] != b'-' => {
                stack.pop();
            }
            b')' if parentheses > 0 => {
                while stack.pop() != Some(b'(') {}
                parentheses -= 1;
            }
            b'o' if bytes[at..].starts_with(b"operator")
                && (at == 0 || !is_word(bytes[at - 1]))
                && bytes.get(at + 8).is_some_and(|&b| !is_word(b)) =>
            {
                at = skip_operator(bytes, at + 8);
                continue;
            }
            _ => {}
        }
        if stack.is_empty() {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn base(name: &str, expected: &str) {
        assert_eq!(base_name(name), expected, "{name}");
    }

    #[test]
    fn plain_and_qualified_names() {
        base("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn");
        base("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>(T1::Params)", "Kernel2");
        base("unnamed>::saxpy_kernel(float, const float *, float *, int)", "saxpy_kernel");
        base("input_reduce_fusion.1", "input_reduce_fusion.1");
        base("float* make(int)", "make");
    }

    #[test]
    fn return_types_of_templates() {
        base("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(P<float>)", "kernel");
        base("std::enable_if<(1 > 2), void>::type f<int>(int)", "f");
    }

    #[test]
    fn lambdas_and_operators() {
        base("ns::run(int)::{lambda(float)#1}::operator()(float) const", "run");
        base("ns::run(int)::[lambda(float) (instance 1)]::operator ()(float) const", "run");
        base("ns::Functor<int>::operator()(int) const", "Functor");
        base("ns::Functor<&operator< <int> >::apply<float>(int)", "apply");
        base("f(int) const::Local::g()", "g");
    }

    #[test]
    fn numba_names() {
        base("copy_blocked[v1,cw51cXTLSUwv](Array<long long, 1, C, mutable, aligned>)", "copy_blocked");
        base("cudapy::__main__::foo$241(Array<__int64, int=1, C, mutable, aligned>)", "foo");
        base("cudapy::__main__::reduce_kernel[abi:v1,cw51cXTLSU", "reduce_kernel");
    }

    #[test]
    fn unbalanced_brackets() {
        base("void at::native::vectorized_elem", "vectorized_elem");
        base("void at::f<4, void g<int>(int)::[lambda() (instance 1)]>>(int, T2)", "f");
        base("void f<4, std::array<char *, 2", "f");
        base("f(int", "f");
        base("f<a->b>(int)", "f");
    }

    #[test]
    fn memory_operations() {
        base("[CUDA memcpy Host-to-Device]", "CUDA memcpy Host-to-Device");
        base("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD");
        base("Memset (Device)", "Memset");
    }

    #[test]
    fn text_without_a_name() {
        base("", "");
        base("  <<< ", "<<<");
        base("(((", "(((");
        base("operator()(int)", "operator()(int)");
    }

    #[test]
    fn arguments_and_parameters() {
        for (name, parts, args, params) in [
            ("at::f<4, at::g<float>>(int, T2)", &["at", "f"][..], Some("4, at::g<float>"), Some("int, T2")),
            ("f<a->b, 2>(int)", &["f"], Some("a->b, 2"), Some("int")),
            ("copy_blocked[v1,cw51](Array<double, 1>)", &["copy_blocked"], None, Some("Array<double, 1>")),
        ] {
            let path = Path::parse(name);
            assert_eq!((&path.parts[..], path.args, path.params), (parts, args, params), "{name}");
        }
    }
}
