//! What communication says.

use flopgap_gap::Link;
use flopgap_report::numbers;
use flopgap_timings::collectives::{Collectives, PlaceCollectives, Why};
use flopgap_timings::communication::Communication;
use flopgap_timings::exchanges::{AllToAll, Imbalance};

use super::{percent, spread, time, upper_first};

/// How much of the communication is exposed, how much of it is waiting, who is late, and how near
/// the bandwidth is to that of the links, or why nothing is known of these.
pub fn communication(found: &Communication, link: &Result<Link, String>) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(spread_of) = found.spread(|own| own.computation_ns).filter(|_| found.is_any()) {
        said.push(format!("Of the time of kernels that compute, {}.", spread(&spread_of)));
    }
    let worst =
        found.places.iter().filter(|own| own.communication_kernels > 0).max_by_key(|own| own.exposed_ns);
    let Some(own) = worst else { return said };
    let share = own.exposed_ns as f64 / own.extent_ns.max(1) as f64;
    let hidden = own.hidden().map(|share| format!(", {} of it hidden by other kernels", percent(share)));
    said.push(format!(
        "Communication, waiting for other ranks included, takes {} on {}{}: {} of it is exposed, {} of the time from the first operation to the last.",
        time(own.communication_ns as f64),
        own.place,
        hidden.unwrap_or_default(),
        time(own.exposed_ns as f64),
        percent(share)
    ));
    said.extend(late(&found.collectives));
    said.extend(messages(&found.collectives, link));
    said.extend(found.collectives.all_to_alls.iter().map(all_to_all));
    said.extend(undivided(&found.collectives));
    said
}

/// Who arrives last, and who waits.
fn late(found: &Collectives) -> Option<String> {
    let ranks = found.places.len();
    let waits = found.places.iter().max_by_key(|own| own.waiting_ns)?;
    let collectives = found.divided;
    let late = match found.late() {
        Some(late) => format!(
            "{} arrives last in {} of {collectives} collectives of {ranks} ranks, by {} in all: it is late, and the others wait.",
            upper_first(&late.place.to_string()),
            late.last,
            time(late.late_ns as f64)
        ),
        None => format!("Of {ranks} ranks none arrives last in more than half of {collectives} collectives."),
    };
    let divided = |own: &PlaceCollectives| {
        let all = own.waiting_ns + own.transfer_ns;
        format!(
            "{} of the {} in them ({}) are waiting and {} transfer",
            time(own.waiting_ns as f64),
            time(all as f64),
            percent(own.waiting_ns as f64 / all.max(1) as f64),
            time(own.transfer_ns as f64)
        )
    };
    let least = found.places.iter().min_by_key(|own| own.waiting_ns).filter(|own| own.place != waits.place);
    let least = least.map(|own| format!("; on {} {}", own.place, divided(own))).unwrap_or_default();
    Some(format!("{late} On {} {}{least}.", waits.place, divided(waits)))
}

/// How fast the messages are that take most of the transfer.
fn messages(found: &Collectives, link: &Result<Link, String>) -> Option<String> {
    let own = found.messages.first()?;
    let [algorithm, bus] = [own.algorithm_bandwidth()?, own.bus_bandwidth()?];
    let count = if own.collectives == 1 { "one".to_owned() } else { own.collectives.to_string() };
    let verb = if own.collectives == 1 { "takes" } else { "take" };
    let beside = match link {
        Ok(link) => {
            let most = link.bus_bandwidth(own.is_all_reduce(), own.ranks);
            format!(
                "{} of the {} that {} allows at most, by its data sheet",
                percent(bus / most),
                numbers::si_with_unit(most, "B/s"),
                link.name
            )
        }
        Err(why) => format!("without a ceiling, since {why}"),
    };
    Some(format!(
        "{} {} of {} between {} ranks {verb} {} after the last rank arrived: {} of the message, {} on the bus, {beside}.",
        upper_first(&count),
        own.collective,
        numbers::si_with_unit(own.bytes as f64, "B"),
        own.ranks,
        time(own.transfer_ns as f64),
        numbers::si_with_unit(algorithm, "B/s"),
        numbers::si_with_unit(bus, "B/s")
    ))
}

