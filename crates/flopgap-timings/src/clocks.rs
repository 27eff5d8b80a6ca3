//! By how much the clocks of recordings differ, from when collectives end.

use std::collections::BTreeMap;

use flopgap_kernels::{Classifier, KernelClass};
use flopgap_trace::{ClockCorrection, RankGroup, Recording, WorkKind};
use rustc_hash::FxHashMap;

use crate::collectives::ends_together;
use crate::error::Error;
use crate::place::{Gpus, Place};

/// By one clock, the kernels of one collective end no further apart than this, in nanoseconds: on
/// two GPUs of one machine, ends of all-reduces and all-gathers lay up to 28 µs apart.
const APART_NS: i64 = 50_000;
/// From fewer collectives, nothing is concluded.
const FEWEST: usize = 5;
/// How many other ways to match collectives are tried, in each direction.
const MATCHINGS: usize = 1000;

/// When a rank was in a collective: begin and end.
type Times = (i64, i64);
/// The kernels of one kind by where they ran, the recording first.
type Kernels = BTreeMap<(usize, Place), Vec<Times>>;

/// By how much to correct the clocks of recordings that were put together, where collectives show
/// that they differ. The first recording keeps its clock; so does every one whose difference is no
/// larger than its uncertainty, or not known.
///
/// All ranks of an all-reduce, all-gather, reduce-scatter or barrier end it at about the same time.
/// The median difference of their ends is that of the clocks. Other collectives, and messages
/// between two ranks, say nothing: there a rank can be done long before another.
///
/// What contradicts itself is no reason to correct anything: where ranks ran different numbers of
/// them; where one would be done before another begins, whatever the clocks; where the n-th of one
/// rank could as well be another one of the other rank, as for steps that repeat exactly, unless
/// the difference is far smaller than the time between them; and where recordings did no GPU work
/// at the same time.
///
/// # Errors
/// When there is no GPU work.
pub fn corrections(trace: &dyn Recording, classifier: &Classifier) -> Result<Vec<ClockCorrection>, Error> {
    let gpus = Gpus::read(trace)?;
    let mut known: FxHashMap<i64, bool> = FxHashMap::default();
    let mut all: BTreeMap<(Option<RankGroup>, String), Kernels> = BTreeMap::new();
    let mut ran: BTreeMap<usize, Times> = BTreeMap::new();
    trace.each_operation(true, &mut |operation| {
        let work = operation.work;
        let Some(process) = work.process else { return };
        let part = trace.part(process);
        let own = ran.entry(part).or_insert((work.start, work.end));
        *own = (own.0.min(work.start), own.1.max(work.end));
        let communicates = work.kind == WorkKind::Kernel
            && *known
                .entry(operation.name_id)
                .or_insert_with(|| classifier.get(operation.name).class == KernelClass::Communication);
        let collective = operation.group.map_or("", |group| &group.collective);
        if communicates && ends_together(operation.name, collective) {
            let key = (operation.group.cloned(), operation.name.to_owned());
            let place = gpus.place(work.process, work.device);
            all.entry(key).or_default().entry((part, place)).or_default().push((work.start, work.end));
        }
    })?;
    // What the first recording of each kind of collective shares with each other one.
    let mut pairs: BTreeMap<[usize; 2], Vec<Vec<[Times; 2]>>> = BTreeMap::new();
    for kernels in all.into_values() {
        let mut parts: BTreeMap<usize, Vec<Times>> = BTreeMap::new();
        for ((part, _), mut times) in kernels {
            times.sort_unstable();
            parts.entry(part).or_insert(times);
        }
        let Some((hub, first)) = parts.pop_first() else { continue };
        for (part, times) in parts {
            if times.len() == first.len() {
                let both = first.iter().zip(times).map(|(one, other)| [*one, other]).collect();
                pairs.entry([hub, part]).or_default().push(both);
            }
        }
    }
    let overlap = |[one, other]: [usize; 2]| {
        ran.get(&one).zip(ran.get(&other)).is_some_and(|(one, other)| one.0 < other.1 && other.0 < one.1)
    };
    let edges: Vec<([usize; 2], Difference)> = pairs
        .into_iter()
        .filter(|(pair, _)| overlap(*pair))
        .filter_map(|(pair, kinds)| Some((pair, difference(&kinds)?)))
        .collect();
    Ok(from_first(&edges))
}

