//! A stream of the driver, and who is queuing work on it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaStream, sys};

use crate::capture;
use crate::error::{During as _, GpuError};

/// A stream of the driver, shared by its clones and by the memory that it uses.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    cuda: Arc<CudaStream>,
    gate: Arc<Gate>,
}

/// Two queues are one if the driver has one stream for both. A stream lives as long as memory that
/// it used, so no other gets its handle.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Queue {
    /// A new stream, which is not the default one.
    pub(crate) fn new(cuda: Arc<CudaStream>) -> Self {
        Queue { cuda, gate: Arc::default() }
    }

    /// The capture that what is queued goes to, if any.
    pub(crate) fn capture(&self) -> Result<Option<u64>, GpuError> {
        if capture::is_any_open() { capture::of(self.handle()) } else { Ok(None) }
    }

    pub(crate) fn cuda(&self) -> &Arc<CudaStream> {
        &self.cuda
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.cuda.cu_stream()
    }

    /// A number that no queue of another living stream has; not 0: the driver's handle.
    pub(crate) fn key(&self) -> usize {
        self.handle() as usize
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
