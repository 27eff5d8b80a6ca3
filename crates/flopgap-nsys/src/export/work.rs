//! Kernels, copies, sets and whole graphs together, in the order of time.

use std::cmp::Reverse;
use std::io;
use std::mem::take;
use std::panic::resume_unwind;
use std::sync::mpsc::{IntoIter, sync_channel};
use std::thread::scope;
use std::vec;

use super::links::optional;
use super::window::in_order;
use super::writing;
use crate::{Error, GraphRun, Kernel, MemoryCopy, MemorySet, Trace};

/// A piece of GPU work.
pub(super) enum Work {
    Kernel(Kernel),
    Copy(MemoryCopy),
    Set(MemorySet),
    Graph(GraphRun),
}

impl Work {
    fn span(&self) -> (i64, Reverse<i64>) {
        let at = match self {
            Work::Kernel(kernel) => &kernel.at,
            Work::Copy(copy) => &copy.at,
            Work::Set(set) => &set.at,
            Work::Graph(graph) => &graph.at,
        };
        (at.start, Reverse(at.end))
    }
}

/// Reads one table.
type Scan = fn(&Trace, &mut dyn FnMut(i64, i64, Work)) -> Result<(), Error>;

const SCANS: [Scan; 4] = [
    |trace, visit| trace.kernels(|kernel| visit(kernel.at.start, kernel.at.end, Work::Kernel(kernel))),
    |trace, visit| trace.copies(|copy| visit(copy.at.start, copy.at.end, Work::Copy(copy))),
    |trace, visit| trace.sets(|set| visit(set.at.start, set.at.end, Work::Set(set))),
    |trace, visit| trace.graph_runs(|graph| visit(graph.at.start, graph.at.end, Work::Graph(graph))),
];

/// How much work is handed over at once.
const BATCH: usize = 1024;

/// What one table still has to give.
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

/// Passes all GPU work to `write` by start. Each table is read by a thread of its own, a little ahead of the writing.
pub(super) fn work_in_order(
    trace: &Trace,
    mut write: impl FnMut(&Work) -> Result<(), Error>,
) -> Result<(), Error> {
    scope(|scope| {
        let (mut sources, mut readers) = (Vec::new(), Vec::new());
        for scan in SCANS {
            let (sender, receiver) = sync_channel(2);
            readers.push(scope.spawn(move || {
                // The other side hangs up only when it failed, and that failure is the one that is told.
                let hung_up = || writing(Err(io::ErrorKind::BrokenPipe.into()));
                let mut batch = Vec::with_capacity(BATCH);
                optional(in_order(
                    |visit| scan(trace, visit),
                    |work| {
                        batch.push(work);
                        if batch.len() < BATCH {
                            Ok(())
                        } else {
                            sender.send(take(&mut batch)).or_else(|_| hung_up())
                        }
                    },
                ))?;
                sender.send(batch).or_else(|_| hung_up())
            }));
            sources.push(Source { batches: receiver.into_iter(), batch: Vec::new().into_iter(), next: None });
        }
        for source in &mut sources {
            source.advance();
        }
        let mut written = Ok(());
        while written.is_ok() {
            let waiting = sources.iter_mut().filter(|source| source.next.is_some());
            let Some(first) = waiting.min_by_key(|source| source.next.as_ref().map(Work::span)) else {
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
