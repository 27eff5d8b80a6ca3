//! Time in collectives: waiting for the rank that arrives last, and transfer.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_trace::{Operation, RankGroup};
use serde::{Deserialize, Serialize};

use crate::exchanges::AllToAll;
use crate::message::Call;
pub use crate::message::Why;
use crate::place::Place;

/// How the time in collectives divides, for the places that took part.
///
/// Each rank runs a kernel for a collective, from when it arrives. Until the last one has arrived
/// the others wait; what is left of each kernel is transfer. Calls of one collective are matched
/// by the order in which each place makes them, in each group of ranks and by the names of their
/// kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collectives {
    /// How many collectives were divided.
    pub divided: u64,
    /// Kernels that were not, by why.
    pub undivided: Vec<Undivided>,
    /// The places that took part in those that were divided.
    pub places: Vec<PlaceCollectives>,
    /// Those that were divided by what they do, ranks and size, where that is recorded: the ones
    /// with the most transfer first.
    pub messages: Vec<Messages>,
    /// How unevenly ranks give and get in all-to-alls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_to_alls: Vec<AllToAll>,
}

/// Collectives of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// What they do, as the framework calls it: `allreduce`.
    pub collective: String,
    /// Ranks.
    pub ranks: u64,
    /// Bytes of what all ranks give together or of what each gets, whichever is whole.
    pub bytes: u64,
    /// How many.
    pub collectives: u64,
    /// From when the last rank had arrived until the last was done, the sum over them.
    pub transfer_ns: i128,
}

impl Messages {
    /// Bytes per second of the message: what NCCL's tests call algorithm bandwidth.
    pub fn algorithm_bandwidth(&self) -> Option<f64> {
        let seconds = self.transfer_ns as f64 / 1e9;
        (seconds > 0.0).then(|| self.bytes as f64 * self.collectives as f64 / seconds)
    }

    /// Whether the ranks add up what they give, and all get the sum.
    pub fn is_all_reduce(&self) -> bool {
        plain(&self.collective).contains("allreduce")
    }

    /// Bytes per second that each GPU sends at least, by the least that a collective can send:
    /// `2 (n - 1) / n` of the message in an all-reduce, `(n - 1) / n` in others (NCCL's
    /// `doc/PERFORMANCE.md`).
    pub fn bus_bandwidth(&self) -> Option<f64> {
        let ranks = self.ranks as f64;
        let share = if self.is_all_reduce() { 2.0 } else { 1.0 } * (ranks - 1.0) / ranks;
        self.algorithm_bandwidth().map(|bandwidth| bandwidth * share)
    }
}

/// The collectives of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceCollectives {
    /// Which process on which GPU.
    pub place: Place,
    /// In how many it took part.
    pub collectives: u64,
    /// From when it arrived until the last one had, the sum over them.
    pub waiting_ns: i128,
    /// The rest of its kernels' durations.
    pub transfer_ns: i128,
    /// In how many it arrived last.
    pub last: u64,
    /// By how much later than the one before it, in these.
    pub late_ns: i128,
}

/// A kernel of a collective that was divided, and when the last rank arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where the kernel ran.
    pub place: Place,
    /// When it began, in nanoseconds since the recording began: when this rank arrived.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// When the last rank arrived.
    pub arrived: i64,
    /// Which rank that was.
    pub last: Place,
}

/// Kernels whose time is not divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undivided {
    /// Why.
    pub why: Why,
    /// How many kernels.
    pub kernels: u64,
    /// The sum of their durations.
    pub total_ns: i128,
}

impl Collectives {
    /// The place that arrives last in more than half of all collectives.
    pub fn late(&self) -> Option<&PlaceCollectives> {
        self.places.iter().find(|own| own.last * 2 > self.divided)
    }
}

/// Which collectives are matched with each other: group and name of the kernel.
type Key = (Option<RankGroup>, String);

/// Kernels that communicate, while they are collected.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<Key, BTreeMap<Place, Vec<Call>>>);

