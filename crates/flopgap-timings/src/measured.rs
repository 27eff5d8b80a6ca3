//! Times measured outside of the profiler, such as with Python's `timeit`.

use std::fmt;

use serde_json::Value;

/// Why a list of measured times could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}{}: {what}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct MeasuredError {
    /// The file or option that the times came from.
    pub source_name: String,
    /// The line, counted from 1, where there is one.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// A unit of time, by any of the names that programs print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl Unit {
    fn of(word: &str) -> Option<Unit> {
        Some(match word {
            "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => Unit::Nanoseconds,
            "us" | "µs" | "μs" | "usec" | "usecs" | "microsecond" | "microseconds" => Unit::Microseconds,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Unit::Milliseconds,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Seconds,
            _ => return None,
        })
    }

    /// The unit that a name ends with or holds: `timeit_ms`, `time (s)`, `Mean [us]`.
    fn named_in(name: &str) -> Option<Unit> {
        let lower = name.to_lowercase();
        lower.split(|c: char| !c.is_alphabetic()).rev().find_map(Unit::of)
    }

    fn nanoseconds(self) -> f64 {
        match self {
            Unit::Nanoseconds => 1.0,
            Unit::Microseconds => 1e3,
            Unit::Milliseconds => 1e6,
            Unit::Seconds => 1e9,
        }
    }
}

/// A day: nothing longer was one pass, and the limit rejects lists of dates or counts.
const LONGEST: f64 = 86_400e9;

/// A number of a unit, as whole nanoseconds.
fn nanoseconds(number: f64, unit: Unit) -> Result<i64, String> {
    let value = (number * unit.nanoseconds()).round();
    if !(1.0..=LONGEST).contains(&value) {
        return Err(format!("{number} is no duration between a nanosecond and a day"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a day of nanoseconds fits")]
    Ok(value as i64)
}

/// A number with or without a unit behind it: `14.02`, `14.02 ms`, `139usec`.
fn quantity(text: &str, default: Unit) -> Option<Result<i64, String>> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "" => default,
        unit => Unit::of(unit)?,
    };
    Some(nanoseconds(number, unit))
}

/// The times of a list such as `14.02,13.93` or `14.02ms,0.01393s`; without a unit they are
/// milliseconds.
///
/// `None` when the text is no such list: then it may be the name of a file.
///
/// ```
/// use flopgap_timings::measured;
///
/// assert_eq!(measured::list("14.02,13.93"), Some(vec![14_020_000, 13_930_000]));
/// assert_eq!(measured::list("timeit.csv"), None);
/// ```
pub fn list(text: &str) -> Option<Vec<i64>> {
    text.split(',').map(|item| quantity(item, Unit::Milliseconds)?.ok()).collect()
}

/// The times in a file's text, in nanoseconds.
///
/// Read are: one number a line; a CSV table, of which `column` is taken (or the only column of
/// numbers); what Python's `timeit` prints (`10 loops, best of 5: 13.9 msec per loop`, with `-v`
/// its raw times divided by the loops); `IPython`'s `%timeit`; a JSON list, or an object with one.
/// Numbers carry a unit, or the column's name does (`time_ms`, `seconds`), or they are
/// milliseconds.
///
/// # Errors
/// [`MeasuredError`] with `source_name` and the line, when the text holds no times or it is not
/// clear which.
pub fn parse(source_name: &str, text: &str, column: Option<&str>) -> Result<Vec<i64>, MeasuredError> {
    let fail = |line: Option<u64>, what: &dyn fmt::Display| MeasuredError {
        source_name: source_name.to_owned(),
        line,
        what: what.to_string(),
    };
    let text = text.trim_start_matches('\u{feff}').trim();
    let one_line = if text.contains('\n') { None } else { list(text) };
    let times = if let Some(times) = one_line {
        times
    } else if text.starts_with(['[', '{']) {
        json(text, column).map_err(|what| fail(None, &what))?
    } else if let Some(times) = timeit(text).map_err(|what| fail(None, &what))? {
        times
    } else {
        table(text, column).map_err(|(line, what)| fail(line, &what))?
    };
    if times.is_empty() {
        return Err(fail(None, &"holds no times"));
    }
    Ok(times)
}

/// A list of numbers, or an object in which one value is such a list.
fn json(text: &str, column: Option<&str>) -> Result<Vec<i64>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let numbers = |value: &Value, unit: Unit| -> Option<Result<Vec<i64>, String>> {
        let numbers: Option<Vec<f64>> = match value {
            Value::Array(values) => values.iter().map(Value::as_f64).collect(),
            value => value.as_f64().map(|number| vec![number]),
        };
        Some(numbers?.into_iter().map(|number| nanoseconds(number, unit)).collect())
    };
    let unit = |name: &str| Unit::named_in(name).unwrap_or(Unit::Milliseconds);
    match &value {
        Value::Array(_) => numbers(&value, Unit::Milliseconds)
            .unwrap_or_else(|| Err("the list holds more than numbers".into())),
        Value::Object(fields) => {
            if let Some(column) = column {
                let found = fields.get(column).and_then(|value| numbers(value, unit(column)));
                found.unwrap_or_else(|| Err(format!("no field `{column}` with numbers")))
            } else {
                let lists: Vec<_> = fields.iter().filter(|(_, value)| value.is_array()).collect();
                match lists.as_slice() {
                    [(name, value)] => numbers(value, unit(name))
                        .unwrap_or_else(|| Err(format!("`{name}` holds more than numbers"))),
                    _ => Err(format!("{} of its fields are lists: name the one with the times", lists.len())),
                }
            }
        }
        _ => Err("is neither a list nor an object".into()),
    }
}

