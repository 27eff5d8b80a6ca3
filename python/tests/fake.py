"""A GPU that does not exist: its launches are calls of :meth:`FakeGpu.launch`, and its counters count what the tests say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PRESETS = {
    "tensor": [
        "gpu__time_duration.sum",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_op_hgmma_src_fp16.sum",
    ],
    "tensor-2": ["gpu__time_duration.sum", "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum"],
    "sass": [
        f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
        for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma")
    ],
}

PRODUCT = "nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NTT"
SIGMOID = "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda(at::TensorIteratorBase&)>(int)"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
INTEGERS = "turing_i8816gemm_int8_128x128_ldg16_relu_tn"


@dataclass
class FakeGpu:
    """Stands in for ``_flopgap.Gpu``."""

    name: str = "NVIDIA H200"
    chip: str = "GH100"
    passes: int = 1
    session: Any = None
    opened: int = 0
    closed: int = 0
    parked: int = 0
    synchronized: int = 0
    #: How many rows were expected, by measurement.
    expected: list[int] = field(default_factory=list)
    fail_to_open: Exception | None = None
    fail_to_close: Exception | None = None

    def preset(self, name: str) -> list[str] | None:
        return PRESETS.get(name)

    def presets(self) -> list[tuple[str, list[str]]]:
        return list(PRESETS.items())

    def synchronize(self) -> None:
        self.synchronized += 1

    def open(self, metrics: list[str]) -> FakeSession:
        if self.fail_to_open is not None:
            raise self.fail_to_open
        assert self.session is None, "a process has one session"
        self.opened += 1
        self.session = FakeSession(self, metrics)
        return self.session

    def launch(self, symbol: str = PRODUCT, grid: tuple[int, int, int] = (1, 1, 1), **counts: int) -> None:
        """A launch; its counts by a part of the metrics' names."""
        if self.session is not None and self.session.running:
            values = [
                next((count for word, count in counts.items() if word in metric), 0) for metric in self.session.metrics
            ]
            self.session.launched.append(((symbol, grid, (128, 1, 1), 0), values))

    def graph(self, **counts: int) -> None:
        """A launch of a graph."""
        self.launch("graph", **counts)
        if self.session is not None and self.session.running:
            launch, values = self.session.launched.pop()
            self.session.launched.append((None, values))


@dataclass
class FakeSession:
    """Stands in for ``_flopgap.Session``, with its rules."""

    gpu: FakeGpu
    metrics: list[str]
    running: bool = False
    rows: str = ""
    left: int = 0
    launched: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    entered: list[tuple[str, int, int]] = field(default_factory=list)
    abandoned: int = 0
    fail_to_begin: Exception | None = None

    def begin(self, rows: str, expected: int) -> None:
        if self.fail_to_begin is not None:
            raise self.fail_to_begin
        assert rows in ("launches", "regions")
        self.rows, self.left = rows, self.gpu.passes
        self.gpu.expected.append(expected)

    def start_pass(self) -> None:
        assert not self.running and self.left > 0
        self.running, self.launched, self.names, self.entered = True, [], [], []

    def enter(self, name: str) -> None:
        assert self.running and not self.names, "regions are flat"
        self.names.append(name)
        self.entered.append((name, len(self.launched), -1))

    def leave(self) -> None:
        name = self.names.pop()
        assert self.entered[-1][0] == name
        self.entered[-1] = (name, self.entered[-1][1], len(self.launched))

    def end_pass(self) -> bool:
        assert self.running and not self.names
        self.running = False
        self.left -= 1
        return self.left == 0

    def abandon(self) -> None:
        self.running, self.names, self.abandoned = False, [], self.abandoned + 1

    def regions(self) -> list[Any]:
        assert self.rows == "regions" and not self.running
        rows = []
        for name, start, end in self.entered:
            inside = self.launched[start:end]
            counts = [sum(values[i] for _, values in inside) for i in range(len(self.metrics))]
            launches = [launch for launch, _ in inside if launch is not None]
            rows.append((name, launches, len(inside) - len(launches), counts))
        return rows

    def launches(self) -> list[Any]:
        assert self.rows == "launches" and not self.running
        return [
            (launch, next((name for name, start, end in self.entered if start <= index < end), None), values)
            for index, (launch, values) in enumerate(self.launched)
        ]

    def park(self) -> None:
        self.running = False
        self.gpu.parked += 1

    def close(self) -> None:
        self.gpu.closed += 1
        self.gpu.session = None
        if self.gpu.fail_to_close is not None:
            raise self.gpu.fail_to_close
