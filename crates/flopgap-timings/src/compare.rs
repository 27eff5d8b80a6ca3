//! Two traces by kind of work, such as inference and training.

use flopgap_hint::Hint as _;
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::Trace;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::scope::Scope;
use crate::shares::{Shares, Work, shares};
use crate::times::{in_words, percent};

/// Two traces side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first.
    pub a: Shares,
    /// The second.
    pub b: Shares,
    /// Every kind of work that either has, largest first.
    pub rows: Vec<Row>,
    /// Each process on each GPU, the first of A with the first of B; empty unless there are
    /// several, and as many in both.
    pub places: Vec<Comparison>,
}

/// A kind of work in both traces. Times are those of one instance where ranges are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The kind.
    pub work: Work,
    /// Calls in A and in B, of one instance.
    pub calls: [f64; 2],
    /// Time in A and in B, of one instance.
    pub total_ns: [f64; 2],
    /// Share of the GPU's work in A and in B.
    pub share: [f64; 2],
}

impl Row {
    /// By how much the share is larger in B than in A, as a fraction: 0.05 is five percentage
    /// points.
    pub fn change(&self) -> f64 {
        self.share[1] - self.share[0]
    }
}

/// The scopes to compare two traces by: their steps when both mark steps, else all of each.
///
/// # Errors
/// When a trace cannot be read; absent annotations are no error.
pub fn scopes(a: &Trace, b: &Trace, steps: &Scope) -> Result<Scope, Error> {
    for trace in [a, b] {
        match steps.instances(trace) {
            Ok(_) => {}
            Err(error) if error.is_absence() => {
                return Ok(Scope { ranges: crate::scope::Ranges::All, ..steps.clone() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(steps.clone())
}

/// Compares a scope of one trace with a scope of another.
///
/// # Errors
/// As [`shares`].
pub fn compare(
    a: (&Trace, &Scope),
    b: (&Trace, &Scope),
    classifier: &Classifier,
) -> Result<Comparison, Error> {
    let a = shares(a.0, a.1, classifier)?;
    let b = shares(b.0, b.1, classifier)?;
    let places = if a.places.len() == b.places.len() {
        let pairs = a.places.iter().zip(&b.places);
        pairs.map(|(a, b)| side_by_side(a.clone(), b.clone(), Vec::new())).collect()
    } else {
        Vec::new()
    };
    Ok(side_by_side(a, b, places))
}

fn side_by_side(a: Shares, b: Shares, places: Vec<Comparison>) -> Comparison {
    let mut kinds: Vec<Work> = a.shares.iter().chain(&b.shares).map(|share| share.work).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sides = [&a, &b];
    let mut rows: Vec<Row> = kinds
        .into_iter()
        .map(|work| {
            let of = |side: &Shares, value: &dyn Fn(&crate::shares::Share) -> i128| {
                let found = side.shares.iter().find(|share| share.work == work);
                side.each(found.map_or(0, value))
            };
            Row {
                work,
                calls: sides.map(|side| of(side, &|share| i128::from(share.calls))),
                total_ns: sides.map(|side| of(side, &|share| share.total_ns)),
                share: sides.map(|side| side.share(work)),
            }
        })
        .collect();
    rows.sort_by(|one, other| {
        let larger = |row: &Row| row.share[0].max(row.share[1]);
        larger(other).total_cmp(&larger(one)).then(one.work.cmp(&other.work))
    });
    Comparison { a, b, rows, places }
}

impl Comparison {
    /// What the numbers say, in sentences: matrix products, the largest other changes, and how busy
    /// the GPU was.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.places.is_empty() {
            sentences.extend(self.changes());
        }
        for own in &self.places {
            let place = own.b.place.or(own.a.place).map(|place| place.to_string()).unwrap_or_default();
            sentences.extend(own.changes().into_iter().map(|sentence| format!("On {place}: {sentence}")));
        }
        let busy = |side: &Shares| {
            let share = if side.extent_ns > 0 { side.busy_ns as f64 / side.extent_ns as f64 } else { 0.0 };
            format!(
                "{} of {} ({})",
                in_words(side.each(side.busy_ns)),
                in_words(side.each(side.extent_ns)),
                percent(share)
            )
        };
        if self.a.places.is_empty() && self.b.places.is_empty() {
            sentences.push(format!("The GPU is busy for {} in A and {} in B.", busy(&self.a), busy(&self.b)));
        }
        for (side, letter) in [(&self.a, "A"), (&self.b, "B")] {
            for own in &side.places {
                let place = own.place.map(|place| place.to_string()).unwrap_or_default();
                sentences.push(format!("{letter}, {place}: busy for {}.", busy(own)));
            }
            sentences
                .extend(side.spread().map(|spread| format!("{letter}: {} of GPU work.", spread.in_words())));
        }
        let counts = [&self.a, &self.b].map(|side| side.places.len().max(1));
        if counts[0] != counts[1] {
            sentences.push(format!(
                "A ran in {} places (processes on GPUs) and B in {}: all of each are taken together.",
                counts[0], counts[1]
            ));
        }
        for (side, letter) in [(&self.a, "A"), (&self.b, "B")] {
            let unlaunched = side.unlaunched.and_then(|unlaunched| unlaunched.sentence());
            sentences.extend(unlaunched.map(|sentence| format!("{letter}: {sentence}")));
        }
        sentences
    }

    /// How the shares change: matrix products, and the largest other changes.
    fn changes(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(products) = self.rows.iter().find(|row| row.work == Work::Kernels(KernelClass::Matmul)) {
            sentences.push(format!(
                "Matrix products take {} of the GPU's work in A and {} in B ({}).",
                percent(products.share[0]),
                percent(products.share[1]),
                points(products.change()),
            ));
        }
        let mut others: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| {
                row.work != Work::Kernels(KernelClass::Matmul) && row.change().abs() >= NOTABLE_POINTS
            })
            .collect();
        others.sort_by(|one, other| other.change().abs().total_cmp(&one.change().abs()));
        if !others.is_empty() {
            let words = others.iter().take(3).map(|row| format!("{} {}", row.work, points(row.change())));
            sentences.push(format!(
                "Of the rest, the share changes most for {}.",
                words.collect::<Vec<_>>().join(", ")
            ));
        }
        sentences
    }
}

/// Half a percentage point.
const NOTABLE_POINTS: f64 = 0.005;

/// A change of a share: `+5.2 points`.
fn points(change: f64) -> String {
    format!("{:+.1} points", change * 100.0)
}
