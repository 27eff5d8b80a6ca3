"""What was counted: totals, tables, theory beside it, and what lies between the two."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from . import _flopgap
from .overhead import Gap, gap_of
from .names import Kernel, kernel, may_use
from .metrics import Part, part_of, traffic_of
from .peaks import Peaks
from .rows import Row
from .theory import Theory
from .utilization import needed_by_unit, tensor_products, why_no_mfu

__all__ = ["Counts"]

#: What products of integers are called.
_INTEGERS = "tensor int8"


@dataclass(frozen=True)
class Counts:
    """What a function made the GPU execute. ``print`` shows it; in a notebook it shows itself as a table.

    What no pass counted is ``None``, never 0.
    """

    rows: list[Row]
    by: tuple[str, ...]
    #: The presets that were counted, and their metrics.
    presets: tuple[str, ...]
    metrics: tuple[str, ...]
    #: The presets that the chip has.
    all_presets: tuple[tuple[str, tuple[str, ...]], ...]
    device: str
    chip: str
    #: How often the function ran.
    runs: int
    theory: Theory | None = None
    peaks: Peaks | None = None
    #: The step's own time: that of a run without counting (the median), where it was asked for, or what was given to :meth:`with_time`.
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    #: What the function returned when it ran last.
    value: Any = field(default=None, repr=False)

    # Operations.

    @cached_property
    def _parts(self) -> dict[str, list[Part]]:
        """All parts that the chip distinguishes, counted or not, by the name of their sum."""
        parts: dict[str, list[Part]] = {}
        for metric in dict.fromkeys(metric for _, metrics in self.all_presets for metric in metrics):
            if part := part_of(metric):
                parts.setdefault(part.key, []).append(part)
        return parts

    def flops_of(self, rows: Iterable[Row]) -> dict[str, int | None]:
        """FLOPs of some rows, by unit and type: ``{"tensor bf16": 1024, "fp32": None}``.

        ``tensor int8`` is there, and ``None``, where names of kernels or operators say that integers were multiplied: no preset counts those.
        A type is ``None`` where a part of it was not counted and a kernel was launched that may have used this part.
        Half-precision instructions of the shader cores (``fp16``) are counted where the kernel is known to compute with them: compilers
        also load constants and convert numbers by them.
        """
        rows = list(rows)
        graphs = any(row.graphs for row in rows)
        symbols: set[str] = set()
        for row in rows:
            symbols.update(row.kernels())
        known = [kernel(symbol) for symbol in symbols]
        flops: dict[str, int | None] = {}
        for key, parts in self._parts.items():
            counted = [part for part in parts if part.metric in self.metrics]
            missing = [part for part in parts if part.metric not in self.metrics]
            unknown = bool(missing) and (graphs or any(may_use(k, part) for k in known for part in missing))
            if unknown:
                flops[key] = None
            elif key == "fp16":
                flops[key] = self._half(rows, counted)
            else:
                flops[key] = sum(row.values[part.metric] * part.weight for row in rows for part in counted)
        # No preset counts products of integers: they are unknown where there are any.
        if any(k.precision == "int8" for k in known):
            flops.setdefault(_INTEGERS, None)
        return flops

    def _half(self, rows: list[Row], parts: list[Part]) -> int | None:
        """Half-precision arithmetic of the shader cores, as far as names of kernels say."""
        total = 0
        for row in rows:
            count = sum(row.values[part.metric] * part.weight for part in parts)
            if count == 0:
                continue
            said = {kernel(symbol).half_arithmetic for symbol in row.kernels()}
            if said == {True}:
                total += count
            elif said != {False}:
                return None
        return total

    @cached_property
    def flops(self) -> dict[str, int | None]:
        """FLOPs by unit and type, see :meth:`flops_of`."""
        flops = self.flops_of(self.rows)
        if self.theory is not None and any(op.unit == _INTEGERS for op in self.theory.operators):
            flops.setdefault(_INTEGERS, None)
        return flops

    @property
    def tensor_flops(self) -> int | None:
        """Operations of the tensor cores, all types together; ``None`` where one is unknown."""
        return _sum(count for key, count in self.flops.items() if key.startswith("tensor ")) if self.presets else None

    @property
    def shader_flops(self) -> int | None:
        """Operations of the shader cores on 64 and 32-bit floats, and on 16 where names of kernels say."""
        return _sum(count for key, count in self.flops.items() if not key.startswith("tensor ")) if self.presets else None

    @property
    def total(self) -> int | None:
        """All floating-point operations; ``None`` where some are unknown."""
        return _sum(self.flops.values()) if self.presets else None

    @property
    def counted(self) -> int:
        """The operations that were counted, of whatever is complete."""
        return sum(count for count in self.flops.values() if count is not None)

    @cached_property
    def uncounted(self) -> dict[str, dict[str, int]]:
        """Kernels that were launched and whose arithmetic, as far as their names say, is on units that were not counted: by the preset that
        would count them, with the number of launches."""
        missing: list[tuple[str, Part]] = []
        for name, metrics in self.all_presets:
            if name not in self.presets:
                missing += [(name, part) for metric in metrics if metric not in self.metrics and (part := part_of(metric))]
        launched = Tally(symbol for row in self.rows for symbol in row.kernels())
        found: dict[str, dict[str, int]] = {}
        for symbol, launches in launched.items():
            known = kernel(symbol)
            for name, part in missing:
                if may_use(known, part):
                    found.setdefault(name, {})[symbol] = launches
        return found

    @property
    def launches(self) -> int:
        """How many kernels were launched, without those of graphs."""
        return sum(row.launches for row in self.rows)

    @property
    def graphs(self) -> int:
        """How many CUDA graphs were launched."""
        return sum(row.graphs for row in self.rows)

    # Time and bytes.

    def _traffic(self, name: str) -> int | None:
        metric = next((metric for metric in self.metrics if (traffic_of(metric) or ("",))[0] == name), None)
        return None if metric is None else sum(row.values[metric] for row in self.rows)

    @property
    def time_ns(self) -> int | None:
        """The GPU's time in nanoseconds while it was counted, which is not the step's own (:attr:`seconds`). Kernels counted one by one are not
        overlapped, and regions include the time in which the GPU waited for the program, which counting makes slower."""
        return self._traffic("duration_ns")

    @property
    def bytes_read(self) -> int | None:
        """Bytes read from the GPU's memory."""
        return self._traffic("dram_read_bytes")

    @property
    def bytes_written(self) -> int | None:
        """Bytes written to the GPU's memory."""
        return self._traffic("dram_written_bytes")

    @property
    def bytes(self) -> int | None:
        """Bytes read from and written to the GPU's memory."""
        return _sum([self.bytes_read, self.bytes_written])

    @property
    def l2_bytes(self) -> int | None:
        """Bytes through the second-level cache."""
        return self._traffic("l2_bytes")

    @property
    def kernel_seconds(self) -> float | None:
        """The time of the kernels alone, one after the other, without what lies between them; known by kernel or launch."""
        one_by_one = any(row.symbol is not None for row in self.rows)
        return self.time_ns * 1e-9 if one_by_one and self.time_ns else None

    # Utilization.

    def with_time(self, seconds: float) -> Counts:
        """The same with the time that the step takes without counting, which you have measured: :attr:`mfu` and :attr:`hfu` are over it.

        >>> counts.with_time(2.1e-3).mfu  # doctest: +SKIP
        0.1509
        """
        if not 0 < seconds < math.inf:
            raise ValueError(f"seconds={seconds!r}: the time of a step, above 0")
        return replace(self, seconds=float(seconds))

    def _utilization(self, flops: dict[str, int], seconds: float | None) -> float | None:
        """The share of a time that the GPU would need for these at its peaks."""
        done = {key: count for key, count in flops.items() if count}
        if not seconds or self.peaks is None or not done or any(key not in self.peaks.flops_per_second for key in done):
            return None
        return sum(count / self.peaks.flops_per_second[key] for key, count in done.items()) / seconds

    @property
    def _executed(self) -> dict[str, int] | None:
        """Operations of the tensor cores, where all are known."""
        known = {key: count for key, count in self.flops.items() if key.startswith("tensor ") and count is not None}
        return known if self.tensor_flops is not None else None

    @property
    def kernel_utilization(self) -> float | None:
        """What the tensor cores executed against their peak over :attr:`kernel_seconds`: above :attr:`hfu`, whose time has gaps as well."""
        return None if self._executed is None else self._utilization(self._executed, self.kernel_seconds)

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs utilization: what the tensor cores executed against their peak, over the step's own time (:attr:`seconds`); ``None``
        where either is unknown."""
        return None if self._executed is None else self._utilization(self._executed, self.seconds)

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization: the products that the mathematics asks for, without recomputation, against the peak of their type, over the
        step's own time (:attr:`seconds`). ``None`` where theory does not have all of them, or no time or peak is known: :attr:`no_mfu`."""
        return None if self.no_mfu is not None else self._utilization(needed_by_unit(self.theory), self.seconds)

    @cached_property
    def no_mfu(self) -> str | None:
        """Why :attr:`mfu` is ``None``."""
        return why_no_mfu(self)

    @property
    def covered(self) -> float | None:
        """The products of theory for each tensor operation that was executed: below 1 by tiles that reach beyond matrices and by products
        that theory does not have, above it by masks. ``None`` where either is unknown."""
        executed = self.tensor_flops
        return None if self.theory is None or not executed else tensor_products(self.theory) / executed

    @property
    def gap(self) -> Gap:
        """What lies between theory and what was executed."""
        return gap_of(self)

    # Tables.

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of :meth:`table`."""
        names = ["total"]
        if {"region", "range", "module"} & set(self.by):
            names.append("regions")
        if any(row.symbol is not None for row in self.rows):
            names += ["kernels", "launches"]
        return (*names, *(["operators"] if self.theory is not None and self.theory.operators else []))

    def table(self, name: str | None = None) -> Any:
        """A table for Polars, pandas, pyarrow or DuckDB: one of :attr:`tables`; without a name, what was asked for by ``by``.

        ``regions`` has a row for every region or module and phase, with the sums of what is inside (``inclusive_``) beside what is its
        own.
        """
        from .tables import columns_of

        name = name or self._main_table()
        return _flopgap.table_of_columns(name, columns_of(self, name))

    def _main_table(self) -> str:
        for wanted, name in (("launch", "launches"), ("kernel", "kernels"), ("module", "regions"), ("range", "regions"), ("region", "regions")):
            if wanted in self.by:
                return name
        return "total"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table().__arrow_c_stream__(requested_schema)

    # For people.

    def __str__(self) -> str:
        from .text import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        from .text import html_of

        return html_of(self)

    def __repr__(self) -> str:
        flops = ", ".join(f"{key} {count:,}" for key, count in self.flops.items() if count)
        return f"<Counts of {self.launches} launches on {self.device}: {flops or 'nothing counted'}>"


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
