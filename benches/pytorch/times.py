"""Times steps of drawn models, without their kernels: times.py FOLDER SECONDS SEED COUNT export|forward|training [LABELS].

`export` writes a stripped .pt2 of each model in three batches, without a GPU. `forward` writes rows.jsonl: the time of a step in eager mode, in
loops before and after others, and of a replay as a CUDA graph. `training` writes train.jsonl: the same of steps with AdamW. `host_us` is what a step
of a fixed network of 96 small operators takes, just before. LABELS is a file with those to time, in the batch that was drawn.
"""

import json
import multiprocessing
import pathlib
import statistics
import sys
import tempfile
import time
import traceback

import torch
from torch import nn

from draw import drawn
from measure import DEVICE, build, export, graphed, loops, synchronize
from train import Step, replayed

BATCHES = 3
# Precisions of each of the three batches, and whether products of 32 bits are in TF32.
RUNS = [[("float32", False), ("float32", True), ("half", False)], [("half", False)], [("float32", False), ("float32", True)]]


def host():
    """A step that waits for its host: 32 blocks of three operators."""
    blocks = [block for _ in range(32) for block in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())]
    model, inputs = nn.Sequential(*blocks).to(DEVICE).eval(), torch.randn(64, 64, device=DEVICE)

    def step():
        with torch.no_grad():
            model(inputs)

    return lambda: round(min(loops(step, 4, 0.01)), 1)


def models(seed, count, labels):
    """(name, batch, kind, build, inputs, whether TF32) for each run."""
    for place, (name, batch, half, make, inputs) in enumerate(drawn(seed, count, 1 if labels else BATCHES)):
        for kind, tf32 in RUNS[0] if labels else RUNS[place % BATCHES]:
            kind = half if kind == "half" else kind
            if not labels or (f"{name}_b{batch}_{kind}" in labels and not tf32):
                yield name, batch, kind, make, inputs, tf32


def exports(folder, seed, count):
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    kinds = lambda place: sorted({kind for kind, _ in RUNS[place % BATCHES]})
    items = [(place, kind) for place in range(count * BATCHES) for kind in kinds(place)]
    workers = multiprocessing.cpu_count()
    for item in items + [None] * workers:
        todo.put(item)
    scratch = tempfile.mkdtemp()
    exporters = [context.Process(target=export, args=(todo, done, seed, count, scratch, str(folder), BATCHES), daemon=True) for _ in range(workers)]
    for exporter in exporters:
        exporter.start()
    for _ in items:
        *_, label, path, failed = done.get()
        print(label, failed or "exported", flush=True)
        if path:
            pathlib.Path(path).unlink()


def prepared(model, inputs, trains):
    """A step, and what times its replay."""
    if trains:
        step = Step(model.train(), inputs, fused=True, capturable=True)
        return step, lambda: replayed(step)
    run = lambda: model(*inputs)
    return run, lambda: graphed(run)


def timed(step, replay, reference):
    for _ in range(3):
        step()
    row = {"host_us": reference()}
    times = loops(step, 4)
    try:
        row["graph_us"] = round(replay(), 1)
    except Exception as error:
        row["graph_us"], row["graph_failed"] = None, str(error)[:200]
        synchronize()
    step()
    row["loops_us"] = [round(time, 1) for time in times + loops(step, 4)]
    return row | {"loop_us": statistics.median(row["loops_us"])}


def main():
    folder, seconds, seed, count, way = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    labels = set(pathlib.Path(sys.argv[6]).read_text().split()) if len(sys.argv) > 6 else None
    folder.mkdir(parents=True, exist_ok=True)
    if way == "export":
        return exports(folder, seed, count)
    trains, last = way == "training", None
    ends, reference = time.monotonic() + seconds, host()
    torch.set_grad_enabled(trains)
    with open(folder / ("train.jsonl" if trains else "rows.jsonl"), "w") as rows:
        rows.write(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "seed": seed}) + "\n")
        for name, batch, kind, make, inputs, tf32 in models(seed, count, labels):
            label = f"{name}_b{batch}_{kind}"
            row = {"model": name, "batch": batch, "label": label, "kind": kind, "tf32": tf32}
            # In training steps, convolutions are as PyTorch has them by default.
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32, tf32 or trains
            try:
                if label != last:
                    model = arguments = None
                    torch.cuda.empty_cache()
                    model, arguments = build(make, inputs, getattr(torch, kind))
                    last = label
                row |= timed(*prepared(model, arguments, trains), reference)
            except Exception:
                row["failed"], last = traceback.format_exc(limit=2)[-300:], None
            rows.write(json.dumps(row, separators=(",", ":")) + "\n")
            rows.flush()
            print(label, tf32, row.get("failed") or f"{row['loops_us']}, graph {row['graph_us']} us, host {row['host_us']}", flush=True)
            if time.monotonic() > ends:
                break


if __name__ == "__main__":
    main()
