"""``python -m flopgap FILE``: what a file is, and what it answers.

Exit codes are those of all programs of flopgap: 0 done, 1 failed, 2 wrong usage, 3 what was asked for is not in the input.
"""

from __future__ import annotations

import argparse
import os
import sys

from . import __version__, read, summary
from ._flopgap import Source, Table
from .errors import AbsentError, FlopgapError

ROWS = 10
WIDTH = 48


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    text = str(value)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _table(table: Table, columns: list[str], rows: int) -> str:
    """The first rows of a table."""
    table = table.select(*columns)
    found = table.to_dicts(rows + 1)
    numbers = [table.schema[column].type != "text" for column in columns]
    lines = [columns] + [[_cell(row[column]) for column in columns] for row in found[:rows]]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    texts = []
    for line in lines:
        cells = [cell.rjust(width) if number else cell.ljust(width) for cell, width, number in zip(line, widths, numbers)]
        texts.append("  ".join(cells).rstrip())
    texts.insert(1, "─" * (sum(widths) + 2 * (len(widths) - 1)))
    if len(found) > rows:
        texts.append("...")
    return "\n".join(texts)


#: What is shown of a table; the first columns of others.
COLUMNS = {
    ("ncu", "launches"): ["display_name", "class", "grid_x", "block_x", "flops", "dram_bytes", "time_ns"],
    ("kineto", "operators"): ["name", "part", "duration_ns", "flops"],
    ("run", "metrics"): ["n", "d", "m", "pass", "total_flops", "epsilon", "rho", "kappa", "omega"],
}


def _shown(source: Source, rows: int) -> None:
    print(f"{source.path}: {source.kind}, with {', '.join(source.tables)}\n")
    name = source.tables[0]
    table = source[name]
    columns = COLUMNS.get((source.kind, name), table.columns[:7])
    # What was not measured of any of these rows needs no column.
    found = table.select(*columns).to_dicts(rows)
    print(_table(table, [column for column in columns if any(row[column] is not None for row in found)] or columns, rows))


def main(arguments: list[str] | None = None) -> int:
    """Prints the answer; the exit code."""
    parser = argparse.ArgumentParser(prog="flopgap", description="What profilers recorded, and what it answers.")
    parser.add_argument("file", metavar="FILE", nargs="+", help="reports, traces or run directories; two traces are compared")
    parser.add_argument("--table", metavar="NAME", help="show the first rows of a table instead")
    parser.add_argument("--rows", metavar="N", type=int, default=ROWS, help="so many rows (%(default)s)")
    parser.add_argument("--version", action="version", version=f"flopgap {__version__}")
    given = parser.parse_args(arguments)
    if given.rows < 1:
        parser.error("--rows is at least 1")
    try:
        sources = [read(path) for path in given.file]
        if given.table is not None:
            for source in sources:
                table = source[given.table]
                print(_table(table, table.columns, given.rows))
        elif all(source.kind == "nsys" for source in sources):
            print(summary(*given.file, top=given.rows).markdown, end="")
        else:
            for source in sources:
                _shown(source, given.rows)
        for source in sources:
            for warning in source.warnings:
                print(f"flopgap: warning: {warning}", file=sys.stderr)
    except FlopgapError as error:
        print(f"flopgap: error: {error.message}", file=sys.stderr)
        if error.hint is not None:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return 3 if isinstance(error, AbsentError) else 1
    except BrokenPipeError:
        # The reader went away: end without a word, also when Python flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
