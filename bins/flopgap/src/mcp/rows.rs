//! Rows of a table of a file: `flopgap_table` with conditions and an order.

use std::cmp::Ordering;
use std::io::{BufWriter, pipe};
use std::path::Path;
use std::thread;

use flopgap_cli::{Exit, Failure};
use flopgap_table::{Source, csv as of_table};
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;

/// A condition on a cell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// The name of a column
    column: String,
    /// How its cell is compared
    #[serde(default)]
    is: Is,
    /// What it is compared with
    value: Scalar,
}

/// A comparison.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Is {
    /// The same text or number
    #[default]
    Equal,
    /// Another text or number
    NotEqual,
    /// A text with this part, in any case
    Contains,
    /// A number of this size or larger
    AtLeast,
    /// A number of this size or smaller
    AtMost,
}

/// A number or a text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Scalar {
    Number(serde_json::Number),
    Text(String),
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}

impl Condition {
    fn holds(&self, cell: &str) -> bool {
        let value = self.value.text();
        let order = order(cell, &value);
        let is_equal = order.map_or_else(|| cell == value, Ordering::is_eq);
        match self.is {
            Is::Equal => is_equal,
            Is::NotEqual => !is_equal,
            Is::Contains => cell.to_lowercase().contains(&value.to_lowercase()),
            Is::AtLeast => order.is_some_and(Ordering::is_ge),
            Is::AtMost => order.is_some_and(Ordering::is_le),
        }
    }
}

/// Two numbers; integers of any size exactly.
fn order(one: &str, other: &str) -> Option<Ordering> {
    if let (Ok(one), Ok(other)) = (one.parse::<i128>(), other.parse::<i128>()) {
        return Some(one.cmp(&other));
    }
    one.parse::<f64>().ok()?.partial_cmp(&other.parse().ok()?)
}

/// A selection of the rows of a table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    /// A trace, report, run directory, calibration or result of flopgap bench
    pub(super) file: String,
    /// The name of a table, as `open` lists them
    table: String,
    /// Only these columns; without, all of them
    #[serde(default)]
    columns: Vec<String>,
    /// Only rows for which all of these hold
    #[serde(default, rename = "where")]
    conditions: Vec<Condition>,
    /// The rows with the largest numbers in this column first; without, in the order of the file
    #[serde(default)]
    largest: Option<String>,
    /// Leave out the first rows
    #[serde(default)]
    offset: usize,
    /// Rows at most
    #[serde(default = "super::tools::few")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

/// The rows as CSV, and how many there are.
pub(super) fn rows(asked: &Rows) -> Result<super::Said, Failure> {
    let source = Source::open(Path::new(&asked.file))?;
    let table = source.table(&asked.table)?;
    let fields: Vec<String> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
    let place = |name: &String| {
        fields.iter().position(|field| field == name).ok_or_else(|| {
            let message = format!("{}: the table `{}` has no column `{name}`", asked.file, asked.table);
            Failure::new(message).hint(format!("its columns are {}", fields.join(", "))).exit(Exit::Absent)
        })
    };
    let shown: Vec<usize> = asked.columns.iter().map(place).collect::<Result<_, _>>()?;
    let shown = if shown.is_empty() { (0..fields.len()).collect() } else { shown };
    let conditions = asked.conditions.iter().map(|condition| Ok((place(&condition.column)?, condition)));
    let mut sink = Sink {
        shown,
        conditions: conditions.collect::<Result<_, Failure>>()?,
        largest: asked.largest.as_ref().map(place).transpose()?,
        most: asked.offset.saturating_add(asked.limit.clamp(1, 1000)),
        kept: Vec::new(),
        found: 0,
        rows: 0,
    };
    // The rows are filtered while they are read: no table is held.
    let (reader, writer) = pipe().map_err(|error| Failure::from_error(&error))?;
    let written = |error: csv::Error| Failure::from_error(&error);
    thread::scope(|scope| {
        let source = scope.spawn(|| of_table::write(&table, &mut BufWriter::new(writer)));
        for record in csv::Reader::from_reader(reader).records() {
            sink.take(&record.map_err(written)?);
        }
        source.join().map_err(|_| Failure::new("reading the table ended in a panic"))??;
        Ok::<_, Failure>(())
    })?;
    sink.sort();
    let header = sink.shown.iter().map(|place| fields[*place].as_str());
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(header).map_err(written)?;
    for (_, row) in sink.kept.iter().skip(asked.offset).take(asked.limit.clamp(1, 1000)) {
        text.write_record(row).map_err(written)?;
    }
    let text = text.into_inner().map_err(|error| Failure::new(error.to_string()))?;
    let answer = String::from_utf8_lossy(&text).into_owned();
    let shown = answer.lines().count().saturating_sub(1);
    let notes =
        format!("{shown} rows from row {}, of {} that match, of {}", asked.offset, sink.found, sink.rows);
    Ok(super::Said {
        answer,
        notes: [notes].into_iter().chain(source.warnings()).collect::<Vec<_>>().join("\n"),
    })
}

