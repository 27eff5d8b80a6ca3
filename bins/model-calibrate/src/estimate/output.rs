//! An estimate as a table and as JSON.

use std::fmt::Write as _;

use flopgap_calibration::Origin;
use flopgap_calibration::judge::Series;
use flopgap_calibration::report::{duration, megabytes};
use flopgap_cli::Failure;
use flopgap_flops::{ElementType, FlopError, Precision};
use flopgap_graph::Mode;
use flopgap_report::ReportError;
use flopgap_report::numbers;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use flopgap_roofline::predict::Estimate;
use flopgap_roofline::pytorch::Parts;
use serde::Serialize;

use super::RunAs;
use super::answer::Answer;
use super::kernels::Kernels;
use super::model::Model;

/// The output.
pub(super) struct Output<'a> {
    pub(super) model: &'a Model,
    pub(super) origin: &'a Origin,
    pub(super) series: &'a Series,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    /// Rows that were fitted.
    pub(super) rows: usize,
    /// Bytes that any engine holds at a time.
    pub(super) least_bytes: u64,
    /// What runs it.
    pub(super) run_as: RunAs,
    /// Whether convolutions are computed in TF32 though the model is in fp32.
    pub(super) convolutions_in_tf32: bool,
    /// The parts of a training step.
    pub(super) training: Option<Parts>,
    /// Nanoseconds of the GPU and of the host, and what host.
    pub(super) parts: Option<&'a (f64, f64, String)>,
    pub(super) answer: &'a Answer,
    pub(super) kernels: &'a Kernels,
}

/// The form of the JSON. What is not known is `null`.
#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    device: &'a str,
    engine: &'a str,
    precision: Precision,
    /// What the model computes in; `None` of a network that only has sizes.
    model_precision: Option<&'a str>,
    mode: Mode,
    /// What runs it: `eager`, `graph`, `compile`, `compile-graph` or `own`.
    #[serde(rename = "as")]
    run_as: &'static str,
    time_ms: Option<f64>,
    time_low_ms: Option<f64>,
    time_high_ms: Option<f64>,
    /// Of the GPU and of the host, where a host launches operators.
    gpu_ms: Option<f64>,
    host_ms: Option<f64>,
    /// Of the GPU, the parts of a training step; `None` of inference.
    training: Option<Training>,
    memory_mb: Option<f64>,
    /// Whether the model fits in the device's memory, where that is known: of training, whose
    /// activations are not counted, only that it does not.
    fits: Option<bool>,
    energy_j: Option<f64>,
    flops: u64,
    measured: bool,
    extrapolated: bool,
    /// Why the time is `None`.
    not_estimated: &'a [String],
    /// Kinds of steps that were measured in another way only.
    from_floor: &'a [String],
    unknown: &'a [String],
    /// Whether the device was queried for its kernels, or why not.
    kernels_asked: bool,
    kernels: String,
    layers: Vec<Layer<'a>>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "keys of the format")]
struct Training {
    forward_ms: Option<f64>,
    backward_ms: Option<f64>,
    optimizer_ms: Option<f64>,
}

#[derive(Serialize)]
struct Layer<'a> {
    name: &'a str,
    step: String,
    time_ms: Option<f64>,
    time_low_ms: Option<f64>,
    time_high_ms: Option<f64>,
    flops: u64,
    bytes: u64,
    bottleneck: Option<&'a str>,
    /// What the time comes from, `None` where there is none.
    source: Option<&'static str>,
}

const MS: f64 = 1e6;

