//! A data set that is asked: its tables, and what the engine answers.

use std::collections::BTreeSet;
use std::path::Path;

use flopgap_cli::{Exit, Failure};
use flopgap_files::chain;
use flopgap_report::table::Table;
use polars::error::PolarsError;
use polars::io::HiveOptions;
use polars::prelude::{
    DataFrame, DataType, Engine, Expr, Field, LazyFrame, PlRefPath, ScanArgsParquet, Schema, col,
};
use polars::sql::SQLContext;

use super::{cells, guard, sums};
use crate::layout::{Layout, TableFiles, is_data_set};
use crate::manifest::Manifest;
use crate::{PROGRAM, name};

/// Rows that are turned into text at once.
const CHUNK: usize = 1 << 16;

/// A data set, open.
pub(super) struct DataSet {
    layout: Layout,
    pub(super) tables: Vec<TableFiles>,
}

impl DataSet {
    pub(super) fn open(path: &Path) -> Result<DataSet, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        // Absolute, so that the engine takes no part of it for a pattern or a partition.
        let layout = Layout::new(&path.canonicalize().map_err(failed)?);
        let tables = if path.is_dir() { layout.tables().map_err(failed)? } else { Vec::new() };
        if tables.is_empty() {
            let what = if is_data_set(path) { "the data set has no runs" } else { "not a data set" };
            let hint = "write one with `flopgap table collect INPUTS… -o DIR`";
            return Err(Failure::new(format!("{}: {what}", path.display())).hint(hint).exit(Exit::Absent));
        }
        Ok(DataSet { layout, tables })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.tables.iter().map(|table| table.name.as_str()).collect()
    }

    pub(super) fn table(&self, name: &str) -> Option<&TableFiles> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The names of all runs.
    pub(super) fn runs(&self) -> BTreeSet<&str> {
        self.tables.iter().flat_map(|table| &table.files).map(|(run, _)| run.as_str()).collect()
    }

    /// Says which runs are not whole: they are being replaced or removed, or the process that did
    /// so was killed, or another version collected them.
    pub(super) fn warn_of_half_collected(&self) {
        if !is_data_set(&self.layout.root) {
            return;
        }
        let layout = &self.layout;
        let problem = |run: &str| {
            let encoded = name::encoded(run).ok()?;
            let is_there = |name: &String| layout.part(name, &encoded).is_file();
            match Manifest::read(&layout.manifest(&encoded)) {
                Err(failure) => Some(failure.to_string()),
                Ok(Some(manifest))
                    if !layout.ready(&encoded).exists() && manifest.tables.keys().all(is_there) =>
                {
                    None
                }
                Ok(_) => Some(format!("run `{run}`: not completely collected; collect it again")),
            }
        };
        flopgap_cli::warn_all(PROGRAM, self.runs().into_iter().filter_map(problem));
    }

    /// The columns of a table.
    pub(super) fn columns(&self, table: &str) -> Result<Vec<String>, Failure> {
        let schema = self.scan(table).and_then(|mut frame| frame.collect_schema());
        let schema = schema.map_err(|error| self.failure(&error, &BTreeSet::new()))?;
        Ok(schema.iter_names().map(ToString::to_string).collect())
    }

    /// The files of a table: the run is a column of texts, whatever its name looks like.
    fn scan(&self, table: &str) -> Result<LazyFrame, PolarsError> {
        let path = PlRefPath::try_from_pathbuf(self.layout.root.join(table))?;
        let run = Schema::from_iter([Field::new("run".into(), DataType::String)]);
        let hive_options = HiveOptions {
            enabled: Some(true),
            schema: Some(run.into()),
            try_parse_dates: false,
            ..HiveOptions::new_enabled()
        };
        LazyFrame::scan_parquet(
            path,
            ScanArgsParquet { hive_options, glob: false, ..ScanArgsParquet::default() },
        )
    }

    /// Checks and answers a query.
    pub(super) fn rows(&self, sql: &str) -> Result<Rows, Failure> {
        let known = self.names();
        let columns = |table: &str| self.columns(table).unwrap_or_default();
        let checked = guard::check(sql, &known, columns)?;
        let mut context = SQLContext::new();
        for name in &checked.tables {
            let is_wide = checked.calculates || self.overflows(name, &checked.summed)?;
            let frame = self.typed(name, is_wide);
            context.register(name, frame.map_err(|error| self.failure(&error, &checked.tables))?);
        }
        self.answer(&checked.tables, || context.execute(&checked.sql))
    }

    /// A table in the types of SQL: text is text, whatever the files have a dictionary of, and
    /// whole numbers have 38 digits where 64 bits are too few.
    fn typed(&self, table: &str, is_wide: bool) -> Result<LazyFrame, PolarsError> {
        let mut frame = self.scan(table)?;
        let schema = frame.collect_schema()?;
        let typed = schema.iter().filter_map(|(name, kind)| match kind {
            DataType::Categorical(..) | DataType::Enum(..) => Some(col(name.clone()).cast(DataType::String)),
            DataType::Int64 if is_wide => Some(col(name.clone()).cast(DataType::Decimal(38, 0))),
            _ => None,
        });
        let typed: Vec<Expr> = typed.collect();
        Ok(if typed.is_empty() { frame } else { frame.with_columns(typed) })
    }

    /// Whether a sum over all rows of a table can leave 64 bits.
    pub(super) fn overflows(&self, table: &str, columns: &BTreeSet<String>) -> Result<bool, Failure> {
        let files = self.table(table).map(|table| table.files.as_slice()).unwrap_or_default();
        sums::overflow(columns, files)
    }

    /// What the engine answers, whose errors name columns of these tables.
    pub(super) fn answer(
        &self,
        tables: &BTreeSet<String>,
        plan: impl FnOnce() -> Result<LazyFrame, PolarsError>,
    ) -> Result<Rows, Failure> {
        // Several answers come of plans with several files to write, which no question has.
        let answer = || Ok(plan()?.collect_with_engine(Engine::Streaming)?.unwrap_single());
        // The engine panics where its authors expected no one to come; the message is printed then.
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(answer));
        let answer = answer.map_err(|_| {
            Failure::new("SQL: the query engine stopped at an error of its own")
                .hint("ask in another way, in smaller steps")
        })?;
        Ok(Rows { frame: answer.map_err(|error| self.failure(&error, tables))? })
    }

    /// How an error of the engine ends the program: with the columns that there are, where one was
    /// not found.
    fn failure(&self, error: &PolarsError, tables: &BTreeSet<String>) -> Failure {
        let message = chain(error).to_string();
        let first = message.split("\n\nResolved plan").next().unwrap_or(&message).trim_end();
        let lower = message.to_ascii_lowercase();
        let is_column = matches!(error, PolarsError::ColumnNotFound(_) | PolarsError::SchemaFieldNotFound(_))
            || (lower.contains("column") && lower.contains("not found"));
        let mut failure = Failure::new(format!("SQL: {first}"));
        if is_column {
            for table in tables {
                if let Ok(columns) = self.columns(table) {
                    failure = failure.hint(format!("`{table}` has {}", columns.join(", ")));
                }
            }
            failure = failure.exit(Exit::Absent);
        }
        failure
    }
}

/// The answer to a query.
pub(super) struct Rows {
    pub(super) frame: DataFrame,
}

impl Rows {
    /// All rows as a table.
    pub(super) fn into_table(self, title: &str) -> Result<Table, Failure> {
        cells::table(&self.frame, title)
    }

    /// All rows as CSV, piece by piece.
    pub(super) fn each_csv(self, mut write: impl FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut at = 0;
        loop {
            let piece = self.frame.slice(i64::try_from(at).unwrap_or(i64::MAX), CHUNK);
            let text = cells::table(&piece, "")?.to_csv().map_err(|error| Failure::from_error(&error))?;
            // The header is the first line of each piece. Names of columns have no line breaks, or
            // they are quoted: it is as long as the first time.
            let header = if at == 0 { 0 } else { cells::header_length(&self.frame)? };
            write(&text[header..])?;
            at += CHUNK;
            if at >= self.frame.height() {
                return Ok(());
            }
        }
    }
}
