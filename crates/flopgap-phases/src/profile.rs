//! The kernels of a report with their totals.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, KernelClass, KernelInfo};
use flopgap_ncu::{
    Arithmetic, Count, FlopCounter, Flops, Instruction, LaunchView, Layout, Measurement, Precision, Reader,
    Symbol, Unknown,
};
use rustc_hash::FxHashMap;

use crate::arithmetic::arithmetic;
use crate::gap::{Gap, Lacking, Missing, Place};
use crate::repeat::SeenLaunches;
use crate::{PhaseError, Warning};

/// What the launches of a kernel, of a class or of a whole report add up to.
///
/// A sum is present only if it was measured for every launch: a part of the whole would be a wrong
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Launches.
    pub launches: u64,
    /// Floating-point operations of all precisions. It is measured for a launch only if nothing of
    /// that launch's is missing ([`Flops::work`]).
    pub flops: Sum,
    /// The same by precision; a precision that no launch was measured for is not listed.
    pub by_precision: BTreeMap<Precision, Sum>,
    /// Instructions of the shader cores by kind, once for each thread; a kind that no launch was
    /// measured for is not listed.
    pub by_instruction: BTreeMap<Instruction, Sum>,
    /// Bytes to and from device memory.
    pub dram_bytes: Sum,
    /// Bytes through the L2 cache.
    pub l2_bytes: Sum,
    /// Time on the GPU in nanoseconds.
    pub duration_ns: Sum,
    /// Half-precision instructions, counted as operations, that are constants and conversions. Not
    /// in `flops`.
    pub half_artifacts: u64,
    /// Half-precision operations that may be arithmetic or not. Not in `flops`.
    pub half_undecided: u64,
}

/// A sum over launches, with the number of launches that it was measured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    value: u64,
    measured: u64,
    rounded: bool,
}

impl Sum {
    fn add(&mut self, count: Option<Count>, launches: u64, quantity: &'static str) -> Result<(), FlopError> {
        let Some(count) = count else { return Ok(()) };
        let overflow = || FlopError::Overflow { quantity: quantity.into() };
        self.value = self.value.checked_add(count.value).ok_or_else(overflow)?;
        self.measured += launches;
        self.rounded |= count.rounded;
        Ok(())
    }

    /// Whether ncu printed a part of it rounded (`10.53 Mbyte`).
    pub fn is_rounded(self) -> bool {
        self.rounded
    }
}

impl Totals {
    /// The sum if it was measured for every launch; `None` otherwise.
    pub fn complete(&self, sum: Sum) -> Option<u64> {
        (self.launches > 0 && sum.measured == self.launches).then_some(sum.value)
    }

    /// The sum over those launches that it was measured for.
    pub fn known(&self, sum: Sum) -> u64 {
        sum.value
    }

    /// How many launches a sum was measured for.
    pub fn measured(&self, sum: Sum) -> u64 {
        sum.measured
    }

    /// Whether some launch lacks it.
    fn lacks(&self, sum: Sum) -> bool {
        sum.measured < self.launches
    }

    /// How many launches a sum lacks, if it was measured for some and not for all.
    pub fn lacking(&self, sum: Sum) -> Option<u64> {
        (sum.measured > 0).then(|| self.launches - sum.measured).filter(|&launches| launches > 0)
    }

    /// FLOPs for each byte of device memory.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.complete(self.dram_bytes).filter(|&bytes| bytes > 0)?;
        Some(self.complete(self.flops)? as f64 / bytes as f64)
    }

    fn add(&mut self, launches: u64, flops: &Flops) -> Result<(), FlopError> {
        self.launches += launches;
        self.flops.add(flops.total(), launches, "FLOPs")?;
        for (precision, measurement) in flops.iter() {
            let operations = match measurement {
                // Constants and conversions: of arithmetic there is none.
                Measurement::Artifact(_) => Some(Count::default()),
                other => other.count(),
            };
            self.by_precision.entry(precision).or_default().add(
                operations,
                launches,
                "FLOPs of a precision",
            )?;
            match measurement {
                Measurement::Artifact(count) => add_to(&mut self.half_artifacts, count.value)?,
                Measurement::Undecided(count) => add_to(&mut self.half_undecided, count.value)?,
                _ => {}
            }
        }
        for (instruction, count) in flops.instructions.iter() {
            let sum = self.by_instruction.entry(instruction).or_default();
            sum.add(Some(count), launches, "instructions")?;
        }
        self.dram_bytes.add(flops.dram_bytes, launches, "DRAM bytes")?;
        self.l2_bytes.add(flops.l2_bytes, launches, "L2 bytes")?;
        self.duration_ns.add(flops.duration_ns, launches, "GPU time")?;
        Ok(())
    }
}

