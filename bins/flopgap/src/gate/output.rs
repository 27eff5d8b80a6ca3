//! The verdict as text, Markdown, JSON and a test suite of `JUnit`.

use std::cmp::Ordering;
use std::fmt::Write as _;

use clap::ValueEnum;
use flopgap_cli::{Console, Failure};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format as TableFormat, Table, TextOptions};
use flopgap_report::text::escape;
use flopgap_timings::diff::Judged;
use serde_json::json;

use super::exact::{Row, number, outcome};
use super::times::Outcome;
use super::{Arguments, Compared, Verdict};
use crate::PROGRAM;

/// The format of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns for reading in a terminal.
    #[default]
    Table,
    /// A comment for a pull request.
    Markdown,
    /// One JSON document, numbers unformatted.
    Json,
    /// A test suite for CI, with a test for each amount and time.
    Junit,
}

/// How many names a reader sees of a row.
const NAMES: usize = 6;

pub(super) fn write(compared: &Compared, arguments: &Arguments) -> Result<(), Failure> {
    let file = arguments.output.as_deref().filter(|path| *path != std::path::Path::new("-"));
    let by_ending = || match file?.extension()?.to_str()? {
        "md" => Some(Format::Markdown),
        "json" => Some(Format::Json),
        "xml" => Some(Format::Junit),
        _ => None,
    };
    let text = match arguments.format.or_else(by_ending).unwrap_or_default() {
        Format::Table => {
            let options = if file.is_some() { TextOptions::default() } else { TextOptions::for_stdout() };
            for_readers(compared, arguments, TableFormat::Table, &options)?
        }
        Format::Markdown => for_readers(compared, arguments, TableFormat::Markdown, &TextOptions::default())?,
        Format::Json => in_json(compared, arguments)?,
        Format::Junit => in_junit(compared),
    };
    flopgap_cli::write_answer(Console::from(PROGRAM), file, &text)
}

/// What failed, in one line each; what cannot be said, where nothing failed.
fn findings(compared: &Compared) -> Vec<String> {
    let mut found = Vec::new();
    for row in &compared.rows {
        if row.fails || row.is_undecided() {
            found.push(sentence(row));
        }
    }
    for judged in &compared.times.judged {
        match compared.times.outcome(judged) {
            Outcome::Slower => {
                found.push(format!("{}: slower, {}", name_of(compared, judged), interval(judged)));
            }
            // Of passes the table says it.
            Outcome::Open if judged.pass.is_none() && !compared.times.are_undecided() => found.push(format!(
                "{}: scatter may hide that it is slower, {}",
                name_of(compared, judged),
                interval(judged)
            )),
            _ => {}
        }
    }
    if compared.times.are_undecided() {
        found
            .push("times: cannot tell whether it is slower, with so few of them and such scatter".to_owned());
    }
    found
}

fn sentence(row: &Row) -> String {
    let amount = |amount: Option<f64>| {
        amount.map_or_else(|| "not known".to_owned(), |amount| number(amount).display())
    };
    format!("{}: {} before, {} after", name(row), amount(row.before), amount(row.after))
}

fn name(row: &Row) -> String {
    match &row.of {
        Some(of) => format!("{}, {of}", row.what),
        None => row.what.to_string(),
    }
}

/// A time by its range: `step_*, GPU busy time`.
fn name_of(compared: &Compared, judged: &Judged) -> String {
    match (&judged.pass, &compared.times.scope) {
        (Some(pass), _) => format!("{pass}, {}", judged.by),
        (None, Some([_, after])) => format!("{after}, {}", judged.by),
        (None, None) => "run".to_owned(),
    }
}

fn interval(judged: &Judged) -> String {
    let percent = |fraction: f64| Cell::signed_percent(fraction, 1).display();
    match judged.shift {
        Some(shift) => {
            format!("{} ({} to {})", percent(shift.change), percent(shift.low), percent(shift.high))
        }
        None => "of unknown scatter".to_owned(),
    }
}

