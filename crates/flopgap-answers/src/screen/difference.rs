//! Two steps taken apart against each other.

use std::path::PathBuf;

use flopgap_gap::{CauseDifference, Difference, Gap, Part};

use super::{Ink, Screen, filled, fitting, in_commands, on_gpus, shortened};
use crate::sentences::difference::difference as sentences;
use crate::sentences::gap::{before_advice, verdict};
use crate::sentences::words::signed;
use crate::sentences::{lower_first, shown, time};

/// Columns of the longest bar.
const BAR: usize = 20;

/// The screen of two traces: what became longer and shorter, and what to change in the second.
pub fn difference(names: [&str; 2], traces: &[PathBuf], gaps: [&Gap; 2], found: &Difference) -> Screen {
    fitting(|causes| with_causes(names, traces, gaps, found, causes))
}

fn with_causes(
    names: [&str; 2],
    traces: &[PathBuf],
    gaps: [&Gap; 2],
    found: &Difference,
    causes: usize,
) -> Screen {
    let mut screen = Screen::default();
    let letters = ["A", "B"];
    for at in 0..2 {
        screen.line(Ink::Plain, format!("{}: {}", letters[at], on_gpus(names[at], gaps[at])));
    }
    screen.line(Ink::Plain, "");
    screen.wrapped(Ink::Strong, &sentences(found).join(" "), "", "");
    for at in 0..2 {
        screen.wrapped(Ink::Plain, &verdict(gaps[at]), &format!("{}: ", letters[at]), "   ");
    }
    screen.line(Ink::Plain, "");
    screen.line(Ink::Plain, format!("{:<38}{:>12}{:>12}{:>13}", "", "A", "B", "difference"));
    let rows = Rows { most: most(found) };
    for part in [Part::Busy, Part::Exposed, Part::Idle] {
        let own: Vec<&CauseDifference> = found.causes.iter().filter(|own| own.part == part).collect();
        if own.is_empty() {
            continue;
        }
        rows.add(&mut screen, part.as_str(), &own);
        let shown = shown(own.len(), causes);
        for cause in &own[..shown] {
            rows.add(&mut screen, &format!("  {}", cause.cause.in_words()), &[cause]);
        }
        if shown < own.len() {
            let rest = &own[shown..];
            rows.add(&mut screen, &format!("  {} other causes", rest.len()), rest);
        }
    }
    let whole = if found.whole { "the recording" } else { "a step" };
    rows.add(&mut screen, whole, &found.causes.iter().collect::<Vec<_>>());
    screen.line(Ink::Plain, "");
    screen.line(Ink::Plain, format!("B: {}", lower_first(before_advice(gaps[1]))));
    screen.advice(gaps[1]);
    screen.caveats(gaps[1]);
    screen.more(&in_commands(traces));
    screen
}

/// The largest difference of a row.
fn most(found: &Difference) -> i64 {
    let part = |part: Part| {
        let own = found.causes.iter().filter(|own| own.part == part);
        own.map(|own| own.difference_ns).sum::<i64>()
    };
    let causes = found.causes.iter().map(|own| own.difference_ns);
    let sums = [found.difference_ns, part(Part::Busy), part(Part::Exposed), part(Part::Idle)];
    causes.chain(sums).map(i64::abs).max().unwrap_or_default()
}

/// What the rows have in common.
struct Rows {
    /// The difference that has the longest bar.
    most: i64,
}

impl Rows {
    /// Adds the sum of some causes, with a bar of its difference.
    fn add(&self, screen: &mut Screen, name: &str, causes: &[&CauseDifference]) {
        let sum = |of: fn(&CauseDifference) -> i64| causes.iter().map(|own| of(own)).sum::<i64>();
        let (before, after) = (sum(|own| own.before_ns), sum(|own| own.after_ns));
        let difference = after - before;
        let text = format!(
            "{:<38}{:>12}{:>12}{:>13}",
            shortened(name, 37),
            time(before as f64),
            time(after as f64),
            signed(difference as f64)
        );
        let ink = if difference > 0 { Ink::Longer } else { Ink::Shorter };
        let share = difference.abs() as f64 / self.most.max(1) as f64;
        let mark = if difference > 0 { '█' } else { '░' };
        let bar: String = std::iter::repeat_n(mark, filled(share, BAR)).collect();
        let bar = if bar.is_empty() { bar } else { format!("  {bar}") };
        screen.lines.push(vec![(Ink::Plain, text), (ink, bar)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part as Scope, ask, open};

    #[test]
    fn longer_and_shorter_have_bars_of_their_own() {
        let found = |name: &str| {
            let path = format!("{}/../../fixtures/advice/{name}.json.zst", env!("CARGO_MANIFEST_DIR"));
            ask::gap(&open::open(path).unwrap(), &Scope::default()).unwrap().data
        };
        let gaps = [found("layer-timers.before"), found("healthy-training.healthy")];
        let both = Difference::of(&gaps[0], &gaps[1]).unwrap();
        let traces = ["my a.json".into(), "b.json".into()];
        let screen = difference(["a", "b"], &traces, [&gaps[0], &gaps[1]], &both);
        let styled = screen.styled(|ink, text| match ink {
            Ink::Longer | Ink::Shorter => format!("<{ink:?}>{}</>", text.trim_start()),
            _ => text.to_owned(),
        });
        // The longest bar is that of the largest difference, of which the other is 1.107 / 4.277.
        let (idle, busy) = ("░".repeat(20), "█".repeat(5));
        for row in [format!("-4.277 ms<Shorter>{idle}</>"), format!("+1.107 ms<Longer>{busy}</>")] {
            assert!(styled.contains(&row), "{row}: {styled}");
        }
        assert!(
            styled.ends_with("\nMore: flopgap --all TRACE…; as a page: flopgap gap TRACE… -o page.html\n")
        );
        let same = Difference::of(&gaps[0], &gaps[0]).unwrap();
        let text = difference(["a", "a"], &traces, [&gaps[0], &gaps[0]], &same).to_text();
        assert!(
            text.contains("\na step                                   12.376 ms   12.376 ms         0 ns\n"),
            "{text}"
        );
    }
}
