"""Times drawn models as PyTorch runs them: measure.py FOLDER SECONDS [SEED [COUNT]]; single layers with LAYERS=1 in the environment, in 16
bits alone with KINDS=half.

Writes a stripped .pt2 of each model and rows.jsonl: for each precision the time of a replay as a CUDA graph, and the kernels of each node of
the exported graph (name, median nanoseconds), all on one GPU. Exports run in many processes, before anything is timed. What the host takes is
timed by `times.py`: in a process that was profiled once, launches cost 1.3 to 1.4 times as much.
"""

import bisect
import collections
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

import torch

from draw import drawn as drawn_models
from layers import DEVICE, drawn_layers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "models"))
from strip import strip_archive  # noqa: E402

warnings.filterwarnings("ignore")
EXPORTERS = int(os.environ.get("EXPORTERS", "9"))
LAYERS = "LAYERS" in os.environ
KINDS = os.environ.get("KINDS", "float32,half").split(",")


def drawn(seed, count, batches=1):
    return drawn_layers(seed, count) if LAYERS else drawn_models(seed, count, batches)


def placed(inputs, kind):
    return [x.to(DEVICE, kind) if x.is_floating_point() else x.to(DEVICE) for x in inputs]


def build(make, inputs, kind):
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = make()
    return model.to(DEVICE, kind).eval(), placed(inputs(), kind)


def export(todo, done, seed, count, scratch, folder, batches=1):
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    models = list(drawn(seed, count, batches))
    while (item := todo.get()) is not None:
        place, kind = item
        name, batch, half, make, inputs = models[place]
        kind = half if kind == "half" else kind
        label = f"{name}_b{batch}_{kind}"
        try:
            model, arguments = build(make, inputs, getattr(torch, kind))
            program = torch.export.export(model, tuple(arguments), strict=False)
            path = os.path.join(scratch, f"{label}.pt2")
            torch.export.save(program, path)
            strip_archive(path, os.path.join(folder, f"{label}.pt2"))
            done.put((place, kind, label, path, None))
        except Exception as error:
            done.put((place, kind, label, None, f"export: {type(error).__name__}: {str(error)[:300]}"))
        model = program = arguments = None
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def loops(run, count=5, seconds=0.05):
    """Microseconds of a step in each of so many loops that wait at their ends, as training and serving loops do."""
    synchronize()
    start = time.perf_counter()
    run()
    synchronize()
    repeats = max(1, min(50, int(seconds / max(time.perf_counter() - start, 1e-5))))
    times = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        synchronize()
        times.append((time.perf_counter() - start) / repeats * 1e6)
    return times


def replays(graph, most, seconds):
    """Microseconds of at least five replays, each between events."""
    synchronize()
    times = []
    begin = time.perf_counter()
    while len(times) < 5 or (len(times) < most and time.perf_counter() - begin < seconds):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        graph.replay()
        last.record()
        synchronize()
        times.append(first.elapsed_time(last) * 1e3)
    return times