/// How far a clock is ahead of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Difference {
    ns: i64,
    within_ns: i64,
    collectives: u64,
}

/// The differences from the clock of the first recording, by way of the most certain ones.
fn from_first(edges: &[([usize; 2], Difference)]) -> Vec<ClockCorrection> {
    let mut known = BTreeMap::from([(0, Difference { ns: 0, within_ns: 0, collectives: u64::MAX })]);
    loop {
        let reached = edges.iter().flat_map(|([one, other], own)| {
            let back = Difference { ns: -own.ns, ..*own };
            [(*one, *other, *own), (*other, *one, back)]
        });
        let next = reached.filter(|(from, to, _)| known.contains_key(from) && !known.contains_key(to));
        let next = next.map(|(from, to, own)| {
            let from = known[&from];
            let collectives = own.collectives.min(from.collectives);
            let (ns, within_ns) = (from.ns.saturating_add(own.ns), from.within_ns + own.within_ns);
            (to, Difference { ns, within_ns, collectives })
        });
        let Some((part, own)) = next.min_by_key(|(to, own)| (own.within_ns, *to)) else { break };
        known.insert(part, own);
    }
    let differs = known.into_iter().filter(|(_, own)| own.ns.saturating_abs() > own.within_ns);
    differs
        .map(|(part, Difference { ns, within_ns, collectives })| ClockCorrection {
            part,
            ns: -ns,
            within_ns,
            collectives,
        })
        .collect()
}

/// How far the second clock can be ahead of the first: no rank is done before the other has begun.
fn possible(both: impl Iterator<Item = [Times; 2]>) -> Option<[i64; 2]> {
    let mut range = [i64::MIN, i64::MAX];
    for [one, other] in both {
        range = [range[0].max(other.0.saturating_sub(one.1)), range[1].min(other.1.saturating_sub(one.0))];
        if range[0] > range[1] {
            return None;
        }
    }
    Some(range)
}

/// By how much later the second rank ends, in order.
fn ends(both: impl Iterator<Item = [Times; 2]>) -> Vec<i64> {
    let mut ends: Vec<i64> = both.map(|[one, other]| other.1.saturating_sub(one.1)).collect();
    ends.sort_unstable();
    ends
}