/// What `python -m timeit` or `%timeit` printed; `None` when it is neither.
fn timeit(text: &str) -> Result<Option<Vec<i64>>, String> {
    let mut raw: Option<Vec<i64>> = None;
    for line in text.lines() {
        if let Some(times) = line.strip_prefix("raw times: ") {
            let times: Option<Result<Vec<i64>, String>> =
                times.split(',').map(|time| quantity(time, Unit::Seconds)).collect();
            raw = Some(times.ok_or_else(|| format!("`{line}` is not readable"))??);
        }
        let Some((before, _)) = line.split_once(" per loop") else { continue };
        // `10 loops, best of 5: 13.9 msec`
        if let Some((loops, best)) = before.split_once(": ") {
            let count: Option<i64> =
                loops.split_once(" loop").and_then(|(count, _)| count.trim().parse().ok());
            let best =
                quantity(best, Unit::Milliseconds).ok_or_else(|| format!("`{line}` is not readable"))??;
            return Ok(Some(match (raw, count) {
                // At least a nanosecond: nothing takes no time.
                (Some(raw), Some(count @ 1..)) => {
                    raw.into_iter().map(|total| (total / count).max(1)).collect()
                }
                _ => vec![best],
            }));
        }
        // `14 ms ± 57.5 µs`
        let mean = before.split('±').next().unwrap_or(before);
        let mean =
            quantity(mean, Unit::Milliseconds).ok_or_else(|| format!("`{line}` is not readable"))??;
        return Ok(Some(vec![mean]));
    }
    Ok(None)
}

