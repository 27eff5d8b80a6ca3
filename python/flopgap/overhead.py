"""What lies between the FLOPs that the mathematics asks for and those that the GPU executed, separated by cause."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .names import kernel
from .theory import PRODUCTS, Operator

if TYPE_CHECKING:
    from .result import Counts
    from .rows import Row

__all__ = ["Gap", "gap_of"]


@dataclass(frozen=True)
class Gap:
    """Executed FLOPs less those of theory. What is not known is ``None``: most of it needs counts by kernel, and the shader cores' as well
    (``Counter(by="kernel", what=["tensor", "sass"])``).
    """

    #: What the mathematics asks for: products, and everything else that has a formula.
    theory_products: int | None = None
    theory_rest: int | None = None
    #: Products that a checkpoint computed again; they are in ``theory_products``.
    recomputation: int | None = None
    #: FLOPs of products above theory: tiles that reach beyond the matrix, and (below 0) blocks that a mask leaves out.
    padding: int | None = None
    #: The same by kernel, where it is not 0.
    padding_by_kernel: dict[str, int] = field(default_factory=dict)
    #: Additions that put the parts of split products together.
    split_k: int | None = None
    #: Arithmetic of the shader cores within kernels of products: epilogues, the softmax of attention.
    inside_products: int | None = None
    #: Everything else: activations, norms, losses, optimizers.
    elementwise: int | None = None
    #: Tensor operations of kernels that no operator of PyTorch launched, and of products without a formula.
    unattributed: int | None = None
    #: ``epsilon``: relative excess of the products, split-K aside.
    epsilon: float | None = None
    #: ``rho``: split-K FLOPs for each number that a product wrote.
    rho: float | None = None
    #: ``kappa``: relative excess of everything else. It can be below 0: a maximum is no counted operation.
    kappa: float | None = None
    #: ``omega``: relative excess of the total.
    omega: float | None = None


def _ratio(count: int | None, of: int | None, less: float = 0.0) -> float | None:
    return None if count is None or not of else count / of - less


def gap_of(counts: Counts) -> Gap:
    """The gap of some counts."""
    theory = counts.theory
    if theory is None or theory.unseen or counts.graphs:
        return Gap()
    products, total = theory.products, theory.total
    known: dict[str, int | float | None] = {
        "theory_products": products,
        "theory_rest": None if theory.no_formula else total - products,
        "recomputation": theory.recomputed,
    }
    by_launch = any(row.symbol is not None for row in counts.rows)
    tensor_only = all(op.unit.startswith("tensor") for op in theory.operators if op.kind in PRODUCTS)
    if not by_launch:
        if tensor_only:
            known["epsilon"] = _ratio(counts.tensor_flops, products, 1.0)
        if not theory.no_formula:
            known["omega"] = _ratio(counts.total, total, 1.0)
        return Gap(**known)  # type: ignore[arg-type]
    return _by_launch(counts, known, total)


def _tensor(counts: Counts, row: Row) -> int | None:
    """Tensor operations of a launch."""
    return _of(counts, row, tensor=True)


def _shader(counts: Counts, row: Row) -> int | None:
    """FLOPs of the shader cores of a launch."""
    return _of(counts, row, tensor=False)


def _of(counts: Counts, row: Row, tensor: bool) -> int | None:
    flops = counts.flops_of([row])
    values = [count for key, count in flops.items() if key.startswith("tensor ") == tensor]
    known = [count for count in values if count is not None]
    return sum(known) if len(known) == len(values) else None


def _by_launch(counts: Counts, known: dict[str, int | float | None], total: int) -> Gap:
    theory = counts.theory
    assert theory is not None
    calls: dict[int, Operator] = {op.call: op for op in theory.operators}
    tensor_of: dict[int, int | None] = {}
    main: dict[int, tuple[int, str]] = {}
    sums: dict[str, int | None] = {"split_k": 0, "inside_products": 0, "elementwise": 0, "unattributed": 0}

    def add(name: str, count: int | None) -> None:
        before = sums[name]
        sums[name] = None if before is None or count is None else before + count

    # FLOPs of products on the shader cores, by call.
    shader_products: Tally[int] = Tally()
    unknown_calls = set()
    for row in counts.rows:
        call = row.label.call
        op = calls.get(call) if call is not None else None
        kind = kernel(row.symbol or "").kind
        tensor, shader = _tensor(counts, row), _shader(counts, row)
        if op is None or op.kind not in PRODUCTS:
            # Whatever a tensor core does here no formula asked for.
            add("unattributed", tensor)
            add("split_k" if kind == "split-k-reduce" else "elementwise", shader)
            continue
        assert call is not None
        if tensor is None:
            unknown_calls.add(call)
        before = tensor_of.get(call, 0)
        tensor_of[call] = None if tensor is None or before is None else before + tensor
        size = (tensor or 0) + (shader or 0)
        if size >= main.get(call, (-1, ""))[0]:
            main[call] = (size, row.symbol or "")
        if kind == "split-k-reduce":
            add("split_k", shader)
        elif tensor == 0 and not op.unit.startswith("tensor") and kind in ("matmul", "gemv", "convolution", "attention"):
            # The product itself, on the shader cores.
            if shader is None:
                unknown_calls.add(call)
            else:
                shader_products[call] += shader
        else:
            add("inside_products", shader)
    padding: Tally[str] = Tally()
    executed = 0
    complete = True
    for op in theory.operators:
        if op.kind not in PRODUCTS:
            continue
        tensor = tensor_of.get(op.call, None if op.call in unknown_calls else 0)
        if op.call in unknown_calls or tensor is None or op.flops is None:
            complete = False
            continue
        done = tensor + shader_products[op.call]
        executed += done
        if done != op.flops:
            padding[main.get(op.call, (0, op.name))[1]] += done - op.flops
    products = theory.products
    if complete:
        known["padding"] = executed - products
        known["epsilon"] = _ratio(executed, products, 1.0)
    written = sum(op.elements for op in theory.operators if op.kind in PRODUCTS)
    known["rho"] = _ratio(sums["split_k"], written)
    if not theory.no_formula:
        known["kappa"] = _ratio(sums["elementwise"], total - products, 1.0)
        known["omega"] = _ratio(counts.total, total, 1.0)
    return Gap(**known, **sums, padding_by_kernel={name: count for name, count in padding.items() if count})  # type: ignore[arg-type]