/// What collectives of several kinds say, each matched in the order of time.
fn difference(kinds: &[Vec<[Times; 2]>]) -> Option<Difference> {
    let all = || kinds.iter().flatten().copied();
    let ends_of_all = ends(all());
    let count = ends_of_all.len();
    if count < FEWEST {
        return None;
    }
    let [least, most] = possible(all())?;
    let ns = ends_of_all[count / 2].clamp(least, most);
    let scatter = ends_of_all[count - 1 - count / 20].saturating_sub(ends_of_all[count / 20]) / 2;
    let farthest = most.saturating_sub(ns).max(ns.saturating_sub(least));
    let found = Difference { ns, within_ns: scatter.max(APART_NS).min(farthest), collectives: count as u64 };
    let largest = kinds.iter().max_by_key(|kind| kind.len())?;
    let is_other = |later: usize| {
        let other = |from: [usize; 2]| {
            let count = largest.len() - later;
            let both = (0..count).map(move |at| [largest[at + from[0]][0], largest[at + from[1]][1]]);
            possible(both.clone()).map(|_| ends(both)[count / 2])
        };
        // Its own difference would be as likely.
        let is_likely = |other: i64| other.saturating_abs() / 2 <= ns.saturating_abs();
        [other([later, 0]), other([0, later])].into_iter().flatten().any(is_likely)
    };
    let is_needed = ns.saturating_abs() > found.within_ns;
    let is_unclear = is_needed && (1..=(largest.len() / 2).min(MATCHINGS)).any(is_other);
    (!is_unclear).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collectives of two ranks, of which the other arrives and ends so much later.
    fn both(all: &[(i64, i64, i64, i64)], ahead: i64) -> Vec<[Times; 2]> {
        let one = |(start, end, later, ends): &(i64, i64, i64, i64)| {
            [(*start, *end), (start + later + ahead, end + ends + ahead)]
        };
        all.iter().map(one).collect()
    }

    /// Irregular collectives of half a millisecond each; ends scatter by some microseconds.
    fn irregular() -> Vec<(i64, i64, i64, i64)> {
        let starts = [0, 3_000_000, 4_100_000, 9_000_000, 11_700_000, 13_000_000, 19_000_000, 20_200_000];
        let scatter = [0, 2_000, -3_000, 1_000, 900, -800, 4_000, 0];
        starts.iter().zip(scatter).map(|(start, ends)| (*start, start + 500_000, 100_000, ends)).collect()
    }

    #[test]
    fn a_known_difference_is_found_within_its_uncertainty() {
        for ahead in [-7_000_000, -300_000, -51_000, 0, 1_000, 90_000, 2_000_000_000] {
            let found = difference(&[both(&irregular(), ahead)]).unwrap();
            assert!((found.ns - ahead).abs() <= found.within_ns, "{ahead}: {found:?}");
            assert_eq!((found.within_ns, found.collectives), (APART_NS, 8));
            let corrected = from_first(&[([0, 1], found)]);
            assert_eq!(corrected.is_empty(), ahead.abs() < APART_NS, "{ahead}: {corrected:?}");
        }
    }

    /// What is shorter than ends scatter bounds the difference itself.
    #[test]
    fn short_collectives_bound_the_uncertainty() {
        let short: Vec<_> = irregular().iter().map(|own| (own.0, own.0 + 10_000, 2_000, own.3)).collect();
        let found = difference(&[both(&short, 1_000_000)]).unwrap();
        assert!(found.within_ns < 20_000 && (found.ns - 1_000_000).abs() <= found.within_ns, "{found:?}");
    }

    /// Steps of 10 ms that repeat exactly: a difference of more than a third could as well be one
    /// in the other direction.
    #[test]
    fn what_repeats_is_corrected_only_by_far_less_than_its_period() {
        let steps: Vec<_> = (0..20).map(|at| (at * 10_000_000, at * 10_000_000 + 400_000, 0, 0)).collect();
        let of = |ahead| difference(&[both(&steps, ahead)]).map(|own| own.ns);
        assert_eq!([of(3_000_000), of(-3_000_000)], [Some(3_000_000), Some(-3_000_000)]);
        assert_eq!([of(4_000_000), of(-6_000_000), of(20_000_000)], [None; 3]);
    }

    #[test]
    fn contradictions_and_few_collectives_say_nothing() {
        let mut wrong = irregular();
        // One would be done long before the other rank begins.
        wrong[3].2 += 5_000_000;
        wrong[3].3 += 5_000_000;
        assert_eq!(difference(&[both(&wrong, 1_000_000)]), None);
        assert_eq!(difference(&[both(&irregular()[..4], 1_000_000)]), None);
        // Two kinds are counted together.
        let halves = [both(&irregular()[..4], 1_000_000), both(&irregular()[4..], 1_000_000)];
        assert_eq!(difference(&halves).unwrap().ns, 1_000_900);
    }

    #[test]
    fn a_clock_is_reached_by_way_of_the_most_certain_ones() {
        let own = |ns, within_ns| Difference { ns, within_ns, collectives: 9 };
        let edges = [
            ([0, 1], own(1_000_000, 50_000)),
            ([0, 2], own(700_000, 400_000)),
            ([1, 2], own(-250_000, 60_000)),
            ([3, 4], own(9_000_000, 1)),
        ];
        let correction = |part, ns, within_ns| ClockCorrection { part, ns, within_ns, collectives: 9 };
        assert_eq!(from_first(&edges), [correction(1, -1_000_000, 50_000), correction(2, -750_000, 110_000)]);
    }
}
