//! The interface to the GPU for `new`, `resume` and `run-one`.

use flopgap_phases::sweep::{Backend, Config, Meter, MeterError, Origin};

/// The GPU side of this program, implemented by [`Gpu`](crate::gpu::Gpu) and by a fake in the
/// tests.
pub trait Hardware: Sync {
    /// A device and the libraries that a network runs with on it. Starts nothing.
    ///
    /// # Errors
    /// [`MeterError::Unavailable`] when there is no such device, or a library is missing.
    fn device(&self, index: u32) -> Result<Device, MeterError>;

    /// Counters within this process, on the thread that will use them.
    ///
    /// # Errors
    /// [`MeterError::Unavailable`] also when the privilege to count is missing.
    fn meter(&self, index: u32, counted: Counted) -> Result<Box<dyn Meter + '_>, MeterError>;

    /// Runs setup, forward and backward pass of a network once. Each begins with a launch of an
    /// empty kernel with the name of its [`mark`], by which a profiler of this process
    /// distinguishes the phases.
    ///
    /// # Errors
    /// As [`Meter::measure`].
    fn run(&self, index: u32, config: Config) -> Result<(), MeterError>;
}

/// Which launches are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Every launch of every network.
    All,
    /// Launches of networks with one width and number of columns that are alike: once.
    AlikeOnce,
}

impl Counted {
    pub(crate) fn all_if(all: bool) -> Self {
        if all { Counted::All } else { Counted::AlikeOnce }
    }
}

/// A device, with the libraries that decide which kernels a network launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name: `NVIDIA H200`.
    pub name: String,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
    /// The driver's version.
    pub driver: String,
    /// The library that runs the network, with versions.
    pub framework: String,
    /// The counters in this process, with their version.
    pub counters: String,
}

impl Device {
    /// The device as an origin, with the profiler that counts.
    pub(crate) fn origin(self, profiler: String, command: &str) -> Origin {
        Origin {
            device: Some(self.name),
            driver: Some(self.driver),
            profiler: Some(profiler),
            framework: Some(self.framework),
            command: Some(command.to_owned()),
        }
    }
}

/// The name of the empty kernel that marks the beginning of a phase: `flopgap_mark_forward`.
///
/// ```
/// assert_eq!(hyper_profile::hardware::mark(flopgap_phases::Phase::Forward), "flopgap_mark_forward");
/// ```
pub fn mark(phase: flopgap_phases::Phase) -> String {
    format!("flopgap_mark_{phase}")
}

/// The counters of the hardware in this process, as the backend of a run.
#[derive(Clone, Copy)]
pub struct InProcess<'a> {
    /// The hardware.
    pub hardware: &'a dyn Hardware,
    /// Which launches are counted.
    pub counted: Counted,
}

impl Backend for InProcess<'_> {
    fn origin(&self, device: u32) -> Result<Origin, MeterError> {
        let device = self.hardware.device(device)?;
        let counters = device.counters.clone();
        Ok(device.origin(counters, "hyper-profile new --backend cupti"))
    }

    fn open(&self, device: u32) -> Result<Box<dyn Meter + '_>, MeterError> {
        self.hardware.meter(device, self.counted)
    }
}
