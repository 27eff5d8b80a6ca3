//! Times of steps and of commands, which scatter.

use flopgap_answers::{Opened, Part};
use flopgap_cli::Failure;
use flopgap_kernels::Classifier;
use flopgap_timings::diff::{self, By, Diff, Judged, Verdict};

/// Times before and after, and what a gate says of them.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// What they are times of, before and after; nothing of whole recordings and of commands.
    pub(super) scope: Option<[String; 2]>,
    pub(super) judged: Vec<Judged>,
    /// The percentage from which on slower fails, and the verdict; absent where that was not asked.
    pub(super) gate: Option<(f64, Verdict)>,
}

/// How one time came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// Slower beyond scatter, by the percentage or more.
    Slower,
    /// Not slower by the percentage.
    NotSlower,
    /// Scatter may hide that it is slower by the percentage.
    Open,
    /// No percentage was given.
    NotJudged,
}

impl Outcome {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Outcome::Slower => "slower",
            Outcome::NotSlower => "not slower",
            Outcome::Open => "cannot tell",
            Outcome::NotJudged => "-",
        }
    }
}

impl Times {
    /// Of commands: what scatter may hide is undecided, and more runs decide it.
    pub(super) fn of_runs(judged: Vec<Judged>, fail_if_slower: Option<f64>) -> Times {
        let gate = fail_if_slower.map(|percent| {
            let verdict = Verdict::new(judged.clone(), percent / 100.0);
            let blind = verdict.blind || !verdict.open.is_empty();
            (percent, Verdict { blind, ..verdict })
        });
        Times { scope: None, judged, gate }
    }

    pub(super) fn of_traces(diff: &Diff, fail_if_slower: Option<f64>) -> Times {
        let gate = fail_if_slower.map(|percent| (percent, diff.gate(percent / 100.0, By::Any)));
        let scope = diff.instances.iter().all(Option::is_some).then(|| diff.scope.clone());
        Times { scope, judged: diff.judged.clone(), gate }
    }

    pub(super) fn fail(&self) -> bool {
        self.gate.as_ref().is_some_and(|(_, gate)| !gate.slower.is_empty())
    }

    pub(super) fn are_undecided(&self) -> bool {
        self.gate.as_ref().is_some_and(|(_, gate)| gate.blind)
    }

    pub(super) fn outcome(&self, judged: &Judged) -> Outcome {
        match &self.gate {
            None => Outcome::NotJudged,
            Some((_, gate)) if gate.slower.contains(judged) => Outcome::Slower,
            Some((_, gate)) if gate.open.contains(judged) => Outcome::Open,
            Some(_) => Outcome::NotSlower,
        }
    }
}

/// The work and the times of two traces: of a step where both mark steps, otherwise of all.
pub(super) fn diff([before, after]: [&Opened; 2]) -> Result<Diff, Failure> {
    let part = Part::default();
    let scope = part.of_both(before.recording(), after.recording())?;
    let options = diff::Options::default();
    let sides = [(before.recording(), &scope), (after.recording(), &scope)];
    Ok(diff::diff(sides[0], sides[1], options, &Classifier::new())?)
}
