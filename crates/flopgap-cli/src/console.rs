//! What a program says on standard error besides its answer, and how much.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[cfg(feature = "runs")]
use flopgap_report::progress::Progress;

use crate::output::{note, warn, warn_all};

/// The options of every program about its messages.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ConsoleArgs {
    /// Leave out notes about what was done, and progress; warnings, errors and what is missing stay
    #[arg(long, short, global = true, conflicts_with = "verbose", help_heading = "Messages")]
    quiet: bool,
    /// Say also what is read, as what it was recognized, and how long each phase took
    #[arg(long, short, global = true, help_heading = "Messages")]
    verbose: bool,
}

/// How much a program says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Also what was written and left out, and progress.
    #[default]
    Normal,
    /// Also what was read, and how long each phase took.
    Verbose,
}

/// Where a program's messages go: standard error, as much as the user wants of them.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    program: &'static str,
    /// The command of the program that runs, where it has several.
    command: Option<&'static str>,
    verbosity: Verbosity,
}

impl Console {
    /// The messages of this program.
    pub fn new(program: &'static str, verbosity: Verbosity) -> Console {
        Console { program, command: None, verbosity }
    }

    pub(crate) fn of(program: &'static str, command: Option<&str>, arguments: ConsoleArgs) -> Console {
        let verbosity = match (arguments.quiet, arguments.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        Console { program, command: command.map(kept), verbosity }
    }

    /// The messages of a command of the program.
    #[must_use]
    pub fn within(self, command: &'static str) -> Console {
        Console { command: Some(command), ..self }
    }

    /// What a JSON document of the command is: `flopgap-nsys-kernels`.
    pub(crate) fn document(&self) -> String {
        let words = ["flopgap"].into_iter().chain(subcommand(self.program)).chain(self.command);
        words.collect::<Vec<_>>().join("-")
    }

    /// How much is said.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// A warning, which is written in any case.
    pub fn warn(&self, warning: impl fmt::Display) {
        warn(self.program, warning);
    }

    /// The first ten of some warnings, and how many more there are.
    pub fn warn_all<W: fmt::Display>(&self, warnings: impl IntoIterator<Item = W>) {
        warn_all(self.program, warnings);
    }

    /// An action, such as which files were written; not in a quiet program.
    pub fn note(&self, message: impl fmt::Display) {
        if self.verbosity != Verbosity::Quiet {
            note(self.program, message);
        }
    }

    /// What only a verbose program says.
    pub fn detail(&self, message: impl fmt::Display) {
        if self.verbosity == Verbosity::Verbose {
            note(self.program, message);
        }
    }

    /// Does some work; a verbose program says how long it took.
    pub fn timed<T>(&self, what: impl fmt::Display, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.detail(format_args!("{what}: {:.3} s", start.elapsed().as_secs_f64()));
        done
    }

    /// A bar over `total` steps of `what`, which a quiet program does not draw.
    #[cfg(feature = "runs")]
    pub fn progress(&self, total: u64, what: &str) -> Progress {
        if self.verbosity == Verbosity::Quiet { Progress::hidden(total) } else { Progress::new(total, what) }
    }
}

/// Programs by what they are called as commands of `flopgap`.
const PROGRAMS: [(&str, &str); 7] = [
    ("nsys-analyze", "nsys"),
    ("ncu-analyze", "ncu"),
    ("hyper-profile", "profile"),
    ("mlp-validate", "validate"),
    ("mlp-bench", "bench"),
    ("model-calibrate", "calibrate"),
    ("run-table", "table"),
];

/// What a program is called as a command of `flopgap`: `nsys` for `nsys-analyze`.
pub fn subcommand(program: &str) -> Option<&'static str> {
    PROGRAMS.iter().find(|(name, _)| *name == program).map(|(_, subcommand)| *subcommand)
}

/// The name of a command for as long as the process runs, once for each name.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(name) {
        return name;
    }
    let name: &'static str = name.to_owned().leak();
    names.insert(name);
    name
}

/// The messages of a program without the options about them.
impl From<&'static str> for Console {
    fn from(program: &'static str) -> Console {
        Console::new(program, Verbosity::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_give_the_verbosity() {
        let of = |quiet, verbose| Console::of("demo", None, ConsoleArgs { quiet, verbose }).verbosity;
        assert_eq!(of(true, false), Verbosity::Quiet);
        assert_eq!(of(false, true), Verbosity::Verbose);
        assert_eq!(of(false, false), Verbosity::default());
    }
}
