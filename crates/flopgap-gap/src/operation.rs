//! What ran on GPUs.

use std::sync::Arc;

use flopgap_kernels::KernelInfo;
use flopgap_trace::{DeviceId, Memory, ProcessId};

use crate::cause::Cause;
use crate::host::{Host, NONE};

/// A kernel, copy or memset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Its place among [`Timeline::kinds`].
    pub(crate) kind: u32,
    /// Its stream, and in the highest bit whether no kernel of its name ran before it on this GPU:
    /// there may be millions of operations.
    pub(crate) stream: u32,
    /// The call that launched it, a place in [`Host::calls`].
    pub(crate) call: u32,
    /// Of a node of a CUDA graph, the call that was captured as it.
    pub(crate) captured: u32,
}

/// In [`Op::stream`].
pub(crate) const FIRST: u32 = 1 << 31;

impl Op {
    pub(crate) const fn stream(&self) -> u32 {
        self.stream & !FIRST
    }

    /// Whether no kernel of its name ran before it on this GPU.
    pub(crate) const fn is_first(&self) -> bool {
        self.stream & FIRST != 0
    }

    /// Of a node whose capture is known, the call that launched its graph.
    pub(crate) const fn replay(&self) -> Option<u32> {
        if self.captured == NONE { None } else { Some(self.call) }
    }

    /// The thread and the time of its launch.
    pub(crate) fn launch(&self, host: &Host) -> Option<(u16, i64)> {
        let call = (self.call != NONE).then(|| host.calls[self.call as usize])?;
        Some((call.thread, call.start))
    }

    /// The innermost range around its launch, or around what was captured as it: on the thread of
    /// that call, or where that has none, on the main one.
    pub(crate) fn range(&self, host: &Host, main: Option<u16>) -> u32 {
        match self.captured {
            NONE => host.range_of(self.call, main),
            captured => host.range_of(captured, None),
        }
    }
}

/// What operations of one name are.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) cause: Cause,
    /// As answers show it.
    pub(crate) name: Arc<str>,
    /// What the name of a kernel says.
    pub(crate) info: Option<Arc<KernelInfo>>,
    /// Between which memories a copy moves data.
    pub(crate) memories: Option<[Memory; 2]>,
}

impl Kind {
    /// What counts where several run at the same time: the smallest.
    pub(crate) fn rank(&self) -> u8 {
        match self.cause {
            Cause::Communication => 1,
            Cause::HostToDevice | Cause::DeviceToHost | Cause::DeviceToDevice | Cause::Copy => 2,
            Cause::Set => 3,
            _ => 0,
        }
    }
}

/// The work of a process on a GPU.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) process: Option<ProcessId>,
    pub(crate) device: DeviceId,
    /// By start.
    pub(crate) operations: Vec<Op>,
}
