//! How unevenly the ranks of all-to-alls give and get.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::message::{Call, Why};
use crate::place::Place;

/// The all-to-alls of a group of ranks, matched by the order in which each rank makes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllToAll {
    /// The name of the group; absent where it is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Ranks.
    pub ranks: u64,
    /// How many.
    pub collectives: u64,
    /// Of the bytes that a rank gives, what it keeps for itself included; absent where sizes are
    /// not recorded of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Imbalance>,
    /// Of the bytes that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gotten: Option<Imbalance>,
    /// Of the nanoseconds from when the last rank arrived until its kernel ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Imbalance>,
    /// Why nothing, or nothing of times, is known; absent where all is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

/// How far ranks are apart in an amount.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Imbalance {
    /// The mean amount of a rank in a collective.
    pub mean: f64,
    /// The amount of the rank that has most in each collective, as a multiple of the mean: 1 where
    /// all have as much.
    pub factor: f64,
    /// The rank that has most in all of them together.
    pub most: Place,
}

impl Imbalance {
    /// Of the amounts of some places in some collectives; nothing where all are 0 or one is absent.
    fn of<'a>(
        calls: &'a BTreeMap<Place, Vec<Call>>,
        amount: impl Fn(&'a Call, usize) -> Option<i64>,
    ) -> Option<Imbalance> {
        let count = calls.values().next().map_or(0, Vec::len);
        let mut sums: BTreeMap<Place, i128> = BTreeMap::new();
        let mut largest = 0_i128;
        for at in 0..count {
            let mut most = 0;
            for (place, own) in calls {
                let amount = i128::from(amount(own.get(at)?, at)?);
                *sums.entry(*place).or_default() += amount;
                most = most.max(amount);
            }
            largest += most;
        }
        let mean = sums.values().sum::<i128>() as f64 / sums.len().max(1) as f64;
        let (most, _) = sums.into_iter().max_by_key(|(place, sum)| (*sum, std::cmp::Reverse(*place)))?;
        (mean > 0.0).then(|| Imbalance { mean: mean / count as f64, factor: largest as f64 / mean, most })
    }
}

impl AllToAll {
    /// Of the kernels of all places, which each made as many; or why not.
    pub(crate) fn new(
        group: Option<String>,
        calls: &BTreeMap<Place, Vec<Call>>,
        why: Option<Why>,
    ) -> AllToAll {
        let collectives = calls.values().map(Vec::len).max().unwrap_or_default() as u64;
        let ranks = calls.len() as u64;
        let none = AllToAll { group, ranks, collectives, given: None, gotten: None, transfer: None, why };
        if why.is_some() {
            return none;
        }
        let bytes = |which: usize| {
            Imbalance::of(calls, move |call, _| {
                call.exchanged.and_then(|own: [u64; 2]| i64::try_from(own[which]).ok())
            })
        };
        let count = calls.values().next().map_or(0, Vec::len);
        let nth = |at: usize| calls.values().map(move |own| own[at]);
        let arrived: Vec<i64> =
            (0..count).map(|at| nth(at).map(|call| call.start).max().unwrap_or_default()).collect();
        let is_together = (0..count).all(|at| nth(at).all(|call| arrived[at] < call.end));
        let transfer = Imbalance::of(calls, |call, at| is_together.then(|| call.end - arrived[at]));
        let why = (!is_together).then_some(Why::NotTogether);
        AllToAll { given: bytes(0), gotten: bytes(1), transfer, why, ..none }
    }
}

#[cfg(test)]
mod tests {
    use flopgap_trace::GpuId;

    use super::*;

    fn place(rank: u64) -> Place {
        Place { rank: Some(rank), process: Some(1), gpu: Some(GpuId(0)) }
    }

    fn call(start: i64, end: i64, exchanged: Option<[u64; 2]>) -> Call {
        Call { start, end, bytes: None, exchanged }
    }

    /// Two of two ranks: one gives 30 and 10 bytes and gets 10 and 30, the other the reverse.
    #[test]
    fn ranks_that_take_turns_are_as_uneven_as_one_that_always_gives_most() {
        let calls = BTreeMap::from([
            (place(0), vec![call(0, 14, Some([30, 10])), call(20, 40, Some([10, 30]))]),
            (place(1), vec![call(10, 18, Some([10, 30])), call(20, 30, Some([30, 10]))]),
        ]);
        let found = AllToAll::new(Some("ep".to_owned()), &calls, None);
        assert_eq!((found.ranks, found.collectives, found.why), (2, 2, None));
        let own = Imbalance { mean: 20.0, factor: 1.5, most: place(0) };
        assert_eq!([found.given, found.gotten], [Some(own), Some(own)]);
        // 4 and 8 ns, then 20 and 10: the longest are 28 of a mean of 21.
        assert_eq!(found.transfer, Some(Imbalance { mean: 10.5, factor: 28.0 / 21.0, most: place(0) }));
    }

    #[test]
    fn what_is_not_recorded_is_absent_and_has_a_reason() {
        let mut calls = BTreeMap::from([
            (place(0), vec![call(0, 10, Some([4, 4]))]),
            (place(1), vec![call(2, 12, None)]),
        ]);
        let found = AllToAll::new(None, &calls, None);
        assert_eq!((found.given, found.gotten), (None, None));
        assert_eq!(format!("{:.4}", found.transfer.unwrap().factor), "1.1111");
        // By their clocks, one is done before the other begins: sizes are still known.
        calls.insert(place(1), vec![call(50, 60, Some([12, 4]))]);
        let found = AllToAll::new(None, &calls, None);
        assert_eq!((found.transfer, found.why), (None, Some(Why::NotTogether)));
        assert_eq!(format!("{:.4}", found.given.unwrap().factor), "1.5000");
        let found = AllToAll::new(None, &calls, Some(Why::NotAllRanks));
        assert_eq!((found.given, found.why), (None, Some(Why::NotAllRanks)));
    }
}
