//! Standard output and standard error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstream::AutoStream;
use flopgap_report::text::printable;

use crate::Failure;
use crate::color::WARNING;

/// Writes a result to standard output, with a line end if it has none. A terminal gets no control
/// characters: names in a result come from files.
///
/// # Errors
/// When standard output is closed or full.
pub fn print(result: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let result = for_output(result, stdout.is_terminal());
    let end: &[u8] = if result.ends_with('\n') { b"" } else { b"\n" };
    let written = stdout.write_all(result.as_bytes()).and_then(|()| stdout.write_all(end));
    written.and_then(|()| stdout.flush()).map_err(Failure::output)
}

fn for_output(result: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { printable(result).into() } else { result.into() }
}

/// Writes a warning to standard error.
pub fn warn(program: &str, warning: impl fmt::Display) {
    let warning = printable(&warning.to_string());
    to_stderr(&format!("{}: {WARNING}warning:{WARNING:#} {warning}", printable(program)));
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
    to_stderr(&printable(&format!("{program}: {message}")));
}

/// Writes a line to standard error, without its styles unless that is a terminal. Errors are
/// ignored: a note that nobody can read must not affect the result, as `eprintln!` would by
/// panicking.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(AutoStream::auto(io::stderr().lock()), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        let name = "step \u{1b}]0;title\u{7}\u{1b}[2J\n";
        assert_eq!(for_output(name, true), "step \u{FFFD}]0;title\u{FFFD}\u{FFFD}[2J\n");
        assert_eq!(for_output(name, false), name);
    }
}
