"""What answers hold: records of numbers, whole nanoseconds where they are no means. :mod:`flopgap.answers` gives them."""

from __future__ import annotations

import dataclasses
import html
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from ._flopgap import Table
from .plots import Bars, Drawn

__all__ = [
    "Against", "Change", "ChosenSteps", "Comparison", "Diff", "GapActive", "GapActiveGpu", "GapActivity", "GapAdvice", "GapDetail", "GapExecuted", "GapFlops", "GapFloor", "GapFloorPart", "GapKernel", "GapLimit", "GapOperations", "GapPart",
    "GapPauses", "GapPeak", "GapPeaks", "GapStep", "GapSums", "GapUnmarked", "GpuTimes", "Instance", "InstanceWork", "Judged", "KernelChange", "KernelTimes", "Kernels", "LeftOut", "LeftOutFirst", "LikeForLike", "OtherSteps", "Outlier",
    "Pass", "PassGpu", "PassSpread", "Passes", "Period", "Place", "PlaceDiff", "PlaceKernels", "Quantity", "RangeChange", "RangeGpu", "Sample",
    "Selection", "Share", "Shares", "Shift", "Side", "Spread", "StepGap", "Summary", "Times", "Unlaunched", "WorkDifference", "WorkRow",
]


@dataclass(frozen=True)
class Times:
    """Statistics of durations, in nanoseconds."""

    count: int
    total_ns: int
    mean_ns: float
    median_ns: float
    min_ns: int
    max_ns: int
    #: Sample standard deviation; 0 for one value.
    stddev_ns: float


@dataclass(frozen=True)
class Place:
    """A process on a GPU: a rank of a distributed program, or one of the GPUs of a single process."""

    process: int | None
    gpu: int | None
    #: The rank of the process in its job; None where a recording does not say it.
    rank: int | None = None

    def __str__(self) -> str:
        words = [f"process {self.process}"] if self.process is not None else []
        if self.rank is not None:
            words = [f"rank {self.rank}"]
        words += [f"GPU {self.gpu}"] if self.gpu is not None else []
        return ", ".join(words) or "all"


@dataclass(frozen=True)
class Spread:
    """How far several places are apart."""

    places: int
    min_ns: float
    median_ns: float
    max_ns: float
    slowest: Place
    #: Whether the slowest is slower than every other place by more than their scatter.
    is_distinct: bool


@dataclass(frozen=True)
class Unlaunched:
    """GPU work whose launch was not recorded: it is in no number about ranges."""

    kernels: int
    kernel_ns: int
    operations: int
    total_ns: int


@dataclass(frozen=True)
class LeftOutFirst:
    """What was left out because it came first: one of both."""

    #: The first step of this name in each process, and the passes outside of the steps.
    step: str | None
    #: So many first instances of each pass in each process.
    instances: int | None


@dataclass(frozen=True)
class OtherSteps:
    """Ranges that are steps by their name and are not measured."""

    name: str
    instances: int


@dataclass(frozen=True)
class ChosenSteps:
    """The steps by which a trace is measured, where several ranges are steps."""

    name: str
    others: list[OtherSteps]


@dataclass(frozen=True)
class Selection:
    """Which ranges an answer is about, and which of their instances were left out."""

    #: The ranges that mark warming up: what lies in them is left out.
    warm_up: list[str]
    first: LeftOutFirst | None
    steps: ChosenSteps | None
    #: How many of the ranges lie within others of them, and so count with those.
    nested: int


@dataclass(frozen=True)
class LeftOut:
    """Why instances of a pass were left out, and how many."""

    in_warm_up: int
    first: int
    nested: int
    open: int


def _for_people(table: Table) -> Table:
    """A table of kernels without their full names, beside which the others have no room."""
    return table.select(*(column for column in table.columns if column != "name"))


@dataclass(frozen=True)
class _Answer:
    """What every answer has."""

    #: What the numbers say, in sentences.
    sentences: list[str] = field(init=False, repr=False, default_factory=list)
    #: What nsys reported about the recording and what was strange in it.
    warnings: list[str] = field(init=False, repr=False, default_factory=list)

    def _tables(self) -> list[Table]:
        return []

    def _repr_html_(self) -> str:
        parts = [table._repr_html_() for table in self._tables()]
        parts += [f"<p>{html.escape(text)}</p>" for text in self.sentences]
        parts += [f"<p>⚠ {html.escape(text)}</p>" for text in self.warnings]
        return "\n".join(parts)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True)
