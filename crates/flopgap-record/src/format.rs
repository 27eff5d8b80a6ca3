//! The layout of a recording (`.fgr`): what the injected library writes and the reader reads.
//!
//! A process writes one file, which is mapped into its memory, so that the kernel keeps what was
//! written when the process is killed. The file is a header of one page and then chunks, each of
//! which begins on a page and says how long it is. A chunk of *activities* is a buffer that CUPTI
//! itself fills; a chunk of *events* has what the library writes, of one thread. All numbers are in
//! the order of the machine, little-endian.

/// The first bytes of a file.
pub(crate) const MAGIC: [u8; 8] = *b"flopgap\x01";
/// The unit of the file: the header and each chunk begin on a multiple.
pub(crate) const PAGE: usize = 4096;

/// Fields of the file's header, as offsets of 64-bit numbers.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const PID: usize = 8;
    /// Nanoseconds since 1970 at which the file was opened.
    pub(crate) const OPENED: usize = 24;
    /// Nanoseconds since 1970 at which the process closed the file; 0 where it did not.
    pub(crate) const CLOSED: usize = 32;
    /// The version of CUPTI, as `cuptiGetVersion` gives it; 0 where none was loaded.
    pub(crate) const CUPTI: usize = 40;
    /// Nanoseconds since 1970 of the last time that all complete records were in the file.
    pub(crate) const FLUSHED: usize = 48;
    /// Records that CUPTI says it dropped.
    pub(crate) const DROPPED: usize = 64;
    /// Buffers that CUPTI asked for and did not get, because the file could not grow.
    pub(crate) const REFUSED: usize = 72;
    /// Events of the library that found no room.
    pub(crate) const UNWRITTEN: usize = 80;
    /// Chunks that were written over because the file is bounded.
    pub(crate) const OVERWRITTEN: usize = 88;
    /// Activity records in those chunks.
    pub(crate) const OVERWRITTEN_RECORDS: usize = 96;
    /// Nanoseconds since 1970 from which launches were counted; 0 where they were not.
    pub(crate) const COUNTING: usize = 104;
    /// Nanoseconds since 1970 at which counting had ended and recording could begin.
    pub(crate) const COUNTED: usize = 112;
    /// How the switch was followed: [`super::followed`].
    pub(crate) const FOLLOWED: usize = 120;
    /// Nanoseconds since 1970 at which counting was given up; 0 where it was not.
    pub(crate) const NOT_COUNTED: usize = 128;
}

/// How a process followed the switch.
pub(crate) mod followed {
    pub(crate) const OFF: u64 = 0;
    pub(crate) const ON: u64 = 1;
    /// Another profiler has CUPTI.
    pub(crate) const REFUSED: u64 = 2;
}

/// Fields of a chunk's header, as offsets of 64-bit numbers.
pub(crate) mod chunk {
    /// [`MARK`], with the kind in the lowest byte.
    pub(crate) const MARK_KIND: usize = 0;
    /// Length with its header: a multiple of the page.
    pub(crate) const LENGTH: usize = 8;
    /// The place in the order in which chunks were handed out.
    pub(crate) const SEQUENCE: usize = 16;
    /// [`OPEN`], [`COMPLETE`] or [`SEALED`].
    pub(crate) const STATE: usize = 24;
    /// Bytes of complete records after the header. An open buffer of CUPTI does not know.
    pub(crate) const VALID: usize = 32;
    /// The thread that writes events; of activities, the number of records.
    pub(crate) const THREAD_OR_RECORDS: usize = 40;
    /// Where the records begin.
    pub(crate) const HEADER: usize = 64;

    /// Begins every chunk.
    pub(crate) const MARK: u64 = u64::from_le_bytes(*b"\0chunk\xf6\x9f");
    /// Kinds of chunks.
    pub(crate) const FREE: u8 = 0;
    pub(crate) const ACTIVITIES: u8 = 1;
    pub(crate) const EVENTS: u8 = 2;
    /// States of chunks.
    pub(crate) const OPEN: u64 = 1;
    /// All records are there; their names are still addresses.
    pub(crate) const COMPLETE: u64 = 2;
    pub(crate) const SEALED: u64 = 3;
}

/// Events: a record is its length in bytes with this header (`u32`), its kind (`u32`), a time in
/// nanoseconds since 1970 (`u64`), and what its kind has. Each begins on a multiple of eight bytes.
pub(crate) mod event {
    pub(crate) const ALIGNMENT: usize = 8;
    /// Bytes before what a kind has.
    pub(crate) const HEADER: usize = 16;

