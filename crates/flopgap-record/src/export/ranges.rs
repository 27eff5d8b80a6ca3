//! Ranges of NVTX: beginnings and ends become rows.

use std::borrow::Cow;

use rusqlite::{Connection, params};
use rustc_hash::FxHashMap;

use super::names::Strings;
use super::rows::Table;
use super::{Ids, schema};
use crate::reader::{Event, Mark, Payload, Text};

const MARK: i64 = 34;
const CATEGORY: i64 = 33;
const PUSHED: i64 = 59;
const STARTED: i64 = 60;
const DOMAIN: i64 = 75;

/// A range that has begun.
#[derive(Debug)]
struct Open {
    start: i64,
    thread: u32,
    /// Absent where the range is not of the times that are exported.
    row: Option<Row>,
}

/// What a row has besides its times and threads.
#[derive(Debug)]
struct Row {
    range: Option<i64>,
    domain: i64,
    category: Option<u32>,
    color: Option<u32>,
    payload: Option<Payload>,
    text: Option<String>,
    text_id: Option<i64>,
}

/// The ranges of a process.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Per thread and domain, the innermost last.
    pushed: FxHashMap<(u32, u64), Vec<Open>>,
    started: FxHashMap<u64, Open>,
    /// Strings that are registered: their rows.
    registered: FxHashMap<u32, i64>,
    /// Ends whose beginnings are not here: they were written over, or are of before the recording.
    pub(super) without_beginning: u64,
}

impl Ranges {
    /// A definition that has a row of its own, or that ranges refer to.
    pub(super) fn define<'d>(
        &mut self,
        event: &Event<'_>,
        table: &mut Table<'d>,
        strings: &mut Strings,
        database: &'d Connection,
    ) -> rusqlite::Result<()> {
        let row = |domain: i64, category: Option<u32>, name: &Cow<'_, str>| Row {
            range: None,
            domain,
            category,
            color: None,
            payload: None,
            text: Some(name.as_ref().to_owned()),
            text_id: None,
        };
        match event {
            Event::Registered { number, text } => {
                self.registered.insert(*number, strings.id(database, text)?);
                Ok(())
            }
            Event::Domain { number, name } => {
                insert(database, table, DOMAIN, (0, None), (None, None), &row(signed(*number), None, name))
            }
            Event::Category { domain, number, name } => {
                let row = row(i64::from(*domain), Some(*number), name);
                insert(database, table, CATEGORY, (0, None), (None, None), &row)
            }
            _ => Ok(()),
        }
    }

    /// An event of a thread.
    pub(super) fn take<'d>(
        &mut self,
        (thread, time): (u32, i64),
        event: Event<'_>,
        (table, ids, database): (&mut Table<'d>, &Ids, &'d Connection),
    ) -> rusqlite::Result<()> {
        match event {
            Event::Push(mark) => {
                let open = Open { start: time, thread, row: Some(self.row(&mark, None)) };
                self.pushed.entry((thread, u64::from(mark.domain))).or_default().push(open);
            }
            Event::Start(mark) => {
                let open = Open { start: time, thread, row: Some(self.row(&mark, Some(signed(mark.range)))) };
                self.started.insert(mark.range, open);
            }
            Event::Mark(mark) => {
                let row = self.row(&mark, None);
                insert(database, table, MARK, (time, None), (Some(ids.thread(thread)), None), &row)?;
            }
            Event::Pop { domain } => {
                let open = self.pushed.get_mut(&(thread, domain)).and_then(Vec::pop);
                self.close(PUSHED, open, Some((thread, time)), (table, ids, database))?;
            }
            Event::End { range } => {
                let open = self.started.remove(&range);
                self.close(STARTED, open, Some((thread, time)), (table, ids, database))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Follows a range that is not exported, so that its end does not close another one.
    pub(super) fn skip(&mut self, thread: u32, event: &Event<'_>) {
        let open = Open { start: 0, thread, row: None };
        match event {
            Event::Push(mark) => {
                self.pushed.entry((thread, u64::from(mark.domain))).or_default().push(open);
            }
            Event::Start(mark) => {
                self.started.insert(mark.range, open);
            }
            _ => {}
        }
    }

    /// Ranges that never ended.
    pub(super) fn finish<'d>(&mut self, to: (&mut Table<'d>, &Ids, &'d Connection)) -> rusqlite::Result<()> {
        let (table, ids, database) = to;
        for open in std::mem::take(&mut self.pushed).into_values().flatten() {
            self.close(PUSHED, Some(open), None, (table, ids, database))?;
        }
        for open in std::mem::take(&mut self.started).into_values() {
            self.close(STARTED, Some(open), None, (table, ids, database))?;
        }
        Ok(())
    }

    fn close<'d>(
        &mut self,
        kind: i64,
        open: Option<Open>,
        end: Option<(u32, i64)>,
        (table, ids, database): (&mut Table<'d>, &Ids, &'d Connection),
    ) -> rusqlite::Result<()> {
        let Some(open) = open else {
            self.without_beginning += 1;
            return Ok(());
        };
        let Some(row) = &open.row else { return Ok(()) };
        let begun_by = ids.thread(open.thread);
        // As nsys does: only where another thread ended it.
        let ended_by = end.map(|(thread, _)| ids.thread(thread)).filter(|&it| it != begun_by);
        let times = (open.start, end.map(|(_, time)| time));
        insert(database, table, kind, times, (Some(begun_by), ended_by), row)
    }

    fn row(&self, mark: &Mark<'_>, range: Option<i64>) -> Row {
        let (text, text_id) = match &mark.text {
            Text::Own(text) => (Some(text.as_ref().to_owned()), None),
            Text::Registered(number) => (None, self.registered.get(number).copied()),
        };
        Row {
            range,
            domain: i64::from(mark.domain),
            category: mark.category,
            color: mark.color,
            payload: mark.payload,
            text,
            text_id,
        }
    }
}

fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn insert<'d>(
    database: &'d Connection,
    table: &mut Table<'d>,
    kind: i64,
    (start, end): (i64, Option<i64>),
    (thread, end_thread): (Option<i64>, Option<i64>),
    row: &Row,
) -> rusqlite::Result<()> {
    let Row { range, domain, category, color, payload, text, text_id } = row;
    let (mut whole, mut signed, mut real) = (None, None, None);
    let (mut whole32, mut signed32, mut real32) = (None, None, None);
    match *payload {
        Some(Payload::Unsigned(value)) => whole = Some(value.cast_signed()),
        Some(Payload::Signed(value)) => signed = Some(value),
        Some(Payload::Double(value)) => real = Some(value),
        Some(Payload::Unsigned32(value)) => whole32 = Some(value),
        Some(Payload::Signed32(value)) => signed32 = Some(value),
        Some(Payload::Float(value)) => real32 = Some(f64::from(value)),
        None => {}
    }
    table.insert(
        database,
        &schema::NVTX,
        params![
            start, end, kind, range, category, color, text, thread, end_thread, text_id, domain, whole,
            signed, real, whole32, signed32, real32
        ],
    )
}
