"""Many Nsight Systems exports into a Hive-partitioned Parquet data set, in Python: pandas over sqlite3, written by pyarrow.

    for i in $(seq 200); do target/release/make-nsys-trace $((100000 + i)) traces/r$(printf %03d $i).sqlite; done
    python3 -m venv v && v/bin/pip install polars pandas pyarrow duckdb
    cargo build --release -p run-table
    v/bin/python benches/peers/collect_python.py measure target/release/run-table traces scratch [ROUNDS]

`measure` runs `run-table collect` and this script over the same traces one after the other, each in a process of its own, shows CPU time, memory
and bytes, and then asks both data sets the same questions in run-table, DuckDB and Polars. All must give the same answers.
`ask PROGRAM DATA_SET SCRATCH [ROUNDS]` asks alone. `collect TRACES DIR` is the part in Python alone: the tables and columns that `run-table` writes, without what it derives from the kernels' names
(display_name, class, precision), and without checks.
"""

import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time

COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
SYNC = {1: "Event sync", 2: "Stream wait event", 3: "Stream sync", 4: "Context sync"}
STYLE = {59: "PushPop", 60: "StartEnd", 34: "Mark"}
PLACE = {
    "deviceId": "device", "contextId": "context", "greenContextId": "green_context", "streamId": "stream",
    "correlationId": "correlation",
}


def collect(traces, root):
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(table, run, frame):
        folder = pathlib.Path(root, table, f"run={run}")
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "part-0.parquet"
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), f"{part}.tmp", compression="zstd", compression_level=1)
        os.replace(f"{part}.tmp", part)

    def on_gpu(frame):
        frame = frame.rename(columns={"start": "start_ns", "end": "end_ns", **PLACE})
        frame.insert(2, "duration_ns", frame["end_ns"] - frame["start_ns"])
        frame["pid"] = frame.pop("globalPid") // 0x1000000 % 0x1000000
        return frame

    def on_thread(frame):
        frame["pid"] = frame["globalTid"] // 0x1000000 % 0x1000000
        frame["tid"] = frame.pop("globalTid") % 0x1000000
        return frame

    for path in sorted(pathlib.Path(traces).glob("*.sqlite")):
        run = path.stem
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            read = lambda sql: pd.read_sql_query(sql, file)
            names = read("select id, value from StringIds").set_index("id")["value"].astype("category")
            place = "start, end, " + ", ".join(PLACE) + ", globalPid"
            kernels = on_gpu(read(
                f"select {place}, demangledName, shortName, gridX as grid_x, gridY as grid_y, gridZ as grid_z, blockX as block_x,"
                " blockY as block_y, blockZ as block_z, registersPerThread as registers, staticSharedMemory as static_shared_bytes,"
                " dynamicSharedMemory as dynamic_shared_bytes, graphNodeId as graph_node from CUPTI_ACTIVITY_KIND_KERNEL"
            ))
            kernels["name"] = kernels.pop("demangledName").map(names)
            kernels["short_name"] = kernels.pop("shortName").map(names)
            write("kernels", run, kernels)
            copies = on_gpu(read(
                f"select {place}, bytes, copyKind, srcKind, dstKind, srcDeviceId as source_device, dstDeviceId as destination_device"
                " from CUPTI_ACTIVITY_KIND_MEMCPY"
            ))
            for name, column, labels in (("kind", "copyKind", COPIES), ("source", "srcKind", MEMORY), ("destination", "dstKind", MEMORY)):
                copies[name] = copies.pop(column).map(labels).astype("category")
            write("copies", run, copies)
            memsets = on_gpu(read(f"select {place}, bytes, memKind from CUPTI_ACTIVITY_KIND_MEMSET"))
            memsets["memory"] = memsets.pop("memKind").map(MEMORY).astype("category")
            write("memsets", run, memsets)
            waits = on_gpu(read(f"select {place}, syncType, eventId as event from CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"))
            waits["kind"] = waits.pop("syncType").map(SYNC).astype("category")
            write("synchronizations", run, waits)
            calls = on_thread(read(
                "select start as start_ns, end as end_ns, end - start as duration_ns, nameId, globalTid, correlationId as correlation,"
                " eventClass as api, returnValue as result from CUPTI_ACTIVITY_KIND_RUNTIME"
            ))
            calls["name"] = calls.pop("nameId").map(names)
            write("api_calls", run, calls)
            ranges = on_thread(read(
                "select rowid as id, start as start_ns, end as end_ns, end - start as duration_ns, text, textId, eventType, category,"
                " globalTid, domainId, endGlobalTid % 16777216 as end_tid from NVTX_EVENTS where eventType in (59, 60, 34)"
            ))
            ranges["name"] = ranges.pop("text").fillna(ranges.pop("textId").map(names).astype(object)).astype("category")
            ranges["style"] = ranges.pop("eventType").map(STYLE).astype("category")
            write("ranges", run, ranges)


