"""Estimates: what PyTorch takes for a model on a GPU that need not be here.

>>> import flopgap
>>> found = flopgap.estimate("fixtures/models/resnet50.pt2", machine="h100", run_as="graph", precision="fp16")
>>> found.low_ms < found.time_ms < found.high_ms
True
>>> found.calls[0].module, found.calls[0].operator
('conv1', 'aten.conv2d.default')
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
import typing
from dataclasses import dataclass
from typing import Any, Union

from . import _flopgap
from .plots import Bars, Drawn

__all__ = ["Call", "Estimate", "estimate"]


@dataclass(frozen=True)
class Call:
    """The estimate of a call of an operator."""

    #: The node of the exported graph, its module, and the operator.
    name: str
    module: str
    operator: str
    #: Microseconds of its kernels, with an interval of 90 %.
    time_us: float
    low_us: float
    high_us: float
    flops: int
    bytes: int
    #: What bounds it: ``compute``, ``memory`` or ``launch``.
    bottleneck: str


@dataclass(frozen=True)
class Estimate(Drawn):
    """The estimate of a model."""

    model: str
    device: str
    software: str
    run_as: str
    precision: str
    #: Milliseconds of a run, with an interval of 90 %; None where something was never measured (:attr:`missing`).
    time_ms: float | None
    low_ms: float | None
    high_ms: float | None
    #: Milliseconds of the GPU, and of the host that launches its work; the longer is the time.
    gpu_ms: float | None
    host_ms: float | None
    #: Of a training step, milliseconds of the GPU forward, backward and in the optimizer.
    parts_ms: tuple[float, float, float] | None
    flops: int
    #: Kinds of calls that were never measured.
    missing: list[str]
    #: Operators without a formula: their FLOPs are in no number, their times where they were measured.
    unknown: list[str]
    calls: list[Call]

    def _bars(self) -> Bars:
        """A bar for each operator: the sum of its calls on the GPU."""
        sums: dict[str, float] = {}
        for call in self.calls:
            sums[call.operator] = sums.get(call.operator, 0.0) + call.time_us / 1e3
        sums = dict(sorted(sums.items(), key=lambda operator: -operator[1]))
        return Bars(f"GPU time by operator, {self.model} on {self.device}", list(sums), {"time": list(sums.values())})


def estimate(
    model: Union[str, "os.PathLike[str]", Any],
    *inputs: Any,
    machine: str,
    run_as: str = "eager",
    precision: str | None = None,
    train: bool = False,
) -> Estimate:
    """How long PyTorch takes for a model on a GPU.

    :param model: a ``.pt2`` archive of ``torch.export.save``, or a module with its ``inputs``, which is exported first
    :param machine: ``"h100"`` or ``"h200"``, both by what was measured on them
    :param run_as: ``"eager"``, operator by operator from Python; ``"graph"``, its kernels in a CUDA graph; ``"compile"``,
        ``torch.compile(model)``; ``"compile-graph"``, ``torch.compile(model, mode="reduce-overhead")``. The calls of fused layers share the
        time of their kernel by their bytes
    :param precision: ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"`` instead of the model's own; convolutions of a model in fp32 are in
        TF32 otherwise, as PyTorch does by default
    :param train: a training step, ``"eager"`` or as a ``"graph"``: forward, backward and fused ``AdamW``, without a loss
    :raises AbsentError: the machine or precision was not measured
    :raises InputError: the model cannot be read
    """
    if isinstance(model, (str, os.PathLike)):
        if inputs:
            raise TypeError("inputs are for a module; a .pt2 archive has the sizes of its own")
        return _of(_flopgap.estimate(os.fspath(model), machine, run_as, precision, train))
    torch: Any = importlib.import_module("torch")
    with torch.no_grad():
        program = torch.export.export(model, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{type(model).__name__}.pt2")
        torch.export.save(program, path)
        return _of(_flopgap.estimate(path, machine, run_as, precision, train))


def _of(text: str) -> Estimate:
    read: dict[str, typing.Any] = json.loads(text)
    parts = read["parts_ms"] and tuple(read["parts_ms"])
    return Estimate(**{**read, "parts_ms": parts, "calls": [Call(**call) for call in read["calls"]]})
