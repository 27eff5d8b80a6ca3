"""Counting: what a function, or a ``with`` block, makes the GPU execute.

The counters are those of Nsight Compute, read inside the process by CUPTI. A process has one set of them, on one GPU at a time.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from . import _flopgap
from .errors import CountError
from .metrics import part_of
from .modules import Labels, at_current_node, follow_backward, follow_modules, follow_ranges, phase_of_thread
from .peaks import Peaks, peaks_of
from .profiling import is_profiling, kernels_traced
from .recording import is_idle_recorder
from .result import Counts
from .rows import Row, merged
from .observe import Observation, observed
from .theory import Theory, observer

__all__ = ["Counter", "count", "counting", "presets", "region"]

#: What results can be by.
BY = ("total", "region", "range", "module", "kernel", "launch")

#: The kinds of device whose operators are recorded.
_DEVICES = frozenset({"cuda"})

#: Rows of counts that are expected where there may be many. Room for each takes 1.1 MB of the GPU's memory; where there are more, they are
#: counted so many at a time.
MANY = 128

_lock = threading.Lock()
_gpus: dict[int, Any] = {}
#: By chip: presets and their metrics.
_planned: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {}
#: The session that is open, with its metrics and what it counts of.
_kept: dict[str, Any] = {}
#: Who counts now.
_active: _Measurement | None = None


def _open_gpu(index: int) -> Any:
    return _flopgap.Gpu(index)


def _open_session(gpu: Any, metrics: Sequence[str]) -> Any:
    return _flopgap.Session(gpu, list(metrics), _takes_over())


def _takes_over() -> bool:
    """Whether CUPTI may be taken from its subscriber. PyTorch's profiler stays subscribed after its first use, also while it records
    nothing; while it records, counts are refused. Nsight Systems and Compute, which name the library that they inject, keep theirs, and so
    does a block of :class:`record`."""
    injected = os.environ.get("CUDA_INJECTION64_PATH")
    is_free = injected is None or is_idle_recorder(injected)
    return "torch" in sys.modules and is_free and "NSYS_PROFILING_SESSION_ID" not in os.environ


def _after_fork() -> None:
    # A child has none of its parent's counters, and must not give back what it does not have: its objects know that by themselves.
    global _active, _lock
    _active = None
    _lock = threading.Lock()
    _gpus.clear()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _gpu(device: int | None) -> Any:
    """The GPU with this number, else PyTorch's current one, else the first."""
    torch = sys.modules.get("torch")
    if device is None:
        device = torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else 0
    if device not in _gpus:
        _gpus[device] = _open_gpu(device)
    return _gpus[device]


def _device_index(device: Any) -> int | None:
    """The number of a device given as a number, as ``cuda:1``, or as ``torch.device``."""
    if device is None or isinstance(device, bool):
        return None
    if isinstance(device, int):
        return device
    kind, _, index = str(device).partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise ValueError(f"no CUDA device: {device!r}")
    return int(index) if index else None


def _close() -> None:
    """Gives the counters back and takes CUPTI out of the process: launches are as fast as before then."""
    session = _kept.pop("session", None)
    _kept.clear()
    if session is not None:
        try:
            session.close()
        except CountError as error:
            # What was counted is not lost for it, nor what the function raised.
            warnings.warn(f"CUPTI stays in the process, which makes launches slower: {error}", RuntimeWarning, stacklevel=2)


@atexit.register
def _at_exit() -> None:
    # While the driver is still there.
    with suppress(Exception):
        _close()


def _begun(gpu: Any, metrics: tuple[str, ...], rows: str, expected: int) -> Any:
    """A session in which a measurement has begun: the one that is open where it counts the same, else a new one."""
    session = _kept.get("session")
    if session is not None and _kept["metrics"] == metrics and _kept["gpu"] is gpu:
        # Another client may have taken CUPTI since.
        with suppress(CountError):
            session.begin(rows, expected)
            return session
    _close()
    session = _open_session(gpu, metrics)
    _kept.update(session=session, metrics=metrics, gpu=gpu)
    session.begin(rows, expected)
    return session


