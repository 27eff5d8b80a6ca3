//! Results as tables: for readers a row for each implementation with its clocks side by side, for
//! programs a row for each measurement.

use std::fmt::Write as _;

use flopgap_mlp::Precision;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};

use crate::results::{Clock, Measurement, Results};
use crate::unique;

/// The results in a format.
///
/// # Errors
/// Never.
pub(crate) fn render(
    results: &Results,
    format: Format,
    options: &TextOptions,
) -> Result<String, ReportError> {
    if format.is_csv() || format == Format::Json {
        return lines(results)?.render(format, options);
    }
    let mut text = format.sentences(&heading(results), options);
    for table in tables(results)? {
        let _ = write!(text, "\n{}", table.render(format, options)?);
    }
    let _ = write!(text, "\n{}", format.sentences(&explained(results), options));
    Ok(text)
}

/// The device, and the peaks behind the floor.
fn heading(results: &Results) -> String {
    let mut text = results.device.clone();
    if let Some(peaks) = &results.peaks {
        text.push_str(". Floor: ");
        for precision in unique(results.measurements.iter().map(|m| m.subject.precision.as_str())) {
            if let Ok(parsed) = precision.parse::<Precision>() {
                let _ = write!(text, "{} TFLOP/s {precision}, ", short(peaks.rate(parsed) / 1e12));
            }
        }
        let _ = write!(text, "{} GB/s ({})", short(peaks.memory / 1e9), peaks.origin);
    }
    text.push('\n');
    text
}

/// Explanations of the columns that are present.
fn explained(results: &Results) -> String {
    let mut text = String::from("Times are medians in microseconds; p10 and p90 are the first clock's.\n");
    let mut explain = |column: &str, meaning: &str| {
        let _ = writeln!(text, "- {column}: {meaning}");
    };
    for clock in clocks(results) {
        explain(heading_of(clock), meaning_of(clock));
    }
    if results.peaks.is_some() {
        explain("of floor", "the least time that the peaks allow, as a part of the time by the first clock");
    }
    explain("error", "the largest relative one of outputs and gradients against 64 bits");
    if let Some(baseline) = results.baseline() {
        explain(&format!("x {baseline}"), "times as fast as that");
    }
    if results.with_peers() {
        explain("x peers", "times as fast as the fastest other program");
    }
    text
}

fn heading_of(clock: Clock) -> &'static str {
    match clock {
        Clock::Graph => "graph",
        Clock::GraphCold => "cold L2",
        Clock::Launch => "launch",
        Clock::Host => "host",
    }
}

fn meaning_of(clock: Clock) -> &'static str {
    match clock {
        Clock::Graph => "the work alone, in a CUDA graph",
        Clock::GraphCold => "the same after the second-level cache was emptied",
        Clock::Launch => "one launch between two events",
        Clock::Host => "what a program waits",
    }
}

/// The clocks that something was measured by.
fn clocks(results: &Results) -> Vec<Clock> {
    let measured = |clock: &Clock| results.measurements.iter().any(|m| m.timing == clock.name());
    Clock::ALL.into_iter().filter(measured).collect()
}

/// A table for each network and precision.
fn tables(results: &Results) -> Result<Vec<Table>, ReportError> {
    let groups =
        unique(results.measurements.iter().map(|m| (m.subject.size.as_str(), m.subject.precision.as_str())));
    groups.into_iter().map(|(size, precision)| table(results, size, precision)).collect()
}

