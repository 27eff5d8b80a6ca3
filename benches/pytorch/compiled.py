"""Times drawn models under torch.compile: compiled.py FOLDER SECONDS [FIRST [COUNT]].

Writes compiled.jsonl: for each model and precision the time of a replay of its kernels as a CUDA graph, and its operators and fused kernels in
the order of their launches. Models are those of fixtures/pytorch/models.tar.zst, from place FIRST on. Many processes compile, and keep what
they compiled; when two thirds of the time are over, they time their models one after the other, and those that still compile are ended. With
TF32=1 models of 32 bits alone, whose products and convolutions are in TF32. SEED, GRAPHS and LAYERS are those of `train.py`. With BATCHES=1
every model that is drawn, in three batches. With TIMES=1 the time of a step in the default mode in place of its kernels: in a process that was
profiled once, launches cost 1.3 to 1.4 times as much.
"""

import bisect
import json
import multiprocessing
import os
import pathlib
import queue
import statistics
import sys
import tempfile
import time
import traceback
import warnings

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402

from measure import DEVICE, build, drawn, graphed, loops, synchronize  # noqa: E402
from train import SEED, archives  # noqa: E402

warnings.filterwarnings("ignore")
COMPILERS = int(os.environ.get("COMPILERS", "15"))
TF32, TIMES = "TF32" in os.environ, "TIMES" in os.environ
# Precisions of each batch of a model, and whether products of 32 bits are in TF32.
RUNS = [[("float32", False), ("half", False)], [("half", False)], [("float32", True)]]
BATCHES = len(RUNS) if "BATCHES" in os.environ else 1
MODELS = 190


