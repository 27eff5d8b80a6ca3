//! Tables as a data set has them: the same columns whatever tool wrote the file.
//!
//! Files of one table lie side by side in a data set, and engines read them as one. Most tables
//! have one source, and their columns are always the same; `kernels`, `copies`, `memsets` and
//! `launches` have several, and are brought to the columns listed here.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::column::dictionary_type;
use crate::table::Read;
use crate::{Error, Table};

/// What a column that several sources have holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Whole,
    Text,
}

use Holds::{Text, Whole};

const KERNELS: &[(&str, Holds)] = &[
    ("start_ns", Whole),
    ("end_ns", Whole),
    ("duration_ns", Whole),
    ("name", Text),
    ("display_name", Text),
    ("class", Text),
    ("precision", Text),
    ("short_name", Text),
    ("pid", Whole),
    ("device", Whole),
    ("context", Whole),
    ("green_context", Whole),
    ("stream", Whole),
    ("correlation", Whole),
    ("grid_x", Whole),
    ("grid_y", Whole),
    ("grid_z", Whole),
    ("block_x", Whole),
    ("block_y", Whole),
    ("block_z", Whole),
    ("registers", Whole),
    ("static_shared_bytes", Whole),
    ("dynamic_shared_bytes", Whole),
    ("shared_bytes", Whole),
    ("graph_node", Whole),
];

const COPIES: &[(&str, Holds)] = &[
    ("start_ns", Whole),
    ("end_ns", Whole),
    ("duration_ns", Whole),
    ("bytes", Whole),
    ("kind", Text),
    ("source", Text),
    ("destination", Text),
    ("source_device", Whole),
    ("destination_device", Whole),
    ("pid", Whole),
    ("device", Whole),
    ("context", Whole),
    ("green_context", Whole),
    ("stream", Whole),
    ("correlation", Whole),
];

const MEMSETS: &[(&str, Holds)] = &[
    ("start_ns", Whole),
    ("end_ns", Whole),
    ("duration_ns", Whole),
    ("bytes", Whole),
    ("memory", Text),
    ("pid", Whole),
    ("device", Whole),
    ("context", Whole),
    ("green_context", Whole),
    ("stream", Whole),
    ("correlation", Whole),
];

const LAUNCHES: &[(&str, Holds)] = &[
    ("n", Whole),
    ("d", Whole),
    ("m", Whole),
    ("phase", Text),
    ("index", Whole),
    ("id", Whole),
    ("name", Text),
    ("display_name", Text),
    ("class", Text),
    ("precision", Text),
    ("nvtx", Text),
    ("grid_x", Whole),
    ("grid_y", Whole),
    ("grid_z", Whole),
    ("block_x", Whole),
    ("block_y", Whole),
    ("block_z", Whole),
    ("invocations", Whole),
    ("device", Whole),
    ("compute_capability_major", Whole),
    ("compute_capability_minor", Whole),
    ("context", Whole),
    ("stream", Whole),
    ("process_id", Whole),
    ("process_name", Text),
    ("host", Text),
    ("segment", Whole),
    ("position", Whole),
    ("flops", Whole),
    ("fp64_flops", Whole),
    ("fp32_flops", Whole),
    ("fp16_flops", Whole),
    ("tensor_flops", Whole),
    ("fadd", Whole),
    ("fmul", Whole),
    ("ffma", Whole),
    ("fadd2", Whole),
    ("fmul2", Whole),
    ("ffma2", Whole),
    ("duration_ns", Whole),
    ("dram_bytes", Whole),
    ("dram_read_bytes", Whole),
    ("dram_write_bytes", Whole),
    ("l2_bytes", Whole),
    ("l1_bytes", Whole),
];

/// The columns of a table that several sources have.
fn listed(table: &str) -> Option<&'static [(&'static str, Holds)]> {
    match table {
        "kernels" => Some(KERNELS),
        "copies" => Some(COPIES),
        "memsets" => Some(MEMSETS),
        "launches" => Some(LAUNCHES),
        _ => None,
    }
}

/// How a column of a data set is made of those of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// A column as it is, its counts as numbers with a sign.
    Column(usize),
    /// The sum of two columns, where both are known.
    Sum(usize, usize),
    /// The source does not have it.
    Nowhere,
}

