//! A calibration as far as an estimate needs it: who it is of, what was measured how, and the
//! predictor that is fitted to it; from the cache where it was fitted before.

use flopgap_calibration::judge::{FitRequest, Fitted, Series, series};
use flopgap_calibration::{Calibration, Header, Row};
use flopgap_cli::{Console, Failure};
use flopgap_flops::Precision;
use flopgap_graph::Mode;
use flopgap_roofline::predict::{FitSettings, Predictor};
use serde::{Deserialize, Serialize};

use super::cache::{Cache, digest};
use super::machine::Source;
use crate::load::of_judge;

/// Metadata, known without reading rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) header: Header,
    /// The series with most rows first.
    pub(super) series: Vec<Listed>,
}

/// A series and its rows, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    engine: String,
    threads: u32,
    pub(super) rows: usize,
    /// Rows with recorded kernels.
    pub(super) reported: usize,
    /// Numbers of rows of each precision and mode.
    pub(super) ways: Vec<(Precision, Mode, usize)>,
}

impl Listed {
    pub(super) fn series(&self) -> Series {
        Series { engine: self.engine.clone(), threads: self.threads }
    }

    /// Rows in a precision, and in a mode if given.
    pub(super) fn count(&self, precision: Precision, mode: Option<Mode>) -> usize {
        let fits = |(of, in_mode, _): &&(Precision, Mode, usize)| {
            *of == precision && mode.is_none_or(|mode| mode == *in_mode)
        };
        self.ways.iter().filter(fits).map(|(_, _, rows)| rows).sum()
    }
}

impl Contents {
    fn new(calibration: &Calibration) -> Self {
        let listed = |(of, rows): (Series, Vec<&Row>)| {
            let mut ways: Vec<(Precision, Mode, usize)> = Vec::new();
            for row in &rows {
                match ways.iter_mut().find(|way| (way.0, way.1) == (row.precision, row.mode)) {
                    Some((_, _, count)) => *count += 1,
                    None => ways.push((row.precision, row.mode, 1)),
                }
            }
            let reported = rows.iter().filter(|row| !row.measurement.algorithms.is_empty()).count();
            Listed { engine: of.engine, threads: of.threads, rows: rows.len(), reported, ways }
        };
        let header = calibration.header.clone();
        Contents { header, series: series(&calibration.rows).into_iter().map(listed).collect() }
    }
}

/// A calibration that was found.
pub(super) struct Known {
    source: Source,
    cache: Cache,
    console: Console,
    pub(super) contents: Contents,
    /// The rows, if they were read.
    rows: Option<Vec<Row>>,
}

impl Known {
    /// Reads the metadata of a calibration, from the cache if possible.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn open(source: Source, cache: Cache, console: Console) -> Result<Self, Failure> {
        let key = format!("contents\n{}", source.digest);
        let stored = cache.get(&key).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(contents) = stored {
            return Ok(Known { source, cache, console, contents, rows: None });
        }
        let calibration = source.read(console)?;
        let contents = Contents::new(&calibration);
        // Each reading of a truncated file warns.
        if !calibration.torn
            && source.has_rows
            && let Ok(bytes) = serde_json::to_vec(&contents)
        {
            cache.put(&key, &bytes);
        }
        Ok(Known { source, cache, console, contents, rows: Some(calibration.rows) })
    }

    /// The predictor of a series.
    ///
    /// # Errors
    /// When rows cannot be read or fitted.
    pub(super) fn predictor(&self, of: &Series, settings: &FitSettings) -> Result<Predictor, Failure> {
        let ceilings = self.contents.header.ceilings.as_ref();
        let machine = serde_json::to_vec(&ceilings).map_or_else(|_| String::new(), |text| digest(&text));
        let key = format!(
            "predictor\n{}\n{machine}\n{}\n{}\n{settings:?}",
            self.source.digest, of.engine, of.threads
        );
        if let Some(predictor) = self.cache.get(&key).and_then(|bytes| Predictor::from_bytes(&bytes)) {
            self.console.detail(format_args!("{of}: fit, from the cache"));
            return Ok(predictor);
        }
        let read;
        let all = if let Some(rows) = &self.rows {
            rows
        } else {
            read = self.source.read(self.console)?.rows;
            &read
        };
        let rows: Vec<&Row> =
            all.iter().filter(|row| row.engine == of.engine && row.threads == of.threads).collect();
        let request = FitRequest { ceilings, settings };
        let fit = || Fitted::fit(&rows, request);
        let what = format_args!("{of}: {} rows fitted", rows.len());
        let fitted = self.console.timed(what, fit).map_err(|error| of_judge(&error))?;
        let predictor = fitted.into_predictor();
        if let Ok(bytes) = predictor.to_bytes() {
            self.cache.put(&key, &bytes);
        }
        Ok(predictor)
    }
}
