//! The counts of one configuration: its launches by phase, with the quantities measured for each.

mod difference;
mod error;
mod file;
mod format;
mod quantity;

use std::path::Path;

use crate::{Analysis, Phase, Phases, Recording, Strictness};
use flopgap_flops::FlopError;
use flopgap_kernels::Classifier;
use rustc_hash::FxHashMap;

pub use difference::RecordComparison;
pub use error::{RecordError, RecordFault};
#[cfg(feature = "workers")]
pub(crate) use file::file_name;
pub(crate) use format::RECORD_ENDING;
pub use quantity::Quantity;

use crate::sweep::Config;

/// The launches of one configuration and what was measured of each, in launch order: setup,
/// forward, backward.
///
/// ```
/// use flopgap_phases::Phase;
/// use flopgap_phases::sweep::{Config, Quantity, Record};
///
/// let config = Config { n: 1, d: 128, m: 16 };
/// let mut record = Record::new(config, &Quantity::FP32);
/// record.push(Phase::Forward, "sgemm", [4, 1, 1], [128, 1, 1], &[0, 0, 262_144]);
/// record.push(Phase::Forward, "sigmoid", [8, 1, 1], [256, 1, 1], &[4_096, 0, 14_336]);
/// let flops: u64 = record.launches().map(|launch| launch.flops().unwrap()).sum();
/// assert_eq!(flops, 2 * 262_144 + 4_096 + 2 * 14_336);
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join(record.file_name());
/// record.write(&path)?;
/// assert_eq!(Record::read(&path)?, record);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Record {
    config: Config,
    quantities: Vec<Quantity>,
    kernels: Vec<String>,
    ids: FxHashMap<String, u32>,
    launches: Vec<Entry>,
    /// The values of all launches, one for each quantity of each.
    values: Vec<u64>,
    taken_over: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    phase: Phase,
    kernel: u32,
    grid: [u64; 3],
    block: [u64; 3],
}

/// One launch of a [`Record`].
#[derive(Debug, Clone, Copy)]
pub struct RecordedLaunch<'a> {
    /// The phase that it belongs to.
    pub phase: Phase,
    /// The kernel's name as the profiler gave it, mangled or demangled.
    pub kernel: &'a str,
    /// Blocks in the grid, x first.
    pub grid: [u64; 3],
    /// Threads in a block, x first.
    pub block: [u64; 3],
    /// What was measured: the record's quantities.
    pub quantities: &'a [Quantity],
    /// The value of each quantity.
    pub values: &'a [u64],
}

impl RecordedLaunch<'_> {
    /// The value of a quantity, if it was measured.
    pub fn get(&self, quantity: Quantity) -> Option<u64> {
        let place = self.quantities.iter().position(|&one| one == quantity)?;
        Some(self.values[place])
    }

    /// Executed floating-point operations, a fused multiply-add being two.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when they leave `u64`.
    pub fn flops(&self) -> Result<u64, FlopError> {
        self.quantities
            .iter()
            .zip(self.values)
            .try_fold(0u64, |sum, (quantity, value)| sum.checked_add(value.checked_mul(quantity.flops())?))
            .ok_or_else(|| FlopError::Overflow { quantity: "FLOPs of a launch".into() })
    }
}

impl Record {
    /// A record without launches. `quantities` is what is measured of each launch, such as
    /// [`Quantity::FP32`]; a quantity is there for all launches or for none.
    pub fn new(config: Config, quantities: &[Quantity]) -> Record {
        Record {
            config,
            quantities: quantities.to_vec(),
            kernels: Vec::new(),
            ids: FxHashMap::default(),
            launches: Vec::new(),
            values: Vec::new(),
            taken_over: 0,
        }
    }

    /// Says how many launches were not counted themselves: their values are those of an equal
    /// launch of another network, of the same kernel, grid, width and columns.
    #[must_use]
    pub fn with_taken_over(mut self, launches: u64) -> Record {
        self.taken_over = launches;
        self
    }

