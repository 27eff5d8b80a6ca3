"""What the mathematics of PyTorch's operators asks for, recorded while they run.

Products (matrices, convolutions, attention) are counted with the formulas of ``torch.utils.flop_counter``, so their sum is what
``FlopCounterMode`` gives; the rest with formulas of this package, by the conventions of its documentation:

=====================  ==========================================================================
element-wise           1 for each number written (2 for ``addcmul``, ``addcdiv``, ``lerp``)
reduction              1 for each number read (2 for norms, 3 for variances)
softmax                5 for each number, 4 backward
norm                   7 for each number (2 with given statistics, 4 without a mean), 13 backward (9)
optimizer, fused       SGD 2 (with momentum 4), Adam 14, AdamW 15 for each parameter
movement, integers     0
=====================  ==========================================================================

An operator without a formula is listed in :attr:`Theory.no_formula`, never counted as 0.
"""

from __future__ import annotations

import importlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PRODUCTS", "Operator", "Theory"]

#: The classes whose work is products.
PRODUCTS = ("matmul", "convolution", "attention")


@dataclass(frozen=True)
class Operator:
    """One call of an operator that computes."""

    #: ``aten.addmm``.
    name: str
    #: ``matmul``, ``convolution``, ``attention``, ``elementwise``, ``reduction``, ``softmax``, ``norm``, ``optimizer``; ``other``
    #: where there is no formula.
    kind: str
    #: ``None`` without a formula.
    flops: int | None
    #: Under which name the GPU would execute it: ``tensor bf16``, ``fp32``.
    unit: str
    #: Where it was called: region or module, and ``forward``, ``backward``, ``recompute``, or empty where neither a module nor autograd runs.
    path: str = ""
    phase: str = ""
    #: Numbers that it wrote.
    elements: int = 0
    #: The call among all calls of operators, those that only move data included.
    call: int = -1