/// A name in lowercase letters and digits alone.
fn plain(name: &str) -> String {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase() as char).collect()
}

/// Whether a collective needs something of every rank on every rank, so that none is done before
/// all have arrived; by the name of its kernel, or what the framework calls it.
fn is_of_all(name: &str) -> bool {
    const OF_ALL: [&str; 9] = [
        "barrier",
        "allreduce",
        "allgather",
        "reducescatter",
        "alltoall",
        "crossdevicereduce",
        "multimemallreduce",
        "twoshotallreduce",
        "oneshotallreduce",
    ];
    let plain = plain(name);
    OF_ALL.iter().any(|known| plain.contains(known))
}

/// Whether a collective is an all-to-all, by the name of its kernel, or what the framework calls
/// it.
fn is_all_to_all(name: &str) -> bool {
    plain(name).contains("alltoall")
}

/// Whether all ranks end a collective together, as far as nothing of theirs is slower: all get
/// something of every other one. Of an all-to-all some may give nothing to some.
pub(crate) fn ends_together(name: &str, collective: &str) -> bool {
    let names = [name, collective];
    names.iter().any(|name| is_of_all(name)) && !names.iter().any(|name| is_all_to_all(name))
}

impl Calls {
    /// Adds a kernel that communicates, and where it ran.
    pub fn add(&mut self, place: Place, operation: &Operation<'_>) {
        let key = (operation.group.cloned(), operation.name.to_owned());
        let (start, end) = (operation.work.start, operation.work.end);
        let bytes = operation.bytes.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
        self.0.entry(key).or_default().entry(place).or_default().push(Call {
            start,
            end,
            bytes,
            exchanged: operation.exchanged,
        });
    }

    /// Divides the time of all, given the places that did GPU work and how many ranks there are.
    pub(crate) fn split(self, ran: &[Place], world_size: Option<u64>) -> Collectives {
        self.divided(ran, world_size).finish()
    }

    /// The kernels of those that can be divided, and when the last rank arrived at each, given the
    /// places that did GPU work and how many ranks there are.
    pub fn arrivals(self, ran: &[Place], world_size: Option<u64>) -> Vec<Arrival> {
        self.divided(ran, world_size).arrivals
    }

    fn divided(self, ran: &[Place], world_size: Option<u64>) -> Sums {
        let mut sums = Sums::default();
        for ((group, name), mut calls) in self.0 {
            for own in calls.values_mut() {
                own.sort_unstable_by_key(|call| (call.start, call.end));
            }
            let collective = group.as_ref().map_or("", |group| &group.collective);
            let why = if !is_of_all(&name) && !is_of_all(collective) {
                Some(Why::NotOfAll)
            } else if !is_complete(group.as_ref(), &calls, ran, world_size) {
                Some(Why::NotAllRanks)
            } else if calls.values().map(Vec::len).collect::<BTreeSet<_>>().len() > 1 {
                Some(Why::Unmatched)
            } else {
                None
            };
            if is_all_to_all(&name) || is_all_to_all(collective) {
                let group = group.as_ref().map(|group| group.name.to_string());
                sums.all_to_alls.push(AllToAll::new(group, &calls, why));
            }
            match why {
                Some(why) => sums.leave(why, calls.values().flatten()),
                None => sums.divide_all(&calls, collective),
            }
        }
        sums
    }
}

/// Whether all ranks of a group were recorded together, and there are several. A group that is not
/// known is that of all places.
fn is_complete(
    group: Option<&RankGroup>,
    calls: &BTreeMap<Place, Vec<Call>>,
    ran: &[Place],
    world_size: Option<u64>,
) -> bool {
    if calls.len() < 2 {
        return false;
    }
    let ranks: BTreeSet<u64> = calls.keys().filter_map(|place| place.rank).collect();
    match group.filter(|group| !group.ranks.is_empty()) {
        Some(group) => group.ranks.iter().copied().collect::<BTreeSet<u64>>() == ranks,
        None => calls.len() == ran.len() && world_size.is_none_or(|ranks| ranks <= calls.len() as u64),
    }
}

