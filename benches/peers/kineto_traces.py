"""Traces of torch.profiler and, beside them, what the profiler's own key_averages says.

    python3 kineto_traces.py all OUTDIR          every mode below in a process of its own, and under nsys where that is on the path
    python3 kineto_traces.py MODE OUTDIR         one mode: OUTDIR/MODE.json.gz and OUTDIR/MODE.key_averages.csv
    python3 kineto_traces.py MODE OUTDIR --nvtx  the same program without torch.profiler, its ranges as NVTX, for nsys:

    nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none --capture-range=cudaProfilerApi --capture-range-end=stop \\
        --cuda-graph-trace=node --export=sqlite --force-overwrite=true -o OUTDIR/MODE python3 kineto_traces.py MODE OUTDIR --nvtx

MODE is one of
    layer    one rank: a transformer layer in bf16, 3 training steps with ProfilerStep and record_function ranges
    plain    the same, 2 steps without any range of the user's
    stack    the same, 1 step with Python's stack and modules
    graph    the same, the whole step captured and replayed 3 times
    compile  the same under torch.compile, 2 steps
    ddp      the same on 2 GPUs with DistributedDataParallel over NCCL; rank 1 has twice the samples:
             OUTDIR/ddp_rank0.json.gz, OUTDIR/ddp_rank1.json.gz

For nsys in mode ddp leave --capture-range and --capture-range-end out: each rank is a process that nsys did not start itself.
Written for PyTorch 2.11; it needs one GPU, ddp two.
"""

import argparse
import contextlib
import csv
import gzip
import os
import shutil
import subprocess
import sys
import tempfile

MODES = ["layer", "plain", "stack", "graph", "compile", "ddp"]
WIDTH, HEADS, TOKENS, SAMPLES, STEPS = 512, 8, 256, 8, 3