@dataclass
class Theory:
    """The operators of a run."""

    operators: list[Operator] = field(default_factory=list)
    #: Why some of the run may not be in it: compiled code, graphs.
    unseen: list[str] = field(default_factory=list)

    @property
    def products(self) -> int:
        """FLOPs of matrix products, convolutions and attention: the total of ``FlopCounterMode``."""
        return sum(op.flops or 0 for op in self.operators if op.kind in PRODUCTS)

    @property
    def total(self) -> int:
        """FLOPs of all operators that have a formula."""
        return sum(op.flops or 0 for op in self.operators)

    @property
    def by_kind(self) -> dict[str, int]:
        """FLOPs by kind of operator."""
        return self._sum(lambda op: op.kind)

    @property
    def by_unit(self) -> dict[str, int]:
        """FLOPs by what would execute them: products by their type, everything else as ``fp32`` or ``fp64``."""
        return self._sum(lambda op: op.unit)

    @property
    def by_path(self) -> dict[tuple[str, str], int]:
        """FLOPs by region or module, and phase."""
        return self._sum(lambda op: (op.path, op.phase))

    @property
    def recomputed(self) -> int:
        """FLOPs of products that a checkpoint computed again."""
        return sum(op.flops or 0 for op in self.operators if op.phase == "recompute" and op.kind in PRODUCTS)

    @property
    def no_formula(self) -> dict[str, int]:
        """Operators that compute and have no formula here, with the number of their calls."""
        return dict(Counter(op.name for op in self.operators if op.flops is None))

    def _sum(self, key: Callable[[Operator], Any]) -> dict[Any, int]:
        sums: Counter[Any] = Counter()
        for op in self.operators:
            if op.flops is not None:
                sums[key(op)] += op.flops
        return dict(sums)


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in arguments or results."""
    if hasattr(value, "is_floating_point") and hasattr(value, "numel"):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))


def _numbers(value: Any) -> int:
    """How many floating-point numbers there are in tensors."""
    return sum(tensor.numel() for tensor in _tensors(value) if tensor.is_floating_point() or tensor.is_complex())


# Operators that move, fill or choose, by the name of their packet without a trailing underscore.
_MOVES = frozenset(
    """alias arange as_strided bernoulli bitwise_not cat clone constant_pad_nd copy detach embedding empty empty_like empty_strided
    expand eye fill flip full full_like gather im2col index index_copy index_put index_select is_pinned isfinite isinf isnan lift_fresh
    linspace logical_not masked_fill masked_scatter masked_select max_pool2d_with_indices_backward native_dropout_mask new_empty
    new_empty_strided new_full new_ones new_zeros nonzero normal ones ones_like permute rand rand_like randint randn randn_like randperm
    repeat reshape resize roll scalar_tensor scatter select_backward select_scatter set slice_backward slice_scatter sort split stack
    topk tril triu unfold uniform view where zero zeros zeros_like _reshape_alias _to_copy _unsafe_view _local_scalar_dense
    _pin_memory _chunk_cat _foreach_copy _foreach_zero _resize_output _efficientzerotensor _unsafe_index _copy_from""".split()
)  # fmt: skip

# For each number written.
_WRITTEN = {
    "_softmax": ("softmax", 5), "_log_softmax": ("softmax", 5), "_safe_softmax": ("softmax", 5),
    "native_layer_norm": ("norm", 7), "native_group_norm": ("norm", 7), "_fused_rms_norm": ("norm", 4),
    "native_dropout": ("elementwise", 2), "native_dropout_backward": ("elementwise", 2),
    "cumsum": ("reduction", 1), "addcmul": ("elementwise", 2), "addcdiv": ("elementwise", 2), "lerp": ("elementwise", 2),
}  # fmt: skip

# For each number of the first argument.
_READ = {
    "_softmax_backward_data": ("softmax", 4), "_log_softmax_backward_data": ("softmax", 4),
    "native_layer_norm_backward": ("norm", 13), "native_group_norm_backward": ("norm", 13),
    "_fused_rms_norm_backward": ("norm", 9), "embedding_dense_backward": ("reduction", 1),
    "linalg_vector_norm": ("reduction", 2), "norm": ("reduction", 2), "mse_loss": ("elementwise", 3),
    "var": ("reduction", 3), "var_mean": ("reduction", 3), "std": ("reduction", 3), "std_mean": ("reduction", 3),
    "_adaptive_avg_pool2d": ("reduction", 1), "dot": ("reduction", 2), "vdot": ("reduction", 2),
    "_fused_adam": ("optimizer", 14), "_fused_adamw": ("optimizer", 15), "_fused_adagrad": ("optimizer", 6),
    "_amp_foreach_non_finite_check_and_unscale": ("elementwise", 1), "scatter_add": ("elementwise", 1),
}  # fmt: skip

_BATCH_NORMS = ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "miopen_batch_norm")
_FOREACH_2 = ("addcmul", "addcdiv", "lerp", "norm")


def _other(packet: str, func: Any, tags: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[str, int | None]:
    """Kind and FLOPs of an operator that is no product."""
    name = packet if packet.startswith("__") else packet.rstrip("_")
    first = args[0] if args else ()
    if name in _MOVES or func.is_view:
        return "movement", 0
    if name in _WRITTEN:
        kind, each = _WRITTEN[name]
        written = next(_tensors(out), None)
        return kind, each * (_numbers(written) if written is not None else 0)
    if name in _READ:
        kind, each = _READ[name]
        numbers = _numbers(first)
        return kind, each * numbers
    if name in _BATCH_NORMS:
        # With a reserve the flag is among the arguments behind the statistics; where it is false, these are given.
        flags = [arg for arg in args if isinstance(arg, bool)]
        training = flags[0] if flags else bool(kwargs.get("training", name == "_batch_norm_with_update"))
        return "norm", (7 if training else 2) * _numbers(first)
    if name.endswith("batch_norm_backward"):
        return "norm", 13 * _numbers(first)
    if name == "_fused_sgd":
        momentum = kwargs.get("momentum", 0.0)
        return "optimizer", (4 if momentum else 2) * _numbers(first)
    if name.startswith("_foreach_"):
        return "elementwise", (2 if any(word in name for word in _FOREACH_2) else 1) * _numbers(first)
    if name in ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"):
        # One number of each row is picked and added up, or written.
        target = args[1] if name.endswith("forward") else args[2]
        return "reduction", target.numel()
    if name in ("max_pool2d_with_indices", "avg_pool2d"):
        window = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        area = window[0] * window[-1]
        return "reduction", area * _numbers(next(_tensors(out)))
    if name == "avg_pool2d_backward":
        return "elementwise", _numbers(out)
    # Comparisons, and operations on integers, are no floating-point operations.
    for tag, kind, numbers in (("pointwise", "elementwise", _numbers(out)), ("reduction", "reduction", _numbers(first))):
        if tag in tags:
            return (kind, numbers) if numbers else ("movement", 0)
    return ("movement", 0) if _numbers(out) == 0 and _numbers(args) == 0 else ("other", None)


def _kind_of_product(packet: str) -> str:
    if "attention" in packet:
        return "attention"
    return "convolution" if "conv" in packet else "matmul"


def _unit(torch: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Under which name the GPU executes an operator on these arguments."""
    types = [tensor.dtype for tensor in _tensors(args) if tensor.is_floating_point()]
    types = types or [tensor.dtype for tensor in _tensors(kwargs) if tensor.is_floating_point()]
    if torch.float64 in types:
        return "tensor fp64" if kind in PRODUCTS else "fp64"
    if kind not in PRODUCTS or not types:
        return "fp32"
    kind_of_float = str(types[0]).removeprefix("torch.")
    if kind_of_float.startswith("float8"):
        return "tensor fp8"
    if kind_of_float in ("bfloat16", "float16"):
        return "tensor bf16" if kind_of_float == "bfloat16" else "tensor fp16"
    backend = torch.backends.cudnn if kind == "convolution" else torch.backends.cuda.matmul
    return "tensor tf32" if backend.allow_tf32 else "fp32"