class Counter:
    """How to count.

    :param by: what to have results by, beside the total: ``"region"`` (:func:`region`), ``"range"`` (NVTX and
        ``torch.profiler.record_function``), ``"module"`` (``torch.nn.Module``, forward and backward), ``"kernel"``, ``"launch"``, or
        several of them. By kernel or launch, kernels run one after the other.
    :param what: names of presets: ``"tensor"`` (operations of the tensor cores, time, bytes at the memory), ``"sass"`` (arithmetic of
        the shader cores), ``"memory"`` (bytes at the memory and both caches), more of :func:`flopgap.presets`, or ``"all"``. The
        function runs once for each.
    :param depth: how deep modules are distinguished; 1 is the children of the model.
    :param model: the module (or modules) whose parts are distinguished; without it, those that are called.
    :param theory: ``True`` records what the mathematics asks for while the function runs; ``"eager"`` runs it once more for that, with
        ``torch.compile`` switched off; ``False`` does not.
    :param device: the GPU, as a number or as PyTorch names it. Without it, PyTorch's current one.
    :param peaks: what the GPU can do at most, see :func:`flopgap.peaks_of`.
    :param timed: run the function so many times more without counting, to know its own time (the median), which utilization is over.
        A time that you have measured goes to :meth:`Counts.with_time`.

    A counter gives the GPU's counters back after each count and takes CUPTI out of the process. As a context manager it keeps them until the
    end of the block: the second and later counts take 0.05 s instead of 0.35 s and the time of the function. ``torch.profiler`` works
    meanwhile, but each launch of a kernel takes the processor 0.5 µs longer (of 6 µs with PyTorch, on the host of an H200)::

        with flopgap.Counter() as counter:
            for batch in batches:
                print(counter.count(step, batch))
    """

    def __init__(
        self,
        by: str | Iterable[str] = "total",
        *,
        what: str | Iterable[str] = "tensor",
        depth: int | None = None,
        model: Any = None,
        theory: bool | str = True,
        device: Any = None,
        peaks: Peaks | Mapping[str, float] | str | os.PathLike[str] | None = None,
        timed: int = 0,
    ) -> None:
        self.by = (by,) if isinstance(by, str) else tuple(by)
        if not self.by or any(name not in BY for name in self.by):
            raise ValueError(f"no way to have results: by={by!r}; there are {', '.join(BY)}")
        self.what = (what,) if isinstance(what, str) else tuple(what)
        if not self.what or not all(isinstance(name, str) for name in self.what):
            raise TypeError(f"what={what!r}: the name of a preset, or several")
        if depth is not None and (not isinstance(depth, int) or depth < 0):
            raise ValueError(f"depth={depth!r}: a whole number from 0")
        if theory not in (True, False, "eager"):
            raise ValueError(f"theory={theory!r}: True, False or 'eager'")
        if not isinstance(timed, int) or timed < 0:
            raise ValueError(f"timed={timed!r}: a whole number from 0")
        if model is None:
            self.models: tuple[Any, ...] = ()
        else:
            self.models = tuple(model) if isinstance(model, (list, tuple)) else (model,)
        self.depth, self.theory, self.timed = depth, theory, timed
        self.device = _device_index(device)
        # What is wrong with them is said before anything runs.
        self._peaks = None if peaks is None else peaks_of("", peaks)
        self._keeps = False

    @property
    def rows(self) -> str:
        """What CUPTI counts: ``launches`` one by one, or ``regions``."""
        return "launches" if {"kernel", "launch"} & set(self.by) else "regions"

    def __enter__(self) -> Counter:
        self._keeps = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the GPU's counters back."""
        self._keeps = False
        _close()

    def count(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Counts:
        """Calls the function and counts what it makes the GPU execute. What it returns is in :attr:`Counts.value`."""
        if not callable(fn):
            raise TypeError(f"{fn!r} cannot be called: give the function and its arguments, not what it returned")
        if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError("a coroutine cannot be counted: count what it calls")
        if inspect.isgeneratorfunction(fn):
            raise TypeError("a call of a generator runs nothing: count what goes through it, as in lambda: list(generator())")
        with _measurement(self) as measurement:
            return measurement.run(lambda: fn(*args, **kwargs))

    @contextmanager
    def counting(self) -> Iterator[Block]:
        """Counts a ``with`` block: see :func:`counting`."""
        with _measurement(self) as measurement:
            if len(measurement.presets) > 1:
                raise CountError(
                    f"a block runs once, and {len(measurement.presets)} presets take a run each",
                    "name one preset, or give a function to count()",
                )
            block = Block()
            measurement.block(block)
            with measurement.once(0):
                yield block
            block._counts = measurement.counts(None)


class Block:
    """What a ``with`` block is counted in."""

    _counts: Counts | None = None

    @property
    def counts(self) -> Counts:
        """The counts, once the block has ended."""
        if self._counts is None:
            raise CountError("the block has not ended", "read the counts behind the with block")
        return self._counts

    @staticmethod
    def region(name: str) -> Any:
        """Names a part: see :func:`flopgap.region`."""
        return region(name)


def count(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Counts:
    """Calls ``fn(*args, **kwargs)`` once and counts what it makes the GPU execute: operations of the tensor cores, bytes, time, and beside
    them what the mathematics asks for. Run the function once before, so that nothing is counted that only a first call does.

    >>> import torch, flopgap  # doctest: +SKIP
    >>> a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)  # doctest: +SKIP
    >>> flopgap.count(torch.mm, a, a).flops["tensor bf16"]  # doctest: +SKIP
    137438953472

    More ways are in :class:`Counter`.
    """
    return Counter().count(fn, *args, **kwargs)


@contextmanager
def counting(by: str | Iterable[str] = "total", **options: Any) -> Iterator[Block]:
    """Counts a ``with`` block; the options are those of :class:`Counter`.

    >>> with flopgap.counting(by="region") as block:  # doctest: +SKIP
    ...     with flopgap.region("forward"):
    ...         loss = model(batch).mean()
    ...     with flopgap.region("backward"):
    ...         loss.backward()
    >>> print(block.counts)  # doctest: +SKIP
    """
    with Counter(by, **options).counting() as block:
        yield block


def presets(chip: str | None = None) -> dict[str, tuple[str, ...]]:
    """What can be counted at once, on this machine's GPU or on a chip that need not be here: presets, and the metrics of each.

    >>> flopgap.presets("GH100")["tensor"][0]  # doctest: +SKIP
    'gpu__time_duration.sum'
    """
    found = _all_presets(_gpu(None)) if chip is None else _flopgap.presets_of_chip(chip)
    return {name: tuple(metrics) for name, metrics in found}


@contextmanager
def region(name: str) -> Iterator[None]:
    """Names a part of what is counted, by ``Counter(by="region")``. Parts within a part have its name in front. Nothing happens where
    nothing is counted by region, so it may stay in a program. It is a decorator, too."""
    measurement = _active
    labels = measurement.labels if measurement is not None and "region" in measurement.counter.by else None
    if labels is None:
        yield
    else:
        with labels.name(name):
            yield


@contextmanager
def _measurement(counter: Counter) -> Iterator[_Measurement]:
    """The only measurement of the process."""
    global _active
    if not _lock.acquire(blocking=False):
        raise CountError("something else is being counted", "a process has one set of counters: count one thing after the other")
    try:
        _active = _Measurement(counter)
        yield _active
    except BaseException:
        # Whatever is wrong with the session now, what came first is what matters.
        if (session := _kept.get("session")) is not None:
            with suppress(CountError):
                session.abandon()
        raise
    finally:
        _active = None
        try:
            if not counter._keeps:
                _close()
            elif (session := _kept.get("session")) is not None:
                session.park()
        finally:
            _lock.release()


class _Measurement:
    """One count: all runs of all presets."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        _refuse(counter)
        self.gpu = _gpu(counter.device)
        self.presets = _presets(self.gpu, counter.what)
        self.labels: Labels | None = None
        self.theory: Theory | None = None
        self.notes: list[str] = []
        self.runs = 0
        self.passes: list[int] = []
        self.results: list[list[Row]] = []
        self.value: Any = None
        self.seconds: float | None = None

    # Running.

    def run(self, work: Callable[[], Any]) -> Counts:
        for index in range(len(self.presets)):
            while True:
                with self.once(index) as last:
                    self.value = work()
                if last():
                    break
        if self.counter.theory == "eager":
            self._theory_alone(work)
        if self.counter.timed > 0:
            # Nothing of CUPTI may be in the way.
            _close()
            self.seconds = self._time(work)
        return self.counts(self.seconds)

    def block(self, _block: Block) -> None:
        """Prepares a single run."""
        if self.counter.theory == "eager":
            raise CountError("a block cannot be run again for its theory", "give a function to count()")

    @contextmanager
    def once(self, index: int) -> Iterator[Callable[[], bool]]:
        """One pass of one preset."""
        metrics = self.presets[index][1]
        counter, rows = self.counter, self.counter.rows
        # By total, all is one region.
        expected = 1 if set(counter.by) == {"total"} else MANY
        if len(self.passes) == index:
            session = _begun(self.gpu, metrics, rows, expected)
            self.passes.append(0)
        else:
            session = _kept["session"]
        failures: list[BaseException] = []
        is_open = False

        def switch(number: str) -> None:
            nonlocal is_open
            try:
                if is_open:
                    session.leave()
                session.enter(number)
                is_open = True
            except Exception as error:  # noqa: BLE001  It must not come out of somebody's hook.
                failures.append(error)
                labels.finish()

        labels = Labels(switch, rows == "launches", "module" in counter.by)
        done: list[bool] = []
        # What was launched before is not counted.
        self.gpu.synchronize()
        session.start_pass()
        with ExitStack() as stack:
            self.labels = labels
            traced = stack.enter_context(kernels_traced())
            self._follow(stack, labels)
            labels.start()
            try:
                yield lambda: done[0]
            finally:
                labels.finish()
                self.labels = None
        if is_open:
            session.leave()
        if traced():
            raise CountError(
                "what was counted ran torch.profiler: while it traces kernels, CUPTI counts no instructions and too many bytes",
                "count the function without its profiler, or profile the processor only",
            )
        if failures:
            raise failures[0]
        done.append(session.end_pass())
        self.runs += 1
        self.passes[index] += 1
        if done[0]:
            self.results.append(_rows(session, rows, metrics, labels))
            if labels.ambiguous and "module" in self.counter.by:
                self.notes.append(f"{labels.ambiguous}: backward is not split by module")
            if labels.concurrent and labels.with_calls:
                self.notes.append("operators ran on several threads at once: which of them launched what is not certain")
        _refuse(counter)

    def _follow(self, stack: ExitStack, labels: Labels) -> None:
        """Follows modules, ranges and operators as far as they are asked for."""
        counter = self.counter
        torch = sys.modules.get("torch")
        if "range" in counter.by:
            stack.enter_context(follow_ranges(labels))
        if torch is None:
            if "module" in counter.by:
                raise CountError("there are no modules: PyTorch is not imported")
            return
        wanted = counter.theory is True and self.theory is None
        if "module" in counter.by:
            stack.enter_context(follow_modules(labels, counter.depth, counter.models))
        if wanted or "module" in counter.by or labels.with_calls:
            theory = Theory()
            # Called when nothing is observed any more.
            stack.callback(lambda: self._followed(theory, observation, wanted))
            observation = stack.enter_context(_followed(theory, labels, _DEVICES))

    def _followed(self, theory: Theory, observation: Observation, wanted: bool) -> None:
        if observation.opaque_tensors:
            theory.unseen.append(f"theory is not known: what runs on tensors of {', '.join(sorted(observation.opaque_tensors))} is not seen")
            self.notes += theory.unseen if wanted else []
        if observation.compiled:
            theory = Theory(unseen=[_COMPILED])
            self.notes += [_COMPILED] if wanted else []
            self.notes += [_BACKWARD] if "module" in self.counter.by else []
        if wanted:
            self.theory = theory

    def _theory_alone(self, work: Callable[[], Any]) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            raise CountError("there is no theory: PyTorch is not imported")
        self.theory = Theory()
        labels = Labels(lambda number: None, False, "module" in self.counter.by)
        with ExitStack() as stack:
            if "module" in self.counter.by:
                stack.enter_context(follow_modules(labels, self.counter.depth, self.counter.models))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(_followed(self.theory, labels, _DEVICES))
            work()
        self.runs += 1

    def _time(self, work: Callable[[], Any]) -> float:
        times = []
        for _ in range(self.counter.timed):
            self.gpu.synchronize()
            begin = time.perf_counter()
            work()
            self.gpu.synchronize()
            times.append(time.perf_counter() - begin)
            self.runs += 1
        return sorted(times)[len(times) // 2]

    # The result.

    def counts(self, seconds: float | None) -> Counts:
        rows = merged(self.results)
        return Counts(
            rows=rows,
            by=self.counter.by,
            presets=tuple(name for name, _ in self.presets),
            metrics=tuple(dict.fromkeys(metric for _, metrics in self.presets for metric in metrics)),
            all_presets=_all_presets(self.gpu),
            device=self.gpu.name,
            chip=self.gpu.chip,
            runs=self.runs,
            theory=self.theory,
            peaks=self.counter._peaks or peaks_of(self.gpu.name),
            seconds=seconds,
            notes=tuple(dict.fromkeys(self.notes)),
            value=self.value,
        )


_COMPILED = "theory is not known: compiled code ran, whose operators nobody sees; theory='eager' runs the function once more without it"
_BACKWARD = "modules of compiled code are distinguished only where they are not compiled together, and not in backward"


@contextmanager
def _followed(theory: Theory, labels: Labels, devices: frozenset[str]) -> Iterator[Observation]:
    """Records operators on these kinds of device, forward and backward."""

    def before(call: int) -> tuple[str, str]:
        at_current_node(labels)
        path, phase = labels.before_call(call)
        return path, phase or phase_of_thread(labels)

    with follow_backward(labels), observed(observer(theory, devices, before, labels.after_call)) as observation:
        yield observation


@contextmanager
def following() -> Iterator[Theory]:
    """Records what the mathematics asks for in a block, which is not counted; without a GPU, of what runs on the CPU."""
    theory = Theory()
    torch = sys.modules.get("torch")
    devices = _DEVICES if torch is None or torch.cuda.is_available() else frozenset({"cpu"})
    with _followed(theory, Labels(lambda number: None, False, False), devices) as observation:
        yield theory
    if observation.opaque_tensors:
        theory.unseen.append(f"theory is not known: what runs on tensors of {', '.join(sorted(observation.opaque_tensors))} is not seen")
    if observation.compiled:
        theory.unseen.append(_COMPILED)


def _rows(session: Any, rows: str, metrics: Sequence[str], labels: Labels) -> list[Row]:
    """What the session counted, as rows."""
    if rows == "launches":
        return [
            Row(labels[region], symbol, grid, block, shared, launches=1, values=dict(zip(metrics, counts)))
            for (symbol, grid, block, shared), region, counts in session.launches()
        ]
    return [
        Row(
            labels[region], launches=len(launches), graphs=graphs, values=dict(zip(metrics, counts)),
            symbols=tuple(launch[0] for launch in launches),
        )
        for region, launches, graphs, counts in session.regions()
    ]  # fmt: skip


def _all_presets(gpu: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The presets of a GPU. CUPTI takes 0.1 s to plan them, so it does once."""
    if gpu.chip not in _planned:
        _planned[gpu.chip] = tuple((name, tuple(metrics)) for name, metrics in gpu.presets())
    return _planned[gpu.chip]


def _presets(gpu: Any, what: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    known = dict(_all_presets(gpu))
    names = tuple(known) if what == ("all",) else tuple(dict.fromkeys(what))
    for name in names:
        if name not in known:
            raise CountError(f"{gpu.chip} has no preset {name!r}", f"there are {', '.join(known)}, and all")
    return [(name, known[name]) for name in names]


def _refuse(counter: Counter) -> None:
    """Refuses where counts would be wrong or never end."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if is_profiling():
        raise CountError(
            "torch.profiler is active: while it traces kernels, CUPTI counts no instructions and too many bytes",
            "count outside of the profiler",
        )
    if counter.rows == "launches" and _has_nccl(torch):
        raise CountError(
            "launches cannot be counted one by one where NCCL's kernels wait for other processes",
            "count by region or module: by='region'",
        )


def _has_nccl(torch: Any) -> bool:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return distributed.get_world_size() > 1 and "nccl" in str(distributed.get_backend())