class KernelTimes:
    """A kernel and its time."""

    #: Its demangled name.
    name: str
    #: A name that fits in a table.
    display_name: str = field(metadata={"json": "short"})
    #: The kind of work: ``matmul``, ``elementwise``...
    kind: str = field(metadata={"json": "class"})
    times: Times
    #: The share of the time of all kernels: 1 is all.
    share: float


@dataclass(frozen=True)
class PlaceKernels:
    """The kernels of one process on one GPU."""

    place: Place
    instances: int | None
    kernels: list[KernelTimes]
    total_ns: int


@dataclass(frozen=True)
class Kernels(Drawn, _Answer):
    """The kernels of a trace or of its ranges, the largest total first."""

    #: ``all``, or ranges such as ``forward``.
    scope: str
    #: How many instances of the ranges; None for a whole trace.
    instances: int | None
    #: Whose ranges own kernels: ``thread`` or ``process``.
    attribution: str | None
    #: Which instances were left out.
    selection: Selection | None
    unlaunched: Unlaunched | None
    kernels: list[KernelTimes]
    total_ns: int
    #: Each process on each GPU for itself, where there are several.
    places: list[PlaceKernels]
    #: The kernels as a table.
    table: Table = field(init=False, repr=False, compare=False, metadata={"table": 0})

    def _tables(self) -> list[Table]:
        return [_for_people(self.table)]

    def _bars(self) -> Bars:
        """A bar for each kind of kernel."""
        kinds: dict[str, int] = {}
        for kernel in self.kernels:
            kinds[kernel.kind] = kinds.get(kernel.kind, 0) + kernel.times.total_ns
        kinds = dict(sorted(kinds.items(), key=lambda kind: -kind[1]))
        return Bars(f"GPU time by kind of kernel, {self.scope}", list(kinds), {"kernels": [ns / 1e6 for ns in kinds.values()]})


@dataclass(frozen=True)
class InstanceWork:
    """What an instance of a range did on the GPU."""

    start_ns: int
    end_ns: int
    busy_ns: int
    #: The rest of the time from the first to the last operation.
    gaps_ns: int
    #: Of the range's time on the host, that in which its GPU ran nothing at all.
    idle_ns: int
    overlap_ns: int
    kernels: int
    operations: int


@dataclass(frozen=True)
class Instance:
    """One instance of a pass."""

    start_ns: int
    end_ns: int
    #: For how long its thread was blocked by calls; None without CUDA API data.
    waiting_ns: int | None
    #: The work that was launched within it; None when there was none.
    gpu: InstanceWork | None


@dataclass(frozen=True)
class GpuTimes:
    """The GPU times of a pass, over the instances that launched work."""

    #: From the first operation's beginning to the last one's end.
    projected: Times
    #: The part of it in which at least one operation ran.
    busy: Times
    #: The rest of it, in which other work may run.
    gaps: Times
    #: Of the ranges that launched work, from beginning to end on the host.
    host: Times
    #: The part of it in which the GPU ran nothing at all, of any origin.
    idle: Times
    overlap: Times
    #: How long after the range began its first operation did.
    lead: Times
    #: How long after the range ended its last operation did.
    tail: Times
    #: On how many GPUs.
    gpus: int
    operations_mean: float
    kernels_mean: float


@dataclass(frozen=True)
class WaitingFor:
    """For how long the thread of a pass was blocked by calls of one kind."""

    #: ``synchronization``, ``copy``, ``memory``.
    by: str
    #: The sum over all instances.
    total_ns: int


@dataclass(frozen=True)
class PassGpu:
    """What the work of a pass did on one of its GPUs."""

    gpu: int
    times: GpuTimes


@dataclass(frozen=True)
class Against:
    """A pass against the times measured outside."""

    host_difference_ns: float
    host_change: float | None
    projected_difference_ns: float | None
    projected_change: float | None


@dataclass(frozen=True)
class Outlier:
    """A period that is far longer than the others."""

    start_ns: int
    period_ns: int
    #: How much of it was after its step.
    between_ns: int


