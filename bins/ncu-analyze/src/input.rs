//! Opens reports.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure};
use flopgap_ncu::{NumberFormat, Reader};

/// Options of every command that reads reports.
#[derive(clap::Args)]
pub(crate) struct Input {
    /// Decimal separator, for reports that do not reveal it
    #[arg(long, value_enum, default_value_t, value_name = "SEPARATOR")]
    decimal: Decimal,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Decimal {
    /// Inferred from the values; an ambiguous report is refused
    #[default]
    Auto,
    /// 1,234.5
    Point,
    /// 1.234,5
    Comma,
}

impl Input {
    /// Rejects standard input given twice: the second would be empty.
    pub(crate) fn at_most_one_stdin<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
        let given = paths.into_iter().filter(|path| is_stdin(path)).count();
        if given <= 1 {
            return Ok(());
        }
        let message = format!("standard input can be read once, but `-` is given {given} times");
        Err(Failure::new(message).hint("write the other reports to files").exit(Exit::Usage))
    }

    /// Opens a report; `-` is standard input.
    pub(crate) fn open(&self, path: &Path) -> Result<Reader, flopgap_ncu::Error> {
        let options = Reader::options().number_format(match self.decimal {
            Decimal::Auto => NumberFormat::Auto,
            Decimal::Point => NumberFormat::Point,
            Decimal::Comma => NumberFormat::Comma,
        });
        if is_stdin(path) { options.from_reader(io::stdin(), "standard input") } else { options.open(path) }
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
