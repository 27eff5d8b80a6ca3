//! The table `runs`: a row for each source.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use flopgap_cli::Failure;
use flopgap_table::Table;
use flopgap_table::arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use flopgap_table::arrow_schema::{DataType, Field, Schema};
use flopgap_table::parquet::{self, Provenance};

use crate::manifest::SourceFile;
use crate::name;

pub(super) const NAME: &str = "runs";

/// The row of a source.
pub(super) fn table(
    provenance: &Provenance,
    file: &SourceFile,
    modified: Option<SystemTime>,
) -> Result<Table, Failure> {
    let run = provenance.others.get("run").map_or("", String::as_str);
    let recorded = || provenance.others.get("rank")?.parse().ok();
    let rank =
        || recorded().or_else(|| name::rank(run)).or_else(|| name::rank(provenance.source.as_deref()?));
    let bytes = i64::try_from(file.bytes).ok();
    let of_file = || modified.and_then(parquet::date);
    let (recorded, by) = match &provenance.recorded {
        Some(recorded) => (Some(recorded.clone()), Some("recording")),
        None => of_file().map_or((None, None), |date| (Some(date), Some("file"))),
    };
    let text = |value: Option<&str>| -> ArrayRef { Arc::new(StringArray::from_iter([value])) };
    let whole = |value: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter([value])) };
    let columns = [
        (
            "recorded",
            "When it was recorded, in UTC; else when the file was last written.",
            text(recorded.as_deref()),
        ),
        ("recorded_by", "What says so: `recording`, or `file` for the file's own time.", text(by)),
        ("kind", "What the source is: `nsys`, `kineto`, `ncu`, `run`...", text(Some(&file.kind))),
        ("source", "The file or directory, with its parents.", text(Some(&file.path))),
        ("source_bytes", "Its size.", whole(bytes)),
        ("source_sha256", "The SHA-256 of its content.", text(Some(&file.sha256))),
        (
            "job",
            "What the names of its ranks have in common; the whole name where it has no rank.",
            text(Some(&name::job(run))),
        ),
        (
            "rank",
            "Its rank in a distributed job, as it was recorded or as its name says; absent where neither has it.",
            whole(rank()),
        ),
        ("profiler", "What recorded it.", text(provenance.profiler.as_deref())),
        (
            "profiler_version",
            "The version of what recorded it.",
            text(provenance.profiler_version.as_deref()),
        ),
        ("gpu", "The names of its GPUs, each once.", text(provenance.gpu.as_deref())),
        ("driver", "The version of the GPU's driver.", text(provenance.driver.as_deref())),
    ];
    let described = |about: &str| HashMap::from([("description".to_owned(), about.to_owned())]);
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, about, array)| {
            let kind: DataType = array.data_type().clone();
            Field::new(*name, kind, true).with_metadata(described(about))
        })
        .collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    let batch = batch.map_err(|error| Failure::from_error(&error))?;
    Ok(Table::held(NAME, "The sources of the data set.", batch))
}
