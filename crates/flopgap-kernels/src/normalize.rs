//! Normalizes the spellings that tools use for the same kernel name.

use std::borrow::Cow;

use crate::demangle::demangle;

/// Longest mangled name that is read.
const DEMANGLE_LIMIT: usize = 64 * 1024;

/// How tools spell an anonymous namespace. `unnamed>::` is what ncu's shortening leaves of
/// `<unnamed>::`, so it must come after it.
const ANONYMOUS: [&str; 6] = [
    "<unnamed>::",
    "(anonymous namespace)::",
    "unnamed>::",
    "{anonymous}::",
    "(anonymous)::",
    "`anonymous namespace'::",
];

/// Prefix of the name that nvcc gives to a file's anonymous namespace, for demanglers that print it
/// raw.
const GLOBAL_NAMESPACE: &str = "_GLOBAL__N_";

/// The demangled name without surrounding space, leading `void`, and anonymous namespaces.
pub(crate) fn normalize(raw: &str) -> Cow<'_, str> {
    let name = strip_void(raw);
    let name = match demangle(name).or_else(|| outline(name)) {
        Some(text) => Cow::Owned(strip_void(&text).to_owned()),
        None => Cow::Borrowed(name),
    };
    match strip_anonymous(&name) {
        Some(text) => Cow::Owned(strip_void(&text).to_owned()),
        None => name,
    }
}

/// What can be read of a mangled name that no demangler takes, because a profiler cut it off or the
/// compiler is newer: its path and, as template arguments, the names that follow. Types without a
/// name (`float`, numbers) are lost, and with them their order.
fn outline(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_ZN").filter(|_| name.len() <= DEMANGLE_LIMIT)?;
    let mut path = Vec::new();
    while let Some((word, after)) = source_name(rest) {
        path.push(word);
        rest = after;
    }
    if path.is_empty() || !rest.starts_with(['I', 'E']) {
        return None;
    }
    let mut words = Vec::new();
    while let Some(next) = rest.chars().next() {
        rest = match source_name(rest) {
            Some((word, after)) => {
                words.push(word);
                after
            }
            // The digits of a literal (`Li128E`) and of a reference (`S3_`) are no length.
            None if next == 'L' && !rest.starts_with("L_Z") => rest.find('E').map_or("", |end| &rest[end..]),
            None if matches!(next, 'S' | 'T') => {
                let id =
                    rest[1..].bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
                if rest[1 + id..].starts_with('_') { &rest[id + 2..] } else { &rest[1..] }
            }
            None => &rest[next.len_utf8()..],
        };
    }
    let path = path.join("::");
    Some(if words.is_empty() { path } else { format!("{path}<{}>", words.join(", ")) })
}

/// A name behind its length, and the text after it: `8cublasLtE` is `cublasLt` and `E`.
fn source_name(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok().filter(|&length| length > 0)?;
    let word = text.get(digits..digits.checked_add(length)?)?;
    let is_name = word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !word.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| (word, &text[digits + length..]))
}

fn strip_void(name: &str) -> &str {
    let mut name = name.trim();
    while let Some(rest) = name.strip_prefix("void ") {
        name = rest.trim_start();
    }
    // The remainder of a lone `void `.
    if name == "void" { "" } else { name }
}

/// The name without anonymous namespaces; `None` where it has none.
fn strip_anonymous(name: &str) -> Option<String> {
    let mut text: Option<String> = None;
    loop {
        let current = text.as_deref().unwrap_or(name);
        // Removing one can join the halves of another, so repeat until none is left.
        let shorter = ANONYMOUS
            .iter()
            .find(|spelling| current.contains(**spelling))
            .map(|spelling| current.replace(spelling, ""))
            .or_else(|| strip_global(current));
        match shorter {
            Some(shorter) => text = Some(shorter),
            None => return text,
        }
    }
}

fn strip_global(name: &str) -> Option<String> {
    let mut from = 0;
    while let Some(found) = name[from..].find(GLOBAL_NAMESPACE) {
        let start = from + found;
        let rest = &name[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if rest[end..].starts_with("::") {
            return Some([&name[..start], &rest[end + 2..]].concat());
        }
        from = start + end;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn every_spelling_of_an_anonymous_namespace_vanishes() {
        for name in [
            "void at::<unnamed>::f<int>(int)",
            "at::(anonymous namespace)::f<int>(int)",
            "  void  at::unnamed>::f<int>(int) ",
            "at::_GLOBAL__N__7d4ed096_23_ActivationSiluKernel_cu_751192d7_15595::f<int>(int)",
            "void void at::f<int>(int)",
            "at::<unn<unnamed>::amed>::f<int>(int)",
        ] {
            assert_eq!(normalize(name), "at::f<int>(int)", "{name}");
        }
    }

    #[test]
    fn mangled_names_are_demangled_and_others_left() {
        assert_eq!(normalize("_Z5saxpyPdS_S_di"), "saxpy(double *, double *, double *, double, int)");
        assert_eq!(normalize("_Z4spinILi3EEvPfi"), "spin<(int)3>(float *, int)");
        assert_eq!(normalize("_Zebra"), "_Zebra");
    }

    /// `Tn` is newer than the demangler; the second was cut off by the profiler.
    #[test]
    fn of_names_that_cannot_be_demangled_the_path_and_the_names_remain() {
        for (name, expected) in [
            (
                "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
                "sgl_hip::activation::act_and_mul_kernel<__hip_bfloat16, silu>",
            ),
            (
                "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_cshuffle_v3ILi128ELi16ENS_8Seq",
                "ck::tensor_operation::device::kernel_grouped_conv_fwd_xdl_cshuffle_v3<GridwiseGemm_xdl_cshuffle_v3>",
            ),
        ] {
            assert_eq!(demangle(name), None);
            assert_eq!(normalize(name), expected);
        }
        for name in ["_ZN", "_ZN3", "_ZN3ab", "_ZN3abc", "_ZN99999999999999999999aE", "_ZN0E"] {
            assert_eq!(normalize(name), name);
        }
    }

    #[test]
    fn an_exploding_name_is_left_mangled() {
        // Each parameter is a pair of the one before it: 2^30 characters if printed.
        let mut name = "_Z1f1pIiiE".to_owned();
        for id in "0123456789ABCDEFGHIJKLMNOPQRST".chars() {
            write!(name, "S_IS{id}_S{id}_E").unwrap();
        }
        assert_eq!(normalize(&name), name);
    }
}
