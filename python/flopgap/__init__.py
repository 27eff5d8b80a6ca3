"""Executed FLOPs of what runs on the GPU, and the reports of Nsight Compute, Nsight Systems and ``torch.profiler`` as tables.

>>> import flopgap
>>> source = flopgap.read("fixtures/nsys/small_training_step.sqlite.zst")
>>> source.tables[:3]
['kernels', 'copies', 'memsets']

Tables go to Polars, pandas, pyarrow and DuckDB without a copy, whichever of them is there:

>>> import polars as pl
>>> kernels = pl.DataFrame(source["kernels"].select("class", "duration_ns"))
>>> kernels.group_by("class").agg(pl.col("duration_ns").sum()).sort("duration_ns").row(-1)
('matmul', 90862974)

What a function makes the GPU execute is counted where it runs:

>>> counts = flopgap.count(step, batch)  # doctest: +SKIP
>>> counts.flops["tensor bf16"]  # doctest: +SKIP
313532612608
"""

from . import answers, errors, estimates, found
from ._flopgap import Field, Schema, Source, Table, __version__, read
from .answers import compare, diff, gap, kernels, passes, summary
from .counter import Counter, count, counting, presets, region
from .estimates import Estimate, estimate
from .errors import AbsentError, CountError, FlopgapError, InputError, InputNotFoundError
from .monitor import Monitor
from .overhead import Gap
from .recording import Recording, record
from .peaks import Peaks, peaks_of
from .result import Counts
from .theory import Theory

__all__ = [
    "AbsentError",
    "CountError",
    "Counter",
    "Counts",
    "Estimate",
    "Field",
    "FlopgapError",
    "Gap",
    "InputError",
    "InputNotFoundError",
    "Monitor",
    "Peaks",
    "Recording",
    "Schema",
    "Source",
    "Table",
    "Theory",
    "__version__",
    "answers",
    "compare",
    "count",
    "counting",
    "diff",
    "errors",
    "estimate",
    "estimates",
    "found",
    "gap",
    "kernels",
    "passes",
    "peaks_of",
    "presets",
    "read",
    "record",
    "region",
    "summary",
]
