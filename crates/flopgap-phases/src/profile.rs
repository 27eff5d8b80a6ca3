//! The kernels of a report with their totals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, KernelClass, KernelInfo};
use flopgap_ncu::{
    Arithmetic, FlopCounter, Flops, Instruction, LaunchView, Layout, Measurement, OperationType, Reader,
    Symbol, Unknown,
};
use rustc_hash::{FxHashMap, FxHasher};

use crate::arithmetic::arithmetic;
use crate::attribution::{Attribution, Decided, Matches, Verdict};
use crate::ceiling::{FactReader, Facts, Gpu};
use crate::missing::{Lacking, Missing, MissingCounters, Place};
use crate::repeat::SeenLaunches;
use crate::{PhaseError, Totals, Warning};

/// One kernel of a report: all launches with the same name on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelProfile {
    /// The name as the report has it.
    pub name: String,
    /// The information in its name.
    pub info: Arc<KernelInfo>,
    /// The GPU that it ran on.
    pub gpu: Gpu,
    /// What its launches add up to.
    pub totals: Totals,
}

/// The report that a selection of launches is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whole {
    /// All its launches.
    pub launches: u64,
    /// Those of them that are matrix products.
    pub products: u64,
    /// The processes that launched them.
    pub processes: BTreeSet<u64>,
    /// Selected launches that no range of their own thread is around, but one of their process.
    pub by_process: Option<Missing>,
    /// Launches that may lie within the selected ranges or not, and that no sum has.
    pub undecided: Option<Missing>,
    /// The matrix products among those.
    pub undecided_products: u64,
    /// The same for another print of the same recording: processes, ids, grids and blocks of all
    /// launches. `None` where some launch has no process or id.
    fingerprint: Option<u64>,
    /// Of the selected launches that have one.
    durations_ns: Vec<u64>,
}

impl Whole {
    /// Whether two files are prints of one recording: the same launches of the same processes, each
    /// of the same duration as far as ncu prints it. Another run of the same program, which may
    /// have its process ids in a container, takes another time.
    pub fn is_recording_of(&self, other: &Whole) -> bool {
        // The details page prints two decimals.
        let alike = |(&a, &b): (&u64, &u64)| a.abs_diff(b) <= 10 + a.max(b) / 200;
        self.fingerprint.is_some()
            && self.fingerprint == other.fingerprint
            && self.durations_ns.iter().zip(&other.durations_ns).all(alike)
    }
}

/// The kernels of a report: those whose FLOPs are not known, then the one with the most FLOPs (then
/// the longest, then by name).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// The kernels.
    pub kernels: Vec<KernelProfile>,
    /// The sum of all.
    pub totals: Totals,
    /// Why the FLOPs of launches are not known, the reason of most launches first.
    pub missing_counters: Vec<MissingCounters>,
    /// Launches without DRAM traffic, without L2 traffic and without GPU time, where others have
    /// it.
    pub missing: [Option<Missing>; 3],
    /// Launches whose half-precision instructions may be arithmetic or not.
    pub undecided: Option<Missing>,
    /// The report with the launches that were not selected.
    pub whole: Whole,
    /// Where the report breaks off or is damaged, as [`Reader::lost_at`]: every sum may be too
    /// small.
    pub lost_at: Option<u64>,
    /// Warnings about the report.
    pub warnings: Vec<Warning>,
}

impl Profile {
    /// Adds up a report (any CSV of ncu, or `.ncu-rep`) launch by launch; memory grows with the
    /// number of different kernels, and by eight bytes a launch to notice one that comes twice.
    ///
    /// # Errors
    /// [`PhaseError::Report`] when it cannot be read, [`PhaseError::NvtxSummary`] when its rows
    /// overlap, [`PhaseError::RepeatedLaunch`] when a launch is in it twice, [`PhaseError::Flops`]
    /// when a sum leaves `u64`.
    pub fn open(path: impl AsRef<Path>) -> Result<Profile, PhaseError> {
        let path = path.as_ref();
        Profile::read_within(Reader::open(path)?, path, &Classifier::new(), None, |_| Ok(true))
    }

