//! Shared by all engines on the CPU: the machine, times without its noise, memory, energy.

mod check;
mod clock;
mod memory;
mod origin;
mod rapl;
mod references;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread;

pub use memory::available as available_memory;
pub use origin::origin;
pub use rapl::Rapl;
pub use references::References;

pub(crate) use check::{Chain, chain_rows, fp32_bound, largest_difference};
pub(crate) use clock::{Elapsed, Stopwatch, run_for};
pub(crate) use memory::Peak;

/// Settings of an engine on the CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuSettings {
    /// Threads that compute.
    pub threads: NonZero<usize>,
    /// The seed of parameters and inputs.
    pub seed: u64,
    /// The unit of times: the best time of each reference kernel in nanoseconds, as an earlier
    /// session found it ([`References::best`]). Without it, the engine finds it in a second.
    pub references: Option<BTreeMap<String, f64>>,
}

impl Default for CpuSettings {
    /// All threads that the machine offers, seed 42, references of this session.
    fn default() -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        CpuSettings { threads, seed: 42, references: None }
    }
}
