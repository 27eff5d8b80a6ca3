//! Problems of parts of a run.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Contradiction, PhaseError, Warning};
use flopgap_files::{ErrorKind, Hint, Text};

use crate::sweep::{Config, RecordError, Stage};

/// A problem of one configuration or one file of a run, or of several configurations.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The configuration, where it is known: the first of several.
    pub config: Option<Config>,
    /// What is wrong.
    pub kind: ProblemKind,
    /// How many configurations have it, and the last of them, where they are grouped.
    pub alike: Option<(usize, Config)>,
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
        reason: &'static str,
    },
    /// The numbers of a configuration are questionable.
    Questionable(Warning),
    /// The numbers of a configuration cannot be right, but were
    /// [forced](crate::Strictness::Forced).
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
    pub fn grouped<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Vec<Problem> {
        let mut groups: Vec<Problem> = Vec::new();
        for problem in problems {
            let same = groups.iter_mut().find(|group| group.kind.is_shared(&problem.kind));
            match (same, problem.config) {
                (Some(group), Some(last)) => {
                    group.alike = Some((1 + group.alike.map_or(1, |(count, _)| count), last));
                }
                _ => groups.push(problem.clone()),
            }
        }
        groups
    }
}

impl From<(Config, ProblemKind)> for Problem {
    fn from((config, kind): (Config, ProblemKind)) -> Problem {
        Problem { config: Some(config), kind, alike: None }
    }
}

/// One line, with the configurations.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.config, self.alike) {
            (Some(first), Some((count, last))) => write!(f, "{count} configurations, {first} to {last}: ")?,
            (Some(config), None) => write!(f, "{config}: ")?,
            (None, _) => {}
        }
        self.kind.fmt(f)
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
