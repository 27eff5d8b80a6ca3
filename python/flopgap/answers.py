"""Answers about where the time of a trace went: functions over exports of Nsight Systems and traces of
``torch.profiler``, and what they give.

Every function takes a path, or a :class:`~flopgap.Source` that is open. Times are nanoseconds, whole where they are no means.

>>> import flopgap
>>> found = flopgap.kernels("fixtures/nsys/small_training_step.sqlite.zst", range="step_*")
>>> found.kernels[0].display_name, found.kernels[0].times.count
('sm80_xmma_gemm fp32 tn 128x128x8', 122)
"""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Iterable
from typing import Literal, Union

from . import _flopgap
from ._flopgap import Source
from .found import Comparison, Diff, Kernels, Passes, StepGap, Summary, answered

__all__ = ["compare", "diff", "gap", "kernels", "passes", "summary"]

Input = Union[str, "os.PathLike[str]", Source]
Ranges = Union[str, Iterable[str], None]


def _texts(texts: Ranges) -> list[str]:
    return [] if texts is None else [texts] if isinstance(texts, str) else list(texts)


def _look(
    range: Ranges,
    warmup: Ranges,
    skip_warmup: int | None,
    with_warmup: bool,
    attribute: str,
    pool: bool,
) -> tuple[list[str], list[str], int | None, bool, bool, bool]:
    if attribute not in ("process", "thread"):
        raise ValueError(f"attribute is 'process' or 'thread', not {attribute!r}")
    return (_texts(range), _texts(warmup), skip_warmup, with_warmup, attribute == "thread", pool)


def _nanoseconds(seconds: Iterable[float] | float | None) -> list[int]:
    if seconds is None:
        return []
    if isinstance(seconds, (int, float)):
        seconds = [seconds]
    return [round(one * 1e9) for one in seconds]


def passes(
    path: Input,
    *,
    range: Ranges = None,
    measured: Iterable[float] | float | None = None,
    warmup: Ranges = None,
    skip_warmup: int | None = None,
    with_warmup: bool = False,
    attribute: Literal["process", "thread"] = "process",
    pool: bool = False,
) -> Passes:
    """How long steps and passes took: on the host, on the GPU, and against times measured outside.

    >>> import flopgap
    >>> found = flopgap.passes("fixtures/nsys/small_forward_backward.sqlite.zst")
    >>> for one in found.passes:
    ...     print(f"{one.name:<9} host {one.host.mean_ns / 1e6:.3f} ms, GPU busy {one.gpu.busy.mean_ns / 1e6:.3f} ms")
    step_*    host 39.203 ms, GPU busy 36.838 ms
    forward   host 9.058 ms, GPU busy 12.888 ms
    backward  host 14.343 ms, GPU busy 23.876 ms

    :param range: ranges, such as ``"forward"`` or ``"step_*"``, instead of those that are steps or passes by their names
    :param measured: seconds that were measured outside of the profiler, as ``timeit`` gives them
    :param warmup: ranges that are left out with all within them; those called ``warmup`` always are
    :param skip_warmup: leave out so many first instances of each range; by default one where the trace marks no warming up
    :param with_warmup: leave nothing out
    :param attribute: whose ranges own what a thread launches: ``"thread"`` as nsys has it, or also those of its ``"process"``
    :param pool: put all processes and GPUs together
    """
    look = _look(range, warmup, skip_warmup, with_warmup, attribute, pool)
    return typing.cast(Passes, answered(Passes, _flopgap.passes(path, look, _nanoseconds(measured))))


def gap(path: Input, *, range: Ranges = None, capture: Input | None = None) -> StepGap:
    """What a step consists of, in nanoseconds that add up, why the GPU does nothing, and what to change first.

    >>> import flopgap
    >>> found = flopgap.gap("fixtures/advice/layer-timers.before.json.zst")
    >>> found.limit, found.advice[0].kind
    ('sync', 'blocking-call')
    >>> step = found.steps[-1]
    >>> sum(part.ns for part in step.parts) == step.wall_ns
    True

    :param range: ranges, such as ``"forward"``, instead of those that are steps by their names
    :param capture: the recording in which the CUDA graphs of the trace were captured
    """
    return typing.cast(StepGap, answered(StepGap, _flopgap.gap(path, _texts(range), capture)))


