//! Ranks whose clocks differ by a known time are taken apart as ranks with one clock are.

use std::collections::BTreeMap;

use flopgap_gap::{Cause, Gap, Options, gap};
use flopgap_kernels::Classifier;
use flopgap_kineto::{Job, Trace};
use flopgap_timings::clocks::corrections;
use flopgap_trace::{ClockCorrection, Recording as _};
use proptest::prelude::*;

use crate::fixture;

/// Two ranks of one machine, recorded by one clock.
const JOBS: [&str; 4] = [
    "kineto/ddp_rank#.json.gz",
    "advice/late-reduction.before.rank#.json.zst",
    "advice/small-buckets.before.rank#.json.zst",
    "advice/straggler.before.rank#.json.zst",
];

/// The ranks of a job. The clock of one is ahead.
fn shifted(job: &str, rank: usize, ahead: i64) -> Job {
    let open = |rank: usize| fixture(job.replace('#', &rank.to_string()));
    let mut traces: Vec<Trace> =
        [0, 1].map(|rank| Trace::options().without_shapes(true).open(open(rank)).unwrap()).into();
    traces[rank].base += ahead;
    Job::of(traces).unwrap()
}

fn by_cause(found: &Gap) -> BTreeMap<Cause, i64> {
    found.parts.iter().map(|part| (part.cause, part.ns)).collect()
}

/// What depends on when other ranks arrive.
const OF_OTHERS: [Cause; 3] = [Cause::Communication, Cause::LateRank, Cause::IdleRank];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every cause that is a matter of one rank alone is the same to the nanosecond. How much of a
    /// collective is waiting may differ by the uncertainty that is stated, in each collective.
    /// Clocks that differ by less than twice the uncertainty may be found to agree: ends of these
    /// recordings lie up to 28 µs apart by one clock.
    #[test]
    fn a_shifted_clock_changes_nothing_beyond_its_uncertainty(
        job in 0..JOBS.len(),
        rank in 0..2_usize,
        size in 100_000_i64..1_300_000,
        is_ahead in any::<bool>(),
    ) {
        let ahead = if is_ahead { size } else { -size };
        let plain = gap(&shifted(JOBS[job], 0, 0), &Options::default()).unwrap();
        prop_assert!(plain.clocks.is_empty());
        let mut other = shifted(JOBS[job], rank, ahead);
        let found = corrections(&other, &Classifier::new()).unwrap();
        let [ClockCorrection { part: 1, ns, within_ns, collectives }] = found[..] else {
            panic!("{}: {ahead}: {found:?}", JOBS[job])
        };
        // The first rank keeps its clock.
        let expected = if rank == 0 { ahead } else { -ahead };
        prop_assert!((ns - expected).abs() <= within_ns, "{ns} instead of {expected} ± {within_ns}");
        other.correct(found);
        let found = gap(&other, &Options::default()).unwrap();
        prop_assert_eq!((found.clocks[0].corrected_ns, found.clocks[0].places[0].rank), (ns, Some(1)));
        let [plain, found] = [plain, found].map(|found| by_cause(&found));
        for cause in Cause::ALL {
            let [one, other] = [&plain, &found].map(|sums| sums.get(cause).copied().unwrap_or_default());
            let most = if OF_OTHERS.contains(cause) {
                2 * i64::try_from(collectives).unwrap() * within_ns
            } else {
                0
            };
            prop_assert!((one - other).abs() <= most, "{}: {cause:?}: {one} and {other}", JOBS[job]);
        }
    }
}

/// Times count from the first event, whichever clock was moved.
#[test]
fn corrected_times_begin_at_0() {
    for ahead in [-900_000, 900_000] {
        let mut job = shifted(JOBS[0], 1, ahead);
        let length = |job: &Job| job.span().unwrap().map(|(start, end)| (start, end - start)).unwrap();
        let plain = length(&shifted(JOBS[0], 1, 0));
        let found = corrections(&job, &Classifier::new()).unwrap();
        let off = (found[0].ns + ahead).abs();
        job.correct(found);
        let corrected = length(&job);
        assert_eq!((plain.0, corrected.0), (0, 0));
        assert!((plain.1 - corrected.1).abs() <= off, "{plain:?} {corrected:?}");
    }
}

/// By the clocks as they were recorded, nothing could be said of who is late.
#[test]
fn without_a_correction_collectives_are_not_divided() {
    let skew = |job: &Job| {
        let sums = by_cause(&gap(job, &Options::default()).unwrap());
        [Cause::LateRank, Cause::IdleRank].map(|cause| sums.get(&cause).copied().unwrap_or_default())
    };
    let mut job = shifted("advice/straggler.before.rank#.json.zst", 1, 1_400_000);
    assert_eq!(skew(&job), [0, 0]);
    let found = corrections(&job, &Classifier::new()).unwrap();
    job.correct(found);
    assert!(skew(&job)[0] > 0);
}

/// Of steps of 4.3 ms that repeat, the n-th could be the next of the other rank.
#[test]
fn a_clock_that_is_wrong_by_half_a_step_is_not_corrected() {
    for ahead in [-2_000_000, 2_000_000] {
        let job = shifted("advice/straggler.before.rank#.json.zst", 1, ahead);
        assert_eq!(corrections(&job, &Classifier::new()).unwrap(), []);
    }
}
