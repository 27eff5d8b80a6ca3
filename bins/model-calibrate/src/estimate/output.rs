//! An estimate as a table and as JSON.

use std::fmt::Write as _;

use flopgap_calibration::judge::Series;
use flopgap_calibration::report::{duration, megabytes};
use flopgap_cli::{Failure, FormatArg};
use flopgap_flops::{FlopError, Precision};
use flopgap_graph::Mode;
use flopgap_report::ReportError;
use flopgap_report::numbers;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use flopgap_roofline::predict::Estimate;
use serde::Serialize;

use super::kernels::Kernels;
use super::model::Model;

/// The output.
pub(super) struct Output<'a> {
    pub(super) model: &'a Model,
    pub(super) device: &'a str,
    pub(super) series: &'a Series,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    /// Rows that were fitted.
    pub(super) rows: usize,
    pub(super) estimate: &'a Estimate,
    pub(super) kernels: &'a Kernels,
}

/// The form of the JSON. What is not known is `null`.
#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    device: &'a str,
    engine: &'a str,
    precision: Precision,
    mode: Mode,
    time_ms: f64,
    time_low_ms: f64,
    time_high_ms: f64,
    memory_mb: Option<f64>,
    energy_j: Option<f64>,
    flops: u64,
    measured: bool,
    extrapolated: bool,
    unknown: &'a [String],
    /// Whether the device was queried for its kernels, or why not.
    kernels_asked: bool,
    kernels: String,
    layers: Vec<Layer<'a>>,
}

#[derive(Serialize)]
struct Layer<'a> {
    name: &'a str,
    step: String,
    time_ms: f64,
    time_low_ms: f64,
    time_high_ms: f64,
    flops: u64,
    bytes: u64,
    bottleneck: &'a str,
    measured: bool,
    extrapolated: bool,
}

const MS: f64 = 1e6;

impl Output<'_> {
    pub(super) fn render(&self, format: FormatArg, options: &TextOptions) -> Result<String, Failure> {
        let document = self.document()?;
        let format: Format = format.into();
        if format == Format::Json {
            let mut json = serde_json::to_string_pretty(&document)
                .map_err(|error| Failure::new(format!("the estimate cannot be written: {error}")))?;
            json.push('\n');
            return Ok(json);
        }
        let table = layers(&document)?;
        let text = table.render(format, options)?;
        if format.is_csv() {
            return Ok(text);
        }
        Ok(format.sentences(&self.heading(&document), options) + &text)
    }

    fn document(&self) -> Result<Document<'_>, FlopError> {
        let estimate = self.estimate;
        let mut flops = 0_u64;
        let mut layers = Vec::new();
        for ((planned, name), by_step) in
            self.model.steps.iter().zip(&self.model.layers).zip(&estimate.by_step)
        {
            let work = planned.step.work(self.precision)?;
            flops = flops
                .checked_add(work.flops)
                .ok_or_else(|| FlopError::Overflow { quantity: "FLOPs of the model".into() })?;
            layers.push(Layer {
                name,
                step: planned.step.label(),
                time_ms: by_step.nanoseconds / MS,
                time_low_ms: by_step.low / MS,
                time_high_ms: by_step.high / MS,
                flops: work.flops,
                bytes: work.bytes_read + work.bytes_written,
                bottleneck: by_step.bottleneck.name(),
                measured: by_step.measured,
                extrapolated: by_step.extrapolated,
            });
        }
        Ok(Document {
            model: &self.model.name,
            device: self.device,
            engine: &self.series.engine,
            precision: self.precision,
            mode: self.mode,
            time_ms: estimate.nanoseconds / MS,
            time_low_ms: estimate.low / MS,
            time_high_ms: estimate.high / MS,
            memory_mb: estimate.memory_bytes.map(|bytes| bytes / 1e6),
            energy_j: estimate.joules,
            flops,
            measured: estimate.measured,
            extrapolated: estimate.extrapolated,
            unknown: &self.model.unknown,
            kernels_asked: self.kernels.algorithms().is_some(),
            kernels: self.kernels.describe(),
            layers,
        })
    }

    fn heading(&self, document: &Document<'_>) -> String {
        let estimate = self.estimate;
        let mut text = format!(
            "{} on {}, {}, {}, {}\n\n",
            self.model.name,
            self.device,
            self.series,
            self.precision,
            match self.mode {
                Mode::Call => "called",
                Mode::Stream => "launched on a stream",
                Mode::Graph => "in a CUDA graph",
            }
        );
        let how = if estimate.measured { "measured, 95% interval" } else { "90% interval" };
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<8}{value}");
        };
        line(
            "time",
            format!(
                "{} ({how}: {} to {})",
                duration(estimate.nanoseconds),
                duration(estimate.low),
                duration(estimate.high)
            ),
        );
        line("memory", estimate.memory_bytes.map_or_else(|| "not measured".to_owned(), megabytes));
        let joules = |joules| numbers::si_with_unit(joules, "J");
        line("energy", estimate.joules.map_or_else(|| "not measured".to_owned(), joules));
        line("work", numbers::si_with_unit(document.flops as f64, "FLOP"));
        line("fitted", format!("{} rows", self.rows));
        line("kernels", self.kernels.describe());
        if (estimate.correction - 1.0).abs() >= 0.005 {
            line(
                "whole",
                format!(
                    "{} against the sum of its steps",
                    numbers::signed_percent(estimate.correction - 1.0, 1)
                ),
            );
        }
        text.push('\n');
        text
    }
}

fn layers(document: &Document<'_>) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Steps",
        [
            Column::text("layer", "layer"),
            Column::text("step", "step"),
            Column::number("time_us", "time").unit("µs").rank(0),
            Column::number("low_us", "from").rank(2),
            Column::number("high_us", "to").rank(2),
            Column::number("share", "share").rank(0),
            Column::number("flops", "work").unit("FLOP").rank(3),
            Column::text("bottleneck", "bound by"),
            Column::text("from", "source"),
        ],
    )?;
    let sum: f64 = document.layers.iter().map(|layer| layer.time_ms).sum();
    for layer in &document.layers {
        let source = match (layer.measured, layer.extrapolated) {
            (true, _) => "measured",
            (false, true) => "extrapolated",
            (false, false) => "estimated",
        };
        table.push([
            Cell::text(layer.name),
            Cell::text(layer.step.clone()),
            Cell::float(layer.time_ms * 1e3, 2),
            Cell::float(layer.time_low_ms * 1e3, 2),
            Cell::float(layer.time_high_ms * 1e3, 2),
            Cell::percent(layer.time_ms / sum, 1),
            Cell::from(layer.flops),
            Cell::text(layer.bottleneck),
            Cell::text(source),
        ])?;
    }
    Ok(table)
}
