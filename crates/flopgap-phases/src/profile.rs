//! Which kernels a report holds, and what each of them did.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, KernelClass, KernelInfo};
use flopgap_ncu::{
    Arithmetic, Count, FlopCounter, Flops, LaunchView, Layout, Measurement, Precision, Reader, Symbol,
    Unknown,
};
use rustc_hash::FxHashMap;

use crate::PhaseError;
use crate::arithmetic::arithmetic;
use crate::gap::{Gap, Lacking, Missing, Place};
use crate::repeat::SeenLaunches;

/// What the launches of a kernel, of a class or of a whole report add up to.
///
/// A sum is present only if it was measured for every launch: a part of the whole would be a wrong number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Launches.
    pub launches: u64,
    /// Floating-point operations of all precisions. It is measured for a launch only if nothing of that launch's is missing
    /// ([`Flops::work`]).
    pub flops: Sum,
    /// The same by precision; a precision that no launch was measured for is not listed.
    pub by_precision: BTreeMap<Precision, Sum>,
    /// Bytes to and from device memory.
    pub dram_bytes: Sum,
    /// Bytes through the L2 cache.
    pub l2_bytes: Sum,
    /// Time on the GPU in nanoseconds.
    pub duration_ns: Sum,
    /// Half-precision instructions, counted as operations, that are constants and conversions. Not in `flops`.
    pub half_artifacts: u64,
    /// Half-precision operations of which nothing tells whether they are arithmetic. Not in `flops`.
    pub half_undecided: u64,
}

/// A sum over launches, with the number of launches that it was measured for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        self.dram_bytes.add(flops.dram_bytes, launches, "DRAM bytes")?;
        self.l2_bytes.add(flops.l2_bytes, launches, "L2 bytes")?;
        self.duration_ns.add(flops.duration_ns, launches, "GPU time")?;
        Ok(())
    }
}

/// One kernel of a report: all launches with the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelProfile {
    /// The name as the report has it.
    pub name: String,
    /// What the name tells.
    pub info: Arc<KernelInfo>,
    /// What its launches add up to.
    pub totals: Totals,
}

/// The kernels of a report: those whose FLOPs are not known, then the one with the most FLOPs (then the longest, then by name).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The kernels.
    pub kernels: Vec<KernelProfile>,
    /// The sum of all.
    pub totals: Totals,
    /// Why the FLOPs of launches are not known, the reason of most launches first.
    pub gaps: Vec<Gap>,
    /// Launches without DRAM traffic, without L2 traffic and without GPU time, where others have it.
    pub missing: [Option<Missing>; 3],
    /// Launches whose half-precision instructions may be arithmetic or not.
    pub undecided: Option<Missing>,
    /// Where the report breaks off or is damaged, as [`Reader::lost_at`]: every sum may be too small.
    pub lost_at: Option<u64>,
    /// What was strange in the report.
    pub warnings: Vec<String>,
}

impl Profile {
    /// Adds up a report launch by launch; memory grows with the number of different kernels, and by eight bytes a
    /// launch to notice one that comes twice.
    ///
    /// # Errors
    /// [`PhaseError::Report`] when it cannot be read, [`PhaseError::NvtxSummary`] when its rows overlap,
    /// [`PhaseError::RepeatedLaunch`] when a launch is in it twice, [`PhaseError::Flops`] when a sum leaves `u64`.
    pub fn load(path: &Path, classifier: &Classifier) -> Result<Profile, PhaseError> {
        Profile::read(Reader::open(path)?, path, classifier)
    }

    /// Like [`Profile::load`], from a reader that was opened with other options or on something that is no file; `path` names it in
    /// messages.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn read(mut reader: Reader, path: &Path, classifier: &Classifier) -> Result<Profile, PhaseError> {
        let mut counter = FlopCounter::new();
        let mut slots: FxHashMap<Symbol, (usize, Arithmetic)> = FxHashMap::default();
        let mut profile = Profile::default();
        let mut gaps: BTreeMap<(Unknown, Option<(u32, u32)>), Missing> = BTreeMap::new();
        let mut lacking: [Lacking; 3] = Default::default();
        let mut seen = SeenLaunches::default();
        while let Some(launch) = reader.next_launch()? {
            seen.note(path, launch)?;
            let (slot, computes) = *slots.entry(launch.name).or_insert_with(|| {
                let slot = profile.start(launch, classifier);
                (slot, arithmetic(&profile.kernels[slot].info))
            });
            let flops = counter.count_as(launch, &computes);
            profile.kernels[slot].totals.add(launch.invocations, &flops)?;
            profile.totals.add(launch.invocations, &flops)?;
            let kernel = profile.kernels[slot].info.short.as_str();
            let place = Place::of(launch);
            if let Err(reason) = flops.work() {
                let key = (reason, launch.compute_capability);
                let mut missing = gaps.remove(&key);
                Missing::add(&mut missing, kernel, launch.invocations, place);
                gaps.extend(missing.map(|missing| (key, missing)));
            }
            let measured = [flops.dram_bytes, flops.l2_bytes, flops.duration_ns];
            for (index, count) in measured.into_iter().enumerate() {
                let earlier = || {
                    profile.kernels.iter().enumerate().map(|(other, kernel)| {
                        let these = if other == slot { launch.invocations } else { 0 };
                        (kernel.info.short.as_str(), kernel.totals.launches - these)
                    })
                };
                lacking[index].note(count.is_some(), (kernel, launch.invocations), place, earlier);
            }
            if let Measurement::Undecided(_) = flops.get(Precision::Fp16) {
                Missing::add(&mut profile.undecided, kernel, launch.invocations, place);
            }
        }
        if reader.layout() == Layout::NvtxSummary {
            return Err(PhaseError::NvtxSummary { path: path.to_owned() });
        }
        profile.kernels.sort_by_cached_key(|kernel| (kernel.totals.rank(), kernel.name.clone()));
        profile.gaps = gaps
            .into_iter()
            .map(|((reason, capability), missing)| Gap {
                reason,
                missing,
                counters: reason.counters_to_record(capability),
            })
            .collect();
        profile.gaps.sort_by_key(|gap| Reverse(gap.missing.launches));
        profile.missing = lacking.map(Lacking::of_some);
        profile.lost_at = reader.lost_at();
        profile.warnings = reader.warnings().iter().map(|warning| warning.of_file(path)).collect();
        Ok(profile)
    }

    fn start(&mut self, launch: LaunchView<'_>, classifier: &Classifier) -> usize {
        let name = launch.kernel_name();
        let info = classifier.get(name);
        self.kernels.push(KernelProfile { name: name.to_owned(), info, totals: Totals::default() });
        self.kernels.len() - 1
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

impl Sum {
    fn merge(&mut self, more: Sum, quantity: &'static str) -> Result<(), FlopError> {
        self.add(Some(Count { value: more.value, rounded: more.rounded }), more.measured, quantity)
    }
}

impl Totals {
    fn merge(&mut self, more: &Totals) -> Result<(), FlopError> {
        self.launches += more.launches;
        self.flops.merge(more.flops, "FLOPs")?;
        for (precision, sum) in &more.by_precision {
            self.by_precision.entry(*precision).or_default().merge(*sum, "FLOPs of a precision")?;
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
