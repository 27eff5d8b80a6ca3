//! Hardware counters of kernels that this process launches, without a profiler around it.
//!
//! [`CounterSession`] asks CUPTI's range profiler. It counts launch by launch
//! ([`CounterSource::per_launch`]) or over named regions ([`CounterSource::per_region`]). Metrics
//! that fit into one pass are counted while the work runs once; others need the work to be run
//! again, from the same inputs, [`CounterSource::passes`] times. Kernels are never replayed behind
//! the caller's back: that saves and restores all memory around every launch.
//!
//! Names of metrics are those of Nsight Compute, and so are the counts:
//! `smsp__sass_thread_inst_executed_op_ffma_pred_on.sum`.
//!
//! # Whether the counts are right
//!
//! While something else in the process traces kernels with CUPTI (`torch.profiler` does), CUPTI
//! counts 0 instructions without an error, and what the hardware counts is too much. So a session
//! counts a kernel of known counts when it is opened, and again with every measurement: as a
//! further row where additions, multiplications or fused multiply-adds of 32-bit floats are among
//! the metrics, else by a measurement of its own after it, which costs more.
//! [`CounterError::Traced`] says when it was counted wrong. Tracing that begins and ends within one
//! measurement is not found.
//!
//! # What it costs
//!
//! CUPTI 13.0 takes time for every row that a measurement has *room* for, not only for those that
//! it fills, and 0.2 s to begin with other room or to change between launches and regions. So give
//! the number of launches if it is known, and do not alternate between
//! [`per_launch`](CounterSource::per_launch) and [`per_region`](CounterSource::per_region) in a
//! loop. The crate's README has figures.

mod calibration;
mod chip;
mod cupti;
mod exact;
mod group;
mod launches;
mod pass;
mod preset;
mod range;
mod session;
mod tally;

pub use chip::{Chip, MetricPlan};
pub use cupti::cupti_version;
pub use group::Group;
pub use preset::Preset;
pub use session::{Checks, CounterSession, SessionOptions};

use std::error::Error;
use std::sync::Arc;

use crate::error::GpuError;
use crate::library::LibraryError;
use flopgap_files::{ErrorKind, Hint, Text};

/// The subject of a row of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rows {
    /// A launch. Launches run one after the other, each alone, also those of several threads.
    Launches,
    /// A region that the work names. Kernels in it may overlap.
    Regions,
}

/// Counts the work of a GPU.
///
/// The trait exists so that what is built on counters (a sweep that survives being killed, say) can
/// be tested without a GPU.
pub trait CounterSource {
    /// The metrics, in the order of the counts.
    fn metrics(&self) -> &[String];

    /// How often the work is run for one measurement.
    fn passes(&self) -> usize;

    /// Runs `work` and returns the counts of every launch, in order. Launches run one after the
    /// other, each alone.
    ///
    /// `expected` is how many launches room is made for, at most 512. There is no limit: in one
    /// pass, room is made again for as many, and of several passes, the first counts the launches.
    /// Room costs time and the GPU's memory and is kept for the next call, so give the number of
    /// launches if it is known. Regions that `work` enters name the launches in them, and may be
    /// nested. Launches may come from any thread; those of several threads wait for each other.
    ///
    /// # Errors
    /// What `work` returns, as [`CounterError::Work`]; launches that cannot be distinguished,
    /// because they came from a graph. The source can be used again after any error.
    fn per_launch(&mut self, expected: usize, work: &mut Work<'_>)
    -> Result<Vec<LaunchCounts>, CounterError>;

    /// Runs `work` and returns its launches in order, with empty counts: it runs as it would
    /// without this source. By them, a caller finds what it has counted before.
    ///
    /// # Errors
    /// As [`CounterSource::per_launch`].
    fn uncounted(&mut self, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError>;

    /// Runs `work` and returns the counts of every region that it enters, in order. Within a
    /// region, kernels may overlap. Graphs may be launched where hardware events are counted
    /// (bytes, time), not where instructions are ([`CounterError::Graphs`]). What is launched
    /// outside regions is not counted. Where regions are nested, the innermost has the launches:
    /// the counts of the outer one are those of the rest. `expected` is as for launches: a region
    /// takes a row, and one more each time that another one interrupts it.
    ///
    /// # Errors
    /// What `work` returns, as [`CounterError::Work`].
    fn per_region(&mut self, expected: usize, work: &mut Work<'_>)
    -> Result<Vec<RegionCounts>, CounterError>;
}

/// Work to be counted. It is called once for each pass and must do the same each time.
pub type Work<'a> = dyn FnMut(&mut dyn Regions) -> Result<(), WorkError> + 'a;

/// The error of failed work.
pub type WorkError = Box<dyn Error + Send + Sync>;

/// Passed to the work, which uses it to mark regions.
pub trait Regions {
    /// Begins a region.
    ///
    /// # Errors
    /// As [`CounterSource::per_region`].
    fn enter(&mut self, name: &str) -> Result<(), CounterError>;

    /// Ends the region that began last.
    ///
    /// # Errors
    /// [`CounterError::NoRegion`] where none is open.
    fn leave(&mut self) -> Result<(), CounterError>;
}

impl dyn Regions + '_ {
    /// Runs `inner` in a region of this name, which ends also when `inner` fails.
    ///
    /// # Errors
    /// What `inner` returns, and as [`Regions::enter`].
    pub fn within<T, E: From<CounterError>>(
        &mut self,
        name: &str,
        inner: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.enter(name)?;
        let result = inner(self);
        let left = self.leave();
        let value = result?;
        left?;
        Ok(value)
    }
}

/// A kernel as it was launched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    /// The name of the kernel as the compiler wrote it, mangled if it is C++.
    pub symbol: Arc<str>,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
}

/// The counts of one launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchCounts {
    /// The launch.
    pub launch: Launch,
    /// The region that it was launched in; nested ones are joined with `/`.
    pub region: Option<Arc<str>>,
    /// The counts, in the order of [`CounterSource::metrics`].
    pub counts: Vec<u64>,
}