    /// How many launches have the values of an equal launch: see [`Record::with_taken_over`].
    pub fn taken_over(&self) -> u64 {
        self.taken_over
    }

    /// Appends a launch of the kernel `name`, mangled or demangled. Phases come in their order.
    ///
    /// # Panics
    /// When `values` are not as many as the record's quantities, or a launch of a later phase was
    /// pushed before.
    pub fn push(&mut self, phase: Phase, name: &str, grid: [u64; 3], block: [u64; 3], values: &[u64]) {
        assert_eq!(values.len(), self.quantities.len(), "one value for each quantity");
        assert!(self.launches.last().is_none_or(|last| last.phase <= phase), "launches come in launch order");
        let kernel = if let Some(&id) = self.ids.get(name) {
            id
        } else {
            let id = u32::try_from(self.kernels.len()).expect("fewer than 2^32 different kernels");
            self.kernels.push(name.to_owned());
            self.ids.insert(name.to_owned(), id);
            id
        };
        self.launches.push(Entry { phase, kernel, grid, block });
        self.values.extend_from_slice(values);
    }

    /// The configuration.
    pub fn config(&self) -> Config {
        self.config
    }

    /// What was measured of every launch.
    pub fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }

    /// The launches, in launch order.
    pub fn launches(&self) -> impl ExactSizeIterator<Item = RecordedLaunch<'_>> {
        let width = self.quantities.len();
        self.launches.iter().enumerate().map(move |(index, launch)| RecordedLaunch {
            phase: launch.phase,
            kernel: &self.kernels[launch.kernel as usize],
            grid: launch.grid,
            block: launch.block,
            quantities: &self.quantities,
            values: &self.values[index * width..][..width],
        })
    }

    /// The launches with their FLOPs, for the analysis by phase; `path` names the record in
    /// messages.
    ///
    /// # Errors
    /// [`RecordFault::Overflow`] when the FLOPs of a launch leave `u64`, which no hardware counts.
    pub fn recording(&self, path: &Path, classifier: &Classifier) -> Result<Recording, RecordError> {
        let mut recording = Recording::new(path);
        let tensor: Vec<&str> = self
            .kernels
            .iter()
            .map(String::as_str)
            .filter(|kernel| classifier.get(kernel).tensor_cores == Some(true))
            .collect();
        for launch in self.launches() {
            if launch.phase != Phase::Setup && tensor.contains(&launch.kernel) {
                let (phase, kernel) = (launch.phase, launch.kernel.to_owned());
                return Err(RecordFault::TensorCores { phase, kernel }.at(path));
            }
            let (grid, block) = (Some(launch.grid), Some(launch.block));
            let flops = launch.flops().map_err(|_| {
                RecordFault::Overflow { phase: launch.phase, kernel: launch.kernel.to_owned() }.at(path)
            })?;
            recording.push(classifier, launch.kernel, grid, block, flops, Some(launch.phase));
        }
        Ok(recording)
    }

    /// Counted against theoretical FLOPs of the record's configuration; `path` names the record in
    /// messages.
    ///
    /// # Errors
    /// [`RecordError::Phases`] when the record is not one of a complete step of its configuration,
    /// which only [`Strictness::Forced`] accepts, and as [`Record::recording`].
    pub fn analyze(
        &self,
        path: &Path,
        classifier: &Classifier,
        strictness: Strictness,
    ) -> Result<Analysis, RecordError> {
        let network = self.config.network().map_err(crate::PhaseError::from)?;
        let recording = self.recording(path, classifier)?;
        Ok(Analysis::new(network, &Phases::by_ranges(&recording)?, strictness)?)
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        // The ids of launches follow from the kernels.
        let fields = |record: &Record| (record.config, record.launches.len(), record.taken_over);
        fields(self) == fields(other)
            && self.quantities == other.quantities
            && self.kernels == other.kernels
            && self.launches == other.launches
            && self.values == other.values
    }
}

impl Eq for Record {}
