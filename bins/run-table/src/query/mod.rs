//! `flopgap table query DIR`: SQL over a data set, and ready questions.

mod cells;
mod data;
mod exact;
mod guard;
mod question;
mod refusals;
mod sums;
mod trend;

use std::path::PathBuf;

use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_report::table::{Cell, Column, Format, Table};

use crate::PROGRAM;
use data::{DataSet, Rows};
use question::Question;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap table query data --top-kernels 5
  flopgap table query data --regressions small_forward small_training_step -o slower.csv
  flopgap table query data --sql \"select run, count(*) as calls from kernels group by run\"")]
pub(crate) struct Arguments {
    /// The data set that `flopgap table collect` wrote.
    #[arg(value_name = "DIR")]
    data_set: PathBuf,
    #[command(flatten)]
    question: Asked,
    /// Show only the first N rows of the answer to a ready question; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "sql")]
    top: u64,
    /// Print the SQL of a ready question before its answer, on standard error.
    #[arg(long, conflicts_with = "sql")]
    show_sql: bool,
    /// Draw --trend into an SVG file.
    #[arg(long, value_name = "FILE", requires = "trend")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The question; without one, the tables of the data set are listed.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Asked {
    /// A SELECT over the tables of the data set.
    #[arg(long)]
    sql: Option<String>,
    /// The kernels that took most time over all runs.
    #[arg(long, value_name = "N", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "clap: an option whose value may be left out")]
    top_kernels: Option<Option<u64>>,
    /// The FLOPs above theory of runs of hyper-profile by columns of `overheads`: n, d, m, pass,
    /// cause, kernel, tile, run.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    overhead_by: Option<Vec<String>>,
    /// What became slower from run A to run B, by kernel.
    #[arg(long, value_names = ["A", "B"], num_args = 2)]
    regressions: Option<Vec<String>>,
    /// GPU time of each rank: compute, communication, and how far it is behind.
    #[arg(long)]
    ranks: bool,
    /// Time of a kernel, class of kernels or range over the runs, in the order of their dates.
    #[arg(long, value_name = "NAME")]
    trend: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let open = || DataSet::open(&arguments.data_set);
    let data = console.timed(format_args!("{}: opened", arguments.data_set.display()), open)?;
    let (runs, names) = (data.runs().len(), data.names().join(", "));
    console.detail(format_args!("{runs} runs with the tables {names}"));
    data.warn_of_half_collected();
    let asked = &arguments.question;
    if let Some(sql) = &asked.sql {
        return answer(&data, sql, "", arguments, console);
    }
    let Some(question) = question(asked, arguments.top) else {
        return write(&console.timed("data set: listed", || data.overview())?, arguments, console);
    };
    let (sql, title) = question.sql(&data)?;
    if arguments.show_sql {
        flopgap_cli::note(PROGRAM, format!("SQL:\n{sql}"));
    }
    if let Question::Trend(name) = &question {
        let rows = rows(&data, &sql, console)?;
        if let Some(path) = &arguments.plot {
            trend::draw(&rows, name, path, console)?;
        }
        return write(&rows.into_table(&title)?, arguments, console);
    }
    answer(&data, &sql, &title, arguments, console)
}

fn question(asked: &Asked, limit: u64) -> Option<Question> {
    if let Some(number) = asked.top_kernels {
        return Some(Question::TopKernels(number.unwrap_or(limit)));
    }
    if let Some(columns) = &asked.overhead_by {
        return Some(Question::OverheadBy(columns.clone(), limit));
    }
    if let Some([before, after]) = asked.regressions.as_deref() {
        return Some(Question::Regressions(before.clone(), after.clone(), limit));
    }
    if asked.ranks {
        return Some(Question::Ranks);
    }
    asked.trend.clone().map(Question::Trend)
}

/// What the engine answers.
fn rows(data: &DataSet, sql: &str, console: Console) -> Result<Rows, Failure> {
    let rows = console.timed("query: answered", || data.rows(sql))?;
    console.detail(format_args!("{} rows", rows.frame.height()));
    Ok(rows)
}

/// Asks and prints: CSV as rows come, since it may be all rows of a table.
fn answer(
    data: &DataSet,
    sql: &str,
    title: &str,
    arguments: &Arguments,
    console: Console,
) -> Result<(), Failure> {
    let rows = rows(data, sql, console)?;
    if arguments.output.format() != Format::Csv {
        return write(&rows.into_table(title)?, arguments, console);
    }
    if let Some(path) = arguments.output.file() {
        return flopgap_files::write_atomic_with(path, |file| {
            use std::io::Write as _;
            rows.each_csv(|text| {
                file.write_all(text.as_bytes())
                    .map_err(|error| flopgap_files::WriteError::new(path, error).into())
            })
            .map_err(Ended)
        })
        .map(|()| console.note(format_args!("wrote {}", path.display())))
        .map_err(|Ended(failure)| failure);
    }
    rows.each_csv(flopgap_cli::print)
}

/// What ended the writing of a file.
struct Ended(Failure);

impl From<flopgap_files::WriteError> for Ended {
    fn from(error: flopgap_files::WriteError) -> Ended {
        Ended(error.into())
    }
}

fn write(table: &Table, arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let output = &arguments.output;
    let text = table.render(output.format(), &output.text()).map_err(|error| Failure::from_error(&error))?;
    output.write(console, &text)
}

impl DataSet {
    /// The tables with their columns.
    fn overview(&self) -> Result<Table, Failure> {
        let columns = [
            Column::text("table", "table"),
            Column::number("runs", "runs"),
            Column::number("rows", "rows"),
            Column::prose("columns", "columns"),
        ];
        let mut table = Table::new("", columns).map_err(|error| Failure::from_error(&error))?;
        for files in &self.tables {
            let cells = [
                Cell::text(&files.name),
                Cell::from(files.files.len()),
                self.row_count(&files.name)?,
                Cell::text(self.columns(&files.name)?.join(", ")),
            ];
            table.push(cells).map_err(|error| Failure::from_error(&error))?;
        }
        Ok(table)
    }

    /// The only value of an answer.
    fn row_count(&self, table: &str) -> Result<Cell, Failure> {
        let rows: Rows = self.rows(&format!("select count(*) as rows from {}", exact::quoted(table)))?;
        let counted = rows.into_table("")?;
        let cell = counted.rows().first().and_then(|row| row.first()).cloned();
        cell.ok_or_else(|| Failure::new(format!("the table `{table}` cannot be counted")).exit(Exit::Failed))
    }
}
