//! Counts the launches of a network and makes a record of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::square::SquareError;
use flopgap_gpu::counters::{CounterError, CounterSource, LaunchCounts, Work};
use flopgap_kernels::demangle;
use flopgap_phases::Phase;
use flopgap_phases::sweep::{Config, MeterError, Quantity, Record};

use super::fault;

/// Launches that are expected: each of the 3N - 1 products as two (a split-K product
/// has a reduction), an activation or its gradient for each layer, the sum of the loss, and two
/// that make weights and input.
///
/// It depends on n alone, because CUPTI takes 0.15 s for a change, and where all networks are
/// counted, a sweep changes n least often.
pub(super) fn expected_launches(config: Config) -> usize {
    let launches = config.n.saturating_mul(2 * 3 + 2).saturating_add(1);
    usize::try_from(launches).unwrap_or(usize::MAX)
}

/// The launches of all phases, counted.
///
/// # Errors
/// As [`Meter::measure`](flopgap_phases::sweep::Meter::measure).
pub(super) fn count(
    source: &mut dyn CounterSource,
    expected: usize,
    run: &mut dyn FnMut(Phase) -> Result<(), SquareError>,
) -> Result<Vec<LaunchCounts>, MeterError> {
    within(&Phase::ALL, run, |work| source.per_launch(expected, work))
}

/// Runs phases of a network, each in its region, by a method of the source.
pub(super) fn within(
    phases: &[Phase],
    run: &mut dyn FnMut(Phase) -> Result<(), SquareError>,
    by: impl FnOnce(&mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError>,
) -> Result<Vec<LaunchCounts>, MeterError> {
    let rows = by(&mut |regions| {
        phases.iter().try_for_each(|&phase| {
            regions
                .within(phase.as_str(), |_| run(phase).map_err(|error| CounterError::Work(Box::new(error))))
        })?;
        Ok(())
    });
    rows.map_err(fault::of_counters)
}

/// The phase in whose region a launch is.
pub(super) fn region(row: &LaunchCounts) -> Option<Phase> {
    Phase::ALL.into_iter().find(|phase| row.region.as_deref() == Some(phase.as_str()))
}

/// Converts the rows to a record, split by the regions of the phases.
pub(super) fn record(
    config: Config,
    quantities: &[Quantity],
    rows: &[LaunchCounts],
) -> Result<Record, MeterError> {
    let failed = |message| Err(MeterError::Failed { message });
    let mut record = Record::new(config, quantities);
    let mut names: HashMap<&Arc<str>, String> = HashMap::new();
    let mut last = Phase::Setup;
    for row in rows {
        let LaunchCounts { launch, counts, .. } = row;
        let Some(phase) = region(row).filter(|&phase| phase >= last) else {
            let region = row.region.as_deref().unwrap_or("no phase");
            return failed(format!("`{}` was launched in {region}, after {last}", launch.symbol));
        };
        if counts.len() != quantities.len() {
            let (found, symbol) = (counts.len(), &launch.symbol);
            return failed(format!("`{symbol}` has {found} of {} counts", quantities.len()));
        }
        last = phase;
        let name = names
            .entry(&launch.symbol)
            .or_insert_with(|| demangle(&launch.symbol).unwrap_or_else(|| launch.symbol.to_string()));
        record.push(phase, name, launch.grid.map(u64::from), launch.block.map(u64::from), counts);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_gpu::counters::Launch;

    use crate::gpu::fake::Fake;

    const CONFIG: Config = Config { n: 1, d: 8, m: 4 };

    fn row(region: &str, symbol: &str, ffma: u64) -> LaunchCounts {
        LaunchCounts {
            launch: Launch { symbol: symbol.into(), grid: [2, 1, 1], block: [32, 1, 1], shared_bytes: 0 },
            region: Some(region.into()),
            counts: vec![0, 0, ffma],
        }
    }

    #[test]
    fn every_launch_is_recorded_in_its_phase() {
        let mut source = Fake::default();
        let mut network = source.network();
        let rows = count(&mut source, expected_launches(CONFIG), &mut |phase| {
            network.launch("_ZN3lib4gemmEPf", [0, 0, 1]);
            network.launch("_ZN3lib4gemmEPf", [0, 0, 2 + phase as u64]);
            Ok(())
        });
        let mut expected = Record::new(CONFIG, &Quantity::FP32);
        for phase in Phase::ALL {
            for ffma in [1, 2 + phase as u64] {
                expected.push(phase, "lib::gemm(float *)", [2, 1, 1], [32, 1, 1], &[0, 0, ffma]);
            }
        }
        assert_eq!(record(CONFIG, &Quantity::FP32, &rows.unwrap()).unwrap(), expected);
        assert_eq!(source.expected, [9]);
    }

    #[test]
    fn errors_of_the_network_come_through() {
        let error = flopgap_gpu::GpuError::OutOfMemory { wanted: 9, free: 8, total: 10 };
        let result = count(&mut Fake::default(), 9, &mut |phase| match phase {
            Phase::Forward => Err(SquareError::Gpu(error.clone())),
            _ => Ok(()),
        });
        assert_eq!(result.unwrap_err(), MeterError::DoesNotFit { needed: 9, available: 8 });
    }

    #[test]
    fn rows_that_would_give_a_wrong_record_are_refused() {
        let message = |rows: &[LaunchCounts]| record(CONFIG, &Quantity::FP32, rows).unwrap_err().to_string();
        let outside = LaunchCounts { region: None, ..row("setup", "k", 1) };
        assert_eq!(message(&[outside]), "`k` was launched in no phase, after setup");
        assert_eq!(
            message(&[row("backward", "a", 1), row("forward", "k", 1)]),
            "`k` was launched in forward, after backward"
        );
        let short = LaunchCounts { counts: vec![1], ..row("setup", "k", 1) };
        assert_eq!(message(&[short]), "`k` has 1 of 3 counts");
    }
}
