//! Reads CSV in all its layouts, mixed with other output.

use std::io::Read;
use std::path::PathBuf;

use memchr::memmem;

use crate::error::Error;
use crate::model::{Launch, Layout};
use crate::source::{Context, Source};
use crate::warning::WarningKind;

use super::assembly::Assembly;
use super::cell::Decimal;
use super::header::Header;
use super::launch::Identity;
use super::long::{Long, io_error};
use super::plain::read_id;
use super::record::{Outcome, Record, starts_row};
use super::scan::{MAX_ROW, Scanner};
use super::wide::Wide;

/// Reads CSV mixed with other output.
pub(crate) struct CsvSource<R> {
    scanner: Scanner<R>,
    record: Record,
    table: Option<Table>,
    assembly: Assembly,
    tables: u64,
    /// The last line in which a row was looked for behind other text.
    searched_line: u64,
    ended: bool,
}

struct Table {
    header: Header,
    rows: Rows,
}

enum Rows {
    Long(Long),
    Wide(Wide),
}

/// The result of a step.
enum Step {
    /// A launch was handed out.
    Launch,
    Continue,
    End,
}

impl<R: Read> CsvSource<R> {
    /// `input` is decoded text; `decimal` is the decimal separator where the caller knows it.
    pub(crate) fn new(input: R, path: PathBuf, decimal: Option<Decimal>) -> Self {
        CsvSource {
            scanner: Scanner::new(input),
            record: Record::default(),
            table: None,
            assembly: Assembly::new(path, decimal),
            tables: 0,
            searched_line: 0,
            ended: false,
        }
    }

