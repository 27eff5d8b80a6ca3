"""One training step of the square sigmoid network under torch.profiler: python3 kineto_mlp.py FOLDER [--n 10] [--d 1024 ...] [--m 128]

For each width it writes FOLDER/kineto_n<n>_d<d>_m<m>.json.gz, a trace that `mlp-validate` reads, and prints as CSV what the profiler's own table
says: operator, calls and FLOPs."""
import argparse
import gzip
import os
import shutil
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--n", type=int, default=10)
parser.add_argument("--d", type=int, nargs="+", default=[1024])
parser.add_argument("--m", type=int, default=128)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
options = parser.parse_args()

# FP32 as the network is defined, not TF32.
torch.backends.cuda.matmul.allow_tf32 = False
os.makedirs(options.folder, exist_ok=True)
activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if options.device == "cuda" else [])
print("d,operator,calls,flops")
for d in options.d:
    torch.manual_seed(0)
    weights = [torch.randn(d, d, device=options.device, requires_grad=True) for _ in range(options.n)]
    x = torch.randn(d, options.m, device=options.device)
    # Shapes are what the formula is evaluated on: without record_shapes a trace holds no FLOPs at all.
    with profile(activities=activities, record_shapes=True, with_flops=True) as profiler:
        h = x
        for weight in weights:
            h = torch.sigmoid(weight @ h)
        h.sum().backward()
        if options.device == "cuda":
            torch.cuda.synchronize()
    for event in profiler.key_averages():
        if event.flops:
            print(f"{d},{event.key},{event.count},{event.flops}")
    name = os.path.join(options.folder, f"kineto_n{options.n}_d{d}_m{options.m}.json.gz")
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(plain)
        with open(plain, "rb") as source, gzip.open(name, "wb") as target:
            shutil.copyfileobj(source, target)
