"""One rank of an experiment that needs several GPUs. `record.py` starts it with torchrun."""

import argparse
import json
import os

import torch
import torch.distributed as dist
from experiment import EXPERIMENTS
from measure import Setup, recorded, timed, warm

import programs  # noqa: F401


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("variant")
    parser.add_argument("folder")
    parser.add_argument("--device", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    local = int(os.environ["LOCAL_RANK"])
    if options.device == "cuda":
        torch.cuda.set_device(local)
        setup = Setup(f"cuda:{local}")
    else:
        setup = Setup("cpu")
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if setup.gpu else "gloo")

    def agree(steps):
        # The same number for all ranks, since every step communicates.
        least = torch.tensor(steps, device=setup.device)
        dist.all_reduce(least, op=dist.ReduceOp.MIN)
        return int(least)

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    planned = EXPERIMENTS[options.name]
    step = planned.build(setup, options.variant != "before")
    result = {"value": warm(setup, step), **timed(setup, step, options.seconds, agree)}
    rank = dist.get_rank()
    base = f"{options.name}.{options.variant}"
    dist.barrier()
    trace = f"{base}.rank{rank}.json.gz"
    recorded(setup, step, os.path.join(options.folder, trace), planned.steps, planned.marks, planned.clean)
    dist.barrier()
    if rank == 0:
        result["traces"] = [f"{base}.rank{rank}.json.gz" for rank in range(dist.get_world_size())]
        with open(os.path.join(options.folder, f"{base}.json"), "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
