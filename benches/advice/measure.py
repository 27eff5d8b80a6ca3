"""What every experiment needs: the device, graphs, step times without a profiler, and traces."""

import contextlib
import gzip
import os
import shutil
import statistics
import tempfile
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule

REPEATS = 5
WARMUP_STEPS = 6
# The number of the step whose value is kept. The variants of an experiment must agree on it.
VALUE_AT = 4


class Setup:
    """The device of an experiment, and what differs between the GPU and a trial run on the CPU."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.gpu = self.device.type == "cuda"
        # Steps that ran while a graph was captured.
        self.ran = 0

    def size(self, full, tiny):
        """A dimension: `full` on a GPU, `tiny` on the CPU, where only the code is tried."""
        return full if self.gpu else tiny

    def randn(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def classes(self, samples, classes=64):
        return torch.randint(classes, (samples,), device=self.device)

    def synchronize(self):
        if self.gpu:
            torch.cuda.synchronize()

    def stream(self):
        return torch.cuda.Stream() if self.gpu else None

    def on(self, stream):
        return torch.cuda.stream(stream) if self.gpu else contextlib.nullcontext()

    def pinned(self, tensor):
        return tensor.pin_memory() if self.gpu else tensor

    def compiled(self, module, mode=None):
        """`torch.compile`; on the CPU without code generation, which would take minutes."""
        return torch.compile(module, mode=mode) if self.gpu else torch.compile(module, backend="aot_eager")

    def captured(self, step):
        """The step as one CUDA graph, by the usual recipe: warm up on a side stream, capture, replay."""
        if not self.gpu:
            return step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        self.ran = 3
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = step()

        def replay():
            graph.replay()
            return result

        return replay


def warm(setup, step):
    """Runs the step until it is warm; the value that it returned at step `VALUE_AT`."""
    result = None
    for _ in range(max(1, VALUE_AT - setup.ran)):
        result = step()
    value = None if result is None else float(result.float().mean())
    for _ in range(WARMUP_STEPS):
        step()
    setup.synchronize()
    return value


def timed(setup, step, seconds, agree=lambda steps: steps):
    """Step times in seconds, one for each repeat: a wall clock around steps with the GPU idle at both ends.

    `agree` makes the ranks of a job run the same number of steps.
    """

    def run(steps):
        setup.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        setup.synchronize()
        return (time.perf_counter() - begin) / steps

    estimate = run(3)
    steps = agree(max(3, min(2000, round(seconds / REPEATS / estimate))))
    times = [run(steps) for _ in range(REPEATS)]
    return {
        "step_seconds": statistics.median(times),
        "step_seconds_min": min(times),
        "step_seconds_max": max(times),
        "repeats": REPEATS,
        "steps_per_repeat": steps,
    }


def framework_flops(step):
    """The FLOPs of one step by `torch.utils.flop_counter`; 0 where it sees no operators, as in a graph's replay."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def recorded(setup, step, path, steps, marks=True, clean=True):
    """Records `steps` steps with `torch.profiler` and writes the Chrome trace to `path`, compressed.

    With `marks` each step is a range `ProfilerStep#N`, from the end of the step before it. With `clean` the
    GPU is idle at both ends of the recording; without, work of the warm-up may still run, as in most users'
    recordings.
    """
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if setup.gpu else [])
    options = {"activities": activities, "record_shapes": True, "with_stack": False}
    if not marks:
        setup.synchronize()
        with profile(**options) as profiler:
            for _ in range(steps):
                step()
            if clean:
                setup.synchronize()
        export(profiler, path)
        return
    warmup = 2
    plan = schedule(wait=0, warmup=warmup, active=steps, repeat=1)
    ready = lambda profiler: export(profiler, path)  # noqa: E731
    with profile(**options, schedule=plan, on_trace_ready=ready) as profiler:
        for number in range(1, warmup + steps + 1):
            step()
            if clean and number in (warmup, warmup + steps):
                setup.synchronize()
            profiler.step()


def export(profiler, path):
    # Compressed here: without a time stamp in the header, and as small as gzip makes it.
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(plain)
        with open(plain, "rb") as source, open(path, "wb") as file:
            with gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as target:
                shutil.copyfileobj(source, target)
