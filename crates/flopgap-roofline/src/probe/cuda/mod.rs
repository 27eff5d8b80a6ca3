//! Ceilings of an NVIDIA GPU: arithmetic by precision, bandwidth over working sets, launches.
//!
//! The kernels are compiled at run time. Peaks are loops of multiply-adds on random numbers, whose
//! operands never leave registers or shared memory; before a peak is timed, the same kernel runs on
//! ones, where each multiply-add adds one to a sum, and the sums are compared with the work that
//! the rate is computed from. Bandwidth is that of all threads walking through a working set, 16
//! bytes at a time.

mod bandwidth;
mod kernels;
mod launches;
mod peaks;

use std::collections::BTreeMap;
use std::time::SystemTime;

use flopgap_gpu::{Context, Device, driver_version};

pub use kernels::{ProbeSource, sources};

use super::levels::{Capacity, levels};
use super::{ProbeError, Progress};
use crate::{Ceilings, Details};
use kernels::Kernels;

/// Measures the ceilings of the GPU with this number. Takes about ten seconds, and up to half of
/// the free memory.
///
/// # Errors
/// No driver, no such GPU, no NVRTC: an absence ([`flopgap_files::Hint::is_absence`]). Errors of
/// the driver. [`ProbeError::Wrong`] if a kernel did not do its work.
pub fn probe(device: usize, progress: Progress<'_>) -> Result<Ceilings, ProbeError> {
    let context = Context::new(device)?;
    let stream = context.stream()?;
    progress("compiling the kernels");
    let kernels = Kernels::load(&context)?;

    let (peaks, clock_khz, absent) = peaks::measure(&kernels, &stream, progress)?;
    let own_slices = bandwidth::own_slices(&kernels, &stream, progress)?;
    let shared = bandwidth::shared(&kernels, &stream, progress)?;
    let (launch_ns, graph_node_ns) = launches::measure(&kernels, &stream, progress)?;

    let device = context.device();
    let first = Capacity {
        name: "L1".to_owned(),
        bytes: device.shared_bytes_per_multiprocessor * u64::from(device.multiprocessors),
    };
    let second = Capacity { name: "L2".to_owned(), bytes: device.l2_bytes };
    // The first level is measured with slices, the others with one set.
    let mut all = levels(std::slice::from_ref(&first), "beyond", &own_slices, 0.5);
    all.truncate(1);
    all.extend(levels(&[second], "HBM", &shared, 0.5));
    Ok(Ceilings {
        device: device.name.clone(),
        kind: "cuda".to_owned(),
        units: device.multiprocessors,
        peaks,
        bandwidth: shared,
        levels: all,
        launch_ns,
        graph_node_ns: Some(graph_node_ns),
        details: Details {
            created: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            properties: properties(device),
            versions: versions(&kernels),
            clock_khz,
            own_slices,
            absent,
            ..Details::default()
        },
    })
}

/// What distinguishes a GPU from others, as [`Details::properties`] has it.
pub fn properties(device: &Device) -> BTreeMap<String, String> {
    let numbers = [
        ("multiprocessors", u64::from(device.multiprocessors)),
        ("clock_khz", u64::from(device.clock_khz)),
        ("memory_clock_khz", u64::from(device.memory_clock_khz)),
        ("memory_bus_bits", u64::from(device.memory_bus_bits)),
        ("memory_bytes", device.memory_bytes),
        ("l2_bytes", device.l2_bytes),
        ("shared_bytes_per_multiprocessor", device.shared_bytes_per_multiprocessor),
    ];
    let mut properties: BTreeMap<String, String> =
        numbers.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
    properties.insert("compute_capability".to_owned(), device.compute_capability.to_string());
    properties
}

fn versions(kernels: &Kernels) -> BTreeMap<String, String> {
    let (major, minor) = kernels.nvrtc();
    let mut versions = BTreeMap::from([("nvrtc".to_owned(), format!("{major}.{minor}"))]);
    if let Ok(driver) = driver_version() {
        versions.insert("cuda_driver".to_owned(), format!("{}.{}", driver.cuda.0, driver.cuda.1));
        versions.extend(driver.module.map(|module| ("driver".to_owned(), module)));
    }
    versions
}