fn table(results: &Results, size: &str, precision: &str) -> Result<Table, ReportError> {
    let (clocks, baseline, with_peers) = (clocks(results), results.baseline(), results.with_peers());
    let mut columns = vec![
        Column::text("pass", "pass"),
        Column::number("batch", "batch").rank(0),
        Column::text("impl", "implementation").rank(0),
    ];
    for (at, &clock) in clocks.iter().enumerate() {
        // The speed-up is that of the first clock.
        let rank = u8::from(at > 0);
        columns.push(Column::number(clock.name(), heading_of(clock)).rank(rank));
        if at == 0 {
            columns
                .extend([Column::number("p10_us", "p10").rank(3), Column::number("p90_us", "p90").rank(3)]);
        }
    }
    columns.extend([
        Column::number("tflops", "TFLOP/s").rank(2),
        Column::number("gbps", "GB/s").rank(3),
        Column::number("floor_fraction", "of floor").rank(1),
        Column::number("max_rel_error", "error").rank(2),
    ]);
    columns.extend(baseline.map(|name| Column::number("speed_up", format!("x {name}")).rank(0)));
    if with_peers {
        columns.push(Column::number("against_peers", "x peers"));
    }
    let title = match size.parse::<flopgap_mlp::Size>() {
        Ok(named) => {
            let widths: Vec<String> = named.network().widths().iter().map(usize::to_string).collect();
            format!("{size} ({}), {precision}", widths.join("-"))
        }
        Err(_) => format!("{size}, {precision}"),
    };
    let mut table = Table::new(title, columns)?;

    let group: Vec<&Measurement> = results
        .measurements
        .iter()
        .filter(|m| m.subject.size == size && m.subject.precision == precision)
        .collect();
    let mut before = None;
    for pass in unique(group.iter().map(|m| m.subject.pass.as_str())) {
        let of_pass = || group.iter().filter(move |m| m.subject.pass == pass);
        for batch in unique(of_pass().map(|m| m.subject.batch)) {
            let of_batch = || of_pass().filter(move |m| m.subject.batch == batch);
            for implementation in unique(of_batch().map(|m| m.subject.implementation.as_str())) {
                let of = |clock: Clock| {
                    of_batch()
                        .find(|m| m.subject.implementation == implementation && m.timing == clock.name())
                };
                let Some(first) = clocks.iter().find_map(|&clock| of(clock)) else { continue };
                let new_pass = before.is_none_or(|(shown, _)| shown != pass);
                let new_batch = new_pass || before.is_none_or(|(_, shown)| shown != batch);
                before = Some((pass, batch));
                let mut row = vec![
                    Cell::text(if new_pass { pass } else { "" }),
                    if new_batch { Cell::from(batch as u64) } else { Cell::text("") },
                    Cell::text(implementation),
                ];
                for (at, &clock) in clocks.iter().enumerate() {
                    row.push(Cell::optional(of(clock).map(|m| m.median_us), float));
                    if at == 0 {
                        // Where this clock is not there, the columns are another's.
                        let of_first = of(clock);
                        row.push(Cell::optional(of_first.and_then(|m| m.p10_us), float));
                        row.push(Cell::optional(of_first.and_then(|m| m.p90_us), float));
                    }
                }
                row.extend(rates(first));
                row.extend(
                    baseline.map(|_| Cell::optional(results.speed_up(first), |times| Cell::float(times, 2))),
                );
                if with_peers {
                    row.push(Cell::optional(results.against_peers(first), |times| Cell::float(times, 2)));
                }
                table.push(row)?;
            }
        }
    }
    Ok(table)
}

/// Rates, the percentage of the floor, and the error.
fn rates(m: &Measurement) -> [Cell; 4] {
    [
        float(m.tflops),
        float(m.gbps),
        Cell::optional(m.floor_fraction, |part| Cell::percent(part, 1)),
        Cell::optional(m.max_rel_error, |error| Cell::text(format!("{error:.1e}"))),
    ]
}

