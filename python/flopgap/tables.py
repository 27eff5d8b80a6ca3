"""The counts as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .errors import AbsentError
from .names import kernel
from .metrics import traffic_of
from .modules import Label
from .rows import Row

if TYPE_CHECKING:
    from .result import Counts

__all__ = ["columns_of"]

#: Name, type (``text``, ``count``, ``number``), description, values.
Column = tuple[str, str, str, list[Any]]


def _name(key: str) -> str:
    return key.replace(" ", "_").replace("-", "_") + "_flops"


def _counted(counts: Counts, groups: list[list[Row]], prefix: str = "") -> list[Column]:
    """Columns of operations, time and bytes, one value for each group of rows."""
    columns: list[Column] = []
    flops = [counts.flops_of(group) for group in groups]
    where = "of what is inside, " if prefix else ""
    for key in counts.flops:
        values = [found.get(key, 0) for found in flops]
        # A type that only names of kernels exclude has no column.
        if any(part.metric in counts.metrics for part in counts._parts.get(key, ())) and any(value is not None for value in values):
            unit = "tensor cores" if key.startswith("tensor ") else "shader cores"
            text = f"FLOPs {where}executed by the {unit} on {key.removeprefix('tensor ')}"
            columns.append((prefix + _name(key), "count", text, values))
    for metric in counts.metrics:
        if found_as := traffic_of(metric):
            name, about = found_as
            values = [sum(row.values[metric] for row in group) for group in groups]
            columns.append((prefix + name, "count", f"{about} {where}({metric})", values))
    return columns


def _launched(groups: list[list[Row]]) -> list[Column]:
    return [
        ("launches", "count", "kernels launched", [sum(row.launches for row in group) for group in groups]),
        ("graphs", "count", "CUDA graphs launched", [sum(row.graphs for row in group) for group in groups]),
    ]


def _total(counts: Counts) -> list[Column]:
    return [*_launched([counts.rows]), *_counted(counts, [counts.rows])]


def _regions(counts: Counts) -> list[Column]:
    own: dict[tuple[str, str], list[Row]] = {}
    for row in counts.rows:
        label = row.label
        own.setdefault((label.path, label.phase), []).append(row)
    # Parents that had no work of their own are there, too.
    keys = dict.fromkeys(own)
    for path, phase in own:
        parts = path.split("/")
        keys.update(dict.fromkeys(("/".join(parts[:depth]), phase) for depth in range(1, len(parts))))
    ordered = sorted(keys, key=lambda key: (key[0].split("/") if key[0] else [], _PHASES.get(key[1], 3)))
    groups = [own.get(key, []) for key in ordered]

    inclusive = [[row for other, rows in own.items() if _is_in(other, key) for row in rows] for key in ordered]
    theory: dict[tuple[str, str], int] = {}
    for (path, phase), flops in (counts.theory.by_path if counts.theory is not None else {}).items():
        # Outside modules, rows have no phase.
        key = (path, phase) if (path, phase) in keys else (path, "")
        theory[key] = theory.get(key, 0) + flops
    columns: list[Column] = [
        ("path", "text", "regions, ranges and modules, the outer ones first", [path for path, _ in ordered]),
        ("phase", "text", "forward, backward, recompute, or empty", [phase for _, phase in ordered]),
        *_launched(groups),
        *_counted(counts, groups),
        *_counted(counts, inclusive, "inclusive_"),
    ]
    if theory:
        needed = "FLOPs that the mathematics asks for"
        columns.append(("theory_flops", "count", needed, [theory.get(key, 0) for key in ordered]))
        sums = [sum(flops for other, flops in theory.items() if _is_in(other, key)) for key in ordered]
        columns.append(("inclusive_theory_flops", "count", f"{needed} of what is inside", sums))
    return columns


def _is_in(place: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether a place is another one, or inside of it."""
    return place[1] == other[1] and (not other[0] or place[0] == other[0] or place[0].startswith(other[0] + "/"))


_PHASES = {"": 0, "forward": 1, "recompute": 2, "backward": 3}