/// Lines of numbers, or a CSV table.
fn table(text: &str, column: Option<&str>) -> Result<Vec<i64>, (Option<u64>, String)> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut records = Vec::new();
    for record in reader.records() {
        let record =
            record.map_err(|error| (error.position().map(csv::Position::line), error.to_string()))?;
        records.push(record);
    }
    let Some(first) = records.first() else { return Ok(Vec::new()) };
    let is_number = |text: &str| quantity(text, Unit::Milliseconds).is_some();
    let has_header = !first.iter().any(is_number);
    let header: Vec<String> = if has_header { first.iter().map(str::to_owned).collect() } else { Vec::new() };
    let rows = &records[usize::from(has_header)..];
    let width = first.len();
    let at = if let Some(column) = column {
        let at = header.iter().position(|name| name == column);
        at.ok_or_else(|| (None, format!("has no column `{column}`; it has {}", header.join(", "))))?
    } else {
        let numbers =
            |at: usize| !rows.is_empty() && rows.iter().all(|row| row.get(at).is_some_and(is_number));
        let columns: Vec<usize> = (0..width).filter(|&at| numbers(at)).collect();
        match columns.as_slice() {
            [at] => *at,
            [] => 0,
            several => {
                let name = |at: &usize| header.get(*at).map_or("(no name)", String::as_str);
                let names: Vec<&str> = several.iter().map(name).collect();
                return Err((None, format!("several columns hold numbers ({}): name one", names.join(", "))));
            }
        }
    };
    let unit = header.get(at).and_then(|name| Unit::named_in(name)).unwrap_or(Unit::Milliseconds);
    let mut times = Vec::with_capacity(rows.len());
    for row in rows {
        let line = row.position().map(csv::Position::line);
        let text = row.get(at).unwrap_or_default();
        let time = quantity(text, unit).unwrap_or_else(|| Err(format!("`{text}` is not a time")));
        times.push(time.map_err(|what| (line, what))?);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str, expected: &[i64]) {
        assert_eq!(parse("t", text, None).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn lines_and_tables() {
        read("14.02\n13.93\n", &[14_020_000, 13_930_000]);
        read("14.02 ms\r\n0.01393 s\r\n15us\r\n", &[14_020_000, 13_930_000, 15_000]);
        read("step,time_us\na,14020\nb,13930.5\n", &[14_020_000, 13_930_500]);
        read("14.02, 13.93", &[14_020_000, 13_930_000]);
        read("seconds\n0.01402\n", &[14_020_000]);
        let two = "size,forward (s),backward (s)\nsmall,0.014,0.025\n";
        assert_eq!(parse("t", two, Some("backward (s)")), Ok(vec![25_000_000]));
        let error = parse("t.csv", two, None).unwrap_err().to_string();
        assert_eq!(error, "t.csv: several columns hold numbers (forward (s), backward (s)): name one");
    }

    #[test]
    fn what_timeit_prints() {
        read("10 loops, best of 5: 13.9 msec per loop\n", &[13_900_000]);
        read(
            "1 loop -> 0.014 secs\n\nraw times: 139 msec, 140 msec, 0.141 sec\n\n10 loops, best of 3: 13.9 msec per loop",
            &[13_900_000, 14_000_000, 14_100_000],
        );
        read("14 ms ± 57.5 µs per loop (mean ± std. dev. of 7 runs, 100 loops each)", &[14_000_000]);
        read("{\"mode\": \"forward\", \"timeit_ms\": [14.02, 13.93]}", &[14_020_000, 13_930_000]);
        read("[14.02]", &[14_020_000]);
    }

    #[test]
    fn a_loop_takes_a_nanosecond_at_least() {
        read("raw times: 139 nsec, 10 nsec\n\n1000 loops, best of 2: 0.01 usec per loop", &[1, 1]);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| parse("t", text, None).unwrap_err().to_string();
        assert_eq!(error("14\nfourteen\n15\n"), "t:2: `fourteen` is not a time");
        assert_eq!(error("14\n-3\n"), "t:2: -3 is no duration between a nanosecond and a day");
        assert_eq!(error("14\n0\n"), "t:2: 0 is no duration between a nanosecond and a day");
        assert_eq!(error(""), "t: holds no times");
        assert_eq!(error("time_ms\n"), "t: holds no times");
        assert_eq!(
            error("{\"a\": [1], \"b\": [2]}"),
            "t: 2 of its fields are lists: name the one with the times"
        );
        assert_eq!(list("14.02,x"), None);
        assert_eq!(list("-1"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}", column in proptest::option::of("[a-z]{1,3}")) {
            let _ = parse("t", &text, column.as_deref());
            let _ = list(&text);
        }

        #[test]
        fn microseconds_survive(times in proptest::collection::vec(0_i64..1_000_000_000, 1..20)) {
            let text: Vec<String> = times.iter().map(|time| format!("{}.{:03}", time / 1000, time % 1000)).collect();
            let expected: Vec<i64> = times.iter().map(|time| time * 1000).collect();
            proptest::prop_assert_eq!(parse("t", &text.join("\n"), None), Ok(expected));
        }
    }
}
