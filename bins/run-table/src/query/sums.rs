//! Sums and products of whole numbers that would leave 64 bits.
//!
//! The engine adds and multiplies whole numbers in 64 bits and wraps around silently. Where
//! the statistics of the files do not exclude that for a column, the query sees the column as
//! decimal numbers of 38 digits: exact and checked, and slower.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;
use flopgap_table::parquet::DERIVED;
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::Statistics;

use super::guard::Checked;

/// The columns of a table that the query must see as decimal numbers.
pub(super) fn wide(checked: &Checked, files: &[(String, PathBuf)]) -> Result<BTreeSet<String>, Failure> {
    let summed: Vec<&str> = checked.summed.union(&checked.multiplied).map(String::as_str).collect();
    let mut bounds = vec![Some(0_i128); summed.len()];
    if !summed.is_empty() {
        for (_, path) in files {
            add_bounds(path, &summed, &mut bounds)?;
        }
    }
    let is_wide = |&(column, bound): &(&str, Option<i128>)| match bound {
        Some(0) => false,
        Some(bound) => checked.joins || checked.multiplied.contains(column) || bound > i128::from(i64::MAX),
        None => true,
    };
    Ok(summed.into_iter().zip(bounds).filter(is_wide).map(|(column, _)| column.to_owned()).collect())
}

/// Adds to the largest sum that each column can have; none where it is not known. Columns that are
/// not whole numbers of 64 bits add nothing.
fn add_bounds(path: &Path, columns: &[&str], bounds: &mut [Option<i128>]) -> Result<(), Failure> {
    let failed =
        |error: String| Failure::new(format!("{}: {error}", path.display())).hint("collect the run again");
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let reader = SerializedFileReader::new(file).map_err(|error| failed(error.to_string()))?;
    for group in reader.metadata().row_groups() {
        for (column, bound) in columns.iter().zip(&mut *bounds) {
            let sum = largest_in(group, column).and_then(|most| most.checked_mul(group.num_rows().into()));
            *bound = bound.zip(sum).and_then(|(bound, sum)| bound.checked_add(sum));
        }
    }
    Ok(())
}

/// The largest size of a value of a column: 0 of one that is not of whole numbers, none where it is
/// not known.
fn largest_in(group: &RowGroupMetaData, column: &str) -> Option<i128> {
    let chunk = |column: &str| {
        let is_it = |chunk: &&ColumnChunkMetaData| {
            let parts = chunk.column_path().parts();
            parts.len() == 1 && parts[0] == *column && chunk.column_type() == Type::INT64
        };
        group.columns().iter().find(is_it)
    };
    let size = |chunk| largest(chunk).map(i128::from);
    let (derived, [a, b]) = DERIVED;
    match (chunk(column), chunk(a), chunk(b)) {
        (Some(chunk), ..) => size(chunk),
        // What is not stored is the sum of two others.
        (None, Some(a), Some(b)) if column == derived => size(a)?.checked_add(size(b)?),
        _ => Some(0),
    }
}

/// The largest size of a value; 0 where all are null, none where the file does not say.
fn largest(chunk: &ColumnChunkMetaData) -> Option<u64> {
    let Some(Statistics::Int64(values)) = chunk.statistics() else { return None };
    match (values.min_opt(), values.max_opt()) {
        (Some(min), Some(max)) => Some(min.unsigned_abs().max(max.unsigned_abs())),
        _ => (values.null_count_opt()? == u64::try_from(chunk.num_values()).ok()?).then_some(0),
    }
}