/// The counts of one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionCounts {
    /// The name that the work gave it.
    pub region: Arc<str>,
    /// The launches in it, except those of graphs.
    pub launches: Vec<Launch>,
    /// How many graphs were launched in it.
    pub graphs: usize,
    /// The counts, in the order of [`CounterSource::metrics`].
    pub counts: Vec<u64>,
}

/// An error of counting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// A library is missing or too old.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The GPU failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// This user may not read the counters.
    #[error("no permission to read the GPU's counters ({function})")]
    Privileges {
        /// The function of CUPTI that refused.
        function: &'static str,
    },
    /// The counters are in use by another program or another session.
    #[error("the GPU's counters are in use ({function}: {message})")]
    Busy {
        /// The function of CUPTI that refused.
        function: &'static str,
        /// CUPTI's message.
        message: String,
    },
    /// Something else in this process traces kernels (CUPTI's activity `CONCURRENT_KERNEL`): CUPTI
    /// then counts 0 instructions, or too many.
    #[error(
        "the GPU's counters are wrong: {found} for {metric} of a kernel that executes {expected}; something else in \
         this process traces kernels with CUPTI"
    )]
    Traced {
        /// The metric.
        metric: String,
        /// The count that the kernel has.
        expected: u64,
        /// The measured count.
        found: f64,
    },
    /// Counters cannot be read on this kind of GPU or machine.
    #[error("counters are not supported here: {message} ({function})")]
    Unsupported {
        /// The function of CUPTI that refused.
        function: &'static str,
        /// CUPTI's message.
        message: String,
    },
    /// CUPTI does not know the chip.
    #[error("CUPTI does not know the chip {chip:?}")]
    UnknownChip {
        /// The requested name.
        chip: String,
    },
    /// The list of metrics is empty.
    #[error("no metric to count")]
    NoMetric,
    /// A metric is listed twice.
    #[error("{metric} is listed twice")]
    Twice {
        /// The metric.
        metric: String,
    },
    /// The chip has no such metric.
    #[error("{chip} has no metric {metric}{}", did_you_mean(suggestions))]
    UnknownMetric {
        /// The requested metric.
        metric: String,
        /// The chip.
        chip: String,
        /// Metrics of the chip with a similar name, best first.
        suggestions: Vec<String>,
    },
    /// The metric exists, but is not a count.
    #[error(
        "{metric} is not a count: only counters with .sum, .min or .max are{}",
        did_you_mean(suggestions)
    )]
    NotACount {
        /// The requested metric.
        metric: String,
        /// Counts of the same quantity.
        suggestions: Vec<String>,
    },
    /// A counter did not give a whole number that 64-bit floats (which CUPTI returns) hold exactly.
    #[error("{metric} of range {range} is {value}, which is no exact count")]
    NotExact {
        /// The metric.
        metric: String,
        /// The launch or region, from 0.
        range: usize,
        /// The value from CUPTI.
        value: f64,
    },
    /// More launches or regions than were expected, where several passes count them.
    #[error("{found} launches or regions, but {expected} were expected, and counting takes several passes")]
    TooMany {
        /// How many were expected.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// Not every launch has its row: counts could go to the wrong kernel.
    #[error("{launches} launches or regions, but {ranges} rows of counts")]
    Mismatch {
        /// Launches seen or regions entered.
        launches: usize,
        /// Rows that CUPTI returned.
        ranges: usize,
    },
    /// Rows came back under unexpected names.
    #[error("row {index} of the counts is named {name:?}")]
    Order {
        /// The row, from 0.
        index: usize,
        /// Its name.
        name: String,
    },
    /// A graph was launched while launches or instructions were counted.
    #[error(
        "{graphs} CUDA graph(s) launched: CUPTI counts neither the launches nor the instructions in a graph"
    )]
    Graphs {
        /// How many.
        graphs: usize,
    },
    /// The work did not do the same in every pass.
    #[error("pass {pass} launched {what}: all passes must launch the same")]
    NotRepeatable {
        /// The pass, from 1.
        pass: usize,
        /// The difference.
        what: String,
    },
    /// More passes than were planned.
    #[error("CUPTI wants more than the {planned} passes that it planned")]
    TooManyPasses {
        /// Passes planned.
        planned: usize,
    },
    /// A region was left although none was open, or is still open at the end; a step of a
    /// measurement that had not begun.
    #[error("{what}")]
    NoRegion {
        /// The problem.
        what: String,
    },
    /// CUPTI refused a call.
    #[error("{function}: {message} (CUPTI error {code})")]
    Cupti {
        /// The function.
        function: &'static str,
        /// CUPTI's error code.
        code: u32,
        /// CUPTI's message.
        message: String,
    },
    /// The work failed.
    #[error("{0}")]
    Work(#[source] WorkError),
}

