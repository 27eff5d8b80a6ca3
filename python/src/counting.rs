//! Counting: a GPU, and a session of its counters that Python drives step by step.
//!
//! Nothing here waits for the GPU or for another thread while it holds the interpreter's lock: a
//! thread that launches kernels may need it.

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use flopgap_files::{Hint as _, Text};
use flopgap_gpu::counters::{Checks, Chip, CounterError, CounterSession, Regions, Rows, SessionOptions};
use flopgap_gpu::library::{self, Library};
use flopgap_gpu::{Context, GpuError};
use flopgap_kernels::Classifier;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{AbsentError, CountError};

/// An error of the counters as an exception.
fn counter_error(error: &CounterError) -> PyErr {
    let parts = (error.to_string(), error.hint().map(Text::into_owned));
    if error.is_absence() { AbsentError::new_err(parts) } else { CountError::new_err(parts) }
}

fn gpu_error(error: GpuError) -> PyErr {
    counter_error(&CounterError::Gpu(error))
}

/// A GPU of this process: its primary context, which PyTorch uses too.
#[pyclass(frozen, module = "flopgap._flopgap")]
pub(crate) struct Gpu {
    context: Context,
    chip: Chip,
}

#[pymethods]
impl Gpu {
    /// Opens the GPU with this number (as `CUDA_VISIBLE_DEVICES` leaves them).
    #[new]
    fn new(py: Python<'_>, index: usize) -> PyResult<Self> {
        py.detach(|| {
            let context = Context::new(index).map_err(CounterError::Gpu)?;
            let chip = Chip::new(&context)?;
            Ok(Gpu { context, chip })
        })
        .map_err(|error: CounterError| counter_error(&error))
    }

    #[getter]
    fn index(&self) -> usize {
        self.context.device().index
    }

    #[getter]
    fn name(&self) -> &str {
        &self.context.device().name
    }

    #[getter]
    fn uuid(&self) -> &str {
        &self.context.device().uuid
    }

    #[getter]
    fn chip(&self) -> &str {
        self.chip.name()
    }

    #[getter]
    fn compute_capability(&self) -> (u32, u32) {
        let capability = self.context.device().compute_capability;
        (capability.major, capability.minor)
    }

    #[getter]
    fn multiprocessors(&self) -> u32 {
        self.context.device().multiprocessors
    }

    #[getter]
    fn clock_khz(&self) -> u32 {
        self.context.device().clock_khz
    }

    /// The metrics of a one-pass preset of this chip; `None` where it has none of this name.
    fn preset(&self, py: Python<'_>, name: &str) -> PyResult<Option<Vec<String>>> {
        let group = py.detach(|| self.chip.group(name)).map_err(|error| counter_error(&error))?;
        Ok(group.map(|group| group.metrics))
    }

    /// All one-pass presets of this chip: names and metrics.
    fn presets(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<String>)>> {
        let groups = py.detach(|| self.chip.groups()).map_err(|error| counter_error(&error))?;
        Ok(groups.into_iter().map(|group| (group.name, group.metrics)).collect())
    }

    /// Waits for everything that runs on the GPU.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.context.synchronize()).map_err(gpu_error)
    }

    fn __repr__(&self) -> String {
        let device = self.context.device();
        format!("<Gpu {}: {}, {}>", device.index, device.name, self.chip.name())
    }
}

/// The one-pass presets of a chip that need not be in this machine: names and metrics.
#[pyfunction]
pub(crate) fn presets_of_chip(py: Python<'_>, chip: &str) -> PyResult<Vec<(String, Vec<String>)>> {
    let groups = py
        .detach(|| Chip::named(chip).and_then(|chip| chip.groups()))
        .map_err(|error| counter_error(&error))?;
    Ok(groups.into_iter().map(|group| (group.name, group.metrics)).collect())
}

/// A launch: symbol, grid, block, bytes of dynamic shared memory.
type LaunchRow = (String, [u32; 3], [u32; 3], u32);

/// A launch, the region that it is in, its counts in the order of the metrics.
type CountedLaunch = (LaunchRow, Option<String>, Vec<u64>);

/// A region: name, what was launched in it, graphs launched in it, counts.
type CountedRegion = (String, Vec<LaunchRow>, usize, Vec<u64>);

/// Counts what the process launches, in steps. One at a time in a process.
#[pyclass(frozen, module = "flopgap._flopgap")]
pub(crate) struct Session {
    inner: Mutex<Option<CounterSession>>,
    /// The process that opened it. A child that was forked has a copy of it which it must not
    /// touch, and cannot give back.
    process: u32,
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(self.lock().take());
        }
    }
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, Option<CounterSession>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the session that is open, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut CounterSession) -> Result<T, CounterError> + Send,
    ) -> PyResult<T> {
        if std::process::id() != self.process {
            let hint =
                "count in the process that opened the session, or open one here (with spawn instead of fork)";
            return Err(CountError::new_err(("the session belongs to the process before the fork", hint)));
        }
        let done = py.detach(|| self.lock().as_mut().map(work));
        match done {
            Some(done) => done.map_err(|error| counter_error(&error)),
            None => Err(CountError::new_err(("the session is closed", None::<String>))),
        }
    }
}

