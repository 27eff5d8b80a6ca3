//! Checks the counters with a kernel whose counts are known.
//!
//! While another client of CUPTI in the process traces kernels (the activity `CONCURRENT_KERNEL`,
//! which `torch.profiler` enables), CUPTI 13.0 patches kernels to take their times, and does not
//! patch them to count: instructions are 0, without an error, and the instructions that hardware
//! counts are too many. CUPTI does not say what is enabled, so a kernel is counted whose counts are
//! known.

use super::chip::Chip;
use super::cupti::Cupti;
use super::exact::exact_count;
use super::launches::Watch;
use super::range::{Mode, RangeProfiler};

use super::{CounterError, MetricPlan};
use crate::context::{Context, Kernel};
use crate::error::GpuError;
use crate::launch::{Arguments, Launch};
use crate::stream::Stream;

/// Loaded by the driver itself: no compiler is needed.
const SOURCE: &str = include_str!("calibrate.ptx");
const THREADS: u32 = 32;
const STEPS: u32 = 32;
/// The known counts of a thread in a step.
const KNOWN: [(&str, u32); 3] = [
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 1),
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 2),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 3),
];

/// The kernel, and how its counts are taken.
#[derive(Debug)]
pub(super) struct Calibration {
    kernel: Kernel,
    stream: Stream,
    plan: MetricPlan,
}

/// The count that the kernel has, where it is known.
fn known(metric: &str) -> Option<u64> {
    let (_, each) = KNOWN.iter().find(|(name, _)| *name == metric)?;
    Some(u64::from(*each) * u64::from(THREADS) * u64::from(STEPS))
}

impl Calibration {
    pub(super) fn new(context: &Context, chip: &Chip) -> Result<Self, CounterError> {
        let plan = chip.plan(&KNOWN.map(|(metric, _)| metric))?;
        let kernel = context.load_ptx(SOURCE)?.kernel("flopgap_calibrate")?;
        Ok(Calibration { kernel, stream: context.stream()?, plan })
    }

    /// Queues the kernel on a stream of its own and waits for it.
    pub(super) fn launch(&self) -> Result<(), GpuError> {
        let arguments = Arguments::default().f32(1.0).f32(0.0).u32(STEPS).addresses([0]);
        // SAFETY: these are the kernel's arguments. It never stores: the result is 1.
        unsafe { Launch::new(1, THREADS).queue(&self.stream, &self.kernel, arguments) }?;
        self.stream.synchronize()
    }

    /// Whether some of these metrics have a known count.
    pub(super) fn knows_any(metrics: &[String]) -> bool {
        metrics.iter().any(|metric| known(metric).is_some())
    }

    /// Compares counts of the kernel with what is known.
    ///
    /// # Errors
    /// [`CounterError::Traced`].
    pub(super) fn check(metrics: &[String], counts: &[f64]) -> Result<(), CounterError> {
        for (metric, &found) in metrics.iter().zip(counts) {
            match known(metric) {
                Some(expected) if exact_count(found) != Some(expected) => {
                    return Err(CounterError::Traced { metric: metric.clone(), expected, found });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts the kernel by itself. No other profiler may be enabled, and the launches of the
    /// process must be watched, so that this one is taken for nobody else's.
    ///
    /// # Errors
    /// [`CounterError::Traced`].
    pub(super) fn run(
        &self,
        cupti: &'static Cupti,
        context: &Context,
        watch: &Watch,
    ) -> Result<(), CounterError> {
        let mut profiler = RangeProfiler::enable(cupti, context)?;
        profiler.prepare(Mode::Launch, 1, &self.plan, context)?;
        // Its metrics take one pass.
        profiler.clear(&self.plan)?;
        profiler.start()?;
        let launched = self.launch();
        let stopped = profiler.stop();
        launched?;
        stopped?;
        watch.take();
        let dropped = profiler.decode()?;
        let ranges = profiler.ranges()?;
        if ranges != 1 {
            return Err(CounterError::Mismatch { launches: 1, ranges: ranges + dropped });
        }
        let mut counts = vec![0.0; self.plan.metrics().len()];
        self.plan.evaluate(profiler.data(), 0, &mut counts)?;
        Self::check(self.plan.metrics(), &counts)
    }
}

#[cfg(test)]
mod tests {
    use flopgap_files::Hint as _;

    use super::*;

    #[test]
    fn counts_of_a_traced_process_are_refused() {
        let metrics = KNOWN.map(|(metric, _)| metric.to_owned());
        Calibration::check(&metrics, &[1024.0, 2048.0, 3072.0]).unwrap();
        let error = Calibration::check(&metrics, &[0.0, 0.0, 0.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the GPU's counters are wrong: 0 for smsp__sass_thread_inst_executed_op_ffma_pred_on.sum of a kernel \
             that executes 1024; something else in this process traces kernels with CUPTI"
        );
        assert!(error.hint().unwrap().contains("torch.profiler"));
        let bytes = ["dram__bytes.sum".to_owned()];
        assert!(!Calibration::knows_any(&bytes));
        Calibration::check(&bytes, &[4711.0]).unwrap();
    }

    /// The counts in the comment in the source, for each step.
    #[test]
    fn the_kernel_executes_what_is_known() {
        for ((metric, each), instruction) in KNOWN.into_iter().zip(["fma.rn.f32", "add.rn.f32", "mul.rn.f32"])
        {
            let lines = SOURCE.lines().filter(|line| line.trim().starts_with(instruction)).count();
            assert_eq!(u32::try_from(lines).unwrap(), each, "{metric}");
        }
    }
}
