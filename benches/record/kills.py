"""Kills a program at random while it launches, and says what its recordings lack.

    kills.py FLOPGAP LAUNCHES [COUNT]

A kernel is lost where its launch is recorded and it is not, or where a number of the launches' order is missing.
"""

import concurrent.futures
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

flopgap, launches = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 200


def one(number: int) -> tuple[int, int, float, int]:
    wait = random.Random(number).uniform(1.0, 1.8)
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/x.sqlite"
        recorder = subprocess.Popen(
            [flopgap, "record", "-q", "-o", output, "--", "sh", "-c", f'echo $$ > {folder}/pid; exec {launches} 100000000'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(wait)
        os.kill(int(open(f"{folder}/pid").read()), signal.SIGKILL)
        killed = time.time_ns()
        recorder.wait()
        database = sqlite3.connect(output)
        value = lambda query: database.execute(query).fetchone()[0]
        origin = value("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
        kernels = value("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
        # Launches that had returned a tenth of a second before the last kernel that is here had ended.
        last = value("SELECT max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL")
        lost = value(
            f"""SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId
            WHERE s.value LIKE 'cudaLaunchKernel%' AND r.end < {last} - 100000000
            AND correlationId NOT IN (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL)"""
        )
        unnamed = value("SELECT count(*) FROM StringIds WHERE value LIKE 'unknown%'")
        return kernels, lost, (killed - origin - last) / 1e6, unnamed


with concurrent.futures.ThreadPoolExecutor(6) as pool:
    results = list(pool.map(one, range(count)))
before = sorted(milliseconds for _, _, milliseconds, _ in results)
print(
    f"{len(results)} kills, {sum(kernels for kernels, *_ in results)} kernels, "
    f"{sum(lost for _, lost, *_ in results)} lost, {sum(unnamed for *_, unnamed in results)} names unknown; "
    f"the last kernel ended {before[0]:.1f} to {before[-1]:.1f} ms before the kill, median {statistics.median(before):.1f}"
)
