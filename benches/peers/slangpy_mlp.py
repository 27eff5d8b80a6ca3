"""Times the fully connected networks in slangpy, written as its samples write them: a thread a sample, loops over arrays, autodiff backward.

    python3 slangpy_mlp.py [--device cuda|vulkan|cpu] [--sizes small,...] [--precisions fp32,fp16] [--passes forward,train]
                           [--batches 256,65536,1048576]

One JSON line for each: {"impl", "size", "precision", "pass", "batch", "timing", "median_us"}. `train` is the kernel that Slang's autodiff
makes: it computes the forward pass again, and the gradients by inputs, weights and biases, the latter by atomic additions in 32 bits; it
does not write the outputs. Sums are in 32 bits, as ours. The time is that between two GPU timestamps around many dispatches, divided by
their number: from a few thousand samples on it is the kernel's; below that, launches count. Every kernel is checked first, on 300 samples, against 64 bits
in NumPy, on an output filled with what is not a number. What cannot be run is left out, with the reason on stderr.

Needs slangpy and NumPy; with `--device cuda` also NVRTC and CUDA's headers, which Slang finds through CUDA_PATH."""

import argparse
import json
import pathlib
import sys
import time

import numpy as np
import slangpy as spy

SIZES = {"small": (64, 64, 16), "medium": (128, 128, 32), "large": (256, 256, 64), "xlarge": (512, 512, 128)}
PRECISIONS = {"fp32": ("float", np.float32), "fp16": ("half", np.float16)}
CHECKED = 300  # samples
ALLOWED = {"fp32": 1e-5, "fp16": 2e-2}  # of the largest reference value of an array
BETWEEN_TIMESTAMPS_US, MEASUREMENTS, LONGEST_US = 20_000, 7, 3_000_000


def leaky_relu(sums):
    return np.where(sums > 0, sums, 0.01 * sums)


class Reference:
    """The network in 64 bits."""

    def __init__(self, widths, parameters):
        inputs, hidden, outputs = widths
        parts = np.split(parameters.astype(np.float64), np.cumsum([inputs * hidden, hidden, hidden * outputs]))
        self.w1, self.b1 = parts[0].reshape(hidden, inputs), parts[1]
        self.w2, self.b2 = parts[2].reshape(outputs, hidden), parts[3]

    def forward(self, x):
        return leaky_relu(leaky_relu(x @ self.w1.T + self.b1) @ self.w2.T + self.b2)

    def train(self, x, dy):
        sums1 = x @ self.w1.T + self.b1
        hidden = leaky_relu(sums1)
        d2 = dy * np.where(hidden @ self.w2.T + self.b2 > 0, 1, 0.01)
        d1 = d2 @ self.w2 * np.where(sums1 > 0, 1, 0.01)
        gradients = [(d1.T @ x).ravel(), d1.sum(0), (d2.T @ hidden).ravel(), d2.sum(0)]
        return d1 @ self.w1, np.concatenate(gradients)


def error(found, expected):
    """The largest difference, of the largest expected value; not a number counts as infinite."""
    difference = np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max()
    return np.inf if np.isnan(difference) else difference


