//! Steps and passes that became slower, beyond their scatter.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Diff;
use super::measure::Measure;
use super::steps::{Measured, Steps};
use crate::place::Place;
use crate::statistics::{Shift, median, settling, shift};

/// The chance that any time of equal runs is taken for slower: all that a comparison judges
/// together.
pub const LEVEL: f64 = 0.01;
/// The part of it that is for the four times of the step itself.
const OF_STEPS: f64 = 0.8;
/// A gate that would not have noticed a step twice as long cannot judge.
const BLIND: f64 = 1.0;

/// The times that a gate checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// From the beginning of a step to that of the next one.
    Period,
    /// Time on the host, from the beginning to the end of a step or pass.
    Wall,
    /// From the first to the last GPU operation.
    Gpu,
    /// The time in which a GPU was busy.
    Busy,
    /// All of them: what is slower by any is slower.
    #[default]
    Any,
}

impl By {
    fn judges(self, measure: Measure) -> bool {
        match self {
            By::Any => true,
            By::Period => measure == Measure::Period,
            By::Wall => measure == Measure::Wall,
            By::Gpu => measure == Measure::Projected,
            By::Busy => measure == Measure::Busy,
        }
    }
}

/// The durations of one time of a step or pass in a trace, of the slowest process or GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// How many were judged.
    pub count: u64,
    /// How many before them were far longer, as those of a program that warms up, and were not.
    pub settling: u64,
    /// The middle one.
    pub median_ns: f64,
    /// Where they are from; absent where there is one process or GPU alone.
    pub place: Option<Place>,
}

/// A time of a step or pass, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The pass; absent for the scope itself.
    pub pass: Option<String>,
    /// Which time.
    pub by: Measure,
    /// Before and after.
    pub samples: [Sample; 2],
    /// By how much it is longer; absent where nothing shows how it scatters.
    pub shift: Option<Shift>,
    /// The chance at which equal runs are taken for slower by this time.
    pub level: f64,
}

impl Judged {
    /// Whether it is longer beyond scatter, and by so much or more is not excluded.
    fn is_slower(&self, fraction: f64) -> bool {
        self.shift.is_some_and(|shift| shift.p <= self.level && shift.high >= fraction)
    }

    /// Whether it may be longer by so much without anybody seeing it.
    fn is_open(&self, fraction: f64) -> bool {
        !self.is_slower(fraction) && self.shift.is_none_or(|shift| shift.high >= fraction)
    }
}

/// What a gate says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What became slower.
    pub slower: Vec<Judged>,
    /// What did not provably, but scatters so much that it may have.
    pub open: Vec<Judged>,
    /// Whether no time of the step could be judged: a step twice as long would have passed.
    pub blind: bool,
}

impl Verdict {
    /// Of some times, with `fraction` as for [`Diff::gate`].
    pub fn new(judged: Vec<Judged>, fraction: f64) -> Verdict {
        let slower: Vec<Judged> =
            judged.iter().filter(|judged| judged.is_slower(fraction)).cloned().collect();
        let sees = |judged: &Judged| judged.shift.is_some_and(|shift| shift.seen_from <= BLIND);
        let blind = slower.is_empty() && !judged.iter().filter(|judged| judged.pass.is_none()).any(sees);
        let open = judged.into_iter().filter(|judged| judged.is_open(fraction)).collect();
        Verdict { slower, open, blind }
    }
}

impl Diff {
    /// Judges steps and passes: what is slower beyond scatter, where `fraction` of the time before
    /// or more is within the interval of its change. So a change of just `fraction` is found, one
    /// below half of it never is slower, and equal runs are called slower in one of a hundred
    /// comparisons ([`LEVEL`]). How far two runs of one program are apart, a run of each does not
    /// show.
    pub fn gate(&self, fraction: f64, by: By) -> Verdict {
        let judged = self.judged.iter().filter(|judged| by.judges(judged.by)).cloned();
        Verdict::new(judged.collect(), fraction)
    }
}

/// The times of whole runs of two programs, in nanoseconds and in the order in which they ran: runs
/// of both, one after the other on one machine, show how far equal runs are apart. Nothing without
/// a run of each.
///
/// ```
/// use flopgap_timings::diff::{Verdict, runs};
///
/// let before = [1_000, 1_010, 990, 1_005, 995, 1_002];
/// let after = before.map(|ns| ns + 100);
/// assert_eq!(Verdict::new(vec![runs(&before, &after).unwrap()], 0.05).slower.len(), 1);
/// assert!(Verdict::new(vec![runs(&before, &before).unwrap()], 0.05).slower.is_empty());
/// ```
pub fn runs(before: &[i64], after: &[i64]) -> Option<Judged> {
    let sample = |durations: &[i64]| {
        let all: Vec<f64> = durations.iter().map(|&ns| ns as f64).collect();
        Sample { count: durations.len() as u64, settling: 0, median_ns: median(&all), place: None }
    };
    (!before.is_empty() && !after.is_empty()).then(|| Judged {
        pass: None,
        by: Measure::Wall,
        samples: [sample(before), sample(after)],
        shift: shift(before, after, LEVEL),
        level: LEVEL,
    })
}

const TIMES: [Measure; 4] = [Measure::Period, Measure::Wall, Measure::Projected, Measure::Busy];

/// All times that both traces have, of the scope first.
pub(super) fn judged([before, after]: [&Steps; 2]) -> Vec<Judged> {
    let scope = TIMES.iter().filter_map(|by| {
        let level = LEVEL * OF_STEPS / TIMES.len() as f64;
        judge(None, *by, [&before.scope, &after.scope], level)
    });
    let mut found: Vec<Judged> = scope.collect();
    let names: BTreeSet<&String> = before.passes.keys().collect();
    let both: Vec<&String> = names.into_iter().filter(|name| after.passes.contains_key(*name)).collect();
    // The period of a pass is that of its step.
    let times = &TIMES[1..];
    let level = LEVEL * (1.0 - OF_STEPS) / (both.len() * times.len()).max(1) as f64;
    for name in both {
        let sides = [&before.passes[name], &after.passes[name]];
        found.extend(times.iter().filter_map(|by| judge(Some(name.clone()), *by, sides, level)));
    }
    found
}

fn judge(pass: Option<String>, by: Measure, sides: [&Measured; 2], level: f64) -> Option<Judged> {
    let [before, after] = sides.map(|side| side.slowest(by));
    let series = [before?, after?];
    let places = sides.map(|side| side.places(by));
    // Of more places the slowest is slower by chance.
    let chances = if places[1] > places[0] { places[1] } else { 1 };
    let level = level / chances as f64;
    let durations = series.map(|series| {
        let settling = settling(&series.durations);
        (settling, &series.durations[settling..])
    });
    let sample = |at: usize| {
        let (settling, durations) = durations[at];
        let all: Vec<f64> = durations.iter().map(|&ns| ns as f64).collect();
        Sample {
            count: durations.len() as u64,
            settling: settling as u64,
            median_ns: median(&all),
            place: series[at].place.filter(|_| places.iter().any(|places| *places > 1)),
        }
    };
    let shift = shift(durations[0].1, durations[1].1, level);
    Some(Judged { pass, by, samples: [sample(0), sample(1)], shift, level })
}