@dataclass(frozen=True)
class Period:
    """From the beginning of one step to that of the next."""

    times: Times
    #: None for fewer than 10.
    p90_ns: int | None
    #: None for fewer than 100.
    p99_ns: int | None
    #: Throughput: how many steps begin in a second.
    per_second: float
    #: From the end of a step to the beginning of the next; negative where they overlap.
    between: Times
    outliers: int
    longest: list[Outlier]


@dataclass(frozen=True)
class Pass:
    """All instances of one range."""

    #: ``forward``, or with numbers folded ``step_*``.
    name: str
    #: ``step``, ``forward``, ``backward``, ``optimizer``, ``prefill``, ``decode``, ``named``.
    kind: str
    process: int | None
    #: Its rank in its job; None where the recording does not say it.
    rank: int | None
    instances: list[Instance]
    left_out: LeftOut
    #: From the beginning to the end of the range, on the host.
    host: Times
    #: All instances without what lies in other ranges of the thread; None for passes derived from operators.
    host_self_ns: int | None
    #: From one beginning to the next; None for the passes within steps.
    period: Period | None
    #: The part of it in which its thread was blocked by calls; None without CUDA API data.
    waiting: Times | None
    #: The sum of it by what blocked; None where nothing did.
    waiting_for: list[WaitingFor] | None
    #: What its work did on its GPUs together; None when it launched none.
    gpu: GpuTimes | None
    gpus: list[PassGpu]
    against: Against | None


@dataclass(frozen=True)
class PassSpread:
    """How far the places of a pass are apart."""

    name: str
    time: str
    spread: Spread


@dataclass(frozen=True)
class Passes(Drawn, _Answer):
    """The steps and passes of a trace: whole steps first."""

    passes: list[Pass]
    #: Which instances were left out.
    selection: Selection
    #: Whose ranges own GPU work: ``thread`` or ``process``.
    attribution: str
    unlaunched: Unlaunched | None
    #: Why there are no GPU times, when there are none.
    no_gpu: str | None
    #: The times measured outside.
    measured: Times | None
    spreads: list[PassSpread]
    #: Index of the pass whose time is nearest to the mean measured outside.
    nearest: int | None
    #: The passes as a table.
    table: Table = field(init=False, repr=False, compare=False, metadata={"table": 0})

    def _tables(self) -> list[Table]:
        return [self.table]

    def _bars(self) -> Bars:
        """A bar for each pass that launched work: what an instance takes on the GPU on average."""
        ran = [(each, each.gpu) for each in self.passes if each.gpu is not None]
        names = [each.name if each.rank is None else f"{each.name}, rank {each.rank}" for each, _ in ran]
        busy, gaps = ([times.mean_ns / 1e6 for times in kind] for kind in zip(*((gpu.busy, gpu.gaps) for _, gpu in ran), strict=True)) if ran else ([], [])
        return Bars("GPU time of an instance", names, {"busy": busy, "gaps": gaps})


@dataclass(frozen=True)
class GapDetail:
    """What a part of a step consists of."""

    #: The kernel, copy or call; None where none was recorded.
    what: str | None
    #: The operator, module or range around its launch, with numbers folded.
    by: str | None
    #: The innermost function of a user's Python where idle time is due to one, such as ``train.py(34): step``.
    at: str | None
    ns: int
    pieces: int


@dataclass(frozen=True)
class GapPart:
    """A part of a step, or of several, by its cause."""

    #: ``busy``, ``exposed`` or ``idle``.
    part: str
    cause: str
    #: The group of the cause: what would have to change.
    limit: str
    ns: int
    pieces: int
    #: Largest first; None for the parts of one step.
    details: list[GapDetail] | None


@dataclass(frozen=True)
class GapStep:
    """A step of one process on one GPU: its parts add up to ``wall_ns``."""

    name: str
    rank: int | None
    process: int | None
    gpu: int | None
    start_ns: int
    wall_ns: int
    #: By which clock it begins and ends: ``host`` or ``gpu``.
    clock: str
    #: Whether it is left out of sums.
    warm_up: bool
    parts: list[GapPart]


@dataclass(frozen=True)
class GapAdvice:
    """What to change, and by how much a step becomes shorter at most."""

    kind: str
    bound_ns: int
    #: The bound as a fraction of the step.
    share: float
    evidence: list[GapDetail]


@dataclass(frozen=True)
class GapLimit:
    """The measured time that a change of one kind could save."""

    limit: str
    ns: int


@dataclass(frozen=True)
class GapPauses:
    """The time between steps that is left out, since it is far longer than a step."""

    count: int
    ns: int


