"""Kernels of an Nsight Systems export summed by name, in Python: CPU time and memory of whole processes, imports included.

    cargo run --release -p flopgap-benches --bin make-nsys-trace -- 1000000 trace.sqlite
    python3 -m venv v && v/bin/pip install maturin polars pandas pyarrow duckdb
    v/bin/maturin build --profile dist --manifest-path python/Cargo.toml --out . && v/bin/pip install flopgap-*.whl
    v/bin/python benches/peers/nsys_python.py trace.sqlite [ROUNDS]

Each way runs in a process of its own, one after the other, round by round; shown are the medians. All must give the same sums.
"""

import os
import statistics
import subprocess
import sys

WAYS = {
    "flopgap and polars": """
import flopgap, polars as pl
kernels = pl.DataFrame(flopgap.read(path).kernels.select("name", "duration_ns"))
sums = dict(kernels.group_by("name").agg(pl.col("duration_ns").sum()).iter_rows())
""",
    "flopgap and duckdb": """
import flopgap, duckdb
kernels = flopgap.read(path).kernels.select("name", "duration_ns")
sums = dict(duckdb.sql("select name, sum(duration_ns)::bigint from kernels group by name").fetchall())
""",
    "flopgap and pyarrow": """
import flopgap, pyarrow
kernels = pyarrow.table(flopgap.read(path).kernels.select("name", "duration_ns")).unify_dictionaries()
rows = kernels.group_by("name").aggregate([("duration_ns", "sum")]).to_pylist()
sums = {row["name"]: row["duration_ns_sum"] for row in rows}
""",
    "flopgap and pandas": """
import flopgap, pandas as pd
kernels = pd.DataFrame.from_arrow(flopgap.read(path).kernels.select("name", "duration_ns"))
sums = {name: int(total) for name, total in kernels.groupby("name", observed=True)["duration_ns"].sum().items()}
""",
    "flopgap.kernels": """
import flopgap
sums = {kernel.name: kernel.times.total_ns for kernel in flopgap.kernels(path).kernels}
""",
    "pandas and sqlite3": """
import sqlite3, pandas as pd
database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
kernels = pd.read_sql_query("select demangledName, end - start as duration from CUPTI_ACTIVITY_KIND_KERNEL", database)
names = pd.read_sql_query("select id, value from StringIds", database)
kernels = kernels.merge(names, left_on="demangledName", right_on="id")
sums = {name: int(total) for name, total in kernels.groupby("value")["duration"].sum().items()}
""",
    "pandas and sqlite3, all columns": """
import sqlite3, pandas as pd
database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
kernels = pd.read_sql_query(
    "select k.*, s.value as name from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.demangledName", database)
sums = {name: int(total) for name, total in (kernels.end - kernels.start).groupby(kernels.name).sum().items()}
""",
    "polars and sqlite3": """
import sqlite3, polars as pl
database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
query = "select s.value, k.end - k.start from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.demangledName"
kernels = pl.DataFrame(database.execute(query).fetchall(), schema=["name", "duration"], orient="row")
sums = dict(kernels.group_by("name").agg(pl.col("duration").sum()).iter_rows())
""",
    "sqlite3 alone": """
import sqlite3
database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
query = \"\"\"select s.value, sum(k.end - k.start) from CUPTI_ACTIVITY_KIND_KERNEL k
join StringIds s on s.id = k.demangledName group by s.value\"\"\"
sums = dict(database.execute(query).fetchall())
""",
}

AFTER = """
import hashlib
print(len(sums), hashlib.sha256(repr(sorted(sums.items())).encode()).hexdigest())
"""


def run(code, path):
    """CPU seconds, peak memory in MB and what was printed."""
    program = [sys.executable, "-c", f"import sys; path = sys.argv[1]{code}{AFTER}", path]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {code}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output


def main():
    path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    measured = {way: [] for way in WAYS}
    answers = {}
    for _ in range(rounds):
        for way, code in WAYS.items():
            seconds, megabytes, answers[way] = run(code, path)
            measured[way].append((seconds, megabytes))
    print(f"{'way':<33}{'CPU s':>8}{'least':>8}{'MB':>8}")
    for way, values in measured.items():
        seconds = [one for one, _ in values]
        megabytes = statistics.median(one for _, one in values)
        print(f"{way:<33}{statistics.median(seconds):>8.2f}{min(seconds):>8.2f}{megabytes:>8.0f}")
    if len(set(answers.values())) != 1:
        raise SystemExit(f"the sums differ: {answers}")


main()
