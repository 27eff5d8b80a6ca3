"""Times training steps of drawn models: train.py FOLDER SECONDS [COUNT].

Writes train.jsonl: for each model and precision the time of a whole step (forward, backward, AdamW with fused=True) as a CUDA graph, and the
kernels of each node of the exported graph (fixtures/pytorch/models.tar.zst) forward and backward. A backward kernel belongs to the node
during which its autograd node was made, by sequence number. Steps begin with given gradients of the outputs: no loss. Several GPUs share the
models. With SEED=n and GRAPHS=FOLDER the models are those that `measure.py FOLDER SECONDS n` drew, with LAYERS its single layers. What eager
steps take is timed by `times.py`.
"""

import bisect
import collections
import concurrent.futures
import io
import json
import multiprocessing
import operator
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile

import torch
from torch._export.serde import schema, serialize
from torch.utils._pytree import tree_leaves

from measure import DEVICE, drawn, placed, replays, synchronize

warnings.filterwarnings("ignore")
FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "pytorch"
SEED = int(os.environ.get("SEED", "1"))
# Whether products of 32 bits are in TF32; convolutions are, by default.
SETTINGS = {"float32": (False, True), "half": (False,)}
# The place of the argument that says whether a model trains.
TRAINING = {"aten.batch_norm.default": 5, "aten.dropout.default": 2, "aten.dropout_.default": 2, "aten.lstm.input": 6, "aten.gru.input": 6}


def archives():
    """The graphs by label."""
    if "GRAPHS" in os.environ:
        return {path.stem: path.read_bytes() for path in pathlib.Path(os.environ["GRAPHS"]).glob("*.pt2")}
    packed = (FIXTURES / "models.tar.zst").read_bytes()
    try:
        import zstandard

        data = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    except ImportError:
        data = subprocess.run(["zstd", "-dc"], input=packed, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {pathlib.PurePath(member.name).stem: tar.extractfile(member).read() for member in tar if member.isfile()}


def exported(archive):
    """The graph of a stripped archive, set to train, and its signature."""
    archive = zipfile.ZipFile(io.BytesIO(archive))
    text = archive.read(archive.namelist()[0]).decode()
    if DEVICE == "cpu":
        text = text.replace('{"type":"cuda","index":0}', '{"type":"cpu","index":null}')
    program = json.loads(text)
    program["graph_module"].setdefault("module_call_graph", [])
    found = serialize._dict_to_dataclass(schema.GraphModule, program["graph_module"])
    result = serialize.GraphModuleDeserializer().deserialize(found, {}, {}, None, {})
    for module in result.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            place = TRAINING.get(str(node.target))
            if node.op == "call_function" and place is not None:
                node.args = (*node.args[:place], True, *node.args[place + 1 :])
    return result.graph_module, result.signature


def arguments_of(graph, signature, model, inputs):
    """The values of a graph's placeholders; constants are zero."""
    known = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    given, values = iter(inputs), []
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(nodes, signature.input_specs, strict=True):
        if spec.kind.name == "USER_INPUT":
            values.append(next(given))
        elif spec.target in known:
            values.append(known[spec.target])
        else:
            value = node.meta["val"]
            values.append(torch.zeros(tuple(value.shape), dtype=value.dtype, device=value.device.type))
    return values


class Marked(torch.fx.Interpreter):
    """Runs a graph and remembers which node made which autograd nodes."""

    def __init__(self, graph):
        super().__init__(graph)
        self.made = {}

    def run_node(self, node):
        if node.op != "call_function" or node.target is operator.getitem:
            return super().run_node(node)
        first = torch.autograd._get_sequence_nr()
        with torch.profiler.record_function("node:" + node.name):
            value = super().run_node(node)
        self.made |= {number: node.name for number in range(first, torch.autograd._get_sequence_nr())}
        return value


def differentiable(outputs):
    return [out for out in tree_leaves(outputs) if isinstance(out, torch.Tensor) and out.requires_grad]


def gradients(outputs):
    return [torch.full_like(out, 1e-3, memory_format=torch.contiguous_format) for out in outputs]


class Step:
    """A training step of a model."""

    def __init__(self, model, inputs, **adamw):
        self.model, self.inputs = model, inputs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, **adamw)
        self.gradients = gradients(differentiable(model(*inputs)))

    def forward(self):
        return differentiable(self.model(*self.inputs))

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(self.forward(), self.gradients)
        self.optimizer.step()