/// What is divided and what is not.
#[derive(Default)]
struct Sums {
    divided: u64,
    undivided: BTreeMap<Why, (u64, i128)>,
    places: BTreeMap<Place, PlaceCollectives>,
    arrivals: Vec<Arrival>,
    /// Collectives and their transfer, by what they do, ranks and bytes.
    messages: BTreeMap<(String, u64, u64), (u64, i128)>,
    all_to_alls: Vec<AllToAll>,
}

fn duration(call: &Call) -> i128 {
    i128::from(call.end) - i128::from(call.start)
}

impl Sums {
    fn leave<'a>(&mut self, why: Why, calls: impl Iterator<Item = &'a Call>) {
        let sum = self.undivided.entry(why).or_default();
        for call in calls {
            sum.0 += 1;
            sum.1 += duration(call);
        }
    }

    /// Divides the collectives of one kind, of which all places made as many.
    fn divide_all(&mut self, calls: &BTreeMap<Place, Vec<Call>>, collective: &str) {
        let count = calls.values().next().map_or(0, Vec::len);
        let nth = |at: usize| calls.iter().map(move |(place, own)| (*place, own[at]));
        let together = |at: &usize| {
            let arrived = nth(*at).map(|(_, call)| call.start).max();
            let done = nth(*at).map(|(_, call)| call.end).min();
            arrived < done
        };
        // One that does not fit says that others may be matched wrongly, too.
        if !(0..count).all(|at| together(&at)) {
            self.leave(Why::NotTogether, calls.values().flatten());
            return;
        }
        for at in 0..count {
            self.divide(&nth(at).collect::<Vec<_>>(), collective);
        }
    }

    /// Divides one collective.
    fn divide(&mut self, calls: &[(Place, Call)], collective: &str) {
        let mut starts: Vec<i64> = calls.iter().map(|(_, call)| call.start).collect();
        starts.sort_unstable_by_key(|start| std::cmp::Reverse(*start));
        let [arrived, before, ..] = starts[..] else { return };
        let Some((last, _)) = calls.iter().max_by_key(|(_, call)| call.start) else { return };
        self.divided += 1;
        let bytes: BTreeSet<Option<u64>> = calls.iter().map(|(_, call)| call.bytes).collect();
        let done = calls.iter().map(|(_, call)| call.end).max().unwrap_or(arrived);
        // Ranks that give unlike amounts have no message of one size.
        if let (Some(Some(bytes)), 1, false) = (bytes.first(), bytes.len(), collective.is_empty()) {
            let key = (collective.to_owned(), calls.len() as u64, *bytes);
            let (count, transfer) = self.messages.entry(key).or_default();
            *count += 1;
            *transfer += i128::from(done) - i128::from(arrived);
        }
        for (place, call) in calls {
            let Call { start, end, .. } = *call;
            self.arrivals.push(Arrival { place: *place, start, end, arrived, last: *last });
            let own = self.places.entry(*place).or_insert(PlaceCollectives {
                place: *place,
                collectives: 0,
                waiting_ns: 0,
                transfer_ns: 0,
                last: 0,
                late_ns: 0,
            });
            let waiting = i128::from(arrived) - i128::from(call.start);
            own.collectives += 1;
            own.waiting_ns += waiting;
            own.transfer_ns += duration(call) - waiting;
            if call.start == arrived && arrived > before {
                own.last += 1;
                own.late_ns += i128::from(arrived) - i128::from(before);
            }
        }
    }

    fn finish(self) -> Collectives {
        let undivided =
            self.undivided.into_iter().map(|(why, (kernels, total_ns))| Undivided { why, kernels, total_ns });
        let one = |((collective, ranks, bytes), (collectives, transfer_ns))| Messages {
            collective,
            ranks,
            bytes,
            collectives,
            transfer_ns,
        };
        let mut messages: Vec<Messages> = self.messages.into_iter().map(one).collect();
        messages.sort_by_key(|own| std::cmp::Reverse(own.transfer_ns));
        Collectives {
            divided: self.divided,
            undivided: undivided.collect(),
            places: self.places.into_values().collect(),
            messages,
            all_to_alls: self.all_to_alls,
        }
    }
}

