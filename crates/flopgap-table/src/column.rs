//! Columns: name, meaning, and how each is built from rows.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, PrimitiveArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field};
use rustc_hash::FxHashMap;

use crate::dictionary::Dictionary;

/// The metadata key that holds a column's description.
const ABOUT: &str = "description";

/// Builds the column's array for one batch of rows after another.
pub(crate) type Fill<R> = Box<dyn FnMut(&[R]) -> Result<ArrayRef, ArrowError> + Send>;

/// A column of a table whose rows are `R`.
pub(crate) struct Column<R> {
    pub(crate) field: Field,
    start: Box<dyn Fn() -> Fill<R> + Send + Sync>,
}

impl<R> Column<R> {
    /// Creates the builder of its arrays, starting with the first batch.
    pub(crate) fn start(&self) -> Fill<R> {
        (self.start)()
    }

    /// The same with a longer description.
    pub(crate) fn noting(mut self, key: &str, value: impl Into<String>) -> Column<R> {
        self.field.metadata_mut().insert(key.to_owned(), value.into());
        self
    }
}

fn field(name: impl Into<String>, about: &str, kind: DataType, nullable: bool) -> Field {
    Field::new(name, kind, nullable).with_metadata(HashMap::from([(ABOUT.to_owned(), about.to_owned())]))
}

/// The type of text columns.
pub(crate) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// A column whose arrays are built by one function.
fn stateless<R, A: arrow_array::Array + 'static>(
    field: Field,
    make: impl Fn(&[R]) -> A + Clone + Send + Sync + 'static,
) -> Column<R> {
    let start = move || -> Fill<R> {
        let make = make.clone();
        Box::new(move |rows| Ok(Arc::new(make(rows))))
    };
    Column { field, start: Box::new(start) }
}

/// Integers present in every row.
pub(crate) fn int<R>(
    name: &'static str,
    about: &str,
    get: impl Fn(&R) -> i64 + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, DataType::Int64, false);
    stateless(field, move |rows: &[R]| Int64Array::from_iter_values(rows.iter().map(&get)))
}

/// Integers that may be missing.
pub(crate) fn maybe_int<R>(
    name: &'static str,
    about: &str,
    get: impl Fn(&R) -> Option<i64> + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, DataType::Int64, true);
    stateless(field, move |rows: &[R]| rows.iter().map(&get).collect::<Int64Array>())
}

/// Counts present in every row.
pub(crate) fn count<R>(
    name: impl Into<String>,
    about: &str,
    get: impl Fn(&R) -> u64 + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, DataType::UInt64, false);
    stateless(field, move |rows: &[R]| UInt64Array::from_iter_values(rows.iter().map(&get)))
}

/// Counts that may be missing.
pub(crate) fn maybe_count<R>(
    name: impl Into<String>,
    about: &str,
    get: impl Fn(&R) -> Option<u64> + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, DataType::UInt64, true);
    stateless(field, move |rows: &[R]| rows.iter().map(&get).collect::<UInt64Array>())
}

/// Floating-point numbers that may be missing.
pub(crate) fn maybe_float<R>(
    name: impl Into<String>,
    about: &str,
    get: impl Fn(&R) -> Option<f64> + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, DataType::Float64, true);
    stateless(field, move |rows: &[R]| rows.iter().map(&get).collect::<Float64Array>())
}

/// Floating-point numbers present in every row.
pub(crate) fn float<R>(
    name: impl Into<String>,
    about: &str,
    get: impl Fn(&R) -> f64 + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, DataType::Float64, false);
    stateless(field, move |rows: &[R]| Float64Array::from_iter_values(rows.iter().map(&get)))
}

/// Strings that may be missing.
pub(crate) fn text<R>(
    name: impl Into<String>,
    about: &str,
    get: impl for<'r> Fn(&'r R) -> Option<&'r str> + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, dictionary_type(), true);
    let start = move || -> Fill<R> {
        let (get, mut dictionary) = (get.clone(), Dictionary::default());
        Box::new(move |rows| {
            if dictionary.is_full() {
                dictionary = Dictionary::default();
            }
            let keys = rows.iter().map(|row| get(row).map(|text| dictionary.key(text)).transpose());
            let keys: Int32Array = keys.collect::<Result<_, _>>()?;
            dictionary.array(keys)
        })
    };
    Column { field, start: Box::new(start) }
}

/// Strings looked up by a key in each row, such as an id. Each key is looked up once.
pub(crate) fn looked_up<R, K: Clone + Eq + Hash + Send + 'static>(
    name: &'static str,
    about: &str,
    id: impl Fn(&R) -> Option<K> + Clone + Send + Sync + 'static,
    find: impl Fn(K) -> Result<Option<Arc<str>>, ArrowError> + Clone + Send + Sync + 'static,
) -> Column<R> {
    let field = field(name, about, dictionary_type(), true);
    let start = move || -> Fill<R> {
        let (id, find) = (id.clone(), find.clone());
        let mut dictionary = Dictionary::default();
        let mut known: FxHashMap<K, Option<i32>> = FxHashMap::default();
        Box::new(move |rows| {
            if dictionary.is_full() {
                (dictionary, known) = (Dictionary::default(), FxHashMap::default());
            }
            let mut builder = PrimitiveArray::<Int32Type>::builder(rows.len());
            for row in rows {
                let key = match id(row) {
                    None => None,
                    Some(id) => {
                        if let Some(&key) = known.get(&id) {
                            key
                        } else {
                            let key = find(id.clone())?.map(|text| dictionary.key(&text)).transpose()?;
                            known.insert(id, key);
                            key
                        }
                    }
                };
                builder.append_option(key);
            }
            let keys: Int32Array = builder.finish();
            dictionary.array(keys)
        })
    };
    Column { field, start: Box::new(start) }
}

/// The names of numeric codes, from `name_of`. A code without a name is shown as its number.
pub(crate) fn label<R>(
    name: &'static str,
    about: &str,
    number: impl Fn(&R) -> Option<i64> + Clone + Send + Sync + 'static,
    name_of: fn(i64) -> Option<&'static str>,
) -> Column<R> {
    looked_up(name, about, number, move |number| {
        Ok(Some(name_of(number).map_or_else(|| number.to_string().into(), Arc::from)))
    })
}