def replayed(step):
    """Microseconds of a replay of a whole step: median of up to 20."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
        step()
    torch.cuda.current_stream().wait_stream(stream)
    step.optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.autograd.backward(step.forward(), step.gradients)
        step.optimizer.step()
    graph.replay()
    return statistics.median(replays(graph, 20, 0.15))


def profiled(run, path, repeats=3):
    """Writes the trace of so many runs."""
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if DEVICE == "cuda" else [])
    with torch.profiler.profile(activities=kinds) as profile:
        for repeat in range(repeats):
            with torch.profiler.record_function(f"repeat:{repeat}"):
                run()
                synchronize()
    profile.export_chrome_trace(path)


def traced(graph, values, model, path):
    """The trace of a graph's steps, and the node that made each autograd node, by sequence number."""
    marked = Marked(graph)
    outputs = differentiable(marked.run(*values))
    given = gradients(outputs)

    def run():
        model.zero_grad(set_to_none=True)
        torch.autograd.backward(differentiable(marked.run(*values)), given)

    outputs = None
    run()
    synchronize()
    profiled(run, path)
    return marked.made


def launched(path):
    """The events of a trace and its kernels as (start, name, nanoseconds, time of the launch)."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    os.remove(path)
    events = [event for event in events if event.get("ph") == "X"]
    if DEVICE == "cpu":
        # Operators that call no others stand for kernels.
        kernels = []
        of = sorted((event for event in events if event.get("cat") == "cpu_op"), key=lambda event: (event["tid"], event["ts"], -event["dur"]))
        for event, after in zip(of, of[1:] + [None]):
            inner = after and after["tid"] == event["tid"] and after["ts"] < event["ts"] + event["dur"]
            if not inner and event["name"].startswith("aten::"):
                kernels.append((event["ts"], event["name"], event["dur"] * 1e3, event["ts"]))
        return events, sorted(kernels)
    calls = {event["args"]["correlation"]: event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})}
    kernels = []
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            call = calls.get(event["args"].get("correlation"))
            if call is not None:
                kernels.append((event["ts"], event["name"][:100], event["dur"] * 1e3, call["ts"]))
    return events, sorted(kernels)


class Ranges:
    """Ranges of time that do not overlap: one thread runs at a time, as the main one waits for the backward one."""

    def __init__(self, events):
        self.events = sorted(events, key=lambda event: event["ts"])
        self.starts = [event["ts"] for event in self.events]

    def at(self, moment):
        place = bisect.bisect_right(self.starts, moment) - 1
        event = self.events[place] if place >= 0 else None
        return event if event and moment <= event["ts"] + event["dur"] else None


ENGINE = "autograd::engine::evaluate_function: "


def median_runs(found):
    """Kernels by key, each with the median of its repeats."""
    result = {}
    for key, runs in found.items():
        length = statistics.mode(len(run) for run in runs)
        runs = [run for run in runs if len(run) == length]
        result[key] = [(runs[0][place][0], round(statistics.median(run[place][1] for run in runs))) for place in range(length)]
    return result


def parsed(path, made, repeats=3):
    """Kernels by (phase, node): `forward`; `backward`; `sum` of gradients that meet after a node; `parameter` gradients."""
    events, kernels = launched(path)
    marks = [event for event in events if event.get("cat") == "user_annotation"]
    nodes = Ranges(event for event in marks if event["name"].startswith("node:"))
    repeat_of = Ranges(event for event in marks if event["name"].startswith("repeat:"))
    engine = [event for event in events if event["name"].startswith(ENGINE)]
    names = {event["name"].removeprefix(ENGINE) for event in engine}
    engine, inner = Ranges(engine), Ranges(event for event in events if event["name"] in names and event.get("cat") == "cpu_op")
    found = collections.defaultdict(lambda: [[] for _ in range(repeats)])
    for _, name, nanoseconds, moment in kernels:
        repeat = repeat_of.at(moment)
        if repeat is None:
            continue
        task = engine.at(moment)
        if task is not None:
            # Sums of gradients are made by the engine around a node, not in it.
            number = task.get("args", {}).get("Sequence number")
            phase = "backward" if inner.at(moment) is not None else "sum"
            key = ("parameter", "") if "AccumulateGrad" in task["name"] else (phase, made.get(number, ""))
        elif (node := nodes.at(moment)) is not None:
            key = ("forward", node["name"][5:])
        else:
            key = ("other", "")
        found[key][int(repeat["name"][7:])].append((name, nanoseconds))
    return median_runs(found)


def parsed_optimizer(path, repeats=3):
    """Kernels of a step of an optimizer."""
    events, kernels = launched(path)
    repeat_of = Ranges(event for event in events if event.get("cat") == "user_annotation" and event["name"].startswith("repeat:"))
    found = {"": [[] for _ in range(repeats)]}
    for _, name, nanoseconds, moment in kernels:
        if (repeat := repeat_of.at(moment)) is not None:
            found[""][int(repeat["name"][7:])].append((name, nanoseconds))
    return median_runs(found)[""]


def optimized(step, scratch, way):
    """Kernels of an optimizer."""
    step.optimizer.step()
    path = os.path.join(scratch, f"{way}.json")
    profiled(step.optimizer.step, path)
    kernels = parsed_optimizer(path)
    return {"kernels": len(kernels), "ns": sum(time for _, time in kernels), "name": kernels[-1][0] if kernels else ""}


class Names:
    """Numbers that stand for names; a row lists those that are new."""

    def __init__(self):
        self.numbers, self.fresh = {}, []

    def of(self, name):
        if name not in self.numbers:
            self.numbers[name] = len(self.numbers)
            self.fresh.append(name)
        return self.numbers[name]


def finished(row, phases, names):
    """A row with its nodes: [name, [kernels forward, ns], [[kernel backward, ns]...], [[kernel of a sum, ns]...]]."""
    numbered = lambda kernels: [[names.of(name), time] for name, time in kernels]
    nodes = collections.defaultdict(dict)
    for (phase, node), kernels in phases.items():
        if phase in ("parameter", "other") or node == "":
            row.setdefault(phase if node == "" and phase in ("parameter", "other") else f"{phase}_elsewhere", []).extend(numbered(kernels))
        else:
            nodes[node][phase] = kernels
    row["nodes"] = []
    for node, found in nodes.items():
        forward = found.get("forward", [])
        row["nodes"].append([node, [len(forward), sum(time for _, time in forward)], numbered(found.get("backward", [])), numbered(found.get("sum", []))])
    row["names"], names.fresh = names.fresh, []
    return json.dumps(row, separators=(",", ":")) + "\n"


def measured(place, models, half, graphs, scratch, pool):
    """Rows of a model in one precision, with the phases that are still parsed."""
    name, batch, kind16, make, inputs = models[place]
    kind = kind16 if half else "float32"
    label = f"{name}_b{batch}_{kind}"
    if label not in graphs:
        return
    about = {"model": name, "batch": batch, "label": label, "kind": kind}
    try:
        torch.manual_seed(0)
        with torch.device(DEVICE):
            model = make()
        model, arguments = model.to(DEVICE, getattr(torch, kind)).train(), placed(inputs(), getattr(torch, kind))
        step = Step(model, arguments, fused=True, capturable=DEVICE == "cuda")
        for tf32 in SETTINGS["half" if half else "float32"]:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32, True
            for _ in range(3):
                step()
            row = {**about, "tf32": tf32}
            if DEVICE == "cuda":
                torch.cuda.reset_peak_memory_stats()
            row["bytes"] = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
            try:
                row["graph_us"] = replayed(step) if DEVICE == "cuda" else None
            except Exception as error:
                row["graph_us"], row["graph_failed"] = None, str(error)[:200]
                synchronize()
            step.optimizer.zero_grad(set_to_none=True)
            step()
            trained = [parameter for parameter in model.parameters() if parameter.grad is not None]
            row["optimizer"] = {"tensors": len(trained), "elements": sum(parameter.numel() for parameter in trained)}
            if not tf32:
                row["optimizer"]["fused"] = optimized(step, scratch, "fused")
                kept, step.optimizer = step.optimizer, torch.optim.AdamW(model.parameters(), lr=1e-6, foreach=True)
                row["optimizer"]["foreach"] = optimized(step, scratch, "foreach")
                step.optimizer, kept = kept, None
            path = os.path.join(scratch, f"{label}_{tf32}.json")
            graph, signature = exported(graphs[label])
            made = traced(graph, arguments_of(graph, signature, model, arguments), model, path)
            yield row, pool.submit(parsed, path, made)
    except Exception as error:
        yield {**about, "failed": f"{type(error).__name__}: {str(error)[:300]}", "at": traceback.format_exc(limit=-3)[-600:]}, None


def run(folder, seconds, count, share, shares):
    ends = time.monotonic() + seconds
    scratch = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    models, graphs, names = list(drawn(SEED, count)), archives(), Names()
    known = [place for place in range(count) if any(f"{models[place][0]}_b{models[place][1]}_{kind}" in graphs for kind in ("float32", models[place][2]))]
    pool = concurrent.futures.ProcessPoolExecutor(3, multiprocessing.get_context("spawn"))
    waiting = collections.deque()
    with open(folder / f"train.{share}.jsonl", "w") as rows:

        def drain(all_of_them):
            while waiting and (all_of_them or waiting[0][1] is None or waiting[0][1].done()):
                row, future = waiting.popleft()
                try:
                    phases = future.result(timeout=60) if future else {}
                except Exception as error:
                    row["failed"], phases = f"trace: {type(error).__name__}: {error}", {}
                rows.write(finished(row, phases, names))
                rows.flush()
                sums = {phase: sum(time for (of, _), kernels in phases.items() if of == phase for _, time in kernels) // 1000 for phase in ("forward", "backward", "sum", "parameter", "other")}
                times = {key: round(value) for key, value in row.items() if key.endswith("_us") and value}
                print(row["label"], row.get("tf32"), row.get("failed") or f"{times}, kernels {sums}, optimizer {row.get('optimizer')}", flush=True)

        for place in known[share::shares]:
            for half in (False, True):
                if time.monotonic() < ends:
                    begin = time.monotonic()
                    waiting.extend(measured(place, models, half, graphs, scratch, pool))
                    if DEVICE == "cuda":
                        torch.cuda.empty_cache()
                    print(f"{models[place][0]}: {time.monotonic() - begin:.1f} s", flush=True)
                drain(False)
        drain(True)


def merge(folder, shares, seconds, count):
    """One file of all shares, with one list of names in its first line."""
    names, rows = Names(), []
    for share in range(shares):
        own = []
        path = folder / f"train.{share}.jsonl"
        for line in path.read_text().splitlines():
            row = json.loads(line)
            own.extend(row.pop("names"))
            again = lambda kernels: [[names.of(own[number]), time] for number, time in kernels]
            for key in ("parameter", "other", "forward_elsewhere", "backward_elsewhere", "sum_elsewhere"):
                if key in row:
                    row[key] = again(row[key])
            row["nodes"] = [[node, forward, again(backward), again(sums)] for node, forward, backward, sums in row["nodes"]]
            rows.append(row)
        path.unlink()
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    head = {"device": device, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "seed": SEED, "names": names.fresh}
    with open(folder / "train.jsonl", "w") as file:
        for row in [head, *rows]:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def main():
    folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 90
    folder.mkdir(parents=True, exist_ok=True)
    if "SHARE" in os.environ:
        share, shares = map(int, os.environ["SHARE"].split("/"))
        return run(folder, seconds, count, share, shares)
    shares = max(1, torch.cuda.device_count())
    given = lambda share: os.environ | {"SHARE": f"{share}/{shares}", "CUDA_VISIBLE_DEVICES": str(share)}
    runs = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env=given(share)) for share in range(shares)]
    for process in runs:
        process.wait()
    merge(folder, shares, seconds, count)


if __name__ == "__main__":
    main()
