//! When calls of the host blocked until the GPU had done something.

use flopgap_trace::{ApiCall, Copied, CorrelationId, Memory, ProcessId, ReadError, Recording, ThreadId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What blocks the thread that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocking {
    /// A call that waits for a device, context, stream or event.
    Synchronization,
    /// A copy that returns when it is done, such as one to pageable memory.
    Copy,
    /// Allocating or freeing memory, for which the driver may wait for all work of the device.
    Memory,
}

impl Blocking {
    /// All, in the order of [`Blocking`].
    pub const ALL: [Blocking; 3] = [Blocking::Synchronization, Blocking::Copy, Blocking::Memory];
}

/// For how long a thread was blocked by calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFor {
    /// What blocked.
    pub by: Blocking,
    /// The sum over all instances.
    pub total_ns: i128,
}

/// A thread, and for how long it was blocked over a whole recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedThread {
    /// Its process.
    pub process: i64,
    /// Its number.
    pub thread: i64,
    /// By what.
    pub waiting_for: Vec<WaitingFor>,
}

/// The thread that was blocked longest; `None` where none was.
///
/// # Errors
/// An absence when calls were not recorded; what keeps them from being read.
pub fn blocked_longest(trace: &dyn Recording) -> Result<Option<BlockedThread>, ReadError> {
    let waits = Waits::read(trace)?;
    let threads = waits.0.keys().map(|thread| (waits.within(*thread, i64::MIN, i64::MAX), *thread));
    let longest = threads.max_by_key(|(waited, thread)| (waited.total(), std::cmp::Reverse(*thread)));
    Ok(longest.filter(|(waited, _)| waited.total() > 0).map(|(waited, thread)| BlockedThread {
        process: thread.process().pid(),
        thread: thread.tid(),
        waiting_for: Waited::sum(std::iter::once(waited)),
    }))
}

/// What the name of a call says about whether it blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Blocks(Blocking),
    /// A copy that may: its memories and its times decide.
    CopyAsync,
    /// A copy that does, unless it moves data within a device.
    CopySync,
    No,
}

/// Calls that allocate and free, without the prefix of their library. Those in the order of a
/// stream (`cudaMallocAsync`) do not block.
const MEMORY: [&str; 18] = [
    "Malloc",
    "MallocHost",
    "MallocManaged",
    "MallocPitch",
    "Malloc3D",
    "HostAlloc",
    "HostMalloc",
    "Free",
    "FreeHost",
    "HostFree",
    "MemAlloc",
    "MemAllocHost",
    "MemAllocManaged",
    "MemAllocPitch",
    "MemHostAlloc",
    "MemFree",
    "MemFreeHost",
    "ExtMallocWithFlags",
];

/// The name of a call without the version that some profilers append.
///
/// ```
/// assert_eq!(flopgap_timings::without_version("cudaMemcpy_v3020"), "cudaMemcpy");
/// assert_eq!(flopgap_timings::without_version("cudaGraphLaunch"), "cudaGraphLaunch");
/// ```
pub fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// A name without the marks of versions and of streams by thread, and without its library.
fn bare(name: &str) -> &str {
    let by_thread = |name: &str| -> usize {
        name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name).len()
    };
    let name = &name[..by_thread(name)];
    let name = without_version(name);
    let name = &name[..by_thread(name)];
    ["cuda", "cu", "hip"].iter().find_map(|library| name.strip_prefix(library)).unwrap_or(name)
}

fn said(name: &str) -> Said {
    let bare = bare(name);
    if bare.ends_with("Synchronize") {
        Said::Blocks(Blocking::Synchronization)
    } else if bare.starts_with("Memcpy") {
        match bare {
            // HIP: a copy and a wait for its stream, whatever it moves.
            "MemcpyWithStream" => Said::Blocks(Blocking::Copy),
            _ if bare.contains("Async") => Said::CopyAsync,
            _ => Said::CopySync,
        }
    } else if MEMORY.contains(&bare) {
        Said::Blocks(Blocking::Memory)
    } else {
        Said::No
    }
}

/// Up to this size the driver takes the data of a copy from pageable memory along with the call,
/// which then does not wait.
const SMALL: i64 = 64_000;

/// Whether a call that copies returned only when the copy was done, or when the stream had come to
/// it.
fn blocks(said: Said, call: &ApiCall<'_>, copied: Option<&Copied>) -> bool {
    let Some(copied) = copied else { return said == Said::CopySync };
    match (said, copied.from, copied.to) {
        (Said::CopySync, Memory::Device, Memory::Device) => false,
        (Said::CopySync, ..) | (Said::CopyAsync, Memory::Device, Memory::Pageable) => true,
        (Said::CopyAsync, Memory::Pageable, Memory::Device) => {
            copied.bytes.is_some_and(|bytes| bytes > SMALL)
        }
        // Which memory of the host it is was not recorded: the call outlasted the copy or not.
        (Said::CopyAsync, Memory::Device, Memory::Host) => copied.work.end <= call.end,
        _ => false,
    }
}

