//! How well public measurements are predicted that were never fitted.

use flopgap_graph::Op;
use flopgap_graph::op::Gemm;
use flopgap_roofline::predict::{Baseline, FitSettings, Observation, Predictor, Regime};

use crate::tables;

/// Mean, median and 90th percentile of the relative error, and the share of runs within their
/// intervals.
struct Accuracy {
    mape: f64,
    median: f64,
    p90: f64,
    coverage: f64,
    by_regime: Vec<(Regime, usize, f64)>,
    /// Mean relative error of the energy; NaN where no row has any.
    energy: f64,
}

fn judge(predictor: &Predictor, rows: &[&Observation]) -> Accuracy {
    let mut errors = Vec::new();
    let mut inside = Vec::new();
    let mut energy = Vec::new();
    for row in rows {
        let algorithms = (!row.algorithms.is_empty()).then_some(&*row.algorithms);
        let said = predictor.estimate(&row.steps, row.precision, row.mode, algorithms).unwrap();
        errors.push((said.nanoseconds / row.nanoseconds - 1.0).abs());
        if let (Some(said), Some(measured)) = (said.joules, row.joules) {
            energy.push((said / measured - 1.0).abs());
        }
        inside.push((said.regime, said.low <= row.nanoseconds && row.nanoseconds <= said.high));
    }
    let share = |of: &[&(Regime, bool)]| {
        of.iter().filter(|(_, inside)| *inside).count() as f64 / of.len().max(1) as f64
    };
    let by_regime = Regime::ALL.iter().map(|&regime| {
        let of: Vec<&(Regime, bool)> = inside.iter().filter(|(other, _)| *other == regime).collect();
        (regime, of.len(), share(&of))
    });
    let by_regime = by_regime.collect();
    let coverage = share(&inside.iter().collect::<Vec<_>>());
    errors.sort_by(f64::total_cmp);
    let mape = errors.iter().sum::<f64>() / errors.len() as f64;
    let energy = energy.iter().sum::<f64>() / energy.len() as f64;
    let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    Accuracy { mape, median, p90, coverage, by_regime, energy }
}

/// A seeded permutation.
fn shuffled(rows: &[Observation], seed: u64) -> Vec<&Observation> {
    let mut state = seed;
    let mut keyed: Vec<(u64, &Observation)> = rows
        .iter()
        .map(|row| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mixed = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            (mixed ^ (mixed >> 33), row)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, row)| row).collect()
}

fn accuracy(name: &str, rows: &[Observation], fitted: usize, judged: usize, units: u32) -> Accuracy {
    let rows = shuffled(rows, 7);
    between(name, &rows[..fitted], &rows[fitted..rows.len().min(fitted + judged)], units)
}

/// How well `left` is predicted by a fit to `fit`.
#[expect(clippy::print_stderr, reason = "the figures are what a reader of the test wants")]
fn between(name: &str, fit: &[&Observation], left: &[&Observation], units: u32) -> Accuracy {
    let fit: Vec<Observation> = fit.iter().map(|row| (*row).clone()).collect();
    let began = std::time::Instant::now();
    let predictor = Predictor::fit(None, &fit, &FitSettings::default().with_units(units)).unwrap();
    let took = began.elapsed().as_secs_f64();
    let found = judge(&predictor, left);
    let baselines = Baseline::ALL.map(|baseline| {
        let error = |row: &&Observation| {
            let said = predictor.baseline(baseline, &row.steps, row.precision, row.mode);
            (said / row.nanoseconds - 1.0).abs()
        };
        left.iter().map(error).sum::<f64>() / left.len() as f64
    });
    eprintln!(
        "{name}: fitted {} in {took:.2} s, judged {}: MAPE {:.2} %, median {:.2}, p90 {:.2}, covered {:.1} % {:?}; energy {:.1} %; baselines {:?}",
        fit.len(),
        left.len(),
        found.mape * 100.0,
        found.median * 100.0,
        found.p90 * 100.0,
        found.coverage * 100.0,
        found.by_regime,
        found.energy * 100.0,
        baselines.map(|error| (error * 1000.0).round() / 10.0),
    );
    found
}

#[test]
fn products_on_an_h200() {
    let Some(rows) = tables::h200() else { return };
    let found = accuracy("H200 bf16", &rows, 800, 8000, 132);
    assert!(found.mape <= 0.05, "{}", found.mape);
    for (regime, _, covered) in found.by_regime {
        assert!((0.87..=0.93).contains(&covered), "{}: {covered}", regime.name());
    }
}

#[test]
fn linear_layers_of_eight_devices() {
    // Power holds the clocks of L4 and T4 down: their times vary by more than sizes explain.
    for (device, units, bar) in [
        ("NVIDIA H100 80GB HBM3", 132, 0.04),
        ("NVIDIA A100 80GB PCIe", 108, 0.04),
        ("NVIDIA A100-PCIE-40GB", 108, 0.05),
        ("NVIDIA L4", 58, 0.12),
        ("Tesla P100-PCIE-16GB", 56, 0.05),
        ("Tesla P4", 20, 0.05),
        ("Tesla T4", 40, 0.12),
        ("Tesla V100-PCIE-32GB", 80, 0.05),
    ] {
        let Some(rows) = tables::linear(device, false) else { return };
        let found = accuracy(device, &rows, 800, 8000, units);
        assert!(found.mape <= bar, "{device}: {}", found.mape);
    }
}

#[test]
fn linear_layers_of_an_h100_whose_kernels_are_known() {
    let Some(rows) = tables::linear("NVIDIA H100 80GB HBM3", true) else { return };
    let found = accuracy("H100, kernels known", &rows, 800, 8000, 132);
    assert!(found.mape <= 0.03, "{}", found.mape);
}

#[test]
fn convolutions_on_an_a100() {
    for (algorithms, bar) in [(false, 0.2), (true, 0.14)] {
        let Some(rows) = tables::conv(algorithms) else { return };
        let found = accuracy("A100 conv", &rows, 800, 8000, 108);
        assert!(found.mape <= bar, "{}", found.mape);
        assert!((0.85..=0.95).contains(&found.coverage), "{}", found.coverage);
    }
}

/// Sizes of the only step.
fn sizes(row: &Observation) -> [u64; 3] {
    match row.steps[0].op {
        Op::Gemm(Gemm { m, n, k, .. }) => [m, n, k],
        _ => [0; 3],
    }
}

#[test]
fn values_of_an_h200_that_were_never_fitted() {
    let Some(rows) = tables::h200() else { return };
    // A fifth of the values of each size are held out; a row is judged if all of its sizes are.
    let held = |axis: usize, size: u64| {
        let mixed = (size ^ ((axis as u64) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40).is_multiple_of(5)
    };
    let count = |row: &Observation| {
        sizes(row).into_iter().enumerate().filter(|(axis, size)| held(*axis, *size)).count()
    };
    let (fit, left): (Vec<&Observation>, Vec<&Observation>) = shuffled(&rows, 3)
        .into_iter()
        .filter(|row| matches!(count(row), 0 | 2 | 3))
        .partition(|row| count(row) == 0);
    let found = between("H200 bf16, values held out", &fit[..800], &left[..left.len().min(8000)], 132);
    assert!(found.mape <= 0.07, "{}", found.mape);
}

#[test]
fn a_quick_sweep_of_an_h200() {
    let Some(rows) = tables::h200() else { return };
    let found = accuracy("H200 bf16, quick", &rows, 150, 8000, 132);
    assert!(found.mape <= 0.08, "{}", found.mape);
}
