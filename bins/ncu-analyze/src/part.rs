//! A part of what is analyzed.

use std::path::PathBuf;

use flopgap_phases::Profile;

/// The kernels of one report, record or run.
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) profile: Profile,
    /// The selected networks of a run directory.
    pub(crate) configurations: Option<usize>,
}
