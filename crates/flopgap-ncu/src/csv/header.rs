//! Parses a table's header: the meaning of each column, by name.

use crate::model::Layout;

use super::nvtx;
use super::record::Record;
use super::text::lossy;

/// Where the columns that are known by name stand. What a version of ncu lacks is `None`; unknown
/// columns are left alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    pub(super) id: Option<usize>,
    pub(super) process_id: Option<usize>,
    pub(super) process_name: Option<usize>,
    pub(super) host: Option<usize>,
    pub(super) push_pop: Option<usize>,
    pub(super) start_end: Option<usize>,
    /// Of a summary by NVTX range: the domain, and the ranges in it.
    pub(super) domain: Option<usize>,
    pub(super) ranges: Option<usize>,
    pub(super) kernel: Option<usize>,
    pub(super) context: Option<usize>,
    pub(super) stream: Option<usize>,
    pub(super) block: Option<usize>,
    pub(super) grid: Option<usize>,
    pub(super) device: Option<usize>,
    pub(super) cc: Option<usize>,
    pub(super) invocations: Option<usize>,
    pub(super) section: Option<usize>,
    pub(super) metric: Option<usize>,
    pub(super) unit: Option<usize>,
    pub(super) value: Option<usize>,
    pub(super) minimum: Option<usize>,
    pub(super) maximum: Option<usize>,
}

/// A header line.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) layout: Layout,
    pub(super) columns: Columns,
    /// How many columns there are.
    pub(super) width: usize,
    /// How many of them are known by name.
    pub(super) known: usize,
    /// Behind the last column of a launch.
    head_end: usize,
    /// Fields that a metric row must at least have.
    pub(super) needed: usize,
    /// The metric columns of a wide page.
    pub(super) metrics: Vec<(usize, String)>,
    /// The fields are quoted, as ncu does; other programs write the same table without.
    pub(super) quoted: bool,
}

impl Header {
    /// Reads a record as a header; `None` if it is none.
    pub(super) fn read(bytes: &[u8], record: &Record) -> Option<Header> {
        let mut columns = Columns::default();
        let mut others = Vec::new();
        let (mut known, mut head_end) = (0, 0);
        for index in 0..record.fields() {
            let field = record.get(bytes, index)?;
            let name = lossy(&field);
            let name = name.trim();
            match slot(&mut columns, name) {
                // A duplicate name: the first column counts.
                Some(slot) => {
                    if slot.is_none() && !is_of_metric(name) {
                        head_end = index + 1;
                    }
                    slot.get_or_insert(index);
                    known += 1;
                }
                None if is_prose_column(name) => {}
                None => others.push((index, name.to_owned())),
            }
        }
        columns.kernel?;
        let layout = layout(&columns, &others)?;
        let measured = [columns.metric, columns.value, columns.minimum, columns.maximum];
        let named =
            [columns.id, columns.process_id, columns.kernel, columns.device, columns.cc, columns.invocations];
        let needed = match layout {
            Layout::Wide => named.into_iter().flatten().max()? + 1,
            _ => measured.into_iter().chain(named).flatten().max()? + 1,
        };
        let quoted = record.span(columns.kernel?).is_some_and(|span| span.quoted);
        let metrics = if layout == Layout::Wide { others } else { Vec::new() };
        let width = record.fields();
        Some(Header { layout, columns, width, known, head_end, needed, metrics, quoted })
    }

    /// Where the metric's own columns begin, if all others stand before them.
    pub(super) fn tail(&self) -> Option<usize> {
        let c = &self.columns;
        let tail = [c.section, c.metric, c.unit, c.value].into_iter().flatten().min()?;
        (self.head_end <= tail).then_some(tail)
    }
}

fn slot<'a>(columns: &'a mut Columns, name: &str) -> Option<&'a mut Option<usize>> {
    Some(match name {
        "ID" => &mut columns.id,
        "Process ID" => &mut columns.process_id,
        "Process Name" => &mut columns.process_name,
        "Host Name" => &mut columns.host,
        "Domain" => &mut columns.domain,
        "Kernel Name" => &mut columns.kernel,
        "Context" => &mut columns.context,
        "Stream" => &mut columns.stream,
        "Block Size" => &mut columns.block,
        "Grid Size" => &mut columns.grid,
        "Device" => &mut columns.device,
        "CC" => &mut columns.cc,
        "Invocations" => &mut columns.invocations,
        "Section Name" => &mut columns.section,
        "Metric Name" => &mut columns.metric,
        "Metric Unit" => &mut columns.unit,
        "Metric Value" | "Average" => &mut columns.value,
        "Minimum" => &mut columns.minimum,
        "Maximum" => &mut columns.maximum,
        _ if nvtx::is_push_pop_column(name) => &mut columns.push_pop,
        _ if nvtx::is_start_end_column(name) => &mut columns.start_end,
        _ if nvtx::is_summary_range_column(name) => &mut columns.ranges,
        _ => return None,
    })
}

fn is_of_metric(name: &str) -> bool {
    name.starts_with("Metric ") || matches!(name, "Section Name" | "Average" | "Minimum" | "Maximum")
}

/// Columns that are neither an id nor a metric.
fn is_prose_column(name: &str) -> bool {
    matches!(
        name,
        "" | "Kernel Time"
            | "Rule Name"
            | "Rule Type"
            | "Rule Description"
            | "Estimated Speedup Type"
            | "Estimated Speedup"
    )
}

fn layout(columns: &Columns, others: &[(usize, String)]) -> Option<Layout> {
    let long = columns.metric.is_some() && columns.value.is_some();
    let summary = columns.invocations.is_some() || columns.minimum.is_some();
    match (long, summary) {
        (true, true) if columns.ranges.is_some() => Some(Layout::NvtxSummary),
        (true, true) => Some(Layout::Summary),
        // Without ids, launches of one kernel that follow each other cannot be distinguished.
        (true, false) if columns.id.is_some() => Some(Layout::Long),
        _ if columns.id.is_some() && others.iter().any(|(_, name)| name.contains("__")) => Some(Layout::Wide),
        _ => None,
    }
}