def make_mode(
    theory: Theory, devices: frozenset[str], before: Callable[[int], tuple[str, str]], after: Callable[[], None]
) -> Any:
    """A dispatch mode of PyTorch that records operators on these kinds of device.

    ``before`` is called with the number of a call that is about to begin, and says where; ``after`` when it has ended.
    """
    torch: Any = importlib.import_module("torch")
    dispatch: Any = importlib.import_module("torch.utils._python_dispatch")
    flop_registry = importlib.import_module("torch.utils.flop_counter").flop_registry
    prim_device = torch.ops.prim.device.default
    calls = itertools.count()

    class Mode(dispatch.TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if isinstance(func, torch._ops.HigherOrderOperator):
                call = next(calls)
                path, phase = before(call)
                theory.operators.append(Operator(str(func), "other", None, "", path, phase, call=call))
                try:
                    return func(*args, **kwargs)
                finally:
                    after()
            packet = func._overloadpacket
            if packet not in flop_registry and func is not prim_device:
                with self:
                    result = func.decompose(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
            call = next(calls)
            path, phase = before(call)
            try:
                out = func(*args, **kwargs)
            finally:
                after()
            if any(t.device.type in devices for t in _tensors(out)) or any(t.device.type in devices for t in _tensors(args)):
                record(call, func, packet, args, kwargs, out, path, phase)
            return out

    def record(call: int, func: Any, packet: Any, args: Any, kwargs: Any, out: Any, path: str, phase: str) -> None:
        name = packet.__name__
        flops: int | None
        if packet in flop_registry:
            kind = _kind_of_product(name)
            flops = int(flop_registry[packet](*args, **kwargs, out_val=out))
        else:
            tags = {str(tag).rpartition(".")[2] for tag in func.tags}
            kind, flops = _other(name, func, tags, args, kwargs, out)
        if kind != "movement":
            unit = _unit(torch, kind, args, kwargs)
            space = func.namespace if hasattr(func, "namespace") else "aten"
            theory.operators.append(Operator(f"{space}.{name}", kind, flops, unit, path, phase, _numbers(out), call))

    return Mode()
