"""Times the fully connected networks in PyTorch: the four sizes, leaky ReLU after both layers, biases.

    python3 pytorch_dense.py [--device cuda|cpu] [--impl eager,graph,compile] [--sizes small,...]
                             [--precisions fp32,fp16,bf16] [--passes forward,backward,train]
                             [--batches 256,65536,1048576] [--threads N] [--mode MODE] [--jobs N]

Without options: everything, but no bf16, and neither the backward pass alone nor `tangent`.

One JSON line for each: {"impl", "size", "precision", "pass", "batch", "timing", "median_us"}. `train` is a forward pass and the gradients by inputs,
weights and biases for a given gradient by the outputs; `backward` is those gradients alone, of a forward pass made before; `tangent` is a
second backward pass through the gradients by inputs along a direction, with SiLU after both layers, which torch.compile cannot do. `eager` is what
events around one call say; `graph` is a CUDA graph of many calls, and `compile` such a graph of what torch.compile made in --mode (on a CPU:
plain calls of it). Where a call takes less than 50 us, the slope between graphs of 20 and 40 calls. TF32 is off. What cannot be run is left
out, with the reason on stderr.

Compiling takes longer than measuring: --jobs N compiles for N networks at once, each in a process of its own, and measures when all are
compiled, one process after the other."""

import argparse
import json
import multiprocessing
import os
import sys
import time

import torch
import torch._dynamo
import torch._functorch.config
from torch import nn

from cuda_graphs import between_events, captured, median

SIZES = {"small": (64, 64, 16), "medium": (128, 128, 32), "large": (256, 256, 64), "xlarge": (512, 512, 128)}
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
IMPLEMENTATIONS = ("eager", "graph", "compile")
PASSES = ("forward", "backward", "train", "tangent")
SLOPE_BELOW_US = 50


def on_cpu(run, seconds=1.0):
    """Microseconds by the clock, of at least five calls and a second: the median, and the best."""
    for _ in range(3):
        run()
    times, begin = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - begin < seconds and len(times) < 20_000):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e6)
    return median(times), min(times)


def in_graph(run):
    once = captured(run, 1)
    if once > SLOPE_BELOW_US:
        return once
    return (captured(run, 40) - captured(run, 20)) / 20


def passes(widths, precision, batch, device, mode):
    """The passes by name; compiled in a mode of torch.compile, or not where it is None."""
    torch.manual_seed(0)
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.01)]
    network = nn.Sequential(*layers).to(device, precision)
    smooth = nn.Sequential(*(nn.SiLU() if isinstance(layer, nn.LeakyReLU) else layer for layer in network))
    call = torch.compile(network, dynamic=False, mode=mode) if mode else network
    x = torch.randn(batch, widths[0], device=device, dtype=precision)
    with_gradient = x.clone().requires_grad_()
    dy = torch.randn(batch, widths[-1], device=device, dtype=precision)
    direction = torch.randn_like(x)
    wanted = [with_gradient, *network.parameters()]

    def forward():
        with torch.no_grad():
            return call(x)

    def train():
        return torch.autograd.grad(call(with_gradient), wanted, dy)

    outputs = []

    def backward():
        # Made in the warm-up, on the stream of the captures, so that a graph holds the backward pass alone.
        if not outputs:
            outputs.append(call(with_gradient))
        return torch.autograd.grad(outputs[0], wanted, dy, retain_graph=True)

    def tangent():
        (by_inputs,) = torch.autograd.grad(smooth(with_gradient), [with_gradient], dy, create_graph=True)
        return torch.autograd.grad(by_inputs, wanted, direction)

    return {"forward": forward, "backward": backward, "train": train, "tangent": tangent}


def measure(implementation, precision, size, batch, runs, options):
    """Prints a line for each pass."""
    cuda = options.device == "cuda"
    clock = ("gpu-launch" if implementation == "eager" else "gpu-graph") if cuda else "cpu"
    for name in options.passes:
        line = {"impl": f"pytorch-{implementation}", "size": size, "precision": precision, "pass": name, "batch": batch}
        line["timing"] = clock
        try:
            if cuda:
                line["median_us"] = round((between_events if implementation == "eager" else in_graph)(runs[name]), 2)
            else:
                line["median_us"], line["best_us"] = (round(us, 2) for us in on_cpu(runs[name]))
        except Exception as error:  # a compiler that is not there, memory
            left_out(line, error)
            continue
        print(json.dumps(line), flush=True)


