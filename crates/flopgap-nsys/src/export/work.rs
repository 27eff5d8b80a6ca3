//! Kernels, copies, memsets and whole graphs together, in the order of time.

use std::cmp::Reverse;
use std::mem::take;
use std::panic::resume_unwind;
use std::sync::mpsc::{IntoIter, SyncSender, sync_channel};
use std::thread::scope;
use std::vec;

use super::window::in_order;
use crate::error::if_recorded;
use crate::rows::Decoded;
use crate::tables::gpu::{Kind, copies, kernels, memsets};
use crate::tables::graph::graph_runs;
use crate::{Error, GraphRun, Kernel, MemoryCopy, MemorySet, Trace};

/// A piece of GPU work.
pub(super) enum Work {
    Kernel(Kernel),
    Copy(MemoryCopy),
    Set(MemorySet),
    Graph(GraphRun),
}

impl Work {
    fn span(&self) -> (i64, i64) {
        let at = match self {
            Work::Kernel(kernel) => &kernel.at,
            Work::Copy(copy) => &copy.at,
            Work::Set(set) => &set.at,
            Work::Graph(graph) => &graph.at,
        };
        (at.start, at.end)
    }
}

/// All work of a kind.
fn work_of(trace: &Trace, kind: Kind) -> Result<Box<dyn Decoded<Work>>, Error> {
    Ok(match kind {
        Kind::Kernel => Box::new(kernels(trace)?.map(|kernel| kernel.map(Work::Kernel))),
        Kind::Copy => Box::new(copies(trace)?.map(|copy| copy.map(Work::Copy))),
        Kind::Set => Box::new(memsets(trace)?.map(|set| set.map(Work::Set))),
        Kind::Graph => Box::new(graph_runs(trace)?.map(|graph| graph.map(Work::Graph))),
    })
}

/// Sends the work of a kind by start.
fn read(trace: &Trace, kind: Kind, sender: &SyncSender<Vec<Work>>) -> Result<(), Error> {
    let Some(rows) = if_recorded(work_of(trace, kind))? else { return Ok(()) };
    let mut batch = Vec::with_capacity(BATCH);
    for work in in_order(rows, Work::span) {
        batch.push(work?);
        // The other side hangs up only after a failure, which it reports.
        if batch.len() == BATCH && sender.send(take(&mut batch)).is_err() {
            return Ok(());
        }
    }
    let _ = sender.send(batch);
    Ok(())
}

/// How many pieces of work are handed over at once.
const BATCH: usize = 1024;

/// The unread part of one table.
struct Source {
    batches: IntoIter<Vec<Work>>,
    batch: vec::IntoIter<Work>,
    next: Option<Work>,
}

impl Source {
    fn advance(&mut self) -> Option<Work> {
        let next = loop {
            if let Some(work) = self.batch.next() {
                break Some(work);
            }
            match self.batches.next() {
                Some(batch) => self.batch = batch.into_iter(),
                None => break None,
            }
        };
        std::mem::replace(&mut self.next, next)
    }
}

/// Passes all GPU work to `write` by start. Each table is read by a thread of its own, a little
/// ahead of the writing.
pub(super) fn work_in_order(
    trace: &Trace,
    mut write: impl FnMut(&Work) -> Result<(), Error>,
) -> Result<(), Error> {
    scope(|scope| {
        let (mut sources, mut readers) = (Vec::new(), Vec::new());
        for kind in Kind::all(true) {
            let (sender, receiver) = sync_channel(2);
            readers.push(scope.spawn(move || read(trace, *kind, &sender)));
            sources.push(Source { batches: receiver.into_iter(), batch: Vec::new().into_iter(), next: None });
        }
        for source in &mut sources {
            source.advance();
        }
        let mut written = Ok(());
        while written.is_ok() {
            let waiting = sources.iter_mut().filter(|source| source.next.is_some());
            let Some(first) = waiting.min_by_key(|source| {
                source.next.as_ref().map(Work::span).map(|(start, end)| (start, Reverse(end)))
            }) else {
                break;
            };
            if let Some(work) = first.advance() {
                written = write(&work);
            }
        }
        drop(sources);
        for reader in readers {
            let read = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
            written = written.and(read);
        }
        written
    })
}