impl Hint for CounterError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            CounterError::Library(error) => return error.hint(),
            CounterError::Gpu(error) => return error.hint(),
            CounterError::Privileges { .. } => Some(
                "run as root or with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN), or let all users read counters: \
                 `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, then reload the driver",
            ),
            CounterError::Busy { .. } => Some(
                "count one GPU in a process, and end what else reads counters on this GPU or watches this process: ncu, \
                 nsys, cuda-gdb, compute-sanitizer, DCGM (dcgmi profile --pause). torch.profiler keeps CUPTI after its first use: count \
                 before it, in another process, or take CUPTI over",
            ),
            CounterError::Traced { .. } => Some(
                "end what traces kernels while counting, such as torch.profiler with ProfilerActivity.CUDA, or count in a \
                 process of its own",
            ),
            CounterError::Graphs { .. } => {
                Some("launch on a stream instead of a graph; bytes and time can be counted per region")
            }
            CounterError::TooMany { .. } => Some("expect as many, or count metrics that take one pass"),
            _ => None,
        };
        hint.map(Text::from)
    }

    fn kind(&self) -> ErrorKind {
        match self {
            CounterError::Gpu(error) => error.kind(),
            CounterError::Library(_) | CounterError::Unsupported { .. } | CounterError::Privileges { .. } => {
                ErrorKind::Absent
            }
            _ => ErrorKind::Failed,
        }
    }
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        some => format!("; did you mean {}?", some.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Log(Vec<String>);

    impl Regions for Log {
        fn enter(&mut self, name: &str) -> Result<(), CounterError> {
            self.0.push(format!("enter {name}"));
            Ok(())
        }

        fn leave(&mut self) -> Result<(), CounterError> {
            self.0.push("leave".to_owned());
            Ok(())
        }
    }

    #[test]
    fn a_region_ends_also_when_the_work_in_it_fails() {
        let mut log = Log(Vec::new());
        let regions: &mut dyn Regions = &mut log;
        let result: Result<(), CounterError> =
            regions.within("a", |regions| regions.within("b", |_| Err(CounterError::NoMetric)));
        assert!(matches!(result, Err(CounterError::NoMetric)));
        assert_eq!(log.0, ["enter a", "enter b", "leave", "leave"]);
    }

    #[test]
    fn missing_privileges_name_both_ways_out() {
        let error = CounterError::Privileges { function: "cuptiRangeProfilerEnable" };
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("CAP_SYS_ADMIN") && hint.contains("NVreg_RestrictProfilingToAdminUsers=0"),
            "{hint}"
        );
    }
}