impl Table {
    /// The same rows with the columns that a data set has for this table, whatever tool wrote the
    /// file: every whole number is an `Int64`, every column may be null, and `kernels`, `copies`,
    /// `memsets` and `launches` have the columns of all their sources, null where this source has
    /// none.
    ///
    /// The metrics of a report of Nsight Compute differ from report to report. They are rows of the
    /// table `counters`, and no columns of `launches` here.
    ///
    /// # Errors
    /// Reading fails where a count exceeds 63 bits; one of `counters` is null then, since `value`
    /// holds it as well.
    ///
    /// ```
    /// use flopgap_table::Source;
    /// use flopgap_table::arrow_schema::DataType;
    ///
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kineto/mlp_n10_d1024_m128.json.gz");
    /// let operators = Source::open(path)?.table("operators")?.unified();
    /// assert_eq!(operators.schema().field_with_name("flops").unwrap().data_type(), &DataType::Int64);
    /// # Ok::<(), flopgap_table::Error>(())
    /// ```
    #[must_use]
    pub fn unified(&self) -> Table {
        let schema = self.schema();
        // A metric may have the name of one of our columns: `Duration` is `duration_ns`.
        let place = |name: &str| {
            let is_it = |field: &Arc<Field>| field.name() == name && !field.metadata().contains_key("metric");
            schema.fields().iter().position(is_it)
        };
        let mut fields = Vec::new();
        let mut from = Vec::new();
        if let Some(listed) = listed(self.name()) {
            for &(name, holds) in listed {
                let kind = if holds == Whole { DataType::Int64 } else { dictionary_type() };
                let found = place(name).or_else(|| (name == "duration_ns").then(|| place("time_ns"))?);
                let about = found.map(|at| schema.field(at).metadata().clone()).unwrap_or_default();
                fields.push(Field::new(name, kind, true).with_metadata(about));
                from.push(match found {
                    Some(at) => From::Column(at),
                    None => sum_of(name)
                        .and_then(|(a, b)| Some(From::Sum(place(a)?, place(b)?)))
                        .unwrap_or(From::Nowhere),
                });
            }
        } else {
            for (at, field) in schema.fields().iter().enumerate() {
                let kind = if field.data_type() == &DataType::UInt64 {
                    DataType::Int64
                } else {
                    field.data_type().clone()
                };
                fields.push(field.as_ref().clone().with_data_type(kind).with_nullable(true));
                from.push(From::Column(at));
            }
        }
        let unified = Unified { table: self.clone(), from };
        self.remade(Arc::new(unified), Arc::new(Schema::new(fields)))
    }
}

/// Columns of the source that add up to one which it does not have.
fn sum_of(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "end_ns" => Some(("start_ns", "duration_ns")),
        "shared_bytes" => Some(("static_shared_bytes", "dynamic_shared_bytes")),
        _ => None,
    }
}

/// A table with the columns of a data set.
struct Unified {
    table: Table,
    from: Vec<From>,
}

impl Read for Unified {
    fn read(
        &self,
        columns: &[usize],
        schema: SchemaRef,
        most: usize,
    ) -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        // Only what is needed is made of the source.
        let mut needed: Vec<usize> = Vec::new();
        let mut place = |at: usize| {
            needed.iter().position(|&known| known == at).unwrap_or_else(|| {
                needed.push(at);
                needed.len() - 1
            })
        };
        let mut from = Vec::with_capacity(columns.len());
        for &column in columns {
            from.push(match self.from[column] {
                From::Column(at) => From::Column(place(at)),
                From::Sum(a, b) => From::Sum(place(a), place(b)),
                From::Nowhere => From::Nowhere,
            });
        }
        if needed.is_empty() {
            // Something must count the rows.
            needed.push(0);
        }
        let whole = self.table.schema();
        let names: Vec<&str> = needed.iter().map(|&at| whole.field(at).name().as_str()).collect();
        let reader = self.table.select(&names)?.read_most(most)?;
        let (name, all) = (self.table.name().to_owned(), schema.clone());
        let batches = reader.map(move |batch| unify(&batch?, &from, &all, &name));
        Ok(Box::new(RecordBatchIterator::new(batches, schema)))
    }
}

fn unify(
    batch: &RecordBatch,
    from: &[From],
    schema: &SchemaRef,
    table: &str,
) -> Result<RecordBatch, ArrowError> {
    let arrays = schema.fields().iter().zip(from).map(|(field, from)| match *from {
        From::Column(at) => signed(batch.column(at), field.name(), table == "counters"),
        From::Sum(a, b) => {
            let [a, b] = [a, b].map(|at| signed(batch.column(at), field.name(), false));
            Ok(sum(&a?, &b?, field.name())?)
        }
        From::Nowhere => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    RecordBatch::try_new(schema.clone(), arrays.collect::<Result<_, _>>()?)
}

fn too_large(column: &str) -> ArrowError {
    ArrowError::ComputeError(format!("the column `{column}` has a number that exceeds 63 bits"))
}

/// Counts as numbers with a sign, in which differences are what they seem; other columns as they
/// are. What exceeds 63 bits is null if `or_null`, else an error.
fn signed(array: &ArrayRef, column: &str, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let Some(counts) = array.as_primitive_opt::<UInt64Type>() else { return Ok(array.clone()) };
    if or_null {
        let values = counts.iter().map(|count| count.and_then(|count| i64::try_from(count).ok()));
        return Ok(Arc::new(values.collect::<Int64Array>()));
    }
    let signed: Int64Array =
        counts.try_unary::<_, Int64Type, _>(|count| i64::try_from(count).map_err(|_| too_large(column)))?;
    Ok(Arc::new(signed))
}

fn sum(a: &ArrayRef, b: &ArrayRef, column: &str) -> Result<ArrayRef, ArrowError> {
    let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
    let sums = a.iter().zip(b).map(|pair| match pair {
        (Some(a), Some(b)) => a.checked_add(b).map(Some).ok_or_else(|| too_large(column)),
        _ => Ok(None),
    });
    Ok(Arc::new(sums.collect::<Result<Int64Array, _>>()?))
}
