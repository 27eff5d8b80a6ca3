//! Times that do not depend on the placement of one session's arrays.
//!
//! A system hands out pages of 4 KiB wherever they are free, so that the lines of an array fall
//! into the sets of a cache by chance. Layers that stride by powers of two took 30 % longer in some
//! sessions than in others of the same program, and each session repeated its own time within 1 %.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::Timing;

use crate::engines::engine::{Repetition, Session};
use crate::engines::error::EngineError;

/// Sessions that are timed; the one in the middle gives the time.
const SESSIONS: u32 = 3;
/// Bytes of a session of which it matters where they lie: fewer are in the first-level cache, more
/// are in memory.
const MATTERS: RangeInclusive<u64> = 64 << 10..=64 << 20;

/// Times `session`, and more like it that `open` gives, as long as these are opened in a moment: in
/// `opened`, as the first was.
///
/// # Errors
/// Those of timing. A session that cannot be opened is not timed.
pub(crate) fn time<'a>(
    session: &mut dyn Session,
    open: &dyn Fn() -> Result<Box<dyn Session + 'a>, EngineError>,
    opened: Duration,
    limit: &Repetition,
) -> Result<Timing, EngineError> {
    let matters = session.memory_bytes().is_some_and(|bytes| MATTERS.contains(&bytes));
    if !matters || opened * 2 > limit.limit {
        return session.time(limit);
    }
    let begin = Instant::now();
    let part = Repetition { limit: limit.limit / SESSIONS, ..*limit };
    let mut timings = vec![session.time(&part)?];
    // All live until the end: a session that is closed leaves its place to the next.
    let mut others: Vec<Box<dyn Session + 'a>> = Vec::new();
    while timings.len() < SESSIONS as usize && begin.elapsed() < 2 * limit.limit {
        let Ok(mut other) = open() else { break };
        timings.push(other.time(&part)?);
        others.push(other);
    }
    Ok(middle(timings))
}

/// The timing whose median is in the middle, with an interval that holds those of all.
fn middle(mut timings: Vec<Timing>) -> Timing {
    timings.sort_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
    let of = |start: f64, pick: fn(f64, f64) -> f64, from: fn(&Timing) -> f64| {
        timings.iter().map(from).fold(start, pick)
    };
    Timing {
        low_ns: of(f64::INFINITY, f64::min, |timing| timing.low_ns),
        high_ns: of(0.0, f64::max, |timing| timing.high_ns),
        minimum_ns: of(f64::INFINITY, f64::min, |timing| timing.minimum_ns),
        runs: timings.iter().map(|timing| timing.runs).sum(),
        capped: timings.iter().any(|timing| timing.capped),
        ..timings[(timings.len() - 1) / 2]
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::Check;

    use super::*;

    /// A session whose time says where it lies.
    struct Placed {
        median_ns: f64,
        bytes: Option<u64>,
    }

    fn timing(median_ns: f64) -> Timing {
        Timing {
            median_ns,
            low_ns: median_ns - 1.0,
            high_ns: median_ns + 1.0,
            minimum_ns: median_ns - 2.0,
            runs: 10,
            capped: false,
            wall_ns: Some(2.0 * median_ns),
        }
    }

    impl Session for Placed {
        fn check(&mut self) -> Result<Check, EngineError> {
            Ok(Check { reference: String::new(), error: 0.0, bound: 1.0 })
        }
        fn time(&mut self, _: &Repetition) -> Result<Timing, EngineError> {
            Ok(timing(self.median_ns))
        }
        fn run_for(&mut self, _: Duration) -> Result<u64, EngineError> {
            Ok(1)
        }
        fn memory_bytes(&self) -> Option<u64> {
            self.bytes
        }
        fn device_memory_bytes(&self) -> Option<u64> {
            None
        }
    }

    /// What a first session of so many bytes gives, and how many more were opened.
    fn run(bytes: Option<u64>, opened: Duration) -> (Timing, usize) {
        let next = Cell::new(0);
        let open = || -> Result<Box<dyn Session>, EngineError> {
            let medians = [20.0, 21.0];
            let median_ns = medians[next.replace(next.get() + 1)];
            Ok(Box::new(Placed { median_ns, bytes }))
        };
        let mut first = Placed { median_ns: 30.0, bytes };
        let timing = time(&mut first, &open, opened, &Repetition::default()).unwrap();
        (timing, next.get())
    }

    #[test]
    fn the_session_in_the_middle_gives_the_time() {
        let (found, opened) = run(Some(1 << 20), Duration::ZERO);
        let expected = Timing { low_ns: 19.0, high_ns: 31.0, minimum_ns: 18.0, runs: 30, ..timing(21.0) };
        assert_eq!((found, opened), (expected, 2));
    }

    #[test]
    fn where_it_does_not_matter_or_takes_long_there_is_one_session() {
        for bytes in [None, Some(1 << 10), Some(1 << 30)] {
            assert_eq!(run(bytes, Duration::ZERO), (timing(30.0), 0));
        }
        assert_eq!(run(Some(1 << 20), Duration::from_secs(1)), (timing(30.0), 0));
    }

    #[test]
    fn a_session_that_cannot_be_opened_is_not_timed() {
        let open = || -> Result<Box<dyn Session>, EngineError> {
            Err(EngineError::Failed { action: "open".to_owned(), message: "no".to_owned() })
        };
        let mut first = Placed { median_ns: 30.0, bytes: Some(1 << 20) };
        let found = time(&mut first, &open, Duration::ZERO, &Repetition::default()).unwrap();
        assert_eq!(found, timing(30.0));
    }
}
