//! Sums of columns that could leave 64 bits, in which the engine adds and wraps around silently.
//! Where the statistics of the files do not exclude that, 38 digits are needed, which are slower.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::Statistics;

/// Whether the sum of one of these columns can leave 64 bits.
pub(super) fn overflow(columns: &BTreeSet<String>, files: &[(String, PathBuf)]) -> Result<bool, Failure> {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut bounds = vec![Some(0_i128); columns.len()];
    if !columns.is_empty() {
        for (_, path) in files {
            add_bounds(path, &columns, &mut bounds)?;
        }
    }
    Ok(bounds.into_iter().any(|bound| bound.is_none_or(|bound| bound > i128::from(i64::MAX))))
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
    let is_it = |chunk: &&ColumnChunkMetaData| {
        let parts = chunk.column_path().parts();
        parts.len() == 1 && parts[0] == *column && chunk.column_type() == Type::INT64
    };
    group.columns().iter().find(is_it).map_or(Some(0), |chunk| largest(chunk).map(i128::from))
}

/// The largest size of a value; 0 where all are null, none where the file does not say.
fn largest(chunk: &ColumnChunkMetaData) -> Option<u64> {
    let Some(Statistics::Int64(values)) = chunk.statistics() else { return None };
    match (values.min_opt(), values.max_opt()) {
        (Some(min), Some(max)) => Some(min.unsigned_abs().max(max.unsigned_abs())),
        _ => (values.null_count_opt()? == u64::try_from(chunk.num_values()).ok()?).then_some(0),
    }
}
