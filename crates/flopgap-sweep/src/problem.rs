//! Problems of parts of a run.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use flopgap_hint::{ErrorKind, Hint, Text};
use flopgap_phases::{Contradiction, PhaseError, Warning};

use crate::{Config, Ignored, RecordError, Stage};

/// A problem of one configuration or one file of a run.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The configuration, where it is known.
    pub config: Option<Config>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong or questionable in a part of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A configuration has no record yet.
    NotMeasured,
    /// Raw files of a configuration are missing.
    Incomplete {
        /// Of which stages.
        missing: Vec<Stage>,
    },
    /// The record of a configuration cannot be used.
    Record(Arc<RecordError>),
    /// The reports of a configuration cannot be used.
    Reports(Arc<PhaseError>),
    /// Two files of a configuration have different contents.
    Rivals {
        /// One of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// The difference, in words.
        difference: String,
    },
    /// A file in `raw` was skipped.
    Ignored {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: Ignored,
    },
    /// The numbers of a configuration are questionable.
    Questionable(Warning),
    /// The numbers of a configuration cannot be right, but were
    /// [forced](flopgap_phases::Strictness::Forced).
    Forced(Contradiction),
}

impl From<RecordError> for ProblemKind {
    fn from(error: RecordError) -> Self {
        ProblemKind::Record(Arc::new(error))
    }
}

impl From<PhaseError> for ProblemKind {
    fn from(error: PhaseError) -> Self {
        ProblemKind::Reports(Arc::new(error))
    }
}

impl ProblemKind {
    /// Whether two configurations have the same problem, so that it is reported once. Problems that
    /// name a file are always distinct.
    fn is_shared(&self, other: &ProblemKind) -> bool {
        match (self, other) {
            (ProblemKind::NotMeasured, ProblemKind::NotMeasured) => true,
            (ProblemKind::Incomplete { missing: one }, ProblemKind::Incomplete { missing: other }) => {
                one == other
            }
            _ => false,
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemKind::NotMeasured => f.write_str("not measured yet"),
            ProblemKind::Incomplete { missing } => {
                let missing: Vec<&str> = missing.iter().map(|stage| stage.name()).collect();
                write!(f, "incomplete: no raw file for {}", missing.join(", "))
            }
            ProblemKind::Record(error) => error.fmt(f),
            ProblemKind::Reports(error) => error.fmt(f),
            ProblemKind::Rivals { first, second, difference } => {
                write!(f, "{} and {} differ: {difference}", first.display(), second.display())
            }
            ProblemKind::Ignored { path, reason } => write!(f, "{}: skipped: {reason}", path.display()),
            ProblemKind::Questionable(warning) => warning.fmt(f),
            ProblemKind::Forced(contradiction) => contradiction.fmt(f),
        }
    }
}

impl Problem {
    /// Whether what was recorded of a configuration is damaged or contradicts it, so that it was
    /// refused; one that is not measured yet, or could not be, is no refusal.
    pub fn is_refusal(&self) -> bool {
        matches!(self.kind, ProblemKind::Record(_) | ProblemKind::Reports(_) | ProblemKind::Rivals { .. })
    }

    /// Groups problems that several configurations share: an interrupted run may have a thousand.
    pub fn grouped<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Vec<ProblemGroup<'a>> {
        let mut groups: Vec<ProblemGroup<'a>> = Vec::new();
        for problem in problems {
            let same = |group: &&mut ProblemGroup<'_>| group.first.kind.is_shared(&problem.kind);
            match groups.iter_mut().find(same) {
                Some(group) => {
                    group.last = problem;
                    group.count += 1;
                }
                None => groups.push(ProblemGroup { first: problem, last: problem, count: 1 }),
            }
        }
        groups
    }
}

/// One line, with the configuration.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ProblemGroup { first: self, last: self, count: 1 }.fmt(f)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ProblemKind::Record(error) => error.source(),
            ProblemKind::Reports(error) => error.source(),
            _ => None,
        }
    }
}

impl Hint for Problem {
    fn hint(&self) -> Option<Text<'_>> {
        match &self.kind {
            ProblemKind::NotMeasured => Some("resume the run to measure what is missing".into()),
            ProblemKind::Incomplete { .. } => Some(
                "name the files of a configuration like raw/n2_d256_m16_setup.csv, …_forward.csv and \
                 …_forward_backward.csv; .ncu-rep, .gz and .zst are read, too"
                    .into(),
            ),
            ProblemKind::Record(error) => error.hint(),
            ProblemKind::Reports(error) => error.hint(),
            ProblemKind::Forced(contradiction) => contradiction.hint(),
            ProblemKind::Rivals { .. } => Some("keep the one that was recorded of this configuration".into()),
            ProblemKind::Ignored { .. } | ProblemKind::Questionable(_) => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Absent
    }
}

/// A problem that one or several configurations have.
#[derive(Debug, Clone, Copy)]
pub struct ProblemGroup<'a> {
    /// The problem of the first configuration.
    pub first: &'a Problem,
    /// That of the last one.
    pub last: &'a Problem,
    /// How many there are.
    pub count: usize,
}

impl fmt::Display for ProblemGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.first.config, self.last.config) {
            (2.., Some(first), Some(last)) => {
                write!(f, "{} configurations, {first} to {last}: ", self.count)?;
            }
            (_, Some(config), _) => write!(f, "{config}: ")?,
            _ => {}
        }
        self.first.kind.fmt(f)
    }
}

impl Error for ProblemGroup<'_> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first.source()
    }
}

impl Hint for ProblemGroup<'_> {
    fn hint(&self) -> Option<Text<'_>> {
        self.first.hint()
    }

    fn kind(&self) -> ErrorKind {
        self.first.kind()
    }
}
