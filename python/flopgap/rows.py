"""What was counted of regions and launches, run by run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .errors import CountError
from .modules import Label

__all__ = ["Row", "merged"]


@dataclass(frozen=True)
class Row:
    """What was counted of a region, or of a launch."""

    label: Label
    #: Of a launch: the kernel's name as the compiler wrote it, blocks, threads, bytes of dynamic shared memory.
    symbol: str | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    shared_bytes: int | None = None
    launches: int = 0
    graphs: int = 0
    #: By metric.
    values: dict[str, int] = field(default_factory=dict)
    #: Of a region: the kernels launched in it, without those of graphs.
    symbols: tuple[str, ...] = ()

    def kernels(self) -> Iterable[str]:
        """The kernels launched."""
        return self.symbols if self.symbol is None else (self.symbol,)


def merged(results: Sequence[list[Row]]) -> list[Row]:
    """Rows of several runs, each of other metrics, as one list. What was counted twice (time, bytes) is from the first."""
    if not results:
        return []
    first, *others = results
    if any(row.symbol is not None for row in first):
        for number, rows in enumerate(others, 2):
            seen = [(row.symbol, row.grid, row.block, row.label.path) for row in rows]
            if seen != [(row.symbol, row.grid, row.block, row.label.path) for row in first]:
                raise _differs(number, rows, first)
            first = [_with(row, other.values) for row, other in zip(first, rows)]
        return first
    return _merged_regions([_by_label(rows) for rows in results])


def _merged_regions(runs: list[dict[Label, Row]]) -> list[Row]:
    """Rows of regions. Those that launched nothing need not be in every run: what moves without a kernel is not the same each time."""
    first, *others = runs
    for number, rows in enumerate(others, 2):
        launched = [{label: row.launches for label, row in run.items() if row.launches} for run in (rows, first)]
        if launched[0] != launched[1]:
            raise _differs(number, rows.values(), first.values())
        for label, row in rows.items():
            first[label] = _with(first[label], row.values) if label in first else row
    metrics = {metric for rows in runs for row in rows.values() for metric in row.values}
    complete = (_with(row, dict.fromkeys(metrics, 0)) for row in first.values())
    return [row for row in complete if row.launches or row.graphs or any(row.values.values())]


def _with(row: Row, values: dict[str, int]) -> Row:
    """A row with more values; those that it has stay."""
    return replace(row, values={**values, **row.values})


def _differs(number: int, rows: Iterable[Row], first: Iterable[Row]) -> CountError:
    launched = (sum(row.launches for row in rows), sum(row.launches for row in first))
    return CountError(
        f"run {number} launched something else than the first ({launched[0]} kernels, the first {launched[1]})",
        "run the function once before it is counted, and let it do the same each time; or count one preset",
    )


def _by_label(rows: list[Row]) -> dict[Label, Row]:
    """Regions of one name together, in the order in which they were first entered."""
    together: dict[Label, Row] = {}
    for row in rows:
        before = together.get(row.label)
        if before is None:
            together[row.label] = row
        else:
            values = {metric: before.values[metric] + count for metric, count in row.values.items()}
            together[row.label] = replace(
                before,
                values=values,
                launches=before.launches + row.launches,
                graphs=before.graphs + row.graphs,
                symbols=before.symbols + row.symbols,
            )
    return together
