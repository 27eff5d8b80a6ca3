//! Tables of reports.

use std::io::{self, Write as _};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::{ContextId, CorrelationId, DeviceId, GpuId, MemoryKind, RangeId, StreamId, round};

/// The unit of a column, which decides how its numbers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Memory,
    /// Bytes per second.
    Throughput,
    /// Percent.
    Percent,
    /// A count, an id or a text.
    Plain,
}

/// A column of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its title without the unit, as nsys spells it.
    pub title: &'static str,
    /// What its numbers are.
    pub unit: Unit,
}

impl Column {
    /// Its title with the unit, such as `Avg (ns)`.
    pub fn heading(&self, units: Units) -> String {
        let unit = match self.unit {
            Unit::Time => units.time.symbol(),
            Unit::Memory => "MB",
            Unit::Throughput => "MB/s",
            Unit::Percent => "%",
            Unit::Plain => return self.title.to_owned(),
        };
        format!("{} ({unit})", self.title)
    }
}

/// The columns of a report, by their headings as nsys prints them: separated by commas, the unit of
/// numbers in parentheses.
pub(crate) struct Columns {
    headings: &'static str,
    columns: OnceLock<Vec<Column>>,
}

impl Columns {
    pub(crate) const fn new(headings: &'static str) -> Columns {
        Columns { headings, columns: OnceLock::new() }
    }
}

impl Deref for Columns {
    type Target = [Column];

    fn deref(&self) -> &[Column] {
        let units = [
            (" (ns)", Unit::Time),
            (" (MB)", Unit::Memory),
            (" (MB/s)", Unit::Throughput),
            (" (%)", Unit::Percent),
        ];
        let column = |heading: &'static str| {
            let mut units = units.into_iter();
            let known =
                units.find_map(|(end, unit)| Some(Column { title: heading.strip_suffix(end)?, unit }));
            known.unwrap_or(Column { title: heading, unit: Unit::Plain })
        };
        self.columns.get_or_init(|| self.headings.split(',').map(column).collect())
    }
}

/// One value of a report, in base units: nanoseconds, bytes, bytes per second, percent.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not measured, or does not apply: an empty cell.
    Absent,
    /// A whole number.
    Int(i128),
    /// A mean, a median, a deviation, a share.
    Real(f64),
    /// Text.
    Text(Arc<str>),
}

impl Value {
    /// Text.
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value.into())
    }
}

impl From<i128> for Value {
    fn from(value: i128) -> Value {
        Value::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Int(value.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Absent, Into::into)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Int(value.into())
    }
}

/// The number of an id.
macro_rules! from_ids {
    ($($id:ident)*) => {$(
        impl From<$id> for Value {
            fn from(id: $id) -> Value {
                id.0.into()
            }
        }
    )*};
}

from_ids! { ContextId CorrelationId DeviceId GpuId RangeId StreamId }

impl From<MemoryKind> for Value {
    fn from(kind: MemoryKind) -> Value {
        kind.label().map_or_else(|| kind.code().into(), Value::text)
    }
}

impl From<Arc<str>> for Value {
    fn from(value: Arc<str>) -> Value {
        Value::Text(value)
    }
}

/// The unit in which times are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds: whole numbers stay whole.
    #[default]
    Nanoseconds,
    /// Microseconds with 3 decimals.
    Microseconds,
    /// Milliseconds with 4 decimals.
    Milliseconds,
    /// Seconds with 4 decimals.
    Seconds,
}

impl TimeUnit {
    /// Its symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            TimeUnit::Nanoseconds => "ns",
            TimeUnit::Microseconds => "us",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Seconds => "s",
        }
    }

    fn scale(self) -> (f64, usize) {
        match self {
            TimeUnit::Nanoseconds => (1.0, 1),
            TimeUnit::Microseconds => (1e3, 3),
            TimeUnit::Milliseconds => (1e6, 4),
            TimeUnit::Seconds => (1e9, 4),
        }
    }
}

