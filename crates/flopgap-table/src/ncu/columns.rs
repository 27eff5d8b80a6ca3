//! Columns from the metrics of a report: one for each name and unit, of integers where all values
//! are.

use std::sync::Arc;

use flopgap_ncu::{LaunchView, Metric, Strings, Symbol, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::views::Views;
use crate::Error;

/// What a column of a metric holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holds {
    /// Integers, all of them exact.
    Count,
    /// Floating-point numbers: some have decimals, or ncu scaled and rounded them.
    Float,
    /// Strings; numbers among them as text.
    Text,
}

/// A column of a metric.
#[derive(Clone, Debug)]
pub(super) struct MetricColumn {
    /// In lower case, with the unit at the end.
    pub(super) name: String,
    /// As ncu prints it.
    pub(super) metric: Arc<str>,
    /// The unit without ncu's prefixes.
    pub(super) unit: Arc<str>,
    pub(super) holds: Holds,
}

/// The metrics of a report.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// In the order in which the report first has them.
    pub(super) columns: Vec<MetricColumn>,
    places: FxHashMap<(Arc<str>, Arc<str>), usize>,
    /// Whether rows of one launch are not adjacent, so that they must be joined.
    pub(super) apart: bool,
}

/// Names of the launch columns that are not metrics, which metrics must not take.
pub(super) const OWN: [&str; 34] = [
    "id",
    "position",
    "segment",
    "process_id",
    "process_name",
    "host",
    "device",
    "compute_capability_major",
    "compute_capability_minor",
    "context",
    "stream",
    "name",
    "display_name",
    "class",
    "precision",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "nvtx",
    "invocations",
    "time_ns",
    "flops",
    "fp64_flops",
    "fp32_flops",
    "fp16_flops",
    "tensor_flops",
    "dram_bytes",
    "dram_read_bytes",
    "dram_write_bytes",
    "l2_bytes",
    "l1_bytes",
];

impl Metrics {
    /// The metrics of all launches.
    pub(super) fn new(views: &mut Views) -> Result<Metrics, Error> {
        let mut metrics = Metrics::default();
        let mut seen: FxHashSet<(u32, Option<u64>, u64)> = FxHashSet::default();
        let mut known = Known::default();
        while views
            .next(|view| {
                if let Some(id) = view.id {
                    metrics.apart |= !seen.insert((view.segment, view.process_id, id));
                }
                for metric in &view.metrics {
                    metrics.take(metric, view.strings, &mut known);
                }
            })?
            .is_some()
        {}
        metrics.name_columns();
        Ok(metrics)
    }

    fn take(&mut self, metric: &Metric, strings: &Strings, known: &mut Known) {
        let base = metric.in_base_units(strings);
        let holds = match (metric.value, &base) {
            (Value::Text(_), _) | (_, None) => Holds::Text,
            (_, Some(base)) if base.count.is_some() && !base.rounded && metric.spread.is_none() => {
                Holds::Count
            }
            _ => Holds::Float,
        };
        let place = *known.0.entry((metric.name, metric.unit)).or_insert_with(|| {
            let unit: Arc<str> =
                base.map_or_else(|| strings.get(metric.unit).into(), |base| Arc::from(&*base.unit));
            let name: Arc<str> = strings.get(metric.name).into();
            let next = self.columns.len();
            *self.places.entry((name.clone(), unit.clone())).or_insert_with(|| {
                self.columns.push(MetricColumn {
                    name: String::new(),
                    metric: name,
                    unit,
                    holds: Holds::Count,
                });
                next
            })
        });
        let column = &mut self.columns[place];
        column.holds = column.holds.max(holds);
    }

    /// Gives each column a unique name.
    fn name_columns(&mut self) {
        let mut taken: FxHashSet<String> = OWN.iter().map(|name| (*name).to_owned()).collect();
        for column in &mut self.columns {
            let plain = column_name(&column.metric, &column.unit);
            let mut name = plain.clone();
            let mut number = 2;
            while !taken.insert(name.clone()) {
                name = format!("{plain}_{number}");
                number += 1;
            }
            column.name = name;
        }
    }