class Network:
    """The kernels of a network, and the arrays of a batch."""

    def __init__(self, device, widths, precision, batch, unroll):
        self.device, self.widths, self.batch = device, widths, batch
        name, self.type = PRECISIONS[precision]
        inputs, hidden, outputs = widths
        constants = [
            f"static const int INPUTS = {inputs}, HIDDEN = {hidden}, OUTPUTS = {outputs};",
            f"typealias Number = {name};",
            f"#define INNER_LOOP(steps) {'[ForceUnroll]' if unroll else '[MaxIters(steps)]'}",
        ]
        source = "\n".join([*constants, pathlib.Path(__file__).with_suffix(".slang").read_text()])
        self.module = device.load_module_from_source(f"mlp_{inputs}_{precision}_{unroll}", source)
        random = np.random.default_rng(42)
        layers = [(random.standard_normal((o, i)) * (2 / i) ** 0.5, random.standard_normal(o) * 0.1)
                  for i, o in zip(widths, widths[1:])]
        self.parameters = np.concatenate([part.ravel() for layer in layers for part in layer]).astype(self.type)
        # A million samples are a thousand, many times.
        some = min(batch, 1024)
        self.x = random.standard_normal((some, inputs)).astype(self.type)
        self.dy = random.standard_normal((some, outputs)).astype(self.type)
        copies = -(-batch // some)
        self.buffers = {
            "parameters": self.buffer(self.parameters),
            "x": self.buffer(np.tile(self.x, (copies, 1))[:batch]),
            "dy": self.buffer(np.tile(self.dy, (copies, 1))[:batch]),
            "y": self.buffer(np.full((batch, outputs), np.nan, self.type)),
            "dx": self.buffer(np.full((batch, inputs), np.nan, self.type)),
            "gradients": self.buffer(np.zeros(self.parameters.size, np.float32)),
        }

    def buffer(self, array):
        usage = spy.BufferUsage.shader_resource | spy.BufferUsage.unordered_access
        return self.device.create_buffer(usage=usage, struct_size=array.itemsize, data=np.ascontiguousarray(array))

    def pipeline(self, entry):
        program = self.device.link_program([self.module], [self.module.entry_point(entry)])
        return self.device.create_compute_pipeline(program)

    def queue(self, encoder, entry, pipeline, times):
        for _ in range(times):
            if entry == "train":
                encoder.clear_buffer(self.buffers["gradients"])
            with encoder.begin_compute_pass() as queued:
                cursor = spy.ShaderCursor(queued.bind_pipeline(pipeline))
                for name, buffer in self.buffers.items():
                    cursor[name] = buffer
                cursor["batch"] = self.batch
                queued.dispatch_compute([-(-self.batch // 64), 1, 1])

    def run(self, entry, pipeline):
        encoder = self.device.create_command_encoder()
        self.queue(encoder, entry, pipeline, 1)
        self.device.submit_command_buffer(encoder.finish())
        self.device.wait_for_idle()

    def check(self, entry, pipeline):
        self.run(entry, pipeline)
        reference = Reference(self.widths, self.parameters)
        x, dy = self.x.astype(np.float64), self.dy.astype(np.float64)
        read = lambda name, type: self.buffers[name].to_numpy().view(type).ravel()
        if entry == "forward":
            return error(read("y", self.type), reference.forward(x).ravel())
        dx, gradients = reference.train(x, dy)
        return max(error(read("dx", self.type), dx.ravel()), error(read("gradients", np.float32), gradients))

    def microseconds(self, entry, pipeline):
        """Between timestamps before and after many dispatches, of one."""
        pool = self.device.create_query_pool(spy.QueryType.timestamp, 2)

        def around(times):
            pool.reset()
            encoder = self.device.create_command_encoder()
            encoder.write_timestamp(pool, 0)
            self.queue(encoder, entry, pipeline, times)
            encoder.write_timestamp(pool, 1)
            self.device.submit_command_buffer(encoder.finish())
            self.device.wait_for_idle()
            begin, end = pool.get_timestamp_results(0, 2)
            return (end - begin) * 1e6 / times

        self.run(entry, pipeline)
        once = around(1)
        if once > LONGEST_US:
            return once
        times = int(min(1000, max(1, BETWEEN_TIMESTAMPS_US / max(once, 1))))
        return sorted(around(times) for _ in range(MEASUREMENTS))[MEASUREMENTS // 2]


def left_out(what, reason):
    print(f"left out: {what}: {reason}", file=sys.stderr, flush=True)


def measure(device, size, precision, entry, batches, unroll):
    """A pass of a network, checked and timed, as lines."""
    begin = time.perf_counter()
    checked = Network(device, SIZES[size], precision, CHECKED, unroll)
    pipeline = checked.pipeline(entry)
    wrong = checked.check(entry, pipeline)
    seconds = time.perf_counter() - begin
    print(f"{size} {precision} {entry}: error {wrong:.1e}, compiled in {seconds:.1f} s", file=sys.stderr, flush=True)
    if not wrong <= ALLOWED[precision]:
        left_out(f"{size} {precision} {entry}", "it differs from 64 bits")
        return
    per_sample = None
    for batch in batches:
        if per_sample and per_sample * batch > LONGEST_US:
            left_out(f"{size} {precision} {entry}, batch {batch}", f"it would take {per_sample * batch / 1e6:.0f} s a call")
            continue
        network = Network(device, SIZES[size], precision, batch, unroll)
        median = network.microseconds(entry, network.pipeline(entry))
        per_sample = median / batch if batch >= 65536 else None
        yield {"impl": "slangpy-unrolled" if unroll else "slangpy-forloop", "size": size, "precision": precision, "pass": entry, "batch": batch,
               "timing": "gpu-launch", "median_us": round(median, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "vulkan", "cpu"), default="cuda")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--precisions", default="fp32,fp16")
    parser.add_argument("--passes", default="forward,train")
    parser.add_argument("--batches", default="256,65536,1048576")
    parser.add_argument("--unroll", action="store_true", help="unroll the inner loops")
    options = parser.parse_args()
    device = spy.Device(type=getattr(spy.DeviceType, options.device))
    print(f"slangpy {spy.__version__}, {device.info.adapter_name}", file=sys.stderr)
    batches = sorted(map(int, options.batches.split(",")))
    for size in options.sizes.split(","):
        for precision in options.precisions.split(","):
            for entry in options.passes.split(","):
                try:
                    for line in measure(device, size, precision, entry, batches, options.unroll):
                        print(json.dumps(line), flush=True)
                except Exception as failure:  # a compiler that is not there, memory
                    left_out(f"{size} {precision} {entry}", str(failure).strip().splitlines()[-1] if str(failure).strip() else repr(failure))


if __name__ == "__main__":
    main()
