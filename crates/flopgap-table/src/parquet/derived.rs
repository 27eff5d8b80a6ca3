//! A column that follows from others and is not stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};

use super::provenance::{DERIVED_ENTRY, PREFIX};

/// The column that files do not store beside two others, whose sum it is: the end of an event. It
/// is as varied as its start, and was a fourth of a file of kernels.
pub const DERIVED: (&str, [&str; 2]) = (COLUMN, SUM_OF);

const COLUMN: &str = "end_ns";
const SUM_OF: [&str; 2] = ["start_ns", "duration_ns"];

/// A column of whole numbers that is the sum of two others in every row, and null where one of
/// these is. The entry `flopgap.derived` of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Derived {
    column: String,
    /// Its place among all columns, from 0.
    pub(super) place: usize,
    pub(super) sum_of: [String; 2],
    nullable: bool,
    /// What the schema says about it.
    metadata: BTreeMap<String, String>,
}

impl Derived {
    /// The entry of a file without the column.
    pub(super) fn entry(&self) -> KeyValue {
        // Names and texts: nothing that JSON could not hold.
        KeyValue::new(format!("{PREFIX}{DERIVED_ENTRY}"), serde_json::to_string(self).unwrap_or_default())
    }

    /// What need not be stored of a table, if its rows are as they should be.
    pub(super) fn of(schema: &Schema) -> Option<Derived> {
        let is_whole =
            |name: &str| schema.field_with_name(name).is_ok_and(|it| it.data_type() == &DataType::Int64);
        if !SUM_OF.into_iter().all(is_whole) || !is_whole(COLUMN) {
            return None;
        }
        let (place, field) = schema.column_with_name(COLUMN)?;
        Some(Derived {
            column: COLUMN.to_owned(),
            place,
            sum_of: SUM_OF.map(str::to_owned),
            nullable: field.is_nullable(),
            metadata: field.metadata().clone().into_iter().collect(),
        })
    }

    /// The column's field.
    pub(super) fn field(&self) -> FieldRef {
        let metadata: HashMap<_, _> = self.metadata.clone().into_iter().collect();
        Arc::new(Field::new(&self.column, DataType::Int64, self.nullable).with_metadata(metadata))
    }

    /// A batch without the column; none if a row contradicts.
    pub(super) fn without(&self, batch: &RecordBatch) -> Option<RecordBatch> {
        let [a, b] = self.sum_of.each_ref().map(|name| batch.column_by_name(name).and_then(whole));
        let sums = sum(a?, b?)?;
        if &sums != whole(batch.column(self.place))? {
            return None;
        }
        let others: Vec<usize> = (0..batch.num_columns()).filter(|&place| place != self.place).collect();
        batch.project(&others).ok()
    }
}

fn whole(array: &ArrayRef) -> Option<&Int64Array> {
    array.as_primitive_opt::<Int64Type>()
}

/// Sums row by row; none where one leaves 64 bits.
pub(super) fn sum(a: &Int64Array, b: &Int64Array) -> Option<Int64Array> {
    if a.null_count() == 0 && b.null_count() == 0 {
        let sums = a.values().iter().zip(b.values()).map(|(a, b)| a.checked_add(*b));
        return Some(Int64Array::from(sums.collect::<Option<Vec<i64>>>()?));
    }
    let sums = a.iter().zip(b).map(|pair| match pair {
        (Some(a), Some(b)) => a.checked_add(b).map(Some).ok_or(()),
        _ => Ok(None),
    });
    sums.collect::<Result<Int64Array, ()>>().ok()
}
