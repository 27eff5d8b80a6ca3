//! What to change first: rules with a precondition, evidence and an upper bound of the gain.

use std::cmp::Reverse;

use flopgap_kernels::{KernelClass, NumberType};
use flopgap_trace::Memory;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Limit, Part};
use crate::measured::Measured;
use crate::partition::{Key, Sum, Thing};
use crate::parts::Detail;
use crate::{Place, operation, peaks};

/// Declares the kinds of advice with their names.
macro_rules! kinds {
    ($(#[doc = $about:literal] $kind:ident = $name:literal;)*) => {
        /// What to change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Kind {
            $(#[doc = $about] #[serde(rename = $name)] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// As serde writes it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// What to change, as a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Kind::$kind => $about.trim_ascii(),)* }
            }
        }
    };
}

kinds! {
    /// Launch less often: CUDA graphs, or a compiler that makes them.
    CudaGraphs = "cuda-graphs";
    /// Do less on the host between launches, or do it while the GPU works.
    HostCode = "host-code";
    /// Record after warm-up: what happens once in a program is part of the measured time.
    WarmUp = "warm-up";
    /// Do not wait for the GPU within the loop.
    BlockingCall = "blocking-call";
    /// Prepare batches in other processes, ahead of time.
    InputPipeline = "input-pipeline";
    /// Pin the memory that is copied from and to.
    PageableCopies = "pageable-copies";
    /// Copy on another stream, while kernels run.
    UnoverlappedCopies = "unoverlapped-copies";
    /// Copy less: no overlap hides copies that take longer than all else.
    FewerCopies = "fewer-copies";
    /// Let 32-bit products use tensor cores.
    TensorCores = "tensor-cores";
    /// Compute attention in one kernel.
    FusedAttention = "fused-attention";
    /// Compute chains of operations by element in one kernel.
    FuseElementwise = "fuse-elementwise";
    /// Update all parameters in few kernels.
    FusedOptimizer = "fused-optimizer";
    /// Store images with their channels last.
    ChannelsLast = "channels-last";
    /// Pad a dimension to a multiple of 8.
    TilePadding = "tile-padding";
    /// Keep memory instead of freeing and allocating it.
    Allocations = "allocations";
    /// Let streams run at the same time, or use one.
    SerializedStreams = "serialized-streams";
    /// Let the clock of the GPU run as fast as it can.
    Clocks = "clocks";
    /// Keep what the forward pass computed.
    Recomputation = "recomputation";
    /// Communicate while kernels run.
    CommunicationOverlap = "communication-overlap";
    /// Communicate in fewer, larger pieces.
    SmallBuckets = "small-buckets";
    /// Let the ranks arrive at the same time.
    Straggler = "straggler";
}

/// An advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to change.
    pub kind: Kind,
    /// By how much a step becomes shorter at most, in nanoseconds: the mean over the measured
    /// steps and the time between them.
    pub bound_ns: i64,
    /// The same as a fraction of the step.
    pub share: f64,
    /// What shows it, largest first: nanoseconds of a step, and pieces of all measured ones.
    pub evidence: Vec<Detail>,
}

/// Below this share of a step nothing is advised.
const WORTH: f64 = 0.05;
/// Launching in time costs little; below this share of a step it is not worth a graph.
const WORTH_A_GRAPH: f64 = 0.10;
/// No tensor core multiplies faster than this many times 32-bit products on CUDA cores.
const TENSOR_CORES_AT_MOST: i64 = 16;
/// Where copies take so many times as long as all else, hiding them changes little.
const COPIES_ALONE: i64 = 4;
/// What happens less often than this is not a pattern of the loop.
const OFTEN: u64 = 3;
/// Fewer launches are not worth a graph.
const LAUNCHES: u64 = 50;
/// How many details are evidence.
const EVIDENCE: usize = 5;

/// All measured time together.
pub(crate) struct Facts<'a> {
    pub(crate) measured: &'a Measured<'a>,
    /// What the GPUs are called.
    pub(crate) gpus: &'a [String],
    /// Whether CUDA graphs are captured meanwhile.
    pub(crate) captures: bool,
}