/// Takes the records of a table, and keeps the first or largest.
struct Sink<'a> {
    shown: Vec<usize>,
    conditions: Vec<(usize, &'a Condition)>,
    largest: Option<usize>,
    most: usize,
    /// Rows with the numbers that order them.
    kept: Vec<(f64, Vec<String>)>,
    found: u64,
    rows: u64,
}

impl Sink<'_> {
    fn take(&mut self, record: &csv::StringRecord) {
        self.rows += 1;
        if !self.conditions.iter().all(|(place, condition)| condition.holds(&record[*place])) {
            return;
        }
        self.found += 1;
        if self.largest.is_none() && self.kept.len() >= self.most {
            return;
        }
        let number = |place: usize| record[place].parse().unwrap_or(f64::NEG_INFINITY);
        let row = self.shown.iter().map(|place| record[*place].to_owned()).collect();
        self.kept.push((self.largest.map_or(0.0, number), row));
        // Not more is held than twice what is shown.
        if self.kept.len() >= self.most.saturating_mul(2).max(1024) {
            self.sort();
        }
    }

    /// Of equal numbers, in the order of the file.
    fn sort(&mut self) {
        if self.largest.is_some() {
            self.kept.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        }
        self.kept.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_numbers_and_texts() {
        let holds = |is: &str, value: serde_json::Value, cell: &str| {
            let condition = serde_json::json!({"column": "c", "is": is, "value": value});
            serde_json::from_value::<Condition>(condition).unwrap().holds(cell)
        };
        assert!(
            holds("equal", 1.into(), "1.0")
                && holds("equal", "1".into(), "1")
                && !holds("equal", 1.into(), "")
        );
        // Beyond 53 bits.
        assert!(!holds("equal", 9_007_199_254_740_993_u64.into(), "9007199254740992"));
        assert!(holds("not_equal", "a".into(), "A") && !holds("not_equal", 2.into(), "2"));
        assert!(holds("contains", "GEMM".into(), "sgemm_nn") && !holds("contains", "x".into(), ""));
        assert!(
            holds("at_least", 10.into(), "10")
                && holds("at_least", 9.5.into(), "10")
                && !holds("at_least", 11.into(), "9")
        );
        assert!(holds("at_most", 10.into(), "9") && !holds("at_most", 10.into(), "text"));
    }

    #[test]
    fn the_largest_come_first_however_many_there_are() {
        let mut sink = Sink {
            shown: vec![0],
            conditions: Vec::new(),
            largest: Some(0),
            most: 2,
            kept: Vec::new(),
            found: 0,
            rows: 0,
        };
        for number in (0..5_000).map(|number| number * 7_919 % 5_003) {
            sink.take(&csv::StringRecord::from(vec![number.to_string()]));
            assert!(sink.kept.len() < 2_000);
        }
        sink.sort();
        let all = (0..5_000).map(|number| number * 7_919 % 5_003);
        let mut all: Vec<u32> = all.collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!(
            sink.kept.iter().map(|(_, row)| row[0].clone()).collect::<Vec<_>>(),
            [all[0].to_string(), all[1].to_string()]
        );
        assert_eq!((sink.found, sink.rows), (5_000, 5_000));
    }
}
