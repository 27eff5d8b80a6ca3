//! The binary report, `.ncu-rep`, and its zstd form, `.ncu-repz`.
//!
//! A report is read block by block and result by result: kernels' code is skipped, and of a metric
//! with instances (a value per SM or per instruction) the metric's own value is kept; only the
//! instructions by opcode are read one by one. A metric's name is an index into a string table
//! that later blocks extend, so a result may come before its names: it waits until they are there.
//! Range, command list and graph results are launches too, named as in ncu's tables (`range`, the
//! list's own name, `graph`); they have no grid. The launch id is the result's index, which is
//! what `ncu
//! -i` prints. Metrics without a value, NaN or an empty text are left out, as they are where the
//! CSV pages print `n/a` or nothing.

mod blocks;
mod fault;
mod launch;
mod nvtx;
mod proto;
#[cfg(test)]
mod tests;
mod units;
mod waiting;
mod wire;
#[cfg(test)]
mod writer;

use std::io::Read;
use std::path::{Path, PathBuf};

use self::blocks::{Blocks, Item, Stop};
pub use self::fault::FormatFault;
use self::launch::Name;
use self::proto::KNOWN_VERSION;
use self::waiting::Waiting;
use self::wire::{Damage, Message};
use crate::error::{Error, Fault};
use crate::model::{Launch, Layout, Strings, Symbol};
use crate::source::{Context, Source};
use crate::warning::WarningKind;

/// The bytes that every `.ncu-rep` begins with.
pub(crate) const MAGIC: &[u8; 4] = b"NVR\0";

/// How many damaged results are left out before the report as a whole counts as damaged.
const MOST_DAMAGED: usize = 16;

/// Reads a `.ncu-rep` block by block. All calls must get the same [`Context`]: the report's names
/// become its symbols.
pub(crate) struct RepSource<R> {
    blocks: Blocks<R>,
    path: PathBuf,
    /// The string table so far; a metric's name is an index into it.
    names: Vec<Name>,
    /// Launches that were read before their names.
    waiting: Waiting,
    process: Process,
    /// The index of the next result.
    next: u64,
    /// Launches that were handed out.
    read: u64,
    /// Results that were left out, as damaged as the first of them.
    damaged: Vec<Damage>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing but the file header was read.
    Opened,
    Reading,
    /// No block is left, for this reason if it is not the file's end; launches may still wait.
    Stopped(Option<Stop>),
    Ended,
}

/// The process of the current block.
#[derive(Debug, Clone, Copy)]
struct Process {
    id: Option<u64>,
    name: Symbol,
    host: Symbol,
}

impl Process {
    const UNKNOWN: Process = Process { id: None, name: Symbol::EMPTY, host: Symbol::EMPTY };

    /// From a `ProcessInfo`.
    fn new(info: Message<'_>, strings: &mut Strings) -> Result<Self, Damage> {
        let text = |number| Ok(info.message(number)?.map(Message::text).unwrap_or_default());
        let (host, path) = (text(2)?, text(3)?);
        // ncu's tables show the executable without its directory.
        let name = strings.intern(path.rsplit(['/', '\\']).next().unwrap_or_default());
        Ok(Process { id: info.number(1)?, name, host: strings.intern(&host) })
    }
}

impl<R: Read> RepSource<R> {
    /// `input` stands at the first byte of the file, the magic included, already decompressed. It
    /// is buffered here.
    pub(crate) fn new(input: R, path: PathBuf) -> Result<Self, Error> {
        match Blocks::new(input) {
            Ok(blocks) => Ok(RepSource {
                blocks,
                path,
                names: Vec::new(),
                waiting: Waiting::default(),
                process: Process::UNKNOWN,
                next: 0,
                read: 0,
                damaged: Vec::new(),
                state: State::Opened,
            }),
            Err(stop) => Err(failed(&path, stop)),
        }
    }

