"""Compares the counts of a step by `flopgap record --flops` with those of ncu:

    compare.py FLOPGAP MODEL...

ncu profiles one step of `models.py`; the sum of each counter over its kernels has to lie between the least and the most
that the recording has for the kernels of a step, and between those of steps that were counted as a whole.
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

OF_WHOLE_STEPS = """
    SELECT s.value, m.least, m.most FROM FLOPGAP_STEP t JOIN FLOPGAP_METRIC m ON m.counted = t.counted
    JOIN StringIds s ON s.id = m.metric
"""


def recorded(flopgap, model, file):
    """The sums of each counter, least and most, of some steps, and those of whole steps."""
    command = [flopgap, "record", "--quiet", "--flops", "--range", "step", "-o", file]
    command += ["--", "python3", PROGRAM, model, SECONDS]
    subprocess.run(command, check=True)
    database = sqlite3.connect(file)
    database.execute("CREATE INDEX launches ON CUPTI_ACTIVITY_KIND_KERNEL (correlationId)")
    steps = database.execute("SELECT start, end FROM NVTX_EVENTS WHERE text = 'step' ORDER BY start").fetchall()
    counts = lambda query, *values: {name: bounds for name, *bounds in database.execute(query, *values)}
    return [counts(OF_A_STEP, step) for step in steps[STEPS]], counts(OF_WHOLE_STEPS)


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
    print("model,counter,ncu,least,most,whole_least,whole_most,kernels_agree,steps_agree")
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            steps, whole = recorded(flopgap, model, f"{folder}/step.sqlite")
        metrics = [name for name in steps[0] if "__ops_path_" in name or "__sass_" in name]
        for name, expected in by_ncu(model, metrics).items():
            least = min(step[name][0] for step in steps)
            most = max(step[name][1] for step in steps)
            bounds = [least, most, *whole.get(name, (0, 0))]
            agree = [least <= expected <= most for least, most in (bounds[:2], bounds[2:])]
            print(",".join([model, name, *(f"{it:.0f}" for it in (expected, *bounds)), *map(str, agree)]), flush=True)


if __name__ == "__main__":
    main()
