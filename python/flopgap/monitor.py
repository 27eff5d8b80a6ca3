"""FLOPs and utilization of a training loop while it runs.

>>> import flopgap
>>> monitor = flopgap.Monitor(every=100)  # doctest: +SKIP
>>> for batch in batches:  # doctest: +SKIP
...     with monitor:
...         train_step(batch)
...     if monitor.has_news:
...         logger.log(monitor.metrics())
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from typing import Any

from .answers import gap
from .counter import Block, Counter, following
from .errors import AbsentError, CountError, FlopgapError
from .found import StepGap
from .peaks import peaks_of
from .recording import finish_work, record
from .result import Counts

__all__ = ["Monitor"]


class Monitor:
    """Counts a step of a loop now and then, and takes the time of the steps in between, which are not slowed down.

    A step is what lies between :meth:`begin` and :meth:`end`, or a ``with`` block. Its time is from its beginning to that of the next step: a loop
    that waits for its input has a low MFU.

    :param every: count again after so many steps; ``None`` counts once.
    :param first: the first step that is counted, from 0: compiled, tuned and allocated by then.
    :param recorded: record so many steps after each counted one (:class:`record`), and take them apart: which part of their time the GPU works, only
        communicates or copies, or does nothing. It costs the time of :func:`flopgap.gap` in the loop.
    :param over_ranks: add up over the ranks of ``torch.distributed``. All of them need a monitor then, with the same numbers: each counted step ends
        with a collective.
    :param options: those of :class:`Counter`, such as ``peaks`` and ``device``.

    Where counters are not permitted, one warning says so, and formulas alone say what a step needs: :attr:`Counts.mfu` is known and
    :attr:`Counts.hfu` is not. With several ranks, each has a monitor of its own with the same numbers: the others wait in collectives
    for one that counts.
    """

    def __init__(self, every: int | None = 100, *, first: int = 10, recorded: int = 0, over_ranks: bool = False, **options: Any) -> None:
        if every is not None and (not isinstance(every, int) or every < 2):
            raise ValueError(f"every={every!r}: a whole number from 2, or None")
        if not isinstance(first, int) or first < 0:
            raise ValueError(f"first={first!r}: a whole number from 0")
        if not isinstance(recorded, int) or not 0 <= recorded < (every or math.inf) - 1:
            raise ValueError(f"recorded={recorded!r}: a whole number from 0, less than every - 1")
        self.every, self.first, self.recorded, self.over_ranks = every, first, recorded, over_ranks
        #: Steps that have begun.
        self.steps = 0
        #: Whether :meth:`counts` has something that :meth:`metrics` has not given yet.
        self.has_news = False
        self._counter = Counter(**options)
        self._may_count = True
        self._open: tuple[ExitStack, Block] | None = None
        self._counted: Counts | None = None
        self._timed: Counts | None = None
        self._ranks: list[_Rank] = []
        #: What recorded steps consisted of, the last ones.
        self.gap: StepGap | None = None
        self._recording: _Recorded | None = None
        self._since: tuple[float, int] | None = None

    def __enter__(self) -> Monitor:
        self.begin()
        return self

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is None:
            self.end()
        elif self._open is not None:
            # A step that failed is not counted.
            stack, self._open = self._open[0], None
            stack.__exit__(*raised)

    def begin(self) -> None:
        """A step begins."""
        number = self.steps - self.first
        # After how many steps the last one was counted.
        after = number % self.every if self.every is not None and number >= 0 else number
        if self._recording is not None and after > self.recorded:
            found, self._recording = self._recording.finish(), None
            if found is None:
                # Another profiler has CUPTI, or the steps do not use the GPU: the next ones would cost time for nothing.
                self.recorded = 0
            else:
                self.gap = found
        if after == 0:
            self._time()
            self._since = None
            self._open = self._counting()
        elif 0 < after <= self.recorded:
            if after == 1:
                self._recording = self._record()
        elif self._counted is not None and self._since is None:
            finish_work()
            self._since = (time.perf_counter(), self.steps)
        self.steps += 1

    def end(self) -> None:
        """The step has ended."""
        if self._open is not None:
            (stack, block), self._open = self._open, None
            stack.close()
            self._counted = block.counts
            if self.over_ranks:
                self._ranks = _gather(_Rank.of(block.counts))

    def _counting(self) -> tuple[ExitStack, Block]:
        """A block that is counted, or where that is not permitted, one whose theory is recorded."""
        stack = ExitStack()
        if self._may_count:
            try:
                return stack, stack.enter_context(self._counter.counting())
            except (CountError, AbsentError) as error:
                self._may_count = False
                warnings.warn(f"steps are not counted, formulas alone say what they need: {error}", stacklevel=4)
        return stack, stack.enter_context(_formulas(self._counter))

    def _record(self) -> _Recorded | None:
        try:
            return _Recorded()
        except FlopgapError as error:
            self.recorded = 0
            warnings.warn(f"steps are not recorded: {error}", stacklevel=4)
            return None

    def _time(self) -> None:
        """Takes the mean time of the steps since the last that was counted."""
        if self._counted is None or self._since is None or self.steps == self._since[1]:
            return
        finish_work()
        since, step = self._since
        self._timed = self._counted.with_time((time.perf_counter() - since) / (self.steps - step))
        self.has_news = True

    def counts(self) -> Counts | None:
        """The last counts with the mean time of the steps after them, between two steps; ``None`` before a step was timed."""
        self._time()
        return self._timed

    def metrics(self, prefix: str = "flopgap/") -> dict[str, float]:
        """What is known, for any logger: ``mfu``, ``hfu``, ``step_seconds``, ``flop`` (executed on the tensor cores), ``flop_needed`` (products of the
        mathematics), ``bytes``. Empty before a step was timed.

        With ``recorded``, also ``busy``, ``exposed`` and ``idle``: the parts of the time of recorded steps in which the GPU computes, only communicates or
        copies, and does nothing. Recording slows the host, so ``idle`` is an upper bound.

        With ``over_ranks``, also ``ranks``, ``mfu_of_ranks`` and ``hfu_of_ranks`` (their means, over the time of this rank), and ``flop_of_ranks``,
        ``flop_needed_of_ranks`` and ``bytes_of_ranks`` (their sums), each where all ranks know it."""
        counts = self._timed or self.counts()
        self.has_news = False
        if counts is None:
            return {}
        own = _Rank.of(counts)
        values = {
            "mfu": counts.mfu,
            "hfu": counts.hfu,
            "step_seconds": counts.seconds,
            "flop": own.flop,
            "flop_needed": own.flop_needed,
            "bytes": own.bytes,
        }
        if self.gap is not None:
            whole = sum(part.ns for part in self.gap.parts)
            for name in ("busy", "exposed", "idle"):
                values[name] = sum(part.ns for part in self.gap.parts if part.part == name) / whole if whole else None
        if self._ranks and counts.seconds:
            ranks, sums = len(self._ranks), _sums(self._ranks)
            busy = [seconds and seconds / ranks / counts.seconds for seconds in (sums.needed_seconds, sums.executed_seconds)]
            values |= {"ranks": ranks, "mfu_of_ranks": busy[0], "hfu_of_ranks": busy[1]}
            values |= {"flop_of_ranks": sums.flop, "flop_needed_of_ranks": sums.flop_needed, "bytes_of_ranks": sums.bytes}
        return {f"{prefix}{name}": float(value) for name, value in values.items() if value is not None}


class _Recorded:
    """Steps while they are recorded."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="flopgap-")
        self._block = record(os.path.join(self._folder.name, "steps.sqlite"))
        self._block.__enter__()

    def finish(self) -> StepGap | None:
        """What they consisted of; ``None`` where the GPU did nothing."""
        with self._folder:
            self._block.__exit__(None, None, None)
            try:
                return gap(os.path.join(self._folder.name, "steps.sqlite"))
            except AbsentError as error:
                warnings.warn(f"recorded steps: {error}", stacklevel=4)
                return None