@dataclass(frozen=True)
class GapUnmarked:
    """GPU work of processes without steps, while others have some: it is in no sum."""

    #: On how many GPUs of such processes.
    places: int
    operations: int


@dataclass(frozen=True)
class GapPeak:
    """The peak of a type, in FLOPs per second."""

    #: The type of the factors: ``bf16``, ``tf32`` and so on.
    number: str
    flops: float
    #: ``data-sheet`` or ``measured``.
    by: str


@dataclass(frozen=True)
class GapPeaks:
    """The peaks of a GPU, by its data sheet or as measured."""

    gpu: str
    flops: list[GapPeak]
    #: Bytes per second of the device's memory, and where that is from.
    bytes: float
    bytes_by: str
    #: Nanoseconds of an empty launch; None on data sheets.
    launch_ns: float | None


@dataclass(frozen=True)
class GapFlops:
    """FLOPs of products, convolutions and attention whose factors have one type."""

    number: str
    #: FLOPs of the model.
    model: int
    #: FLOPs that are done again because their results are not kept.
    repeated: int


@dataclass(frozen=True)
class GapFloorPart:
    """The time of kernels of one cause beside what they need, over all measured steps."""

    cause: str
    ns: int
    #: The time of the kernels whose need is known.
    known_ns: int
    #: What these need at least, by FLOPs or by bytes.
    floor_ns: int
    #: What FLOPs that are done again need.
    repeated_ns: int
    #: What padding of tiles and reductions of split-K take at least.
    executed_ns: int


@dataclass(frozen=True)
class GapFloor:
    """What the measured work needs at least, by the definitions of its operators."""

    #: None where the data sheet of the GPU is not known.
    peaks: GapPeaks | None
    flops: list[GapFlops]
    #: The share of the time of multiplying kernels for which sizes are recorded.
    covered: float
    #: Model FLOPs utilization, and that of the hardware with FLOPs that are done again.
    mfu: float | None
    hfu: float | None
    parts: list[GapFloorPart]


@dataclass(frozen=True)
class GapLaunches:
    """The calls that launched kernels of all measured steps, beside empty launches."""

    count: int
    each_ns: float
    ns: float


@dataclass(frozen=True)
class GapJoined:
    """Recordings that were read as the ranks of one job, their clocks put together by UTC."""

    recordings: int
    #: Whether some time is in the GPU work of all.
    at_same_time: bool
    #: Whether all name a GPU of the first by its unique id.
    one_machine: bool
    #: In how many all their processes took part at the same time.
    collectives: int
    #: By how much their clocks differ at most, by these collectives; None without any.
    clocks_within_ns: int | None


@dataclass(frozen=True)
class GapClock:
    """A clock of ranks that was corrected by when collectives end."""

    places: list[Place]
    #: What was added to their times, and by how much it may still differ.
    corrected_ns: int
    within_ns: int
    collectives: int


@dataclass(frozen=True)
class GapGraphs:
    """Kernels, copies and memory sets that CUDA graphs launched, in the whole recording."""

    operations: int
    #: Those of which it is known by which operators they were captured.
    named: int


@dataclass(frozen=True)
class GapFrequency:
    """How fast the clocks of the GPUs ran while kernels of measured steps did."""

    samples: int
    mean_hz: float
    highest_hz: float


@dataclass(frozen=True)
class GapSums:
    """Launches of kernels in measured time, and those whose operations were counted."""

    launches: int
    ns: int
    counted: int
    counted_ns: int
    #: What the counted ones need at the GPU's peaks; None where those are not known.
    bound_ns: int | None


@dataclass(frozen=True)
class GapOperations:
    """Operations of one type: ``tensor bf16``, ``fp32``."""

    kind: str
    least: int
    most: int


@dataclass(frozen=True)
class GapKernel:
    """What the counted launches of a kernel executed."""

    name: str
    sums: GapSums
    #: At least and at most: both are equal where counts repeat.
    flops: tuple[int, int]
    dram_bytes: int


@dataclass(frozen=True)
class GapExecuted:
    """What the kernels of all measured steps executed, by counters: ``flopgap record --flops``."""

    operations: list[GapOperations]
    #: At least and at most.
    flops: tuple[int, int]
    dram_bytes: int
    all: GapSums
    #: Hardware FLOPs utilization; None where the peaks are not known.
    utilization: float | None
    #: Longest first.
    kernels: list[GapKernel]


