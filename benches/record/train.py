"""A seeded training of a small transformer, annotated with NVTX: the same work under every recorder."""

import contextlib
import os
import sys
import time

import torch

torch.manual_seed(0)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
profiled_before = "profiler-before" in sys.argv
# The host limits the small one, the GPU the large one.
width, batch, tokens = (2048, 16, 512) if "large" in sys.argv else (512, 8, 128)
layer = torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True, dropout=0.0)
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(batch, tokens, width, device="cuda")
autocast = torch.autocast("cuda", torch.bfloat16, enabled="large" in sys.argv)
nvtx = torch.cuda.nvtx


def step():
    with nvtx.range("forward"), autocast:
        loss = model(inputs).square().mean()
    with nvtx.range("backward"):
        loss.backward()
    with nvtx.range("optimizer"):
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


for _ in range(5):
    step()
torch.cuda.synchronize()
if profiled_before:
    with torch.profiler.profile() as profile:
        step()
        torch.cuda.synchronize()
    print("profiler:", len(profile.events()), "events")
profiler = torch.profiler.profile() if os.environ.get("TRAIN_PROFILER") else contextlib.nullcontext()
with profiler:
    begin = time.perf_counter()
    for number in range(steps):
        with nvtx.range(f"step {number}"):
            step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
print(f"{seconds / steps * 1e3:.3f} ms a step")
