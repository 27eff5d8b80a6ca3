//! How recordings were read as one job, and how their clocks were corrected.

use flopgap_gap::{CorrectedClock, Gap, Joined};

use super::time;
use super::words::signed;

/// That recordings were read as the ranks of one job, by what clock, and what shows both; nothing
/// where there is one, or where they say so themselves.
pub(crate) fn joined(found: &Gap) -> Option<String> {
    let Joined { recordings, at_same_time, one_machine, collectives, clocks_within_ns } = found.joined?;
    let machine = if one_machine { ", on one machine" } else { "" };
    let read = format!("{recordings} exports are read as ranks of one job");
    let clocks = "Their clocks are put together by the UTC at which each recording began";
    Some(match clocks_within_ns {
        Some(ns) => {
            let all = if collectives == 1 {
                "1 collective".to_owned()
            } else {
                format!("{} collectives", flopgap_report::numbers::group_thousands(collectives))
            };
            let within = time(ns as f64);
            format!(
                "{read}: all their processes were in {all} at the same time{machine}. {clocks}; by these collectives they differ by at most {within}."
            )
        }
        None if !at_same_time => {
            let overlap = if recordings == 2 { "do not overlap" } else { "do not all overlap" };
            format!("{read}, as requested, although the periods of their GPU work {overlap}. {clocks}.")
        }
        None => format!(
            "{read}, which is assumed: they ran at the same time{machine}, but no collective of all their processes shows it. {clocks}. To read each as a recording of its own: `--read-as recordings`."
        ),
    })
}

/// How many corrected clocks are named.
const NAMED: usize = 4;

/// Whose clock was corrected by how much, and how certain that is; nothing where none was.
pub(crate) fn corrected(found: &Gap) -> Option<String> {
    let one = |own: &CorrectedClock| {
        let place = own.places.first().map_or("a recording without GPU work".to_owned(), ToString::to_string);
        let others = match own.places.len() {
            0 | 1 => String::new(),
            several => format!(" and {} more of its clock", several - 1),
        };
        format!("{place}{others} by {} (± {})", signed(own.corrected_ns as f64), time(own.within_ns as f64))
    };
    let named: Vec<String> = found.clocks.iter().take(NAMED).map(one).collect();
    let more = found.clocks.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    (!named.is_empty()).then(|| {
        format!("Clocks are corrected by the times at which collectives end: {}{more}.", named.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use flopgap_gap::Place;
    use flopgap_trace::GpuId;

    use super::*;
    use crate::{Part, ask, open};

    #[test]
    fn the_clock_and_what_shows_it_are_said() {
        let path = format!("{}/../../fixtures/nsys/two_ranks_nccl.sqlite.zst", env!("CARGO_MANIFEST_DIR"));
        let mut gap = ask::gap(&open::open(path).unwrap(), &Part::default()).unwrap().data;
        assert_eq!(joined(&gap), None);
        let mut of = Joined {
            recordings: 2,
            at_same_time: true,
            one_machine: true,
            collectives: 1200,
            clocks_within_ns: Some(41_500),
        };
        gap.joined = Some(of);
        assert_eq!(
            joined(&gap).unwrap(),
            "2 exports are read as ranks of one job: all their processes were in 1,200 collectives at the same time, on one machine. Their clocks are put together by the UTC at which each recording began; by these collectives they differ by at most 41.5 µs."
        );
        (of.one_machine, of.collectives, of.clocks_within_ns) = (false, 0, None);
        gap.joined = Some(of);
        assert_eq!(
            joined(&gap).unwrap(),
            "2 exports are read as ranks of one job, which is assumed: they ran at the same time, but no collective of all their processes shows it. Their clocks are put together by the UTC at which each recording began. To read each as a recording of its own: `--read-as recordings`."
        );
        of.at_same_time = false;
        gap.joined = Some(of);
        assert_eq!(
            joined(&gap).unwrap(),
            "2 exports are read as ranks of one job, as requested, although the periods of their GPU work do not overlap. Their clocks are put together by the UTC at which each recording began."
        );
    }
    #[test]
    fn corrected_clocks_are_named_with_their_uncertainty() {
        let path = format!("{}/../../fixtures/nsys/two_ranks_nccl.sqlite.zst", env!("CARGO_MANIFEST_DIR"));
        let mut gap = ask::gap(&open::open(path).unwrap(), &Part::default()).unwrap().data;
        assert_eq!(corrected(&gap), None);
        let place = |rank| Place { rank: Some(rank), process: Some(1), gpu: Some(GpuId(0)) };
        let clock = |places: &[u64], corrected_ns| CorrectedClock {
            places: places.iter().map(|rank| place(*rank)).collect(),
            corrected_ns,
            within_ns: 50_000,
            collectives: 27,
        };
        gap.clocks = vec![clock(&[1], 7_654_321), clock(&[2, 3], -90_000)];
        assert_eq!(
            corrected(&gap).unwrap(),
            "Clocks are corrected by the times at which collectives end: rank 1, GPU 0 by +7.654 ms (± 50.0 µs); rank 2, GPU 0 and 1 more of its clock by -90.0 µs (± 50.0 µs)."
        );
        gap.clocks = vec![clock(&[1], 1_000_000); 6];
        assert!(corrected(&gap).unwrap().ends_with("; 2 more."));
    }
}
