"""Programs of two ranks: communication and its balance."""

import torch
import torch.distributed as dist
from experiment import experiment
from networks import Perceptron
from torch.nn.parallel import DistributedDataParallel

from .training import adam, training


def parallel(setup, model, **options):
    devices = [setup.device.index] if setup.gpu else None
    return DistributedDataParallel(model, device_ids=devices, **options)


@experiment(
    "small-buckets",
    cause="DistributedDataParallel with bucket_cap_mb=0.1: a reduction for every small parameter",
    change="buckets of 25 MB",
    limit="communication",
    advice="small-buckets",
    limit_after="launch",
    also=("cuda-graphs", "communication-overlap"),
    gpus=2,
)
def small_buckets(setup, after):
    width, samples = setup.size(512, 16), setup.size(4096, 8)
    model = Perceptron(width, setup.size(16, 2), bias=False).to(setup.device, torch.bfloat16)
    model = parallel(setup, model, bucket_cap_mb=25 if after else 0.1)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))


@experiment(
    "straggler",
    cause="one rank has three times the samples of the other, which waits for it in every reduction",
    change="both ranks have the same number of samples",
    limit="skew",
    advice="straggler",
    also=("communication-overlap",),
    gpus=2,
)
def straggler(setup, after):
    width, samples = setup.size(4096, 16), setup.size(4096, 8)
    if not after:
        samples = samples * 3 // 2 if dist.get_rank() == 1 else samples // 2
    model = parallel(setup, Perceptron(width, 4, bias=False).to(setup.device, torch.bfloat16))
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))


@experiment(
    "late-reduction",
    cause="the gradients are reduced after the backward pass, while nothing computes",
    change="DistributedDataParallel, which reduces during the backward pass",
    limit="communication",
    advice="communication-overlap",
    gpus=2,
)
def late_reduction(setup, after):
    width, samples = setup.size(4096, 16), setup.size(1024, 8)
    model = Perceptron(width, setup.size(8, 2), bias=False).to(setup.device, torch.bfloat16)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    optimizer = adam(model.parameters(), fused=True)
    if after:
        return training(parallel(setup, model), optimizer, lambda: (x, y))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
        return loss.detach()

    return step