impl Facts<'_> {
    fn sum(&self, is: impl Fn(&Key) -> bool) -> i64 {
        self.measured.total.sums.iter().filter(|(key, _)| is(key)).map(|(_, sum)| sum.ns).sum()
    }

    fn pieces(&self, is: impl Fn(&Key) -> bool) -> u64 {
        self.measured.total.sums.iter().filter(|(key, _)| is(key)).map(|(_, sum)| sum.pieces).sum()
    }

    fn cause(&self, cause: Cause) -> i64 {
        self.sum(|(own, _, _)| *own == cause)
    }

    fn of(&self, limit: Limit) -> i64 {
        self.sum(|(cause, _, _)| cause.limit() == limit)
    }

    /// All time in which the GPU did nothing.
    fn idle(&self) -> i64 {
        self.sum(|(cause, _, _)| cause.part() == Part::Idle)
    }

    /// The time lost to waiting for the GPU: in the calls and after them, until the queue is full
    /// again. Without the calls the host would be earlier by the time that it is blocked, and the
    /// GPU cannot gain more than it idles.
    fn lost_to_sync(&self) -> i64 {
        let direct = self.cause(Cause::BlockingCall);
        if direct == 0 { 0 } else { (direct + self.measured.total.after_sync_ns).min(self.blocked_or_idle()) }
    }

    fn blocked_or_idle(&self) -> i64 {
        self.measured.total.blocked_ns.min(self.idle())
    }

    /// The time lost because launches are slow.
    fn lost_to_launches(&self) -> i64 {
        let late = self.of(Limit::Launch) + self.cause(Cause::BlockingCall);
        late - self.lost_to_sync().min(late)
    }

    /// What a step is limited by, and the nanoseconds of each group.
    pub(crate) fn limits(&self) -> Vec<(Limit, i64)> {
        const LOST: [Limit; 7] = [
            Limit::Skew,
            Limit::Host,
            Limit::Input,
            Limit::Allocation,
            Limit::Copies,
            Limit::Communication,
            Limit::Unknown,
        ];
        let mut all: Vec<(Limit, i64)> = LOST.iter().map(|limit| (*limit, self.of(*limit))).collect();
        all.push((Limit::Sync, self.lost_to_sync()));
        all.push((Limit::Launch, self.lost_to_launches()));
        all.push((Limit::Gpu, self.of(Limit::Gpu)));
        all.retain(|(_, ns)| *ns > 0);
        all.sort_by_key(|(limit, ns)| (Reverse(*ns), *limit));
        all
    }

    /// The details of some keys, largest first.
    fn evidence(&self, is: impl Fn(&Key) -> bool) -> Vec<Detail> {
        let mut sums: FxHashMap<(Thing, u32), Sum> = FxHashMap::default();
        for ((_, thing, by), own) in self.measured.total.sums.iter().filter(|(key, _)| is(key)) {
            *sums.entry((*thing, *by)).or_default() += *own;
        }
        let mut sums: Vec<((Thing, u32), Sum)> = sums.into_iter().collect();
        sums.sort_by_key(|(key, sum)| (Reverse(sum.ns), *key));
        let detail = |((thing, around), sum): ((Thing, u32), Sum)| {
            let (by, at) = self.measured.folded.names.get(around as usize).cloned().unwrap_or_default();
            Detail {
                what: self.measured.context.name(thing),
                by,
                at,
                ns: sum.ns / self.steps(),
                pieces: sum.pieces,
            }
        };
        sums.into_iter().take(EVIDENCE).map(detail).collect()
    }

    /// Whether what is around a piece is an operator that communicates.
    fn is_collective(&self, around: u32) -> bool {
        let names = self.measured.folded.names.get(around as usize);
        let by = names.and_then(|(by, _)| by.as_deref());
        by.is_some_and(|by| ["nccl:", "c10d::", "rccl:"].iter().any(|own| by.starts_with(own)))
    }

    /// Whether a thing is a kernel, copy or memset that satisfies a condition.
    fn is_kind(&self, thing: Thing, is: impl Fn(&operation::Kind) -> bool) -> bool {
        matches!(thing, Thing::Kind(kind) if is(&self.measured.context.timeline.kinds[kind as usize]))
    }

    /// How many steps are measured, at least one.
    fn steps(&self) -> i64 {
        i64::try_from(self.measured.total.steps.max(1)).unwrap_or(i64::MAX)
    }

    /// All that is worth it, largest bound first.
    pub(crate) fn advice(&self) -> Vec<Advice> {
        let mut list = List { wall: self.measured.total.wall_ns, steps: self.steps(), all: Vec::new() };
        self.of_host(&mut list);
        self.of_copies(&mut list);
        self.of_kernels(&mut list);
        self.of_clocks(&mut list);
        self.of_ranks(&mut list);
        list.all.sort_by_key(|advice| (Reverse(advice.bound_ns), advice.kind));
        list.all
    }

    /// The time between kernels that wait for each other.
    fn between(&self) -> i64 {
        self.cause(Cause::DependentKernels) + self.cause(Cause::OtherStream)
    }

    /// What the host does instead of launching in time.
    fn of_host(&self, list: &mut List) {
        // What a graph is launched by is one already.
        let is_graph =
            |thing: Thing| self.measured.context.name(thing).is_some_and(|name| name.contains("GraphLaunch"));
        let is_graph_launch = |key: &Key| key.0.limit() == Limit::Launch && is_graph(key.1);
        let launches = (self.lost_to_launches() - self.sum(is_graph_launch)).max(0);
        let is_launch = |key: &Key| key.0.limit() == Limit::Launch && !is_graph(key.1);
        // A graph of the whole step needs no operators of the host, and cannot wait within it.
        let operators = self.cause(Cause::HostOperators);
        // Without what makes a rank late, others do not wait for it while it is idle.
        let idle_rank = self.cause(Cause::IdleRank);
        let bound = launches + self.between() + operators + self.lost_to_sync() + idle_rank;
        // What is captured runs later, and a few launches are not worth replaying.
        if !self.captures && self.measured.patterns.launched >= LAUNCHES {
            list.add(Kind::CudaGraphs, WORTH_A_GRAPH, launches, bound, self.evidence(is_launch));
        }

        let is_sync = |(cause, _, _): &Key| *cause == Cause::BlockingCall;
        let bound = if self.pieces(is_sync) < OFTEN { 0 } else { self.blocked_or_idle() + idle_rank };
        list.add(Kind::BlockingCall, WORTH / 2.0, self.lost_to_sync(), bound, self.evidence(is_sync));

        let is_host = |(cause, _, _): &Key| cause.limit() == Limit::Host && *cause != Cause::FirstLaunch;
        let ns = self.sum(is_host);
        list.add(Kind::HostCode, WORTH_A_GRAPH, ns, ns + idle_rank, self.evidence(is_host));

        let is_input = |(cause, _, _): &Key| *cause == Cause::Input;
        // Batches that are prepared ahead lie in pinned memory, and are copied meanwhile.
        let bound = self.sum(is_input) + self.cause(Cause::HostToDevice) + idle_rank;
        list.add(Kind::InputPipeline, WORTH, self.sum(is_input), bound, self.evidence(is_input));

        // Only steps that follow others show what each of them allocates.
        let is_repeated = self.measured.total.steps > self.measured.places;
        let is_once = |(cause, _, _): &Key| {
            *cause == Cause::FirstLaunch || (*cause == Cause::Allocation && !is_repeated)
        };
        let ns = self.sum(is_once);
        list.add(Kind::WarmUp, WORTH, ns, ns, self.evidence(is_once));

        // As with blocking calls: what they take of the host's time, at most what the GPU idles.
        let is_memory = |(cause, _, _): &Key| *cause == Cause::Allocation && is_repeated;
        let with_what_follows = self.sum(is_memory) + self.measured.total.after_sync_ns;
        // The allocator of a framework works around these calls within its operators.
        let bound =
            self.measured.total.allocated_ns.max(with_what_follows) + self.cause(Cause::LaunchOperators);
        let bound = if self.pieces(is_memory) < OFTEN { 0 } else { bound.min(self.idle()) + idle_rank };
        list.add(Kind::Allocations, WORTH / 2.0, self.sum(is_memory), bound, self.evidence(is_memory));
    }

    fn of_copies(&self, list: &mut List) {
        let crosses = |cause: Cause| matches!(cause, Cause::HostToDevice | Cause::DeviceToHost);
        let is_pageable = |kind: &operation::Kind| {
            kind.memories.is_some_and(|memories| memories.contains(&Memory::Pageable))
        };
        let pageable = |key: &Key| crosses(key.0) && self.is_kind(key.1, is_pageable);
        let other = |key: &Key| crosses(key.0) && !self.is_kind(key.1, is_pageable);
        let (from_pageable, ns) = (self.sum(pageable), self.sum(other));
        let bound = from_pageable + self.cause(Cause::BlockingCall);
        list.add(Kind::PageableCopies, WORTH, from_pageable, bound, self.evidence(pageable));
        // A step takes at least as long as its copies in one direction.
        let copying = self.measured.patterns.copied_ns.into_iter().max().unwrap_or_default();
        let rest = (list.wall - copying).max(0);
        list.add(Kind::UnoverlappedCopies, WORTH, ns, ns.min(rest), self.evidence(other));
        if copying / COPIES_ALONE > rest && ns > from_pageable {
            list.add(Kind::FewerCopies, WORTH, ns, ns, self.evidence(other));
        }
    }

    /// What runs on the GPU, and how.
    fn of_kernels(&self, list: &mut List) {
        let is_single = |kind: &operation::Kind| {
            kind.info.as_ref().is_some_and(|info| {
                info.precision == Some(NumberType::Fp32) && info.tensor_cores == Some(false)
            })
        };
        let single = |key: &Key| key.0 == Cause::CudaCores && self.is_kind(key.1, is_single);
        let lacks = !self.gpus.is_empty() && self.gpus.iter().all(|gpu| peaks::lacks_tensor_cores(gpu));
        let ns = if lacks { 0 } else { self.sum(single) };
        list.add(Kind::TensorCores, WORTH, ns, ns - ns / TENSOR_CORES_AT_MOST, self.evidence(single));

        // No option fuses an optimizer's products.
        let is_unfused = |kind: &operation::Kind| {
            let is_fusible = |class| {
                use KernelClass::{Copy, Elementwise, Layout, Reduction};
                matches!(class, Elementwise | Reduction | Layout | Copy)
            };
            kind.info.as_ref().is_some_and(|info| is_fusible(info.class))
        };
        let unfused = |key: &Key| key.0 == Cause::Optimizer && self.is_kind(key.1, is_unfused);
        let ns = self.sum(unfused);
        if ns > self.cause(Cause::Optimizer) - ns {
            let bound = ns + self.measured.total.optimizer_idle_ns;
            list.add(Kind::FusedOptimizer, WORTH, bound, bound, self.evidence(unfused));
        }

        let patterns = &self.measured.patterns;
        let kinds = |of: &FxHashMap<u32, i64>| self.kinds(of);
        let ns = patterns.attention_ns;
        list.add(Kind::FusedAttention, WORTH, ns, ns, kinds(&patterns.attention));
        let ns = patterns.chains_ns;
        list.add(Kind::FuseElementwise, WORTH, ns, ns, kinds(&patterns.chains));

        let ns = patterns.recomputed_ns;
        list.add(Kind::Recomputation, WORTH, ns, ns, kinds(&patterns.recomputed));
        let ns = patterns.serialized_ns;
        // Without the waits, what lies between the kernels goes, too.
        list.add(Kind::SerializedStreams, WORTH, ns, ns + self.between().min(ns), Vec::new());

        let is_conversion = |kind: &operation::Kind| {
            let name = kind.name.to_ascii_lowercase();
            kind.cause == Cause::Layout && (name.contains("nchwtonhwc") || name.contains("nhwctonchw"))
        };
        let conversion = |key: &Key| self.is_kind(key.1, is_conversion);
        // Normalization by channels reads memory in the other order, too.
        let is_norm = |kind: &operation::Kind| {
            kind.cause == Cause::Norm
                && kind.name.contains("batch_norm")
                && !kind.name.contains("channels_last")
        };
        let ns = self.sum(conversion);
        let bound = ns + self.sum(|key| self.is_kind(key.1, is_norm));
        list.add(Kind::ChannelsLast, WORTH, ns, bound, self.evidence(conversion));

        let is_unaligned = |kind: &operation::Kind| {
            kind.info.as_ref().is_some_and(|info| {
                let half = matches!(info.precision, Some(NumberType::Fp16 | NumberType::Bf16));
                let narrow = ["align1", "align2"]
                    .iter()
                    .any(|narrow| info.base.ends_with(narrow) || info.short.contains(&format!("_{narrow}")));
                half && narrow && info.class == KernelClass::Matmul
            })
        };
        let unaligned = |key: &Key| self.is_kind(key.1, is_unaligned);
        let ns = self.sum(unaligned);
        list.add(Kind::TilePadding, WORTH, ns, ns - ns / TENSOR_CORES_AT_MOST, self.evidence(unaligned));
    }

    /// Kernels whose clock was slower than it can be. None of them gains more than that.
    fn of_clocks(&self, list: &mut List) {
        let Some(own) = self.measured.frequencies.mean() else { return };
        let busy = self.sum(|key| key.0.part() == Part::Busy);
        let slower = (1.0 - own.mean_hz / own.highest_hz).max(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "a part of the time measured")]
        let bound = (busy as f64 * slower) as i64;
        list.add(Kind::Clocks, WORTH, bound, bound, Vec::new());
    }

    /// Communication, and waiting for ranks.
    fn of_ranks(&self, list: &mut List) {
        let idle_rank = self.cause(Cause::IdleRank);
        let (ns, late) = (self.cause(Cause::Communication), self.cause(Cause::LateRank));
        let exposed = ns + late + idle_rank;
        let (count, sum) = self.measured.patterns.collectives;
        if count > 0 && (sum - self.measured.waited_ns) / count < SMALL_COLLECTIVE_NS {
            let launching = |key: &Key| key.0.limit() == Limit::Launch && self.is_collective(key.2);
            let own = |key: &Key| key.0 == Cause::Communication || launching(key);
            let ns = self.sum(own);
            list.add(Kind::SmallBuckets, WORTH, ns, ns + late + idle_rank, self.evidence(own));
        } else {
            // Other kernels can hide waiting, too, as long as there are any.
            let bound = exposed.min(list.wall - exposed);
            list.add(
                Kind::CommunicationOverlap,
                WORTH,
                ns,
                bound,
                self.evidence(|key| key.0 == Cause::Communication),
            );
        }
        // The rank that waits longest has the least to do of its own: so short a step can become.
        list.add(Kind::Straggler, WORTH, late, self.measured.longest_wait_ns().max(late), self.late_places());
    }

    /// Places that arrive last as evidence.
    fn late_places(&self) -> Vec<Detail> {
        let mut all: Vec<(&Place, &Sum)> = self.measured.late.iter().collect();
        all.sort_by_key(|(place, sum)| (Reverse(sum.ns), **place));
        let detail = |(place, sum): (&Place, &Sum)| Detail {
            what: Some(place.to_string()),
            by: None,
            at: None,
            ns: sum.ns / self.steps(),
            pieces: sum.pieces,
        };
        all.into_iter().take(EVIDENCE).map(detail).collect()
    }

    /// Kernels as evidence.
    fn kinds(&self, of: &FxHashMap<u32, i64>) -> Vec<Detail> {
        let mut all: Vec<(u32, i64)> = of.iter().map(|(kind, ns)| (*kind, *ns)).collect();
        all.sort_by_key(|(kind, ns)| (Reverse(*ns), *kind));
        let detail = |(kind, ns): (u32, i64)| Detail {
            what: self.measured.context.name(Thing::Kind(kind)),
            by: None,
            at: None,
            ns: ns / self.steps(),
            pieces: 0,
        };
        all.into_iter().take(EVIDENCE).map(detail).collect()
    }
}

