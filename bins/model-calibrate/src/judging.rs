//! Judges a calibration by this program's predictor, on rows that it did not see.

use std::path::Path;

use flopgap_calibration::accuracy::repeatability;
use flopgap_calibration::judge::{FitRequest, JudgeError, Judged, Series, cross_validated, series};
use flopgap_calibration::report::beats_baselines;
use flopgap_calibration::{Calibration, Row};
use flopgap_cli::{Console, Failure};
use flopgap_roofline::predict::{FitError, FitSettings};

use crate::PROGRAM;
use crate::load::of_judge;

/// Parts of the cross-validation.
pub(crate) const FOLDS: u64 = 5;

/// How many rows are judged in more than about half a minute.
const LONG: usize = 4_000;

/// One series of a calibration, judged.
pub(crate) struct JudgedSeries<'a> {
    pub(crate) series: Series,
    pub(crate) rows: Vec<&'a Row>,
    /// The judged rows.
    pub(crate) judged_rows: Vec<&'a Row>,
    /// Their estimates.
    pub(crate) judged: Vec<Judged>,
    pub(crate) repeatability: Option<f64>,
}

/// All series of a calibration, and why some are not judged.
pub(crate) struct Judging<'a> {
    pub(crate) series: Vec<JudgedSeries<'a>>,
    pub(crate) warnings: Vec<String>,
}

/// Judges a calibration; one series with too few rows is a warning, all of them are a failure.
pub(crate) fn judging<'a>(
    calibration: &'a Calibration,
    path: &Path,
    settings: &FitSettings,
    console: Console,
) -> Result<Judging<'a>, Failure> {
    let header = &calibration.header;
    let rows = calibration.rows.len();
    if rows >= LONG {
        console.note(format_args!("judging {rows} rows by fits to the others, which takes minutes"));
    }
    let request = FitRequest { ceilings: header.ceilings.as_ref(), settings };
    let mut judging = Judging { series: Vec::new(), warnings: Vec::new() };
    for (series, rows) in series(&calibration.rows) {
        let judge = || cross_validated(&rows, FOLDS, request);
        let judged = console.timed(format_args!("{series}: {} rows judged", rows.len()), judge);
        let (places, judged): (Vec<usize>, Vec<Judged>) = match judged {
            Ok(judged) => judged.into_iter().unzip(),
            Err(JudgeError::Fit(FitError::TooFew { needed, .. })) => {
                let there = rows.len();
                judging.warnings.push(if there < needed {
                    format!("{series}: a fit needs at least {needed} rows; found {there}")
                } else {
                    format!("{series}: {there} rows are too few to judge a fit, which needs {needed} in addition to the part left out")
                });
                continue;
            }
            Err(error) => return Err(of_judge(&error)),
        };
        let repeatability = repeatability(&rows);
        let judged_rows = places.into_iter().map(|place| rows[place]).collect();
        judging.series.push(JudgedSeries { series, rows, judged_rows, judged, repeatability });
    }
    if judging.series.is_empty() {
        let reason = if judging.warnings.is_empty() {
            "it has no rows".to_owned()
        } else {
            judging.warnings.join("; ")
        };
        let hint = "measure more rows with `flopgap calibrate sweep`; `--quick` measures 150";
        return Err(Failure::new(format!("{}: {reason}", path.display())).hint(hint));
    }
    if header.ceilings.is_none() {
        let without = "the file has no measured ceilings, so the fastest rows replace them; \
                       `flopgap calibrate probe` measures them";
        judging.warnings.push(without.to_owned());
    }
    for series in &judging.series {
        if beats_baselines(&series.judged) == Some(false) {
            judging.warnings.push(format!(
                "{}: the predictor does not beat its baselines; this calibration is not recommended",
                series.series
            ));
        }
    }
    flopgap_cli::warn_all(PROGRAM, &judging.warnings);
    Ok(judging)
}
