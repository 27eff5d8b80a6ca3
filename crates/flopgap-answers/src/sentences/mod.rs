//! Answers as sentences. `flopgap-timings` returns numbers; every text about them is here, for the
//! command line, the page and the Python package.
//!
//! ```
//! use flopgap_answers::{Part, open, sentences};
//! use flopgap_kernels::Classifier;
//! use flopgap_timings::kernels::kernels;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
//! let trace = open::open(path)?;
//! let found = kernels(trace.recording(), &Part::default().scope(), &Classifier::new())?;
//! assert!(sentences::kernels(&found)[0].starts_with("The kernel with the most cumulative GPU time is "));
//! # Ok::<(), flopgap_answers::Error>(())
//! ```

mod attention;
pub(crate) mod caveats;
mod communication;
mod compare;
mod diff;
pub(crate) mod difference;
pub(crate) mod floor;
pub(crate) mod gap;
mod joined;
mod kernels;
#[cfg(feature = "pages")]
pub(crate) mod page;
mod passes;
mod rules;
mod selection;
pub(crate) mod words;

use flopgap_report::numbers;
pub(crate) use flopgap_report::numbers::precise_duration as time;
use flopgap_timings::shares::Shares;
use flopgap_timings::{MeanOf, Spread, Unlaunched};

pub use attention::attention;
#[cfg(feature = "pages")]
pub(crate) use attention::of_times as attention_times;
pub use communication::communication;
#[cfg(feature = "pages")]
pub(crate) use compare::of_times as compare_times;
pub use compare::{compare, of_scope};
pub use diff::{diff, open, other_gpus, scope as diff_scope, slower, undecided, verdict};
pub use difference::difference;
pub use gap::gap;
pub use kernels::{kernels, kernels_of_both, other_kernels};
#[cfg(feature = "pages")]
pub(crate) use kernels::{same_top, spread as spread_of_kernels, top};
pub use passes::passes;
pub use rules::advice;
pub(crate) use selection::{owner, selection};

/// What to change, as an imperative that names what of PyTorch or CUDA does it.
pub fn what_to_change(kind: flopgap_gap::Kind) -> &'static str {
    gap::what(kind, &[])
}

/// A share of a whole: `86.6%`.
pub(crate) fn percent(share: f64) -> String {
    numbers::percent(share, 1)
}

/// For how long GPUs ran anything, of the time on the clock: `12 ms of 40 ms (30.0%)`.
pub(crate) fn busy(found: &Shares) -> String {
    let share = found.gpu_busy_share().map(|share| format!(" ({})", percent(share))).unwrap_or_default();
    format!("{} of {}{share}", time(found.each(found.gpu_busy_ns)), time(found.each(found.clock_ns)))
}

/// How many of all have a place of their own where `most` have one, and the rest one together: a
/// rest of one has its own, too.
pub(crate) fn shown(all: usize, most: usize) -> usize {
    if all > most + 1 { most } else { all }
}

/// A list as it is spoken: `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

pub(crate) fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

pub(crate) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// `process 12, GPU 1 takes longest of 4: 5.300 ms (median 5.100 ms, least 4.900 ms)`; without a
/// longest where the places differ by no more than their scatter.
fn spread(spread: &Spread) -> String {
    match spread.straggler() {
        Some(slowest) => format!(
            "{slowest} takes longest of {}: {} (median {}, least {})",
            spread.places,
            time(spread.max_ns),
            time(spread.median_ns),
            time(spread.min_ns)
        ),
        None => format!(
            "none of {} stands out: {} to {} (median {})",
            spread.places,
            time(spread.min_ns),
            time(spread.max_ns),
            time(spread.median_ns)
        ),
    }
}

/// How often: `once`, `12 times`.
pub(crate) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", numbers::group_thousands(count)) }
}

/// `mean of 6`, or where places have their own, `means of 3 in each of 2 places`.
pub(crate) fn mean_of(mean: MeanOf) -> String {
    match mean {
        MeanOf::Places { places, least, most } if least == most => {
            format!("means of {least} in each of {places} places")
        }
        MeanOf::Places { places, least, most } => {
            format!("means of {least} to {most} in each of {places} places")
        }
        MeanOf::Instances(instances) => format!("mean of {instances}"),
    }
}

/// That work without a recorded launch belongs to no range; nothing when there is none.
pub(crate) fn unlaunched(found: Option<Unlaunched>) -> Option<String> {
    let found = found?;
    let part = |count: u64, one: &str, several: &str, ns: i128| {
        let what = if count == 1 { one } else { several };
        (count > 0).then(|| format!("{count} {what} ({})", time(ns as f64)))
    };
    let others = found.operations - found.kernels;
    let other_ns = found.total_ns - found.kernel_ns;
    let parts = [
        part(found.kernels, "kernel", "kernels", found.kernel_ns),
        part(others, "other operation", "other operations", other_ns),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let (have, they, are) =
        if found.operations == 1 { ("has", "it belongs", "is") } else { ("have", "they belong", "are") };
    (!parts.is_empty()).then(|| {
        format!(
            "{} {have} no recorded launch: {they} to no range and {are} not in these numbers.",
            parts.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_range_is_said() {
        assert_eq!(unlaunched(Some(Unlaunched::default())), None);
        let one = Unlaunched { kernels: 1, kernel_ns: 6_980_000, operations: 1, total_ns: 6_980_000 };
        assert_eq!(
            unlaunched(Some(one)).unwrap(),
            "1 kernel (6.980 ms) has no recorded launch: it belongs to no range and is not in these numbers."
        );
        let several = Unlaunched { kernels: 7, kernel_ns: 1_000, operations: 9, total_ns: 3_000 };
        assert_eq!(
            unlaunched(Some(several)).unwrap(),
            "7 kernels (1.0 µs) and 2 other operations (2.0 µs) have no recorded launch: they belong to no range and are not in these numbers."
        );
    }

    #[test]
    fn means_say_what_they_are_means_of() {
        let places = |least, most| mean_of(MeanOf::Places { places: 2, least, most });
        assert_eq!(mean_of(MeanOf::Instances(6)), "mean of 6");
        assert_eq!(places(3, 3), "means of 3 in each of 2 places");
        assert_eq!(places(2, 3), "means of 2 to 3 in each of 2 places");
    }

    #[test]
    fn times_and_lists_read_well() {
        assert_eq!(
            (time(13_980_000.0), time(999.0), time(41_234.0)),
            ("13.980 ms".into(), "999 ns".into(), "41.2 µs".into())
        );
        let words = |n: usize| ["a", "b", "c"][..n].iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            (list(&words(1)), list(&words(2)), list(&words(3))),
            ("a".into(), "a and b".into(), "a, b and c".into())
        );
    }
}