/// How the numbers of a report are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// The unit of times.
    pub time: TimeUnit,
}

impl Units {
    /// The printed form of a value, with nsys's decimals and rounding.
    ///
    /// ```
    /// use flopgap_nsys::{TimeUnit, Unit, Units, Value};
    ///
    /// assert_eq!(Units::default().print(Unit::Time, &Value::Real(30770.35)), "30770.3");
    /// assert_eq!(Units { time: TimeUnit::Milliseconds }.print(Unit::Time, &Value::Int(1_234_567)), "1.2346");
    /// assert_eq!(Units::default().print(Unit::Memory, &Value::Int(4_194_304)), "4.194");
    /// ```
    pub fn print(self, unit: Unit, value: &Value) -> String {
        let mut text = Vec::new();
        self.write(unit, value, &mut text);
        // Digits, and texts that were UTF-8 before.
        String::from_utf8_lossy(&text).into_owned()
    }

    /// [`Units::print`] at the end of `line`.
    pub(super) fn write(self, unit: Unit, value: &Value, line: &mut Vec<u8>) {
        match value {
            Value::Absent => {}
            Value::Text(text) => line.extend_from_slice(text.as_bytes()),
            Value::Int(value) if self.is_whole(unit) => write_int(*value, line),
            Value::Int(value)
                if unit == Unit::Memory
                    && i64::try_from(*value).is_ok_and(|bytes| write_thousandths(bytes, line)) => {}
            Value::Int(_) | Value::Real(_) => match (self.number(unit, value), value) {
                (Some((number, decimals)), _) => {
                    // Writing to memory does not fail.
                    let _ = write!(line, "{number:.decimals$}");
                }
                (None, Value::Real(value)) => line.extend_from_slice(round::one_decimal(*value).as_bytes()),
                (None, _) => {}
            },
        }
    }

    /// Whether whole numbers of this unit stay whole.
    fn is_whole(self, unit: Unit) -> bool {
        match unit {
            Unit::Time => self.time == TimeUnit::Nanoseconds,
            Unit::Memory | Unit::Throughput => false,
            Unit::Percent | Unit::Plain => true,
        }
    }

    /// A number in the unit of its heading, with the decimals that nsys prints; `None` for text,
    /// for what was not measured, and for values that are printed in their base unit.
    pub fn number(self, unit: Unit, value: &Value) -> Option<(f64, usize)> {
        let number = match value {
            Value::Int(value) => *value as f64,
            // nsys rounds means to a tenth of a nanosecond before it converts them.
            Value::Real(value) if unit == Unit::Time => round::to_tenth(*value),
            Value::Real(value) => *value,
            Value::Absent | Value::Text(_) => return None,
        };
        match unit {
            Unit::Time if self.time != TimeUnit::Nanoseconds => {
                let (divisor, decimals) = self.time.scale();
                Some((number / divisor, decimals))
            }
            Unit::Memory | Unit::Throughput => Some((number / 1e6, 3)),
            Unit::Time | Unit::Percent | Unit::Plain => None,
        }
    }
}

fn write_int(value: i128, line: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    // Most are small, and printing 128 bits is slow.
    let digits = match i64::try_from(value) {
        Ok(value) => buffer.format(value),
        Err(_) => buffer.format(value),
    };
    line.extend_from_slice(digits.as_bytes());
}

/// Writes bytes as megabytes with three decimals, which for all but halves needs no fraction;
/// false, and nothing written, for halves, whose rounding depends on the fraction's binary form,
/// and where a double is too coarse.
fn write_thousandths(bytes: i64, line: &mut Vec<u8>) -> bool {
    if !(0..1_000_000_000_000_000).contains(&bytes) || bytes % 1000 == 500 {
        return false;
    }
    let kilobytes = (bytes + 500) / 1000;
    let mut buffer = itoa::Buffer::new();
    line.extend_from_slice(buffer.format(kilobytes / 1000).as_bytes());
    let at = line.len();
    line.extend_from_slice(buffer.format(1000 + kilobytes % 1000).as_bytes());
    line[at] = b'.';
    true
}

