//! Memory on a device, freed when nothing uses it any longer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{DriverError, result, sys};

use super::order::{Access, Order};
use super::queue::Queue;
use crate::error::GpuError;

/// An allocation. Buffers own one; a graph that uses it owns it, too.
#[derive(Debug)]
pub struct Allocation {
    memory: Memory,
    order: Mutex<Order<Queue>>,
    /// The key of [`Order::sole`], 0 for none: most memory is only ever used on one stream, which
    /// then need not lock `order`.
    sole: AtomicUsize,
}

/// An address and the queue in whose order it is freed.
#[derive(Debug, Clone)]
struct Memory {
    address: u64,
    bytes: usize,
    home: Queue,
    /// Whether it is freed here. Otherwise its owner frees it.
    owned: bool,
}

/// Memory that could not be freed because a queue that uses it was being captured.
static LATER: Mutex<Vec<(Memory, Vec<Queue>)>> = Mutex::new(Vec::new());

impl Allocation {
    /// So many bytes, in the order of `home`. Nothing is allocated for none.
    pub(crate) fn new(home: &Queue, bytes: usize) -> Result<Self, DriverError> {
        let context = home.cuda().context();
        context.bind_to_thread()?;
        let address = if bytes == 0 {
            0
        } else if context.has_async_alloc() {
            // SAFETY: the stream is alive. Whether the memory is read before it is written is up to
            // the caller.
            unsafe { result::malloc_async(home.handle(), bytes) }?
        } else {
            // SAFETY: as above.
            unsafe { result::malloc_sync(bytes) }?
        };
        Ok(Self::at(Memory { address, bytes, home: home.clone(), owned: true }))
    }

    /// Memory that was allocated elsewhere, last used on `home`. `owned`: it is freed here, in the
    /// order of `home`, by the function that suits how [`Allocation::new`] allocates.
    pub(crate) fn foreign(home: &Queue, address: u64, bytes: usize, owned: bool) -> Self {
        Self::at(Memory { address, bytes, home: home.clone(), owned })
    }

    fn at(memory: Memory) -> Self {
        let home = memory.home.clone();
        Allocation { sole: AtomicUsize::new(home.key()), order: Mutex::new(Order::new(Some(home))), memory }
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// The context that the memory belongs to.
    pub(crate) fn context(&self) -> sys::CUcontext {
        self.memory.home.cuda().context().cu_ctx()
    }

    /// `queue` is about to use the memory: it waits for what it must not overtake.
    pub(crate) fn enter(&self, queue: &Queue, access: Access) -> Result<(), GpuError> {
        // Other uses at this moment only read the memory, and `order` keeps both: see
        // `Order::enter`.
        if self.sole.load(Ordering::Acquire) == queue.key() {
            return Ok(());
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.waits_for(queue, access).iter().try_for_each(|other| queue.wait_for(other))?;
        order.enter(queue, access);
        self.sole.store(order.sole().map_or(0, Queue::key), Ordering::Release);
        Ok(())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.memory.owned && self.memory.address != 0 {
            let order = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
            let users = order.others(&self.memory.home);
            free(&self.memory, users);
        }
    }
}

/// Queues the end of the memory behind all of its uses. Where a use cannot be waited for now, the
/// memory is kept for [`free_later`].
fn free(memory: &Memory, users: Vec<Queue>) {
    let context = memory.home.cuda().context();
    let _entered = memory.home.enter();
    let captured = |queue: &Queue| !matches!(queue.capture(), Ok(None));
    let waited = !captured(&memory.home) && users.iter().all(|user| memory.home.wait_for(user).is_ok());
    if !waited {
        LATER.lock().unwrap_or_else(PoisonError::into_inner).push((memory.clone(), users));
        return;
    }
    context.record_err(context.bind_to_thread());
    if context.has_async_alloc() {
        // SAFETY: it came from `malloc_async`, and everything that uses it is in front of this.
        context.record_err(unsafe { result::free_async(memory.address, memory.home.handle()) });
    } else {
        context.record_err(memory.home.cuda().synchronize());
        // SAFETY: it came from `malloc_sync`, and nothing uses it any longer.
        context.record_err(unsafe { result::free_sync(memory.address) });
    }
}

/// Frees what could not be freed during a capture that has ended now.
pub(crate) fn free_later() {
    let later = std::mem::take(&mut *LATER.lock().unwrap_or_else(PoisonError::into_inner));
    for (memory, users) in later {
        free(&memory, users);
    }
}
