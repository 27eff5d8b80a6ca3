//! How messages name launches.

use std::fmt;

use flopgap_ncu::Dim3;

/// The properties by which launches of different runs are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchName {
    /// The kernel's base name.
    pub kernel: String,
    /// Blocks in the grid, x first.
    pub grid: Option<Dim3>,
    /// Threads in a block, x first.
    pub block: Option<Dim3>,
}

impl fmt::Display for LaunchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |dim: Option<Dim3>| match dim {
            Some([x, y, z]) => format!("({x}, {y}, {z})"),
            None => "unknown".to_owned(),
        };
        write!(f, "`{}` with grid {}, block {}", self.kernel, dim(self.grid), dim(self.block))
    }
}

/// A launch by its number within a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedLaunch {
    /// Its number, from 1.
    pub number: usize,
    /// How many launches the phase has.
    pub of: usize,
    /// The kernel's display name.
    pub kernel: String,
}

impl fmt::Display for NumberedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "launch {} of {}, `{}`", self.number, self.of, self.kernel)
    }
}