def left_out(what, error):
    print(f"left out: {what}: {(str(error).splitlines() or [repr(error)])[0]}", file=sys.stderr)


def prepare(options):
    torch.backends.cuda.matmul.allow_tf32 = False
    # A backward pass is timed over and over on one forward pass, whose arrays must not be given away.
    torch._functorch.config.donated_buffer = False
    # Every batch is compiled for itself.
    torch._dynamo.config.recompile_limit = 64
    if options.threads:
        torch.set_num_threads(options.threads)


def compile_then_measure(options, precision, size, compiled, turn, next_turn):
    """In a process of its own: compiles for every batch, waits for the others, and measures in its turn."""
    ready = []
    try:
        prepare(options)
        for batch in options.batches:
            try:
                runs = passes(SIZES[size], PRECISIONS[precision], batch, options.device, options.mode)
                if "forward" in options.passes:
                    runs["forward"]()
                if options.passes != ["forward"]:
                    runs["train"]()
                ready.append((batch, runs))
            except Exception as error:
                left_out(f"pytorch-compile {size} {precision}, batch {batch}", error)
        if options.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        compiled.wait()
        turn.wait()
        for batch, runs in ready:
            measure("compile", precision, size, batch, runs, options)
        if options.device == "cuda":
            torch.cuda.synchronize()
    finally:
        next_turn.set()


def in_parallel(options, networks):
    """Groups of at most --jobs networks, whose processes compile at once and measure one after the other."""
    context = multiprocessing.get_context("spawn")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(1, os.cpu_count() // options.jobs)))
    for first in range(0, len(networks), options.jobs):
        group = networks[first : first + options.jobs]
        compiled = context.Barrier(len(group))
        turns = [context.Event() for _ in range(len(group) + 1)]
        processes = [
            context.Process(target=compile_then_measure, args=(options, *network, compiled, turns[at], turns[at + 1]))
            for at, network in enumerate(group)
        ]
        for process in processes:
            process.start()
        turns[0].set()
        for process in processes:
            process.join()


def some_of(known):
    """What an option takes: one or more of these names."""

    def parse(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r}: there are {', '.join(known)}")
        return text.split(",")

    return parse


def counts(text):
    if not all(number.isdecimal() and int(number) > 0 for number in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: numbers from 1 on, with commas between them")
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--impl", type=some_of(IMPLEMENTATIONS), default="eager,graph,compile", help="ways to run it")
    parser.add_argument("--sizes", type=some_of(SIZES), default=",".join(SIZES), help="networks")
    parser.add_argument("--precisions", type=some_of(PRECISIONS), default="fp32,fp16", help="types, also bf16")
    parser.add_argument("--passes", type=some_of(PASSES), default="forward,train", help="also backward, tangent")
    parser.add_argument("--batches", type=counts, default="256,65536,1048576", help="numbers of samples")
    parser.add_argument("--threads", type=int, help="of a CPU")
    parser.add_argument("--mode", default="default", help="of torch.compile, such as max-autotune-no-cudagraphs")
    parser.add_argument("--jobs", type=int, default=1, help="networks that torch.compile works on at once")
    options = parser.parse_args()
    prepare(options)
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"PyTorch {torch.__version__}, {where}", file=sys.stderr)
    networks = [(precision, size) for precision in options.precisions for size in options.sizes]
    for implementation in options.impl:
        if implementation == "graph" and options.device != "cuda":
            left_out("graph", "CUDA graphs are of a GPU")
            continue
        if implementation == "compile" and options.jobs > 1:
            in_parallel(options, networks)
            continue
        mode = options.mode if implementation == "compile" else None
        for precision, size in networks:
            for batch in options.batches:
                torch._dynamo.reset()
                try:
                    runs = passes(SIZES[size], PRECISIONS[precision], batch, options.device, mode)
                except Exception as error:  # memory
                    left_out(f"pytorch-{implementation} {size} {precision}, batch {batch}", error)
                    continue
                measure(implementation, precision, size, batch, runs, options)


if __name__ == "__main__":
    main()