/// A row for each measurement.
fn lines(results: &Results) -> Result<Table, ReportError> {
    let with_peers = results.with_peers();
    let mut columns = vec![
        Column::text("impl", "implementation"),
        Column::text("size", "network"),
        Column::text("precision", "type"),
        Column::text("pass", "pass"),
        Column::number("batch", "batch"),
        Column::text("timing", "clock"),
        Column::number("median_us", "median"),
        Column::number("p10_us", "p10"),
        Column::number("p90_us", "p90"),
        Column::number("tflops", "TFLOP/s"),
        Column::number("gbps", "GB/s"),
        Column::number("floor_fraction", "of floor"),
        Column::number("max_rel_error", "error"),
        Column::number("speed_up", "speed-up"),
    ];
    if with_peers {
        columns.push(Column::number("against_peers", "x peers"));
    }
    let mut table = Table::new(results.device.clone(), columns)?;
    for m in &results.measurements {
        let mut row = vec![
            Cell::text(&m.subject.implementation),
            Cell::text(&m.subject.size),
            Cell::text(&m.subject.precision),
            Cell::text(&m.subject.pass),
            Cell::from(m.subject.batch as u64),
            Cell::text(&m.timing),
            float(m.median_us),
            Cell::optional(m.p10_us, float),
            Cell::optional(m.p90_us, float),
        ];
        row.extend(rates(m));
        row.push(Cell::optional(results.speed_up(m), |times| Cell::float(times, 2)));
        if with_peers {
            row.push(Cell::optional(results.against_peers(m), |times| Cell::float(times, 2)));
        }
        table.push(row)?;
    }
    Ok(table)
}

/// At least three digits.
pub(crate) fn float(value: f64) -> Cell {
    Cell::float(value, decimals(value))
}

fn short(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

fn decimals(value: f64) -> usize {
    match value {
        value if value < 0.1 => 4,
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::{Peaks, Work};
    use crate::results::Subject;
    use flopgap_gpu::timing::Samples;

    fn results() -> Results {
        let measured = |implementation: &str, batch, clock: Clock, median: f64| {
            let subject = Subject {
                implementation: implementation.to_owned(),
                size: "small".to_owned(),
                precision: "fp16".to_owned(),
                pass: "forward".to_owned(),
                batch,
            };
            let work = Work { flops: 2e6, bytes: 4e3 };
            Measurement::new(&subject, clock.name(), &Samples::new(vec![median]), &work, Some(0.5), 1e-4)
        };
        Results {
            device: "a device".to_owned(),
            peaks: Some(Peaks { fp32: 60e12, half: 790e12, memory: 4.3e12, origin: "as given".to_owned() }),
            measurements: vec![
                measured("forloop", 1, Clock::Graph, 8000.0),
                measured("forloop", 1, Clock::Host, 16_000.0),
                measured("coopmat", 1, Clock::Graph, 2000.0),
                measured("coopmat", 1, Clock::Host, 10_000.0),
                measured("coopmat", 2, Clock::Graph, 2000.0),
            ],
        }
    }

    #[test]
    fn readers_see_the_clocks_side_by_side_and_the_speed_up_against_the_for_loop() {
        let text = render(&results(), Format::Table, &TextOptions::default()).unwrap();
        let expected = "\
a device. Floor: 790 TFLOP/s fp16, 4300 GB/s (as given)

small (64-64-16), fp16
pass     batch  implementation  graph   p10   p90  host  TFLOP/s   GB/s  of floor   error  x forloop
────────────────────────────────────────────────────────────────────────────────────────────────────
forward      1  forloop          8.00  8.00  8.00  16.0    0.250  0.500      6.2%  1.0e-4       1.00
                coopmat          2.00  2.00  2.00  10.0     1.00   2.00     25.0%  1.0e-4       4.00
             2  coopmat          2.00  2.00  2.00     -     1.00   2.00     25.0%  1.0e-4          -

Times are medians in microseconds; p10 and p90 are the first clock's.
- graph: the work alone, in a CUDA graph
- host: what a program waits
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("- x forloop: times as fast as that\n"), "{text}");
    }

    #[test]
    fn programs_get_a_row_for_each_measurement() {
        let csv = render(&results(), Format::Csv, &TextOptions::default()).unwrap();
        assert_eq!(csv.lines().count(), 6);
        assert!(csv.lines().nth(2).unwrap().starts_with("forloop,small,fp16,forward,1,cpu,16,"), "{csv}");
    }
}