def kernels(run):
    """The operators of a step that launch kernels, in the order of their launches: name, sizes and steps of its inputs, their types, and
    its kernels (name, median nanoseconds). A fused kernel is an operator. None if steps differ."""
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if DEVICE == "cuda" else [])
    with torch.profiler.profile(activities=kinds, record_shapes=True) as profile:
        for repeat in range(3):
            with torch.profiler.record_function(f"repeat:{repeat}"):
                run()
            synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.load(open(file.name))["traceEvents"]
    repeats = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") == "user_annotation" and event["name"].startswith("repeat:"))
    operators = []
    for event in sorted((event for event in events if event.get("cat") == "cpu_op" and event["name"].startswith(("aten::", "triton_"))), key=lambda event: (event["ts"], -event["dur"])):
        # Operators that others call are theirs.
        if not operators or event["ts"] >= operators[-1]["ts"] + operators[-1]["dur"]:
            operators.append(event)
    starts = [event["ts"] for event in operators]
    calls = {event["args"]["correlation"]: event["ts"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})}
    steps = [[] for _ in repeats]
    known = {}
    for event in sorted((event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda event: event["ts"]):
        called = calls.get(event["args"].get("correlation"))
        if called is None:
            return None
        step = bisect.bisect_right(repeats, (called, float("inf"))) - 1
        place = bisect.bisect_right(starts, called) - 1
        inside = place >= 0 and called <= operators[place]["ts"] + operators[place]["dur"]
        if (operator := known.get(place)) is None or not inside:
            args = operators[place].get("args", {}) if inside else {}
            name = operators[place]["name"] if inside else event["name"]
            operator = [name[:80], args.get("Input Dims", []), args.get("Input Strides", []), args.get("Input type", []), []]
            steps[step].append(operator)
            known |= {place: operator} if inside else {}
        operator[4].append([event["name"][:60], event["dur"] * 1e3])
    same = lambda step: [(operator[0], len(operator[4])) for operator in step]
    if any(same(step) != same(steps[0]) for step in steps):
        return None
    for place, operator in enumerate(steps[0]):
        for number, kernel in enumerate(operator[4]):
            kernel[1] = round(statistics.median(step[place][4][number][1] for step in steps))
    return steps[0]


def computed(tf32):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def compiled(todo, done, ready, go, turn, ends):
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    # Models share code: each is a compilation of its own, for its own sizes.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 4096
    torch._dynamo.config.automatic_dynamic_shapes = False
    models = list(drawn(SEED, MODELS, BATCHES))
    kept = []
    while time.time() < ends:
        try:
            place, kind, tf32 = todo.get(timeout=1)
        except queue.Empty:
            break
        name, batch, half, make, inputs = models[place]
        kind = half if kind == "half" else kind
        row = {"model": name, "batch": batch, "label": f"{name}_b{batch}_{kind}", "kind": kind, "tf32": tf32}
        computed(tf32)
        begin = time.time()
        try:
            model, arguments = build(make, inputs, getattr(torch, kind))
            run = torch.compile(model, dynamic=False)
            for _ in range(3):
                run(*arguments)
            synchronize()
            row["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
            torch._dynamo.utils.counters.clear()
            row["compile_s"] = round(time.time() - begin, 1)
            kept.append((row, run, arguments))
            print(f"{row['label']}: compiled in {row['compile_s']} s", flush=True)
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
        except Exception as error:
            row["failed"] = f"compile: {type(error).__name__}: {str(error)[:300]}"
            done.put(row)
    ready.set()
    go.wait()
    turn.acquire()
    for row, run, arguments in kept:
        try:
            # A model is compiled for one of them.
            computed(row["tf32"])
            step = lambda: run(*arguments)
            for _ in range(3):
                step()
            if TIMES:
                row["loop_us"] = statistics.median(loops(step))
            try:
                row["graph_us"] = graphed(step) if DEVICE == "cuda" else None
            except Exception as error:
                row["graph_us"], row["graph_failed"] = None, str(error)[:200]
                synchronize()
            row["kernels"] = kernels(step) if DEVICE == "cuda" and not TIMES else None
        except Exception:
            row["failed"] = "run: " + traceback.format_exc(limit=2)[-300:]
        done.put(row)
    synchronize()
    done.put(None)
    turn.release()


def main():
    folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    first, count = (int(sys.argv[3]) if len(sys.argv) > 3 else 0), (int(sys.argv[4]) if len(sys.argv) > 4 else MODELS)
    begin = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    todo, done, go, turn = context.Queue(), context.Queue(), context.Event(), context.Lock()
    ready = [context.Event() for _ in range(COMPILERS)]
    labels = None if BATCHES > 1 else set(archives())
    places = [place for place, (name, batch, *_) in enumerate(drawn(SEED, MODELS, BATCHES)) if labels is None or f"{name}_b{batch}_float32" in labels]
    for place in places[first : first + count]:
        for kind, tf32 in RUNS[place % BATCHES]:
            if not TF32 or kind == "float32":
                todo.put((place, kind, tf32 or TF32))
    ends = begin + 0.62 * seconds
    compilers = [context.Process(target=compiled, args=(todo, done, own, go, turn, ends), daemon=True) for own in ready]
    for compiler in compilers:
        compiler.start()
    left, rows = COMPILERS, 0
    # Nothing else runs while models are timed: what takes too long to compile is given up.
    for compiler, own in zip(compilers, ready):
        if not own.wait(max(0, ends + 30 - time.time())):
            compiler.kill()
            # Its kernels would run beside those that are timed.
            compiler.join()
            left -= 1
    go.set()
    with open(folder / "compiled.jsonl", "w") as file:
        device = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
        file.write(json.dumps({"device": device, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "seed": SEED}) + "\n")
        while left and time.time() < begin + seconds:
            try:
                row = done.get(timeout=1)
            except queue.Empty:
                continue
            if row is None:
                left -= 1
                continue
            rows += 1
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
            file.flush()
            outcome = row.get("failed") or f"loop {row.get('loop_us', 0):.0f} graph {row.get('graph_us') or 0:.0f} us, {len(row.get('kernels') or [])} operators, compiled in {row['compile_s']} s"
            print(f"{time.time() - begin:.0f} s: {row['label']}: {outcome}", flush=True)
    print(f"{rows} runs, {left} processes did not end", flush=True)
    for compiler in compilers:
        compiler.kill()


if __name__ == "__main__":
    main()
