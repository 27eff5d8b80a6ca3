//! Standard output and standard error.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use flopgap_report::text::printable;

use crate::color::WARNING;
use crate::{Exit, Failure};

/// What programs of this process were called, by their names.
static CALLED: RwLock<BTreeMap<&str, String>> = RwLock::new(BTreeMap::new());

thread_local! {
    /// What is printed while [`captured`] runs a program.
    static CAPTURED: RefCell<Option<Printed>> = const { RefCell::new(None) };
}

/// What a program printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// Its result.
    pub stdout: String,
    /// Its notes, warnings and errors.
    pub stderr: String,
}

/// Runs a program in this thread and returns what it printed, instead of writing it to standard
/// output and standard error. What its other threads say is not captured; they print no results.
///
/// Results that are written row by row, such as CSV of `flopgap nsys stats`, go to standard output.
pub fn captured(program: impl FnOnce() -> Exit) -> (Exit, Printed) {
    // Taken also when the program panics.
    struct Taken;
    impl Drop for Taken {
        fn drop(&mut self) {
            CAPTURED.take();
        }
    }
    CAPTURED.set(Some(Printed::default()));
    let _taken = Taken;
    let exit = program();
    (exit, CAPTURED.take().unwrap_or_default())
}

/// Gives `write` what is captured; `None` where nothing is.
pub(crate) fn capture<T>(write: impl FnOnce(&mut Printed) -> T) -> Option<T> {
    CAPTURED.with_borrow_mut(|captured| captured.as_mut().map(write))
}

/// From now on the messages of a program begin with the last part of `first`, the first word of its
/// command line, as its usage does: `flopgap nsys` instead of `nsys-analyze`.
pub(crate) fn call(program: &'static str, first: Option<&OsStr>) {
    let name = first.and_then(|first| Path::new(first).file_name()).and_then(OsStr::to_str);
    let name = name.filter(|name| !name.is_empty()).unwrap_or(program);
    CALLED.write().unwrap_or_else(PoisonError::into_inner).insert(program, name.to_owned());
}

/// What the messages of a program begin with.
pub(crate) fn called(program: &str) -> String {
    let called = CALLED.read().unwrap_or_else(PoisonError::into_inner);
    printable(called.get(program).map_or(program, String::as_str))
}

/// Writes a result to standard output, with a line end if it has none. A terminal gets no control
/// characters: names in a result come from files.
///
/// # Errors
/// When standard output is closed or full.
pub fn print(result: &str) -> Result<(), Failure> {
    let end = if result.ends_with('\n') { "" } else { "\n" };
    if capture(|captured| captured.stdout.extend([result, end])).is_some() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    let result = for_output(result, stdout.is_terminal());
    let written = stdout.write_all(result.as_bytes()).and_then(|()| stdout.write_all(end.as_bytes()));
    written.and_then(|()| stdout.flush()).map_err(Failure::output)
}

/// Whether standard output shows colors: a terminal that can, unless `NO_COLOR` is set or
/// `CLICOLOR` is 0.
pub fn is_colored() -> bool {
    let stdout = io::stdout();
    stdout.is_terminal() && AutoStream::choice(&stdout) != ColorChoice::Never
}

/// Writes a result with styles to standard output that [`is_colored`]. The caller removes control
/// characters from what is within the styles.
///
/// # Errors
/// When standard output is closed or full.
pub fn print_styled(result: &str) -> Result<(), Failure> {
    let mut stdout = AutoStream::auto(io::stdout().lock());
    let written = stdout.write_all(result.as_bytes());
    written.and_then(|()| stdout.flush()).map_err(Failure::output)
}

fn for_output(result: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { printable(result).into() } else { result.into() }
}

/// Writes a warning to standard error.
pub fn warn(program: &str, warning: impl fmt::Display) {
    let warning = printable(&warning.to_string());
    to_stderr(&format!("{}: {WARNING}warning:{WARNING:#} {warning}", called(program)));
}

/// Writes the first ten of some warnings to standard error, and how many more there are.
pub fn warn_all<W: fmt::Display>(program: &str, warnings: impl IntoIterator<Item = W>) {
    const SHOWN: usize = 10;
    let mut warnings = warnings.into_iter();
    for warning in warnings.by_ref().take(SHOWN) {
        warn(program, warning);
    }
    let more = warnings.count();
    if more > 0 {
        warn(program, format_args!("and {more} more warnings"));
    }
}

/// Reports an action on standard error, such as which files were written.
pub fn note(program: &str, message: impl fmt::Display) {
    to_stderr(&format!("{}: {}", called(program), printable(&message.to_string())));
}

/// Writes a line to standard error, without its styles unless that is a terminal. Errors are
/// ignored: a note that nobody can read must not affect the result, as `eprintln!` would by
/// panicking.
pub(crate) fn to_stderr(line: &str) {
    if capture(|captured| captured.stderr.extend([strip_str(line).to_string().as_str(), "\n"])).is_some() {
        return;
    }
    let _ = writeln!(AutoStream::auto(io::stderr().lock()), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_with_what_the_program_was_called() {
        assert_eq!(called("demo-a"), "demo-a");
        for (first, expected) in [
            ("flopgap demo", "flopgap demo"),
            ("/opt/my tools/demo-a", "demo-a"),
            ("demo\u{1b}[2J", "demo\u{FFFD}[2J"),
            ("", "demo-a"),
        ] {
            call("demo-a", Some(OsStr::new(first)));
            assert_eq!(called("demo-a"), expected);
        }
        call("demo-a", None);
        assert_eq!(called("demo-a"), "demo-a");
    }

    #[test]
    fn a_program_of_this_process_prints_into_what_is_captured() {
        let program = || {
            crate::outcome("demo-b", || {
                print("42")?;
                note("demo-b", "done");
                Err(Failure::new("disk on fire").hint("use water").exit(Exit::Absent))
            })
        };
        let (exit, found) = captured(program);
        assert_eq!((exit, found.stdout.as_str()), (Exit::Absent, "42\n"));
        assert_eq!(found.stderr, "demo-b: done\ndemo-b: error: disk on fire\n  hint: use water\n");
        // Also after a program that panics.
        assert!(std::panic::catch_unwind(|| captured(|| panic!("a bug"))).is_err());
        assert!(capture(|_| ()).is_none());
        assert_eq!(captured(|| Exit::Done), (Exit::Done, Printed::default()));
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        let name = "step \u{1b}]0;title\u{7}\u{1b}[2J\n";
        assert_eq!(for_output(name, true), "step \u{FFFD}]0;title\u{FFFD}\u{FFFD}[2J\n");
        assert_eq!(for_output(name, false), name);
    }
}
