//! What a report consists of.

use std::sync::Arc;

use crate::round;

/// What the numbers of a column are, which decides how they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Memory,
    /// Bytes in a second.
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
    pub(crate) const fn new(title: &'static str, unit: Unit) -> Column {
        Column { title, unit }
    }

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

    /// Whether it holds numbers that are measured, not ids or names.
    pub fn is_measure(&self) -> bool {
        self.unit != Unit::Plain
    }
}

/// One value of a report, in base units: nanoseconds, bytes, bytes in a second, percent.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not measured, or does not apply: an empty cell.
    Absent,
    /// A whole number.
    Int(i128),
    /// A mean, a median, a deviation, a share.
    Real(f64),
    /// Words.
    Text(Arc<str>),
}

impl Value {
    /// Words.
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value.into())
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

impl From<Arc<str>> for Value {
    fn from(value: Arc<str>) -> Value {
        Value::Text(value)
    }
}

/// In which unit times are printed.
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
        match (value, self.number(unit, value)) {
            (Value::Absent, _) => String::new(),
            (Value::Text(text), _) => text.as_ref().to_owned(),
            (_, Some((number, decimals))) => format!("{number:.decimals$}"),
            (Value::Int(value), None) => value.to_string(),
            (Value::Real(value), None) => round::one_decimal(*value),
        }
    }

    /// A number in the unit of its heading, with the decimals that nsys prints; nothing for text, for what was not measured, and
    /// for values that are printed in their base unit.
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

/// Where the rows of a report go, one by one: a trace of millions of rows need not be held.
pub trait Sink {
    /// Called once, before the rows.
    fn columns(&mut self, columns: &'static [Column]) -> std::io::Result<()>;

    /// Called with every row; as many values as there are columns.
    fn row(&mut self, row: &[Value]) -> std::io::Result<()>;
}

/// A report in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportTable {
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows, each with one value for each column.
    pub rows: Vec<Vec<Value>>,
}

impl Sink for ReportTable {
    fn columns(&mut self, columns: &'static [Column]) -> std::io::Result<()> {
        self.columns = columns;
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> std::io::Result<()> {
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
    line: String,
}

impl<W: std::io::Write> CsvSink<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W, units: Units) -> CsvSink<W> {
        CsvSink { out, units, columns: &[], line: String::new() }
    }

    /// Gives `out` back.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn field(&mut self, text: &str) {
        if text.contains([',', '"', '\n', '\r']) {
            self.line.push('"');
            self.line.push_str(&text.replace('"', "\"\""));
            self.line.push('"');
        } else {
            self.line.push_str(text);
        }
        self.line.push(',');
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        self.line.pop();
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())?;
        self.line.clear();
        Ok(())
    }
}

impl<W: std::io::Write> Sink for CsvSink<W> {
    fn columns(&mut self, columns: &'static [Column]) -> std::io::Result<()> {
        self.columns = columns;
        for column in columns {
            self.field(&column.heading(self.units));
        }
        self.end_line()
    }

    fn row(&mut self, row: &[Value]) -> std::io::Result<()> {
        for (column, value) in self.columns.iter().zip(row) {
            match value {
                Value::Absent => self.line.push(','),
                Value::Text(text) => self.field(text),
                number => {
                    let text = self.units.print(column.unit, number);
                    self.line.push_str(&text);
                    self.line.push(',');
                }
            }
        }
        self.end_line()
    }
}
