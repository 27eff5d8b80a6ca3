"""What the metrics of a GPU mean: which unit executes what, on which type, and how many operations that is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Part", "part_of", "traffic_of"]

#: FLOPs of one instruction of one thread, as ``ncu`` counts them: half-precision instructions work on two numbers.
_SHADER = {
    "fadd": ("fp32", 1), "fmul": ("fp32", 1), "ffma": ("fp32", 2),
    "fadd2": ("fp32", 2), "fmul2": ("fp32", 2), "ffma2": ("fp32", 4),
    "dadd": ("fp64", 1), "dmul": ("fp64", 1), "dfma": ("fp64", 2),
    "hadd": ("fp16", 2), "hmul": ("fp16", 2), "hfma": ("fp16", 4),
}  # fmt: skip

_TENSOR = re.compile(r"sm__ops_path_tensor_(?:op_(?P<op>\w+?)_)?src_(?P<src>\w+?)(?:_dst_(?P<dst>\w+))?\.sum")
_INSTRUCTION = re.compile(r"smsp__sass_thread_inst_executed_op_(?P<op>\w+)_pred_on\.sum")

_TRAFFIC = {
    "gpu__time_duration.sum": ("duration_ns", "the GPU's time while it was counted"),
    "dram__bytes_read.sum": ("dram_read_bytes", "bytes read from the GPU's memory"),
    "dram__bytes_write.sum": ("dram_written_bytes", "bytes written to the GPU's memory"),
    "dram__bytes.sum": ("dram_bytes", "bytes read from and written to the GPU's memory"),
    "lts__t_bytes.sum": ("l2_bytes", "bytes through the second-level cache"),
    "l1tex__t_bytes.sum": ("l1_bytes", "bytes through the first-level caches"),
}


@dataclass(frozen=True)
class Part:
    """Operations that one metric counts."""

    metric: str
    #: ``tensor`` or ``shader``.
    unit: str
    #: ``bf16``, ``fp16``, ``tf32``, ``fp8``, ``fp64``, ``fp32``, ...
    precision: str
    #: ``hgmma``, ``hmma``, ``ffma``, ...; ``None`` where the chip counts all instructions of the type together.
    instruction: str | None
    #: Operations for each count.
    weight: int

    @property
    def key(self) -> str:
        """The name under which results are: ``tensor bf16``, ``fp32``."""
        return f"tensor {self.precision}" if self.unit == "tensor" else self.precision


@lru_cache(maxsize=None)
def part_of(metric: str) -> Part | None:
    """The operations that a metric counts.

    >>> part_of("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32.sum").key
    'tensor bf16'
    >>> part_of("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum").weight
    2
    >>> part_of("dram__bytes_read.sum") is None
    True
    """
    if found := _TENSOR.fullmatch(metric):
        return Part(metric, "tensor", found["src"].replace("_", "-"), found["op"], 1)
    if found := _INSTRUCTION.fullmatch(metric):
        if known := _SHADER.get(found["op"]):
            return Part(metric, "shader", known[0], found["op"], known[1])
    return None


def traffic_of(metric: str) -> tuple[str, str] | None:
    """The column of a metric of time or bytes, and what it means.

    >>> traffic_of("lts__t_bytes.sum")
    ('l2_bytes', 'bytes through the second-level cache')
    """
    return _TRAFFIC.get(metric)
