"""Five models, counted by this package, by Nsight Compute and by PyTorch's FlopCounterMode: python3 count_models.py [MODEL...] [--json FILE]

A training step of each is counted launch by launch inside of a process, then by `ncu` over a process that runs the same step, and the tables
say whether both saw the same launches with the same counts. The formulas of FlopCounterMode stand beside: for compiled code those of the
same model before it was compiled.

Needs a GPU, PyTorch, this package and `ncu` (without it, that column is empty), and the right to read counters. `--layers` makes GPT-2 smaller.
"""

import argparse
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# What is compared: presets of this package; everything that they count of operations, ncu counts too.
MODELS = {
    "mlp": ["tensor", "sass"],
    "resnet": ["tensor", "tensor-2", "tensor-3", "tensor-4", "sass"],
    "flash": ["tensor", "sass"],
    "unfused": ["tensor", "sass"],
    "gpt2": ["tensor", "sass"],
    "gpt2-compiled": ["tensor", "sass"],
}


def mlp(_options):
    """10 layers of 1024 by 1024 in 32-bit floats, without TF32."""
    layers = [part for _ in range(10) for part in (nn.Linear(1024, 1024, bias=False), nn.Sigmoid())]
    model = nn.Sequential(*layers).cuda()
    x = torch.randn(128, 1024, device="cuda")

    def step():
        model.zero_grad(set_to_none=True)
        model(x).sum().backward()

    return step


def resnet(_options):
    """ResNet-18 of torchvision, channels last, half precision with a gradient scaler, SGD with momentum."""
    from torchvision.models import resnet18

    model = resnet18(weights=None).cuda().to(memory_format=torch.channels_last).train()
    images = torch.randn(16, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (16,), device="cuda")
    # A rate of 0 and no growth: the step is the same each time, also in the kernels whose work depends on the numbers (max pooling).
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=1 << 30)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


class Block(nn.Module):
    """A transformer block whose attention is the one that is asked for."""

    def __init__(self, width, heads, backend):
        super().__init__()
        self.heads, self.backend = heads, backend
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(self.backend):
            y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def block(backend):
    def make(_options):
        model = Block(1024, 16, backend).cuda().bfloat16()
        x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)

        def step():
            model.zero_grad(set_to_none=True)
            model(x).float().square().mean().backward()

        return step

    return make


