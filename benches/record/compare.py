"""Compares two exports of the same program: counts by name, and medians of kernels."""

import collections
import sqlite3
import statistics
import sys

QUERIES = {
    "kernels": "SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName",
    "short names": "SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName",
    "mangled names": "SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.mangledName",
    "copies": "SELECT copyKind || ' ' || bytes || ' ' || srcKind || ' ' || dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    "sets": "SELECT bytes || ' ' || memKind || ' ' || value FROM CUPTI_ACTIVITY_KIND_MEMSET",
    "calls": "SELECT s.value || ' ' || eventClass FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId",
    "ranges": "SELECT eventType || ' ' || coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) FROM NVTX_EVENTS",
    "syncs": "SELECT syncType || ' ' || streamId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "nodes": "SELECT count(*) FROM CUDA_GRAPH_NODE_EVENTS",
}


def rows(path, query):
    try:
        return [row[0] for row in sqlite3.connect(path).execute(query)]
    except sqlite3.OperationalError as error:
        return [f"({error})"]


first, second = sys.argv[1:3]
for what, query in QUERIES.items():
    counts = [collections.Counter(rows(path, query)) for path in (first, second)]
    different = {name: (counts[0][name], counts[1][name]) for name in counts[0] | counts[1] if counts[0][name] != counts[1][name]}
    print(f"{what}: {counts[0].total()} and {counts[1].total()}, {len(different)} names differ")
    for name, pair in sorted(different.items(), key=lambda item: str(item[0]))[:25]:
        print("   ", pair, str(name)[:150])
times = []
for path in (first, second):
    query = "SELECT s.value, end - start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.mangledName"
    by_name = collections.defaultdict(list)
    for name, duration in sqlite3.connect(path).execute(query):
        by_name[name].append(duration)
    times.append({name: statistics.median(durations) for name, durations in by_name.items()})
ratios = sorted(times[1][name] / times[0][name] for name in times[0].keys() & times[1].keys())
if ratios:
    print(f"medians of kernels, second to first: {ratios[0]:.3f} to {ratios[-1]:.3f}, median {statistics.median(ratios):.3f}")
