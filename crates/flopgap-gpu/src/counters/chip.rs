//! The metrics of a chip, and the passes that they need. Works without a GPU: CUPTI knows all chips
//! of its time.

use std::ffi::{CString, c_char};
use std::ptr::{NonNull, null, null_mut};

use cudarc::cupti::sys;

use super::cupti::Cupti;
use super::{CounterError, Preset};
use crate::context::Context;
use crate::device::copy_c_string;
use crate::error::During as _;

/// How many similar names an error suggests.
const SUGGESTIONS: usize = 3;

/// Names less similar than this (1 is equal, by Jaro and Winkler) are not suggested.
const SIMILAR: f64 = 0.8;

/// Roll-ups that are counts.
const ROLL_UPS: [&str; 3] = [".sum", ".min", ".max"];

/// What CUPTI says of a chip's name that it does not know; the first until 12.6.
const INVALID_PARAMETER: u32 = sys::CUptiResult::CUPTI_ERROR_INVALID_PARAMETER as u32;
const INVALID_CHIP_NAME: u32 = 46;

/// A kind of GPU chip: `GH100` is in an H100 or H200.
///
/// ```no_run
/// use flopgap_gpu::counters::{Chip, Preset};
///
/// let chip = Chip::named("GH100")?;
/// let plan = chip.plan(&chip.preset(Preset::Flops))?;
/// assert_eq!(plan.passes(), 1);
/// # Ok::<(), flopgap_gpu::counters::CounterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Chip {
    name: String,
    /// The metrics available to this driver and user; `None` assumes all of them.
    availability: Option<Vec<u8>>,
    /// Counters without roll-up, sorted.
    counters: Vec<String>,
}

impl Chip {
    /// The chip of this name, whether or not it is in this machine.
    ///
    /// # Errors
    /// When CUPTI is missing or does not know the chip.
    pub fn named(name: &str) -> Result<Self, CounterError> {
        Self::open(name.to_owned(), None)
    }

    /// The chip of an open GPU.
    ///
    /// # Errors
    /// When CUPTI is missing, or [`CounterError::Privileges`].
    pub fn new(context: &Context) -> Result<Self, CounterError> {
        let cupti = Cupti::get()?;
        cupti.start()?;

        let mut chip = sys::CUpti_Device_GetChipName_Params {
            structSize: sys::Device_GetChipName_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            deviceIndex: context.device().index,
            pChipName: null(),
        };
        // SAFETY: as above.
        unsafe { cupti.call_alone("cuptiDeviceGetChipName", cupti.chip_name, &mut chip) }?;
        // SAFETY: after success, a C string that CUPTI owns, or null.
        let name = unsafe { copy_c_string(chip.pChipName) }.unwrap_or_default();

        context.cuda().bind_to_thread().during("use the GPU")?;
        let mut availability = sys::CUpti_Profiler_GetCounterAvailability_Params {
            structSize: sys::Profiler_GetCounterAvailability_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            ctx: context.cuda().cu_ctx(),
            counterAvailabilityImageSize: 0,
            pCounterAvailabilityImage: null_mut(),
        };
        let function = "cuptiProfilerGetCounterAvailability";
        // SAFETY: a null image asks for its size.
        unsafe { cupti.call_alone(function, cupti.availability, &mut availability) }?;
        let mut image = vec![0_u8; availability.counterAvailabilityImageSize];
        availability.pCounterAvailabilityImage = image.as_mut_ptr();
        // SAFETY: the image has the size that the call before said.
        unsafe { cupti.call_alone(function, cupti.availability, &mut availability) }?;
        Self::open(name, Some(image))
    }