impl Output<'_> {
    pub(super) fn render(&self, format: Format, options: &TextOptions) -> Result<String, Failure> {
        let document = self.document()?;
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
        let mut flops = 0_u64;
        let mut layers = Vec::new();
        for ((planned, name), by_step) in
            self.model.steps.iter().zip(&self.model.layers).zip(&self.answer.by_step)
        {
            let work = planned.step.work(self.precision)?;
            flops = flops
                .checked_add(work.flops)
                .ok_or_else(|| FlopError::Overflow { quantity: "FLOPs of the model".into() })?;
            layers.push(Layer {
                name,
                step: planned.step.label(),
                time_ms: by_step.as_ref().map(|step| step.nanoseconds / MS),
                time_low_ms: by_step.as_ref().map(|step| step.low / MS),
                time_high_ms: by_step.as_ref().map(|step| step.high / MS),
                flops: work.flops,
                bytes: work.bytes_read + work.bytes_written,
                bottleneck: by_step.as_ref().map(|step| step.bottleneck.name()),
                source: by_step.as_ref().map(|step| step.basis.name()),
            });
        }
        let whole = self.answer.whole();
        Ok(Document {
            model: &self.model.name,
            device: &self.origin.device,
            engine: &self.series.engine,
            precision: self.precision,
            model_precision: self.model.own.map(ElementType::name),
            mode: self.mode,
            run_as: self.run_as.name(),
            gpu_ms: self.parts.map(|(gpu, ..)| gpu / MS),
            host_ms: self.parts.map(|(_, host, _)| host / MS),
            training: self.training.map(|parts| {
                let ms = |nanoseconds: f64| whole.map(|_| nanoseconds / MS);
                Training {
                    forward_ms: ms(parts.forward),
                    backward_ms: ms(parts.backward),
                    optimizer_ms: ms(parts.optimizer),
                }
            }),
            time_ms: whole.map(|estimate| estimate.nanoseconds / MS),
            time_low_ms: whole.map(|estimate| estimate.low / MS),
            time_high_ms: whole.map(|estimate| estimate.high / MS),
            memory_mb: whole.and_then(|estimate| estimate.memory_bytes).map(|bytes| bytes / 1e6),
            fits: self
                .capacity()
                .map(|capacity| self.needed() <= capacity)
                .filter(|fits| self.training.is_none() || !fits),
            energy_j: whole.and_then(|estimate| estimate.joules),
            flops,
            measured: whole.is_some_and(|estimate| estimate.measured),
            extrapolated: whole.is_some_and(|estimate| estimate.extrapolated),
            not_estimated: &self.answer.missing,
            from_floor: self.answer.estimate.as_ref().map_or(&[], |estimate| &estimate.from_floor),
            unknown: &self.model.unknown,
            kernels_asked: self.kernels.algorithms().is_some(),
            kernels: self.kernels.describe(),
            layers,
        })
    }

    /// Bytes of the device's memory.
    fn capacity(&self) -> Option<f64> {
        let bytes: u64 = self.origin.properties.get("memory_bytes")?.parse().ok()?;
        Some(bytes as f64)
    }

    /// Bytes that the model holds, as estimated or at least.
    fn needed(&self) -> f64 {
        let estimated = self.answer.whole().and_then(|estimate| estimate.memory_bytes);
        estimated.unwrap_or_default().max(self.least_bytes as f64)
    }

    /// Why it does not fit in the device's memory.
    fn misfit(&self) -> Option<String> {
        let capacity = self.capacity().filter(|capacity| self.needed() > *capacity)?;
        let [needed, capacity] = [self.needed(), capacity].map(|bytes| numbers::si_with_unit(bytes, "B"));
        Some(format!("{needed} do not fit in the {capacity} of {}", self.origin.device))
    }

    /// What a reader must not miss.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        if !self.answer.missing.is_empty() {
            warnings.push(format!("the model is not estimated: {}", self.answer.missing.join("; ")));
        }
        warnings.extend(self.answer.floors(self.precision, self.mode));
        warnings.extend(self.misfit());
        warnings
    }

    /// The precision, and whose choice it is.
    fn precision(&self) -> String {
        let precision = self.precision;
        if self.convolutions_in_tf32 {
            return format!("{precision} like the model, convolutions in tf32");
        }
        match self.model.own {
            None => precision.to_string(),
            Some(own) if own == precision.element() && precision != Precision::Tf32 => {
                format!("{precision} like the model")
            }
            Some(own) => format!("{precision} (the model: {})", own.name()),
        }
    }

    fn heading(&self, document: &Document<'_>) -> String {
        let mut text = format!(
            "{} on {}, {}, {}, {}\n\n",
            self.model.name,
            self.origin.device,
            self.series,
            self.precision(),
            match (self.run_as, self.mode) {
                (RunAs::Eager, _) => "eager",
                (RunAs::Compile, _) => "torch.compile",
                (RunAs::CompileGraph, _) => "torch.compile, in a CUDA graph",
                (_, Mode::Call) => "called",
                (_, Mode::Stream) => "launched on a stream",
                (_, Mode::Graph) => "in a CUDA graph",
            }
        );
        if self.training.is_some() {
            text.truncate(text.trim_end().len());
            text.push_str(", a training step\n\n");
        }
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<8}{value}");
        };
        let (answer, whole) = (self.answer, self.answer.whole());
        match (whole, &answer.estimate) {
            (Some(estimate), _) => line("time", time(estimate)),
            (None, others) => {
                line("time", format!("not estimated: {}", answer.missing.join("; ")));
                if let Some(others) = others {
                    let (known, all) = (answer.known(), answer.by_step.len());
                    line("others", format!("{}, {known} of {all} steps", time(others)));
                }
            }
        }
        if let Some(parts) = self.training.filter(|_| whole.is_some()) {
            let [forward, backward, optimizer] =
                [parts.forward, parts.backward, parts.optimizer].map(duration);
            let parts = format!("forward {forward}, backward {backward}, AdamW (fused) {optimizer}");
            line("parts", format!("{parts}; of the GPU, without a loss"));
        }
        if let Some((gpu, host, name)) = self.parts.filter(|_| whole.is_some()) {
            line("gpu", duration(*gpu));
            line("host", format!("{}, on {name}; the longer of both is the time", duration(*host)));
        }
        if let Some(floors) = answer.floors(self.precision, self.mode) {
            line("floor", floors);
        }
        let absent = if whole.is_some() { "not measured" } else { "not estimated" };
        let memory = whole.and_then(|estimate| estimate.memory_bytes).map(megabytes);
        let memory = memory.unwrap_or_else(|| absent.to_owned());
        line("memory", self.misfit().map_or(memory.clone(), |misfit| format!("{memory}: {misfit}")));
        let joules = |joules| numbers::si_with_unit(joules, "J");
        let energy = whole.and_then(|estimate| estimate.joules);
        line("energy", energy.map_or_else(|| absent.to_owned(), joules));
        let forward = if self.training.is_some() { " forward" } else { "" };
        line("work", numbers::si_with_unit(document.flops as f64, "FLOP") + forward);
        line("fitted", format!("{} rows", self.rows));
        line("kernels", self.kernels.describe());
        if matches!(self.run_as, RunAs::Compile | RunAs::CompileGraph) {
            line("layers", "those in one fused kernel share its time by their bytes".to_owned());
        }
        // The optimizer is in no step.
        let of_steps = self.parts.is_none() && self.training.is_none();
        let corrected = |estimate: &&Estimate| of_steps && (estimate.correction - 1.0).abs() >= 0.005;
        if let Some(estimate) = whole.filter(corrected) {
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

/// One line for each machine.
pub(super) fn of_all(
    outputs: &[Output<'_>],
    format: Format,
    options: &TextOptions,
) -> Result<String, Failure> {
    let mut table = Table::new(
        "Machines",
        [
            Column::text("device", "device"),
            Column::number("time_ms", "time").unit("ms").rank(0),
            Column::number("time_low_ms", "from").rank(1),
            Column::number("time_high_ms", "to").rank(1),
            Column::number("memory_mb", "memory").unit("MB").rank(2),
            Column::text("fits", "fits"),
            Column::text("bottleneck", "longest step"),
            Column::text("source", "source"),
        ],
    )?;
    let mut sentences = String::new();
    for output in outputs {
        let whole = output.answer.whole();
        let time =
            |time: fn(&Estimate) -> f64| Cell::optional(whole, |whole| Cell::float(time(whole) / MS, 4));
        let steps = output.model.steps.iter().zip(&output.answer.by_step);
        let steps = steps.filter_map(|(step, known)| known.as_ref().map(|known| (step, known)));
        let longest = steps.max_by(|a, b| a.1.nanoseconds.total_cmp(&b.1.nanoseconds));
        let memory = output
            .capacity()
            .map_or("not known", |capacity| if output.needed() <= capacity { "yes" } else { "no" });
        let mut sources: Vec<&str> =
            output.answer.by_step.iter().flatten().map(|known| known.basis.name()).collect();
        sources.sort_unstable();
        sources.dedup();
        if sentences.is_empty() {
            sentences = format!("{}, {}\n\n", output.model.name, output.precision());
        }
        table.push([
            Cell::text(output.origin.device.clone()),
            time(|whole| whole.nanoseconds),
            time(|whole| whole.low),
            time(|whole| whole.high),
            Cell::float(output.needed() / 1e6, 1),
            Cell::text(memory),
            Cell::optional(longest, |(step, known)| {
                Cell::text(format!("{}, {}", step.step.op.name(), known.bottleneck.name()))
            }),
            Cell::text(sources.join(", ")),
        ])?;
    }
    let rendered = table.render(format, options)?;
    // Data alone is what programs read.
    let is_data = format == Format::Json || format.is_csv();
    Ok(if is_data { rendered } else { format.sentences(&sentences, options) + &rendered })
}

/// A time with its interval.
fn time(estimate: &Estimate) -> String {
    let how = if estimate.measured { "measured, 95% interval" } else { "90% interval" };
    let [time, low, high] = [estimate.nanoseconds, estimate.low, estimate.high].map(duration);
    format!("{time} ({how}: {low} to {high})")
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
    let sum: Option<f64> = document.layers.iter().map(|layer| layer.time_ms).sum();
    let microseconds = |time: Option<f64>| Cell::optional(time, |time| Cell::float(time * 1e3, 2));
    for layer in &document.layers {
        table.push([
            Cell::text(layer.name),
            Cell::text(layer.step.clone()),
            microseconds(layer.time_ms),
            microseconds(layer.time_low_ms),
            microseconds(layer.time_high_ms),
            Cell::optional(layer.time_ms.zip(sum), |(time, sum)| Cell::percent(time / sum, 1)),
            Cell::from(layer.flops),
            Cell::optional(layer.bottleneck, Cell::text),
            Cell::text(layer.source.unwrap_or("not estimated")),
        ])?;
    }
    Ok(table)
}
