//! Two traces by kind of work, such as inference and training.

use flopgap_files::present;
use flopgap_kernels::Classifier;
use flopgap_trace::Recording;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::scope::Scope;
use crate::shares::{Shares, Work, shares};

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
pub fn scopes(a: &dyn Recording, b: &dyn Recording, steps: &Scope) -> Result<Scope, Error> {
    for trace in [a, b] {
        if present(steps.instances(trace))?.is_none() {
            return Ok(Scope { ranges: crate::scope::Ranges::All, ..steps.clone() });
        }
    }
    Ok(steps.clone())
}

/// Compares a scope of one trace with a scope of another.
///
/// # Errors
/// As [`shares`].
pub fn compare(
    a: (&dyn Recording, &Scope),
    b: (&dyn Recording, &Scope),
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
