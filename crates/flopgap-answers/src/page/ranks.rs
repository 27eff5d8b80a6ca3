//! Communication between GPUs, and the time of each rank.

use flopgap_gap::Link;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::communication::{Communication, communication};
use flopgap_timings::exchanges::{AllToAll, Imbalance};
use flopgap_trace::{GpuActivity, Recording};

use super::PageOptions;
use super::trace::TracePage;
use crate::error::Error;
use crate::sentences;
use crate::tables::ms;

/// Nothing where one process on one GPU did not communicate.
pub(crate) fn section(
    page: &mut TracePage,
    trace: &dyn Recording,
    activity: &[GpuActivity],
    options: &PageOptions,
    classifier: &Classifier,
) -> Result<(), Error> {
    // What is in memory says whether all operations have to be read once more.
    if activity.len() < 2 {
        let times = trace.operation_times(None, options.part.attribution);
        let times = times?;
        let communicates = |name: &str| classifier.get(name).class == KernelClass::Communication;
        if !times.kernels.iter().any(|(name, _)| communicates(name)) {
            return Ok(());
        }
    }
    let Some(found) = page.answer("communication", communication(trace, classifier))? else { return Ok(()) };
    let link = link(trace)?;
    page.answers.extend(sentences::communication(&found, &link));
    page.heading("Communication and the time of each rank");
    page.table(table(&found))?;
    if !found.collectives.messages.is_empty() {
        page.table(messages(&found, link.as_ref().ok()))?;
    }
    if !found.collectives.all_to_alls.is_empty() {
        page.table(all_to_alls(&found.collectives.all_to_alls))?;
    }
    page.text(
        "Of everything recorded, the time in which such kernels ran: communication is kernels of NCCL and their like, \
         waiting for other GPUs included; exposed is the part of it beside which no other kernel ran. Waiting is the time in collectives until the last rank \
         arrived, transfer the rest of them; both add up the durations of kernels. Bandwidths are those of NCCL's tests: the message over the time \
         from the last arrival to the last end, and what each GPU sends of it at least. Ranks that arrive early can send before the last one arrives: of \
         small messages, the bandwidth of the bus can be larger than its ceiling.",
    );
    Ok(())
}

/// The links between the ranks, or why nothing is known of them.
fn link(trace: &dyn Recording) -> Result<Result<Link, String>, Error> {
    if !trace.is_one_machine() {
        return Ok(Err("the recording does not show that its ranks are of one machine".to_owned()));
    }
    Ok(match trace.gpu_names()?.as_slice() {
        [gpu] => Link::of(gpu)
            .ok_or_else(|| format!("what connects GPUs of the name `{gpu}` to each other is not recorded")),
        [] => Err("the names of the GPUs are not recorded".to_owned()),
        _ => Err("its GPUs are of several kinds".to_owned()),
    })
}

/// How many times the mean the rank with most has.
fn all_to_alls(found: &[AllToAll]) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Imbalance of all-to-alls: the rank with most, as a multiple of the mean",
        [
            Column::text("group", "group"),
            Column::number("ranks", "ranks"),
            Column::number("collectives", "calls"),
            Column::number("given_bytes", "sent, mean").unit("B").rank(1),
            Column::number("given", "sent"),
            Column::text("given_most", "sends most").rank(1),
            Column::number("gotten", "received"),
            Column::text("gotten_most", "receives most").rank(1),
            Column::number("transfer", "transfer"),
            Column::text("transfer_most", "transfers longest").rank(1),
        ],
    )?;
    let factor = |own: Option<Imbalance>| Cell::optional(own, |own| Cell::float(own.factor, 2));
    let most = |own: Option<Imbalance>| Cell::optional(own, |own| Cell::text(own.most.to_string()));
    for own in found {
        table.push([
            Cell::text(own.group.clone().unwrap_or_default()),
            Cell::from(own.ranks),
            Cell::from(own.collectives),
            Cell::optional(own.given, |own| Cell::float(own.mean, 0)),
            factor(own.given),
            most(own.given),
            factor(own.gotten),
            most(own.gotten),
            factor(own.transfer),
            most(own.transfer),
        ])?;
    }
    Ok(table)
}

fn messages(found: &Communication, link: Option<&Link>) -> Result<Table, ReportError> {
    let mut columns = vec![
        Column::text("collective", "collective"),
        Column::number("ranks", "ranks"),
        Column::number("bytes", "message").unit("B").rank(0),
        Column::number("collectives", "calls"),
        Column::number("transfer_ms", "transfer").unit("ms").rank(0),
        Column::number("algorithm_bandwidth", "algorithm").unit("GB/s").rank(1),
        Column::number("bus_bandwidth", "bus").unit("GB/s").rank(0),
    ];
    columns.extend(link.map(|_| Column::number("bus_ceiling", "ceiling").unit("GB/s").rank(1)));
    let mut table = Table::new("Collectives by size", columns)?;
    let gigabytes = |rate: Option<f64>| Cell::optional(rate, |rate| Cell::float(rate / 1e9, 1));
    for own in &found.collectives.messages {
        let mut row = vec![
            Cell::text(own.collective.clone()),
            Cell::from(own.ranks),
            Cell::from(own.bytes),
            Cell::from(own.collectives),
            ms(own.transfer_ns as f64),
            gigabytes(own.algorithm_bandwidth()),
            gigabytes(own.bus_bandwidth()),
        ];
        let ceiling = |link: &Link| gigabytes(Some(link.bus_bandwidth(own.is_all_reduce(), own.ranks)));
        row.extend(link.map(ceiling));
        table.push(row)?;
    }
    Ok(table)
}

fn table(found: &Communication) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Computation and communication",
        [
            Column::text("place", "of"),
            Column::number("extent_ms", "first to last").unit("ms").rank(2),
            Column::number("busy_ms", "busy").unit("ms").rank(2),
            Column::number("computation_ms", "computation").unit("ms"),
            Column::number("communication_ms", "communication").unit("ms"),
            Column::number("overlap_ms", "both").unit("ms").rank(2),
            Column::number("exposed_ms", "exposed").unit("ms").rank(0),
            Column::number("hidden_share", "hidden").rank(0),
            Column::number("waiting_ms", "waiting").unit("ms"),
            Column::number("transfer_ms", "transfer").unit("ms").rank(2),
            Column::number("last", "arrives last"),
        ],
    )?;
    for own in &found.places {
        let divided = found.collectives.places.iter().find(|divided| divided.place == own.place);
        table.push([
            Cell::text(own.place.to_string()),
            ms(own.extent_ns as f64),
            ms(own.busy_ns as f64),
            ms(own.computation_ns as f64),
            ms(own.communication_ns as f64),
            ms(own.overlap_ns as f64),
            ms(own.exposed_ns as f64),
            Cell::optional(own.hidden(), |share| Cell::percent(share, 1)),
            Cell::optional(divided, |divided| ms(divided.waiting_ns as f64)),
            Cell::optional(divided, |divided| ms(divided.transfer_ns as f64)),
            Cell::optional(divided, |divided| Cell::from(divided.last)),
        ])?;
    }
    Ok(table)
}
