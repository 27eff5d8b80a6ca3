//! A table: its columns, and its rows, which can be read repeatedly.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::Error;
use crate::column::{Column, Fill};

/// How many rows a batch has.
const ROWS: usize = 1 << 16;
/// How many cells a batch has at most, for tables of many columns.
const CELLS: usize = 1 << 21;

/// Rows, read one at a time.
pub(crate) type Rows<R> = Box<dyn Iterator<Item = Result<R, Error>> + Send>;

/// The definition of a table, shared by all its readers.
struct Made<R> {
    path: Arc<Path>,
    name: &'static str,
    columns: Vec<Column<R>>,
    rows: Box<dyn Fn() -> Result<Rows<R>, Error> + Send + Sync>,
}

/// How many rows a batch of a table has, when more than `most` are not wanted.
pub(crate) fn most_rows(columns: usize, most: usize) -> usize {
    (CELLS / columns.max(1)).min(most).max(1)
}

/// [`Made`] without the type of its rows.
pub(crate) trait Read: Send + Sync {
    fn read(
        &self,
        columns: &[usize],
        schema: SchemaRef,
        most: usize,
    ) -> Result<Box<dyn RecordBatchReader + Send>, Error>;
}

/// A table of a [`Source`](crate::Source), or some of its columns. Nothing is read before
/// [`Table::read`]; a clone costs nothing.
#[derive(Clone)]
pub struct Table {
    name: Cow<'static, str>,
    about: Cow<'static, str>,
    path: Arc<Path>,
    made: Arc<dyn Read>,
    schema: SchemaRef,
    /// The selected columns, as indices into the whole table.
    columns: Arc<[usize]>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Table {
    pub(crate) fn new<R: Send + 'static>(
        path: &Arc<Path>,
        (name, about): (&'static str, &'static str),
        columns: Vec<Column<R>>,
        rows: impl Fn() -> Result<Rows<R>, Error> + Send + Sync + 'static,
    ) -> Table {
        let fields: Vec<_> = columns.iter().map(|column| column.field.clone()).collect();
        let (path, all) = (path.clone(), (0..columns.len()).collect());
        let made = Made { path: path.clone(), name, columns, rows: Box::new(rows) };
        let schema = Arc::new(Schema::new(fields));
        let (name, about) = (name.into(), about.into());
        Table { name, about, path, made: Arc::new(made), schema, columns: all }
    }

    /// A table of rows that are read in a way of their own.
    #[cfg(feature = "parquet")]
    pub(crate) fn of(
        path: &Arc<Path>,
        name: Cow<'static, str>,
        about: Cow<'static, str>,
        schema: SchemaRef,
        made: Arc<dyn Read>,
    ) -> Table {
        let columns = (0..schema.fields().len()).collect();
        Table { name, about, path: path.clone(), made, schema, columns }
    }

    /// Its name: `kernels`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a row is, as a sentence.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Its columns: names, types, and in the metadata of each field (`description`) what it means.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The same table with these columns alone, in this order. What is not asked for is not made.
    ///
    /// # Errors
    /// [`Error::NoSuchColumn`].
    pub fn select<S: AsRef<str>>(&self, columns: &[S]) -> Result<Table, Error> {
        let place = |name: &str| {
            self.schema.index_of(name).map_err(|_| {
                let columns: Vec<&str> =
                    self.schema.fields().iter().map(|field| field.name().as_str()).collect();
                let (path, column) = (self.path.to_path_buf(), name.to_owned());
                let table = self.name.to_string();
                Error::NoSuchColumn { path, table, column, columns: columns.join(", ") }
            })
        };
        let places: Vec<usize> = columns.iter().map(|name| place(name.as_ref())).collect::<Result<_, _>>()?;
        let schema = self.schema.project(&places).map_err(|source| self.arrow(source))?;
        let columns = places.iter().map(|&place| self.columns[place]).collect();
        Ok(Table { schema: Arc::new(schema), columns, ..self.clone() })
    }

