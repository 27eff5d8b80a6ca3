//! Tables with one metric a row: the details page and the summaries.
//!
//! A row repeats its launch's columns, kernel name included, and consecutive launches repeat the
//! same metrics in the same order. So a row is read by comparing: its front with the front of the
//! row before, then its middle with the middle that followed last time, and only the digits are
//! parsed. Whatever does not compare equal is parsed field by field.

use std::io::{self, Read};

use crate::error::{Error, Fault};
use crate::model::{Launch, Strings, Symbol};
use crate::source::Context;

use super::assembly::{Assembly, MetricKind};
use super::chain::Chain;
use super::header::Header;
use super::kind::is_whole;
use super::plain;
use super::record::Record;
use super::scan::Scanner;
use super::text::{Interner, lossy};

/// What is known about the rows of a long table.
#[derive(Debug)]
pub(super) struct Long {
    /// Where the metric's columns begin, if they stand together and last.
    tail: Option<usize>,
    /// The front of the last row, up to the metric's columns.
    prefix: Vec<u8>,
    /// The bytes between a row's launch columns and its value, opening quote included.
    middles: Chain<MetricKind>,
    /// Where the launch's columns end, if they all stand before the metric's.
    head_end: Option<usize>,
    /// The bytes behind a row's id up to the metric's columns, if the id stands first, and
    /// everything of their launches but id, segment, position and metrics.
    fronts: Option<Chain<Launch>>,
}

impl Long {
    pub(super) fn new(header: &Header) -> Self {
        // In a summary three values follow: those are read field by field.
        let simple = header.columns.minimum.is_none() && header.quoted;
        let tail = header.tail().filter(|tail| {
            let c = &header.columns;
            let expected = [c.section, c.metric, c.unit, c.value].into_iter().flatten();
            simple && expected.enumerate().all(|(offset, column)| column == tail + offset)
        });
        let fronts = (tail.is_some() && header.columns.id == Some(0)).then(Chain::new);
        Long { tail, prefix: Vec::new(), middles: Chain::new(), head_end: header.tail(), fronts }
    }

    /// Reads rows for as long as they compare equal to what is known. `true`: a launch was finished
    /// and is in `launch`.
    pub(super) fn run<R: Read>(
        &mut self,
        scanner: &mut Scanner<R>,
        assembly: &mut Assembly,
        context: &mut Context,
        launch: &mut Launch,
    ) -> Result<bool, Error> {
        if assembly.open_key().is_none() {
            return Ok(false);
        }
        let group = assembly.numbers.group();
        let bytes = scanner.bytes();
        let (mut at, mut rows) = (0, 0);
        let mut finished = false;
        while let Some(middle) = self.middles.expected() {
            let Some(rest) = bytes[at..].strip_prefix(self.prefix.as_slice()) else {
                let Some(fronts) = &mut self.fronts else { break };
                let Some((id, known, len)) = predict(fronts, &bytes[at..]) else { break };
                self.prefix.clear();
                self.prefix.extend_from_slice(&bytes[at..at + len]);
                finished = assembly.close(launch);
                assembly.begin_known(known, id, scanner.line() + rows, context);
                if finished {
                    break;
                }
                continue;
            };
            let Some(rest) = rest.strip_prefix(&*middle.bytes) else { break };
            let used = if let Some((value, used)) = plain::read_whole(rest, group) {
                let Some(ending) = ending(&rest[used..]) else { break };
                assembly.push_whole(middle.meaning, value);
                used + ending
            } else {
                let Some(quote) = memchr::memchr2(b'"', b'\n', rest) else { break };
                if rest[quote] == b'\n' {
                    break;
                }
                let Some(ending) = ending(&rest[quote + 1..]) else { break };
                assembly.push(middle.meaning, &rest[..quote], None, scanner.line() + rows, context)?;
                quote + 1 + ending
            };
            at += self.prefix.len() + middle.bytes.len() + used;
            rows += 1;
            self.middles.follow();
        }
        scanner.consume(at, rows);
        Ok(finished)
    }

