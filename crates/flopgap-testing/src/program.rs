//! Programs that a test runs to their end.

use std::process::{Command, Output};

use serde_json::Value;

/// How a program ended, and what it printed.
///
/// What a method asserts fails the test at its caller, with the command, so that a test over many
/// command lines needs no messages of its own.
#[derive(Debug)]
pub struct Ended {
    /// The command line.
    pub command: String,
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

#[expect(clippy::missing_panics_doc, reason = "to fail is what an assertion is for")]
impl Ended {
    /// Runs a command to its end. Fails the test if it cannot be started, is ended by a signal, or
    /// prints something other than UTF-8.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self::new(format!("{command:?}"), output)
    }

    /// What a command did that was started elsewhere.
    #[track_caller]
    pub fn new(command: String, output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or_else(|| panic!("{command}: {}", output.status)),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
            command,
        }
    }

    /// Asserts the exit code, that no code of the workspace panicked (but its examples, which are
    /// fakes and may be made to), and that each of these texts is on standard error.
    #[track_caller]
    pub fn expect(&self, code: i32, stderr: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{}\n{}", self.command, self.stderr);
        let is_ours =
            |line: &&str| line.contains("panicked at crates/") || line.contains("panicked at bins/");
        let panics = self.stderr.lines().filter(|line| !line.contains("/examples/")).find(is_ours);
        assert_eq!(panics, None, "{}\n{}", self.command, self.stderr);
        self.says(stderr)
    }

    /// As [`Ended::expect`], and that nothing is on standard output.
    #[track_caller]
    pub fn refuses(&self, code: i32, stderr: &[&str]) -> &Self {
        assert_eq!(self.stdout, "", "{}", self.command);
        self.expect(code, stderr)
    }

    /// Asserts success without a message.
    #[track_caller]
    pub fn succeeds_quietly(&self) -> &Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.command);
        self
    }

    /// Asserts that each of these texts is on standard error.
    #[track_caller]
    pub fn says(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{}: `{text}` is not in\n{}", self.command, self.stderr);
        }
        self
    }

    /// Asserts that each of these texts is on standard output.
    #[track_caller]
    pub fn prints(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stdout.contains(text), "{}: `{text}` is not in\n{}", self.command, self.stdout);
        }
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: {error} in\n{}\n{}", self.command, self.stdout, self.stderr))
    }
}