#[cfg(test)]
mod tests {
    use flopgap_trace::GpuId;
    use proptest::prelude::*;

    use super::*;

    fn place(rank: u64) -> Place {
        Place { rank: Some(rank), process: Some(1), gpu: Some(GpuId(0)) }
    }

    const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";

    fn split(name: &str, of: &[&[(i64, i64)]], world_size: Option<u64>) -> Collectives {
        let mut calls = Calls::default();
        let own = calls.0.entry((None, name.to_owned())).or_default();
        for (rank, times) in (0..).zip(of) {
            let list = times.iter().map(|(start, end)| Call {
                start: *start,
                end: *end,
                bytes: None,
                exchanged: None,
            });
            own.insert(place(rank), list.collect());
        }
        let ran: Vec<Place> = (0..).zip(of).map(|(rank, _)| place(rank)).collect();
        calls.split(&ran, world_size)
    }

    /// The rank that waits has the longest kernels, and is not the one that is late.
    #[test]
    fn the_last_to_arrive_is_late_and_the_others_wait() {
        let found = split(ALL_REDUCE, &[&[(0, 100), (200, 300)], &[(90, 101), (270, 301)]], Some(2));
        assert_eq!((found.divided, found.undivided.len()), (2, 0));
        let [first, second] = found.places[..] else { panic!("{found:?}") };
        assert_eq!((first.waiting_ns, first.transfer_ns, first.last, first.late_ns), (160, 40, 0, 0));
        assert_eq!((second.waiting_ns, second.transfer_ns, second.last, second.late_ns), (0, 42, 2, 160));
        assert_eq!(found.late().unwrap().place, place(1));
    }

    #[test]
    fn what_cannot_be_divided_says_why() {
        let why = |found: Collectives| {
            assert_eq!((found.divided, found.places.len()), (0, 0));
            let [undivided] = found.undivided[..] else { panic!("{found:?}") };
            (undivided.why, undivided.kernels, undivided.total_ns)
        };
        assert_eq!(why(split(ALL_REDUCE, &[&[(0, 10)]], None)), (Why::NotAllRanks, 1, 10));
        assert_eq!(why(split(ALL_REDUCE, &[&[(0, 10)], &[(0, 10)]], Some(8))), (Why::NotAllRanks, 2, 20));
        assert_eq!(
            why(split(ALL_REDUCE, &[&[(0, 10), (20, 30)], &[(0, 10)]], Some(2))),
            (Why::Unmatched, 3, 30)
        );
        // The clocks of two machines.
        assert_eq!(why(split(ALL_REDUCE, &[&[(0, 10)], &[(500, 510)]], Some(2))), (Why::NotTogether, 2, 20));
        for name in ["ncclDevKernel_SendRecv", "ncclDevKernel_Broadcast_RING_LL", "ncclDevKernel_Reduce_Sum"]
        {
            assert_eq!(why(split(name, &[&[(0, 10)], &[(5, 10)]], Some(2))), (Why::NotOfAll, 2, 15));
        }
    }