    /// Its rows, from the first on, in batches; each call reads them again. The reader keeps what
    /// it needs open by itself.
    ///
    /// # Errors
    /// When the source cannot be read; what is damaged further on is an error of the batch.
    pub fn read(&self) -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        self.read_most(ROWS)
    }

    /// The same in batches of at most so many rows.
    pub(crate) fn read_most(&self, rows: usize) -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        self.made.read(&self.columns, self.schema.clone(), rows)
    }

    /// A table of the same name and file with other columns.
    pub(crate) fn remade(&self, made: Arc<dyn Read>, schema: SchemaRef) -> Table {
        let columns = (0..schema.fields().len()).collect();
        Table { made, schema, columns, ..self.clone() }
    }

    /// Its first rows, as a table of their own; no more than these are read.
    ///
    /// # Errors
    /// As [`Table::read`], and when one of these rows is damaged.
    pub fn first(&self, rows: usize) -> Result<RecordBatch, Error> {
        let mut reader = self.read_most(rows)?;
        match reader.next() {
            Some(Ok(batch)) => Ok(batch.slice(0, rows.min(batch.num_rows()))),
            None => Ok(RecordBatch::new_empty(self.schema.clone())),
            Some(Err(error)) => Err(own_or(error, |source| self.arrow(source))),
        }
    }

    pub(crate) fn arrow(&self, source: ArrowError) -> Error {
        Error::Arrow { path: self.path.to_path_buf(), table: self.name.to_string(), source }
    }
}

impl<R: Send + 'static> Read for Made<R> {
    fn read(
        &self,
        columns: &[usize],
        schema: SchemaRef,
        most: usize,
    ) -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        let fills = columns.iter().map(|&place| self.columns[place].start()).collect();
        let most = most_rows(self.columns.len(), most);
        let rows = Some((self.rows)()?);
        Ok(Box::new(Batches {
            path: self.path.clone(),
            name: self.name,
            schema,
            fills,
            rows,
            held: Vec::new(),
            most,
        }))
    }
}

/// Rows that are in memory already.
struct Held(RecordBatch);

impl Read for Held {
    fn read(
        &self,
        columns: &[usize],
        schema: SchemaRef,
        _most: usize,
    ) -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        // The indices are valid: `Table::select` looked them up in this schema.
        let batch = self.0.project(columns);
        Ok(Box::new(RecordBatchIterator::new([batch], schema)))
    }
}

impl Table {
    /// A table of rows that are in memory, such as those that were counted in this process.
    pub fn held(name: &'static str, about: &'static str, batch: RecordBatch) -> Table {
        let (schema, columns) = (batch.schema(), (0..batch.num_columns()).collect());
        let path = Arc::from(Path::new("memory"));
        Table { name: name.into(), about: about.into(), path, made: Arc::new(Held(batch)), schema, columns }
    }
}

/// Our own error if Arrow's wraps one, otherwise a conversion of Arrow's.
pub(crate) fn own_or(error: ArrowError, other: impl Fn(ArrowError) -> Error) -> Error {
    match error {
        ArrowError::ExternalError(source) => match source.downcast::<Error>() {
            Ok(own) => *own,
            Err(source) => other(ArrowError::ExternalError(source)),
        },
        error => other(error),
    }
}

/// A table being read.
struct Batches<R> {
    path: Arc<Path>,
    name: &'static str,
    schema: SchemaRef,
    fills: Vec<Fill<R>>,
    /// `None` after the last row, and after an error.
    rows: Option<Rows<R>>,
    held: Vec<R>,
    most: usize,
}

impl<R> Batches<R> {
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        self.held.clear();
        for row in rows.take(self.most) {
            self.held.push(row?);
        }
        if self.held.len() < self.most {
            self.rows = None;
        }
        if self.held.is_empty() {
            return Ok(None);
        }
        let held = &self.held;
        let arrays = self.fills.iter_mut().map(|fill| fill(held)).collect::<Result<_, _>>();
        let batch = arrays.and_then(|arrays| RecordBatch::try_new(self.schema.clone(), arrays));
        batch.map(Some).map_err(|error| own_or(error, |source| self.arrow(source)))
    }

    fn arrow(&self, source: ArrowError) -> Error {
        Error::Arrow { path: self.path.to_path_buf(), table: self.name.to_owned(), source }
    }
}

impl<R> Iterator for Batches<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batch();
        if next.is_err() {
            self.rows = None;
        }
        next.map_err(ArrowError::from).transpose()
    }
}

impl<R> RecordBatchReader for Batches<R> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
