//! How recordings were read as one job.

use flopgap_gap::{Gap, Joined};

use super::time;

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
            format!("{read}, as requested, although there is no time in the GPU work of all. {clocks}.")
        }
        None => format!(
            "{read}, which is assumed: they ran at the same time{machine}, but no collective of all their processes shows it. {clocks}. To read each as a recording of its own: `--read-as recordings`."
        ),
    })
}

#[cfg(test)]
mod tests {
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
            "2 exports are read as ranks of one job, as requested, although there is no time in the GPU work of all. Their clocks are put together by the UTC at which each recording began."
        );
    }
}
