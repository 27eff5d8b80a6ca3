"""Records what no profiler range marks: a CUDA graph with its capture, `generate`, and a GPU at its power limit.

    python3 benches/advice/inference.py --out OUT                 all of it: OUT/*.json.gz, and OUT/*.sqlite where nsys is
    python3 benches/advice/inference.py --out OUT --nsys "nsys"   the command that starts Nsight Systems

A program with one of the names of `PROGRAMS` as its argument is what Nsight Systems records. Written for PyTorch 2.11.
"""

import argparse
import os
import subprocess
import sys

import torch
from measure import export
from torch.profiler import ProfilerActivity, profile

OPTIONS = {"activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA], "record_shapes": True, "with_stack": True}
ACTIVE = {"activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA], "record_shapes": True}


class Layer(torch.nn.Module):
    """A transformer's layer that a CUDA graph can hold."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attend_norm = torch.nn.RMSNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.mlp_norm = torch.nn.RMSNorm(width)
        self.up = torch.nn.Linear(width, 4 * width, bias=False)
        self.down = torch.nn.Linear(4 * width, width, bias=False)

    def attend(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.attend_norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.down(torch.nn.functional.gelu(self.up(self.mlp_norm(x))))


def network(layers=2, width=1024, heads=16, batch=4, tokens=256):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
    x = torch.randn(batch, tokens, width, device="cuda", dtype=torch.bfloat16)
    return model.to("cuda", torch.bfloat16).eval(), x


def capture(model, x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    return graph


def warm(model, x):
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            model(x)
    torch.cuda.synchronize()


@torch.no_grad()
def captured(out):
    """A graph: its capture, its replays, both in one recording, and beside them the launches one by one."""
    model, x = network()
    warm(model, x)
    with profile(**OPTIONS) as recorded:
        graph = capture(model, x)
    export(recorded, os.path.join(out, "captured-graph.capture.json.gz"))
    graph.replay()
    torch.cuda.synchronize()
    with profile(**OPTIONS) as recorded:
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
    export(recorded, os.path.join(out, "captured-graph.replays.json.gz"))
    with profile(**OPTIONS) as recorded:
        graph = capture(model, x)
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
    export(recorded, os.path.join(out, "captured-graph.both.json.gz"))
    with profile(**OPTIONS) as recorded:
        model(x)
        torch.cuda.synchronize()
    export(recorded, os.path.join(out, "captured-graph.eager.json.gz"))


@torch.no_grad()
def graph_in_nsys(_):
    model, x = network()
    warm(model, x)
    with torch.autograd.profiler.emit_nvtx(record_shapes=True):
        graph = capture(model, x)
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()


@torch.no_grad()
def generated(out):
    """`generate` of Hugging Face without a mark: one prompt, and its tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4,
        vocab_size=32000, max_position_embeddings=2048,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    prompt = torch.randint(config.vocab_size, (4, 512), device="cuda")

    def generate(new, **options):
        model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new, do_sample=False,
            pad_token_id=0, **options,
        )  # fmt: skip
        torch.cuda.synchronize()

    generate(4)
    with profile(**ACTIVE) as recorded:
        generate(8)
    export(recorded, os.path.join(out, "generate-eager.json.gz"))
    for _ in range(2):
        generate(8, cache_implementation="static")
    with profile(**ACTIVE) as recorded:
        generate(8, cache_implementation="static")
    export(recorded, os.path.join(out, "generate-static.json.gz"))


def products(random, recorded=400):
    """Square products in bf16, long enough for the GPU to reach its power limit, then those that are recorded."""
    size = 8192
    make = torch.randn if random else torch.zeros
    a, b = (make(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3000):
        a @ b
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(recorded):
        with torch.cuda.nvtx.range("step"):
            a @ b
    end.record()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    print(f"random={random}: {begin.elapsed_time(end) / recorded:.3f} ms a product", flush=True)


PROGRAMS = {
    "graph": graph_in_nsys,
    "power-random": lambda _: products(True),
    "power-zeros": lambda _: products(False),
}


def nsys(command, out, program, *options):
    """Records a program; the report stays where the export is made."""
    path = os.path.join(out, program)
    line = [*command, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "-f", "true", "-o", path, *options]
    done = subprocess.run([*line, sys.executable, __file__, program], capture_output=True, text=True, check=False)
    print(program, done.returncode, done.stdout[-1500:], done.stderr[-1500:], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", choices=sorted(PROGRAMS))
    parser.add_argument("--out")
    parser.add_argument("--nsys", default="")
    parser.add_argument("--only-nsys", action="store_true")
    arguments = parser.parse_args()
    if arguments.program:
        PROGRAMS[arguments.program](None)
        return
    os.makedirs(arguments.out, exist_ok=True)
    if not arguments.only_nsys:
        captured(arguments.out)
        generated(arguments.out)
    if arguments.nsys:
        command = arguments.nsys.split()
        nsys(command, arguments.out, "graph", "--cuda-graph-trace=node")
        metrics = ["--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--gpu-metrics-devices=0", "--gpu-metrics-frequency=10000"]
        nsys(command, arguments.out, "power-random", *metrics)
        nsys(command, arguments.out, "power-zeros", *metrics)


if __name__ == "__main__":
    main()
