//! A stream of the driver, and who is queuing work on it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use cudarc::driver::{CudaStream, sys};

use crate::capture;
use crate::error::{During as _, GpuError};

/// A stream of the driver, shared by its clones and by the memory that it uses.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    cuda: Arc<CudaStream>,
    gate: Arc<Gate>,
    /// Whether others hold the stream, too, and may capture it by means that are not counted here.
    foreign: bool,
}

/// The gates of the streams of this process, by [`Queue::key`]: all queues of one stream share one.
static GATES: LazyLock<Mutex<HashMap<usize, Weak<Gate>>>> = LazyLock::new(Mutex::default);

fn gate(key: usize) -> Arc<Gate> {
    let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gate) = gates.get(&key).and_then(Weak::upgrade) {
        return gate;
    }
    gates.retain(|_, gate| gate.strong_count() > 0);
    let gate = Arc::<Gate>::default();
    gates.insert(key, Arc::downgrade(&gate));
    gate
}

/// A number that no other living stream has. The default stream has the same handle in every
/// context.
fn key(stream: &CudaStream) -> usize {
    match stream.cu_stream() as usize {
        // Handles are addresses of the driver, so no stream has an odd one, and none that of a
        // context.
        0 | 1 => stream.context().cu_ctx() as usize + 1,
        handle => handle,
    }
}

/// Two queues are one if the driver has one stream for both. A stream lives as long as memory that
/// it used, so no other gets its handle.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Queue {
    /// A stream of which only this crate has the handle.
    pub(crate) fn new(cuda: Arc<CudaStream>) -> Self {
        Queue { gate: gate(key(&cuda)), cuda, foreign: false }
    }

    /// A stream of others.
    pub(crate) fn foreign(cuda: Arc<CudaStream>) -> Self {
        Queue { foreign: true, ..Queue::new(cuda) }
    }

    /// The capture that what is queued goes to, if any.
    pub(crate) fn capture(&self) -> Result<Option<u64>, GpuError> {
        if self.foreign || capture::is_any_open() { capture::of(self.handle()) } else { Ok(None) }
    }

    pub(crate) fn cuda(&self) -> &Arc<CudaStream> {
        &self.cuda
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.cuda.cu_stream()
    }

    /// A number that no queue of another living stream has; not 0.
    pub(crate) fn key(&self) -> usize {
        key(&self.cuda)
    }

    /// Held while work is queued: whether it is captured does not change meanwhile.
    pub(crate) fn enter(&self) -> Passing<'_> {
        self.gate.enter()
    }

    /// Held while a capture begins, ends or takes the queue in: nobody else queues meanwhile.
    pub(crate) fn close(&self) -> Closed<'_> {
        self.gate.close()
    }

    /// What is queued from here on waits for what is queued on `other` so far.
    ///
    /// # Errors
    /// [`GpuError::Capturing`] when `other` is being captured and this is not: waiting would take
    /// this queue into the capture.
    pub(crate) fn wait_for(&self, other: &Queue) -> Result<(), GpuError> {
        let _entered = other.enter();
        if other.capture()? != self.capture()? {
            return Err(GpuError::Capturing {
                action: "use memory whose last use is on a stream that is being captured",
            });
        }
        self.cuda.join(&other.cuda).during("wait for the last use of memory")
    }
}

/// Lets work in while nobody has closed it.
#[derive(Debug, Default)]
struct Gate {
    entered: Mutex<usize>,
    left: Condvar,
}

/// Work is being queued.
#[derive(Debug)]
pub(crate) struct Passing<'g>(&'g Gate);

/// No work is being queued.
pub(crate) type Closed<'g> = MutexGuard<'g, usize>;

impl Gate {
    /// May be entered again by who is in, also while others wait to close it.
    fn enter(&self) -> Passing<'_> {
        *self.lock() += 1;
        Passing(self)
    }

    fn close(&self) -> Closed<'_> {
        let entered = self.lock();
        self.left.wait_while(entered, |entered| *entered > 0).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        let mut entered = self.0.lock();
        *entered -= 1;
        if *entered == 0 {
            self.0.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_gate_closes_when_all_have_left() {
        let (gate, closed) = (Gate::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let first = gate.enter();
            scope.spawn(|| {
                let _closed = gate.close();
                closed.store(true, Ordering::SeqCst);
            });
            thread::sleep(Duration::from_millis(20));
            // Who is in may enter again, although another waits.
            let second = gate.enter();
            drop(first);
            assert!(!closed.load(Ordering::SeqCst));
            drop(second);
        });
        assert!(closed.load(Ordering::SeqCst));
    }
}