    /// Like [`Profile::open`], from a reader that was opened with other options or on something
    /// other than a file (`path` names it in messages), of those launches that `takes` says yes to
    /// and that lie within ranges, where some are requested. `takes` is asked for every launch, in
    /// the report's order.
    ///
    /// They belong to ranges by process: what another thread launched while the main thread was in
    /// a range is in it, too. An `.ncu-rep` lists the ranges of all threads. A CSV lists those of
    /// the launching thread alone; there, a launch without any counts where the launches of the
    /// thread with ranges before and after it show that the range stayed open, and otherwise is
    /// in [`Whole::undecided`].
    ///
    /// # Errors
    /// As [`Profile::open`], and those of `takes`.
    pub fn read_within(
        mut reader: Reader,
        path: &Path,
        classifier: &Classifier,
        within: Option<&Matches<'_>>,
        mut takes: impl FnMut(LaunchView<'_>) -> Result<bool, PhaseError>,
    ) -> Result<Profile, PhaseError> {
        let mut counter = FlopCounter::new();
        let mut facts = FactReader::default();
        let mut kernels: FxHashMap<Symbol, Named> = FxHashMap::default();
        let mut slots: FxHashMap<(Symbol, Gpu), usize> = FxHashMap::default();
        let mut sums = Sums::default();
        let mut seen = SeenLaunches::default();
        let mut prints = Fingerprint::default();
        let mut attribution = within.map(Attribution::new);
        while let Some(launch) = reader.next_launch()? {
            seen.note(path, launch)?;
            prints.note(launch);
            let kernel = kernels.entry(launch.name).or_insert_with(|| Named::of(launch, classifier));
            sums.note(launch, kernel);
            let wanted = takes(launch)?;
            let (verdict, decided) =
                attribution.as_mut().map_or((Verdict::Own, None), |ranges| ranges.judge(launch));
            if let Some(decided) = decided {
                sums.decide(&decided)?;
            }
            if !wanted || verdict == Verdict::Outside {
                continue;
            }
            let facts = facts.read(launch);
            let gpu = facts.gpu(launch);
            let slot = *slots.entry((launch.name, gpu)).or_insert_with(|| sums.start(kernel, gpu));
            let one = Counted {
                slot,
                product: kernel.is_product(),
                launches: launch.invocations,
                flops: counter.count_as(launch, &kernel.computes),
                facts,
                place: Place::of(launch),
                capability: launch.compute_capability,
            };
            match (verdict, &mut attribution) {
                (Verdict::Open, Some(attribution)) => attribution.wait(launch, one),
                (Verdict::Main, _) => sums.add_by_process(&one)?,
                _ => sums.add(&one)?,
            }
        }
        if reader.layout() == Layout::NvtxSummary {
            return Err(PhaseError::NvtxSummary { path: path.to_owned() });
        }
        for undecided in attribution.into_iter().flat_map(Attribution::undecided) {
            sums.leave_undecided(&undecided);
        }
        let mut profile = sums.finish();
        profile.whole.fingerprint = prints.finish();
        profile.lost_at = reader.lost_at();
        profile.warnings = Warning::of_report(path, reader.warnings());
        Ok(profile)
    }

    /// Adds up launches that no report holds: the name of each one's kernel, the instructions that
    /// were counted, and its time.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn new<'a, I>(
        launches: impl IntoIterator<Item = (&'a str, I, Option<u64>)>,
        classifier: &Classifier,
    ) -> Result<Profile, FlopError>
    where
        I: IntoIterator<Item = (Instruction, u64)>,
    {
        let mut counter = FlopCounter::new();
        let mut slots: FxHashMap<&str, (usize, Named)> = FxHashMap::default();
        let mut sums = Sums::default();
        for (index, (name, executed, duration_ns)) in launches.into_iter().enumerate() {
            let (slot, kernel) = slots.entry(name).or_insert_with(|| {
                let kernel = Named::new(name, classifier);
                (sums.start(&kernel, Gpu::default()), kernel)
            });
            let flops = counter.count_instructions(executed, duration_ns, &kernel.computes);
            sums.add(&Counted {
                slot: *slot,
                product: kernel.is_product(),
                launches: 1,
                flops,
                facts: Facts::default(),
                place: Place::Launch(index as u64),
                capability: None,
            })?;
        }
        Ok(sums.finish())
    }

    /// Adds another report's kernels. They are the same by class and display name: full names are
    /// shortened differently from report to report.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn merge(&mut self, more: Profile) -> Result<(), FlopError> {
        for kernel in more.kernels {
            let same = |known: &&mut KernelProfile| {
                known.info.class == kernel.info.class
                    && known.info.short == kernel.info.short
                    && known.gpu == kernel.gpu
            };
            match self.kernels.iter_mut().find(same) {
                Some(known) => known.totals.merge(&kernel.totals)?,
                None => self.kernels.push(kernel),
            }
        }
        self.totals.merge(&more.totals)?;
        for one in more.missing_counters {
            let same =
                |known: &&mut MissingCounters| known.reason == one.reason && known.counters == one.counters;
            match self.missing_counters.iter_mut().find(same) {
                Some(known) => known.missing.merge(&one.missing),
                None => self.missing_counters.push(one),
            }
        }
        let merge = |known: &mut Option<Missing>, more: Option<Missing>| match (known.as_mut(), more) {
            (Some(known), Some(more)) => known.merge(&more),
            (None, more) => *known = more,
            (Some(_), None) => {}
        };
        for (known, more) in self.missing.iter_mut().zip(more.missing) {
            merge(known, more);
        }
        merge(&mut self.undecided, more.undecided);
        merge(&mut self.whole.by_process, more.whole.by_process);
        merge(&mut self.whole.undecided, more.whole.undecided);
        self.whole.launches += more.whole.launches;
        self.whole.products += more.whole.products;
        self.whole.undecided_products += more.whole.undecided_products;
        self.whole.processes.extend(more.whole.processes);
        self.lost_at = self.lost_at.or(more.lost_at);
        self.warnings.extend(more.warnings);
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.kernels.sort_by_cached_key(|kernel| (kernel.totals.rank(), kernel.name.clone()));
        self.missing_counters.sort_by_key(|one| Reverse(one.missing.launches));
    }

