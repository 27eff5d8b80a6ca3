//! Launches that are alike are counted once, with the counts of counting all.

use flopgap_phases::sweep::{Config, MeterError};
use hyper_profile::gpu::Gpu;
use hyper_profile::hardware::{Counted, Hardware as _};

use super::gpu;

/// Sizes that tiles divide, that they do not, single numbers, and products that are as wide as
/// they are long.
const SIZES: [(u64, u64); 8] = [(128, 16), (512, 48), (200, 24), (64, 64), (129, 7), (3, 5), (1, 16), (1, 1)];

#[test]
fn counts_that_are_taken_over_are_those_of_counting_all() {
    let Some((_context, _guard)) = gpu() else { return };
    let configs: Vec<Config> =
        [2, 3, 5, 8, 1].into_iter().flat_map(|n| SIZES.map(|(d, m)| Config { n, d, m })).collect();
    let records = |counted| {
        let mut meter = match Gpu.meter(0, counted) {
            Err(MeterError::Unavailable { what, .. }) => return flopgap_testing::none("cupti", what),
            meter => meter.unwrap(),
        };
        Some(configs.iter().map(|&config| meter.measure(config).unwrap()).collect::<Vec<_>>())
    };
    let (Some(all), Some(once)) = (records(Counted::All), records(Counted::AlikeOnce)) else { return };
    for (all, once) in all.iter().zip(&once) {
        assert_eq!(all.compare(once).difference, None, "{}", all.config());
        assert_eq!(all.taken_over(), 0);
    }
    let taken_over: u64 = once.iter().map(flopgap_phases::sweep::Record::taken_over).sum();
    let deep = all.iter().filter(|record| record.config().n > 2).map(|record| record.launches().len() as u64);
    let deep: u64 = deep.sum();
    assert!(taken_over > deep / 2, "{taken_over} of {deep}");
}