    /// Reads the metric of the row in `record`, whose launch is open. `false`: it is a rule's row,
    /// which has none.
    pub(super) fn row(
        &mut self,
        header: &Header,
        record: &Record,
        bytes: &[u8],
        line: u64,
        assembly: &mut Assembly,
        context: &mut Context,
    ) -> Result<(), Error> {
        let columns = &header.columns;
        let field = |column: Option<usize>| column.and_then(|at| record.get(bytes, at)).unwrap_or_default();
        let kind = kind(
            &mut assembly.identity.interner,
            &mut context.strings,
            &field(columns.section),
            &field(columns.metric),
            &field(columns.unit),
        );
        self.learn(header, record, bytes, kind);
        let spread =
            columns.minimum.zip(columns.maximum).map(|(low, high)| (field(Some(low)), field(Some(high))));
        let spread = spread.as_ref().map(|(low, high)| (&**low, &**high));
        assembly.push(kind, &field(columns.value), spread, line, context)
    }

    /// Whether all of the row's launch columns equal those of the row before.
    pub(super) fn same_launch(&self, record: &Record, bytes: &[u8]) -> bool {
        let front = self.head_end.and_then(|end| record.span(end)).map(|span| &bytes[..span.raw_start()]);
        front.is_some_and(|front| front == self.prefix)
    }

    /// Remembers the launch columns of `record`, with which `launch` began.
    pub(super) fn began(&mut self, record: &Record, bytes: &[u8], launch: &Launch) {
        let Some(fronts) = &mut self.fronts else { return };
        let ends = record.span(0).zip(self.head_end.and_then(|end| record.span(end)));
        if let Some((id, tail)) = ends.filter(|(id, _)| id.raw_start() < id.start()) {
            fronts.learn(&bytes[id.end()..tail.raw_start()], || Launch {
                metrics: Vec::new(),
                ..launch.clone()
            });
        }
    }

    /// Keeps the row's front and middle for the rows to come.
    fn learn(&mut self, header: &Header, record: &Record, bytes: &[u8], kind: MetricKind) {
        if let Some(span) = self.head_end.and_then(|end| record.span(end)) {
            self.prefix.clear();
            self.prefix.extend_from_slice(&bytes[..span.raw_start()]);
        }
        let spans = self.tail.zip(header.columns.value).and_then(|(tail, value)| {
            let value = record.span(value)?;
            (value.raw_start() < value.start()).then_some((record.span(tail)?.raw_start(), value.start()))
        });
        match spans {
            Some((tail, value)) => self.middles.learn(&bytes[tail..value], || kind),
            None => self.middles.interrupt(),
        }
    }
}

/// Reads a quoted id and the front that is expected behind it: the id, the launch and the bytes
/// that both take.
#[inline]
fn predict<'a>(fronts: &'a mut Chain<Launch>, bytes: &[u8]) -> Option<(u64, &'a Launch, usize)> {
    let front = &fronts.expected()?.bytes;
    let id_bytes = bytes.strip_prefix(b"\"")?;
    let digits = id_bytes.iter().take(19).take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=18).contains(&digits) || !id_bytes[digits..].starts_with(front) {
        return None;
    }
    let id = id_bytes[..digits].iter().fold(0, |id, byte| id * 10 + u64::from(byte - b'0'));
    let length = 1 + digits + front.len();
    Some((id, &fronts.follow()?.meaning, length))
}

/// Line ends, with the empty field that metric rows have in a table with rules.
fn ending(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'\n', ..] => Some(1),
        [b',' | b'\r', b'\n', ..] => Some(2),
        [b',', b'\r', b'\n', ..] => Some(3),
        _ => None,
    }
}

/// Interns what a metric is. `Duration (gpu__time_duration.sum)`, from `--print-metric-name
/// label-name`, goes by its name.
fn kind(
    interner: &mut Interner,
    strings: &mut Strings,
    section: &[u8],
    metric: &[u8],
    unit: &[u8],
) -> MetricKind {
    let name = plain_name(metric);
    let symbol = interner.intern(strings, name);
    MetricKind {
        section: if section.is_empty() { Symbol::EMPTY } else { interner.intern(strings, section) },
        name: symbol,
        unit: interner.intern(strings, unit),
        whole: is_whole(&lossy(name), &lossy(unit)),
    }
}

fn plain_name(metric: &[u8]) -> &[u8] {
    let named = metric.strip_suffix(b")").and_then(|rest| {
        let at = memchr::memmem::rfind(rest, b" (")?;
        let name = &rest[at + 2..];
        (memchr::memmem::find(name, b"__").is_some() && !name.contains(&b' ')).then_some(name)
    });
    named.unwrap_or(metric)
}

/// An input error with the file's name.
pub(super) fn io_error(assembly: &Assembly, source: io::Error) -> Error {
    Error::new(&assembly.path, Fault::Io { source })
}