#[pymethods]
impl Session {
    /// Opens the counters of a GPU for these metrics, and checks on a known kernel that they count
    /// right. `takes_over` takes CUPTI away from another client of this process.
    #[new]
    fn new(py: Python<'_>, gpu: &Bound<'_, Gpu>, metrics: Vec<String>, takes_over: bool) -> PyResult<Self> {
        let gpu = gpu.get();
        let open = || {
            let plan = gpu.chip.plan(&metrics)?;
            let options = SessionOptions { checks: Checks::Opening, takes_over };
            CounterSession::planned(&gpu.context, &gpu.chip, plan, options)
        };
        let session = py.detach(open);
        let session = session.map_err(|error| counter_error(&error))?;
        Ok(Session { inner: Mutex::new(Some(session)), process: std::process::id() })
    }

    /// How often the work must run.
    #[getter]
    fn passes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |session| Ok(session.passes()))
    }

    #[getter]
    fn metrics(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |session| Ok(session.metrics().to_vec()))
    }

    /// Begins a measurement of "launches" or "regions"; `expected` is their likely number.
    fn begin(&self, py: Python<'_>, rows: &str, expected: usize) -> PyResult<()> {
        let rows = match rows {
            "launches" => Rows::Launches,
            "regions" => Rows::Regions,
            other => {
                return Err(PyValueError::new_err(format!("no rows {other:?}: \"launches\" or \"regions\"")));
            }
        };
        self.with(py, |session| session.begin(rows, expected))
    }

    fn start_pass(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, CounterSession::start_pass)
    }

    /// Ends a pass after what it launched has run; says whether it was the last.
    fn end_pass(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, CounterSession::end_pass)
    }

    fn enter(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |session| session.enter(name))
    }

    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Regions::leave)
    }

    /// Gives the measurement up.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |session| {
            session.abandon();
            Ok(())
        })
    }

    /// The launches of the measurement, in order.
    fn launches(&self, py: Python<'_>) -> PyResult<Vec<CountedLaunch>> {
        let rows = self.with(py, CounterSession::launches)?;
        Ok(rows
            .into_iter()
            .map(|row| (launch_row(&row.launch), row.region.map(|region| region.to_string()), row.counts))
            .collect())
    }

    /// The regions of the measurement, in the order in which they were entered.
    fn regions(&self, py: Python<'_>) -> PyResult<Vec<CountedRegion>> {
        let rows = self.with(py, CounterSession::regions)?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let launches = row.launches.iter().map(launch_row).collect();
                (row.region.to_string(), launches, row.graphs, row.counts)
            })
            .collect())
    }

    /// Lets others use CUPTI until the next measurement.
    fn park(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |session| {
            session.park();
            Ok(())
        })
    }

    /// Gives the counters back and takes CUPTI out of the process. Nothing happens where that is
    /// done.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if std::process::id() != self.process {
            return Ok(());
        }
        py.detach(|| self.lock().take().map_or(Ok(()), CounterSession::detach))
            .map_err(|error| counter_error(&error))
    }
}

fn launch_row(launch: &flopgap_gpu::counters::Launch) -> LaunchRow {
    (launch.symbol.to_string(), launch.grid, launch.block, launch.shared_bytes)
}

/// The file of CUPTI that this process uses, loading it if nobody has.
#[pyfunction]
pub(crate) fn cupti_path(py: Python<'_>) -> PyResult<PathBuf> {
    py.detach(|| library::probe(Library::Cupti))
        .map(|loaded| loaded.path().to_owned())
        .map_err(|error| AbsentError::new_err((error.to_string(), error.hint().map(Text::into_owned))))
}

/// What a kernel's name says: class, library, precision, tile, whether it uses tensor cores,
/// whether its half-precision instructions are arithmetic, a short name.
type KernelInfo =
    (&'static str, &'static str, Option<&'static str>, Option<String>, Option<bool>, Option<bool>, String);

/// Reads the name of a kernel, mangled or not.
#[pyfunction]
pub(crate) fn kernel_info(py: Python<'_>, symbol: &str) -> KernelInfo {
    static CLASSIFIER: LazyLock<Classifier> = LazyLock::new(Classifier::new);
    let info = py.detach(|| CLASSIFIER.get(symbol));
    (
        info.class.as_str(),
        info.library.as_str(),
        info.precision.map(flopgap_kernels::NumberType::as_str),
        info.tile.map(|tile| tile.to_string()),
        info.tensor_cores,
        info.half_arithmetic,
        info.short.clone(),
    )
}
