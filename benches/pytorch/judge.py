"""How far estimates are off what measure.py and language.py timed: judge.py FOLDER MACHINE [PROGRAM].

FOLDER has their rows.jsonl and models; PROGRAM is `flopgap` or its path. Steps are those of a loop that waits at its end.
"""

import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys


def estimated(folder, machine, program, row, way):
    path = folder / f"{row['label']}.pt2"
    command = [program, "calibrate", "estimate", path, "--machine", machine, "--as", way, "--format", "json"]
    # By default convolutions of a model in fp32 are in TF32.
    precision = ["--precision", "tf32" if row["tf32"] else "fp32"] if row["kind"] == "float32" else []
    found = subprocess.run(command + precision, capture_output=True, text=True)
    if found.returncode:
        raise SystemExit(f"{path}: {found.stderr.strip()}")
    return json.loads(found.stdout)


def arithmetic(row):
    return "tf32" if row["tf32"] else "fp32" if row["kind"] == "float32" else "16 bits"


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
    rows = [json.loads(text) for text in (folder / "rows.jsonl").read_text().splitlines()[1:]]
    rows = [row for row in rows if "failed" not in row]
    print("| model as | runs | MAPE, % | median | p90 | covered |\n|---|---:|---:|---:|---:|---:|")
    worst = []
    for way, time in (("graph", "graph_us"), ("eager", "loop_us"), ("compile-graph", "compiled_us")):
        timed = [row for row in rows if row.get(time)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda row: estimated(folder, machine, program, row, way), timed))
        judged = [(row, row[time], answer) for row, answer in zip(timed, answers) if answer["time_ms"]]
        if len(judged) < len(timed):
            print(f"{way}: {len(timed) - len(judged)} runs are not estimated", file=sys.stderr)
        line(way, judged)
        for name in ("fp32", "tf32", "16 bits"):
            line(f"{way}, {name}", [run for run in judged if arithmetic(run[0]) == name])
        if way == "eager":
            line("eager, where the GPU decides", [run for run in judged if run[2]["gpu_ms"] >= run[2]["host_ms"]])
        elif way == "graph":
            worst = sorted(judged, key=lambda run: -abs(1000 * run[2]["time_ms"] / run[1] - 1))[:12]
    print("\n| worst as a graph | measured, µs | estimated |\n|---|---:|---:|")
    for row, measured, answer in worst:
        print(f"| {row['label']}, {arithmetic(row)} | {measured:.0f} | {1000 * answer['time_ms']:.0f} |")


if __name__ == "__main__":
    main()