    /// 1 kB in 2 µs after the last of four ranks arrived is 500 MB/s, of which an all-reduce sends
    /// one and a half, and a gather three quarters.
    #[test]
    fn bandwidths_are_those_of_nccl() {
        let found = |collective: &str, bytes: [u64; 4]| {
            let mut calls = Calls::default();
            let group =
                RankGroup { name: "0".into(), ranks: vec![0, 1, 2, 3], collective: collective.into() };
            let own = calls.0.entry((Some(group), "ncclDevKernel_Generic_1".to_owned())).or_default();
            for (rank, bytes) in (0..).zip(bytes) {
                let start = 100 * i64::try_from(rank).unwrap();
                own.insert(place(rank), vec![Call { start, end: 2300, bytes: Some(bytes), exchanged: None }]);
            }
            calls.split(&[0, 1, 2, 3].map(place), Some(4)).messages
        };
        for (collective, share) in [("allreduce", 1.5), ("_allgather_base", 0.75), ("reduce_scatter", 0.75)] {
            let [own] = &found(collective, [1000; 4])[..] else { panic!("{collective}") };
            assert_eq!((own.collective.as_str(), own.ranks, own.collectives), (collective, 4, 1));
            assert_eq!((own.bytes, own.transfer_ns), (1000, 2000));
            assert!((own.algorithm_bandwidth().unwrap() / 5e8 - 1.0).abs() < 1e-12);
            assert!((own.bus_bandwidth().unwrap() / (share * 5e8) - 1.0).abs() < 1e-12);
        }
        assert_eq!(found("all_to_allv", [1000, 1000, 1000, 999]), []);
        assert_eq!(found("", [1000; 4]), []);
    }

    /// A kernel that does anything: what the framework calls it decides.
    #[test]
    fn frameworks_say_what_a_kernel_does() {
        for (collective, divided) in
            [("allreduce", 1), ("_allgather_base", 1), ("all_to_allv", 1), ("send", 0), ("", 0)]
        {
            let mut calls = Calls::default();
            let group = RankGroup { name: "0".into(), ranks: vec![0, 1], collective: collective.into() };
            let own = calls.0.entry((Some(group), "ncclDevKernel_Generic_1".to_owned())).or_default();
            for rank in [0, 1] {
                own.insert(place(rank), vec![Call { start: 0, end: 10, bytes: None, exchanged: None }]);
            }
            let found = calls.split(&[place(0), place(1)], Some(2));
            assert_eq!((found.divided, found.undivided.is_empty()), (divided, divided == 1), "{collective}");
        }
    }

    /// Two groups that use one kernel are not mixed up.
    #[test]
    fn groups_are_divided_apart() {
        let mut calls = Calls::default();
        for (ranks, times) in [([0, 1], [(0, 10), (8, 11)]), ([2, 3], [(2, 9), (4, 9)])] {
            let group = RankGroup { name: "tp".into(), ranks: ranks.to_vec(), collective: "".into() };
            let own = calls.0.entry((Some(group), ALL_REDUCE.to_owned())).or_default();
            for (rank, (start, end)) in ranks.into_iter().zip(times) {
                own.insert(place(rank), vec![Call { start, end, bytes: None, exchanged: None }]);
            }
        }
        let ran: Vec<Place> = (0..4).map(place).collect();
        let found = calls.split(&ran, Some(4));
        let waiting: Vec<i128> = found.places.iter().map(|own| own.waiting_ns).collect();
        assert_eq!((found.divided, waiting), (2, vec![8, 0, 2, 0]));
        assert_eq!(found.late(), None, "each of two is last in one of two");
    }

    proptest! {
        /// Against counting instant by instant: a rank waits while it is in the collective and
        /// another has not arrived.
        #[test]
        fn waiting_and_transfer_are_those_of_the_definition(
            starts in prop::collection::vec(0_i64..50, 2..6),
            lengths in prop::collection::vec(1_i64..20, 6),
        ) {
            let last = *starts.iter().max().unwrap();
            let times: Vec<[(i64, i64); 1]> =
                starts.iter().zip(&lengths).map(|(start, length)| [(*start, last + length)]).collect();
            let of: Vec<&[(i64, i64)]> = times.iter().map(|times| &times[..]).collect();
            let found = split(ALL_REDUCE, &of, None);
            for (own, [(start, end)]) in found.places.iter().zip(&times) {
                let waits = |at: &i64| starts.iter().any(|start| start > at);
                let waiting = (*start..*end).filter(waits).count() as i128;
                prop_assert_eq!(own.waiting_ns, waiting);
                prop_assert_eq!(own.waiting_ns + own.transfer_ns, i128::from(end - start));
            }
        }
    }
}
