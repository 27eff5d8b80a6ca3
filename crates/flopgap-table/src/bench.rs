//! What `flopgap bench --format json` printed, as a table.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::column::{Column, count, float, maybe_float, text};
use crate::decompressed::{Compression, reader};
use crate::held::{Held, table};
use crate::info::Named;
use crate::{Error, Table};

pub(crate) const RESULTS: Named =
    Named { name: "bench_results", about: "Timed passes of networks, as flopgap bench measured them." };

/// The results of one run.
#[derive(Debug)]
pub(crate) struct Bench {
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "is part of the provenance alone"))]
    device: Arc<str>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Document {
    device: String,
    results: Vec<Measured>,
}

#[derive(Clone, Debug, Deserialize)]
struct Measured {
    #[serde(rename = "impl")]
    implementation: String,
    size: String,
    precision: String,
    pass: String,
    batch: u64,
    timing: Option<String>,
    median_us: f64,
    p10_us: Option<f64>,
    p90_us: Option<f64>,
    tflops: Option<f64>,
    gbps: Option<f64>,
    floor_fraction: Option<f64>,
    max_rel_error: Option<f64>,
}

#[derive(Clone, Debug)]
struct Row {
    device: Arc<str>,
    it: Measured,
}

impl Bench {
    pub(crate) fn open(path: &Path, compression: Option<Compression>) -> Result<Bench, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let mut text = Vec::new();
        match compression {
            Some(compression) => reader(path, compression).and_then(|mut file| file.read_to_end(&mut text)),
            None => File::open(path).and_then(|mut file| file.read_to_end(&mut text)),
        }
        .map_err(io)?;
        let document: Document = serde_json::from_slice(&text)
            .map_err(|source| Error::Bench { path: path.to_owned(), source: source.into() })?;
        let (device, results) = (Arc::<str>::from(document.device), document.results);
        let rows = results.into_iter().map(|it| Row { device: device.clone(), it }).collect();
        Ok(Bench { device, rows })
    }

    pub(crate) fn table(&self, path: &Path, name: &str) -> Option<Table> {
        (name == RESULTS.name)
            .then(|| table(path, (RESULTS.name, RESULTS.about), columns(), self.rows.clone()))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn provenance(&self) -> crate::parquet::Provenance {
        let timing = |row: &Row| row.it.timing.as_deref().is_some_and(|timing| timing.starts_with("gpu"));
        let on_gpu = self.rows.iter().any(timing);
        crate::parquet::Provenance {
            profiler: Some("mlp-bench".to_owned()),
            gpu: on_gpu.then(|| self.device.as_ref().to_owned()),
            ..Default::default()
        }
    }
}

type Of = Held<Row>;

fn columns() -> Vec<Column<Of>> {
    vec![
        text("device", "What ran it: a GPU, or a processor.", |row: &Of| Some(&row.device)),
        text("implementation", "The implementation, or the program that it is compared with.", |row: &Of| {
            Some(&row.it.implementation)
        }),
        text("size", "The network: `small`, `medium`, `large`, `xlarge`, or its widths.", |row: &Of| {
            Some(&row.it.size)
        }),
        text("precision", "`fp32`, `fp16` or `bf16`.", |row: &Of| Some(&row.it.precision)),
        text("pass", "`forward`, `backward` or `train` (both).", |row: &Of| Some(&row.it.pass)),
        count("batch", "Samples.", |row: &Of| row.it.batch),
        text("timing", "By which clock: `gpu-graph`, `gpu-graph-cold`, `gpu-launch`, `cpu`.", |row: &Of| {
            row.it.timing.as_deref()
        }),
        float("median_us", "The median of the times.", |row: &Of| row.it.median_us),
        maybe_float("p10_us", "The tenth percentile.", |row: &Of| row.it.p10_us),
        maybe_float("p90_us", "The ninetieth percentile.", |row: &Of| row.it.p90_us),
        maybe_float("tflops", "FLOPs of the products over the median, in TFLOP/s.", |row: &Of| row.it.tflops),
        maybe_float("gbps", "Bytes moved at least once over the median, in GB/s.", |row: &Of| row.it.gbps),
        maybe_float("floor_fraction", "The least time that the peaks allow over the median.", |row: &Of| {
            row.it.floor_fraction
        }),
        maybe_float("max_rel_error", "The largest relative error against 64 bits.", |row: &Of| {
            row.it.max_rel_error
        }),
    ]
}