    /// The values of a launch, one for each column; the first if the report has several.
    pub(super) fn values(&self, view: LaunchView<'_>, known: &mut Known) -> Box<[Cell]> {
        let mut cells: Box<[Cell]> = vec![Cell::Absent; self.columns.len()].into();
        for metric in &view.metrics {
            let base = metric.in_base_units(view.strings);
            let place = *known.0.entry((metric.name, metric.unit)).or_insert_with(|| {
                let unit = base
                    .as_ref()
                    .map_or_else(|| view.strings.get(metric.unit).into(), |base| Arc::from(&*base.unit));
                self.places.get(&(view.strings.get(metric.name).into(), unit)).copied().unwrap_or(usize::MAX)
            });
            let Some(cell) = cells.get_mut(place) else { continue };
            if !matches!(cell, Cell::Absent) {
                continue;
            }
            *cell = match (self.columns[place].holds, metric.value, base) {
                (Holds::Count, _, Some(base)) => base.count.map_or(Cell::Absent, Cell::Count),
                (Holds::Float, _, Some(base)) => Cell::Float(base.value),
                (_, Value::Text(text), _) => Cell::Text(view.strings.get(text).into()),
                (_, Value::U64(value), _) => Cell::Text(value.to_string().into()),
                (_, Value::F64(value), _) => Cell::Text(value.to_string().into()),
            };
        }
        cells
    }
}

/// Columns by name and unit as printed.
#[derive(Default)]
pub(super) struct Known(FxHashMap<(Symbol, Symbol), usize>);

/// A value of a metric column.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Absent,
    Count(u64),
    Float(f64),
    Text(Arc<str>),
}

/// The name of a column: `dram__bytes_read.sum` in bytes is `dram__bytes_read_sum_bytes`,
/// `Duration` in nanoseconds `duration_ns`.
fn column_name(metric: &str, unit: &str) -> String {
    let name = snake(metric);
    let unit = match unit {
        "byte" => "bytes".to_owned(),
        "%" => "percent".to_owned(),
        unit => snake(&unit.replace("byte", "bytes").replace('%', "percent").replace('/', "_per_")),
    };
    let has_it = unit.is_empty() || name.ends_with(&format!("_{unit}")) || name == unit;
    if has_it { name } else { format!("{name}_{unit}") }
}

/// Lower case, with one `_` in place of other punctuation; underscores of the name itself stay.
fn snake(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_alphanumeric() || sign == '_' {
            name.extend(sign.to_lowercase());
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_unit() {
        let cases = [
            ("dram__bytes_read.sum", "byte", "dram__bytes_read_sum_bytes"),
            ("dram__bytes_read.sum.per_second", "byte/s", "dram__bytes_read_sum_per_second_bytes_per_s"),
            (
                "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
                "inst",
                "smsp__sass_thread_inst_executed_op_ffma_pred_on_sum_inst",
            ),
            ("Duration", "ns", "duration_ns"),
            ("Waves Per SM", "", "waves_per_sm"),
            ("L1/TEX Hit Rate", "%", "l1_tex_hit_rate_percent"),
            (
                "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                "sm__throughput_avg_pct_of_peak_sustained_elapsed_percent",
            ),
            ("Registers Per Thread", "register/thread", "registers_per_thread_register_per_thread"),
            ("SM Frequency", "hz", "sm_frequency_hz"),
            ("# SMs", "SM", "sms_sm"),
        ];
        for (metric, unit, name) in cases {
            assert_eq!(column_name(metric, unit), name);
        }
    }

    #[test]
    fn own_names_are_not_taken() {
        let column = |metric: &str| MetricColumn {
            name: String::new(),
            metric: metric.into(),
            unit: "".into(),
            holds: Holds::Count,
        };
        let mut metrics =
            Metrics { columns: vec![column("flops"), column("a.b"), column("a b")], ..Metrics::default() };
        metrics.name_columns();
        let names: Vec<&str> = metrics.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["flops_2", "a_b", "a_b_2"]);
    }
}
