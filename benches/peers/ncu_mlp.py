"""A process under Nsight Compute for every configuration and phase, as one counts FLOPs without CUPTI: python3 ncu_mlp.py [N,D,M ...]

For each configuration it runs this file's other half, the square sigmoid network in PyTorch, under ncu three times: stopped after setup, after forward, and not
stopped. It prints the wall time of each, and what 1,280 configurations would take at their mean."""
import os
import subprocess
import sys
import tempfile
import time

PHASES = ("setup", "forward", "forward_backward")
METRICS = ",".join(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma"))
CONFIGURATIONS = ["2,128,16", "4,512,64", "8,768,96", "8,1024,128", "16,1536,192", "32,2048,256"]


def network(phase, n, d, m):
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    weights = [torch.randn(d, d, device="cuda", requires_grad=True) for _ in range(n)]
    h = torch.randn(d, m, device="cuda")
    if phase != "setup":
        for weight in weights:
            h = torch.sigmoid(weight @ h)
        if phase == "forward_backward":
            h.sum().backward()
    torch.cuda.synchronize()


def main(configurations):
    total = 0.0
    print("n,d,m,phase,seconds,rows", flush=True)
    for configuration in configurations:
        for phase in PHASES:
            with tempfile.TemporaryDirectory() as folder:
                report = os.path.join(folder, "report.csv")
                program = [sys.executable, os.path.abspath(__file__), "--phase", phase, configuration]
                start = time.perf_counter()
                subprocess.run(["ncu", "--csv", "--metrics", METRICS, "--log-file", report, *program], check=True)
                seconds = time.perf_counter() - start
                with open(report) as lines:
                    rows = sum(line.startswith('"') for line in lines) - 1
            total += seconds
            print(f"{configuration},{phase},{seconds:.2f},{rows}", flush=True)
    mean = total / len(configurations) / len(PHASES)
    print(f"mean {mean:.2f} s; 1,280 configurations in {len(PHASES)} phases: {mean * len(PHASES) * 1280 / 3600:.1f} h")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--phase"]:
        network(sys.argv[2], *map(int, sys.argv[3].split(",")))
    else:
        main(sys.argv[1:] or CONFIGURATIONS)