    /// The layout of the table that is being read.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.table.as_ref().map(|table| table.header.layout)
    }

    /// Reads up to a table's first header, so that the layout is known and a file without one is
    /// refused at once.
    pub(crate) fn find_table(&mut self, context: &mut Context) -> Result<(), Error> {
        let mut unused = Launch::default();
        while self.table.is_none() {
            if let Step::End = self.line(context, &mut unused)? {
                return Err(self.assembly.noise.no_table(&self.assembly.path));
            }
        }
        Ok(())
    }

    fn step(&mut self, context: &mut Context, launch: &mut Launch) -> Result<Step, Error> {
        let Some(table) = &mut self.table else { return self.line(context, launch) };
        if let Rows::Long(long) = &mut table.rows
            && long.run(&mut self.scanner, &mut self.assembly, context, launch)?
        {
            return Ok(Step::Launch);
        }
        if self.scanner.bytes().is_empty() && !self.fill(1)? {
            return Ok(Step::End);
        }
        let first = self.scanner.bytes()[0];
        let may_be_row = first == b'"' || (!table_quoted(self.table.as_ref()) && first.is_ascii_digit());
        if !may_be_row {
            return self.line(context, launch);
        }
        let mut outcome = self.record.parse(self.scanner.bytes(), self.scanner.ended());
        while outcome == Outcome::NeedsMore {
            let have = self.scanner.bytes().len();
            if !self.fill(2 * have.max(1024))? && !self.scanner.ended() {
                return self.line(context, launch);
            }
            outcome = self.record.parse(self.scanner.bytes(), self.scanner.ended());
        }
        self.row(outcome, context, launch)
    }

    fn fill(&mut self, target: usize) -> Result<bool, Error> {
        self.scanner.fill_to(target).map_err(|source| io_error(&self.assembly, source))
    }

    /// Takes the record at the front of the window as a row of the table.
    fn row(&mut self, outcome: Outcome, context: &mut Context, launch: &mut Launch) -> Result<Step, Error> {
        let Some(table) = &mut self.table else { return Ok(Step::Continue) };
        let header = &table.header;
        let (len, lines, line) = (self.record.len, self.record.lines, self.scanner.line());
        let bytes = &self.scanner.bytes()[..len];
        let at_end = self.scanner.ended() && len == self.scanner.bytes().len();
        let names_itself = self.record.raw(bytes, header.columns.kernel.unwrap_or(0)) == Some(b"Kernel Name");
        if names_itself
            || self.record.raw(bytes, 0).is_some_and(|first| first == b"ID" || first == b"Process ID")
        {
            return self.line(context, launch);
        }
        if let Rows::Wide(wide) = &mut table.rows
            && wide.take_units(header, &self.record, bytes, &mut context.strings)
        {
            self.scanner.consume(len, lines);
            return Ok(Step::Continue);
        }
        let fields = whole_fields(&self.record, bytes, outcome, at_end, header);
        let key = Identity::key(&header.columns, &self.record, bytes);
        let (Some(key), true) =
            (key, fields >= header.needed && fields <= header.width.max(header.needed + 1))
        else {
            return self.strange_row(fields, at_end, context, launch);
        };
        let short = header.layout == Layout::Wide && fields < header.width;
        if short || outcome == Outcome::Cut {
            self.assembly.noise.warn(context, line, WarningKind::RowPartial { fields, at_end });
        }
        if displaced(header, &self.record, bytes) {
            self.assembly.noise.warn(context, line, WarningKind::RowDisplaced);
            self.scanner.consume(len, lines);
            return Ok(Step::Continue);
        }
        let metric = header.columns.metric.and_then(|at| self.record.raw(bytes, at));
        if metric.is_some_and(<[u8]>::is_empty) {
            context.rule_rows += 1;
            self.scanner.consume(len, lines);
            return Ok(Step::Continue);
        }
        let assembly = &mut self.assembly;
        // A summary has no ids: there, a row belongs to the launch above it if all of its launch
        // columns are the same.
        let same = match &table.rows {
            Rows::Wide(_) => false,
            Rows::Long(long) if header.columns.id.is_some() => {
                assembly.open_key() == Some(key)
                    && (long.same_launch(&self.record, bytes)
                        || assembly.is_of_open(&header.columns, &self.record, bytes, context))
            }
            Rows::Long(long) => long.same_launch(&self.record, bytes) && assembly.open_key().is_some(),
        };
        let emitted = !same && assembly.close(launch);
        if !same {
            assembly.begin(&header.columns, &self.record, bytes, key, line, context);
            if let Rows::Long(long) = &mut table.rows {
                long.began(&self.record, bytes, assembly.open());
            }
        }
        match &mut table.rows {
            Rows::Long(long) => long.row(header, &self.record, bytes, line, assembly, context)?,
            Rows::Wide(wide) => wide.row(&self.record, fields, bytes, line, assembly, context)?,
        }
        self.scanner.consume(len, lines);
        Ok(if emitted { Step::Launch } else { Step::Continue })
    }

    /// A line that resembles a row but is not one.
    fn strange_row(
        &mut self,
        fields: usize,
        at_end: bool,
        context: &mut Context,
        launch: &mut Launch,
    ) -> Result<Step, Error> {
        let line = self.scanner.line();
        let bytes = &self.scanner.bytes()[..self.record.len];
        // `--print-details all` puts small tables of its own (`"0","NVIDIA H200",...`) between the
        // rows.
        let process = self.table.as_ref().and_then(|table| table.header.columns.process_id);
        let of_process = process.is_none_or(|at| self.record.raw(bytes, at).and_then(read_id).is_some());
        if !at_end && !(of_process && (starts_row(bytes) || bytes[0].is_ascii_digit())) {
            return self.line(context, launch);
        }
        let needed = self.table.as_ref().map_or(0, |table| table.header.needed);
        let kind = if at_end {
            WarningKind::RowCut
        } else if fields < needed {
            WarningKind::RowShort { fields, needed }
        } else {
            WarningKind::RowLong { fields }
        };
        self.assembly.noise.warn(context, line, kind);
        self.scanner.consume(self.record.len, self.record.lines);
        Ok(Step::Continue)
    }

    /// Takes the next line as a header, or as a row behind other text, or as text.
    fn line(&mut self, context: &mut Context, launch: &mut Launch) -> Result<Step, Error> {
        let found = self.scanner.find_line().map_err(|source| io_error(&self.assembly, source))?;
        let Some((len, has_end)) = found else { return Ok(Step::End) };
        let number = self.scanner.line();
        let text = &self.scanner.bytes()[..len];
        if let Some((start, header)) = find_header(text, &mut self.record) {
            self.assembly.noise.line(&text[..start], number, context);
            self.scanner.consume(len + usize::from(has_end), u64::from(has_end));
            let emitted = self.assembly.close(launch);
            self.begin_table(header, context)?;
            return Ok(if emitted { Step::Launch } else { Step::Continue });
        }
        // Output of the program without a line feed before a row of ncu.
        let mut quotes = memchr::memchr_iter(b'"', text);
        let behind = quotes.find(|&at| at > 0 && starts_row(&text[at..]));
        if let (Some(start), Some(_), true) = (behind, &self.table, self.searched_line != number) {
            // What follows gets one chance to be a row: a line made of beginnings of rows stays
            // linear.
            self.searched_line = number;
            self.assembly.noise.line(&text[..start], number, context);
            self.scanner.consume(start, 0);
            return Ok(Step::Continue);
        }
        self.assembly.noise.line(text, number, context);
        if !has_end && !self.scanner.ended() {
            self.assembly.noise.warn(context, number, WarningKind::LineTooLong { limit: MAX_ROW });
        }
        self.scanner.consume(len + usize::from(has_end), u64::from(has_end));
        Ok(Step::Continue)
    }

    fn begin_table(&mut self, header: Header, context: &mut Context) -> Result<(), Error> {
        self.assembly.next_table(self.tables == 0, header.layout)?;
        self.tables += 1;
        if header.layout == Layout::NvtxSummary {
            self.assembly.noise.warn(context, self.scanner.line(), WarningKind::RowsByDomain);
        }
        self.record.nvtx = [header.columns.push_pop.or(header.columns.ranges), header.columns.start_end];
        let rows = match header.layout {
            Layout::Wide => Rows::Wide(Wide::new(&header, &mut context.strings)),
            _ => Rows::Long(Long::new(&header)),
        };
        self.table = Some(Table { header, rows });
        Ok(())
    }

    fn finish(&mut self, context: &mut Context) {
        if let Some(broken) = self.scanner.take_broken() {
            let kind = WarningKind::FileBroken { message: broken.to_string() };
            self.assembly.noise.warn(context, self.scanner.line(), kind);
        }
        self.assembly.noise.finish(context, self.table.is_some(), self.assembly.has_launch);
    }
}