/// One kernel of a report: all launches with the same name.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelProfile {
    /// The name as the report has it.
    pub name: String,
    /// The information in its name.
    pub info: Arc<KernelInfo>,
    /// What its launches add up to.
    pub totals: Totals,
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
    pub gaps: Vec<Gap>,
    /// Launches without DRAM traffic, without L2 traffic and without GPU time, where others have
    /// it.
    pub missing: [Option<Missing>; 3],
    /// Launches whose half-precision instructions may be arithmetic or not.
    pub undecided: Option<Missing>,
    /// Where the report breaks off or is damaged, as [`Reader::lost_at`]: every sum may be too
    /// small.
    pub lost_at: Option<u64>,
    /// Warnings about the report.
    pub warnings: Vec<Warning>,
}

impl Profile {
    /// Adds up a report launch by launch; memory grows with the number of different kernels, and by
    /// eight bytes a launch to notice one that comes twice.
    ///
    /// # Errors
    /// [`PhaseError::Report`] when it cannot be read, [`PhaseError::NvtxSummary`] when its rows
    /// overlap, [`PhaseError::RepeatedLaunch`] when a launch is in it twice, [`PhaseError::Flops`]
    /// when a sum leaves `u64`.
    pub fn load(path: &Path, classifier: &Classifier) -> Result<Profile, PhaseError> {
        Profile::read(Reader::open(path)?, path, classifier)
    }