    /// Reads on up to the next launch; `false` at the end. A launch whose names are still to come
    /// is set aside, and so is every launch behind it.
    fn advance(&mut self, context: &mut Context, launch: &mut Launch) -> Result<bool, Stop> {
        loop {
            if self.waiting.release(&self.names, false, context, launch) {
                return Ok(true);
            }
            match self.blocks.next_item()? {
                Item::Block(header) => {
                    for text in header.strings.into_iter().flat_map(|table| table.all(1)) {
                        self.names.push(Name::new(&text?.text(), &mut context.strings));
                    }
                    self.process = match header.process {
                        Some(process) => Process::new(process, &mut context.strings)?,
                        None => Process::UNKNOWN,
                    };
                }
                Item::Result(kind, message) => {
                    clear(launch);
                    launch.layout = Layout::Report;
                    launch.id = Some(self.next);
                    launch.position = self.next;
                    launch.process_id = self.process.id;
                    launch.process_name = self.process.name;
                    launch.host = self.process.host;
                    self.next += 1;
                    match launch::fill(launch, kind, message, &self.names, &mut context.strings) {
                        Ok(unnamed) if unnamed.is_empty() && self.waiting.is_empty() => return Ok(true),
                        Ok(unnamed) => self.waiting.push(std::mem::take(launch), unnamed),
                        // The frame around it is intact, so the results after it can be read.
                        Err(damage) if self.damaged.len() < MOST_DAMAGED => {
                            let (launch, fault) = (self.next - 1, damage.fault.clone());
                            context.warn(damage.at, WarningKind::ResultDamaged { launch, fault });
                            self.damaged.push(damage);
                        }
                        Err(damage) => return Err(damage.into()),
                    }
                }
                Item::Unknown { at, bytes } => {
                    context.warn(at, WarningKind::ResultsUnknown { bytes });
                }
                Item::End => return Ok(false),
            }
        }
    }
}

impl<R: Read> Source for RepSource<R> {
    fn next_launch(&mut self, context: &mut Context, launch: &mut Launch) -> Result<bool, Error> {
        if matches!(self.state, State::Opened) {
            self.state = State::Reading;
            let version = self.blocks.version();
            if version > KNOWN_VERSION {
                context.warn(0, WarningKind::FormatNewer { version, known: KNOWN_VERSION });
            }
        }
        if matches!(self.state, State::Reading) {
            match self.advance(context, launch) {
                Ok(true) => {
                    self.read += 1;
                    return Ok(true);
                }
                Ok(false) => self.state = State::Stopped(None),
                Err(stop) => self.state = State::Stopped(Some(stop)),
            }
        }
        if matches!(self.state, State::Stopped(_)) && self.waiting.release(&self.names, true, context, launch)
        {
            self.read += 1;
            return Ok(true);
        }
        clear(launch);
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Stopped(stop) => self.conclude(stop, context).map(|()| false),
            _ => Ok(false),
        }
    }
}

impl<R> RepSource<R> {
    /// What the end means: a damage behind launches is a warning, one before all of them an error.
    fn conclude(&self, stop: Option<Stop>, context: &mut Context) -> Result<(), Error> {
        let stop = match stop {
            Some(Stop::Damaged(damage)) if self.read > 0 => {
                context.warn(damage.at, WarningKind::RestDamaged { fault: damage.fault });
                None
            }
            None if self.read == 0 => self.damaged.first().cloned().map(Stop::Damaged),
            stop => stop,
        };
        stop.map_or(Ok(()), |stop| Err(failed(&self.path, stop)))
    }
}

/// Back to the default, with the room of the vectors kept.
fn clear(launch: &mut Launch) {
    let (mut nvtx, mut metrics) = (std::mem::take(&mut launch.nvtx), std::mem::take(&mut launch.metrics));
    let [mut opcodes, mut modified_opcodes] =
        [&mut launch.opcodes, &mut launch.modified_opcodes].map(std::mem::take);
    nvtx.clear();
    metrics.clear();
    opcodes.clear();
    modified_opcodes.clear();
    *launch = Launch { nvtx, metrics, opcodes, modified_opcodes, ..Launch::default() };
}

fn failed(path: &Path, stop: Stop) -> Error {
    let fault = match stop {
        Stop::Io(source) => Fault::Io { source },
        Stop::Damaged(Damage { at, fault }) => Fault::DamagedReport { offset: at, fault },
    };
    Error::new(path, fault)
}