@dataclass(frozen=True)
class _Rank:
    """What a rank has of a step; ``None`` where it does not know."""

    flop: float | None
    flop_needed: float | None
    bytes: float | None
    #: What the products of the mathematics, and those that were executed, take at the peak of the rank's own GPU.
    needed_seconds: float | None
    executed_seconds: float | None

    @staticmethod
    def of(counts: Counts) -> _Rank:
        theory = counts.theory
        second = counts.with_time(1.0)
        return _Rank(
            flop=counts.tensor_flops,
            flop_needed=theory.products if theory is not None and not theory.unseen else None,
            bytes=counts.bytes if counts.presets else None,
            needed_seconds=second.mfu,
            executed_seconds=second.hfu,
        )


def _sums(ranks: list[_Rank]) -> _Rank:
    def total(values: tuple[float | None, ...]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    return _Rank(*(total(values) for values in zip(*map(astuple, ranks), strict=True)))


def _gather(own: _Rank) -> list[_Rank]:
    """The values of every rank; empty if ``torch.distributed`` is not initialized."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return []
    ranks: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(ranks, own)
    return ranks


@contextmanager
def _formulas(counter: Counter) -> Iterator[Block]:
    """Records the theory of a block without counting."""
    block = Block()
    with following() as theory:
        yield block
    torch = sys.modules.get("torch")
    device = torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else ""
    block._counts = Counts(
        rows=[],
        by=("total",),
        presets=(),
        metrics=(),
        all_presets=(),
        device=device,
        chip="",
        runs=1,
        theory=theory,
        peaks=counter._peaks or (peaks_of(device) if device else None),
    )


def lightning_callback(monitor: Monitor) -> Any:
    """A callback for Lightning's ``Trainer`` that logs what is new, and prints the last counts at the end.

    A step is a batch. With ``accumulate_grad_batches``, choose ``first`` and ``every`` such that the optimizer runs in those that are counted.
    """
    lightning: Any = importlib.import_module("lightning")

    class CountFlops(lightning.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
            monitor.begin()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            monitor.end()
            if monitor.has_news and trainer.logger is not None:
                trainer.logger.log_metrics(monitor.metrics(), step=trainer.global_step)

        def on_train_end(self, trainer: Any, module: Any) -> None:
            print(monitor.counts())

    return CountFlops()


def trainer_callback(monitor: Monitor) -> Any:
    """A callback for the ``Trainer`` of ``transformers`` that logs what is new, and prints the last counts at the end.

    A step is one update of the weights, with all the batches that it accumulates.
    """
    transformers: Any = importlib.import_module("transformers")

    class CountFlops(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            monitor.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            monitor.end()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs is not None and monitor.has_news:
                logs.update(monitor.metrics())

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            print(monitor.counts())

    return CountFlops()
