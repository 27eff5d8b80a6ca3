//! Kernels by name, of a whole trace or of what was launched within a range.

use std::sync::Arc;

use crate::containment::for_each_containing;
use crate::hierarchy::Span;
use crate::launches::Launches;
use crate::report::Groups;
use crate::tables::KERNEL;
use crate::{Error, KernelName, Summary, Trace};

impl Trace {
    /// The GPU times of each kernel by demangled name, largest total first: of all kernels, or of those launched within a range
    /// that is called `range`.
    ///
    /// A range is named as it was marked (`forward`), or with its domain (`model:forward`). A kernel belongs to it when its whole
    /// launch call lies in one of the range's instances, on the thread that opened it, and counts once however many contain it.
    /// Threads that have no range of their own, such as PyTorch's backward thread, launch nothing within any.
    ///
    /// # Errors
    /// [`Error::NoTable`] without kernels (or, for a range, without annotations or API calls); [`Error::NoRange`] when no range has
    /// that name.
    pub fn kernel_times(&self, range: Option<&str>) -> Result<Vec<(Arc<str>, Summary)>, Error> {
        self.require(&KERNEL)?;
        let mut groups: Groups<i64> = Groups::default();
        match range {
            None => self.kernels(|kernel| {
                groups.add(kernel.demangled, kernel.at.duration());
            })?,
            Some(range) => {
                let spans = self.spans_named(range)?;
                let launches = Launches::read(self)?;
                let work = launches.kernels(self, KernelName::Demangled, |_, _| {})?;
                let calls: Vec<Span> = work.iter().map(|launch| launch.span).collect();
                for_each_containing(&spans, &calls, |at, containing| {
                    if !containing.is_empty() {
                        for &(name, duration) in &work[at].kernels {
                            groups.add(name, duration);
                        }
                    }
                });
            }
        }
        Ok(groups.rekey(|id| self.string_or_id(id))?.summaries())
    }

    /// The instances of a range.
    fn spans_named(&self, range: &str) -> Result<Vec<Span>, Error> {
        let nvtx = self.nvtx_ranges()?;
        let in_default_domain = format!(":{range}");
        let named = nvtx.ranges.iter().filter(|candidate| {
            let name = nvtx.names.text(candidate.name).as_ref();
            !candidate.crosses_threads && (name == range || name == in_default_domain)
        });
        let spans: Vec<Span> = named
            .map(|range| Span {
                id: range.id,
                start: range.start,
                end: range.end.unwrap_or(nvtx.last_range),
                thread: range.thread,
            })
            .collect();
        if spans.is_empty() {
            return Err(Error::NoRange { path: self.path().to_owned(), range: range.to_owned() });
        }
        Ok(spans)
    }
}
