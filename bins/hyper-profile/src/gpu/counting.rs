//! Runs a network once under counters and returns a record.

use std::collections::HashMap;
use std::sync::Arc;

use crate::square::SquareError;
use flopgap_gpu::counters::{CounterError, CounterSource, LaunchCounts};
use flopgap_kernels::demangle;
use flopgap_phases::Phase;
use flopgap_phases::sweep::{Config, MeterError, Quantity, Record};

use super::fault;

/// Launches that are expected: each of the 3N - 1 products as two (a split-K product
/// has a reduction), an activation or its gradient for each layer, the sum of the loss, and two
/// that make weights and input.
///
/// It depends on n alone, because CUPTI takes 0.15 s for a change, and a sweep changes n least
/// often.
pub(super) fn expected_launches(config: Config) -> usize {
    let launches = config.n.saturating_mul(2 * 3 + 2).saturating_add(1);
    usize::try_from(launches).unwrap_or(usize::MAX)
}

/// Runs all phases under counters.
///
/// # Errors
/// As [`Meter::measure`](flopgap_phases::sweep::Meter::measure).
pub(super) fn count(
    source: &mut dyn CounterSource,
    config: Config,
    quantities: &[Quantity],
    expected: usize,
    run: &mut dyn FnMut(Phase) -> Result<(), SquareError>,
) -> Result<Record, MeterError> {
    let rows = source.per_launch(expected, &mut |regions| {
        Phase::ALL.into_iter().try_for_each(|phase| {
            regions
                .within(phase.as_str(), |_| run(phase).map_err(|error| CounterError::Work(Box::new(error))))
        })?;
        Ok(())
    });
    record(config, quantities, &rows.map_err(fault::of_counters)?)
}

/// Converts the rows to a record, split by the regions of the phases.
fn record(config: Config, quantities: &[Quantity], rows: &[LaunchCounts]) -> Result<Record, MeterError> {
    let failed = |message| Err(MeterError::Failed { message });
    let mut record = Record::new(config, quantities);
    let mut names: HashMap<&Arc<str>, String> = HashMap::new();
    let mut last = Phase::Setup;
    for LaunchCounts { launch, region, counts } in rows {
        let of_region = |phase: &Phase| region.as_deref() == Some(phase.as_str());
        let Some(phase) = Phase::ALL.into_iter().find(of_region).filter(|&phase| phase >= last) else {
            let region = region.as_deref().unwrap_or("no phase");
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
    use flopgap_gpu::counters::{Launch, RegionCounts, Regions, Work};

    const CONFIG: Config = Config { n: 1, d: 8, m: 4 };

    fn row(region: &str, symbol: &str, ffma: u64) -> LaunchCounts {
        LaunchCounts {
            launch: Launch { symbol: symbol.into(), grid: [2, 1, 1], block: [32, 1, 1], shared_bytes: 0 },
            region: Some(region.into()),
            counts: vec![0, 0, ffma],
        }
    }

    /// FAKE counters: the same launches for every region.
    struct Fake {
        launches: usize,
        expected: Vec<usize>,
    }

    struct Names(Vec<String>);

    impl Regions for Names {
        fn enter(&mut self, name: &str) -> Result<(), CounterError> {
            self.0.push(name.to_owned());
            Ok(())
        }

        fn leave(&mut self) -> Result<(), CounterError> {
            Ok(())
        }
    }

    impl CounterSource for Fake {
        fn metrics(&self) -> &[String] {
            &[]
        }

        fn passes(&self) -> usize {
            1
        }

        fn per_launch(
            &mut self,
            expected: usize,
            work: &mut Work<'_>,
        ) -> Result<Vec<LaunchCounts>, CounterError> {
            self.expected.push(expected);
            let mut names = Names(Vec::new());
            work(&mut names).map_err(|error| match error.downcast::<CounterError>() {
                Ok(error) => *error,
                Err(error) => CounterError::Work(error),
            })?;
            let rows = names.0.iter().flat_map(|name| {
                (1..=self.launches as u64).map(move |count| row(name, "_ZN3lib4gemmEPf", count))
            });
            Ok(rows.collect())
        }

        fn per_region(&mut self, _: usize, _: &mut Work<'_>) -> Result<Vec<RegionCounts>, CounterError> {
            unreachable!("launches are counted")
        }
    }

    #[test]
    fn every_launch_is_recorded_in_its_phase() {
        let mut source = Fake { launches: 2, expected: Vec::new() };
        let mut ran = Vec::new();
        let record = count(&mut source, CONFIG, &Quantity::FP32, expected_launches(CONFIG), &mut |phase| {
            ran.push(phase);
            Ok(())
        });
        let mut expected = Record::new(CONFIG, &Quantity::FP32);
        for phase in Phase::ALL {
            for ffma in [1, 2] {
                expected.push(phase, "lib::gemm(float *)", [2, 1, 1], [32, 1, 1], &[0, 0, ffma]);
            }
        }
        assert_eq!(record.unwrap(), expected);
        assert_eq!((ran, source.expected), (Phase::ALL.to_vec(), vec![9]));
    }

    #[test]
    fn errors_of_the_network_come_through() {
        let mut source = Fake { launches: 1, expected: Vec::new() };
        let error = flopgap_gpu::GpuError::OutOfMemory { wanted: 9, free: 8, total: 10 };
        let result = count(&mut source, CONFIG, &Quantity::FP32, 9, &mut |phase| match phase {
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
