"""What the name of a kernel says about its arithmetic."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from . import _flopgap
from .metrics import Part

__all__ = ["Kernel", "kernel", "may_use"]


class Kernel(NamedTuple):
    """A kernel's name, read. What it does not say is ``None``."""

    name: str
    #: ``matmul``, ``elementwise``, ...
    kind: str
    library: str
    precision: str | None
    #: ``128x256x64``.
    tile: str | None
    tensor_cores: bool | None
    #: Whether half-precision instructions of the shader cores are arithmetic in it.
    half_arithmetic: bool | None
    #: A name for people.
    short: str


@lru_cache(maxsize=8192)
def kernel(symbol: str) -> Kernel:
    """Reads the name of a kernel.

    >>> kernel("nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NTT").kind
    'matmul'
    """
    return Kernel(symbol, *_flopgap.kernel_info(symbol))


#: Kinds of kernels that only move data.
_MOVES = ("copy", "index", "communication")


def may_use(known: Kernel, part: Part) -> bool:
    """Whether a kernel may execute what a metric counts."""
    if part.unit == "shader":
        if part.precision == "fp64":
            return known.precision == "fp64" and known.tensor_cores is not True or known.kind == "other"
        if part.precision == "fp16":
            return known.half_arithmetic is not False and known.kind not in _MOVES
        # Everything computes addresses and scales in 32 bits at most; what only moves data does not compute with floats.
        return known.kind not in _MOVES
    if known.tensor_cores is False:
        return False
    if known.tensor_cores is None and known.kind not in ("other", "matmul", "attention", "convolution", "gemv"):
        return False
    if known.precision is not None and known.tensor_cores and known.precision not in part.precision:
        # Products of 32-bit floats on tensor cores are in TF32.
        return known.precision == "fp32" and part.precision == "tf32"
    return _instruction(known.name, part)


def _instruction(name: str, part: Part) -> bool:
    """Whether a name does not exclude the instruction of a part."""
    lower = name.lower()
    if part.precision == "fp64" and ("gmma" in lower or "hmma" in lower or "flash" in lower):
        # Names of products in 16 bits or less; those of 64 bits are DMMA.
        return False
    # Hopper's products on whole warp groups, against those of single warps, which libraries of older chips have.
    newest = "nvjet" in lower or "sm90" in lower or "sm100" in lower or "gmma" in lower
    older = any(word in lower for word in ("sm80", "sm86", "sm75", "ampere", "turing", "cutlass_80", "cutlass_75", "flash_fwd_", "flash_bwd_"))
    if part.instruction in ("hgmma", "utchmma", "utcqmma", "utcomma"):
        return not older or newest
    if part.instruction == "hmma":
        return not newest or older
    return True
