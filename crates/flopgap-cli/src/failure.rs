//! An error as the user sees it.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::Exit;
use crate::output::to_stderr;

/// An error on its way to the user: what happened, its causes, what to do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    exit: Exit,
    /// The reader of standard output went away: end without a word.
    quiet: bool,
}

impl Failure {
    /// A failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Failure { message: message.into(), hint: None, exit: Exit::Failed, quiet: false }
    }

    /// A failure with the message of `error` and, below it, those of its sources that it does not repeat itself.
    pub fn from_error(error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message.push_str("\n  caused by: ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Failure::new(message)
    }

    /// What happened, with its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the user can do about it.
    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// How a program ends that fails so.
    pub fn code(&self) -> Exit {
        self.exit
    }

    /// Sets the exit code.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what the user can do about it, where there is something.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<&str>) -> Self {
        self.hint = hint.map(str::to_owned);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// Writing the result failed; a closed pipe is not a failure of ours.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        let exit = if quiet { Exit::Done } else { Exit::Failed };
        Failure { quiet, ..Failure::new(format!("standard output: {error}")).exit(exit) }
    }
}

/// Runs a program's body and turns its end into an exit code; a failure is printed to standard error.
pub fn run(program: &str, body: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    match body() {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            if !failure.quiet {
                to_stderr(format_args!("{program}: error: {failure}"));
            }
            failure.exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn causes_and_hint_follow_the_message() {
        let failure = Failure::from_error(&Outer(io::Error::other("disk on fire"))).hint("use water");
        assert_eq!(failure.to_string(), "a.csv: unreadable\n  caused by: disk on fire\n  hint: use water");
    }

    #[test]
    fn a_closed_pipe_is_success() {
        assert_eq!(run("test", || Err(io::Error::from(io::ErrorKind::BrokenPipe).into())), Exit::Done.into());
        assert_eq!(run("test", || Err(io::Error::other("full").into())), Exit::Failed.into());
    }
}
