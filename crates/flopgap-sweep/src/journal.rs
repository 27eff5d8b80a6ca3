//! The journal: events of the processes that filled a run directory, one a line.
//!
//! Completed work is determined from the raw files, which are verified, so a truncated or damaged
//! journal can neither lose a measurement nor cause a wrong one to be accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flopgap_fs::WriteError;
use serde::{Deserialize, Serialize};

use crate::{Config, Origin, RunError, Shard};

/// The `format` of every journal.
pub const JOURNAL_FORMAT: &str = "flopgap-journal";

/// The version of the format that this crate writes, and the newest that it reads.
pub const JOURNAL_VERSION: u32 = 1;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The first line of every journal.
    Journal {
        /// Always [`JOURNAL_FORMAT`].
        format: String,
        /// The version of the lines that follow.
        version: u32,
    },
    /// A process began to fill the run.
    Start {
        /// When (RFC 3339).
        time: String,
        /// The process.
        pid: u32,
        /// The machine.
        host: String,
        /// The devices that it counts on.
        devices: Vec<u32>,
        /// What counts there.
        origin: Origin,
    },
    /// A configuration is measured and its record written.
    Done {
        /// The configuration.
        config: Config,
        /// The device that it was measured on.
        device: u32,
        /// How long that took.
        elapsed_ns: u64,
    },
    /// A configuration does not fit into the device's memory.
    Skipped {
        /// The configuration.
        config: Config,
        /// What it needs, and what is available.
        reason: String,
    },
    /// A configuration could not be measured.
    Failed {
        /// The configuration.
        config: Config,
        /// What happened.
        reason: String,
    },
    /// The process ended; absent if it was killed.
    End {
        /// When (RFC 3339).
        time: String,
        /// Why it ended early, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl Entry {
    fn header() -> Entry {
        Entry::Journal { format: JOURNAL_FORMAT.to_owned(), version: JOURNAL_VERSION }
    }

    /// The line: an eight-digit CRC-32 of the JSON, the JSON, a line end.
    fn line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_else(|error| unreachable!("{error}"));
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
    }

    /// The entry of a line without its end; `None` if it is damaged.
    fn parse(line: &[u8]) -> Option<Entry> {
        let (sum, json) = line.split_first_chunk::<9>()?;
        let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?.strip_suffix(' ')?, 16).ok()?;
        (sum == crc32fast::hash(json)).then(|| serde_json::from_slice(json).ok())?
    }
}

/// The entries of a journal and which of its lines are damaged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalContents {
    /// The undamaged entries after the first line.
    pub entries: Vec<Entry>,
    /// The damaged lines, from 1. An incomplete last line is not among them, since a killed process
    /// leaves one.
    pub damaged: Vec<usize>,
    /// The length in bytes of all whole lines.
    whole: u64,
}

impl JournalContents {
    fn parse(bytes: &[u8], path: &Path) -> Result<JournalContents, RunError> {
        // Anything after the last line end is an incomplete write.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut contents = JournalContents { whole: whole as u64, ..JournalContents::default() };
        for (index, line) in bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
            match Entry::parse(&line[..line.len() - 1]) {
                Some(Entry::Journal { format, version }) => {
                    if format != JOURNAL_FORMAT || version == 0 || version > JOURNAL_VERSION {
                        return Err(RunError::JournalVersion { path: path.to_owned(), format, version });
                    }
                }
                Some(entry) => contents.entries.push(entry),
                None => contents.damaged.push(index + 1),
            }
        }
        Ok(contents)
    }

    /// The damaged lines, with the path of the journal.
    pub(crate) fn damaged_lines(&self, path: &Path) -> impl Iterator<Item = DamagedLine> {
        self.damaged.iter().map(|&line| DamagedLine { path: path.to_owned(), line })
    }

    /// The last process that began to write.
    pub fn last_start(&self) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| matches!(entry, Entry::Start { .. }))
    }
}

/// A damaged line of a journal. It is ignored, since completed work is determined from the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// The journal.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for DamagedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: the line is damaged and ignored", self.path.display(), self.line)
    }
}

/// The directory of the journals.
pub(crate) fn folder(run: &Path) -> PathBuf {
    run.join("journal")
}

/// The journal of one worker: `journal/1-of-1.jsonl`.
pub(crate) fn path(run: &Path, shard: Shard) -> PathBuf {
    folder(run).join(format!("{}.jsonl", shard.to_string().replace('/', "-of-")))
}

/// The journals of a run with their workers, sorted by name; empty without a directory.
pub(crate) fn list(run: &Path) -> Result<Vec<(PathBuf, Shard)>, RunError> {
    let folder = folder(run);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(RunError::Io { path: folder, source }),
    };
    let mut journals = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| RunError::Io { path: folder.clone(), source })?;
        let name = entry.file_name();
        let shard =
            name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.replace("-of-", "/").parse().ok());
        if let Some(shard) = shard {
            journals.push((entry.path(), shard));
        }
    }
    journals.sort();
    Ok(journals)
}

/// Reads a journal, also while another process writes it.
///
/// # Errors
/// [`RunError::Io`], and [`RunError::JournalVersion`] for one that a newer program wrote.
pub fn read_journal(path: &Path) -> Result<JournalContents, RunError> {
    let bytes = fs::read(path).map_err(|source| RunError::Io { path: path.to_owned(), source })?;
    JournalContents::parse(&bytes, path)
}

/// What all journals of a run contain.
#[derive(Debug, Default)]
pub(crate) struct Journals {
    /// Whether there are any, that is, whether this program recorded the run.
    pub(crate) any: bool,
    /// The configurations that were skipped or failed, each with the reason.
    pub(crate) gaps: BTreeMap<Config, String>,
    /// The damaged lines.
    pub(crate) damaged: Vec<DamagedLine>,
}