impl<R: Read> Source for CsvSource<R> {
    fn next_launch(&mut self, context: &mut Context, launch: &mut Launch) -> Result<bool, Error> {
        loop {
            if self.assembly.pop(launch, self.ended)? {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            match self.step(context, launch)? {
                Step::Launch => return Ok(true),
                Step::Continue => {}
                Step::End => {
                    self.ended = true;
                    self.finish(context);
                    if self.assembly.close(launch) {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// Whether a summary row's cells stand in other columns than the header says. ncu 2025.3 leaves
/// empty cells out of its raw per-gpu summary and goes on in the next line, so that most rows are
/// shifted; their numbers would be those of something else.
fn displaced(header: &Header, record: &Record, bytes: &[u8]) -> bool {
    let cell = |column: Option<usize>| column.and_then(|at| record.raw(bytes, at));
    let is_sizes = |cell: &[u8]| cell.is_empty() || (cell.starts_with(b"(") && cell.ends_with(b")"));
    let columns = &header.columns;
    matches!(header.layout, Layout::Summary | Layout::NvtxSummary)
        && (cell(columns.invocations).is_some_and(|count| read_id(count).is_none())
            || !cell(columns.grid).is_none_or(is_sizes)
            || !cell(columns.block).is_none_or(is_sizes))
}

fn table_quoted(table: Option<&Table>) -> bool {
    table.is_none_or(|table| table.header.quoted)
}

/// The header in a line and where it begins: at the front, or behind text that lacks a line feed.
fn find_header(line: &[u8], record: &mut Record) -> Option<(usize, Header)> {
    memmem::find(line, b"Kernel Name")?;
    let starts: [&[u8]; 3] = [b"\"ID\",\"", b"\"Process ID\",\"", b"\"Domain\",\"Range:"];
    let behind = starts.iter().find_map(|start| memmem::find(line, start));
    let mut read = |start: usize| {
        let whole = record.parse(&line[start..], true) == Outcome::Whole;
        whole.then(|| Header::read(&line[start..], record)).flatten().map(|header| (start, header))
    };
    let (front, behind) = (read(0), behind.and_then(&mut read));
    // Text before a header hides the header's first column.
    let columns = |found: &Option<(usize, Header)>| found.as_ref().map_or(0, |(_, header)| header.known);
    if columns(&behind) > columns(&front) { behind } else { front }
}

/// How many fields of a record can be trusted: at the end of a file without a line feed, an
/// unquoted last field may be cut.
fn whole_fields(record: &Record, bytes: &[u8], outcome: Outcome, at_end: bool, header: &Header) -> usize {
    let fields = record.fields();
    let last_is_open = record.span(fields.wrapping_sub(1)).is_some_and(|span| !span.quoted);
    let may_be_cut = outcome == Outcome::Whole && at_end && bytes.last() != Some(&b'\n') && last_is_open;
    if may_be_cut && (!header.quoted || fields <= header.needed || header.layout == Layout::Wide) {
        fields - 1
    } else {
        fields
    }
}
