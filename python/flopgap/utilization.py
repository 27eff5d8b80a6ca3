"""Whether the products of theory are those of the step, so that they say how well it uses the GPU."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from .names import kernel
from .theory import PRODUCTS, Theory

if TYPE_CHECKING:
    from .result import Counts

__all__ = ["needed_by_unit", "tensor_products", "why_no_mfu"]

#: Tensor operations that were executed and that operators without a formula may have asked for, as a share of all, that do not matter.
_SMALL = 0.02


def needed_by_unit(theory: Theory | None) -> dict[str, int]:
    """FLOPs of products, without those that a checkpoint computed again, by what would execute them."""
    needed = Tally[str]()
    for op in theory.operators if theory is not None else ():
        if op.kind in PRODUCTS and op.phase != "recompute":
            needed[op.unit] += op.flops or 0
    return dict(needed)


def tensor_products(theory: Theory) -> int:
    """FLOPs of the products that tensor cores would execute."""
    return sum(op.flops or 0 for op in theory.operators if op.kind in PRODUCTS and op.unit.startswith("tensor "))


def why_no_mfu(counts: Counts) -> str | None:
    """Why there is no MFU."""
    theory = counts.theory
    if theory is None:
        return "theory was not recorded: Counter(theory=True) does"
    needed = {unit: flops for unit, flops in needed_by_unit(theory).items() if flops}
    if hole := _hole(counts, theory):
        return hole
    if not needed:
        return "theory has no products"
    if counts.seconds is None:
        return "the step's own time is not known: Counter(timed=20) measures it, with_time(seconds) takes yours"
    if counts.peaks is None:
        return f"no peaks of {counts.device} are known: Counter(peaks=...) takes them"
    if unknown := [unit for unit in needed if unit not in counts.peaks.flops_per_second]:
        return f"no peak of {', '.join(unknown)} is known ({counts.peaks.source}): Counter(peaks=...) takes it"
    return None


def _hole(counts: Counts, theory: Theory) -> str | None:
    """Why the products of theory are not those of the step."""
    if theory.unseen:
        return theory.unseen[0]
    asked = tensor_products(theory)
    executed = sum(count for key, count in counts.flops.items() if key.startswith("tensor ") and count is not None)
    share = f"; it asks for {asked / executed:.1%} of the tensor operations that were executed" if executed else ""
    if counts.graphs:
        return f"theory is not complete: nobody sees the operators of CUDA graphs{share}"
    # What has no formula matters where it may be products.
    beyond = executed - asked
    if theory.no_formula and (counts.tensor_flops is None or beyond > _SMALL * executed):
        names = ", ".join(list(theory.no_formula)[:3])
        return f"theory is not complete: no formula of {names}{share}"
    if executed and not asked:
        return "theory is not complete: no operator with a formula asked for the tensor operations that were executed"
    known = counts.tensor_flops
    if known is not None and known < asked and not _may_be_fewer(counts, theory):
        return f"theory is wrong: it asks for {asked:,} tensor operations, and {known:,} were executed"
    return None


def _may_be_fewer(counts: Counts, theory: Theory) -> bool:
    """Whether tensor cores may execute fewer operations than formulas say: masks leave blocks out, some algorithms of convolutions and sparse
    matrices need fewer, and vectors are multiplied elsewhere."""
    if any(op.masked for op in theory.operators):
        return True
    names = [kernel(symbol) for row in counts.rows for symbol in row.kernels()]
    products = [known for known in names if known.kind in ("matmul", "gemv", "convolution", "attention")]
    fewer = ("winograd", "fft", "sparse", "spmma", "spgemm")
    return any(known.tensor_cores is not True or any(word in known.name.lower() for word in fewer) for known in products)
