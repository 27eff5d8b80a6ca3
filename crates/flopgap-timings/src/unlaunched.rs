//! GPU work that belongs to no range, because its launch was not recorded.

use serde::{Deserialize, Serialize};

use crate::times::in_words;

/// GPU work of a trace whose launch was not recorded, as when the recording began between the call
/// and the kernel. It is in no number about ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlaunched {
    /// How many kernels; graphs that were traced as a whole do not count.
    pub kernels: u64,
    /// The sum of their durations.
    pub kernel_ns: i128,
    /// How many kernels, copies, memsets and whole graphs.
    pub operations: u64,
    /// The sum of their durations.
    pub total_ns: i128,
}

impl From<flopgap_nsys::Unlaunched> for Unlaunched {
    fn from(found: flopgap_nsys::Unlaunched) -> Unlaunched {
        Unlaunched {
            kernels: found.kernels,
            kernel_ns: found.kernel_time,
            operations: found.operations,
            total_ns: found.time,
        }
    }
}

impl Unlaunched {
    /// How much it is, as text: `7 kernels (6.980 ms)`; `None` when every launch was recorded.
    pub(crate) fn in_words(&self) -> Option<String> {
        let part = |count: u64, one: &str, several: &str, ns: i128| {
            let what = if count == 1 { one } else { several };
            (count > 0).then(|| format!("{count} {what} ({})", in_words(ns as f64)))
        };
        let others = self.operations - self.kernels;
        let other_ns = self.total_ns - self.kernel_ns;
        let parts = [
            part(self.kernels, "kernel", "kernels", self.kernel_ns),
            part(others, "other operation", "other operations", other_ns),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }

    /// That it belongs to no range, in a sentence; `None` when every launch was recorded.
    pub fn sentence(&self) -> Option<String> {
        let words = self.in_words()?;
        let (have, they, are) =
            if self.operations == 1 { ("has", "it belongs", "is") } else { ("have", "they belong", "are") };
        Some(format!("{words} {have} no recorded launch: {they} to no range and {are} not in these numbers."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_range_is_said() {
        assert_eq!(Unlaunched::default().sentence(), None);
        let one = Unlaunched { kernels: 1, kernel_ns: 6_980_000, operations: 1, total_ns: 6_980_000 };
        assert_eq!(
            one.sentence().unwrap(),
            "1 kernel (6.980 ms) has no recorded launch: it belongs to no range and is not in these numbers."
        );
        let several = Unlaunched { kernels: 7, kernel_ns: 1_000, operations: 9, total_ns: 3_000 };
        assert_eq!(
            several.sentence().unwrap(),
            "7 kernels (1.0 µs) and 2 other operations (2.0 µs) have no recorded launch: they belong to no range and are not in these numbers."
        );
    }
}
