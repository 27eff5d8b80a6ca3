//! The numbers by which a recording names things, each a type of its own.

use std::fmt;

/// Declares a number of a recording that names something.
macro_rules! id {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        #[repr(transparent)]
        pub struct $name(
            /// The number as the recording has it.
            pub i64,
        );

        impl From<i64> for $name {
            #[inline]
            fn from(number: i64) -> $name {
                $name(number)
            }
        }

        impl From<$name> for i64 {
            #[inline]
            fn from(id: $name) -> i64 {
                id.0
            }
        }

        /// The number alone.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A process of a recording, as nsys packs it into `globalPid`: process id in bits 24 to 47,
    /// machine above, 0 below. Readers of other formats pack their numbers in the same way.
    ///
    /// ```
    /// use flopgap_trace::ProcessId;
    ///
    /// let process = ProcessId(0x0001_0002_c900_0000);
    /// assert_eq!(process.pid(), 713);
    /// assert_eq!(i64::from(process), 0x0001_0002_c900_0000);
    /// ```
    ProcessId
}

id! {
    /// A thread of a recording, as nsys packs it into `globalTid`: thread id in the 24 low bits,
    /// process id in the next 24, machine above.
    ///
    /// ```
    /// use flopgap_trace::{ProcessId, ThreadId};
    ///
    /// let thread = ThreadId(0x0001_0002_c900_02ee);
    /// assert_eq!((thread.pid(), thread.tid()), (713, 750));
    /// assert_eq!(thread.process(), ProcessId(0x0001_0002_c900_0000));
    /// ```
    ThreadId
}

id! {
    /// A GPU as its process numbers it, from 0: `deviceId` of nsys, `device` of `torch.profiler`.
    ///
    /// `CUDA_VISIBLE_DEVICES` makes it differ from [`GpuId`].
    DeviceId
}

id! {
    /// A GPU as the machine numbers it, from 0: `id` of nsys's `TARGET_INFO_GPU`.
    GpuId
}

id! {
    /// A CUDA context within its process: `contextId`. Green contexts have such numbers, too.
    ContextId
}

id! {
    /// A CUDA stream within its context: `streamId` of nsys, `stream` of `torch.profiler`. 7 is
    /// usually the default stream.
    StreamId
}

id! {
    /// Ties GPU work to the call that requested it, within a process: `correlationId` of nsys,
    /// `correlation` of `torch.profiler`.
    CorrelationId
}

id! {
    /// A text that a recording keeps once: the `id` of a row of nsys's `StringIds`.
    StringId
}

id! {
    /// An annotation: its row in nsys's `NVTX_EVENTS`, which reports call `RangeId`.
    RangeId
}

id! {
    /// An NVTX domain within its process: `domainId`. 0 is the default domain.
    DomainId
}

id! {
    /// A CUDA graph: `graphId`.
    GraphId
}

id! {
    /// An instance of a CUDA graph that can be launched: `graphExecId`.
    GraphExecId
}

id! {
    /// A node of a CUDA graph: `graphNodeId` of nsys, `graph node id` of `torch.profiler`.
    GraphNodeId
}

id! {
    /// A CUDA event within its context: `eventId`.
    EventId
}

id! {
    /// Ties GPU work to the innermost operator or annotation around its launch: `External id` of
    /// `torch.profiler`.
    ExternalId
}

/// The bits of a process id and of a thread id.
const LOW: i64 = 0xff_ffff;

impl ProcessId {
    /// The process id as the system numbers it.
    #[inline]
    pub fn pid(self) -> i64 {
        (self.0 >> 24) & LOW
    }
}

impl ThreadId {
    /// The process of this thread: the same number without the thread's bits.
    #[must_use]
    #[inline]
    pub fn process(self) -> ProcessId {
        ProcessId(self.0 & !LOW)
    }

    /// The process id as the system numbers it.
    #[inline]
    pub fn pid(self) -> i64 {
        self.process().pid()
    }

    /// The thread id as the system numbers it.
    #[inline]
    pub fn tid(self) -> i64 {
        self.0 & LOW
    }
}

impl DomainId {
    /// The domain of ranges that name none.
    pub const DEFAULT: DomainId = DomainId(0);
}
