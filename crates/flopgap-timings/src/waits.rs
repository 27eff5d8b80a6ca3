//! When the host waited for the GPU.

use std::collections::hash_map::Entry;

use flopgap_nsys::{Error, GlobalId, Trace};
use rustc_hash::FxHashMap;

/// The intervals in which each thread was in a call that waits for the GPU, by time, none overlapping another.
pub(crate) struct Waits(FxHashMap<GlobalId, Vec<(i64, i64)>>);

/// Whether a call of the runtime or driver API returns only when work on the GPU is done, by its name:
/// `cuda{Device,Stream,Event,Thread}Synchronize`, `cu{Ctx,Stream,Event}Synchronize`, and the copies that are not asynchronous.
pub(crate) fn waits(name: &str) -> bool {
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let name = match name.rsplit_once("_v") {
        Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    };
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let copies = name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy");
    name.ends_with("Synchronize") || (copies && !name.contains("Async"))
}

impl Waits {
    /// Reads all calls.
    pub(crate) fn read(trace: &Trace) -> Result<Waits, Error> {
        let mut known: FxHashMap<i64, bool> = FxHashMap::default();
        let mut intervals: FxHashMap<GlobalId, Vec<(i64, i64)>> = FxHashMap::default();
        for call in trace.api_calls()? {
            let call = call?;
            let Some(thread) = call.thread else { continue };
            let waiting = match known.entry(call.name) {
                Entry::Occupied(waiting) => *waiting.get(),
                Entry::Vacant(new) => *new.insert(trace.string(call.name)?.is_some_and(|name| waits(&name))),
            };
            if waiting && call.end > call.start {
                intervals.entry(thread).or_default().push((call.start, call.end));
            }
        }
        for intervals in intervals.values_mut() {
            merge(intervals);
        }
        Ok(Waits(intervals))
    }

    /// For how long a thread waited between two instants.
    pub(crate) fn within(&self, thread: GlobalId, start: i64, end: i64) -> i64 {
        let Some(intervals) = self.0.get(&thread) else { return 0 };
        let first = intervals.partition_point(|&(_, ended)| ended <= start);
        let inside = intervals[first..].iter().take_while(|&&(began, _)| began < end);
        inside.map(|&(began, ended)| ended.min(end) - began.max(start)).sum()
    }
}

/// Sorts intervals of time and joins those that touch, so that no instant counts twice: a runtime call contains the driver call
/// that it makes.
pub(crate) fn merge(intervals: &mut Vec<(i64, i64)>) {
    intervals.sort_unstable();
    intervals.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1;
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_wait() {
        for name in [
            "cudaDeviceSynchronize_v3020",
            "cudaStreamSynchronize_ptsz_v7000",
            "cudaStreamSynchronize_v3020_ptsz",
            "cuCtxSynchronize",
            "cuEventSynchronize",
            "cudaMemcpy_v3020",
            "cudaMemcpy2D_v3020",
            "cuMemcpyDtoH_v2",
            "cudaMemcpyToSymbol_v3020",
        ] {
            assert!(waits(name), "{name}");
        }
        for name in
            ["cudaMemcpyAsync_v3020", "cuMemcpyHtoDAsync_v2", "cudaLaunchKernel_v7000", "cudaMalloc_v3020"]
        {
            assert!(!waits(name), "{name}");
        }
    }

    proptest::proptest! {
        /// The time within a window is what counting instant by instant gives.
        #[test]
        fn waits_are_counted_once(
            raw in proptest::collection::vec((0_i64..50, 1_i64..10), 0..20),
            window in (0_i64..60, 0_i64..30),
        ) {
            let mut intervals: Vec<(i64, i64)> = raw.iter().map(|(start, length)| (*start, start + length)).collect();
            let (start, end) = (window.0, window.0 + window.1);
            let covered = |at: &i64| intervals.iter().any(|(began, ended)| began <= at && at < ended);
            let expected = i64::try_from((start..end).filter(covered).count()).unwrap();
            merge(&mut intervals);
            let thread = GlobalId(1);
            let waits = Waits([(thread, intervals)].into_iter().collect());
            proptest::prop_assert_eq!(waits.within(thread, start, end), expected);
        }
    }
}
