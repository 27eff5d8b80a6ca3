//! How two traces differ by kind of work.

use flopgap_kernels::KernelClass;
use flopgap_timings::compare::{Comparison, Row};
use flopgap_timings::shares::{Shares, Work};

use super::{mean_of, owner, percent, selection, unlaunched};

/// Half a point.
const NOTABLE_POINTS: f64 = 0.005;

/// What the numbers say: matrix products, the largest other changes, how busy the GPU was, and what
/// was looked at.
pub fn compare(found: &Comparison) -> Vec<String> {
    let mut sentences = of_times(found);
    let optimizer = found.a.optimizer.as_ref().or(found.b.optimizer.as_ref());
    sentences.extend(optimizer.map(|ranges| {
        format!("Kernels launched within `{ranges}` count as optimizer, whatever their names say.")
    }));
    sentences.extend(found.a.selection.as_ref().map(selection));
    sentences.extend(found.a.attribution.map(owner));
    sentences
}

/// What is compared: ``one `step_*` (mean of 2)``.
pub fn of_scope(shares: &Shares) -> String {
    match shares.mean_of() {
        Some(mean) => format!("one `{}` ({})", shares.scope, mean_of(mean)),
        None => "everything recorded".to_owned(),
    }
}

/// [`compare`] without what was looked at.
pub(crate) fn of_times(found: &Comparison) -> Vec<String> {
    let mut sentences = Vec::new();
    if found.places.is_empty() {
        sentences.extend(changes(found));
    }
    for own in &found.places {
        let place = own.b.place.or(own.a.place).map(|place| place.to_string()).unwrap_or_default();
        sentences.extend(changes(own).into_iter().map(|sentence| format!("On {place}: {sentence}")));
    }
    let sides = [(&found.a, "A"), (&found.b, "B")];
    if found.a.places.is_empty() && found.b.places.is_empty() {
        let (busy_a, busy_b) = (super::busy(&found.a), super::busy(&found.b));
        sentences.push(format!("The GPU is busy for {busy_a} in A and {busy_b} in B."));
    }
    for (side, letter) in sides {
        for own in &side.places {
            let place = own.place.map(|place| place.to_string()).unwrap_or_default();
            sentences.push(format!("{letter}, {place}: busy for {}.", super::busy(own)));
        }
        let spread = side.spread();
        sentences.extend(spread.map(|spread| {
            format!("{letter}: {}, of GPU work but for communication.", super::spread(&spread))
        }));
    }
    let counts = [&found.a, &found.b].map(|side| side.places.len().max(1));
    if counts[0] != counts[1] {
        sentences.push(format!(
            "A ran in {} places (processes on GPUs) and B in {}: all of each are taken together.",
            counts[0], counts[1]
        ));
    }
    for (side, letter) in sides {
        sentences.extend(unlaunched(side.unlaunched).map(|sentence| format!("{letter}: {sentence}")));
    }
    sentences
}

/// How the shares change: matrix products, and the largest other changes.
fn changes(found: &Comparison) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_product = |row: &Row| row.work == Work::Kernels(KernelClass::Matmul);
    if let Some(products) = found.rows.iter().find(|row| is_product(row)) {
        sentences.push(format!(
            "Matrix products take {} of the GPU's work in A and {} in B ({}).",
            percent(products.share[0]),
            percent(products.share[1]),
            points(products.change()),
        ));
    }
    let others = found.rows.iter().filter(|row| !is_product(row) && row.change().abs() >= NOTABLE_POINTS);
    let mut others: Vec<&Row> = others.collect();
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

/// A change of a share: `+5.2 points`.
fn points(change: f64) -> String {
    format!("{:+.1} points", change * 100.0)
}
