//! Distributes slices over rows so that slices of a row nest or follow each other.

/// One row of the timeline: slices that follow each other or, where intended, nest.
///
/// A viewer draws slices of one row as a stack and drops or moves one that begins within another
/// and ends after it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) tid: i64,
    /// Where the open slices end, the innermost last.
    ends: Vec<i64>,
    latest: i64,
}

impl Lane {
    pub(super) fn new(tid: i64) -> Lane {
        Lane { tid, ends: Vec::new(), latest: i64::MIN }
    }

    /// Adds a slice if it fits: after the others or, with `nests`, within one of them.
    pub(super) fn take(&mut self, start: i64, end: i64, nests: bool) -> bool {
        if start < self.latest {
            return false;
        }
        self.latest = start;
        while self.ends.last().is_some_and(|last| *last <= start) {
            self.ends.pop();
        }
        let fits = self.ends.last().is_none_or(|last| nests && end <= *last);
        if fits {
            self.ends.push(end);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slices_nest_or_follow() {
        let mut lane = Lane::new(1);
        assert!(lane.take(0, 100, true));
        assert!(lane.take(0, 100, true), "equal spans nest");
        assert!(lane.take(10, 20, true));
        assert!(!lane.take(15, 25, true), "crosses the one from 10 to 20");
        assert!(lane.take(20, 25, true));
        assert!(!lane.take(19, 20, true), "too late");
        assert!(!lane.take(30, 40, false), "within another");
        assert!(lane.take(100, 120, false));
    }

    proptest! {
        #[test]
        fn no_two_slices_of_a_lane_cross(
            slices in prop::collection::vec((0..60_i64, 0..20_i64), 1..40), nests in any::<bool>(),
        ) {
            let mut lanes: Vec<(Lane, Vec<(i64, i64)>)> = Vec::new();
            for (start, length) in slices {
                let end = start + length;
                let lane = lanes.iter_mut().find_map(|(lane, taken)| lane.take(start, end, nests).then_some(taken));
                if let Some(taken) = lane {
                    taken.push((start, end));
                } else {
                    let mut lane = Lane::new(0);
                    prop_assert!(lane.take(start, end, nests));
                    lanes.push((lane, vec![(start, end)]));
                }
            }
            for (_, taken) in &lanes {
                for (at, a) in taken.iter().enumerate() {
                    for b in &taken[at + 1..] {
                        prop_assert!(a.0 <= b.0);
                        prop_assert!(a.1 <= b.0 || (nests && b.1 <= a.1), "{a:?} {b:?}");
                    }
                }
            }
        }
    }
}
