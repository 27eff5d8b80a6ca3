//! Which kernels a report holds, and what each of them did.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, KernelClass, KernelInfo};
use flopgap_ncu::{Count, FlopCounter, Flops, LaunchView, Layout, Measurement, Precision, Reader, Symbol};
use rustc_hash::FxHashMap;

use crate::PhaseError;
use crate::repeat::SeenLaunches;

/// What the launches of a kernel, of a class or of a whole report add up to.
///
/// A sum is present only if it was measured for every launch: a part of the whole would be a wrong number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Launches.
    pub launches: u64,
    /// Floating-point operations of all counted precisions; suspect half-precision counts are left out.
    pub flops: Sum,
    /// The same by precision; a precision that no launch was measured for is not listed.
    pub by_precision: BTreeMap<Precision, Sum>,
    /// Bytes to and from device memory.
    pub dram_bytes: Sum,
    /// Bytes through the L2 cache.
    pub l2_bytes: Sum,
    /// Time on the GPU in nanoseconds.
    pub duration_ns: Sum,
    /// Half-precision operations that are most likely constants loaded with HFMA, not in `flops`.
    pub suspect_fp16: u64,
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
            self.by_precision.entry(precision).or_default().add(
                measurement.count(),
                launches,
                "FLOPs of a precision",
            )?;
            if let Measurement::Suspect(count) = measurement {
                let overflow = || FlopError::Overflow { quantity: "suspect FLOPs".into() };
                self.suspect_fp16 = self.suspect_fp16.checked_add(count.value).ok_or_else(overflow)?;
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

/// The kernels of a report, the one with the most FLOPs first (then the longest, then by name).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The kernels.
    pub kernels: Vec<KernelProfile>,
    /// The sum of all.
    pub totals: Totals,
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
        let mut slots: FxHashMap<Symbol, usize> = FxHashMap::default();
        let mut profile = Profile::default();
        let mut seen = SeenLaunches::default();
        while let Some(launch) = reader.next_launch()? {
            seen.note(path, launch)?;
            let flops = counter.count(launch);
            let slot = *slots.entry(launch.name).or_insert_with(|| profile.start(launch, classifier));
            profile.kernels[slot].totals.add(launch.invocations, &flops)?;
            profile.totals.add(launch.invocations, &flops)?;
        }
        if reader.layout() == Layout::NvtxSummary {
            return Err(PhaseError::NvtxSummary { path: path.to_owned() });
        }
        profile.kernels.sort_by_key(|kernel| {
            let totals = &kernel.totals;
            (std::cmp::Reverse((totals.flops.value, totals.duration_ns.value)), kernel.name.clone())
        });
        profile.warnings = reader.warnings().iter().map(|warning| warning.of_file(path)).collect();
        Ok(profile)
    }

    fn start(&mut self, launch: LaunchView<'_>, classifier: &Classifier) -> usize {
        let name = launch.kernel_name();
        let info = classifier.get(name);
        self.kernels.push(KernelProfile { name: name.to_owned(), info, totals: Totals::default() });
        self.kernels.len() - 1
    }

    /// The totals of each class that occurs, the one with the most FLOPs first.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn by_class(&self) -> Result<Vec<(KernelClass, Totals)>, FlopError> {
        self.group(|kernel| kernel.info.class)
    }

    /// The totals of each value of `key`, the one with the most FLOPs first.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn group<K: Ord>(&self, key: impl Fn(&KernelProfile) -> K) -> Result<Vec<(K, Totals)>, FlopError> {
        let mut groups: BTreeMap<K, Totals> = BTreeMap::new();
        for kernel in &self.kernels {
            groups.entry(key(kernel)).or_default().merge(&kernel.totals)?;
        }
        let mut groups: Vec<(K, Totals)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, totals)| std::cmp::Reverse((totals.flops.value, totals.duration_ns.value)));
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
        let overflow = || FlopError::Overflow { quantity: "suspect FLOPs".into() };
        self.suspect_fp16 = self.suspect_fp16.checked_add(more.suspect_fp16).ok_or_else(overflow)?;
        Ok(())
    }
}