def graphed(run, seconds=0.2):
    """Microseconds of a replay: median of up to 30."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    return statistics.median(replays(graph, 30, seconds))


class Marked(torch.fx.Interpreter):
    def run_node(self, node):
        if node.op != "call_function":
            return super().run_node(node)
        with torch.profiler.record_function("node:" + node.name):
            return super().run_node(node)


def nodes(program, arguments):
    """The kernels of each node of a program: name and median nanoseconds, in the order of their launches."""
    given = iter(arguments)
    values = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            values.append(next(given))
        elif spec.target in program.constants:
            values.append(program.constants[spec.target])
        else:
            values.append(program.state_dict[spec.target])
    values = [value.to(DEVICE) if isinstance(value, torch.Tensor) else value for value in values]
    marked = Marked(program.graph_module)
    marked.run(*values)
    synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if DEVICE == "cuda" else [])
    found = collections.defaultdict(list)
    with torch.profiler.profile(activities=kinds) as profile:
        for repeat in range(3):
            with torch.profiler.record_function(f"repeat:{repeat}"):
                marked.run(*values)
            synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.load(open(file.name))["traceEvents"]
    ranges = sorted((event["ts"], event["ts"] + event["dur"], event["name"][5:]) for event in events if event.get("cat") == "user_annotation" and event["name"].startswith("node:"))
    calls = {event["args"]["correlation"]: event["ts"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})}
    starts = [begin for begin, _, _ in ranges]
    for event in sorted((event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda event: event["ts"]):
        called = calls.get(event["args"].get("correlation"))
        place = bisect.bisect_right(starts, called) - 1 if called is not None else -1
        if place >= 0 and called <= ranges[place][1]:
            found[ranges[place]].append((event["name"], event["dur"] * 1e3))
    by_name = collections.defaultdict(list)
    for (_, _, name), kernels in sorted(found.items()):
        by_name[name].append(kernels)
    result = []
    for name, runs in by_name.items():
        length = statistics.mode(len(run) for run in runs)
        runs = [run for run in runs if len(run) == length]
        result.append([name, [[runs[0][place][0], round(statistics.median(run[place][1] for run in runs))] for place in range(length)]])
    return result


def main():
    folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    seed, count = (int(sys.argv[3]) if len(sys.argv) > 3 else 1), (int(sys.argv[4]) if len(sys.argv) > 4 else 60)
    ends = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    scratch = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    items = [(place, kind) for place in range(count) for kind in KINDS]
    for item in items + [None] * EXPORTERS:
        todo.put(item)
    exporters = [context.Process(target=export, args=(todo, done, seed, count, scratch, str(folder)), daemon=True) for _ in range(EXPORTERS)]
    for exporter in exporters:
        exporter.start()
    # Nothing else runs while models are timed.
    exported = []
    while len(exported) < len(items) and time.monotonic() < ends - 0.7 * seconds:
        try:
            exported.append(done.get(timeout=1))
        except queue.Empty:
            pass
    for exporter in exporters:
        exporter.kill()
    print(f"{len(exported)} of {len(items)} exports in {seconds - ends + time.monotonic():.0f} s", flush=True)
    torch.set_grad_enabled(False)
    models = list(drawn(seed, count))
    with open(folder / "rows.jsonl", "w") as rows:
        device = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
        rows.write(json.dumps({"device": device, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "seed": seed}) + "\n")
        for place, kind, label, path, failed in exported:
            name, batch, _, make, inputs = models[place]
            if failed:
                rows.write(json.dumps({"model": name, "batch": batch, "label": label, "failed": failed}) + "\n")
                print(label, failed, flush=True)
                continue
            try:
                begin = time.monotonic()
                model, arguments = build(make, inputs, getattr(torch, kind))
                run = lambda: model(*arguments)
                program = torch.export.load(path)
                os.remove(path)
                for tf32 in ((False, True) if kind == "float32" else (False,)):
                    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
                    for _ in range(3):
                        run()
                    row = {"model": name, "batch": batch, "label": label, "kind": kind, "tf32": tf32}
                    try:
                        is_timed = DEVICE == "cuda" and (not LAYERS or len(model.layers) == 1)
                        row["graph_us"] = graphed(run) if is_timed else None
                        if LAYERS and not is_timed:
                            # Kernels of one layer may run beside each other.
                            inputs_of = iter(arguments)
                            of = [(layer, [next(inputs_of) for _ in range(layer.reads)]) for layer in model.layers]
                            row["layers_us"] = [graphed(lambda: layer(*own), 0.01) for layer, own in of]
                    except Exception as error:
                        row["graph_us"], row["graph_failed"] = None, str(error)[:200]
                        synchronize()
                    row["nodes"] = nodes(program, arguments)
                    rows.write(json.dumps(row, separators=(",", ":")) + "\n")
                    rows.flush()
                    sums = sum(time for _, kernels in row["nodes"] for _, time in kernels) / 1e3
                    print(f"{label} tf32={tf32}: graph {row.get('graph_us') or 0:.0f} kernels {sums:.0f} us ({time.monotonic() - begin:.1f} s)", flush=True)
            except Exception as error:
                rows.write(json.dumps({"model": name, "batch": batch, "label": label, "failed": f"run: {type(error).__name__}: {str(error)[:300]}"}) + "\n")
                print(label, "run:", traceback.format_exc(limit=2)[-300:], flush=True)
            model = program = arguments = run = None
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
            if time.monotonic() > ends:
                break


if __name__ == "__main__":
    main()