QUESTION = "select {run}, name, count(*) as calls, {sum} as total_ns from {kernels} group by {run}, name order by {run}, name"

OURS = """
import polars as pl
found = pl.scan_parquet(root + "/kernels", hive_schema={"run": pl.String}).group_by("run", "name").agg(
    pl.len().alias("calls"), pl.col("duration_ns").sum().alias("total_ns")).sort("run", "name").collect(engine="streaming")
rows = [[run, str(name), calls, total] for run, name, calls, total in found.iter_rows()]
"""
DUCK = """
import duckdb
found = duckdb.sql(f"select run, name, count(*), sum(duration_ns)::bigint from read_parquet('{root}/kernels/*/*.parquet',"
    " hive_partitioning = true, hive_types = {'run': varchar}) group by all order by run, name").fetchall()
rows = [list(row) for row in found]
"""
PRINT = "\nimport json; json.dump(sorted(rows), open(out, 'w'))"


def measured(command):
    """CPU seconds, peak memory in MB and wall seconds of a process."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - start


def size(root):
    return sum(path.stat().st_size for path in pathlib.Path(root).rglob("*.parquet"))


def measure(program, traces, scratch, rounds):
    scratch = pathlib.Path(scratch)
    ours, python = str(scratch / "ours"), str(scratch / "python")
    found = {"run-table collect": [], "pandas, sqlite3, pyarrow": []}
    for _ in range(rounds):
        for root in (ours, python):
            shutil.rmtree(root, ignore_errors=True)
        found["run-table collect"].append(measured([program, "collect", traces, "-o", ours]))
        found["pandas, sqlite3, pyarrow"].append(measured([sys.executable, __file__, "collect", traces, python]))
    again = [measured([program, "collect", traces, "-o", ours]) for _ in range(rounds)]
    show(found | {"run-table collect, unchanged": again})
    print(f"bytes of Parquet: {size(ours):,} and {size(python):,}")
    ask(program, ours, scratch, rounds)


def ask(program, ours, scratch, rounds):
    scratch = pathlib.Path(scratch)
    asked, answers = {}, {}
    for _ in range(rounds):
        for name, code in {"DuckDB": DUCK, "Polars in Python": OURS}.items():
            out = str(scratch / "answer.json")
            script = f"root = {ours!r}; out = {out!r}\n{code}{PRINT}"
            asked.setdefault(name, []).append(measured([sys.executable, "-c", script]))
            answers[name] = json.load(open(out))
        out = str(scratch / "answer.run-table.json")
        sql = QUESTION.format(run="run", sum="sum(duration_ns)", kernels="kernels")
        asked.setdefault("run-table query", []).append(measured([program, "query", ours, "--sql", sql, "-o", out]))
        answers["run-table query"] = sorted(list(row.values()) for row in json.load(open(out)))
    show(asked)
    first = answers["run-table query"]
    assert all(answer == first for answer in answers.values()), "the answers differ"
    print(f"{len(first)} rows, the same in all; {sum(row[2] for row in first):,} kernels")


def show(found):
    for name, rounds in found.items():
        cpu, memory, wall = (statistics.median(values) for values in zip(*rounds))
        least, most = min(row[0] for row in rounds), max(row[0] for row in rounds)
        print(f"{name:32} {cpu:9.2f} CPU s ({least:.2f} to {most:.2f}) {memory:7.0f} MB {wall:9.2f} s")


if __name__ == "__main__":
    if sys.argv[1] == "collect":
        collect(*sys.argv[2:4])
    else:
        command = {"measure": measure, "ask": ask}[sys.argv[1]]
        command(*sys.argv[2:5], int(sys.argv[5]) if len(sys.argv) > 5 else 1)
