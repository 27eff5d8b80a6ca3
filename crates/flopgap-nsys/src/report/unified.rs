//! Unified memory.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::{Columns, Sink, Value};
use crate::error::if_recorded;
use crate::tables::gpu::{MEMCPY, copy_addresses};
use crate::tables::unified::{
    CPU_FAULTS, FaultPlace, GPU_FAULTS, cpu_fault_addresses, fault_places, gpu_fault_addresses,
};
use crate::{CopyKind, Error, Trace};

static CPU_FAULT_COLUMNS: Columns =
    Columns::new("CPU Page Faults,CPU Instruction Address,Source File,Source Line");

/// Where a page fault happened: the instruction, and where its source is known, the file and the
/// line.
type Place = (Arc<str>, Option<Arc<str>>, Option<i64>);

/// `um_cpu_page_faults_sum`. Exports before 2025 name no source; nsys ends with an error on them.
pub(super) fn cpu_faults(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut by_id: FxHashMap<FaultPlace, u64> = FxHashMap::default();
    for place in fault_places(trace)? {
        *by_id.entry(place?).or_default() += 1;
    }
    let mut by_text: FxHashMap<Place, u64> = FxHashMap::default();
    for (FaultPlace { instruction, file, line }, faults) in by_id {
        let file = file.map(|file| trace.string_or_id(file)).transpose()?;
        *by_text.entry((trace.string_or_id(instruction)?, file, line)).or_default() += faults;
    }
    let mut rows: Vec<_> = by_text.into_iter().collect();
    rows.sort_unstable_by(|(place, faults), (other_place, other)| {
        (Reverse(faults), place).cmp(&(Reverse(other), other_place))
    });
    trace.writing(|| {
        sink.columns(&CPU_FAULT_COLUMNS)?;
        for ((instruction, file, line), faults) in rows {
            let file = file.map_or(Value::Absent, Value::from);
            sink.row(&[faults.into(), instruction.into(), file, line.into()])?;
        }
        Ok(())
    })
}

/// nsys's title of the fifth begins with a space.
static PAGES: Columns = Columns::new(
    "Virtual Address,HtoD Migration size (MB),DtoH Migration size (MB),CPU Page Faults, GPU Page Faults,\
     Migration Throughput (MB/s)",
);
static TOTALS: Columns = Columns::new(
    "Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,\
     Total GPU PageFaults,Minimum Virtual Address,Maximum Virtual Address",
);

/// What happened to a page, or to all of them; what never happened is absent.
#[derive(Clone, Copy, Default)]
struct Traffic {
    to_device: Option<i128>,
    to_host: Option<i128>,
    cpu_faults: Option<i128>,
    gpu_faults: Option<i128>,
    moving: i128,
}

impl Traffic {
    fn add(&mut self, other: &Traffic) {
        let sum = |one: Option<i128>, other: Option<i128>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.to_device = sum(self.to_device, other.to_device);
        self.to_host = sum(self.to_host, other.to_host);
        self.cpu_faults = sum(self.cpu_faults, other.cpu_faults);
        self.gpu_faults = sum(self.gpu_faults, other.gpu_faults);
        self.moving += other.moving;
    }

    /// Bytes per second while the page moved; `None` when it did not, or took no time.
    fn throughput(&self) -> Option<f64> {
        let bytes = self.to_device.unwrap_or(0) + self.to_host.unwrap_or(0);
        (self.moving > 0).then(|| bytes as f64 * 1e9 / self.moving as f64)
    }
}

/// What happened in each page, by its address. A table that is absent has no rows: exports have no
/// empty ones.
///
/// # Errors
/// [`Error::NoTable`] when the trace holds no unified memory at all.
fn traffic(trace: &Trace) -> Result<FxHashMap<Option<i64>, Traffic>, Error> {
    let mut pages: FxHashMap<Option<i64>, Traffic> = FxHashMap::default();
    let mut add = |address, traffic: &Traffic| pages.entry(address).or_default().add(traffic);
    for address in if_recorded(cpu_fault_addresses(trace))?.into_iter().flatten() {
        add(Some(address?), &Traffic { cpu_faults: Some(1), ..Traffic::default() });
    }
    for faults in if_recorded(gpu_fault_addresses(trace))?.into_iter().flatten() {
        let (address, faults) = faults?;
        add(Some(address), &Traffic { gpu_faults: Some(faults.into()), ..Traffic::default() });
    }
    // Older exports have no column for the address: then none of their copies is a migration
    // either.
    for copy in if_recorded(copy_addresses(trace))?.into_iter().flatten() {
        let (copy, address) = copy?;
        let bytes = Some(i128::from(copy.bytes));
        let (to_device, to_host) = match copy.kind {
            Some(CopyKind::UnifiedHostToDevice) => (bytes, None),
            Some(CopyKind::UnifiedDeviceToHost) => (None, bytes),
            _ => continue,
        };
        let moving = i128::from(copy.end) - i128::from(copy.start);
        add(address, &Traffic { to_device, to_host, moving, ..Traffic::default() });
    }
    if pages.is_empty() {
        trace.require(&CPU_FAULTS)?;
        trace.require(&GPU_FAULTS)?;
        trace.require(&MEMCPY)?;
    }
    Ok(pages)
}

/// A virtual address as nsys prints it.
fn address(address: Option<i64>) -> Value {
    address.map_or(Value::Absent, |address| Value::Text(format!("0x{address:X}").into()))
}

/// The most `rows` pages by throughput, those that did not move last: `um_sum`.
pub(super) fn pages(trace: &Trace, rows: Option<usize>, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut pages: Vec<(Option<i64>, Traffic)> = traffic(trace)?.into_iter().collect();
    pages.sort_unstable_by(|(page, traffic), (other_page, other)| {
        let speed = |traffic: &Traffic| traffic.throughput().unwrap_or(-1.0);
        speed(other).total_cmp(&speed(traffic)).then_with(|| page.cmp(other_page))
    });
    pages.truncate(rows.unwrap_or(usize::MAX));
    trace.writing(|| {
        sink.columns(&PAGES)?;
        for (page, traffic) in pages {
            sink.row(&[
                address(page),
                traffic.to_device.into(),
                traffic.to_host.into(),
                traffic.cpu_faults.into(),
                traffic.gpu_faults.into(),
                traffic.throughput().map_or(Value::Absent, Value::Real),
            ])?;
        }
        Ok(())
    })
}

/// `um_total_sum`.
pub(super) fn totals(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let pages = traffic(trace)?;
    let mut total = Traffic::default();
    for traffic in pages.values() {
        total.add(traffic);
    }
    let addresses = || pages.keys().flatten().copied();
    trace.writing(|| {
        sink.columns(&TOTALS)?;
        if pages.is_empty() {
            return Ok(());
        }
        sink.row(&[
            total.to_device.into(),
            total.to_host.into(),
            // nsys counts CPU faults, and adds up the others: no faults at all are 0 and nothing.
            total.cpu_faults.unwrap_or(0).into(),
            total.gpu_faults.into(),
            address(addresses().min()),
            address(addresses().max()),
        ])
    })
}
