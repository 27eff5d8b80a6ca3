//! The ticks of a time axis.

use super::svg::{class_of, shown_when, text_width};
use super::widths::{FIRST_WIDTH, width_of};

/// A tick: where it is, what it says, and the classes that show line and label.
#[derive(Debug, PartialEq)]
pub(super) struct Tick {
    /// From 0 to 1.
    pub(super) place: f64,
    pub(super) label: String,
    pub(super) line_class: String,
    /// `None` where the label would leave the chart.
    pub(super) label_class: Option<String>,
}

/// Ticks at the least width; as many more as the chart is wider.
const TICKS: i64 = 5;
/// Finer than this the axis does not become.
const FINEST: u32 = 12;

/// The ticks of an axis over `extent` nanoseconds.
pub(super) fn ticks(extent: i64) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let unit = Unit::of(extent);
    // Steps of 1 and 5 times a power of ten, each a multiple of the next: finer ticks only add.
    let steps: Vec<i64> = (0..19)
        .rev()
        .flat_map(|power| [5, 1].map(|factor: i64| factor.checked_mul(10_i64.pow(power))))
        .flatten()
        .collect();
    for step in steps {
        let count = extent / step;
        let Some(level) =
            (0..=FINEST).find(|level| count * i64::from(FIRST_WIDTH) <= TICKS * i64::from(width_of(*level)))
        else {
            break;
        };
        for at in 0..=count {
            let time = at * step;
            if !seen.insert(time) {
                continue;
            }
            let place = time as f64 / extent as f64;
            let label = unit.label(time, step);
            ticks.push(Tick {
                place,
                line_class: class_of(level),
                label_class: label_class(level, 1.0 - place, text_width(&label) + 6.0),
                label,
            });
        }
    }
    ticks
}

/// Shown with its line, or later when it would not fit to the right of it.
fn label_class(level: u32, room: f64, pixels: f64) -> Option<String> {
    if room * f64::from(width_of(level)) >= pixels {
        return Some(class_of(level));
    }
    shown_when(room, pixels)
}

#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    nanoseconds: i64,
    digits: u32,
}

impl Unit {
    fn of(extent: i64) -> Unit {
        let [ns, us, ms, s] = [("ns", 0), ("µs", 3), ("ms", 6), ("s", 9)].map(|(name, digits)| Unit {
            name,
            nanoseconds: 10_i64.pow(digits),
            digits,
        });
        [s, ms, us].into_iter().find(|unit| extent >= 2 * unit.nanoseconds).unwrap_or(ns)
    }

    /// A multiple of `step` with the decimals that the step needs.
    fn label(self, time: i64, step: i64) -> String {
        let (whole, rest) = (time / self.nanoseconds, time % self.nanoseconds);
        if step % self.nanoseconds == 0 {
            return format!("{whole} {}", self.name);
        }
        let digits = format!("{rest:0width$}", width = self.digits as usize);
        let zeros = (0..self.digits).take_while(|power| step % 10_i64.pow(power + 1) == 0).count();
        format!("{whole}.{} {}", &digits[..digits.len() - zeros], self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_ticks_are_always_there_and_finer_ones_with_room() {
        let ticks = ticks(37_000_000);
        let always: Vec<&str> =
            ticks.iter().filter(|tick| tick.line_class.is_empty()).map(|tick| tick.label.as_str()).collect();
        assert_eq!(always, ["0 ms", "10 ms", "20 ms", "30 ms"]);
        let five = ticks.iter().find(|tick| tick.label == "5 ms").unwrap();
        assert_eq!(five.line_class, " fg-n2");
        assert!(ticks.iter().any(|tick| tick.label == "12.5 ms"), "{ticks:?}");
        assert!(ticks.len() < 400);
    }

    #[test]
    fn any_extent_has_an_axis() {
        for extent in [1, 7, 999, 1_000, 123_456, 3_878_435_843, i64::MAX] {
            let ticks = ticks(extent);
            assert!(!ticks.is_empty() && ticks.len() < 800, "{extent}: {}", ticks.len());
            assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.place)));
        }
        assert_eq!(Unit::of(5_000).label(1_250, 50), "1.25 µs");
        assert_eq!(Unit::of(5_000_000_000).label(1_500_000_000, 500_000_000), "1.5 s");
    }
}