/// What is advised so far, and the time of how many steps it is of.
struct List {
    wall: i64,
    steps: i64,
    all: Vec<Advice>,
}

impl List {
    /// Adds what is worth it: what is lost is at least so much of the time, and so is its bound.
    fn add(&mut self, kind: Kind, least: f64, reason: i64, bound: i64, evidence: Vec<Detail>) {
        let share = bound as f64 / self.wall.max(1) as f64;
        if reason as f64 >= least * self.wall as f64 && share >= WORTH {
            self.all.push(Advice { kind, bound_ns: bound / self.steps, share, evidence });
        }
    }
}

/// A collective that is shorter than this spends most of its time on latency.
const SMALL_COLLECTIVE_NS: i64 = 50_000;

/// Of a step, what is lost outside the GPU's own work must be more than this to limit it.
pub const LOST: f64 = 0.25;

/// What limits steps: the GPU, unless more is lost elsewhere.
pub(crate) fn limit(limits: &[(Limit, i64)]) -> Limit {
    let all: i64 = limits.iter().map(|(_, ns)| ns).sum();
    let lost = limits.iter().filter(|(limit, _)| *limit != Limit::Gpu);
    let sum: i64 = lost.clone().map(|(_, ns)| ns).sum();
    match lost.max_by_key(|(limit, ns)| (*ns, Reverse(*limit))) {
        Some((limit, _)) if sum as f64 > LOST * all as f64 => *limit,
        _ => Limit::Gpu,
    }
}
