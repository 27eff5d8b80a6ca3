"""What the mathematics of PyTorch's operators asks for, recorded while they run.

Products (matrices, convolutions, attention) are counted with the formulas of ``torch.utils.flop_counter``, so their sum is what
``FlopCounterMode`` gives, but for what that lacks (recurrent networks, attention of grouped queries, 8-bit integers) or has wrong (the
backward pass of grouped convolutions); the rest with formulas of this package, by the conventions of its documentation:

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
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .observe import Begin

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
    #: Whether a mask leaves out some of the attention that the formula counts.
    masked: bool = False


@dataclass
class Theory:
    """The operators of a run."""

    operators: list[Operator] = field(default_factory=list)
    #: Why some of the run may not be in it: compiled code, graphs.
    unseen: list[str] = field(default_factory=list)

    @property
    def products(self) -> int:
        """FLOPs of matrix products, convolutions and attention."""
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
    _pin_memory _chunk_cat _foreach_copy _foreach_zero _resize_output _efficientzerotensor _unsafe_index _copy_from _index_put_impl
    transpose squeeze unsqueeze t unsafe_split unsafe_chunk reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d upsample_nearest1d upsample_nearest2d upsample_nearest3d""".split()
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
    "histc": ("reduction", 1),
}  # fmt: skip

# Element-wise operators without PyTorch's tag.
_POINTWISE = frozenset(
    "hardswish hardsigmoid hardtanh softplus elu leaky_relu log_sigmoid logit mish rrelu_with_noise softshrink".split()
)

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
    if name.removesuffix("_backward") in _POINTWISE:
        return "elementwise", _numbers(next(_tensors(out), None))
    if name.endswith("_backward") and name.removesuffix("_backward") in _MOVES:
        # Where numbers went to several places, their gradients are added up.
        return "elementwise", _numbers(first)
    # Comparisons, and operations on integers, are no floating-point operations.
    for tag, kind, numbers in (("pointwise", "elementwise", _numbers(out)), ("reduction", "reduction", _numbers(first))):
        if tag in tags:
            return (kind, numbers) if numbers else ("movement", 0)
    return ("movement", 0) if _numbers(out) == 0 and _numbers(args) == 0 else ("other", None)


def _kind_of_product(packet: str) -> str:
    if "attention" in packet:
        return "attention"
    return "convolution" if "conv" in packet else "matmul"


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Scores, and their product with the values. Several heads of the query may share one of the key and the value."""
    batch, heads, rows, depth = query.shape
    return int(2 * batch * heads * rows * key.shape[2] * (depth + value.shape[3]))


def _attention_backward(_grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """The scores again, the gradients of query and key from theirs; those of the scores and of the values."""
    batch, heads, rows, depth = query.shape
    return int(2 * batch * heads * rows * key.shape[2] * (3 * depth + 2 * value.shape[3]))


def _convolution_backward(grad: Any, x: Any, weight: Any, *args: Any, **_: Any) -> int:
    """Each gradient takes as many products as the convolution: one for each number of the output (transposed, of the input) and weight that
    meet. ``FlopCounterMode`` counts those of all groups with each other."""
    transposed, mask = args[4], args[7]
    places = x if transposed else grad
    forward = 2 * places.shape[0] * weight.numel()
    for size in places.shape[2:]:
        forward *= size
    return int(forward * sum(bool(wanted) for wanted in mask[:2]))


def _recurrent(x: Any, weights: Any, *args: Any, **_: Any) -> int:
    """Every matrix of every layer and direction is multiplied with a vector at each step of each sequence."""
    batch_sizes = next((arg for arg in reversed(args) if isinstance(arg, (list, tuple)) and all(isinstance(size, int) for size in arg)), ())
    vectors = sum(batch_sizes) or x.shape[0] * x.shape[1]
    return int(2 * vectors * sum(weight.numel() for weight in weights if weight.dim() == 2))


def _recurrent_backward(x: Any, weights: Any, *args: Any, **_: Any) -> int:
    """The gradients of what goes in, and of the matrices where they are wanted."""
    mask = next(arg for arg in reversed(args) if isinstance(arg, (list, tuple)) and len(arg) == 4)
    sizes = [arg for arg in args if isinstance(arg, (list, tuple)) and arg and all(type(size) is int for size in arg)]
    return _recurrent(x, weights, *sizes[-1:]) * (2 if mask[3] else 1)


def _integers(a: Any, b: Any, *_: Any, **__: Any) -> int:
    return int(2 * a.shape[0] * a.shape[1] * b.shape[1])


def _grouped(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """One product for each group: of rows, columns or parts of the sum of a matrix, or of the matrices of a stack. All rows and columns count,
    also those behind the last group."""
    columns = b.shape[-1]
    if a.dim() == 3 and b.dim() == 2:
        return int(2 * a.shape[1] * a.shape[2] * columns)
    return int(2 * a.numel() * columns)


#: The operators that compute attention; the last is the CPU's.
_ATTENTIONS = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")

#: Formulas of products that ``torch.utils.flop_counter`` lacks, or has wrong.
_FORMULAS: dict[str, tuple[str, Callable[..., int]]] = {
    **{f"_scaled_dot_product_{name}": ("attention", _attention) for name in _ATTENTIONS},
    **{f"_scaled_dot_product_{name}_backward": ("attention", _attention_backward) for name in _ATTENTIONS},
    "convolution_backward": ("convolution", _convolution_backward),
    "_cudnn_rnn": ("matmul", _recurrent),
    "_cudnn_rnn_backward": ("matmul", _recurrent_backward),
    "_int_mm": ("matmul", _integers),
    "_grouped_mm": ("matmul", _grouped),
    "_scaled_grouped_mm": ("matmul", _grouped),
}


def _is_masked(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether attention has a mask: one that is given, or that of causal models."""
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args)} | kwargs
    return bool(given.get("is_causal")) or any(given.get(name) is not None for name in ("attn_mask", "attn_bias", "bias"))


