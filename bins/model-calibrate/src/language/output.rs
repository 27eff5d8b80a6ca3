//! The answer about a language model as text, tables and JSON.

use std::fmt::Write as _;

use flopgap_cli::Failure;
use flopgap_graph::language::Phase;
use flopgap_report::ReportError;
use flopgap_report::numbers::{self, duration};
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use flopgap_roofline::machines::PartEstimate;
use serde_json::{Value, json};

use super::answer::{Answer, Run};

const MS: f64 = 1e6;

fn bytes(count: u64) -> String {
    numbers::si_with_unit(count as f64, "B")
}

/// A time with its interval, or why there is none.
fn time(run: &Run) -> String {
    match &run.estimate {
        Err(why) => format!("not estimated: {why}"),
        Ok(estimate) => {
            let [time, low, high] = [estimate.nanoseconds, estimate.low, estimate.high].map(duration);
            let rate = run.tokens_per_second().map_or_else(String::new, |rate| numbers::float(rate, 0));
            format!("{time} (90% interval: {low} to {high}), {rate} tokens/s")
        }
    }
}

fn sequences(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} sequence{plural}", numbers::group_thousands(count))
}

/// What a run is: `prefill of 1 sequence of 1,024 tokens`.
fn described(run: &Run) -> String {
    let tokens = numbers::group_thousands(run.pass.tokens);
    match run.pass.phase {
        Phase::Prefill => format!("{} of {tokens} tokens", sequences(run.pass.batch)),
        Phase::Decode => format!("{} after {tokens} tokens", sequences(run.pass.batch)),
    }
}

/// The text, or the tables alone as CSV.
pub(super) fn text(answer: &Answer<'_>, format: Format, options: &TextOptions) -> Result<String, Failure> {
    let mut all = String::new();
    let mut tables = Vec::new();
    for (name, run) in [("Prefill", &answer.prefill), ("Decode", &answer.decode)] {
        if let Some(run) = run {
            tables.extend(parts(name, run)?);
        }
    }
    if !answer.curve.is_empty() {
        tables.push(curve(answer)?);
    }
    if !format.is_csv() {
        all.push_str(&format.sentences(&heading(answer), options));
    }
    for (place, table) in tables.iter().enumerate() {
        if place > 0 {
            all.push('\n');
        }
        all.push_str(&table.render(format, options)?);
    }
    Ok(all)
}

fn heading(answer: &Answer<'_>) -> String {
    let (model, machine) = (answer.model, answer.machine);
    let gpus = answer.division.tensor;
    let parameters = [model.parameters(), model.active_parameters()];
    let [all, active] = parameters.map(numbers::group_thousands);
    let active =
        if parameters[0] == parameters[1] { String::new() } else { format!(", {active} for a token") };
    let mut text = format!(
        "{} ({}, {all} parameters{active}) on {}{}\n\n",
        model.name,
        model.kind,
        if gpus > 1 { format!("{gpus} x ") } else { String::new() },
        machine.device
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<9}{value}");
    };
    line("assumes", answer.assumptions().join("; "));
    let memory = answer.memory;
    let each = if gpus > 1 { " on each GPU" } else { "" };
    let fits = answer.misfit().unwrap_or_else(|| format!("of {}{each}", bytes(memory.capacity)));
    line(
        "memory",
        format!("{} of weights and {} of cache, {fits}", bytes(memory.weights), bytes(memory.cache)),
    );
    if let Some(run) = &answer.prefill {
        line("prefill", format!("{}: {}", described(run), time(run)));
    }
    if let Some(run) = &answer.decode {
        line("decode", format!("{}: {}", described(run), time(run)));
    }
    text.push('\n');
    text
}

fn source(part: &PartEstimate) -> String {
    part.basis.iter().map(|basis| basis.name()).collect::<Vec<_>>().join(", ")
}