def _kernel_columns(symbols: Iterable[str]) -> list[Column]:
    known = [kernel(symbol) for symbol in symbols]
    return [
        ("display_name", "text", "short name", [k.short for k in known]),
        ("class", "text", "what kind of kernel its name says that it is", [k.kind for k in known]),
        ("tile", "text", "the tile in its name", [k.tile for k in known]),
        ("symbol", "text", "the name as the compiler wrote it", [k.name for k in known]),
    ]


def _with_theory(counts: Counts, groups: list[list[Row]]) -> list[Column]:
    if counts.theory is None or not counts.theory.operators:
        return []
    calls = {op.call: op for op in counts.theory.operators}

    def needed(group: list[Row]) -> int | None:
        found = {row.label.call for row in group}
        return sum(calls[call].flops or 0 for call in found if call is not None and call in calls)

    return [("theory_flops", "count", "FLOPs of the operators that launched it", [needed(group) for group in groups])]


def _kernels(counts: Counts) -> list[Column]:
    groups: dict[str, list[Row]] = {}
    for row in counts.rows:
        groups.setdefault(row.symbol or "", []).append(row)
    # The most FLOPs first, as far as they were counted; then as launched.
    order = sorted(groups, key=lambda symbol: -sum(count or 0 for count in counts.flops_of(groups[symbol]).values()))
    rows = [groups[symbol] for symbol in order]
    return [*_kernel_columns(order), *_launched(rows)[:1], *_counted(counts, rows), *_with_theory(counts, rows)]


def _launches(counts: Counts) -> list[Column]:
    rows = counts.rows
    ops: dict[int | None, str] = {op.call: op.name for op in counts.theory.operators} if counts.theory is not None else {}

    def dims(name: str, text: str, of: Callable[[Row], Any]) -> list[Column]:
        return [(f"{name}_{axis}", "count", f"{text} in {axis}", [of(row)[i] for row in rows]) for i, axis in enumerate("xyz")]

    def label(of: Callable[[Label], Any]) -> list[Any]:
        return [of(row.label) for row in rows]

    return [
        *_kernel_columns(row.symbol or "" for row in rows),
        *dims("grid", "blocks", lambda row: row.grid),
        *dims("block", "threads of a block", lambda row: row.block),
        ("shared_bytes", "count", "dynamic shared memory of a block", [row.shared_bytes for row in rows]),
        ("path", "text", "regions, ranges and modules", label(lambda found: found.path)),
        ("phase", "text", "forward, backward, recompute, or empty", label(lambda found: found.phase)),
        ("operator", "text", "the operator of PyTorch that launched it", label(lambda found: ops.get(found.call))),
        *_counted(counts, [[row] for row in rows]),
    ]


def _operators(counts: Counts) -> list[Column]:
    assert counts.theory is not None
    ops = counts.theory.operators
    executed: dict[int, list[Row]] = {}
    for row in counts.rows:
        if row.label.call is not None:
            executed.setdefault(row.label.call, []).append(row)
    columns: list[Column] = [
        ("operator", "text", "the operator", [op.name for op in ops]),
        ("kind", "text", "matmul, convolution, attention, elementwise, ...", [op.kind for op in ops]),
        ("unit", "text", "what would execute it", [op.unit for op in ops]),
        ("path", "text", "regions, ranges and modules", [op.path for op in ops]),
        ("phase", "text", "forward, backward, recompute, or empty", [op.phase for op in ops]),
        ("theory_flops", "count", "FLOPs by formula; absent without one", [op.flops for op in ops]),
    ]
    if executed:
        groups = [executed.get(op.call, []) for op in ops]
        columns += [*_launched(groups)[:1], *_counted(counts, groups)]
    return columns


def columns_of(counts: Counts, name: str) -> list[Column]:
    """A table as its columns."""
    if name not in counts.tables:
        hint = f"there are {', '.join(counts.tables)}; Counter(by=...) asks for more"
        raise AbsentError(f"these counts have no table {name!r}", hint)
    makers = {"total": _total, "regions": _regions, "kernels": _kernels, "launches": _launches, "operators": _operators}
    return [(name, kind, _sentence(text), values) for name, kind, text, values in makers[name](counts)]


def _sentence(text: str) -> str:
    """Descriptions of columns are sentences. A metric's name stays as it is."""
    first, _, rest = text.partition(" ")
    return f"{first if '__' in first else first[0].upper() + first[1:]}{' ' if rest else ''}{rest}."