@dataclass(frozen=True)
class GapWholeSteps:
    """What all measured steps execute, by counters of some that were counted as a whole: ``flopgap record --flops steps``."""

    #: How many steps of a process the rarest of the counters counted.
    times: int
    operations: list[GapOperations]
    #: At least and at most; None where not all types were counted.
    flops: tuple[int, int] | None
    dram_bytes: int | None
    #: Hardware FLOPs utilization, at least: of the busiest type. None where the peaks are not known.
    utilization: float | None


@dataclass(frozen=True)
class GapActive:
    """How active units were in measured time, by samples of NVML's GPM: fractions of 1, None where not sampled."""

    measured_ns: int
    #: How much of it was sampled.
    sampled_ns: int
    tensor: float | None
    #: Of the highest bandwidth.
    dram: float | None


@dataclass(frozen=True)
class GapActiveGpu:
    """A GPU, whatever ran on it."""

    gpu: int
    active: GapActive


@dataclass(frozen=True)
class GapActivity:
    """How active units of the GPUs were, where kernels could not be counted; no FLOPs follow from it."""

    all: GapActive
    gpus: list[GapActiveGpu]


@dataclass(frozen=True)
class StepGap(Drawn, _Answer):
    """The steps of a trace taken apart."""

    #: What limits a step: ``launch``, ``host``, ``sync``, ``input``, ``allocation``, ``copies``, ``communication``, ``skew``, ``gpu`` or ``unknown``.
    limit: str
    #: How the steps were found, and what they are called.
    found_by: str
    step: str
    gpus: list[str]
    #: Of exports of nsys in a directory: how they were read as one job.
    joined: GapJoined | None
    #: Clocks of ranks that were corrected; None without any.
    clocks: list[GapClock] | None
    #: Whether CUDA graphs are captured meanwhile.
    captures: bool
    #: None without CUDA graphs.
    graphs: GapGraphs | None
    #: How many steps are measured, on how many GPUs of processes.
    measured: int
    places: int
    pauses: GapPauses
    unmarked: GapUnmarked
    #: The mean length of a step with the time until the next.
    step_ns: int
    limits: list[GapLimit]
    #: The measured time by cause.
    parts: list[GapPart]
    #: None where nothing is recorded of what operators were called with.
    floor: GapFloor | None
    #: None where nothing was counted.
    executed: GapExecuted | None
    #: None where NVML's GPM was not sampled.
    activity: GapActivity | None
    #: None where no measured steps were counted as a whole.
    whole_steps: GapWholeSteps | None
    #: None without measured ceilings.
    launches: GapLaunches | None
    #: None where the clock was not sampled.
    frequency: GapFrequency | None
    #: Largest bound first.
    advice: list[GapAdvice]
    steps: list[GapStep]
    #: The time between steps.
    between: list[GapStep]

    def _bars(self) -> Bars:
        """A bar for each measured step, a segment for each cause."""
        steps = [step for step in self.steps if not step.warm_up]
        parts = {(part.part, part.cause): [0.0] * len(steps) for part in self.parts}
        for index, step in enumerate(steps):
            for part in step.parts:
                # What a step has, the sums have.
                parts[part.part, part.cause][index] += part.ns / 1e6
        ranks = len({(step.rank, step.process, step.gpu) for step in steps}) > 1
        names = [f"{step.name}, {Place(step.process, step.gpu, step.rank)}" if ranks else step.name for step in steps]
        lengths = {f"{part}: {cause}": lengths for (part, cause), lengths in parts.items() if any(lengths)}
        return Bars(f"Steps by cause; the limit is {self.limit}", names, lengths)


@dataclass(frozen=True)
class Share:
    """One kind of work and its time."""

    #: A class of kernels, or ``memcpy`` and ``memset``.
    work: str
    names: int
    calls: int
    total_ns: int
    share: float


@dataclass(frozen=True)
class Shares:
    """The GPU time of a scope by kind of work, the largest first."""

    scope: str
    place: Place | None
    instances: int | None
    attribution: str | None
    selection: Selection | None
    unlaunched: Unlaunched | None
    optimizer: str | None
    shares: list[Share]
    kernel_ns: int
    total_ns: int
    busy_ns: int
    extent_ns: int
    #: For each GPU the time on the clock: of each range, or of a whole trace from its first to its last operation.
    clock_ns: int
    #: The part of it in which the GPU ran anything, of any origin.
    gpu_busy_ns: int
    places: list[Shares]


