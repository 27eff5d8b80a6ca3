//! Detects launches that a report lists twice.

use std::path::Path;

use flopgap_ncu::{LaunchView, Symbol};
use rustc_hash::FxHashMap;

use crate::PhaseError;

/// Ids that lie next to each other are kept together: ncu numbers launches from 0.
const PAGE: usize = 16;

/// Where each launch of a report was met, by process and id.
#[derive(Debug, Default)]
pub(crate) struct SeenLaunches {
    /// One more than the position, so that 0 is a launch that was not met.
    pages: FxHashMap<(Symbol, Option<u64>, u64), [u64; PAGE]>,
}

impl SeenLaunches {
    /// Notes a launch.
    ///
    /// A file may hold the reports of several processes, and of several runs of one program; all of
    /// them number their launches from 0. The same id of the same process on the same host is the
    /// same launch.
    ///
    /// # Errors
    /// [`PhaseError::RepeatedLaunch`] if it was met before.
    pub(crate) fn note(&mut self, path: &Path, launch: LaunchView<'_>) -> Result<(), PhaseError> {
        let Some(id) = launch.id else { return Ok(()) };
        let page = self.pages.entry((launch.host, launch.process_id, id / PAGE as u64)).or_default();
        #[allow(clippy::cast_possible_truncation)] // less than a page
        let first = &mut page[(id % PAGE as u64) as usize];
        if *first > 0 {
            return Err(PhaseError::RepeatedLaunch {
                path: path.to_owned(),
                id,
                process: launch.process_id,
                first: *first - 1,
                second: launch.position,
            });
        }
        *first = launch.position + 1;
        Ok(())
    }
}