/// A sink for the rows of a report, so that a trace of millions of rows need not be held.
pub trait Sink {
    /// Called once, before the rows.
    fn columns(&mut self, columns: &'static [Column]) -> io::Result<()>;

    /// Called with every row; as many values as there are columns.
    fn row(&mut self, row: &[Value]) -> io::Result<()>;
}

/// A report in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportTable {
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows, each with one value for each column.
    pub rows: Vec<Vec<Value>>,
}

impl ReportTable {
    /// Passes its columns and rows on.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn replay(&self, sink: &mut dyn Sink) -> io::Result<()> {
        sink.columns(self.columns)?;
        self.rows.iter().try_for_each(|row| sink.row(row))
    }
}

impl Sink for ReportTable {
    fn columns(&mut self, columns: &'static [Column]) -> io::Result<()> {
        self.columns = columns;
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> io::Result<()> {
        self.rows.push(row.to_vec());
        Ok(())
    }
}

/// Writes a report as nsys's CSV, but with quotes within fields doubled, as RFC 4180 has it.
#[derive(Debug)]
pub struct CsvSink<W> {
    out: W,
    units: Units,
    columns: &'static [Column],
    line: Vec<u8>,
}

impl<W: io::Write> CsvSink<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W, units: Units) -> CsvSink<W> {
        CsvSink { out, units, columns: &[], line: Vec::new() }
    }

    /// Gives `out` back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn field(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let quoted =
            memchr::memchr3(b',', b'"', b'\n', bytes).is_some() || memchr::memchr(b'\r', bytes).is_some();
        if quoted {
            self.line.push(b'"');
            let mut rest = bytes;
            while let Some(quote) = memchr::memchr(b'"', rest) {
                self.line.extend_from_slice(&rest[..=quote]);
                self.line.push(b'"');
                rest = &rest[quote + 1..];
            }
            self.line.extend_from_slice(rest);
            self.line.push(b'"');
        } else {
            self.line.extend_from_slice(bytes);
        }
        self.line.push(b',');
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.pop();
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

impl<W: io::Write> Sink for CsvSink<W> {
    fn columns(&mut self, columns: &'static [Column]) -> io::Result<()> {
        self.columns = columns;
        for column in columns {
            self.field(&column.heading(self.units));
        }
        self.end_line()
    }

    fn row(&mut self, row: &[Value]) -> io::Result<()> {
        for (column, value) in self.columns.iter().zip(row) {
            match value {
                Value::Absent => self.line.push(b','),
                Value::Text(text) => self.field(text),
                number => {
                    self.units.write(column.unit, number, &mut self.line);
                    self.line.push(b',');
                }
            }
        }
        self.end_line()
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::Strategy as _;

    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        static COLUMNS: Columns = Columns::new("Name,Size (MB)");
        let mut csv = CsvSink::new(Vec::new(), Units::default());
        csv.columns(&COLUMNS).unwrap();
        for text in ["plain", "a,b", "say \"a\"", "two\nlines", "back\r", ""] {
            csv.row(&[Value::text(text), Value::Int(1_500)]).unwrap();
        }
        assert_eq!(
            String::from_utf8(csv.into_inner()).unwrap(),
            "Name,Size (MB)\nplain,0.002\n\"a,b\",0.002\n\"say \"\"a\"\"\",0.002\n\"two\nlines\",0.002\n\"back\r\",0.002\n,0.002\n"
        );
    }

    proptest::proptest! {
        /// Digits without a fraction are those of the fraction.
        #[test]
        fn megabytes_print_as_the_quotient(bytes in proptest::prop_oneof![
            0_i64..100_000, (0_i64..1 << 40).prop_map(|bytes| bytes * 500), proptest::prelude::any::<i64>()
        ]) {
            let printed = Units::default().print(Unit::Memory, &Value::from(bytes));
            proptest::prop_assert_eq!(printed, format!("{:.3}", bytes as f64 / 1e6));
        }
    }
}
