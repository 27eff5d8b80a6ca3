//! The resources that graphs of open captures use and therefore own.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::GpuError;
use crate::memory::{Access, Allocation, Order, Queue};

/// The resources of a graph.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    memory: Vec<Used>,
    kept: Vec<Kept>,
}

impl Captured {
    /// All memory, and how the graph uses it.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (&Arc<Allocation>, Access)> {
        self.memory.iter().map(|used| (&used.allocation, used.access))
    }

    /// Whether the graph reads numbers on the host.
    pub(crate) fn reads_host(&self) -> bool {
        self.kept.iter().any(|kept| matches!(kept, Kept::Host(_)))
    }
}

/// Memory that a graph uses.
#[derive(Debug)]
struct Used {
    allocation: Arc<Allocation>,
    access: Access,
    /// Among the streams of the capture.
    order: Order<Queue>,
}

/// Resources other than device memory that must live as long as a graph.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Numbers on the host that the graph reads.
    Host(#[expect(dead_code, reason = "kept alive")] Box<[MaybeUninit<u8>]>),
    /// Code, handles and plans.
    Owner(#[expect(dead_code, reason = "kept alive")] Box<dyn Owner>),
}

/// Anything that a graph can keep alive.
pub(crate) trait Owner: fmt::Debug + Send + Sync {}

impl<T: fmt::Debug + Send + Sync> Owner for T {}

impl Kept {
    /// Keeps a kernel, a handle or a plan.
    pub(crate) fn owner(owner: impl Owner + 'static) -> Self {
        Kept::Owner(Box::new(owner))
    }
}

/// The open captures, by the driver's number.
static CAPTURES: Mutex<Vec<(u64, Captured)>> = Mutex::new(Vec::new());

fn captures() -> MutexGuard<'static, Vec<(u64, Captured)>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A capture has begun.
pub(crate) fn begin(id: u64) {
    captures().push((id, Captured::default()));
}

/// Ends a capture and returns the resources of its graph.
pub(crate) fn end(id: Option<u64>) -> Captured {
    let mut open = captures();
    let index = open.iter().position(|(number, _)| Some(*number) == id);
    index.map(|index| open.swap_remove(index).1).unwrap_or_default()
}

/// Runs with what is known of a capture.
fn with_captured<T>(id: u64, run: impl FnOnce(&mut Captured) -> T) -> Result<T, GpuError> {
    let mut open = captures();
    let found = open.iter_mut().find(|(number, _)| *number == id);
    // Started by other means, so that nothing would keep the memory alive.
    let (_, captured) = found.ok_or(GpuError::Capturing {
        action: "queue work on a stream that is being captured by other means than Stream::capture",
    })?;
    Ok(run(captured))
}

/// The graph of a capture will use this memory.
pub(crate) fn record(
    id: u64,
    allocation: &Arc<Allocation>,
    queue: &Queue,
    access: Access,
) -> Result<(), GpuError> {
    let waits = with_captured(id, |captured| captured.used(allocation).order.waits_for(queue, access))?;
    // Not under the lock of the captures: beginning one takes it while a queue is closed.
    waits.iter().try_for_each(|other| queue.wait_for(other))?;
    with_captured(id, |captured| {
        let used = captured.used(allocation);
        used.order.enter(queue, access);
        used.access = used.access.max(access);
    })
}

impl Captured {
    /// What the graph does with this memory, which it owns from now on.
    fn used(&mut self, allocation: &Arc<Allocation>) -> &mut Used {
        let known = self.memory.iter().position(|used| Arc::ptr_eq(&used.allocation, allocation));
        let index = known.unwrap_or(self.memory.len());
        if known.is_none() {
            // What came before the graph is waited for when it is launched.
            let (allocation, access, order) = (allocation.clone(), Access::Read, Order::new(None));
            self.memory.push(Used { allocation, access, order });
        }
        &mut self.memory[index]
    }
}

/// The graph of a capture will use this.
pub(crate) fn keep(id: u64, kept: Kept) -> Result<(), GpuError> {
    with_captured(id, |captured| captured.kept.push(kept))
}
