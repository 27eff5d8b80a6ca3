//! For how long any of several intervals lasts.

/// The time until which a device is known to be busy, for intervals in start order.
#[derive(Clone, Copy, Debug)]
pub struct Covered {
    /// Before the first interval.
    until: i64,
}

/// What an interval adds to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// How much of it none of them covers.
    pub busy: i64,
    /// By how much it ends later than all of them, the gap before it included.
    pub extent: i64,
}

impl Covered {
    /// Before the first interval.
    pub const NOTHING: Covered = Covered { until: i64::MIN };

    /// Adds an interval that begins no earlier than those before.
    #[inline]
    pub fn add(&mut self, start: i64, end: i64) -> Added {
        let until = if self.until == i64::MIN { start } else { self.until };
        self.until = until.max(start).max(end);
        Added { busy: end.saturating_sub(until.max(start)).max(0), extent: end.saturating_sub(until).max(0) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Busy is the number of unit steps that any interval covers, the extent is from the first
        /// start to the last end.
        #[test]
        fn busy_is_the_union(mut raw in proptest::collection::vec((0_i64..40, 0_i64..10), 0..30)) {
            raw.sort_unstable();
            let mut covered = Covered::NOTHING;
            let (mut busy, mut extent) = (0, 0);
            for (start, length) in &raw {
                let added = covered.add(*start, start + length);
                busy += added.busy;
                extent += added.extent;
            }
            let steps = (0..60).filter(|at| raw.iter().any(|(start, length)| start <= at && *at < start + length));
            prop_assert_eq!(busy, i64::try_from(steps.count()).unwrap());
            let last = raw.iter().map(|(start, length)| start + length).max();
            prop_assert_eq!(extent, last.map_or(0, |last| last - raw[0].0));
        }
    }
}
