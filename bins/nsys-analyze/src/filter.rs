//! `--filter-time` and `--filter-nvtx`: a part of a trace instead of all of it.

use flopgap_cli::Failure;
use flopgap_nsys::{Filter, Trace};

use crate::of_nsys;

/// The part of a trace to analyze.
#[derive(clap::Args)]
pub(crate) struct FilterArguments {
    /// Only events that overlap this time, such as `1.5s/2s` or `100ms/`; without a unit,
    /// nanoseconds.
    #[arg(long, value_name = "START/END", allow_hyphen_values = true)]
    filter_time: Option<Filter>,
    /// Only events that overlap a range, on its thread; instances are numbered from 0.
    #[arg(long, value_name = "RANGE[@DOMAIN][/INDEX]", conflicts_with = "filter_time")]
    filter_nvtx: Option<String>,
}

impl FilterArguments {
    /// The trace with this filter applied; nothing without a filter.
    ///
    /// # Errors
    /// When it has no such range.
    pub(crate) fn apply(&self, trace: &Trace) -> Result<Option<Trace>, Failure> {
        let filter = match (&self.filter_nvtx, self.filter_time) {
            (Some(range), _) => trace.filter_of_range(range).map_err(|error| of_nsys(&error))?,
            (None, Some(filter)) => filter,
            (None, None) => return Ok(None),
        };
        Ok(Some(trace.filtered(filter)))
    }
}
