//! The table of bars, and that no fit sees what judges it.

use flopgap_calibration::Row;
use flopgap_calibration::accuracy::{Candidates, Verdict, accuracy, coverage};
use flopgap_calibration::judge::{FitRequest, Fitted, Judged, cross_validated, series};
use flopgap_calibration::report::{ReportInput, document};
use flopgap_calibration::split::Split;
use flopgap_graph::{Algorithm, Op, Step, Workload};
use flopgap_roofline::predict::FitSettings;

use crate::synthetic;

fn request(settings: &FitSettings) -> FitRequest<'_> {
    FitRequest { ceilings: None, settings }
}

fn verdict<'a>(verdicts: &'a [Verdict], what: &str) -> &'a Verdict {
    verdicts.iter().find(|verdict| verdict.bar.what.starts_with(what)).unwrap()
}

#[test]
fn a_machine_that_follows_a_formula_is_learned() {
    let rows = synthetic::rows(700, 60, 0.02);
    let (of, rows) = series(&rows).remove(0);
    assert_eq!(of.to_string(), "cuda");
    let settings = FitSettings::default();
    let found = accuracy(Candidates { rows: &rows, kind: "cuda", request: request(&settings) }).unwrap();
    let products = verdict(&found.verdicts, "GEMM");
    assert!(products.fitted > 250 && products.fitted <= 800, "{products:?}");
    assert!(products.errors.unwrap().mape < 0.06, "{products:?}");
    let flops = verdict(&found.verdicts, "FLOPs");
    assert_eq!((flops.fitted, flops.met()), (0, Some(true)), "{flops:?}");
    // Nothing was measured for these, and nothing is claimed.
    for what in ["Conv2D, any", "ResNets", "energy"] {
        let verdict = verdict(&found.verdicts, what);
        assert_eq!((verdict.met(), verdict.note.as_str()), (None, "not measured in this calibration"));
    }
    assert!(coverage(&found.judged).iter().all(|(_, coverage)| coverage.count > 0));
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
fn kernels_decide_where_the_device_reports_them() {
    let rows = with_kernels();
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let of = |kind| {
        let found = accuracy(Candidates { rows: &rows, kind, request: request(&settings) }).unwrap();
        verdict(&found.verdicts, "FLOPs").clone()
    };
    let flops = of("cuda");
    let (sizes, kernels) = (flops.errors.unwrap(), flops.with_kernels.unwrap());
    assert_eq!(sizes.count, kernels.count);
    assert!(sizes.mape > 0.02 && kernels.mape < 0.01 && kernels.mape > 0.0, "{flops:?}");
    assert_eq!(flops.met(), Some(true));
    // Nobody asks a CPU for kernels.
    assert_eq!(of("cpu").met(), Some(false));
}

#[test]
fn a_report_says_what_is_reached_without_and_with_kernels() {
    let rows = with_kernels();
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let judged: Vec<Judged> = cross_validated(&rows, 5, request(&settings))
        .unwrap()
        .into_iter()
        .map(|(_, judged)| judged)
        .collect();
    let text = |judged: &[Judged]| {
        document(&ReportInput { judged, own: true, ..ReportInput::default() }).unwrap().to_markdown()
    };
    let page = text(&judged);
    let line =
        |start: &str| page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{page}"));
    assert!(line("- MAPE† from sizes alone, as on any machine: latency ").contains("FLOPs "));
    assert!(line("- MAPE† with the recorded kernels, as on the device (200 rows): ").contains("FLOPs 0."));
    assert!(line("- The target of a latency MAPE").contains(" from sizes alone, and "));
    assert!(page.contains("| predictor, with kernels") && page.contains("| latency, with kernels"), "{page}");

    let without: Vec<Judged> = judged.into_iter().map(|row| Judged { with_kernels: None, ..row }).collect();
    let page = text(&without);
    assert!(page.contains("\n- MAPE†: latency ") && !page.contains("with kernels"), "{page}");
}

#[test]
fn noise_is_not_called_accuracy() {
    let rows = synthetic::rows(300, 0, 0.9);
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let found = accuracy(Candidates { rows: &rows, kind: "cuda", request: request(&settings) }).unwrap();
    assert_eq!(verdict(&found.verdicts, "GEMM").met(), Some(false));
}

#[test]
fn a_fit_that_sees_what_judges_it_is_an_error() {
    let rows = synthetic::rows(120, 0, 0.0);
    let (_, rows) = series(&rows).remove(0);
    let settings = FitSettings::default();
    let split = Split::Workloads;
    let all = Fitted::fit(&rows, Some(&split), request(&settings)).unwrap_err();
    assert!(all.to_string().ends_with("would be fitted and judge the same fit"), "{all}");

    let divided = split.divide(rows.iter().copied());
    let fitted = Fitted::fit(&divided.fit, Some(&split), request(&settings)).unwrap();
    assert_eq!(fitted.rows(), divided.fit.len());
    assert_eq!(fitted.judge(&divided.validation).unwrap().len(), divided.validation.len());
    let leak = fitted.judge(&divided.fit[..1]).unwrap_err();
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
    let found = accuracy(Candidates { rows: &rows, kind: "cuda", request: request(&settings) }).unwrap();
    assert!(verdict(&found.verdicts, "GEMM").note.starts_with("a fit needs at least 20 observations"));
}
