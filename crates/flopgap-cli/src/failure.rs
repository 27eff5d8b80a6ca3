//! Errors as the user sees them.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::io;

use clap::{Args as _, FromArgMatches as _};
use flopgap_files::Hint;
use flopgap_report::text::printable;

use crate::color::{ERROR, HELP, HINT};
use crate::console::ConsoleArgs;
use crate::output::{call, called, capture, to_stderr};
use crate::{Console, Exit};

/// An error for the user: what happened, its causes, what to do, and the exit code.
///
/// Any flopgap error converts to one with `?`; a program adds its own knowledge, such as its
/// options, with [`Failure::hint`].
#[derive(Debug)]
pub struct Failure {
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    exit: Exit,
    /// The reader of standard output has gone: end silently.
    quiet: bool,
}

impl Failure {
    /// A failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Failure {
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            exit: Exit::Failed,
            quiet: false,
        }
    }

    /// A failure with the message, the sources, the hint and the exit code of a flopgap error.
    pub fn of(error: &impl Hint) -> Self {
        let failure = Failure::from_error(error).exit(error.kind().into());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// A failure with the message and the sources of an error of another crate, which has no hint.
    pub fn from_error(error: &dyn Error) -> Self {
        let causes = flopgap_files::sources(error).map(ToString::to_string).collect();
        Failure { causes, ..Failure::new(error.to_string()) }
    }

    /// Writing the result to standard output failed. A reader that closed it early is not an error.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub fn output(error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        let exit = if quiet { Exit::Done } else { Exit::Failed };
        Failure { quiet, ..Failure::new(format!("standard output: {error}")).exit(exit) }
    }

    /// The message and, after colons, its causes: for callers that do not print failures.
    pub fn message(&self) -> String {
        let parts: Vec<&str> =
            std::iter::once(&self.message).chain(&self.causes).map(String::as_str).collect();
        parts.join(": ")
    }

    /// The exit code.
    pub fn code(&self) -> Exit {
        self.exit
    }

    /// The lines for the user, with styles.
    fn in_color(&self, program: &str) -> String {
        let message = printable(&self.message);
        let mut text = format!("{}: {ERROR}error:{ERROR:#} {message}", called(program));
        for cause in &self.causes {
            let _ = write!(text, "\n  caused by: {}", printable(cause));
        }
        for hint in &self.hints {
            let _ = write!(text, "\n  {HINT}hint:{HINT:#} {}", printable(hint));
        }
        text
    }

    /// Sets the exit code.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Adds what the user can do about it, below what the error itself suggests.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for cause in &self.causes {
            write!(f, "\n  caused by: {cause}")?;
        }
        for hint in &self.hints {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// `?` on a flopgap error.
impl<E: Hint> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::of(&error)
    }
}

/// The command line of a program that has the options `--quiet` and `--verbose`: its arguments, and
/// where its messages go. They begin with the name that the command line begins with. Help, the
/// version and what is wrong are printed.
///
/// # Errors
/// [`Exit::Usage`] when it is wrong; [`Exit::Done`] when help or the version was all it asked for.
pub fn start<T: clap::Parser>(
    program: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(T, Console), Exit> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    call(program, arguments.first().map(OsString::as_os_str));
    let mut command = command::<T>();
    let matches = command.try_get_matches_from_mut(arguments);
    let parsed = matches.and_then(|mut matches| {
        let console =
            Console::of(program, matches.subcommand_name(), ConsoleArgs::from_arg_matches(&matches)?);
        Ok((T::from_arg_matches_mut(&mut matches)?, console))
    });
    parsed.map_err(|error| shown(error, &mut command))
}

/// Runs a program that begins with [`start`]: `work` on its arguments. `--verbose` says how long
/// all of it took.
pub fn program<T: clap::Parser>(
    program: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
    work: impl FnOnce(T, Console) -> Result<(), Failure>,
) -> Exit {
    match start(program, arguments) {
        Ok((arguments, console)) => outcome(program, || console.timed("total", || work(arguments, console))),
        Err(exit) => exit,
    }
}

/// The commands and options of a program that begins with [`start`].
pub fn command<T: clap::CommandFactory>() -> clap::Command {
    // The options alone: a flattened struct would also bring its description, for the program's.
    let added = ConsoleArgs::augment_args(clap::Command::new("messages"));
    T::command().args(added.get_arguments().cloned()).styles(HELP)
}

/// Prints help, the version, or what is wrong.
fn shown(error: clap::Error, command: &mut clap::Command) -> Exit {
    let error = error.format(command);
    show(&error);
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

/// Prints what clap says about a command line.
fn show(error: &clap::Error) {
    let text = error.render().to_string();
    let captured =
        capture(
            |captured| {
                if error.use_stderr() { captured.stderr += &text } else { captured.stdout += &text }
            },
        );
    if captured.is_none() {
        // As in clap itself: there is no other place for a message that cannot be printed.
        let _ = error.print();
    }
}

/// Runs a program's body and returns its exit code; a failure is printed to standard error.
pub fn outcome(program: &str, body: impl FnOnce() -> Result<(), Failure>) -> Exit {
    match body() {
        Ok(()) => Exit::Done,
        Err(failure) => {
            if !failure.quiet {
                to_stderr(&failure.in_color(program));
            }
            failure.exit
        }
    }
}

#[cfg(test)]
mod tests {
    use flopgap_files::{ErrorKind, Text};

    use super::*;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a.csv: unreadable")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    impl Hint for Outer {
        fn hint(&self) -> Option<Text<'_>> {
            Some("use water".into())
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Absent
        }
    }

    #[test]
    fn causes_and_hints_follow_the_message() {
        let body = || -> Result<(), Failure> { Err(Outer(io::Error::other("disk on fire")))? };
        let failure = body().unwrap_err().hint("or sand");
        assert_eq!(
            failure.to_string(),
            "a.csv: unreadable\n  caused by: disk on fire\n  hint: use water\n  hint: or sand"
        );
        assert_eq!(failure.code(), Exit::Absent);
        assert_eq!(Failure::from_error(&Outer(io::Error::other("x"))).code(), Exit::Failed);
    }

    #[test]
    fn a_wrong_command_line_is_no_end_of_the_process() {
        #[derive(Debug, clap::Parser)]
        struct Arguments {
            file: String,
        }
        let parsed = |words: &[&str]| start::<Arguments>("demo", words.iter().map(OsString::from));
        assert_eq!(parsed(&["demo", "a.csv"]).unwrap().0.file, "a.csv");
        assert_eq!(parsed(&["demo"]).unwrap_err(), Exit::Usage);
        assert_eq!(parsed(&["demo", "--help"]).unwrap_err(), Exit::Done);
    }

    #[test]
    fn a_closed_pipe_is_success() {
        let end = |error: io::Error| outcome("test", || Err(Failure::output(error)));
        assert_eq!(end(io::ErrorKind::BrokenPipe.into()), Exit::Done);
        assert_eq!(end(io::Error::other("full")), Exit::Failed);
    }
}
