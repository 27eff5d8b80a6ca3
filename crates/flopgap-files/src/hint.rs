//! What an error says in addition to its message.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// The text of a hint: borrowed where it is fixed, owned where it names something.
pub type Text<'a> = Cow<'a, str>;

/// What kind of end an error is. `flopgap-cli` has an exit code for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It could not be done.
    #[default]
    Failed,
    /// The request is wrong: a size, an option or a name that nothing can be done with.
    Usage,
    /// What was requested is not in the input or not on this machine.
    Absent,
}

/// An error that says what can be done about it.
pub trait Hint: Error {
    /// What the user can do about it, in one sentence without a period, where there is something.
    fn hint(&self) -> Option<Text<'_>> {
        None
    }

    /// What kind of end it is.
    fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }

    /// Whether what was requested is not in the input or not on this machine.
    fn is_absence(&self) -> bool {
        self.kind() == ErrorKind::Absent
    }
}

impl<T: Hint> Hint for Box<T> {
    fn hint(&self) -> Option<Text<'_>> {
        (**self).hint()
    }

    fn kind(&self) -> ErrorKind {
        (**self).kind()
    }
}

/// What was found; nothing where the input or the machine does not hold it.
///
/// # Errors
/// All other errors.
pub fn present<T, E: Hint>(found: Result<T, E>) -> Result<Option<T>, E> {
    match found {
        Err(error) if error.is_absence() => Ok(None),
        found => found.map(Some),
    }
}

/// An error of a file: where, and what is wrong there. Its message begins with the place, and all
/// else is that of `what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFile<E> {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, where it is in one.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: E,
}

impl<E> InFile<E> {
    /// Of a whole file.
    pub fn new(path: impl AsRef<Path>, what: E) -> InFile<E> {
        InFile { path: path.as_ref().to_owned(), line: None, what }
    }

    /// In a line, from 1.
    pub fn in_line(path: impl AsRef<Path>, line: u64, what: E) -> InFile<E> {
        InFile { line: Some(line), ..InFile::new(path, what) }
    }
}

impl<E: Error> fmt::Display for InFile<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.what)
    }
}

impl<E: Error> Error for InFile<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.what.source()
    }
}

impl<E: Hint> Hint for InFile<E> {
    fn hint(&self) -> Option<Text<'_>> {
        self.what.hint()
    }

    fn kind(&self) -> ErrorKind {
        self.what.kind()
    }
}

/// An error and its sources on one line, with `: ` between them: for logs, records and tables.
/// [`chain`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(&'a dyn Error);

/// An error and its sources on one line.
pub fn chain(error: &dyn Error) -> Chain<'_> {
    Chain(error)
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        for source in sources(self.0) {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

/// The sources of an error, the nearest first.
pub fn sources(error: &dyn Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}
