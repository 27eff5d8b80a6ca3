//! What communication says.

use flopgap_report::numbers;
use flopgap_timings::collectives::{Collectives, PlaceCollectives, Why};
use flopgap_timings::communication::Communication;

use super::{percent, spread, time, upper_first};

/// How much of the communication is exposed, how much of it is waiting, and who is late.
pub fn communication(found: &Communication) -> Vec<String> {
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
    said.extend(messages(&found.collectives));
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
fn messages(found: &Collectives) -> Option<String> {
    let own = found.messages.first()?;
    let [algorithm, bus] = [own.algorithm_bandwidth()?, own.bus_bandwidth()?];
    let count = if own.collectives == 1 { "one".to_owned() } else { own.collectives.to_string() };
    let verb = if own.collectives == 1 { "takes" } else { "take" };
    Some(format!(
        "{} {} of {} between {} ranks {verb} {} after the last rank arrived: {} of the message, {} on the bus.",
        upper_first(&count),
        own.collective,
        numbers::si_with_unit(own.bytes as f64, "B"),
        own.ranks,
        time(own.transfer_ns as f64),
        numbers::si_with_unit(algorithm, "B/s"),
        numbers::si_with_unit(bus, "B/s")
    ))
}

/// What cannot be divided into waiting and transfer, and why.
fn undivided(found: &Collectives) -> impl Iterator<Item = String> + '_ {
    found.undivided.iter().map(|undivided| {
        let why = match undivided.why {
            Why::NotAllRanks => "not all ranks that take part were recorded together",
            Why::Unmatched => "the ranks ran different numbers of them",
            Why::NotTogether => "by their clocks the ranks did not run them at the same time",
            Why::NotOfAll => "nothing says that every rank needs all others for them",
        };
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