    fn open(name: String, availability: Option<Vec<u8>>) -> Result<Self, CounterError> {
        let host = Host::new(&name, availability.as_deref())?;
        let counters = host.counters()?;
        Ok(Chip { name, availability, counters })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counters of the chip, sorted, without roll-up: each gives the metrics `.sum`, `.min` and
    /// `.max`.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// The metrics of a preset on this chip; none if it can count nothing of it.
    pub fn preset(&self, preset: Preset) -> Vec<String> {
        preset.select(&self.counters)
    }

    /// Whether the chip has this metric, and it is a count.
    ///
    /// # Errors
    /// [`CounterError::UnknownMetric`] with similar names, or [`CounterError::NotACount`].
    pub fn check(&self, metric: &str) -> Result<(), CounterError> {
        let (counter, roll_up) =
            metric.split_once('.').map_or((metric, ""), |(counter, _)| (counter, &metric[counter.len()..]));
        let known = self.counters.binary_search_by(|known| known.as_str().cmp(counter)).is_ok();
        match (known, ROLL_UPS.contains(&roll_up)) {
            (true, true) => Ok(()),
            (true, false) => Err(CounterError::NotACount {
                metric: metric.to_owned(),
                suggestions: vec![format!("{counter}.sum")],
            }),
            (false, _) => Err(CounterError::UnknownMetric {
                metric: metric.to_owned(),
                chip: self.name.clone(),
                suggestions: self
                    .similar(counter, if ROLL_UPS.contains(&roll_up) { roll_up } else { ".sum" }),
            }),
        }
    }

    /// Counters with a similar name, best first, with this roll-up.
    fn similar(&self, counter: &str, roll_up: &str) -> Vec<String> {
        let mut scored: Vec<(f64, &String)> = self
            .counters
            .iter()
            .map(|known| (strsim::jaro_winkler(counter, known), known))
            .filter(|(score, _)| *score >= SIMILAR)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().take(SUGGESTIONS).map(|(_, known)| format!("{known}{roll_up}")).collect()
    }

    /// How these metrics are counted.
    ///
    /// # Errors
    /// As [`Chip::check`]; no metric, or one twice.
    pub fn plan<S: AsRef<str>>(&self, metrics: &[S]) -> Result<MetricPlan, CounterError> {
        let metrics: Vec<String> = metrics.iter().map(|metric| metric.as_ref().to_owned()).collect();
        if metrics.is_empty() {
            return Err(CounterError::NoMetric);
        }
        for (index, metric) in metrics.iter().enumerate() {
            self.check(metric)?;
            if metrics[..index].contains(metric) {
                return Err(CounterError::Twice { metric: metric.clone() });
            }
        }
        let host = Host::new(&self.name, self.availability.as_deref())?;
        let names = Names::new(&metrics);
        let config = host.configure(&names)?;
        let passes = host.passes(&config)?;
        Ok(MetricPlan { metrics, passes, config, host, names })
    }
}

/// Metrics of a chip, scheduled into passes.
#[derive(Debug)]
pub struct MetricPlan {
    metrics: Vec<String>,
    passes: usize,
    config: Vec<u8>,
    host: Host,
    names: Names,
}

impl MetricPlan {
    /// The metrics, in the order in which they were requested.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// How often the work must run.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// The schedule, as CUPTI wrote it.
    pub(super) fn config(&self) -> &[u8] {
        &self.config
    }

    /// The names, as CUPTI takes them.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// The values of one range, in the order of the metrics.
    pub(super) fn evaluate(&self, data: &[u8], range: usize, values: &mut [f64]) -> Result<(), CounterError> {
        assert_eq!(values.len(), self.metrics.len(), "a value for each metric");
        let cupti = Cupti::get()?;
        let mut pointers = self.names.pointers();
        let mut evaluate = sys::CUpti_Profiler_Host_EvaluateToGpuValues_Params {
            structSize: sys::Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pHostObject: self.host.object.as_ptr(),
            pCounterDataImage: data.as_ptr(),
            counterDataImageSize: data.len(),
            rangeIndex: range,
            ppMetricNames: pointers.as_mut_ptr(),
            numMetrics: pointers.len(),
            pMetricValues: values.as_mut_ptr(),
        };
        // SAFETY: all pointers are valid for the call, and there is a value for each name.
        unsafe { cupti.call("cuptiProfilerHostEvaluateToGpuValues", cupti.evaluate, &mut evaluate) }
    }
}

/// Names as C strings.
#[derive(Debug)]
pub(super) struct Names(Vec<CString>);

impl Names {
    fn new(names: &[String]) -> Self {
        // No name of a chip has a zero byte, and `check` let only those through.
        Names(names.iter().map(|name| CString::new(name.as_str()).unwrap_or_default()).collect())
    }