    /// The GPUs that the launches ran on.
    pub fn gpus(&self) -> BTreeSet<Gpu> {
        self.kernels.iter().map(|kernel| kernel.gpu).collect()
    }

    /// The totals of each class that occurs, in the order of [`Profile::kernels`].
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn by_class(&self) -> Result<Vec<(KernelClass, Totals)>, FlopError> {
        self.group(|kernel| kernel.info.class)
    }

    /// The totals of each value of `key`, in the order of [`Profile::kernels`].
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn group<K: Ord>(&self, key: impl Fn(&KernelProfile) -> K) -> Result<Vec<(K, Totals)>, FlopError> {
        let mut groups: BTreeMap<K, Totals> = BTreeMap::new();
        for kernel in &self.kernels {
            groups.entry(key(kernel)).or_default().merge(&kernel.totals)?;
        }
        let mut groups: Vec<(K, Totals)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, totals)| totals.rank());
        Ok(groups)
    }
}

/// A kernel's name with what follows from it.
struct Named {
    name: String,
    info: Arc<KernelInfo>,
    computes: Arithmetic,
}

impl Named {
    fn new(name: &str, classifier: &Classifier) -> Named {
        let info = classifier.get(name);
        let computes = arithmetic(&info);
        Named { name: name.to_owned(), info, computes }
    }

    fn of(launch: LaunchView<'_>, classifier: &Classifier) -> Named {
        Named::new(launch.kernel_name(), classifier)
    }

    fn is_product(&self) -> bool {
        matches!(self.info.class, KernelClass::Matmul | KernelClass::Gemv)
    }
}

/// A launch, or several that one row stands for.
struct Counted {
    slot: usize,
    product: bool,
    launches: u64,
    flops: Flops,
    facts: Facts,
    place: Place,
    capability: Option<(u32, u32)>,
}

/// What prints of one recording have in common.
#[derive(Default)]
struct Fingerprint {
    hash: FxHasher,
    launches: u64,
    is_unidentified: bool,
}

impl Fingerprint {
    fn note(&mut self, launch: LaunchView<'_>) {
        self.launches += 1;
        self.is_unidentified |= launch.id.is_none() || launch.process_id.is_none();
        (launch.process_id, launch.id, launch.grid, launch.block).hash(&mut self.hash);
    }

