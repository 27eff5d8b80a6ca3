//! What is counted, and how often.

use std::ffi::{CString, c_void};
use std::sync::atomic::Ordering;

use super::c;
use super::cupti::Cupti;
use super::format::{header, severity};
use super::profiler::{Counter, Functions};
use super::recorder::Recorder;

/// How often each is counted: whether counts repeat shows from the second time on.
pub(super) const TIMES: u8 = 2;

/// What is counted, and by what.
pub(super) struct Plan {
    pub(super) functions: Functions,
    pub(super) chip: CString,
    /// Metrics that are counted together.
    pub(super) groups: Vec<Vec<CString>>,
}

impl Plan {
    /// Begins to count a group on a context, which is current on this thread.
    pub(super) fn begin(&self, cupti: &Cupti, group: usize, context: *mut c_void) -> Result<Counter, String> {
        Counter::begin(cupti, &self.functions, &self.chip, &self.groups[group], context)
    }

    /// Instructions of the shader cores are not counted in graphs.
    pub(super) fn is_of_shader_cores(&self, group: usize) -> bool {
        self.groups[group].iter().any(|metric| metric.to_bytes().windows(6).any(|word| word == b"_sass_"))
    }
}

/// Says why nothing is counted.
pub(super) fn not_counted(recorder: &Recorder, reason: &str) {
    recorder.file.number(header::NOT_COUNTED).store(c::now(), Ordering::Release);
    recorder.message(severity::WARNING, &format!("kernels are not counted: {reason}"));
}