class PlainGpt(nn.Module):
    """GPT-2's architecture in plain PyTorch, where Hugging Face's is not installed."""

    def __init__(self, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.ModuleList(PlainBlock() for _ in range(layers))
        self.norm = nn.LayerNorm(768)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for each in self.blocks:
            x = each(x)
        return self.norm(x) @ self.tokens.weight.T


class PlainBlock(Block):
    def __init__(self):
        super().__init__(768, 12, SDPBackend.FLASH_ATTENTION)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def gpt2(options, compiled=False):
    ids = torch.randint(50257, (4, 512), device="cuda")
    try:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_layer=options.layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
        model = GPT2LMHeadModel(config).cuda().train()
        what = "Hugging Face's GPT2LMHeadModel"
        logits = lambda: run(ids).logits  # noqa: E731
    except ImportError:
        model = PlainGpt(options.layers).cuda().train()
        what = "GPT-2's architecture in plain PyTorch (transformers is not installed)"
        logits = lambda: run(ids)  # noqa: E731
    run = torch.compile(model) if compiled else model
    # A rate of 0: the step is the same each time, also where work depends on the numbers (tanh).
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            out = logits()
            loss = F.cross_entropy(out[:, :-1].reshape(-1, out.shape[-1]).float(), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()

    step.what = f"{what}, {options.layers} layers, 4 x 512 tokens, bf16 autocast, fused AdamW" + (", compiled" if compiled else "")
    return step


MAKE = {
    "mlp": mlp,
    "resnet": resnet,
    "flash": block(SDPBackend.FLASH_ATTENTION),
    "unfused": block(SDPBackend.MATH),
    "gpt2": gpt2,
    "gpt2-compiled": lambda options: gpt2(options, compiled=True),
}


def made(name, options):
    """A step that was run often enough that it is the same each time."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    step = MAKE[name](options)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return step


def formulas(name, options):
    from torch.utils.flop_counter import FlopCounterMode

    step = made(name.removesuffix("-compiled"), options)
    with FlopCounterMode(display=False) as mode:
        step()
    return mode.get_total_flops()


def by_wheel(name, options):
    """Counts by launch, of this package."""
    import flopgap

    formula = formulas(name, options)
    step = made(name, options)
    begin = time.perf_counter()
    counts = flopgap.Counter(by="launch", what=MODELS[name], theory=not name.endswith("compiled")).count(step)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    total = flopgap.Counter(theory=False).count(step)
    again = time.perf_counter() - begin
    metrics = [metric for metric in counts.metrics if "ops_path" in metric or "sass" in metric]
    return {
        "what": getattr(step, "what", None) or MAKE[name].__doc__,
        "metrics": metrics,
        "launches": [[row.symbol, list(row.grid), list(row.block), [row.values[metric] for metric in metrics]] for row in counts.rows],
        "formula": formula,
        "theory": counts.theory.products if counts.theory and not counts.theory.unseen else None,
        "tensor": counts.tensor_flops,
        "tensor_by_region": total.tensor_flops,
        "fp32": counts.flops.get("fp32"),
        "seconds": seconds,
        "seconds_by_region": again,
        "text": str(counts),
    }


def by_ncu(name, options, metrics):
    """The same by Nsight Compute over a process of its own; `None` where there is no ncu."""
    if shutil.which("ncu") is None:
        return None
    command = ["ncu", "--profile-from-start", "off", "--target-processes", "application-only", "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--print-kernel-base", "mangled", "--clock-control", "none", "--cache-control", "none"]
    command += ["--metrics", ",".join(metrics), sys.executable, os.path.abspath(__file__), "--run", name, "--layers", str(options.layers)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if not rows:
        raise RuntimeError(f"ncu: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    dims = lambda text: [int(part) for part in text.strip("() ").split(",")]  # noqa: E731
    number = lambda text: int(float(text.replace(",", "")))  # noqa: E731
    launches = [
        [row["Kernel Name"], dims(row["Grid Size"]), dims(row["Block Size"]), [number(row[metric]) for metric in metrics]]
        for row in rows
        # The row below the header has the units.
        if row["ID"]
    ]
    return {"launches": launches, "seconds": seconds}


def compared(ours, theirs):
    """How many launches are equal in name, shape and all counts, and what is not."""
    if len(ours) != len(theirs):
        lists = [Counter(str(launch) for launch in launches) for launches in (ours, theirs)]
        same = sum((lists[0] & lists[1]).values())
        return same, [f"{len(ours)} launches here, {len(theirs)} by ncu"]
    differing = [f"{i}: {a} | ncu {b}" for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    return len(ours) - len(differing), differing


def tensor_of(metrics, launches):
    places = [i for i, metric in enumerate(metrics) if "ops_path" in metric]
    return sum(launch[3][i] for launch in launches for i in places)


def fp32_of(metrics, launches):
    weights = {"fadd": 1, "fmul": 1, "ffma": 2}
    each = [(i, weight) for i, metric in enumerate(metrics) for op, weight in weights.items() if f"_op_{op}_" in metric]
    return sum(launch[3][i] * weight for launch in launches for i, weight in each)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--layers", type=int, default=12, help="of GPT-2")
    parser.add_argument("--json", help="write everything here")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--count", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        step = made(options.run, options)
        torch.cuda.cudart().cudaProfilerStart()
        step()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        return
    if options.count:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(by_wheel(options.count, options), file)
        return
    results = {}
    for name in options.models:
        try:
            results[name] = show(name, options)
        except Exception as error:  # noqa: BLE001  The other models are counted all the same.
            print(f"\n{name}: {type(error).__name__}: {error}", flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file)
    print("\n| model | launches | tensor: here | ncu | FlopCounterMode | fp32: here | ncu | equal launches | seconds here, by region, ncu |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name, r in results.items():
        n = r["ncu"] or {}
        values = [len(r["launches"]), r["tensor"], n.get("tensor"), r["formula"], r["fp32"], n.get("fp32"), n.get("equal")]
        cells = ["" if value is None else f"{value:,}" for value in values]
        times = f"{r['seconds']:.2f}, {r['seconds_by_region']:.2f}, {n.get('seconds', float('nan')):.1f}"
        print(f"| {name} | {' | '.join(cells)} | {times} |")


def show(name, options):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "counts.json")
        command = [sys.executable, os.path.abspath(__file__), "--count", name, "--out", out, "--layers", str(options.layers)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{done.stdout[-1000:]}{done.stderr[-3000:]}")
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
    print(f"\n{name}: {result['what']}\n{result['text']}", flush=True)
    ncu = by_ncu(name, options, result["metrics"])
    if ncu is not None:
        equal, differing = compared(result["launches"], ncu["launches"])
        ncu.update(
            tensor=tensor_of(result["metrics"], ncu["launches"]),
            fp32=fp32_of(result["metrics"], ncu["launches"]),
            equal=equal,
            differing=differing,
        )
        print(f"  ncu: {len(ncu['launches'])} launches, {equal} equal in name, shape and all counts, {ncu['seconds']:.1f} s")
        for line in differing[:5]:
            print(f"    differs: {line[:400]}")
    result["ncu"] = ncu
    return result


if __name__ == "__main__":
    main()