fn parts(name: &str, run: &Run) -> Result<Option<Table>, ReportError> {
    let Ok(estimate) = &run.estimate else { return Ok(None) };
    let mut table = Table::new(
        format!("{name}: {}", described(run)),
        [
            Column::text("part", "part"),
            Column::number("time_us", "time").unit("µs").rank(0),
            Column::number("low_us", "from").rank(2),
            Column::number("high_us", "to").rank(2),
            Column::number("share", "share").rank(0),
            Column::text("bottleneck", "bound by"),
            Column::text("source", "source"),
        ],
    )?;
    for part in &estimate.parts {
        table.push([
            Cell::text(part.part.name()),
            Cell::float(part.nanoseconds / 1e3, 1),
            Cell::float(part.low / 1e3, 1),
            Cell::float(part.high / 1e3, 1),
            Cell::percent(part.nanoseconds / estimate.nanoseconds, 1),
            Cell::text(part.bound.name()),
            Cell::text(source(part)),
        ])?;
    }
    Ok(Some(table))
}

fn curve(answer: &Answer<'_>) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Decode by batch: throughput against latency",
        [
            Column::number("batch", "sequences"),
            Column::number("time_ms", "latency").unit("ms").rank(0),
            Column::number("low_ms", "from").rank(2),
            Column::number("high_ms", "to").rank(2),
            Column::number("tokens_per_second", "tokens/s").rank(0),
            Column::text("fits", "fits"),
        ],
    )?;
    for point in &answer.curve {
        let times = point.run.estimate.as_ref().ok();
        let ms = |time: Option<f64>| Cell::optional(time, |time| Cell::float(time / MS, 3));
        table.push([
            Cell::from(point.run.pass.batch),
            ms(times.map(|estimate| estimate.nanoseconds)),
            ms(times.map(|estimate| estimate.low)),
            ms(times.map(|estimate| estimate.high)),
            Cell::optional(point.run.tokens_per_second(), |rate| Cell::float(rate, 0)),
            Cell::text(if point.fits { "yes" } else { "no" }),
        ])?;
    }
    Ok(table)
}

