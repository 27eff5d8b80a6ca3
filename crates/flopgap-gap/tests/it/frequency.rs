//! The clock of a GPU while it works.

use flopgap_gap::{Kind, Options, Part, gap};

use crate::{fixture, open};

/// Products of random numbers take an H100 to its power limit. Products of zeros, which are the
/// same kernels and take less power, are 12 % shorter: 1.340 ms instead of 1.527 ms.
#[test]
fn the_clock_of_a_gpu_at_its_power_limit_is_that_of_its_samples() {
    let opened = open(&fixture("inference/power_limited.sqlite.zst"));
    let found = gap(&*opened.trace, &Options::default()).unwrap();
    let own = found.frequency.unwrap();

    let database = rusqlite::Connection::open(opened.trace.path()).unwrap();
    let sql = "SELECT avg(value), count(*) FROM GPU_METRICS WHERE metricId = 0 AND EXISTS
               (SELECT 1 FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start <= timestamp AND \"end\" > timestamp)";
    let (mean, samples): (f64, i64) =
        database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let within = i64::try_from(own.samples).unwrap();
    // The first of 400 steps warms up.
    assert!((own.mean_hz / mean - 1.0).abs() < 0.005, "{own:?} {mean}");
    assert!(within <= samples && within * 100 >= samples * 99, "{own:?} {samples}");
    assert!((own.highest_hz - 1.98e9).abs() < 1.0);

    let clocks = found.advice.iter().find(|advice| advice.kind == Kind::Clocks).unwrap();
    let busy: i64 = found.parts.iter().filter(|part| part.part == Part::Busy).map(|part| part.ns).sum();
    let expected = found.share(busy) * (1.0 - mean / 1.98e9);
    assert!((clocks.share / expected - 1.0).abs() < 0.01, "{} {expected}", clocks.share);
    assert!(clocks.share > (1.527_476 - 1.340_051) / 1.527_476);
}
