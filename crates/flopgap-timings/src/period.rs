//! How often steps begin: the time from one to the next, and what is between them.

use std::collections::HashMap;

use flopgap_trace::{Ranges as NvtxRanges, ThreadId};
use serde::{Deserialize, Serialize};

use crate::statistics::{median, scatter};
use crate::times::Times;

/// How many outliers are named.
const NAMED: usize = 5;
/// From so many periods on outliers can be distinguished.
const DISTINGUISHED: usize = 5;
/// An outlier is longer than the median by more than this share of it, however alike the rest are.
const LONGER: f64 = 0.05;
/// And by more than so many (robust) standard deviations.
const DEVIATIONS: f64 = 5.0;

/// The time from the beginning of a step to that of the next one, on the thread that runs them.
///
/// The last step has none: when the next one would have begun is not recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Its statistics.
    pub times: Times,
    /// Nine of ten are no longer (nearest rank); absent for fewer than 10.
    pub p90_ns: Option<i64>,
    /// 99 of 100 are no longer (nearest rank); absent for fewer than 100.
    pub p99_ns: Option<i64>,
    /// Throughput: how many steps begin in a second, over all periods.
    pub per_second: f64,
    /// The part of the period from the end of a step to the beginning of the next one; negative
    /// where steps overlap.
    pub between: Times,
    /// How many periods are far longer than the median.
    pub outliers: u64,
    /// The longest of these.
    pub longest: Vec<Outlier>,
}

/// A period that is far longer than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlier {
    /// When its step began.
    pub start_ns: i64,
    /// How long it lasted.
    pub period_ns: i64,
    /// How much of it was after its step.
    pub between_ns: i64,
}

/// The periods of some instances of ranges, which are in the order of time.
pub(crate) fn periods(nvtx: &NvtxRanges, instances: &[usize]) -> Vec<Outlier> {
    let mut last: HashMap<ThreadId, usize> = HashMap::new();
    let mut found = Vec::new();
    for &at in instances {
        let range = &nvtx.ranges[at];
        let Some(before) = last.insert(range.thread, at).map(|before| &nvtx.ranges[before]) else {
            continue;
        };
        let Some(end) = before.end else { continue };
        found.push(Outlier {
            start_ns: before.start,
            period_ns: range.start.saturating_sub(before.start),
            between_ns: range.start.saturating_sub(end),
        });
    }
    found
}

impl Period {
    /// The period of some instances; `None` where no two follow each other on a thread.
    pub(crate) fn of(nvtx: &NvtxRanges, instances: &[usize]) -> Option<Period> {
        let mut all = periods(nvtx, instances);
        let times = Times::of(all.iter().map(|one| one.period_ns))?;
        let between = Times::of(all.iter().map(|one| one.between_ns))?;
        all.sort_unstable_by_key(|one| (std::cmp::Reverse(one.period_ns), one.start_ns));
        // Nearest rank of the longest first: the number of those that are longer is known.
        let rank = |share: usize| {
            let longer = all.len() - (all.len() * share).div_ceil(100);
            (all.len() * (100 - share) >= 100).then(|| all[longer].period_ns)
        };
        let lengths: Vec<f64> = all.iter().map(|one| one.period_ns as f64).collect();
        let center = median(&lengths);
        let fence = center + (DEVIATIONS * scatter(&lengths, center)).max(LONGER * center);
        let outliers = all.iter().take_while(|one| one.period_ns as f64 > fence).count();
        let outliers = if all.len() < DISTINGUISHED { 0 } else { outliers };
        Some(Period {
            p90_ns: rank(90),
            p99_ns: rank(99),
            per_second: if times.mean_ns > 0.0 { 1e9 / times.mean_ns } else { 0.0 },
            times,
            between,
            outliers: outliers as u64,
            longest: all.iter().take(outliers.min(NAMED)).copied().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use flopgap_trace::{Range, RangeId, RangeName, RangeStyle};

    use super::*;

    /// Steps of 10 with the given time after each, on a thread.
    fn steps(nvtx: &mut NvtxRanges, thread: i64, after: &[i64]) -> Vec<usize> {
        let name = nvtx.names.intern(RangeName { domain: None, text: "step".into() });
        let mut start = 0;
        let added = after.iter().map(|after| {
            let range = Range {
                id: RangeId(0),
                start,
                end: Some(start + 10),
                thread: ThreadId(thread),
                name,
                style: RangeStyle::PushPop,
                crosses_threads: false,
            };
            start += 10 + after;
            nvtx.ranges.push(range);
            nvtx.ranges.len() - 1
        });
        added.collect()
    }

    #[test]
    fn from_start_to_start_of_each_thread() {
        let mut nvtx = NvtxRanges::default();
        let mut all = steps(&mut nvtx, 1, &[5, 7, 99]);
        all.extend(steps(&mut nvtx, 2, &[20, 99]));
        all.sort_by_key(|at| nvtx.ranges[*at].start);
        let found = Period::of(&nvtx, &all).unwrap();
        assert_eq!((found.times.count, found.times.total_ns, found.between.total_ns), (3, 15 + 17 + 30, 32));
        assert_eq!((found.p90_ns, found.outliers), (None, 0));
        assert!((found.per_second - 3e9 / 62.0).abs() < 1e-3);
        assert_eq!(Period::of(&nvtx, &all[..1]), None);
    }

    #[test]
    fn percentiles_need_as_many_and_outliers_are_named() {
        let mut nvtx = NvtxRanges::default();
        let mut after = vec![10; 100];
        after.extend([11; 8]);
        after[40] = 500;
        after[70] = 90;
        after.push(0);
        let all = steps(&mut nvtx, 1, &after);
        let found = Period::of(&nvtx, &all).unwrap();
        // 108 periods: 98 of 20, 8 of 21, and two outliers.
        assert_eq!((found.times.count, found.p90_ns, found.p99_ns), (108, Some(20), Some(100)));
        assert_eq!(found.outliers, 2);
        let longest: Vec<(i64, i64)> =
            found.longest.iter().map(|one| (one.period_ns, one.between_ns)).collect();
        assert_eq!(longest, [(510, 500), (100, 90)]);
        assert_eq!(Period::of(&nvtx, &all[..10]).unwrap().p90_ns, None);
        assert_eq!(Period::of(&nvtx, &all[..11]).unwrap().p90_ns, Some(20));
    }
}