def _unit(torch: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Under which name the GPU executes an operator on these arguments."""
    types = [tensor.dtype for tensor in _tensors(args) if tensor.is_floating_point()]
    types = types or [tensor.dtype for tensor in _tensors(kwargs) if tensor.is_floating_point()]
    if torch.float64 in types:
        return "tensor fp64" if kind in PRODUCTS else "fp64"
    if kind not in PRODUCTS:
        return "fp32"
    if not types:
        return "tensor int8"
    kind_of_float = str(types[0]).removeprefix("torch.")
    if kind_of_float.startswith("float8"):
        return "tensor fp8"
    if kind_of_float in ("bfloat16", "float16"):
        return "tensor bf16" if kind_of_float == "bfloat16" else "tensor fp16"
    return "tensor tf32" if _allows_tf32(torch, kind) else "fp32"


def _allows_tf32(torch: Any, kind: str) -> bool:
    """Whether products of 32-bit floats may be rounded for the tensor cores. PyTorch 2.9 has a setting for this of which the older one must
    not be read where both were set."""
    backend = torch.backends.cudnn if kind == "convolution" else torch.backends.cuda.matmul
    newer = getattr(backend, "conv", backend) if kind == "convolution" else backend
    if hasattr(newer, "fp32_precision"):
        return bool(newer.fp32_precision == "tf32")
    return bool(backend.allow_tf32)


def observer(theory: Theory, devices: frozenset[str], before: Callable[[int], tuple[str, str]], after: Callable[[int], None]) -> Begin:
    """What records operators on these kinds of device: see :func:`flopgap.observe.observed`.

    ``before`` is called with the number of a call that is about to begin, and says where; ``after`` when it has ended.
    """
    torch: Any = importlib.import_module("torch")
    flop_registry = importlib.import_module("torch.utils.flop_counter").flop_registry
    calls = itertools.count()

    def begin(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., None]:
        call = next(calls)
        path, phase = before(call)

        def end(*out: Any) -> None:
            after(call)
            # After an error there is no result, and nothing to record.
            if out and any(t.device.type in devices for t in itertools.chain(_tensors(out), _tensors(args))):
                theory.operators.extend(recorded(call, func, args, kwargs, out[0], path, phase))

        return end

    def recorded(call: int, func: Any, args: Any, kwargs: Any, out: Any, path: str, phase: str) -> Iterator[Operator]:
        packet = getattr(func, "_overloadpacket", None)
        if packet is None:
            # An operator of functions.
            yield Operator(str(func), "other", None, "", path, phase, call=call)
            return
        name, space = packet.__name__, func.namespace
        kind, flops = "other", None
        # Whatever is wrong with a formula, or unforeseen in the arguments, is no business of the program that is counted.
        with suppress(Exception):
            if space == "aten" and name in _FORMULAS:
                kind, formula = _FORMULAS[name]
                flops = formula(*args, **kwargs)
            elif packet in flop_registry:
                kind = _kind_of_product(name)
                flops = int(flop_registry[packet](*args, **kwargs, out_val=out))
            else:
                tags = {str(tag).rpartition(".")[2] for tag in func.tags}
                kind, flops = _other(name, func, tags, args, kwargs, out)
        if kind != "movement":
            unit, masked = _unit(torch, kind, args, kwargs), kind == "attention" and _is_masked(func, args, kwargs)
            yield Operator(f"{space}.{name}", kind, flops, unit, path, phase, _numbers(out), call, masked)

    return begin