@dataclass(frozen=True)
class WorkRow:
    """A kind of work in both traces, of one instance where ranges are compared."""

    work: str
    calls: tuple[float, float]
    total_ns: tuple[float, float]
    share: tuple[float, float]


@dataclass(frozen=True)
class Comparison(Drawn, _Answer):
    """Two traces by kind of work."""

    a: Shares
    b: Shares
    #: Every kind of work that either has, the largest first.
    rows: list[WorkRow]
    #: Each process on each GPU, where there are several and as many in both.
    places: list[Comparison]
    #: The rows as a table.
    table: Table = field(init=False, repr=False, compare=False, metadata={"table": 0})

    def _tables(self) -> list[Table]:
        return [self.table]

    def _bars(self) -> Bars:
        """A bar for each trace, a segment for each kind of work."""
        rows = {row.work: [ns / 1e6 for ns in row.total_ns] for row in self.rows}
        return Bars("GPU time by kind of work", [f"A: {self.a.scope}", f"B: {self.b.scope}"], rows)


@dataclass(frozen=True)
class Quantity:
    """A number before and after, of one instance; None where it was not recorded."""

    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """By how much it is larger after."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class Side:
    """The work of one trace under a name."""

    calls: int
    each_calls: float
    total_ns: int
    mean_ns: float
    #: What is compared: the time in one instance.
    each_ns: float
    each_bytes: float | None


@dataclass(frozen=True)
class Change:
    """A time before and after; None where there was none of it."""

    before: Side | None
    after: Side | None

    @property
    def difference_ns(self) -> float:
        """By how much it is slower in one instance; what is gone or new counts as nothing on the other side."""
        return (self.after.each_ns if self.after else 0.0) - (self.before.each_ns if self.before else 0.0)

    @property
    def fraction(self) -> float | None:
        """By how much it is slower, as a fraction of the time before; None for what is new or gone."""
        if self.before is None or self.after is None or self.before.each_ns == 0:
            return None
        return self.after.each_ns / self.before.each_ns - 1


@dataclass(frozen=True)
class LikeForLike:
    """What both traces ran, for the launches and bytes of the trace after."""

    before_ns: float
    after_ns: float


@dataclass(frozen=True)
class WorkDifference:
    """In what the work of two traces differs."""

    what: str
    #: Of how many kernels, for launches of kernels that both have.
    kernels: int | None
    before: float
    after: float


@dataclass(frozen=True)
class PlaceDiff:
    """The scope in one place, or in all of them together; every quantity is that of one instance."""

    place: tuple[Place | None, Place | None]
    instances: tuple[int | None, int | None]
    wall_ns: Quantity
    projected_ns: Quantity
    busy_ns: Quantity
    gaps_ns: Quantity
    overlap_ns: Quantity
    operations_ns: Quantity
    kernels: Quantity
    copies: Quantity
    copied_bytes: Quantity
    sets: Quantity
    set_bytes: Quantity
    like_for_like: LikeForLike
    work: list[WorkDifference]


@dataclass(frozen=True)
class KernelChange:
    """A kernel (or all copies, or all sets) before and after."""

    #: Its place in :attr:`Diff.places`.
    place: int
    name: str
    display_name: str = field(metadata={"json": "short"})
    kind: str = field(metadata={"json": "class"})
    #: ``kernel``, ``memcpy`` or ``memset``.
    operation: str
    time: Change


@dataclass(frozen=True)
class RangeGpu:
    """What the instances of a range did on a GPU."""

    gpu: tuple[int | None, int | None]
    projected: Change
    busy: Change
    gaps: Change
    overlap: Change


@dataclass(frozen=True)
class RangeChange:
    """A range before and after."""

    name: str
    process: tuple[int | None, int | None]
    wall: Change
    gpus: list[RangeGpu]


@dataclass(frozen=True)
class Sample:
    """The durations of one time of a step or pass, in the slowest process or on the slowest GPU."""

    count: int
    #: How many before them were far longer, as in warming up, and are not judged.
    settling: int
    median_ns: float
    place: Place | None


@dataclass(frozen=True)
class Shift:
    """By how much durations are longer: the true change is above ``low``, and below ``high``, with 99 % each."""

    change: float
    low: float
    high: float
    #: How often equal runs would differ by as much or more in this direction.
    p: float
    #: The smallest change that would have been distinguished from none.
    seen_from: float
    #: ``ranks`` or ``student``.
    test: str


@dataclass(frozen=True)
class Judged:
    """A time of a step or pass, before and after."""

    #: None for the scope itself.
    pass_: str | None = field(metadata={"json": "pass"})
    #: ``period``, ``wall``, ``projected`` or ``busy``.
    by: str
    samples: tuple[Sample, Sample]
    #: None where nothing shows how it scatters.
    shift: Shift | None
    level: float


@dataclass(frozen=True)
class Diff(Drawn, _Answer):
    """Two traces of the same program, before and after a change."""

    scope: tuple[str, str]
    instances: tuple[int | None, int | None]
    attribution: str
    selection: Selection | None
    unlaunched: tuple[Unlaunched | None, Unlaunched | None]
    unmatched: tuple[int, int] | None
    places: list[PlaceDiff]
    #: Kernels, then copies and sets: the largest change of time first.
    kernels: list[KernelChange]
    #: Ranges outside of warming up: the largest change first.
    ranges: list[RangeChange]
    #: What the GPUs are called, before and after.
    gpus: tuple[list[str], list[str]]
    #: The times of steps and passes, those of the scope first.
    judged: list[Judged]
    #: Whether both do the same work, to the last launch and byte.
    same_work: bool
    #: In a sentence.
    verdict: str
    #: The kernels as a table.
    kernel_table: Table = field(init=False, repr=False, compare=False, metadata={"table": 0})
    #: The ranges as a table.
    range_table: Table = field(init=False, repr=False, compare=False, metadata={"table": 1})

    def _tables(self) -> list[Table]:
        return [_for_people(self.kernel_table), self.range_table]

    def _bars(self) -> Bars:
        """A bar for each side, a segment for each kind of kernel, of one instance."""
        kinds: dict[str, list[float]] = {}
        for kernel in self.kernels:
            both = kinds.setdefault(kernel.kind, [0.0, 0.0])
            for at, side in enumerate((kernel.time.before, kernel.time.after)):
                both[at] += side.each_ns / 1e6 if side else 0.0
        kinds = dict(sorted(kinds.items(), key=lambda kind: -sum(kind[1])))
        return Bars("GPU time by kind of work", [f"before: {self.scope[0]}", f"after: {self.scope[1]}"], kinds)


@dataclass(frozen=True)
class Summary:
    """Everything that traces answer, on one page."""

    #: One file that needs no network, with charts and a timeline.
    html: str = field(repr=False)
    #: The same, readable in a terminal.
    markdown: str = field(repr=False)
    #: Its numbers.
    data: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.markdown

    def _repr_html_(self) -> str:
        # In a frame of its own, so that the page's styles stay within it.
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: 40em; border: 0"></iframe>'


def _made(kind: Any, data: Any) -> Any:
    """The object of a type that JSON describes."""
    origin = typing.get_origin(kind)
    if data is None:
        return None
    if origin in (Union, types.UnionType):
        return _made(next(one for one in typing.get_args(kind) if one is not type(None)), data)
    if origin is list:
        (item,) = typing.get_args(kind)
        return [_made(item, one) for one in data]
    if origin is tuple:
        return tuple(_made(item, one) for item, one in zip(typing.get_args(kind), data, strict=True))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        own = {one.metadata.get("json", one.name): one.name for one in dataclasses.fields(kind) if one.init}
        unknown = data.keys() - own.keys()
        if unknown:
            raise TypeError(f"{kind} has no {', '.join(sorted(unknown))}")
        return kind(**{name: _made(hints[name], data.get(key)) for key, name in own.items()})
    return float(data) if kind is float else data


def answered(kind: Any, answer: tuple[str, list[Table], list[str], list[str]]) -> Any:
    """The answer that the compiled half gives."""
    data, tables, sentences, warnings = answer
    made = _made(kind, json.loads(data))
    own = {"sentences": sentences, "warnings": warnings}
    own.update({one.name: tables[one.metadata["table"]] for one in dataclasses.fields(kind) if "table" in one.metadata})
    for name, value in own.items():
        object.__setattr__(made, name, value)
    return made
