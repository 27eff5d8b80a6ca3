//! Detects launches that a report lists twice.

use std::path::Path;

use flopgap_ncu::{LaunchView, Symbol};
use rustc_hash::FxHashMap;

use crate::PhaseError;

/// Ids that lie next to each other are kept together: ncu numbers launches from 0.
const PAGE: usize = 16;

/// Host, process and the first digits of an id.
type Page = (Symbol, Option<u64>, u64);

/// Where each launch of a report was met, by process and id.
#[derive(Debug, Default)]
pub(crate) struct SeenLaunches {
    /// One more than the position, so that 0 is a launch that was not met, and the kernel.
    pages: FxHashMap<Page, [(u64, Symbol); PAGE]>,
}

impl SeenLaunches {
    /// Notes a launch.
    ///
    /// A file may hold the reports of several processes, and of several runs of one program; all
    /// of them number their launches from 0. The same id of the same process on the same host is
    /// the same launch, unless its kernel is another: then reports were put together, in which a
    /// process of a container often has the same number.
    ///
    /// # Errors
    /// [`PhaseError::RepeatedLaunch`] if it was met before.
    pub(crate) fn note(&mut self, path: &Path, launch: LaunchView<'_>) -> Result<(), PhaseError> {
        let Some(id) = launch.id else { return Ok(()) };
        let key = (launch.host, launch.process_id, id / PAGE as u64);
        let page = self.pages.entry(key).or_insert([(0, Symbol::EMPTY); PAGE]);
        #[allow(clippy::cast_possible_truncation)] // less than a page
        let (first, kernel) = &mut page[(id % PAGE as u64) as usize];
        if *first > 0 && *kernel == launch.name {
            return Err(PhaseError::RepeatedLaunch {
                path: path.to_owned(),
                id,
                process: launch.process_id,
                first: *first - 1,
                second: launch.position,
            });
        }
        (*first, *kernel) = (launch.position + 1, launch.name);
        Ok(())
    }
}
