//! `flopgap bench diff BEFORE AFTER`: what became slower or faster.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format, Table};
use serde::Deserialize;

use crate::failed;
use crate::results::{self, Subject};
use crate::table::float;

/// Arguments of `diff`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  flopgap bench diff before.json after.json --fail-if-slower 5")]
pub(crate) struct Arguments {
    /// Output of --format json before the change
    before: PathBuf,
    /// Output of --format json after it, or on another machine
    after: PathBuf,
    /// Show only changes: leave out those within the spread of the measurements
    #[arg(long)]
    changed: bool,
    /// Smallest change in percent that counts, since a restarted program is slightly faster or
    /// slower
    #[arg(long, value_name = "PERCENT", value_parser = flopgap_cli::percentage, default_value = "2")]
    noise: f64,
    /// Exit with code 1 if something is slower by more than this percentage and by more than the
    /// spread
    #[arg(long, value_name = "PERCENT", value_parser = flopgap_cli::percentage)]
    fail_if_slower: Option<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The compared part of the output of --format json.
#[derive(Debug, Deserialize)]
struct Document {
    device: String,
    results: Vec<Measured>,
}

#[derive(Debug, Clone, Deserialize)]
struct Measured {
    #[serde(flatten)]
    subject: Subject,
    timing: String,
    median_us: f64,
    p10_us: Option<f64>,
    p90_us: Option<f64>,
}

impl Measured {
    /// Whether two results are of the same thing, by the same clock.
    fn matches(&self, other: &Measured) -> bool {
        self.subject == other.subject && self.timing == other.timing
    }

    fn name(&self) -> String {
        format!("{} ({})", self.subject, self.timing)
    }
}

/// The same thing in both.
#[derive(Debug)]
struct Pair<'a> {
    before: Option<&'a Measured>,
    after: Option<&'a Measured>,
}

impl Pair<'_> {
    fn either(&self) -> Option<&Measured> {
        self.before.or(self.after)
    }

    /// The time after, as a fraction of the time before.
    fn ratio(&self) -> Option<f64> {
        Some(self.after?.median_us / self.before?.median_us)
    }

    /// Whether the two differ by more than they scatter: by more than the noise, a percentage, and
    /// the ranges from the tenth to the ninetieth percentile do not touch. Where there are no
    /// percentiles, the medians are compared.
    fn is_beyond(&self, noise: f64) -> bool {
        let (Some(before), Some(after)) = (self.before, self.after) else { return false };
        if (after.median_us / before.median_us - 1.0).abs() <= noise / 100.0 {
            return false;
        }
        let range = |m: &Measured| (m.p10_us.unwrap_or(m.median_us), m.p90_us.unwrap_or(m.median_us));
        let ((low, high), (other_low, other_high)) = (range(before), range(after));
        high < other_low || other_high < low
    }
}

/// Compares and prints.
///
/// # Errors When a file is not what --format json prints; when nothing in them is the same; when
/// something is too slow.
pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let (before, after) = (read(&arguments.before, console)?, read(&arguments.after, console)?);
    let pairs = pairs(&before.results, &after.results);
    let compared = pairs.iter().filter(|pair| pair.ratio().is_some()).count();
    if compared == 0 {
        let what = format!(
            "{} and {} have no measurement of the same implementation, network, type, pass, batch and clock",
            arguments.before.display(),
            arguments.after.display()
        );
        return Err(Failure::new(what).exit(Exit::Absent));
    }
    let format = arguments.output.format();
    let table = table(&pairs, arguments.noise, arguments.changed).map_err(failed)?;
    let mut text = table.render(format, &arguments.output.text()).map_err(failed)?;
    if matches!(format, Format::Table | Format::Markdown) {
        let summary = summary(&before.device, &after.device, &pairs, arguments.noise);
        let _ = write!(text, "\n{}", format.sentences(&summary, &arguments.output.text()));
    }
    arguments.output.write(console, &text)?;
    match arguments.fail_if_slower.map(|percent| too_slow(&pairs, arguments.noise, percent)) {
        Some(Some(slow)) => Err(Failure::new(slow)),
        _ => Ok(()),
    }
}

fn read(path: &Path, console: Console) -> Result<Document, Failure> {
    let failure = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let what = format_args!("{}: results of flopgap bench, read", path.display());
    let text = console.timed(what, || results::read(path))?;
    let document: Document = serde_json::from_slice(&text).map_err(|error| {
        failure(error.to_string()).hint("it must be what flopgap bench --format json prints")
    })?;
    match document.results.iter().find(|m| !(m.median_us.is_finite() && m.median_us > 0.0)) {
        Some(wrong) => Err(failure(format!("{}: the median is {} us", wrong.name(), wrong.median_us))),
        None => Ok(document),
    }
}

/// Everything in the order of the first, then what only the second has.
fn pairs<'a>(before: &'a [Measured], after: &'a [Measured]) -> Vec<Pair<'a>> {
    let same = |all: &'a [Measured], of: &Measured| all.iter().find(|m| m.matches(of));
    let mut pairs: Vec<Pair<'_>> =
        before.iter().map(|m| Pair { before: Some(m), after: same(after, m) }).collect();
    let new = after.iter().filter(|m| same(before, m).is_none());
    pairs.extend(new.map(|m| Pair { before: None, after: Some(m) }));
    pairs
}