/// All machines.
pub(super) fn all(answers: &[Answer<'_>], format: Format, options: &TextOptions) -> Result<String, Failure> {
    let table = of_all(answers)?.render(format, options)?;
    // Data alone is what programs read.
    let is_data = format == Format::Json || format.is_csv();
    Ok(if is_data { table } else { format.sentences(&title(answers), options) + &table })
}

/// What the table of all machines is about.
fn title(answers: &[Answer<'_>]) -> String {
    let Some(answer) = answers.first() else { return String::new() };
    let runs = [("prefill", &answer.prefill), ("decode", &answer.decode)];
    let runs: Vec<String> = runs
        .iter()
        .filter_map(|(name, run)| run.as_ref().map(|run| format!("{name} of {}", described(run))))
        .collect();
    let gpus = match answer.division.tensor {
        1 => "1 GPU".to_owned(),
        gpus => format!("{gpus} GPUs"),
    };
    format!("{} on {gpus}: {}\n\n", answer.model.name, runs.join("; "))
}

/// All machines in one table.
fn of_all(answers: &[Answer<'_>]) -> Result<Table, ReportError> {
    let mut columns = vec![Column::text("machine", "machine")];
    for (key, name) in [("prefill", "prefill"), ("decode", "decode")] {
        columns.extend([
            Column::number(format!("{key}_ms"), name).unit("ms").rank(0),
            Column::number(format!("{key}_low_ms"), "from").rank(2),
            Column::number(format!("{key}_high_ms"), "to").rank(2),
        ]);
    }
    columns.extend([
        Column::number("memory_gb", "memory").unit("GB").rank(1),
        Column::text("fits", "fits"),
        Column::text("bottleneck", "longest part"),
    ]);
    let mut table = Table::new("Machines", columns)?;
    for answer in answers {
        let mut cells = vec![Cell::text(answer.machine.name.clone())];
        for run in [&answer.prefill, &answer.decode] {
            let estimate = run.as_ref().and_then(|run| run.estimate.as_ref().ok());
            for time in [
                estimate.map(|estimate| estimate.nanoseconds),
                estimate.map(|estimate| estimate.low),
                estimate.map(|estimate| estimate.high),
            ] {
                cells.push(Cell::optional(time, |time| Cell::float(time / MS, 3)));
            }
        }
        let memory = answer.memory;
        let fits = match (memory.fits(), answer.enough) {
            (true, _) => "yes".to_owned(),
            (false, Some(gpus)) => format!("no, {gpus} GPUs would"),
            (false, None) => "no".to_owned(),
        };
        let longest = answer.first().and_then(|run| run.estimate.as_ref().ok());
        let longest = longest.and_then(|estimate| estimate.parts.first());
        cells.extend([
            Cell::float(memory.weights.saturating_add(memory.cache) as f64 / 1e9, 1),
            Cell::text(fits),
            Cell::optional(longest, |part| {
                Cell::text(format!("{}, {}", part.part.name(), part.bound.name()))
            }),
        ]);
        table.push(cells)?;
    }
    Ok(table)
}

/// A run in JSON; `null` where it was not asked for.
fn run_in_json(run: Option<&Run>) -> Value {
    let Some(run) = run else { return Value::Null };
    let estimate = run.estimate.as_ref().ok();
    let parts = estimate.map_or(&[][..], |estimate| &estimate.parts);
    let parts: Vec<Value> = parts
        .iter()
        .map(|part| {
            json!({
                "part": part.part.name(),
                "time_ms": part.nanoseconds / MS,
                "time_low_ms": part.low / MS,
                "time_high_ms": part.high / MS,
                "bottleneck": part.bound.name(),
                "source": part.basis.iter().map(|basis| basis.name()).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "batch": run.pass.batch,
        "tokens": run.pass.tokens,
        "time_ms": estimate.map(|estimate| estimate.nanoseconds / MS),
        "time_low_ms": estimate.map(|estimate| estimate.low / MS),
        "time_high_ms": estimate.map(|estimate| estimate.high / MS),
        "not_estimated": run.estimate.as_ref().err(),
        "tokens_per_second": run.tokens_per_second(),
        "flops": estimate.map(|estimate| estimate.flops),
        "kernels": estimate.map(|estimate| estimate.launches),
        "parts": parts,
    })
}

/// The form of the JSON (`docs/FORMATS.md`).
pub(super) fn json(answer: &Answer<'_>) -> Result<String, Failure> {
    let (model, machine, memory) = (answer.model, answer.machine, answer.memory);
    let first = run_in_json(answer.first());
    let curve: Vec<Value> = answer
        .curve
        .iter()
        .map(|point| {
            let run = run_in_json(Some(&point.run));
            json!({
                "batch": run["batch"],
                "time_ms": run["time_ms"],
                "time_low_ms": run["time_low_ms"],
                "time_high_ms": run["time_high_ms"],
                "tokens_per_second": run["tokens_per_second"],
                "fits": point.fits,
            })
        })
        .collect();
    let document = json!({
        "format": "flopgap-language-estimate",
        "version": 1,
        "model": model.name,
        "architecture": model.kind,
        "parameters": model.parameters(),
        "active_parameters": model.active_parameters(),
        "weights": model.linear.name(),
        "experts": model.experts.name(),
        "machine": machine.name,
        "device": machine.device,
        "tensor_parallel": answer.division.tensor,
        "expert_parallel": answer.division.experts,
        "assumptions": answer.assumptions(),
        "time_ms": first["time_ms"],
        "time_low_ms": first["time_low_ms"],
        "time_high_ms": first["time_high_ms"],
        "weights_bytes": memory.weights,
        "cache_bytes": memory.cache,
        "capacity_bytes": memory.capacity,
        "fits": memory.fits(),
        "gpus_that_fit": answer.enough,
        "prefill": run_in_json(answer.prefill.as_ref()),
        "decode": run_in_json(answer.decode.as_ref()),
        "curve": curve,
    });
    let written = serde_json::to_string_pretty(&document);
    let written =
        written.map_err(|error| Failure::new(format!("the estimate cannot be written: {error}")))?;
    Ok(written + "\n")
}
