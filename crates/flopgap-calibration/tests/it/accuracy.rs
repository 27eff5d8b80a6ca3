//! Errors of estimates, and that no fit sees what judges it.

use flopgap_calibration::Row;
use flopgap_calibration::accuracy::{Errors, coverage};
use flopgap_calibration::judge::{FitRequest, Fitted, Judged, Pair, cross_validated, series};
use flopgap_calibration::report::{ReportInput, document};
use flopgap_graph::{Algorithm, Op, Step, Workload};
use flopgap_roofline::predict::FitSettings;

use crate::synthetic;

fn request(settings: &FitSettings) -> FitRequest<'_> {
    FitRequest { ceilings: None, settings }
}

/// Each row with an estimate by a fit that did not see it.
fn judged(rows: &[&Row]) -> Vec<Judged> {
    let settings = FitSettings::default();
    let judged = cross_validated(rows, 5, request(&settings)).unwrap();
    judged.into_iter().map(|(_, judged)| judged).collect()
}

#[test]
fn a_machine_that_follows_a_formula_is_learned() {
    let rows = synthetic::rows(700, 60, 0.02);
    let (of, rows) = series(&rows).remove(0);
    assert_eq!(of.to_string(), "cuda");
    let judged = judged(&rows);
    let errors = Errors::of(judged.iter().map(|row| row.time.tuple())).unwrap();
    assert!(errors.mape < 0.06, "{errors:?}");
    let flops = judged.iter().filter_map(|row| row.flops).map(Pair::tuple);
    assert!(Errors::of(flops).unwrap().mape < 1e-9, "the closed form was counted");
    // Nothing was measured, and nothing is claimed.
    assert!(judged.iter().all(|row| row.energy.is_none()));
    let covered = coverage(&judged);
    assert_eq!(covered.iter().map(|(_, coverage)| coverage.count).sum::<usize>(), judged.len());
    assert!(covered.iter().all(|(_, coverage)| coverage.count > 0), "{covered:?}");
}

/// Products by one kernel, whose counters see whole tiles; launches hold nothing.
fn with_kernels() -> Vec<Row> {
    let mut rows = synthetic::rows(200, 0, 0.02);
    for row in &mut rows {
        let Workload::Step(Step { op: Op::Gemm(gemm), .. }) = &row.workload else {
            row.measurement.memory_bytes = Some(0);
            continue;
        };
        let tiles = gemm.m.div_ceil(64) * gemm.n.div_ceil(64);
        let k = gemm.k.next_multiple_of(64);
        row.measurement.counted_flops = Some(2 * tiles * 64 * 64 * k);
        row.measurement.algorithms = vec![Algorithm {
            tile: Some([64, 64]),
            kernels: vec!["nvjet_sm90_hsh_64x64_64x8_1x1_v_bz_TNT".to_owned()],
            ..Algorithm::default()
        }];
    }
    rows
}

#[test]
fn a_report_says_what_is_reached_without_and_with_kernels() {
    let rows = with_kernels();
    let (_, rows) = series(&rows).remove(0);
    let judged = judged(&rows);
    let known = judged.iter().filter_map(|row| row.with_kernels?.flops).map(Pair::tuple);
    let kernels = Errors::of(known).unwrap();
    let sizes = Errors::of(judged.iter().filter_map(|row| row.flops).map(Pair::tuple)).unwrap();
    assert_eq!(sizes.count, kernels.count);
    assert!(sizes.mape > 0.02 && kernels.mape < 0.01 && kernels.mape > 0.0, "{sizes:?} {kernels:?}");
    let text = |judged: &[Judged]| {
        document(&ReportInput { judged, own: true, ..ReportInput::default() }).unwrap().to_markdown()
    };
    let page = text(&judged);
    let line =
        |start: &str| page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{page}"));
    assert!(line("- MAPE† from sizes alone, as on any machine: latency ").contains("FLOPs "));
    assert!(line("- MAPE† with the recorded kernels, as on the device (200 rows): ").contains("FLOPs 0."));
    assert!(page.contains("| predictor, with kernels") && page.contains("| latency, with kernels"), "{page}");

    let without: Vec<Judged> = judged.into_iter().map(|row| Judged { with_kernels: None, ..row }).collect();
    let page = text(&without);
    assert!(page.contains("\n- MAPE†: latency ") && !page.contains("with kernels"), "{page}");
}

#[test]
fn a_fit_that_sees_what_judges_it_is_an_error() {
    let rows = synthetic::rows(120, 0, 0.0);
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let (validation, fit) = rows.split_at(40);
    let fitted = Fitted::fit(fit, request(&settings)).unwrap();
    assert_eq!(fitted.rows(), fit.len());
    assert_eq!(fitted.judge(validation).unwrap().len(), validation.len());
    let leak = fitted.judge(&fit[..1]).unwrap_err();
    assert!(leak.to_string().ends_with("would be fitted and judge the same fit"), "{leak}");
}

#[test]
fn every_row_is_judged_once_in_cross_validation() {
    let rows = synthetic::rows(150, 20, 0.02);
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let judged = cross_validated(&rows, 5, request(&settings)).unwrap();
    // Launches that do nothing are in every fit.
    assert_eq!(judged.len(), rows.len() - 2);
    for (place, judged) in &judged {
        let row = rows[*place];
        assert_eq!(row.workload.label(), judged.label);
        assert!((row.measurement.time.median_ns - judged.time.measured).abs() < 1e-9);
        assert!(judged.interval.is_some() && judged.baselines.is_some());
    }
}

#[test]
fn too_few_rows_are_an_error() {
    let rows = synthetic::rows(9, 0, 0.0);
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let error = cross_validated(&rows, 5, request(&settings)).unwrap_err();
    assert!(error.to_string().starts_with("a fit needs at least 20 observations; found "), "{error}");
}