/// How unevenly the ranks of all-to-alls send and receive, or else how long they take.
fn all_to_all(found: &AllToAll) -> String {
    let group = found.group.as_ref().map(|group| format!(" in group `{group}`")).unwrap_or_default();
    let all = format!(
        "{} all-to-all{} of {} ranks{group}",
        found.collectives,
        if found.collectives == 1 { "" } else { "s" },
        found.ranks
    );
    let times = |own: Imbalance, verb: &str| format!("{verb} {:.2} times the mean", own.factor);
    match (found.given, found.gotten, found.transfer) {
        (Some(given), Some(gotten), _) => format!(
            "Of {all}, the rank that sends most {}, and the one that receives most {}; in all, most is sent by {} and received by {}.",
            times(given, "sends"),
            times(gotten, "receives"),
            given.most,
            gotten.most
        ),
        (_, _, Some(transfer)) => format!(
            "How much each rank sends in {all} is not recorded. After the last rank arrived, the slowest {}; in all, {} takes longest.",
            times(transfer, "takes"),
            transfer.most
        ),
        _ => {
            let why = found.why.map_or("sizes are not recorded", why);
            let verb = if found.collectives == 1 { "is" } else { "are" };
            format!("It is unknown how uneven {all} {verb}: {why}.")
        }
    }
}

/// Why nothing is known of collectives.
fn why(why: Why) -> &'static str {
    match why {
        Why::NotAllRanks => "not all ranks that take part were recorded together",
        Why::Unmatched => "the ranks ran different numbers of them",
        Why::NotTogether => "by their clocks the ranks did not run them at the same time",
        Why::NotOfAll => "nothing says that every rank needs all others for them",
    }
}

/// What cannot be divided into waiting and transfer, and why.
fn undivided(found: &Collectives) -> impl Iterator<Item = String> + '_ {
    found.undivided.iter().map(|undivided| {
        let why = why(undivided.why);
        let kernels = if undivided.kernels == 1 {
            "one kernel that communicates".to_owned()
        } else {
            format!("{} kernels that communicate", undivided.kernels)
        };
        format!(
            "How much of {} in {kernels} is waiting for other ranks is unknown: {why}.",
            time(undivided.total_ns as f64)
        )
    })
}

#[cfg(test)]
mod tests {
    use flopgap_timings::Place;
    use flopgap_timings::collectives::Messages;
    use flopgap_trace::GpuId;

    use super::*;

    fn place(rank: u64) -> Place {
        Place { rank: Some(rank), process: Some(1), gpu: Some(GpuId(0)) }
    }

    /// 16 messages of 80 MB in 4 ms are 320 GB/s. On the bus, an all-reduce of 4 ranks sends 1.5
    /// times as much.
    #[test]
    fn a_bandwidth_stands_beside_what_the_link_allows_or_the_reason_does() {
        let own = Messages {
            collective: "allreduce".to_owned(),
            ranks: 4,
            bytes: 80_000_000,
            collectives: 16,
            transfer_ns: 4_000_000,
        };
        let found = Collectives { messages: vec![own], ..Collectives::default() };
        let said = |link: &Result<Link, String>| messages(&found, link).unwrap();
        let of = |gpu: &str| Ok(Link::of(gpu).unwrap());
        // The switches of the H200 can add up: 675 GB/s. Those of the A100 cannot: 300 GB/s.
        assert_eq!(
            said(&of("NVIDIA H200")),
            "16 allreduce of 80.0 MB between 4 ranks take 4.000 ms after the last rank arrived: 320 GB/s of the message, 480 GB/s on the bus, 71.1% of the 675 GB/s that NVLink 4 allows at most, by its data sheet."
        );
        assert!(said(&of("NVIDIA A100-SXM4-80GB")).ends_with(
            "480 GB/s on the bus, 160.0% of the 300 GB/s that NVLink 3 allows at most, by its data sheet."
        ));
        assert!(
            said(&Err("nobody knows".to_owned()))
                .ends_with("480 GB/s on the bus, without a ceiling, since nobody knows.")
        );
    }

    #[test]
    fn all_to_alls_are_uneven_in_bytes_or_times_or_nobody_knows() {
        let imbalance = |factor, rank| Some(Imbalance { mean: 1e6, factor, most: place(rank) });
        let mut own = AllToAll {
            group: Some("ep".to_owned()),
            ranks: 8,
            collectives: 64,
            given: imbalance(1.84, 5),
            gotten: imbalance(1.2, 2),
            transfer: imbalance(1.5, 7),
            why: None,
        };
        assert_eq!(
            all_to_all(&own),
            "Of 64 all-to-alls of 8 ranks in group `ep`, the rank that sends most sends 1.84 times the mean, and the one that receives most receives 1.20 times the mean; in all, most is sent by rank 5, GPU 0 and received by rank 2, GPU 0."
        );
        own.given = None;
        assert_eq!(
            all_to_all(&own),
            "How much each rank sends in 64 all-to-alls of 8 ranks in group `ep` is not recorded. After the last rank arrived, the slowest takes 1.50 times the mean; in all, rank 7, GPU 0 takes longest."
        );
        (own.transfer, own.why, own.collectives) = (None, Some(Why::NotAllRanks), 1);
        assert_eq!(
            all_to_all(&own),
            "It is unknown how uneven 1 all-to-all of 8 ranks in group `ep` is: not all ranks that take part were recorded together."
        );
    }
}