/// When each thread was in a call that blocks.
#[derive(Debug, Default)]
pub(crate) struct Waits(FxHashMap<ThreadId, Vec<Wait>>);

/// From when to when a thread was blocked by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    start: i64,
    /// Compared in reverse order: of calls that begin together the outer comes first.
    end: std::cmp::Reverse<i64>,
    by: Blocking,
}

/// For how long a thread was blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waited(pub(crate) [i64; Blocking::ALL.len()]);

impl Waited {
    /// The sum of several, by what blocked, without what did not.
    pub(crate) fn sum(all: impl Iterator<Item = Waited>) -> Vec<WaitingFor> {
        let mut sums = [0_i128; Blocking::ALL.len()];
        for waited in all {
            for (sum, own) in sums.iter_mut().zip(waited.0) {
                *sum += i128::from(own);
            }
        }
        let sums = Blocking::ALL.into_iter().zip(sums).filter(|(_, total_ns)| *total_ns > 0);
        sums.map(|(by, total_ns)| WaitingFor { by, total_ns }).collect()
    }

    pub(crate) fn total(self) -> i64 {
        self.0.iter().sum()
    }
}

/// Which calls block: by their names, and for copies by what they copied.
#[derive(Debug, Default)]
pub struct BlockingCalls(FxHashMap<(Option<ProcessId>, CorrelationId), Copied>);

impl BlockingCalls {
    /// Reads the copies that decide about some calls.
    ///
    /// # Errors
    /// What keeps them from being read.
    pub fn read(trace: &dyn Recording) -> Result<BlockingCalls, ReadError> {
        let mut copies = FxHashMap::default();
        trace.each_copy(&mut |copied| {
            if let Some(correlation) = copied.work.correlation {
                copies.insert((copied.work.process, correlation), *copied);
            }
        })?;
        Ok(BlockingCalls(copies))
    }

    /// Whether a call of this name may block.
    pub fn may_block(name: &str) -> bool {
        said(name) != Said::No
    }

    /// What a call blocks its thread by; nothing where it returns before the GPU is done.
    pub fn blocks(&self, call: &ApiCall<'_>) -> Option<Blocking> {
        match said(call.name) {
            Said::No => None,
            Said::Blocks(by) => Some(by),
            said => blocks(said, call, self.copied(call)).then_some(Blocking::Copy),
        }
    }

    /// What a call copied, where it copied something.
    pub fn copied(&self, call: &ApiCall<'_>) -> Option<&Copied> {
        let correlation = call.correlation?;
        let process = Some(call.thread.process());
        self.0.get(&(process, correlation)).or_else(|| self.0.get(&(None, correlation)))
    }
}

impl Waits {
    /// Reads all calls, and the copies that decide about some of them.
    pub(crate) fn read(trace: &dyn Recording) -> Result<Waits, ReadError> {
        let blocking = BlockingCalls::read(trace)?;
        let mut waits = Waits::default();
        trace.each_call(&BlockingCalls::may_block, &mut |call| {
            if let Some(by) = blocking.blocks(call) {
                waits.add(call.thread, call.start, call.end, by);
            }
        })?;
        waits.join();
        Ok(waits)
    }

    fn add(&mut self, thread: ThreadId, start: i64, end: i64, by: Blocking) {
        if end > start {
            self.0.entry(thread).or_default().push(Wait { start, end: std::cmp::Reverse(end), by });
        }
    }

    /// Leaves of calls within each other the outer one, such as a runtime call around the driver
    /// call that it makes, so that no instant counts twice.
    fn join(&mut self) {
        for waits in self.0.values_mut() {
            waits.sort_unstable();
            let mut until = i64::MIN;
            waits.retain_mut(|wait| {
                wait.start = wait.start.max(until);
                let is_more = wait.end.0 > wait.start;
                until = until.max(wait.end.0);
                is_more
            });
        }
    }