    fn finish(self) -> Option<u64> {
        (self.launches > 0 && !self.is_unidentified).then(|| self.hash.finish())
    }
}

/// A profile while launches are added to it.
#[derive(Default)]
struct Sums {
    profile: Profile,
    unknown: BTreeMap<(Unknown, Option<(u32, u32)>), Missing>,
    missing: [Lacking; 3],
}

impl Sums {
    /// Begins a kernel.
    fn start(&mut self, kernel: &Named, gpu: Gpu) -> usize {
        let (name, info) = (kernel.name.clone(), Arc::clone(&kernel.info));
        self.profile.kernels.push(KernelProfile { name, info, gpu, totals: Totals::default() });
        self.profile.kernels.len() - 1
    }

    /// Notes a launch of the report, selected or not.
    fn note(&mut self, launch: LaunchView<'_>, kernel: &Named) {
        let whole = &mut self.profile.whole;
        whole.launches += launch.invocations;
        if kernel.is_product() {
            whole.products += launch.invocations;
        }
        if let Some(process) = launch.process_id
            && !whole.processes.contains(&process)
        {
            whole.processes.insert(process);
        }
    }

    /// Adds the launches that waited, or names them.
    fn decide(&mut self, decided: &Decided<Counted>) -> Result<(), FlopError> {
        for counted in &decided.waiting {
            if decided.inside {
                self.add_by_process(counted)?;
            } else {
                self.leave_undecided(counted);
            }
        }
        Ok(())
    }

    fn add_by_process(&mut self, counted: &Counted) -> Result<(), FlopError> {
        let kernel = self.profile.kernels[counted.slot].info.short.as_str();
        Missing::add(&mut self.profile.whole.by_process, kernel, counted.launches, counted.place);
        self.add(counted)
    }

    fn leave_undecided(&mut self, counted: &Counted) {
        let kernel = self.profile.kernels[counted.slot].info.short.as_str();
        Missing::add(&mut self.profile.whole.undecided, kernel, counted.launches, counted.place);
        if counted.product {
            self.profile.whole.undecided_products += counted.launches;
        }
    }

    fn add(&mut self, counted: &Counted) -> Result<(), FlopError> {
        let Sums { profile, unknown, missing } = self;
        let &Counted { slot, launches, ref flops, ref facts, place, capability, .. } = counted;
        profile.whole.durations_ns.extend(flops.duration_ns.map(|time| time.value));
        profile.kernels[slot].totals.add(launches, flops, facts)?;
        profile.totals.add(launches, flops, facts)?;
        let kernel = profile.kernels[slot].info.short.as_str();
        if let Err(reason) = flops.work() {
            let key = (reason, capability);
            let mut missing = unknown.remove(&key);
            Missing::add(&mut missing, kernel, launches, place);
            unknown.extend(missing.map(|missing| (key, missing)));
        }
        let measured = [flops.dram_bytes, flops.l2_bytes, flops.duration_ns];
        for (lacking, count) in missing.iter_mut().zip(measured) {
            let earlier = || {
                profile.kernels.iter().enumerate().map(|(other, kernel)| {
                    let these = if other == slot { launches } else { 0 };
                    (kernel.info.short.as_str(), kernel.totals.launches - these)
                })
            };
            lacking.note(count.is_some(), (kernel, launches), place, earlier);
        }
        if let Measurement::Undecided(_) = flops.get(OperationType::Fp16) {
            Missing::add(&mut profile.undecided, kernel, launches, place);
        }
        Ok(())
    }

    fn finish(self) -> Profile {
        let Sums { mut profile, unknown, missing } = self;
        let counters = |((reason, capability), missing): ((Unknown, _), _)| MissingCounters {
            reason,
            missing,
            counters: reason.counters_to_record(capability),
        };
        profile.missing_counters = unknown.into_iter().map(counters).collect();
        profile.missing = missing.map(Lacking::of_some);
        // A kernel whose launches were all left undecided.
        profile.kernels.retain(|kernel| kernel.totals.launches > 0);
        profile.sort();
        profile
    }
}
