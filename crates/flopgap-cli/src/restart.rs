//! How a program starts itself again.

use std::path::PathBuf;

use crate::Failure;

/// How a program starts itself again, as a worker process or below a profiler: an
/// executable, and the arguments that come before the program's own.
///
/// By default it is the executable of this process, without such arguments. A program that runs as
/// a subcommand of another one, or within an interpreter, is given its own.
///
/// ```
/// use flopgap_cli::Restart;
///
/// let restart = Restart::default().by("profile");
/// assert_eq!(restart.arguments(["resume".to_owned()]), ["profile", "resume"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restart {
    /// Absent for the executable of this process.
    program: Option<PathBuf>,
    first: Vec<String>,
}

impl Restart {
    /// Another executable than that of this process, and what it is given first.
    pub fn with(program: impl Into<PathBuf>, first: impl IntoIterator<Item = String>) -> Self {
        Restart { program: Some(program.into()), first: first.into_iter().collect() }
    }

    /// The same for a subcommand.
    #[must_use]
    pub fn by(&self, subcommand: &str) -> Self {
        let mut restart = self.clone();
        restart.first.push(subcommand.to_owned());
        restart
    }

    /// The executable.
    ///
    /// # Errors
    /// When the system does not tell it.
    pub fn program(&self) -> Result<PathBuf, Failure> {
        self.program
            .clone()
            .map_or_else(std::env::current_exe, Ok)
            .map_err(|error| Failure::new(format!("the path of this program is unknown: {error}")))
    }

    /// All arguments of the executable, for these of the program.
    pub fn arguments(&self, own: impl IntoIterator<Item = String>) -> Vec<String> {
        self.first.iter().cloned().chain(own).collect()
    }
}