    /// For how long a thread was blocked between two instants.
    pub(crate) fn within(&self, thread: ThreadId, start: i64, end: i64) -> Waited {
        let mut waited = Waited::default();
        let Some(waits) = self.0.get(&thread) else { return waited };
        let first = waits.partition_point(|wait| wait.end.0 <= start);
        for wait in waits[first..].iter().take_while(|wait| wait.start < end) {
            waited.0[wait.by as usize] += wait.end.0.min(end) - wait.start.max(start);
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use flopgap_trace::{DeviceId, Work, WorkKind};
    use proptest::prelude::*;

    use super::*;

    const THREAD: ThreadId = ThreadId(0x100_0001);

    #[test]
    fn names_say_what_may_block() {
        let synchronization = Said::Blocks(Blocking::Synchronization);
        let memory = Said::Blocks(Blocking::Memory);
        for (name, expected) in [
            ("cudaDeviceSynchronize_v3020", synchronization),
            ("cudaStreamSynchronize_ptsz_v7000", synchronization),
            ("cudaStreamSynchronize_v3020_ptsz", synchronization),
            ("cuCtxSynchronize", synchronization),
            ("cuEventSynchronize", synchronization),
            ("hipDeviceSynchronize", synchronization),
            ("cudaMemcpy_v3020", Said::CopySync),
            ("cudaMemcpy2D_v3020", Said::CopySync),
            ("cuMemcpyDtoH_v2", Said::CopySync),
            ("cudaMemcpyToSymbol_v3020", Said::CopySync),
            ("cudaMemcpyAsync_v3020", Said::CopyAsync),
            ("cuMemcpyHtoDAsync_v2", Said::CopyAsync),
            ("hipMemcpyWithStream", Said::Blocks(Blocking::Copy)),
            ("cudaFree_v3020", memory),
            ("cudaMalloc_v3020", memory),
            ("cuMemFree_v2", memory),
            ("cuMemAlloc_v2", memory),
            ("hipFree", memory),
            ("hipMalloc", memory),
            ("cudaMallocHost_v3020", memory),
            // In the order of a stream: the host goes on.
            ("cudaMallocAsync_v11020", Said::No),
            ("cudaFreeAsync_v11020", Said::No),
            ("cudaStreamWaitEvent_v3020", Said::No),
            ("hipStreamWaitEvent", Said::No),
            ("cuStreamWaitValue32_v2", Said::No),
            ("cudaEventQuery_v3020", Said::No),
            ("cudaLaunchKernel_v7000", Said::No),
        ] {
            assert_eq!(said(name), expected, "{name}");
        }
    }

    /// One name, and its memories decide; where they are not recorded, its times.
    #[test]
    fn memories_say_which_copies_block() {
        let copy = |from, to, bytes, end| {
            let (device, process) = (DeviceId(0), Some(THREAD.process()));
            let correlation = Some(CorrelationId(1));
            let work = Work { kind: WorkKind::Copy, start: 5, end, device, process, correlation };
            Copied { work, from, to, bytes: Some(bytes) }
        };
        let call =
            ApiCall { thread: THREAD, start: 0, end: 10, name: "", correlation: Some(CorrelationId(1)) };
        let (device, pageable, pinned) = (Memory::Device, Memory::Pageable, Memory::Pinned);
        let host = Memory::Host;
        for (said, copied, expected) in [
            (Said::CopyAsync, Some(copy(device, pageable, 8, 9)), true),
            (Said::CopyAsync, Some(copy(device, pinned, 8, 9)), false),
            (Said::CopyAsync, Some(copy(device, host, 8, 9)), true),
            (Said::CopyAsync, Some(copy(device, host, 8, 11)), false),
            (Said::CopyAsync, Some(copy(pageable, device, 1 << 20, 9)), true),
            (Said::CopyAsync, Some(copy(pageable, device, 8, 9)), false),
            (Said::CopyAsync, Some(copy(pinned, device, 1 << 20, 9)), false),
            (Said::CopyAsync, Some(copy(device, device, 1 << 20, 9)), false),
            (Said::CopyAsync, None, false),
            (Said::CopySync, Some(copy(device, pinned, 8, 9)), true),
            (Said::CopySync, Some(copy(device, device, 8, 9)), false),
            (Said::CopySync, None, true),
        ] {
            assert_eq!(blocks(said, &call, copied.as_ref()), expected, "{said:?} {copied:?}");
        }
    }

    proptest! {
        /// Every instant in which some call blocks counts once.
        #[test]
        fn time_is_counted_once(
            calls in prop::collection::vec((0_i64..60, 1_i64..15, 0_usize..3), 0..20),
            window in (0_i64..60, 0_i64..40),
        ) {
            let mut waits = Waits::default();
            for (start, length, by) in &calls {
                waits.add(THREAD, *start, start + length, Blocking::ALL[*by]);
            }
            waits.join();
            let (start, end) = (window.0, window.0 + window.1);
            let blocked = |at: &i64| calls.iter().any(|(start, length, _)| start <= at && *at < start + length);
            let expected = i64::try_from((start..end).filter(blocked).count()).unwrap();
            prop_assert_eq!(waits.within(THREAD, start, end).total(), expected);
        }
    }
}