    /// A string of records: its number and its address (two `u64`), then the text.
    pub(crate) const STRING: u32 = 1;
    /// A function of an API: domain and number (two `u32`), then its name.
    pub(crate) const FUNCTION: u32 = 2;
    /// Ranges and marks of NVTX: the fields of [`super::mark`], then the text.
    pub(crate) const PUSH: u32 = 3;
    pub(crate) const START: u32 = 4;
    pub(crate) const MARK: u32 = 5;
    /// The domain (`u64`), absent for the default one.
    pub(crate) const POP: u32 = 6;
    /// The range (`u64`).
    pub(crate) const END: u32 = 7;
    /// A domain of NVTX: its number (`u64`), then its name.
    pub(crate) const DOMAIN: u32 = 8;
    /// A string that is registered with NVTX: domain and number (two `u32`), then the text.
    pub(crate) const REGISTERED: u32 = 9;
    /// A category of NVTX: domain and number (two `u32`), then its name.
    pub(crate) const CATEGORY: u32 = 10;
    /// The name of a thread: its number (`u64`), then the name.
    pub(crate) const THREAD: u32 = 11;
    /// What the process was started as, arguments separated by zeros.
    pub(crate) const COMMAND: u32 = 12;
    /// What the user should know: [`super::severity`] (`u64`), then a sentence.
    pub(crate) const MESSAGE: u32 = 13;
    /// A node of a graph was made: its number and that of the node it was copied from, or 0 (two
    /// `u64`).
    pub(crate) const NODE: u32 = 14;
    /// Records of this kind have this many bytes (two `u32`).
    pub(crate) const STRIDE: u32 = 15;
    /// Metrics that are counted together: the number of the group (`u32`), then their names,
    /// separated by spaces.
    pub(crate) const METRICS: u32 = 16;
    /// Work that is counted: its number and that of a graph, 0 for a kernel, its grid, its block
    /// and its dynamic shared memory (nine `u32`), then the name of the kernel.
    pub(crate) const WORK: u32 = 17;
    /// Counts of one launch: the group (`u32`), [`super::counted::WORKS`] works (`u32`), then the
    /// values of the metrics (`f64`).
    pub(crate) const COUNTED: u32 = 18;
    /// A device that was in use before it was recorded: [`super::device`], then its name.
    pub(crate) const DEVICE: u32 = 19;
    /// CUDA is recorded from now on, or not any more: 1 or 0, and the time (two `u64`).
    pub(crate) const SWITCHED: u32 = 20;
    /// A range that is pushed in the default domain with nothing but a text, as most are: the text.
    pub(crate) const PUSH_TEXT: u32 = 21;
    /// Counts of a range that is recorded alone: the group and how many metrics it has (two `u32`),
    /// the values of these (`f64`), then the range as it was asked for.
    pub(crate) const STEP: u32 = 22;
}

/// Fields of a device after the event's header, as offsets.
pub(crate) mod device {
    /// `u32`: its number, multiprocessors, both parts of its compute capability, bytes of its L2,
    /// kilohertz, threads of a warp, nothing.
    pub(crate) const WORDS: usize = 0;
    /// `u64`: kilobytes per second, bytes of memory.
    pub(crate) const SIZES: usize = 32;
    /// 16 bytes.
    pub(crate) const UUID: usize = 48;
    /// Where the name begins.
    pub(crate) const NAME: usize = 64;
}

/// What is counted.
pub(crate) mod counted {
    /// The work and those before it on its stream, the oldest first; 0 for none.
    pub(crate) const WORKS: usize = 9;
}

/// Fields of ranges and marks after the event's header, as offsets.
pub(crate) mod mark {
    /// `u64`.
    pub(crate) const RANGE: usize = 0;
    /// `u32`.
    pub(crate) const DOMAIN: usize = 8;
    /// `u32`; 0 for none.
    pub(crate) const CATEGORY: usize = 12;
    /// `u32`, ARGB.
    pub(crate) const COLOR: usize = 16;
    /// `u32`, a type of color of NVTX; 0 for none.
    pub(crate) const COLOR_TYPE: usize = 20;
    /// `u64`, the payload as its bits.
    pub(crate) const PAYLOAD: usize = 24;
    /// `u32`, a type of payload of NVTX; 0 for none.
    pub(crate) const PAYLOAD_TYPE: usize = 32;
    /// `u32`, a registered string; 0 where the text follows.
    pub(crate) const REGISTERED: usize = 36;
    /// Where the text begins.
    pub(crate) const TEXT: usize = 40;
}

/// How severe a message is, as nsys numbers it.
pub(crate) mod severity {
    pub(crate) const WARNING: u64 = 2;
    pub(crate) const ERROR: u64 = 3;
}