def kernels(
    path: Input,
    *,
    range: Ranges = None,
    warmup: Ranges = None,
    skip_warmup: int | None = None,
    with_warmup: bool = False,
    attribute: Literal["process", "thread"] = "process",
    pool: bool = False,
) -> Kernels:
    """Where the GPU time of a trace, or of ranges of it, went: kernel by kernel.

    >>> import flopgap
    >>> found = flopgap.kernels("fixtures/nsys/small_training_step.sqlite.zst")
    >>> print(found.sentences[0])
    The kernel with the most cumulative GPU time is sm80_xmma_gemm fp32 tn 128x128x8: 19.822 ms of 114.068 ms (17.4%), invoked 183 times.
    >>> found.table.columns[:4]
    ['name', 'display_name', 'class', 'calls']

    :param range: only kernels launched within these NVTX ranges; the other parameters are those of :func:`passes`
    """
    look = _look(range, warmup, skip_warmup, with_warmup, attribute, pool)
    return typing.cast(Kernels, answered(Kernels, _flopgap.kernels(path, look)))


def compare(
    a: Input,
    b: Input,
    *,
    range: Ranges = None,
    all: bool = False,
    warmup: Ranges = None,
    skip_warmup: int | None = None,
    with_warmup: bool = False,
    attribute: Literal["process", "thread"] = "process",
    pool: bool = False,
) -> Comparison:
    """The GPU time of two traces by kind of work, such as inference and training.

    >>> import flopgap
    >>> found = flopgap.compare("fixtures/nsys/small_forward.sqlite.zst", "fixtures/nsys/small_training_step.sqlite.zst")
    >>> found.rows[0].work
    'matmul'

    :param range: only work within these ranges of both; without, whole steps when both mark steps, and else everything
    :param all: compare everything, also where steps are marked
    """
    look = _look(range, warmup, skip_warmup, with_warmup, attribute, pool)
    return typing.cast(Comparison, answered(Comparison, _flopgap.compare(a, b, look, all)))


def diff(
    before: Input,
    after: Input,
    *,
    range: Ranges = None,
    all: bool = False,
    keep_layers: bool = False,
    warmup: Ranges = None,
    skip_warmup: int | None = None,
    with_warmup: bool = False,
    attribute: Literal["process", "thread"] = "process",
    pool: bool = False,
) -> Diff:
    """What got slower and what faster between two traces of the same program.

    >>> import flopgap
    >>> path = "fixtures/nsys/small_forward.sqlite.zst"
    >>> found = flopgap.diff(path, path)
    >>> found.same_work, found.kernels[0].time.difference_ns
    (True, 0.0)

    :param range: only work within these ranges, for each instance; without, whole steps when both mark steps, and else everything
    :param all: compare everything, also where steps are marked
    :param keep_layers: a row for each layer: without, ``blocks.7`` and ``blocks.21`` are ``blocks.*``
    """
    look = _look(range, warmup, skip_warmup, with_warmup, attribute, pool)
    return typing.cast(Diff, answered(Diff, _flopgap.diff(before, after, look, all, keep_layers)))


def summary(
    *paths: str | os.PathLike[str],
    range: Ranges = None,
    top: int = 10,
    measured: Iterable[float] | float | None = None,
    warmup: Ranges = None,
    skip_warmup: int | None = None,
    with_warmup: bool = False,
    attribute: Literal["process", "thread"] = "process",
    pool: bool = False,
) -> Summary:
    """Everything that traces answer, on one page; two are compared.

    >>> import flopgap
    >>> page = flopgap.summary("fixtures/nsys/small_forward.sqlite.zst")
    >>> print(page.markdown.splitlines()[0])
    # small_forward

    :param top: rows of long tables; the other parameters are those of :func:`passes`
    """
    look = _look(range, warmup, skip_warmup, with_warmup, attribute, pool)
    page, markdown, data = _flopgap.summary(list(paths), look, _nanoseconds(measured), top)
    return Summary(html=page, markdown=markdown, data=json.loads(data))
