//! One profiled run: its launches in order, each with its kernel and its counted FLOPs.

use std::path::{Path, PathBuf};

use flopgap_kernels::{Classifier, KernelClass, Sameness, Tile, compare_names};
use rustc_hash::FxHashMap;

use crate::{LaunchName, Phase, Sequence, Warning};

/// A kernel of a [`Recording`]: one entry however often it was launched.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The name as the profiler gave it.
    pub name: String,
    /// The name without namespaces, template arguments and parameters, equal over the profiler's
    /// spellings.
    pub base: String,
    /// A display name.
    pub short: String,
    /// Its class.
    pub class: KernelClass,
    /// The output tile of one thread block, where the name has it.
    pub tile: Option<Tile>,
}

/// The position of a [`Kernel`] in its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelId(u32);

/// One launch and the FLOPs that the hardware counted for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedLaunch {
    /// The kernel.
    pub kernel: KernelId,
    /// Blocks in the grid, x first.
    pub grid: Option<[u64; 3]>,
    /// Threads in a block, x first.
    pub block: Option<[u64; 3]>,
    /// Executed floating-point operations, a fused multiply-add being two.
    pub flops: u64,
    /// The phase whose NVTX range was open at launch.
    pub range: Option<Phase>,
}

/// One profiled run. Built launch by launch, from an Nsight Compute report by [`Recording::load`]
/// or from any other counter source by [`Recording::push`].
#[derive(Debug, Clone)]
pub struct Recording {
    path: PathBuf,
    kernels: Vec<Kernel>,
    ids: FxHashMap<String, KernelId>,
    launches: Vec<CountedLaunch>,
    rounded: bool,
    /// Warnings about the report that did not stop its reader.
    pub warnings: Vec<Warning>,
}

impl Recording {
    /// An empty recording; `path` names it in messages.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Recording {
            path: path.into(),
            kernels: Vec::new(),
            ids: FxHashMap::default(),
            launches: Vec::new(),
            rounded: false,
            warnings: Vec::new(),
        }
    }

    /// Appends a launch of the kernel `name`.
    ///
    /// # Panics
    /// When a recording holds more than 2³² different kernels.
    pub fn push(
        &mut self,
        classifier: &Classifier,
        name: &str,
        grid: Option<[u64; 3]>,
        block: Option<[u64; 3]>,
        flops: u64,
        range: Option<Phase>,
    ) {
        let kernel = if let Some(&id) = self.ids.get(name) {
            id
        } else {
            let info = classifier.get(name);
            let id = KernelId(u32::try_from(self.kernels.len()).expect("fewer than 2^32 different kernels"));
            self.kernels.push(Kernel {
                name: name.to_owned(),
                base: flopgap_kernels::base_name(name).into_owned(),
                short: info.short.clone(),
                class: info.class,
                tile: info.tile,
            });
            self.ids.insert(name.to_owned(), id);
            id
        };
        self.launches.push(CountedLaunch { kernel, grid, block, flops, range });
    }

    /// Notes that the FLOPs of a launch were printed rounded (`1.32 Minst`).
    pub fn mark_rounded(&mut self) {
        self.rounded = true;
    }

    /// Whether the FLOPs of a launch were printed rounded, so that sums are off by up to half a
    /// percent.
    pub fn is_rounded(&self) -> bool {
        self.rounded
    }

    /// The file that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The launches, in launch order.
    pub fn launches(&self) -> &[CountedLaunch] {
        &self.launches
    }

    /// The kernel of a launch of this recording.
    ///
    /// # Panics
    /// When the id belongs to another, larger recording.
    pub fn kernel(&self, id: KernelId) -> &Kernel {
        &self.kernels[id.0 as usize]
    }

    /// The launches without their counts.
    pub(crate) fn sequence(&self) -> Sequence {
        let bases = self.kernels.iter().map(|kernel| kernel.base.clone()).collect();
        let launch = |launch: &CountedLaunch| (launch.kernel.0 as usize, launch.grid, launch.block);
        Sequence::new(&self.path, bases, self.launches.iter().map(launch).collect())
    }

    /// A name of the launch for messages.
    pub fn name(&self, launch: &CountedLaunch) -> LaunchName {
        let kernel = self.kernel(launch.kernel).base.clone();
        LaunchName { kernel, grid: launch.grid, block: launch.block }
    }

    /// The first difference of two recordings in words: in kernel, grid, block, range or FLOPs of a
    /// launch, or in their number.
    pub fn difference(&self, other: &Recording) -> Option<String> {
        let pairs = self.launches.iter().zip(&other.launches).enumerate();
        let differs = |a: &CountedLaunch, b: &CountedLaunch| {
            let [first, second] = [self.kernel(a.kernel), other.kernel(b.kernel)].map(|kernel| &kernel.name);
            let place = |launch: &CountedLaunch| (launch.grid, launch.block, launch.flops, launch.range);
            place(a) != place(b) || compare_names(first, second) == Sameness::Different
        };
        let described = |recording: &Recording, launch: &CountedLaunch| {
            format!("{}, {} FLOPs", recording.name(launch), launch.flops)
        };
        pairs
            .filter(|(_, (a, b))| differs(a, b))
            .map(|(index, (a, b))| {
                format!("launch {index} is {} and {}", described(self, a), described(other, b))
            })
            .next()
            .or_else(|| {
                let [first, second] = [self, other].map(|recording| recording.launches.len());
                (first != second).then(|| format!("{first} and {second} launches"))
            })
    }
}
