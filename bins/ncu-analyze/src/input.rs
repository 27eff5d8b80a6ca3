//! How reports are opened.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use flopgap_kernels::Classifier;
use flopgap_ncu::{NumberFormat, Reader};
use flopgap_phases::{PhaseError, Profile};

/// Options of every command that reads reports.
#[derive(clap::Args)]
pub(crate) struct Input {
    /// What separates decimals in the reports, if the reports do not tell.
    #[arg(long, value_enum, default_value_t, value_name = "SEPARATOR")]
    decimal: Decimal,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Decimal {
    /// Told from the values; a report that does not tell is refused.
    #[default]
    Auto,
    /// 1,234.5
    Point,
    /// 1.234,5
    Comma,
}

impl Input {
    /// Opens a report; `-` is standard input.
    pub(crate) fn open(&self, path: &Path) -> Result<Reader, flopgap_ncu::Error> {
        let options = Reader::options().number_format(match self.decimal {
            Decimal::Auto => NumberFormat::Auto,
            Decimal::Point => NumberFormat::Point,
            Decimal::Comma => NumberFormat::Comma,
        });
        if path.as_os_str() == "-" {
            options.from_reader(io::stdin(), "standard input")
        } else {
            options.open(path)
        }
    }

    /// Adds up a report by kernel.
    pub(crate) fn profile(&self, path: &Path, classifier: &Classifier) -> Result<Profile, PhaseError> {
        Profile::read(self.open(path)?, path, classifier)
    }
}
