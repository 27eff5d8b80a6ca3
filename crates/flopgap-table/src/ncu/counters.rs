//! Metrics of launches, one a row.

use std::collections::VecDeque;
use std::sync::Arc;

use flopgap_kernels::Classifier;
use flopgap_ncu::{LaunchView, Metric, Value};

use super::views::{Shared, Views};
use crate::Error;
use crate::column::{Column, count, looked_up, maybe_count, maybe_float, text};

/// A metric of a launch.
pub(super) struct Counter {
    id: Option<u64>,
    process_id: Option<u64>,
    segment: u64,
    position: u64,
    kernel: Arc<str>,
    invocations: u64,
    metric: Arc<str>,
    section: Option<Arc<str>>,
    unit: Option<Arc<str>>,
    value: Option<f64>,
    whole: Option<u64>,
    text: Option<Arc<str>>,
    spread: Option<(f64, f64)>,
}

/// The metrics of a report.
pub(super) struct Counters {
    views: Views,
    shared: Shared,
    waiting: VecDeque<Counter>,
}

impl Counters {
    pub(super) fn new(views: Views) -> Counters {
        Counters { views, shared: Shared::default(), waiting: VecDeque::new() }
    }
}

impl Iterator for Counters {
    type Item = Result<Counter, Error>;

    fn next(&mut self) -> Option<Result<Counter, Error>> {
        loop {
            if let Some(counter) = self.waiting.pop_front() {
                return Some(Ok(counter));
            }
            let Counters { views, shared, waiting } = self;
            let more = views.next(|view| {
                waiting.extend(view.metrics.iter().map(|metric| counter(view, metric, shared)));
            });
            match more {
                Ok(Some(())) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn counter(view: LaunchView<'_>, metric: &Metric, shared: &mut Shared) -> Counter {
    let strings = view.strings;
    let base = metric.in_base_units(strings);
    let in_base = |value: f64| {
        let scaled = Metric { value: Value::F64(value), ..*metric };
        scaled.in_base_units(strings).map_or(value, |base| base.value)
    };
    let unit = match &base {
        Some(base) if !base.unit.is_empty() && *base.unit != *strings.get(metric.unit) => {
            Some(Arc::from(&*base.unit))
        }
        _ => shared.not_empty(metric.unit, strings),
    };
    Counter {
        id: view.id,
        process_id: view.process_id,
        segment: view.segment.into(),
        position: view.position,
        kernel: shared.get(view.name, strings),
        invocations: view.invocations,
        metric: shared.get(metric.name, strings),
        section: shared.not_empty(metric.section, strings),
        unit,
        value: base.as_ref().map(|base| base.value),
        whole: base.filter(|base| !base.rounded && metric.spread.is_none()).and_then(|base| base.count),
        text: match metric.value {
            Value::Text(text) => Some(shared.get(text, strings)),
            _ => None,
        },
        spread: metric.spread.map(|(least, most)| (in_base(least), in_base(most))),
    }
}

pub(super) fn columns(classifier: &Arc<Classifier>) -> Vec<Column<Counter>> {
    let classifier = classifier.clone();
    vec![
        maybe_count("id", "ncu's number of the launch; absent in a summary.", |counter: &Counter| counter.id),
        text("name", "The kernel's name as the report has it.", |counter: &Counter| Some(&counter.kernel)),
        looked_up(
            "class",
            "The kind of work, from the name.",
            |counter: &Counter| Some(counter.kernel.clone()),
            move |name| Ok(Some(classifier.get(&name).class.as_str().into())),
        ),
        text("metric", "The metric's name as printed.", |counter: &Counter| Some(&counter.metric)),
        text("section", "The section of the details page that printed it.", |counter: &Counter| {
            counter.section.as_deref()
        }),
        text("unit", "The unit of the values, without ncu's prefixes.", |counter: &Counter| {
            counter.unit.as_deref()
        }),
        maybe_float(
            "value",
            "The value; in a summary the average over its launches; absent for a text.",
            |counter: &Counter| counter.value,
        ),
        maybe_count(
            "count",
            "The value where it is a whole number and the report holds it exactly.",
            |counter: &Counter| counter.whole,
        ),
        text("text", "The value where it is a text.", |counter: &Counter| counter.text.as_deref()),
        maybe_float(
            "least",
            "The smallest value over the launches of a summary's row.",
            |counter: &Counter| Some(counter.spread?.0),
        ),
        maybe_float("most", "The largest.", |counter: &Counter| Some(counter.spread?.1)),
        count(
            "invocations",
            "How many launches the row stands for: 1, or more in a summary.",
            |counter: &Counter| counter.invocations,
        ),
        maybe_count("process_id", "The process that launched it.", |counter: &Counter| counter.process_id),
        count(
            "segment",
            "Which table of the file: one of concatenated runs has several.",
            |counter: &Counter| counter.segment,
        ),
        count(
            "position",
            "Where the launch begins: the line of the file (CSV) or the number of the result.",
            |counter: &Counter| counter.position,
        ),
    ]
}
