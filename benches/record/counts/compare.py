"""Compares the counts of a step by `flopgap record --flops` with those of ncu:

    compare.py FLOPGAP MODEL...

ncu profiles one step of `models.py`; the sum of each counter over its kernels has to lie between the least and the most
that the recording has for the kernels of a step.
"""

import csv
import io
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(__file__).with_name("models.py"))
SECONDS = "12"
#: Steps of the recording that are compared, after the first ones.
STEPS = slice(5, 25)

OF_A_STEP = """
    SELECT s.value, sum(m.least), sum(m.most) FROM CUPTI_ACTIVITY_KIND_RUNTIME r
    JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId
    JOIN FLOPGAP_KERNEL f ON f.kernel = k.rowid JOIN FLOPGAP_METRIC m ON m.counted = f.counted
    JOIN StringIds s ON s.id = m.metric WHERE r.start >= ? AND r.end <= ? GROUP BY s.value
"""


def recorded(flopgap, model, file):
    """The sums of each counter, least and most, of some steps."""
    command = [flopgap, "record", "--quiet", "--flops", "-o", file, "--", "python3", PROGRAM, model, SECONDS]
    subprocess.run(command, check=True)
    database = sqlite3.connect(file)
    database.execute("CREATE INDEX launches ON CUPTI_ACTIVITY_KIND_KERNEL (correlationId)")
    steps = database.execute("SELECT start, end FROM NVTX_EVENTS WHERE text = 'step' ORDER BY start").fetchall()
    return [{name: (least, most) for name, least, most in database.execute(OF_A_STEP, step)} for step in steps[STEPS]]


def by_ncu(model, metrics):
    """The sum of each counter over the kernels of one step."""
    command = ["ncu", "--profile-from-start", "off", "--metrics", ",".join(metrics), "--csv", "--page", "raw"]
    command += ["--print-units", "base", "python3", PROGRAM, model, "0"]
    run = subprocess.run(command, env={**os.environ, "NCU": "1"}, capture_output=True, text=True, check=True)
    table = run.stdout[run.stdout.find('"ID"') :]
    # The first row has the units.
    kernels = list(csv.DictReader(io.StringIO(table)))[1:]
    return {metric: sum(float(kernel[metric].replace(",", "")) for kernel in kernels) for metric in metrics}


def main():
    flopgap, *models = sys.argv[1:]
    print("model,counter,ncu,least,most,equal")
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            steps = recorded(flopgap, model, f"{folder}/step.sqlite")
        metrics = [name for name in steps[0] if "__ops_path_" in name or "__sass_" in name]
        for name, expected in by_ncu(model, metrics).items():
            least = min(step[name][0] for step in steps)
            most = max(step[name][1] for step in steps)
            print(f"{model},{name},{expected:.0f},{least:.0f},{most:.0f},{least <= expected <= most}", flush=True)


if __name__ == "__main__":
    main()
