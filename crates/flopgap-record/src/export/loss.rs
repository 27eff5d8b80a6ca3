//! What a recording lacks, by cause.

use std::fmt;

use rusqlite::{Connection, params};

use super::Ids;
use super::activities::Times;
use crate::format::severity;
use crate::reader::{Process, Unread};

/// Something that happened and is not, or not whole, in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The process; 0 for what is of none.
    pub pid: u64,
    /// Why.
    pub cause: Cause,
    /// How many records.
    pub count: u64,
}

/// Why something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// CUPTI dropped records.
    Dropped,
    /// CUPTI got no buffer: the disk is full, or the bound of the size is reached.
    Refused,
    /// Records were written over by newer ones, because the size is bounded.
    Overwritten,
    /// Ranges found no room.
    Unwritten,
    /// Work has no time.
    Untimed,
    /// Work ends before it begins.
    Reversed,
    /// The process was killed, or ended itself at once: launches whose kernels are not here.
    Killed,
    /// The process still runs: launches whose kernels had not ended.
    Running,
    /// Records that say nothing sensible.
    Unreadable,
    /// Ends of ranges whose beginnings are not here.
    Beginnings,
    /// The process ended while its launches were counted, before it was recorded.
    Counting,
    /// Samples of NVML's GPM that cannot be read.
    Samples,
}

impl Cause {
    /// The name in the table of losses.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Dropped => "dropped",
            Cause::Refused => "refused",
            Cause::Overwritten => "overwritten",
            Cause::Unwritten => "unwritten",
            Cause::Untimed => "untimed",
            Cause::Reversed => "reversed",
            Cause::Killed => "killed",
            Cause::Running => "running",
            Cause::Unreadable => "unreadable",
            Cause::Beginnings => "beginnings",
            Cause::Counting => "counting",
            Cause::Samples => "samples",
        }
    }
}

/// A sentence for the user.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { pid, count, .. } = self;
        if self.cause != Cause::Samples {
            write!(f, "process {pid}: ")?;
        }
        match self.cause {
            Cause::Dropped => write!(f, "CUPTI dropped {count} records"),
            Cause::Refused => {
                write!(f, "CUPTI got no buffer {count} times: the disk or the size limit is reached")
            }
            Cause::Overwritten => write!(f, "{count} of the oldest records were written over (size limit)"),
            Cause::Unwritten => write!(f, "{count} ranges and names found no room"),
            Cause::Untimed => write!(f, "{count} records have no times and are left out"),
            Cause::Reversed => write!(f, "{count} records end before they begin and are left out"),
            Cause::Killed if *count == 0 => {
                write!(f, "it was killed or ended itself at once; no launch that is here lacks its kernel")
            }
            Cause::Killed => {
                write!(f, "it was killed or ended itself at once: {count} launches have no kernel here")
            }
            Cause::Running => write!(f, "it still runs: {count} launches had not ended"),
            Cause::Unreadable => write!(f, "{count} records or bytes cannot be read"),
            Cause::Counting => {
                write!(f, "it ended before all of its kernels were counted: nothing is recorded of it")
            }
            Cause::Samples => {
                write!(f, "{count} lines of GPM samples cannot be read and are left out")
            }
            Cause::Beginnings => write!(f, "{count} ranges began before the recording and are left out"),
        }
    }
}

/// What a process lacks.
pub(super) fn of(process: &Process, unread: Unread, without_beginning: u64, times: Times) -> Vec<Loss> {
    // What a process without CUDA writes is there at once.
    let is_open = process.closed().is_none() && process.cupti().is_some();
    let runs = is_open && process.is_running();
    let was_killed = is_open && !runs;
    let end = if runs { Cause::Running } else { Cause::Killed };
    let ended_counting = process.counting().is_some_and(|(_, ended)| ended.is_none());
    let causes = [
        (Cause::Counting, u64::from(ended_counting)),
        (Cause::Dropped, process.dropped()),
        (Cause::Refused, process.refused()),
        (Cause::Overwritten, process.overwritten().1.max(process.overwritten().0)),
        (Cause::Unwritten, process.unwritten()),
        (Cause::Untimed, times.without),
        (Cause::Reversed, times.reversed),
        (Cause::Unreadable, unread.records + unread.bytes),
        (Cause::Beginnings, without_beginning),
        (end, if is_open { times.launches_alone } else { 0 }),
    ];
    let pid = process.pid();
    // A kill is said even where nothing is known to be missing.
    let counts = |(cause, count): &(Cause, u64)| *count > 0 || *cause == Cause::Killed && was_killed;
    causes.into_iter().filter(counts).map(|(cause, count)| Loss { pid, cause, count }).collect()
}

/// Rows of losses, and the messages that every answer begins with.
pub(super) fn write(
    losses: &[Loss],
    ids: &Ids,
    process: &Process,
    database: &Connection,
) -> rusqlite::Result<()> {
    losses.iter().try_for_each(|loss| write_one(loss, process.flushed(), ids, database))
}

/// As [`write`], of one; what was complete by some time is in the file.
pub(super) fn write_one(
    loss: &Loss,
    flushed: Option<u64>,
    ids: &Ids,
    database: &Connection,
) -> rusqlite::Result<()> {
    let row = params![ids.process(), loss.cause.name(), loss.count.cast_signed()];
    database.execute("INSERT INTO FLOPGAP_LOSS VALUES (?1, ?2, ?3)", row)?;
    let mut text = loss.to_string();
    if let (Cause::Killed, Some(flushed)) = (loss.cause, flushed) {
        let until = ids.time(flushed) as f64 / 1e9;
        text = format!("{text}; what had ended by {until:.3} s is");
    }
    message(severity::WARNING, &text, ids, database)
}

/// A message of the recorder.
pub(super) fn message(severity: u64, text: &str, ids: &Ids, database: &Connection) -> rusqlite::Result<()> {
    let row = params![severity.cast_signed(), text, ids.process()];
    database.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 1, ?1, ?2, ?3)", row)?;
    Ok(())
}
