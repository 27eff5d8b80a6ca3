//! What a comparison says, in sentences.

use super::{Diff, PlaceDiff, Quantity, WorkDifference};
use crate::times::in_words;

impl PlaceDiff {
    /// ` (process 12, GPU 1)`, or nothing for all places together.
    pub(super) fn in_words(&self) -> String {
        let place = self.place[1].or(self.place[0]);
        place.map(|place| format!(" ({place})")).unwrap_or_default()
    }
}

impl Diff {
    /// What is compared: `one step_*`.
    pub(super) fn what(&self) -> String {
        match (&self.instances, &self.scope) {
            ([None, None], _) => "everything recorded".to_owned(),
            (_, [before, after]) if before == after => format!("one `{after}`"),
            (_, [before, after]) => format!("one `{after}` (`{before}` before)"),
        }
    }

    /// Whether both traces hold the same work, in a sentence.
    pub fn verdict(&self) -> String {
        if let Some([before, after]) = self.unmatched {
            return format!(
                "The traces do not hold the same work: {before} places (processes on GPUs) before and {after} after, so all are taken together."
            );
        }
        let mut different = self.places.iter().filter(|place| !place.work.is_empty());
        let Some(first) = different.next() else {
            let places = if self.places.len() > 1 { " in each place" } else { "" };
            let kernels = self.places.first().and_then(|place| place.kernels.after).unwrap_or_default();
            return format!(
                "Both traces hold the same work{places}: the same kernels, launches ({} in {}) and bytes.",
                count(kernels),
                self.what()
            );
        };
        let differences: Vec<String> = first.work.iter().map(difference).collect();
        let more = different.count();
        let more = if more > 0 { format!("; {more} more places differ, too") } else { String::new() };
        format!(
            "The traces do not hold the same work in {}{}: {}{more}.",
            self.what(),
            first.in_words(),
            differences.join("; ")
        )
    }

    /// What the numbers say, in sentences: whether the work is the same, the times of the scope,
    /// and what contributes most to their change.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.verdict()];
        for place in &self.places {
            sentences.push(self.times(place));
            sentences.extend(like_for_like(place));
        }
        for (spread, when) in self.spreads().into_iter().zip(["Before", "After"]) {
            sentences.extend(spread.map(|spread| format!("{when}: {}.", spread.in_words())));
        }
        for (unlaunched, when) in self.unlaunched.into_iter().zip(["Before", "After"]) {
            let sentence = unlaunched.and_then(|unlaunched| unlaunched.sentence());
            sentences.extend(sentence.map(|sentence| format!("{when}: {sentence}")));
        }
        let most: Vec<String> = self
            .kernels
            .iter()
            .filter(|kernel| kernel.time.difference_ns() != 0.0)
            .take(3)
            .map(|kernel| {
                let new = match (kernel.time.before, kernel.time.after) {
                    (None, _) => ", new",
                    (_, None) => ", gone",
                    _ => "",
                };
                let place = self.places[kernel.place].in_words();
                format!("{}{place} ({}{new})", kernel.short, signed(kernel.time.difference_ns()))
            })
            .collect();
        if !most.is_empty() {
            sentences.push(format!("Most of the change of GPU time: {}.", most.join(", ")));
        }
        sentences
    }

    fn times(&self, place: &PlaceDiff) -> String {
        let time = |name: &str, time: Quantity| {
            let (before, after, difference) = (time.before?, time.after?, time.difference()?);
            let change =
                time.fraction().map(|change| format!(", {:+.1}%", change * 100.0)).unwrap_or_default();
            Some(format!(
                "{name} {} before and {} after ({}{change})",
                in_words(before),
                in_words(after),
                signed(difference)
            ))
        };
        let times = [
            time("wall time", place.wall_ns),
            time("projected GPU time", place.projected_ns),
            time("GPU busy", place.busy_ns),
        ];
        let times: Vec<String> = times.into_iter().flatten().collect();
        format!("{}{}: {}.", upper_first(&self.what()), place.in_words(), times.join("; "))
    }
}

/// How much of a change is other work and how much other speed.
fn like_for_like(place: &PlaceDiff) -> Option<String> {
    let change = place.like_for_like.fraction().filter(|_| !place.work.is_empty())?;
    let whole = place.operations_ns.difference()?;
    let speed = place.like_for_like.after_ns - place.like_for_like.before_ns;
    Some(format!(
        "Of the change of {} in the durations of GPU operations, {} is other work and {} other speed: launch for launch and byte for byte, what both \
         traces run takes {:+.1}%.",
        signed(whole),
        signed(whole - speed),
        signed(speed),
        change * 100.0
    ))
}

fn difference(difference: &WorkDifference) -> String {
    let WorkDifference { what, before, after } = difference;
    let change = if *before > 0.0 && *after > 0.0 {
        format!(" ({:+.1}%)", (after / before - 1.0) * 100.0)
    } else {
        String::new()
    };
    format!("{what} {} before, {} after{change}", count(*before), count(*after))
}

/// A count in one instance, which may be no whole number: `1,888`, `12.5`.
fn count(count: f64) -> String {
    let digits = if count.fract() == 0.0 { format!("{count:.0}") } else { format!("{count:.1}") };
    let (whole, rest) = digits
        .split_once('.')
        .map_or((digits.as_str(), String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let groups: Vec<&str> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",") + &rest
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A difference with its sign.
fn signed(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", in_words(ns)) } else { in_words(ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            [0.0, 12.5, 999.0, 1888.0, 1_234_567.25].map(count),
            ["0", "12.5", "999", "1,888", "1,234,567.2"]
        );
    }
}
