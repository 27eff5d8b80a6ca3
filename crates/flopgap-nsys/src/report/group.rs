//! Grouping by key, and the eight columns that most of nsys's summaries begin with.

use std::cmp::Reverse;
use std::hash::Hash;

use flopgap_trace::Values;
use rustc_hash::FxHashMap;

use super::table::Value;

use crate::Summary;
use crate::round::percent_of;

/// Values by key.
#[derive(Debug)]
pub(crate) struct Groups<K>(FxHashMap<K, Values>);

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Groups(FxHashMap::default())
    }
}

impl<K: Hash + Eq + Ord> Groups<K> {
    pub(crate) fn add(&mut self, key: K, value: i64) {
        self.0.entry(key).or_default().add(value);
    }

    /// The values under new keys: those whose keys become equal are put together.
    pub(crate) fn rekey<L: Hash + Eq + Ord, E>(
        self,
        mut key: impl FnMut(K) -> Result<L, E>,
    ) -> Result<Groups<L>, E> {
        let mut merged: FxHashMap<L, Values> = FxHashMap::default();
        for (old, values) in self.0 {
            merged.entry(key(old)?).or_default().extend(values);
        }
        Ok(Groups(merged))
    }

    /// The statistics of each group: largest total first, then by key.
    pub(crate) fn summaries(self) -> Vec<(K, Summary)> {
        let summaries = self.0.into_iter().filter_map(|(key, values)| Some((key, values.summary()?)));
        let mut summaries: Vec<(K, Summary)> = summaries.collect();
        largest_first(&mut summaries);
        summaries
    }
}

/// Sorts by total, largest first, then by key.
pub(super) fn largest_first<K: Ord>(summaries: &mut [(K, Summary)]) {
    summaries.sort_unstable_by(|(key, one), (other_key, other)| {
        (Reverse(one.total), key).cmp(&(Reverse(other.total), other_key))
    });
}

/// Puts those with fewer values first among equal totals of what is sorted by [`largest_first`].
pub(super) fn fewest_first<K>(summaries: &mut [(K, Summary)]) {
    summaries.sort_by_key(|(_, summary)| (Reverse(summary.total), summary.count));
}

/// The sum of all totals.
pub(super) fn grand_total<K>(summaries: &[(K, Summary)]) -> i128 {
    summaries.iter().map(|(_, summary)| summary.total).sum()
}

/// The values of the columns of times: share, total, count, mean, median, least, most, deviation.
pub(super) fn times(summary: &Summary, all: i128) -> Vec<Value> {
    vec![
        percent_of(summary, all).map_or(Value::Absent, Value::Real),
        Value::Int(summary.total),
        summary.count.into(),
        Value::Real(summary.mean),
        Value::Real(summary.median),
        summary.min.into(),
        summary.max.into(),
        Value::Real(summary.stddev),
    ]
}