/// The first line: what the exit code says.
fn headline(compared: &Compared, arguments: &Arguments) -> String {
    let equal = compared.rows.iter().filter(|row| row.change == Some(Ordering::Equal)).count();
    let all = compared.rows.len();
    let verdict = match compared.verdict() {
        Verdict::Passed => "PASSED",
        Verdict::Failed => "FAILED",
        Verdict::Undecided => "UNDECIDED",
    };
    let advisory = if arguments.advisory { " (advisory)" } else { "" };
    let amounts = if all > 0 { format!(": {equal} of {all} amounts are equal") } else { String::new() };
    format!("{verdict}{advisory}{amounts}")
}

fn for_readers(
    compared: &Compared,
    arguments: &Arguments,
    format: TableFormat,
    options: &TextOptions,
) -> Result<String, Failure> {
    let is_markdown = format == TableFormat::Markdown;
    let bullet = if is_markdown { "-" } else { " " };
    let headline = headline(compared, arguments);
    let mut parts = vec![if is_markdown { format!("### flopgap gate: {headline}") } else { headline }];
    let lines: Vec<String> = findings(compared).iter().map(|finding| format!("{bullet} {finding}")).collect();
    if !lines.is_empty() {
        parts.push(lines.join("\n"));
    }
    if !compared.rows.is_empty() {
        parts.push(exact_table(compared)?.render(format, options)?.trim_end().to_owned());
    }
    for row in compared.rows.iter().filter(|row| !row.details.is_empty()) {
        let mut text = format!("{}:", name(row));
        let shown = row.details.len().min(NAMES);
        for detail in &row.details[..shown] {
            let _ = write!(text, "\n{bullet} {detail}");
        }
        if shown < row.details.len() {
            let _ = write!(text, "\n{bullet} and {} more", row.details.len() - shown);
        }
        parts.push(text);
    }
    if !compared.times.judged.is_empty() {
        parts.push(times_table(compared)?.render(format, options)?.trim_end().to_owned());
    }
    Ok(parts.join("\n\n"))
}

fn exact_table(compared: &Compared) -> Result<Table, ReportError> {
    let [before, after] = &compared.names;
    let scope = match &compared.times.scope {
        Some([before, after]) if before == after => format!(", one `{after}`"),
        Some([before, after]) => format!(", one `{before}` and one `{after}`"),
        None => String::new(),
    };
    let columns = [
        Column::text("what", "what"),
        Column::text("of", "of").rank(2),
        Column::number("before", "before"),
        Column::number("after", "after"),
        Column::number("change", "change").rank(1),
        Column::text("outcome", "outcome"),
        Column::text("verdict", "verdict"),
    ];
    let mut table = Table::new(format!("{before} and {after}{scope}"), columns)?;
    for row in &compared.rows {
        let amount = |amount: Option<f64>| Cell::optional(amount, number);
        let verdict = match (row.fails, row.change) {
            (true, _) => "FAILED",
            (false, None) if !row.allowed => "cannot tell",
            _ => "passed",
        };
        table.push([
            Cell::text(row.what.to_string()),
            Cell::optional(row.of.clone(), Cell::text),
            amount(row.before),
            amount(row.after),
            Cell::optional(row.fraction(), |fraction| Cell::signed_percent(fraction, 2)),
            Cell::text(outcome(row.change)),
            Cell::text(verdict),
        ])?;
    }
    Ok(table)
}

fn times_table(compared: &Compared) -> Result<Table, ReportError> {
    let columns = [
        Column::text("time", "time"),
        Column::number("n_before", "n before").rank(3),
        Column::number("n_after", "after").rank(3),
        Column::number("median_before_ms", "median before").unit("ms"),
        Column::number("median_after_ms", "after").unit("ms"),
        Column::number("change", "change").rank(0),
        Column::number("low", "from").rank(1),
        Column::number("high", "to").rank(1),
        Column::text("verdict", "verdict").rank(0),
    ];
    let mut table = Table::new("Medians; 98% interval of the change", columns)?;
    for judged in &compared.times.judged {
        let [before, after] = judged.samples;
        let percent =
            |fraction: Option<f64>| Cell::optional(fraction, |fraction| Cell::signed_percent(fraction, 2));
        table.push([
            Cell::text(name_of(compared, judged)),
            Cell::from(before.count),
            Cell::from(after.count),
            Cell::float(before.median_ns / 1e6, 3),
            Cell::float(after.median_ns / 1e6, 3),
            percent(judged.shift.map(|shift| shift.change)),
            percent(judged.shift.map(|shift| shift.low)),
            percent(judged.shift.map(|shift| shift.high)),
            Cell::text(compared.times.outcome(judged).in_words()),
        ])?;
    }
    Ok(table)
}