impl Journals {
    pub(crate) fn read(run: &Path) -> Result<Journals, RunError> {
        let mut journals = Journals::default();
        for (path, _) in list(run)? {
            journals.any = true;
            let contents = read_journal(&path)?;
            journals.damaged.extend(contents.damaged_lines(&path));
            for entry in contents.entries {
                if let Entry::Skipped { config, reason } | Entry::Failed { config, reason } = entry {
                    journals.gaps.insert(config, reason);
                }
            }
        }
        Ok(journals)
    }
}

/// A journal opened exclusively by this process.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// The length in bytes of all complete lines.
    whole: u64,
}

impl Journal {
    /// Opens a journal for appending and removes an incomplete last line; `None` if another process
    /// writes it. The lock is released when the process ends, however it ends.
    pub(crate) fn open(path: &Path) -> Result<Option<(Journal, JournalContents)>, RunError> {
        let write_error = |source| WriteError::new(path, source);
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = options.open(path).map_err(write_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            // On a file system without locks two writers would go unnoticed, but files still appear
            // whole.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(write_error(error).into()),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(write_error)?;
        let contents = JournalContents::parse(&bytes, path)?;
        file.set_len(contents.whole).map_err(write_error)?;
        let mut journal = Journal { path: path.to_owned(), file, whole: contents.whole };
        if contents.whole == 0 {
            journal.append(&Entry::header())?;
        }
        Ok(Some((journal, contents)))
    }

    /// Appends a line, entirely or not at all.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), WriteError> {
        let line = entry.line();
        if let Err(source) = self.file.write_all(line.as_bytes()) {
            // A full disk may have accepted a part of it. If truncation fails too, the next process
            // removes the rest.
            let _ = self.file.set_len(self.whole);
            return Err(WriteError::new(&self.path, source));
        }
        self.whole += line.len() as u64;
        Ok(())
    }

    /// Flushes everything to the disk.
    pub(crate) fn sync(&self) -> Result<(), WriteError> {
        let write_error = |source| WriteError::new(&self.path, source);
        self.file.sync_all().map_err(write_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(n: u64) -> Entry {
        Entry::Done { config: Config { n, d: 128, m: 16 }, device: 0, elapsed_ns: 1_000 }
    }

    fn ours(path: &Path) -> (Journal, JournalContents) {
        Journal::open(path).unwrap().expect("nobody else has it")
    }

    #[test]
    fn the_format_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-of-1.jsonl");
        let (mut journal, contents) = ours(&path);
        assert_eq!(contents, JournalContents::default());
        journal.append(&done(2)).unwrap();
        journal.append(&Entry::End { time: "2026-11-21T03:42:22Z".to_owned(), reason: None }).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "c022c345 {\"entry\":\"journal\",\"format\":\"flopgap-journal\",\"version\":1}\n\
             f81d6524 {\"entry\":\"done\",\"config\":{\"n\":2,\"d\":128,\"m\":16},\"device\":0,\"elapsed_ns\":1000}\n\
             66e21c1a {\"entry\":\"end\",\"time\":\"2026-11-21T03:42:22Z\"}\n"
        );
    }

    #[test]
    fn a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-of-1.jsonl");
        let (mut journal, _) = ours(&path);
        for n in 1..=3 {
            journal.append(&done(n)).unwrap();
        }
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let lines = whole[..length].split(|&byte| byte == b'\n').count() - 1;
            let (mut journal, contents) = ours(&path);
            assert_eq!(contents.entries, (1..lines.max(1) as u64).map(done).collect::<Vec<_>>());
            assert!(contents.damaged.is_empty());
            journal.append(&done(9)).unwrap();
            drop(journal);
            let after = read_journal(&path).unwrap();
            assert_eq!(after.entries.last(), Some(&done(9)));
            assert_eq!((after.entries.len(), after.damaged.len()), (lines.max(1), 0));
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-of-1.jsonl");
        let (mut journal, _) = ours(&path);
        for n in 1..=3 {
            journal.append(&done(n)).unwrap();
        }
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.replace("\"n\":2", "\"n\":4")).unwrap();
        let contents = read_journal(&path).unwrap();
        assert_eq!((contents.entries, contents.damaged), (vec![done(1), done(3)], vec![3]));
    }

    #[test]
    fn no_damage_makes_up_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-of-1.jsonl");
        let (mut journal, _) = ours(&path);
        let written: Vec<Entry> = (1..=3).map(done).collect();
        for entry in &written {
            journal.append(entry).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[place] ^= 1 << bit;
                let contents = JournalContents::parse(&bytes, &path).unwrap();
                assert!(
                    contents.entries.iter().all(|entry| written.contains(entry)),
                    "byte {place}, bit {bit}"
                );
                let lost = written.len() - contents.entries.len();
                assert!(lost <= 2, "byte {place}, bit {bit}: {lost} lines lost"); // two where a line end is gone
            }
        }
    }

    #[test]
    fn a_newer_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-of-1.jsonl");
        fs::write(&path, Entry::Journal { format: JOURNAL_FORMAT.to_owned(), version: 2 }.line()).unwrap();
        let error = Journal::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("1-of-1.jsonl: format `flopgap-journal` version 2 is not supported (flopgap-journal, up to version 1)"), "{error}");
    }

    #[test]
    fn one_writer_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1-of-1.jsonl");
        let (journal, _) = ours(&path);
        assert!(Journal::open(&path).unwrap().is_none());
        drop(journal);
        ours(&path);
    }
}
