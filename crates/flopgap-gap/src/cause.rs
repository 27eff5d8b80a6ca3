//! What the nanoseconds of a step were spent on.

use serde::{Deserialize, Serialize};

/// Which of the three parts of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The GPU computed.
    Busy,
    /// The GPU communicated, copied or set memory, and computed nothing meanwhile.
    Exposed,
    /// The GPU did nothing.
    Idle,
}

impl Part {
    /// As serde writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Part::Busy => "busy",
            Part::Exposed => "exposed",
            Part::Idle => "idle",
        }
    }
}

/// What is to be changed first: the group that a cause belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The host launches more slowly than the GPU runs.
    Launch,
    /// The host does something else for long.
    Host,
    /// The host waits for the GPU, which then waits for the host.
    Sync,
    /// The next batch is not ready.
    Input,
    /// Memory is allocated or freed.
    Allocation,
    /// Copies that nothing hides.
    Copies,
    /// Communication that nothing hides.
    Communication,
    /// Waiting for the rank that arrives last.
    Skew,
    /// The GPU computes.
    Gpu,
    /// The recording does not say.
    Unknown,
}

/// Declares the causes with their part, group and name.
macro_rules! causes {
    ($($(#[doc = $about:literal])* $cause:ident = $name:literal, $part:ident, $limit:ident;)*) => {
        /// What a nanosecond of a step was spent on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Cause {
            $($(#[doc = $about])* #[serde(rename = $name)] $cause,)*
        }

        impl Cause {
            /// All of them, in the order of a step: busy, exposed, idle.
            pub const ALL: &'static [Cause] = &[$(Cause::$cause,)*];

            /// As serde writes it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Cause::$cause => $name,)* }
            }

            /// What it means, as a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Cause::$cause => concat!($($about),*).trim_ascii(),)* }
            }

            /// The part of a step that it belongs to.
            pub const fn part(self) -> Part {
                match self { $(Cause::$cause => Part::$part,)* }
            }

            /// The group that it belongs to.
            pub const fn limit(self) -> Limit {
                match self { $(Cause::$cause => Limit::$limit,)* }
            }
        }
    };
}

causes! {
    /// Matrix products on tensor cores, by the names of their kernels.
    TensorCores = "matmul-tensor-cores", Busy, Gpu;
    /// Matrix products on CUDA cores, by the names of their kernels.
    CudaCores = "matmul-cuda-cores", Busy, Gpu;
    /// Matrix products whose names do not say on which, and the sums of split products.
    Matmul = "matmul", Busy, Gpu;
    /// Convolutions.
    Convolution = "convolution", Busy, Gpu;
    /// Attention in one kernel.
    Attention = "attention", Busy, Gpu;
    /// Recurrent networks and state-space models.
    Recurrence = "recurrence", Busy, Gpu;
    /// Arithmetic by element.
    Elementwise = "elementwise", Busy, Gpu;
    /// Normalization.
    Norm = "norm", Busy, Gpu;
    /// Softmax.
    Softmax = "softmax", Busy, Gpu;
    /// Reductions.
    Reduction = "reduction", Busy, Gpu;
    /// Kernels that copy, cast, or change the order of elements in memory.
    Layout = "layout", Busy, Gpu;
    /// Gathering, scattering, sorting, embeddings.
    Index = "index", Busy, Gpu;
    /// Random numbers.
    Random = "random", Busy, Gpu;
    /// The optimizer: its kernels, and what is launched in its ranges.
    Optimizer = "optimizer", Busy, Gpu;
    /// CUDA graphs that were recorded as a whole: what they do inside is not known.
    WholeGraph = "whole-graph", Busy, Gpu;
    /// Kernels that no rule classifies.
    Other = "other", Busy, Gpu;

    /// Collectives and messages between GPUs, as far as it is not known that they wait.
    Communication = "communication", Exposed, Communication;
    /// A kernel of a collective runs and waits for the rank that arrives last.
    LateRank = "late-rank", Exposed, Skew;
    /// In a collective, until the last rank arrives: its GPU does nothing itself.
    IdleRank = "idle-rank", Exposed, Skew;
    /// Copies from the host.
    HostToDevice = "copy-host-to-device", Exposed, Copies;
    /// Copies to the host.
    DeviceToHost = "copy-device-to-host", Exposed, Copies;
    /// Copies within GPUs or between them.
    DeviceToDevice = "copy-device-to-device", Exposed, Copies;
    /// Copies between memories that are not recorded.
    Copy = "copy", Exposed, Copies;
    /// Setting memory.
    Set = "memset", Exposed, Copies;

    /// Launched late: the host was in calls that launch or that do not block.
    LaunchCalls = "launch-calls", Idle, Launch;
    /// Launched late: the host was in operators between two calls that lie close to each other.
    LaunchOperators = "launch-operators", Idle, Launch;
    /// Launched late: the host was outside operators, between two calls that lie close to each
    /// other.
    LaunchCode = "launch-code", Idle, Launch;
    /// Launched late: the host was in a long call before a kernel that ran for the first time, such
    /// as the launch that loads it.
    FirstLaunch = "first-launch", Idle, Host;
    /// Launched at once: what the GPU took to begin.
    LaunchLatency = "launch-latency", Idle, Launch;
    /// Launched late: the host was in a blocking call, or filled the queue again after one that it
    /// had entered while the GPU worked.
    BlockingCall = "blocking-call", Idle, Sync;
    /// Launched late: the host allocated or freed memory.
    Allocation = "allocation", Idle, Allocation;
    /// Launched late: the host waited for the next batch.
    Input = "input", Idle, Input;
    /// Launched late: the host was in operators for long, without any call.
    HostOperators = "host-operators", Idle, Host;
    /// Launched late: the host was in ranges, outside operators, for long, without any call.
    HostCode = "host-code", Idle, Host;
    /// Launched late: the host was outside everything recorded for long.
    Outside = "outside", Idle, Host;
    /// Launched late: the profiler did its own work on the thread that launches.
    Profiler = "profiler", Idle, Unknown;
    /// Launched in time, behind work of the same stream that had just ended.
    DependentKernels = "dependent-kernels", Idle, Gpu;
    /// Launched in time, behind work of another stream that had just ended.
    OtherStream = "other-stream", Idle, Gpu;
    /// Between nodes of one CUDA graph.
    GraphNodes = "graph-nodes", Idle, Gpu;
    /// The call that launched what ends the gap was not recorded.
    NoLaunchRecord = "no-launch-record", Idle, Unknown;
    /// Launched in time, and nothing recorded says what it waited for.
    LaunchedInTime = "launched-in-time", Idle, Unknown;
    /// It began before the call that launched it: the clocks of host and GPU differ.
    Clocks = "clocks", Idle, Unknown;
    /// Neither calls nor ranges were recorded.
    NothingRecorded = "nothing-recorded", Idle, Unknown;
}

impl Cause {
    /// The cause in words, for a table or a sentence.
    pub const fn in_words(self) -> &'static str {
        match self {
            Cause::TensorCores => "matrix products on tensor cores",
            Cause::CudaCores => "matrix products on CUDA cores",
            Cause::Matmul => "other matrix products",
            Cause::Convolution => "convolutions",
            Cause::Attention => "attention",
            Cause::Recurrence => "recurrence",
            Cause::Elementwise => "element-wise operations",
            Cause::Norm => "normalization",
            Cause::Softmax => "softmax",
            Cause::Reduction => "reductions",
            Cause::Layout => "copies and layout by kernels",
            Cause::Index => "gather, scatter, sort",
            Cause::Random => "random numbers",
            Cause::Optimizer => "optimizer",
            Cause::WholeGraph => "graphs recorded as a whole",
            Cause::Other => "other kernels",
            Cause::Communication => "communication",
            Cause::LateRank => "waiting for a rank that computes",
            Cause::IdleRank => "waiting for a rank that is idle",
            Cause::HostToDevice => "copies from the host",
            Cause::DeviceToHost => "copies to the host",
            Cause::DeviceToDevice => "copies between GPU memories",
            Cause::Copy => "copies",
            Cause::Set => "memory sets",
            Cause::LaunchCalls => "launched late: in launch calls",
            Cause::LaunchOperators => "launched late: in operators",
            Cause::LaunchCode => "launched late: between operators",
            Cause::FirstLaunch => "before first runs of kernels",
            Cause::LaunchLatency => "launch latency",
            Cause::BlockingCall => "after a blocking call",
            Cause::Allocation => "allocating or freeing memory",
            Cause::Input => "waiting for the next batch",
            Cause::HostOperators => "the host in long operators",
            Cause::HostCode => "the host in its own code",
            Cause::Outside => "the host outside what is recorded",
            Cause::Profiler => "the profiler itself",
            Cause::DependentKernels => "between dependent kernels",
            Cause::OtherStream => "behind another stream",
            Cause::GraphNodes => "between nodes of a graph",
            Cause::NoLaunchRecord => "cannot tell: no launch recorded",
            Cause::LaunchedInTime => "cannot tell: launched in time",
            Cause::Clocks => "cannot tell: clocks differ",
            Cause::NothingRecorded => "cannot tell: no host recorded",
        }
    }
}

impl Limit {
    /// As serde writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Limit::Launch => "launch",
            Limit::Host => "host",
            Limit::Sync => "sync",
            Limit::Input => "input",
            Limit::Allocation => "allocation",
            Limit::Copies => "copies",
            Limit::Communication => "communication",
            Limit::Skew => "skew",
            Limit::Gpu => "gpu",
            Limit::Unknown => "unknown",
        }
    }
}