    /// Pointers to the names, valid while `self` is.
    pub(super) fn pointers(&self) -> Vec<*const c_char> {
        self.0.iter().map(|name| name.as_ptr()).collect()
    }
}

/// CUPTI's knowledge of a chip: an object that it allocated.
#[derive(Debug)]
struct Host {
    cupti: &'static Cupti,
    object: NonNull<sys::CUpti_Profiler_Host_Object>,
}

// SAFETY: CUPTI's object belongs to no thread; what plans with it is called one at a time
// (`Cupti::call_alone`), and it is shared by nobody.
unsafe impl Send for Host {}

impl Host {
    fn new(chip: &str, availability: Option<&[u8]>) -> Result<Self, CounterError> {
        let cupti = Cupti::get()?;
        let unknown = || CounterError::UnknownChip { chip: chip.to_owned() };
        let name = CString::new(chip).map_err(|_| unknown())?;
        let mut initialize = sys::CUpti_Profiler_Host_Initialize_Params {
            structSize: sys::Profiler_Host_Initialize_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            profilerType: sys::CUpti_ProfilerType::CUPTI_PROFILER_TYPE_RANGE_PROFILER,
            pChipName: name.as_ptr(),
            pCounterAvailabilityImage: availability.map_or(null(), <[u8]>::as_ptr),
            pHostObject: null_mut(),
        };
        // SAFETY: filled as `cupti_profiler_host.h` says; name and image live until the call
        // returns.
        let made = unsafe {
            cupti.call_alone("cuptiProfilerHostInitialize", cupti.host_initialize, &mut initialize)
        };
        match (made, NonNull::new(initialize.pHostObject)) {
            (Ok(()), Some(object)) => Ok(Host { cupti, object }),
            (Ok(()), None)
            | (Err(CounterError::Cupti { code: INVALID_PARAMETER | INVALID_CHIP_NAME, .. }), _) => {
                Err(unknown())
            }
            (Err(error), _) => Err(error),
        }
    }

    /// The names of the chip's counters, sorted.
    fn counters(&self) -> Result<Vec<String>, CounterError> {
        let mut list = sys::CUpti_Profiler_Host_GetBaseMetrics_Params {
            structSize: sys::Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pHostObject: self.object.as_ptr(),
            metricType: sys::CUpti_MetricType::CUPTI_METRIC_TYPE_COUNTER,
            ppMetricNames: null_mut(),
            numMetrics: 0,
        };
        // SAFETY: filled as the header says; the object is alive.
        unsafe {
            self.cupti.call_alone("cuptiProfilerHostGetBaseMetrics", self.cupti.base_metrics, &mut list)
        }?;
        let mut names = Vec::with_capacity(list.numMetrics);
        if !list.ppMetricNames.is_null() {
            for index in 0..list.numMetrics {
                // SAFETY: after success, an array of that many C strings, which lives as long as
                // the object.
                names.extend(unsafe { copy_c_string(*list.ppMetricNames.add(index)) });
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Schedules the metrics; the object keeps them for [`MetricPlan::evaluate`].
    fn configure(&self, names: &Names) -> Result<Vec<u8>, CounterError> {
        let mut pointers = names.pointers();
        let mut add = sys::CUpti_Profiler_Host_ConfigAddMetrics_Params {
            structSize: sys::Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pHostObject: self.object.as_ptr(),
            ppMetricNames: pointers.as_mut_ptr(),
            numMetrics: pointers.len(),
        };
        // SAFETY: names and pointers live until the call returns.
        unsafe {
            self.cupti.call_alone("cuptiProfilerHostConfigAddMetrics", self.cupti.add_metrics, &mut add)
        }?;
        let mut size = sys::CUpti_Profiler_Host_GetConfigImageSize_Params {
            structSize: sys::Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pHostObject: self.object.as_ptr(),
            configImageSize: 0,
        };
        // SAFETY: the object is alive.
        unsafe {
            self.cupti.call_alone("cuptiProfilerHostGetConfigImageSize", self.cupti.config_size, &mut size)
        }?;
        let mut config = vec![0_u8; size.configImageSize];
        let mut image = sys::CUpti_Profiler_Host_GetConfigImage_Params {
            structSize: sys::Profiler_Host_GetConfigImage_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pHostObject: self.object.as_ptr(),
            configImageSize: config.len(),
            pConfigImage: config.as_mut_ptr(),
        };
        // SAFETY: the image has the size that the call before said.
        unsafe {
            self.cupti.call_alone("cuptiProfilerHostGetConfigImage", self.cupti.config_image, &mut image)
        }?;
        Ok(config)
    }

    fn passes(&self, config: &[u8]) -> Result<usize, CounterError> {
        let mut passes = sys::CUpti_Profiler_Host_GetNumOfPasses_Params {
            structSize: sys::Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            configImageSize: config.len(),
            // CUPTI only reads it; the header forgot the const.
            pConfigImage: config.as_ptr().cast_mut(),
            numOfPasses: 0,
        };
        // SAFETY: the image lives until the call returns.
        unsafe { self.cupti.call_alone("cuptiProfilerHostGetNumOfPasses", self.cupti.passes, &mut passes) }?;
        Ok(passes.numOfPasses)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut end = sys::CUpti_Profiler_Host_Deinitialize_Params {
            structSize: sys::Profiler_Host_Deinitialize_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pHostObject: self.object.as_ptr(),
        };
        // SAFETY: the object is alive and is not used again. Nothing can be done about an error
        // here.
        let _ = unsafe {
            self.cupti.call_alone("cuptiProfilerHostDeinitialize", self.cupti.host_deinitialize, &mut end)
        };
    }
}
