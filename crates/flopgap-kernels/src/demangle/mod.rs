//! Demangles names the way NVIDIA's tools print them.
//!
//! Nsight Systems and Nsight Compute write kernel names in a style that no other demangler has:
//! `void spin<(int)3>(float *, const T1 *)`. What compares or writes such names needs the same
//! text.

mod cursor;
mod declarator;
mod expressions;
mod float;
mod names;
mod operators;
mod parse;
mod print;
mod tree;
mod types;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::parse::Parsed;

/// Longest mangled name that is read.
const LENGTH: usize = 64 * 1024;

/// A kernel's name as Nsight Systems stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demangled<'a> {
    /// With scopes, template arguments and parameters: its column `demangledName`.
    pub full: Cow<'a, str>,
    /// The bare name of the function: its column `shortName`.
    pub short: Cow<'a, str>,
}

/// The text that NVIDIA's tools print for a mangled name. A name that is not mangled, such as that
/// of an `extern "C"` function or of a Triton kernel, stands for itself.
///
/// `None` where a mangled name cannot be read: it is damaged, has a construct that these tools
/// leave mangled themselves (static functions of other compilers, template parameters of C++20),
/// names something else than a function or a variable, or has an absurd length when printed.
///
/// ```
/// use flopgap_kernels::demangle_nvidia;
///
/// let name = demangle_nvidia("_ZN3app4spinILi3EfEEvPKT0_").unwrap();
/// assert_eq!(name.full, "void app::spin<(int)3, float>(const T2 *)");
/// assert_eq!(name.short, "spin");
///
/// assert_eq!(demangle_nvidia("triton_poi_fused_add_0").unwrap().full, "triton_poi_fused_add_0");
/// assert_eq!(demangle_nvidia("_ZN3app"), None);
/// ```
pub fn demangle_nvidia(name: &str) -> Option<Demangled<'_>> {
    if !name.starts_with("_Z") {
        return Some(Demangled { full: name.into(), short: name.into() });
    }
    let Parsed { tree, root, .. } = parse(name).filter(|parsed| !parsed.has_static)?;
    let full = print::print(&tree, root)?.into();
    let short = print::print_base(&tree, root)?.into();
    Some(Demangled { full, short })
}

/// The demangled form of a mangled name (`_Z...`, as the compiler writes it), of static functions
/// too; `None` where it is not mangled, malformed, or absurdly long.
///
/// ```
/// let name = flopgap_kernels::demangle("_ZN8cublasLt19splitKreduce_kernelILi32EEEvPf");
/// assert_eq!(name.as_deref(), Some("void cublasLt::splitKreduce_kernel<(int)32>(float *)"));
/// assert_eq!(flopgap_kernels::demangle("sgemm"), None);
/// ```
pub fn demangle(name: &str) -> Option<String> {
    let Parsed { tree, root, .. } = parse(name)?;
    print::print(&tree, root)
}

fn parse(name: &str) -> Option<Parsed<'_>> {
    if name.len() > LENGTH { None } else { parse::parse(name) }
}