fn table(pairs: &[Pair<'_>], noise: f64, changed: bool) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Medians before and after",
        [
            Column::text("size", "network"),
            Column::text("precision", "type"),
            Column::text("pass", "pass"),
            Column::number("batch", "batch").rank(0),
            Column::text("impl", "implementation").rank(0),
            Column::text("timing", "clock"),
            Column::number("before_us", "before").unit("µs"),
            Column::number("after_us", "after").unit("µs"),
            Column::number("difference_us", "difference").unit("µs").rank(3),
            Column::number("change", "change").rank(0),
            Column::number("speed_up", "speed-up").rank(3),
            Column::text("verdict", "verdict").rank(0),
        ],
    )?;
    for pair in pairs.iter().filter(|pair| !changed || pair.ratio().is_none() || pair.is_beyond(noise)) {
        let Some(m) = pair.either() else { continue };
        let verdict = match pair.ratio() {
            None if pair.before.is_none() => "new",
            None => "gone",
            Some(_) if !pair.is_beyond(noise) => "within scatter",
            Some(ratio) if ratio > 1.0 => "slower",
            Some(_) => "faster",
        };
        let difference =
            pair.before.zip(pair.after).map(|(before, after)| after.median_us - before.median_us);
        table.push([
            Cell::text(&m.subject.size),
            Cell::text(&m.subject.precision),
            Cell::text(&m.subject.pass),
            Cell::from(m.subject.batch as u64),
            Cell::text(&m.subject.implementation),
            Cell::text(&m.timing),
            Cell::optional(pair.before, |m| float(m.median_us)),
            Cell::optional(pair.after, |m| float(m.median_us)),
            Cell::optional(difference, |us| Cell::float(us, 2)),
            Cell::optional(pair.ratio(), |ratio| Cell::signed_percent(ratio - 1.0, 1)),
            Cell::optional(pair.ratio(), |ratio| Cell::float(1.0 / ratio, 2)),
            Cell::text(verdict),
        ])?;
    }
    Ok(table)
}

fn summary(before: &str, after: &str, pairs: &[Pair<'_>], noise: f64) -> String {
    let ratios: Vec<f64> = pairs.iter().filter_map(Pair::ratio).collect();
    let beyond = |slower: bool| {
        let counts = |pair: &&Pair<'_>| {
            pair.is_beyond(noise) && pair.ratio().is_some_and(|ratio| (ratio > 1.0) == slower)
        };
        pairs.iter().filter(counts).count()
    };
    let (slower, faster) = (beyond(true), beyond(false));
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let mut text = format!(
        "{} compared: {faster} faster, {slower} slower, {} within scatter (less than {noise}%, or the ranges from p10 to p90 touch). On the geometric mean, times changed by {:+.1}%.\n",
        ratios.len(),
        ratios.len() - slower - faster,
        (mean - 1.0) * 100.0
    );
    if before == after {
        let _ = writeln!(text, "Both on {before}.");
    } else {
        let _ = writeln!(text, "Before on {before}, after on {after}.");
    }
    text
}

/// What is slower by more than a percentage and its scatter.
fn too_slow(pairs: &[Pair<'_>], noise: f64, percent: f64) -> Option<String> {
    let mut text = String::new();
    for pair in pairs.iter().filter(|pair| pair.is_beyond(noise)) {
        let (Some(before), Some(after), Some(ratio)) = (pair.before, pair.after, pair.ratio()) else {
            continue;
        };
        if ratio > 1.0 + percent / 100.0 {
            let _ = write!(
                text,
                "\n  {}: {:.2} us before, {:.2} us after ({:+.1}%)",
                before.name(),
                before.median_us,
                after.median_us,
                (ratio - 1.0) * 100.0
            );
        }
    }
    (!text.is_empty()).then(|| format!("slower by more than {percent}%:{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(batch: usize, times: [f64; 3]) -> Measured {
        let [low, median, high] = times;
        Measured {
            subject: Subject {
                implementation: "coopmat".to_owned(),
                size: "small".to_owned(),
                precision: "fp16".to_owned(),
                pass: "forward".to_owned(),
                batch,
            },
            timing: "gpu-graph".to_owned(),
            median_us: median,
            p10_us: Some(low),
            p90_us: Some(high),
        }
    }

    #[test]
    fn a_change_counts_where_it_is_larger_than_the_scatter() {
        let before = [measured(1, [9.0, 10.0, 11.0]), measured(2, [9.0, 10.0, 11.0]), measured(3, [1.0; 3])];
        let after = [measured(2, [11.5, 12.0, 13.0]), measured(1, [10.5, 12.0, 13.0]), measured(4, [1.0; 3])];
        let pairs = pairs(&before, &after);
        let verdicts: Vec<(Option<f64>, bool)> =
            pairs.iter().map(|pair| (pair.ratio(), pair.is_beyond(2.0))).collect();
        assert_eq!(verdicts, [(Some(1.2), false), (Some(1.2), true), (None, false), (None, false)]);
        assert!(
            too_slow(&pairs, 2.0, 10.0)
                .unwrap()
                .contains("batch 2 (gpu-graph): 10.00 us before, 12.00 us after (+20.0%)")
        );
        assert_eq!(too_slow(&pairs, 2.0, 25.0), None);
        let said = summary("A", "B", &pairs, 2.0);
        assert!(said.starts_with("2 compared: 0 faster, 1 slower, 1 within scatter"), "{said}");
        assert!(said.contains("+20.0%") && said.ends_with("Before on A, after on B.\n"), "{said}");
        assert_eq!(table(&pairs, 2.0, false).unwrap().rows().len(), 4);
        assert_eq!(table(&pairs, 2.0, true).unwrap().rows().len(), 3);
    }
}
