"""Programs that leave nothing to gain: no advice may be given to them."""

import torch
from experiment import healthy
from networks import Convolutions, Perceptron, Transformer

from .inputs import Prefetched, images, normalized
from .training import adam, training


@healthy("healthy-training")
def healthy_training(setup, after):
    """Large products in bf16, a fused optimizer, and the whole step in a CUDA graph."""
    width, samples = setup.size(4096, 16), setup.size(16384, 8)
    model = Perceptron(width, 4, bias=False, activation=torch.relu).to(setup.device, torch.bfloat16)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    step = training(model, adam(model.parameters(), fused=True, capturable=setup.gpu), lambda: (x, y))
    return setup.captured(step)


@healthy("healthy-inference", marks=False)
def healthy_inference(setup, after):
    """A stack of large products in bf16, in a CUDA graph."""
    width = setup.size(8192, 16)
    model = Perceptron(width, 4, bias=False, activation=torch.relu).to(setup.device, torch.bfloat16).eval()
    x = setup.randn(width, width, dtype=torch.bfloat16)

    def step():
        with torch.no_grad():
            return model(x)

    return setup.captured(step)


@healthy("healthy-convolutions")
def healthy_convolutions(setup, after):
    """Convolutions in bf16 with channels last, compiled, fed from pinned memory ahead of time."""
    samples, size = setup.size(128, 4), setup.size(56, 8)
    model = Convolutions(setup.size(512, 8), 4, stride=2).to(setup.device, memory_format=torch.channels_last)
    model = model.to(torch.bfloat16)
    batches = Prefetched(setup, images(setup, samples, size))
    optimizer = adam(model.parameters(), fused=True)
    return training(setup.compiled(model), optimizer, lambda: normalized(batches()))


@healthy("healthy-transformer", clean=False)
def healthy_transformer(setup, after):
    """A wide transformer layer in bf16, eager, with fused attention and a fused optimizer."""
    width, tokens = setup.size(4096, 16), setup.size(2048, 8)
    model = Transformer(width, setup.size(32, 2), 1).to(setup.device, torch.bfloat16)
    x, y = setup.randn(4, tokens, width, dtype=torch.bfloat16), setup.classes(4)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))