/// Variables of the environment that tell the library what to do.
pub(crate) mod variable {
    /// The directory of the recording. Without it nothing is recorded.
    pub(crate) const DIRECTORY: &str = "FLOPGAP_RECORD";
    /// The most bytes that a process writes.
    pub(crate) const MAX_SIZE: &str = "FLOPGAP_RECORD_MAX_SIZE";
    /// `graph`: graphs of CUDA are recorded whole instead of by node.
    pub(crate) const GRAPH: &str = "FLOPGAP_RECORD_GRAPH";
    /// The name of the NVTX range that is recorded alone; with a star, the beginning of its name.
    pub(crate) const RANGE: &str = "FLOPGAP_RECORD_RANGE";
    /// Where CUPTI is, if the program has not loaded it.
    pub(crate) const CUPTI: &str = "FLOPGAP_RECORD_CUPTI";
    /// The time between two moments at which records are brought into the file, in milliseconds.
    pub(crate) const FLUSH: &str = "FLOPGAP_RECORD_FLUSH_MS";
}

/// The file of a directory that says what is counted: a line with the name of the chip, as CUPTI
/// calls it, and [`KERNELS`] or [`STEPS`], then one for each group of metrics, separated by spaces.
pub(crate) const COUNTERS: &str = "counters";
/// Launches are counted, and then whole steps where a range is recorded alone.
pub(crate) const KERNELS: &str = "kernels";
/// Only whole steps are counted.
pub(crate) const STEPS: &str = "steps";

/// The file of a directory by which recording is switched on and off while programs run: a line of
/// `1` or `0` and nanoseconds since 1970 for each time. The last one counts.
pub(crate) const SWITCH: &str = "switch";

/// The file of a directory that has what NVML's GPM sampled: a line for each metric of a GPU
/// between two samples, with its beginning and end in nanoseconds since 1970, the UUID of the GPU
/// as CUPTI has it, the name of the metric, and percent, separated by spaces.
pub(crate) const GPM: &str = "gpm";

/// Records of CUPTI, as far as they are read while they are made: kinds, and offsets of fields.
/// Records have only grown at the end since CUDA 12.0, so these hold for all.
pub(crate) mod activity {
    pub(crate) const COPY: u32 = 1;
    pub(crate) const SET: u32 = 2;
    pub(crate) const KERNEL_ALONE: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const DEVICE: u32 = 8;
    pub(crate) const CONTEXT: u32 = 9;
    pub(crate) const KERNEL: u32 = 10;
    pub(crate) const OVERHEAD: u32 = 17;
    pub(crate) const COPY_BETWEEN_DEVICES: u32 = 22;
    pub(crate) const STREAM: u32 = 37;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
    pub(crate) const GRAPH: u32 = 51;

    /// CUPTI sets it in the kind of a record whose work has begun and not ended: seen with 13.0 in
    /// the open buffers of killed programs.
    pub(crate) const UNFINISHED: u32 = 1 << 31;

    /// The kinds that are recorded, apart from whole graphs.
    pub(crate) const RECORDED: [u32; 11] = [
        DEVICE,
        CONTEXT,
        STREAM,
        KERNEL,
        COPY,
        COPY_BETWEEN_DEVICES,
        SET,
        RUNTIME,
        DRIVER,
        SYNCHRONIZATION,
        OVERHEAD,
    ];

    /// Calls that say what a program is and do no work: frequent, and left out as nsys leaves them
    /// out. The last is CUPTI's own, one a launch.
    pub(crate) const SILENT: [&str; 22] = [
        "cuCtxGet",
        "cuDeviceGet",
        "cuDevicePrimaryCtxGetState",
        "cuDeviceTotalMem",
        "cuDriverGetVersion",
        "cuFuncGetAttribute",
        "cuOccupancyMaxActiveBlocks",
        "cuPointerGetAttribute",
        "cudaDeviceGetAttribute",
        "cudaDeviceGetStreamPriorityRange",
        "cudaDriverGetVersion",
        "cudaFuncGetAttributes",
        "cudaFuncSetAttribute",
        "cudaGetDevice_",
        "cudaGetDeviceCount",
        "cudaGetLastError",
        "cudaGetSymbolAddress",
        "cudaOccupancyMaxActiveBlocks",
        "cudaPeekAtLastError",
        "cudaPointerGetAttributes",
        "cudaRuntimeGetVersion",
        "cuKernelGetName",
    ];

    /// Where a kernel has the pointer to its name, which becomes the number of a string.
    pub(crate) const KERNEL_NAME: usize = 104;
    /// Where a device has it.
    pub(crate) const DEVICE_NAME: usize = 136;
    /// Where a call has the number of its function.
    pub(crate) const CALL_NUMBER: usize = 4;
}
