"""What GPUs can do at most: rates that their makers document, or that somebody measured."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import InputError

__all__ = ["Peaks", "peaks_of"]


@dataclass(frozen=True)
class Peaks:
    """The most operations of each kind, and the most bytes, per second."""

    #: By the names of :attr:`flopgap.Counts.flops`: ``tensor bf16``, ``fp32``. What is unknown is not there.
    flops_per_second: Mapping[str, float]
    #: Of the GPU's memory.
    bytes_per_second: float | None = None
    #: Where the figures are from.
    source: str = field(default="given by the caller")


def _peaks(name: str, tensor: tuple[float | None, ...], fp32: float, fp64: float, memory: float) -> Peaks:
    """Figures of a data sheet, in tera-operations and terabytes; tensor: bf16 and fp16, tf32, fp8, fp64."""
    bf16, tf32, fp8, tensor64 = tensor
    kinds = {
        "tensor bf16": bf16, "tensor fp16": bf16, "tensor tf32": tf32, "tensor fp8": fp8, "tensor fp64": tensor64,
        "fp32": fp32, "fp64": fp64,
    }  # fmt: skip
    rates = {kind: rate * 1e12 for kind, rate in kinds.items() if rate is not None}
    return Peaks(rates, memory * 1e12, f"NVIDIA's data sheet of the {name}, without sparsity")


# The first whose words are all in the driver's name of the GPU. Variants of one name with other rates need words of their own.
_DOCUMENTED = (
    (("H200", "NVL"), _peaks("H200 NVL", (835.5, 417.5, 1671.0, 60.0), 60.0, 30.0, 4.8)),
    (("H200",), _peaks("H200 SXM", (989.5, 494.5, 1979.0, 67.0), 67.0, 34.0, 4.8)),
    (("H100", "PCIe"), _peaks("H100 PCIe", (756.0, 378.0, 1513.0, 51.0), 51.0, 26.0, 2.0)),
    (("H100", "NVL"), _peaks("H100 NVL", (835.5, 417.5, 1671.0, 60.0), 60.0, 30.0, 3.9)),
    (("H100", "HBM3"), _peaks("H100 SXM", (989.5, 494.5, 1979.0, 67.0), 67.0, 34.0, 3.35)),
    (("A100", "80GB", "PCIe"), _peaks("A100 80GB PCIe", (312.0, 156.0, None, 19.5), 19.5, 9.7, 1.935)),
    (("A100", "SXM4-80GB"), _peaks("A100 80GB SXM", (312.0, 156.0, None, 19.5), 19.5, 9.7, 2.039)),
    (("A100", "40GB"), _peaks("A100 40GB", (312.0, 156.0, None, 19.5), 19.5, 9.7, 1.555)),
    (("L40S",), _peaks("L40S", (362.05, 183.0, 733.0, None), 91.6, 1.4, 0.864)),
    (("RTX", "4090"), _peaks("GeForce RTX 4090", (165.2, 82.6, 330.3, None), 82.6, 1.3, 1.008)),
)


def peaks_of(device: str, given: Peaks | Mapping[str, float] | str | os.PathLike[str] | None = None) -> Peaks | None:
    """The peaks of a GPU: what the caller gives (rates, or the path of ceilings that ``flopgap calibrate probe`` measured), else what is
    documented for the GPU of this name, else ``None``.

    >>> peaks_of("NVIDIA H200").flops_per_second["tensor bf16"]
    989500000000000.0
    >>> peaks_of("an unknown GPU") is None
    True
    """
    if isinstance(given, Peaks):
        return given
    if isinstance(given, Mapping):
        rates = {name: float(rate) for name, rate in given.items()}
        _check(rates)
        memory = rates.pop("bytes", None)
        return Peaks(rates, memory)
    if given is not None:
        return _measured(os.fspath(given))
    return next((peaks for words, peaks in _DOCUMENTED if all(word in device for word in words)), None)


#: What rates may be of, and the least that a GPU has: less was meant in other units.
_NAMES = (*(f"tensor {kind}" for kind in ("bf16", "fp16", "tf32", "fp8", "fp64", "int8")), "fp16", "fp32", "fp64", "bytes")
_LEAST = 1e9


def _check(rates: Mapping[str, float]) -> None:
    for name, rate in rates.items():
        if name not in _NAMES:
            raise ValueError(f"no peak of {name!r}: there are {', '.join(_NAMES)}")
        if not _LEAST <= rate < math.inf:
            raise ValueError(f"the peak of {name}, {rate:g}, is less than any GPU's: operations (or bytes) per second, as in 989.5e12")


def _measured(path: str) -> Peaks:
    """Ceilings as ``flopgap calibrate probe`` writes them."""
    try:
        with open(path, encoding="utf-8") as file:
            ceilings = json.load(file)
        ceilings = ceilings.get("ceilings", ceilings)
        rates: dict[str, float] = {}
        for peak in ceilings["peaks"]:
            rate = float(peak["ops_per_second"]["value"])
            name = f"tensor {peak['precision']}" if peak["tensor"] else str(peak["precision"])
            rates[name] = max(rate, rates.get(name, 0.0))
        # The last level is the memory; a kernel both reads and writes, as a copy does.
        levels = ceilings.get("levels") or []
        memory = float(levels[-1]["copy"]) if levels else None
        return Peaks(rates, memory, f"measured: {path}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "give a file of ceilings that flopgap calibrate probe wrote, or a dict of rates"
        raise InputError(f"{path} has no peaks: {error!r}", hint) from error
