//! The names that a kernel has.

/// Which of a kernel's names a report shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelName {
    /// With template arguments.
    #[default]
    Demangled,
    /// The function's name alone (`:base`).
    Base,
    /// As the compiler wrote it (`:mangled`); the demangled one where it was not recorded.
    Mangled,
}
