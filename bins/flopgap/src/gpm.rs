//! How active the GPUs' units are while a program runs whose kernels cannot be counted: samples of
//! NVML's GPM, which needs no permission.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flopgap_record::{GpmSample, counting_failed, write_gpm};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample as Counters, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use crate::PROGRAM;

/// Names of the library: drivers bring the first, the second comes with the toolkit's headers.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
const EVERY: Duration = Duration::from_millis(100);
/// What is sampled, by NVML's names.
const METRICS: [(&str, GpmMetricId); 9] = [
    ("ANY_TENSOR_UTIL", GpmMetricId::AnyTensorUtil),
    ("HMMA_TENSOR_UTIL", GpmMetricId::HmmaTensorUtil),
    ("IMMA_TENSOR_UTIL", GpmMetricId::ImmaTensorUtil),
    ("DFMA_TENSOR_UTIL", GpmMetricId::DfmaTensorUtil),
    ("FP16_UTIL", GpmMetricId::Fp16Util),
    ("FP32_UTIL", GpmMetricId::Fp32Util),
    ("FP64_UTIL", GpmMetricId::Fp64Util),
    ("DRAM_BW_UTIL", GpmMetricId::DramBwUtil),
    ("SM_UTIL", GpmMetricId::SmUtil),
];
/// What rounding may add to a whole.
const ROUNDING: f64 = 1.0;

/// Samples in a thread of its own, until it is dropped: then it warns of what could not be sampled.
pub(crate) struct Sampling {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Sampling {
    /// Samples whenever programs that record to a directory cannot be counted.
    pub(crate) fn start(directory: &Path) -> Sampling {
        let (ends, ended) = mpsc::channel();
        let directory = directory.to_owned();
        let thread = std::thread::Builder::new().name("gpm".to_owned());
        let thread = thread.spawn(move || follow(&directory, &ended)).ok();
        Sampling { ends: Some(ends), thread }
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(Ok(Err(reason))) = self.thread.take().map(JoinHandle::join) {
            let text = format!("activity of the tensor cores was not sampled: {reason}");
            flopgap_cli::warn(PROGRAM, text);
        }
    }
}

/// A GPU that has GPM.
struct Gpu<'n> {
    device: Device<'n>,
    uuid: String,
    /// The time of the last counters, and these.
    last: Option<(u64, Counters<'n>)>,
}

/// Samples until it is to end. Returns why some GPU was not.
fn follow(directory: &Path, ended: &Receiver<()>) -> Result<(), String> {
    // The counters of a GPU serve one: while CUPTI counts, nothing is sampled.
    let is_free = || counting_failed(directory).unwrap_or(false);
    while !is_free() {
        if has_ended(ended) {
            return Ok(());
        }
    }
    let nvml = open().map_err(|error| format!("NVML: {error}"))?;
    let (mut gpus, mut refusals) = supported(&nvml).map_err(|error| format!("NVML: {error}"))?;
    while !gpus.is_empty() && !has_ended(ended) {
        if !is_free() {
            for gpu in &mut gpus {
                gpu.last = None;
            }
            continue;
        }
        let mut failed = None;
        gpus.retain_mut(|gpu| match gpu.sample(&nvml) {
            Ok(percents) => {
                let written =
                    percents.map_or(Ok(()), |(times, percents)| gpu.write(directory, times, &percents));
                failed = failed.take().or(written.err());
                true
            }
            Err(error) => {
                refusals.push(format!("GPU {}: {error}", gpu.uuid));
                false
            }
        });
        if let Some(reason) = failed {
            refusals.push(reason);
            break;
        }
    }
    if refusals.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
}

/// Waits for the next sample. Returns whether there is none.
fn has_ended(ended: &Receiver<()>) -> bool {
    !matches!(ended.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout))
}

fn open() -> Result<Nvml, NvmlError> {
    let [first, second] = LIBRARIES.map(|name| move || Nvml::builder().lib_path(OsStr::new(name)).init());
    match first() {
        // The first error says more: the second library is rarely there.
        Err(error @ NvmlError::LibloadingError(_)) => second().map_err(|_| error),
        opened => opened,
    }
}

/// The GPUs that have GPM, and why others do not.
fn supported(nvml: &Nvml) -> Result<(Vec<Gpu<'_>>, Vec<String>), NvmlError> {
    let (mut gpus, mut refusals) = (Vec::new(), Vec::new());
    for index in 0..nvml.device_count()? {
        let device = nvml.device_by_index(index)?;
        let name = device.name().unwrap_or_else(|_| "unknown".to_owned());
        match device.gpm_support() {
            Ok(true) => gpus.push(Gpu { uuid: device.uuid()?, device, last: None }),
            Ok(false) => {
                refusals.push(format!("GPU {index} ({name}) has no GPM, which needs Hopper or newer"));
            }
            Err(error) => refusals.push(format!("GPU {index} ({name}): {error}")),
        }
    }
    Ok((gpus, refusals))
}

/// Metrics in percent.
type Percents = Vec<(&'static str, f64)>;

impl<'n> Gpu<'n> {
    /// What was between the last time and now, where there was a last time, with both.
    fn sample(&mut self, nvml: &'n Nvml) -> Result<Option<([u64; 2], Percents)>, NvmlError> {
        let time = now();
        let counters = self.device.gpm_sample()?;
        let Some((before, earlier)) = self.last.replace((time, counters)) else { return Ok(None) };
        let Some((_, later)) = &self.last else { return Ok(None) };
        let metrics = METRICS.map(|(_, metric)| metric);
        let values = gpm_metrics_get(nvml, &earlier, later, &metrics)?;
        // What this GPU does not answer is left out.
        let values = METRICS.iter().zip(values);
        let percents = values.filter_map(|((name, _), value)| Some((*name, percent(value.ok()?.value)?)));
        Ok(Some(([before, time], percents.collect())))
    }

    fn write(&self, directory: &Path, [start, end]: [u64; 2], percents: &Percents) -> Result<(), String> {
        let sample = |&(metric, percent)| GpmSample { start, end, gpu: &self.uuid, metric, percent };
        let samples: Vec<GpmSample<'_>> = percents.iter().map(sample).collect();
        write_gpm(directory, &samples).map_err(|error| error.to_string())
    }
}

/// A value that is a share of a whole.
fn percent(value: f64) -> Option<f64> {
    (0.0..=100.0 + ROUNDING).contains(&value).then(|| value.min(100.0))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_a_whole() {
        let of = [0.0, 73.5, 100.25, 150.0, -0.5, f64::NAN, f64::INFINITY].map(percent);
        assert_eq!(of, [Some(0.0), Some(73.5), Some(100.0), None, None, None, None]);
    }

    /// Where nothing could not be counted, NVML is not even loaded.
    #[test]
    fn nothing_is_sampled_while_nothing_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        let sampling = Sampling::start(folder.path());
        std::thread::sleep(Duration::from_millis(20));
        drop(sampling);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let (ends, ended) = mpsc::channel();
        drop(ends);
        assert_eq!(follow(folder.path(), &ended), Ok(()));
    }
}