fn in_json(compared: &Compared, arguments: &Arguments) -> Result<String, Failure> {
    let [before, after] = &compared.names;
    let times = compared.times.judged.iter().map(|judged| {
        json!({
            "time": name_of(compared, judged),
            "outcome": compared.times.outcome(judged),
            "count": judged.samples.map(|sample| sample.count),
            "median_ns": judged.samples.map(|sample| sample.median_ns),
            "change": judged.shift.map(|shift| shift.change),
            "low": judged.shift.map(|shift| shift.low),
            "high": judged.shift.map(|shift| shift.high),
        })
    });
    let document = json!({
        "format": "flopgap-gate",
        "version": 1,
        "kind": compared.kind,
        "before": before,
        "after": after,
        "verdict": compared.verdict(),
        "advisory": arguments.advisory,
        "fail_if_slower_percent": arguments.fail_if_slower,
        "findings": findings(compared),
        "amounts": compared.rows,
        "times": times.collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&document).map_err(|error| Failure::from_error(&error))
}

/// One test for each amount and each time that is judged; what cannot be decided is skipped.
fn in_junit(compared: &Compared) -> String {
    enum Ended {
        Passed,
        Failed(String),
        Skipped(String),
    }
    let rows = compared.rows.iter().map(|row| {
        let text =
            std::iter::once(sentence(row)).chain(row.details.iter().cloned()).collect::<Vec<_>>().join("\n");
        let ended = match (row.fails, row.change.is_none()) {
            (true, _) => Ended::Failed(text),
            (false, true) => Ended::Skipped(text),
            (false, false) => Ended::Passed,
        };
        (name(row), ended)
    });
    let times = compared.times.judged.iter().map(|judged| {
        let ended = match compared.times.outcome(judged) {
            Outcome::Slower => Ended::Failed(interval(judged)),
            Outcome::Open => Ended::Skipped(format!("scatter may hide it: {}", interval(judged))),
            Outcome::NotJudged => Ended::Skipped("no percentage was given".to_owned()),
            Outcome::NotSlower => Ended::Passed,
        };
        (name_of(compared, judged), ended)
    });
    let (mut body, mut counts) = (String::new(), [0_u32; 3]);
    for (name, ended) in rows.chain(times) {
        counts[0] += 1;
        let _ = write!(body, "    <testcase name=\"{}\" classname=\"flopgap gate\"", escaped(&name));
        let _ = match ended {
            Ended::Passed => writeln!(body, "/>"),
            Ended::Failed(text) => {
                counts[1] += 1;
                let first = escaped(text.lines().next().unwrap_or_default());
                writeln!(body, "><failure message=\"{first}\">{}</failure></testcase>", escaped(&text))
            }
            Ended::Skipped(text) => {
                counts[2] += 1;
                writeln!(body, "><skipped message=\"{}\"/></testcase>", escaped(&text))
            }
        };
    }
    let [tests, failures, skipped] = counts;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n{body}  </testsuite>\n</testsuites>\n",
        escaped(&format!("flopgap gate: {}", compared.names[1]))
    )
}

/// Text in an attribute or element, with its line ends.
fn escaped(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("&#10;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_in_xml() {
        assert_eq!(
            escaped("a<b, \"c\">(d & e)\u{1b}\n"),
            "a&lt;b, &quot;c&quot;&gt;(d &amp; e)\u{FFFD}&#10;"
        );
    }
}