    /// Like [`Profile::load`], from a reader that was opened with other options or on something
    /// that is no file; `path` names it in messages.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn read(reader: Reader, path: &Path, classifier: &Classifier) -> Result<Profile, PhaseError> {
        Profile::read_where(reader, path, classifier, |_| Ok(true))
    }

    /// Like [`Profile::read`], of those launches that `takes` says yes to. It is requested every
    /// launch, in the report's order.
    ///
    /// # Errors
    /// As [`Profile::load`], and those of `takes`.
    pub fn read_where(
        mut reader: Reader,
        path: &Path,
        classifier: &Classifier,
        mut takes: impl FnMut(LaunchView<'_>) -> Result<bool, PhaseError>,
    ) -> Result<Profile, PhaseError> {
        let mut counter = FlopCounter::new();
        let mut slots: FxHashMap<Symbol, (usize, Arithmetic)> = FxHashMap::default();
        let mut sums = Sums::default();
        let mut seen = SeenLaunches::default();
        while let Some(launch) = reader.next_launch()? {
            seen.note(path, launch)?;
            if !takes(launch)? {
                continue;
            }
            let (slot, computes) =
                *slots.entry(launch.name).or_insert_with(|| sums.start(launch.kernel_name(), classifier));
            let flops = counter.count_as(launch, &computes);
            let place = Place::of(launch);
            sums.add(slot, launch.invocations, &flops, place, launch.compute_capability)?;
        }
        if reader.layout() == Layout::NvtxSummary {
            return Err(PhaseError::NvtxSummary { path: path.to_owned() });
        }
        let mut profile = sums.finish();
        profile.lost_at = reader.lost_at();
        profile.warnings = Warning::of_report(path, reader.warnings());
        Ok(profile)
    }

    /// Adds up launches that no report holds: the name of each one's kernel, the instructions that
    /// were counted, and its time.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn of<'a, I>(
        launches: impl IntoIterator<Item = (&'a str, I, Option<u64>)>,
        classifier: &Classifier,
    ) -> Result<Profile, FlopError>
    where
        I: IntoIterator<Item = (Instruction, u64)>,
    {
        let mut counter = FlopCounter::new();
        let mut slots: FxHashMap<&str, (usize, Arithmetic)> = FxHashMap::default();
        let mut sums = Sums::default();
        for (index, (name, executed, duration_ns)) in launches.into_iter().enumerate() {
            let (slot, computes) = *slots.entry(name).or_insert_with(|| sums.start(name, classifier));
            let flops = counter.count_instructions(executed, duration_ns, &computes);
            sums.add(slot, 1, &flops, Place::Launch(index as u64), None)?;
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
                known.info.class == kernel.info.class && known.info.short == kernel.info.short
            };
            match self.kernels.iter_mut().find(same) {
                Some(known) => known.totals.merge(&kernel.totals)?,
                None => self.kernels.push(kernel),
            }
        }
        self.totals.merge(&more.totals)?;
        for gap in more.gaps {
            let same = |known: &&mut Gap| known.reason == gap.reason && known.counters == gap.counters;
            match self.gaps.iter_mut().find(same) {
                Some(known) => known.missing.merge(&gap.missing),
                None => self.gaps.push(gap),
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
        self.lost_at = self.lost_at.or(more.lost_at);
        self.warnings.extend(more.warnings);
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.kernels.sort_by_cached_key(|kernel| (kernel.totals.rank(), kernel.name.clone()));
        self.gaps.sort_by_key(|gap| Reverse(gap.missing.launches));
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

/// A profile while launches are added to it.
#[derive(Default)]
struct Sums {
    profile: Profile,
    gaps: BTreeMap<(Unknown, Option<(u32, u32)>), Missing>,
    lacking: [Lacking; 3],
}

impl Sums {
    /// Begins a kernel: its place, and what its name says about its arithmetic.
    fn start(&mut self, name: &str, classifier: &Classifier) -> (usize, Arithmetic) {
        let info = classifier.get(name);
        let computes = arithmetic(&info);
        let totals = Totals::default();
        self.profile.kernels.push(KernelProfile { name: name.to_owned(), info, totals });
        (self.profile.kernels.len() - 1, computes)
    }

    /// Adds what was counted of a kernel's launch, or of several that one row stands for.
    fn add(
        &mut self,
        slot: usize,
        launches: u64,
        flops: &Flops,
        place: Place,
        capability: Option<(u32, u32)>,
    ) -> Result<(), FlopError> {
        let Sums { profile, gaps, lacking } = self;
        profile.kernels[slot].totals.add(launches, flops)?;
        profile.totals.add(launches, flops)?;
        let kernel = profile.kernels[slot].info.short.as_str();
        if let Err(reason) = flops.work() {
            let key = (reason, capability);
            let mut missing = gaps.remove(&key);
            Missing::add(&mut missing, kernel, launches, place);
            gaps.extend(missing.map(|missing| (key, missing)));
        }
        let measured = [flops.dram_bytes, flops.l2_bytes, flops.duration_ns];
        for (lacking, count) in lacking.iter_mut().zip(measured) {
            let earlier = || {
                profile.kernels.iter().enumerate().map(|(other, kernel)| {
                    let these = if other == slot { launches } else { 0 };
                    (kernel.info.short.as_str(), kernel.totals.launches - these)
                })
            };
            lacking.note(count.is_some(), (kernel, launches), place, earlier);
        }
        if let Measurement::Undecided(_) = flops.get(Precision::Fp16) {
            Missing::add(&mut profile.undecided, kernel, launches, place);
        }
        Ok(())
    }

    fn finish(self) -> Profile {
        let Sums { mut profile, gaps, lacking } = self;
        let gap = |((reason, capability), missing): ((Unknown, _), _)| Gap {
            reason,
            missing,
            counters: reason.counters_to_record(capability),
        };
        profile.gaps = gaps.into_iter().map(gap).collect();
        profile.missing = lacking.map(Lacking::of_some);
        profile.sort();
        profile
    }
}

impl Sum {
    fn merge(&mut self, more: Sum, quantity: &'static str) -> Result<(), FlopError> {
        self.add(Some(Count { value: more.value, rounded: more.rounded }), more.measured, quantity)
    }
}

impl Totals {
    /// Adds the launches of `more`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn merge(&mut self, more: &Totals) -> Result<(), FlopError> {
        self.launches += more.launches;
        self.flops.merge(more.flops, "FLOPs")?;
        for (precision, sum) in &more.by_precision {
            self.by_precision.entry(*precision).or_default().merge(*sum, "FLOPs of a precision")?;
        }
        for (instruction, sum) in &more.by_instruction {
            self.by_instruction.entry(*instruction).or_default().merge(*sum, "instructions")?;
        }
        self.dram_bytes.merge(more.dram_bytes, "DRAM bytes")?;
        self.l2_bytes.merge(more.l2_bytes, "L2 bytes")?;
        self.duration_ns.merge(more.duration_ns, "GPU time")?;
        add_to(&mut self.half_artifacts, more.half_artifacts)?;
        add_to(&mut self.half_undecided, more.half_undecided)
    }

    /// What the largest come first by: what is not known may be anything, then FLOPs, then time.
    fn rank(&self) -> Reverse<(bool, u64, u64)> {
        Reverse((self.lacks(self.flops), self.flops.value, self.duration_ns.value))
    }
}

fn add_to(operations: &mut u64, more: u64) -> Result<(), FlopError> {
    let overflow = || FlopError::Overflow { quantity: "half-precision operations".into() };
    *operations = operations.checked_add(more).ok_or_else(overflow)?;
    Ok(())
}
