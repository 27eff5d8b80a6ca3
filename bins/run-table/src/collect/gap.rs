//! The table `gap`: steps taken apart, a row for each cause of each step.

use std::collections::HashMap;
use std::sync::Arc;

use flopgap_cli::Failure;
use flopgap_files::present;
use flopgap_gap::{Gap, Options, Share, Step, gap};
use flopgap_table::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use flopgap_table::arrow_schema::{Field, Schema};
use flopgap_table::{Source, Table};

pub(super) const NAME: &str = "gap";

/// The steps of a trace; nothing for another source, and for a trace without GPU work.
pub(super) fn table(source: &Source) -> Result<Option<Table>, Failure> {
    let Some(trace) = source.trace() else { return Ok(None) };
    let found = present(gap(trace.recording(), &Options::default())).map_err(|error| Failure::of(&error))?;
    found.as_ref().map(of).transpose()
}

/// A row: the step, whether it is the time after one, and a part of it.
type Row<'a> = (&'a Step, bool, &'a Share);

fn of(found: &Gap) -> Result<Table, Failure> {
    let steps = found.steps.iter().map(|step| (step, false));
    let steps = steps.chain(found.between.iter().map(|step| (step, true)));
    let rows: Vec<Row<'_>> =
        steps.flat_map(|(step, after)| step.parts.iter().map(move |part| (step, after, part))).collect();
    let text = |of: fn(&Row<'_>) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    let whole = |of: fn(&Row<'_>) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let columns = [
        ("step", "The step as it is marked.", text(|(step, ..)| step.name.clone())),
        (
            "span",
            "`step`, or `between` for the time until the next.",
            text(|(_, after, _)| if *after { "between" } else { "step" }.to_owned()),
        ),
        ("rank", "The rank of the process in its job.", whole(|(step, ..)| i64::try_from(step.rank?).ok())),
        ("pid", "The process.", whole(|(step, ..)| step.process)),
        ("gpu", "The GPU as the machine numbers it.", whole(|(step, ..)| step.gpu.map(|gpu| gpu.0))),
        ("start_ns", "When it began, since the recording began.", whole(|(step, ..)| Some(step.start_ns))),
        ("wall_ns", "How long it lasted: the sum over its rows.", whole(|(step, ..)| Some(step.wall_ns))),
        (
            "warm_up",
            "1 for a step that warms up, which sums leave out, otherwise 0.",
            whole(|(step, ..)| Some(i64::from(step.warm_up))),
        ),
        ("part", "`busy`, `exposed` or `idle`.", text(|(.., part)| part.part.as_str().to_owned())),
        ("cause", "On what it was spent.", text(|(.., part)| part.cause.as_str().to_owned())),
        ("limit", "What would have to change.", text(|(.., part)| part.limit.as_str().to_owned())),
        ("ns", "Nanoseconds of it.", whole(|(.., part)| Some(part.ns))),
        ("pieces", "In how many pieces.", whole(|(.., part)| i64::try_from(part.pieces).ok())),
    ];
    let field = |(name, about, array): &(&str, &str, ArrayRef)| {
        let described = HashMap::from([("description".to_owned(), (*about).to_owned())]);
        Field::new(*name, array.data_type().clone(), true).with_metadata(described)
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let arrays = columns.into_iter().map(|(.., array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    let batch = batch.map_err(|error| Failure::from_error(&error))?;
    Ok(Table::held(NAME, "Steps taken apart: a row for each cause of each step.", batch))
}
