"""How far estimates are off what measure.py, language.py, compiled.py and train.py timed: judge.py FOLDER MACHINE [PROGRAM].

FOLDER has their rows (rows.jsonl, compiled.jsonl, train.jsonl; what is absent is not judged) and models; PROGRAM is `flopgap` or its path.
Steps are those of a loop that waits at its end.
"""

import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

# What is judged: a name, the rows, how PyTorch ran the model, its time in a row, and whether it trains.
RUNS = [
    ("graph", "rows", "graph", "graph_us", False),
    ("eager", "rows", "eager", "loop_us", False),
    ("compile-graph", "rows", "compile-graph", "compiled_us", False),
    ("compile-graph", "compiled", "compile-graph", "graph_us", False),
    ("compile", "compiled", "compile", "loop_us", False),
    ("training, graph", "train", "graph", "graph_us", True),
    ("training, eager", "train", "eager", "loop_us", True),
]


def estimated(folder, machine, program, row, way, trains):
    path = folder / f"{row['label']}.pt2"
    command = [program, "calibrate", "estimate", path, "--machine", machine, "--as", way, "--format", "json"] + ["--train"] * trains
    if row["kind"] == "float32" and (row["tf32"] or not trains):
        # By default convolutions of a model in fp32 are in TF32, as in the training steps.
        command += ["--precision", "tf32" if row["tf32"] else "fp32"]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise SystemExit(f"{path}: {found.stderr.strip()}")
    return json.loads(found.stdout)


def arithmetic(row, trains):
    if row["kind"] != "float32":
        return "16 bits"
    return "tf32" if row["tf32"] else "fp32, convolutions in tf32" if trains else "fp32"


def line(name, judged):
    if not judged:
        return
    errors = sorted(abs(1000 * answer["time_ms"] / measured - 1) for _, measured, answer in judged)
    inside = sum(answer["time_low_ms"] <= measured / 1000 <= answer["time_high_ms"] for _, measured, answer in judged)
    numbers = [statistics.mean(errors), statistics.median(errors), errors[int(0.9 * len(errors))], inside / len(judged)]
    print(f"| {name} | {len(judged)} | " + " | ".join(f"{100 * number:.1f}" for number in numbers) + " |")


def main():
    folder, machine = pathlib.Path(sys.argv[1]), sys.argv[2]
    program = sys.argv[3] if len(sys.argv) > 3 else "flopgap"
    print("| model as | runs | MAPE, % | median | p90 | covered |\n|---|---:|---:|---:|---:|---:|")
    worst = []
    for name, file, way, time, trains in RUNS:
        path = folder / f"{file}.jsonl"
        rows = [json.loads(text) for text in path.read_text().splitlines()[1:]] if path.exists() else []
        timed = [row for row in rows if "failed" not in row and row.get(time)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda row: estimated(folder, machine, program, row, way, trains), timed))
        judged = [(row, row[time], answer) for row, answer in zip(timed, answers) if answer["time_ms"]]
        if len(judged) < len(timed):
            print(f"{name}: {len(timed) - len(judged)} runs are not estimated", file=sys.stderr)
        line(name, judged)
        for kind in ("fp32", "fp32, convolutions in tf32", "tf32", "16 bits"):
            line(f"{name}, {kind}", [run for run in judged if arithmetic(run[0], trains) == kind])
        if way == "eager":
            line(f"{name}, where the GPU decides", [run for run in judged if run[2]["gpu_ms"] >= run[2]["host_ms"]])
        else:
            found = sorted(judged, key=lambda run: -abs(1000 * run[2]["time_ms"] / run[1] - 1))[:12]
            worst += [(name, arithmetic(run[0], trains), *run) for run in found]
    print("\n| worst | as | measured, µs | estimated |\n|---|---|---:|---:|")
    for name, kind, row, measured, answer in worst:
        print(f"| {row['label']}, {kind} | {name} | {measured:.0f} | {1000 * answer['time_ms']:.0f} |")


if __name__ == "__main__":
    main()