def layer():
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.profiler import record_function

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.ranges = True

        def range(self, name):
            return record_function(name) if self.ranges else contextlib.nullcontext()

        def forward(self, x):
            with self.range("attention"):
                samples, tokens, _ = x.shape
                split = self.qkv(self.norm1(x)).view(samples, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
                heads = functional.scaled_dot_product_attention(*split, is_causal=True)
                x = x + self.out(heads.transpose(1, 2).reshape(samples, tokens, WIDTH))
            with self.range("mlp"):
                return x + self.down(functional.gelu(self.up(self.norm2(x))))

    torch.manual_seed(0)
    return Layer().to("cuda", torch.bfloat16)


def key_averages(profiler, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["name", "device_type", "user_annotation", "count", "self_device_time_total", "device_time_total",
             "self_cpu_time_total", "cpu_time_total", "flops"]
        )  # fmt: skip
        for row in profiler.key_averages():
            rows.writerow(
                [row.key, str(row.device_type).rsplit(".", 1)[-1], int(bool(getattr(row, "is_user_annotation", False))),
                 row.count, row.self_device_time_total, row.device_time_total, row.self_cpu_time_total,
                 row.cpu_time_total, row.flops]
            )  # fmt: skip


def export(profiler, base):
    # Written plainly and compressed here, since the name decides about compression and did not in older versions.
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(plain)
        with open(plain, "rb") as source, gzip.GzipFile(f"{base}.json.gz", "wb", mtime=0) as target:
            shutil.copyfileobj(source, target)
    key_averages(profiler, f"{base}.key_averages.csv")
    print(f"{base}.json.gz: {os.path.getsize(f'{base}.json.gz')} bytes", flush=True)


def recorded(mode, base, steps, step, nvtx):
    """Runs `step` until everything is warm, then `steps` times under torch.profiler, or under nsys."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    if nvtx:
        torch.cuda.profiler.start()
        with torch.autograd.profiler.emit_nvtx():
            for number in range(steps):
                with contextlib.nullcontext() if mode == "plain" else record_function(f"ProfilerStep#{number}"):
                    step()
            torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        return
    stack = mode == "stack"
    options = {
        "activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
        "record_shapes": not stack,
        "with_flops": not stack,
        "with_stack": stack,
        "with_modules": stack,
    }
    if mode == "plain":
        with profile(**options) as profiler:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
        export(profiler, base)
        return
    ready = lambda profiler: export(profiler, base)  # noqa: E731
    plan = schedule(wait=1, warmup=1, active=steps, repeat=1)
    with profile(**options, schedule=plan, on_trace_ready=ready) as profiler:
        for number in range(2 + steps):
            step()
            if number + 1 == 2 + steps:
                torch.cuda.synchronize()
            profiler.step()


def training(mode, model, samples):
    """A training step. The loss is read once a step, as most programs do, so that the host waits for the GPU there."""
    import torch
    from torch.profiler import record_function

    torch.manual_seed(1)
    x = torch.randn(samples, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=mode == "graph")
    ranges = mode not in ("plain", "graph", "compile")
    scope = record_function if ranges else (lambda _: contextlib.nullcontext())

    def step(read=True):
        with scope("forward_and_loss"):
            loss = model(x).float().square().mean()
        with scope("backward_pass"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=mode != "graph")
        return loss.item() if read else loss

    return step


def one(mode, folder, nvtx):
    import torch

    model = layer()
    model.ranges = mode not in ("plain", "graph", "compile")
    step = training(mode, torch.compile(model) if mode == "compile" else model, SAMPLES)
    if mode == "graph":
        # The usual recipe: warm up on a side stream, then capture, then replay.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(read=False)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(read=False)
        step = graph.replay
    steps = {"plain": 2, "stack": 1, "compile": 2}.get(mode, STEPS)
    recorded(mode, os.path.join(folder, mode), steps, step, nvtx)


def rank(number, folder, nvtx, store):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.cuda.set_device(number)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=number, world_size=2)
    # Small buckets, so that there is something to reduce while backward still computes.
    model = DistributedDataParallel(layer(), device_ids=[number], bucket_cap_mb=1)
    step = training("ddp", model, SAMPLES * (1 + number))
    recorded("ddp", os.path.join(folder, f"ddp_rank{number}"), STEPS, step, nvtx)
    dist.barrier()
    dist.destroy_process_group()


def everything(folder):
    import torch

    with open(os.path.join(folder, "machine.txt"), "w", encoding="utf-8") as file:
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        file.write(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, NCCL {nccl}, Python {sys.version.split()[0]}\n")
        file.write("".join(f"{name}\n" for name in names))
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        if shutil.which(query[0]):
            file.write("driver " + subprocess.run(query, capture_output=True, text=True).stdout)
    failed = []
    for mode in MODES:
        if mode == "ddp" and torch.cuda.device_count() < 2:
            print("ddp: left out, there is one GPU", flush=True)
            continue
        call = [sys.executable, os.path.abspath(__file__), mode, folder]
        if subprocess.run(call).returncode != 0:
            failed.append(mode)
        if shutil.which("nsys") and mode != "stack":
            window = [] if mode == "ddp" else ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
            nsys = ["nsys", "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", *window]
            nsys += ["--cuda-graph-trace=node", "--export=sqlite", "--force-overwrite=true"]
            if subprocess.run([*nsys, "-o", os.path.join(folder, mode), *call, "--nvtx"]).returncode != 0:
                failed.append(f"{mode} under nsys")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=[*MODES, "all"])
    parser.add_argument("folder")
    parser.add_argument("--nvtx", action="store_true", help="ranges as NVTX and no torch.profiler, for nsys")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    os.makedirs(folder, exist_ok=True)
    if options.mode == "all":
        everything(folder)
    elif options.mode == "ddp":
        import torch

        with tempfile.TemporaryDirectory() as place:
            store = os.path.join(place, "store")
            torch.multiprocessing.spawn(rank, args=(folder, options.nvtx, store), nprocs=2)
    else:
        one(options.mode, folder, options.nvtx)


if __name__ == "__main__":
    main()
