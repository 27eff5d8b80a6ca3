//! Ceilings of a CPU: arithmetic by precision, bandwidth over working sets, parallel regions; of
//! all threads and of one.
//!
//! Where most of the cores are measured, each thread is bound to one. Each thread walks through a
//! part of the working set of its own, which it has touched first (so that it lies in the memory
//! next to it). Before a peak is timed, its kernel runs on ones, where each multiply-add adds one
//! to a sum, and the sum is compared with the work that the rate is computed from.
//!
//! Each number is the best of many short measurements: other programs on the machine only ever make
//! them worse, and what a ceiling is for is what the machine can do. The spread says how much they
//! were disturbed.

mod arithmetic;
mod bandwidth;
mod lockstep;
mod looped;
mod machine;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles;
mod vectors;
mod walks;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread;
use std::time::{Instant, SystemTime};

use super::levels::levels;
use super::{ProbeError, Progress};
use crate::{Ceilings, Details, OneThread, Quantity};

/// Settings of the probe of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its name: the model.
    pub device: String,
    /// What distinguishes it from others: kept with the ceilings, and read for the sizes of its
    /// caches: `L1d`, `L2` and `L3` with the size of one and how many there are (`48K x 2`). Levels
    /// that are not among them are not distinguished.
    pub properties: BTreeMap<String, String>,
    /// Threads that compute, all of them unless given.
    pub threads: Option<NonZero<usize>>,
    /// Bytes of the largest working set; more than three times the caches unless given.
    pub largest: Option<u64>,
}

/// Measures the ceilings of this machine's CPU. Takes about half a minute, and up to a quarter of
/// the free memory.
///
/// # Errors
/// [`ProbeError::Threads`], [`ProbeError::Start`]; [`ProbeError::Wrong`] if a kernel did not do its
/// work.
pub fn probe(settings: &Settings, progress: Progress<'_>) -> Result<Ceilings, ProbeError> {
    let have = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = settings.threads.map_or(have, NonZero::get);
    if threads > have {
        return Err(ProbeError::Threads { asked: threads, have });
    }
    let all = machine::capacities(&settings.properties, threads);
    let single = machine::capacities(&settings.properties, 1);
    let mut state = BTreeMap::new();

    let peaks = arithmetic::peaks(threads, progress)?;
    state.extend(machine::clock_mhz().map(|clock| ("clock_mhz".to_owned(), format!("{clock:.0}"))));
    let curve = bandwidth::curve(threads, &all, settings.largest, progress)?;
    let launch_ns = region(threads, progress)?;
    let one_thread = if threads > 1 {
        let peaks = arithmetic::peaks(1, progress)?;
        Some(OneThread { peaks, bandwidth: bandwidth::curve(1, &single, settings.largest, progress)? })
    } else {
        None
    };
    let mut absent = Vec::new();
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if tiles::refused() {
        absent.push("AMX: the CPU has it, but the system does not allow it for this process".to_owned());
    }
    for level in ["L1d", "L2", "L3"] {
        if !all.iter().any(|capacity| capacity.name == level.trim_end_matches('d')) {
            absent.push(format!("{level}: this machine does not report its size"));
        }
    }
    // Nearly the best point of each level, as each point is the best of its measurements.
    let levels = levels(&all, "DRAM", &curve, 0.9);
    for capacity in all.iter().filter(|capacity| !levels.iter().any(|level| level.name == capacity.name)) {
        absent.push(format!("{}: no working set fits only this level", capacity.name));
    }
    Ok(Ceilings {
        device: settings.device.clone(),
        kind: "cpu".to_owned(),
        units: u32::try_from(threads).unwrap_or(u32::MAX),
        peaks,
        bandwidth: curve,
        levels,
        launch_ns,
        graph_node_ns: None,
        details: Details {
            created: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            properties: settings.properties.clone(),
            state,
            one_thread,
            absent,
            ..Details::default()
        },
    })
}

/// Parallel regions of a sample, and samples.
const REGIONS: u32 = 200;
const SAMPLES: usize = 31;

/// Nanoseconds of a region in which every thread of a pool does nothing, for a thread of the pool.
fn region(threads: usize, progress: Progress<'_>) -> Result<Quantity, ProbeError> {
    progress("a parallel region");
    let failed = |reason: String| ProbeError::Start { reason };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| failed(error.to_string()))?;
    let samples = pool.install(|| {
        let sample = |_| {
            let start = Instant::now();
            for _ in 0..REGIONS {
                rayon::broadcast(|context| std::hint::black_box(context.index()));
            }
            start.elapsed().as_nanos() as f64 / f64::from(REGIONS)
        };
        (0..SAMPLES).map(sample).collect()
    });
    Quantity::smallest(samples).ok_or_else(|| failed("no region was timed".to_owned()))
}

#[cfg(test)]
mod tests {
    use flopgap_files::{ErrorKind, Hint as _};

    use super::*;

    #[test]
    fn more_threads_than_there_are_are_refused() {
        let settings = Settings {
            device: "CPU".to_owned(),
            properties: BTreeMap::new(),
            threads: NonZero::new(1_000_000),
            largest: None,
        };
        let error = probe(&settings, &mut |_| {}).unwrap_err();
        assert!(
            error.to_string().starts_with("1000000 threads were requested, but this machine has "),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Usage);
    }

    #[test]
    fn a_region_takes_time() {
        assert!(region(2, &mut |_| {}).unwrap().value > 10.0);
    }
}
