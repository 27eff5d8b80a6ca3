"""The training step that most programs share."""

import torch
from torch.nn import functional


def adam(parameters, **options):
    return torch.optim.AdamW(parameters, lr=1e-4, **options)


def training(model, optimizer, batch, loss=functional.cross_entropy):
    """A step of training: `batch` gives input and target of the next iteration."""

    def step():
        optimizer.zero_grad(set_to_none=True)
        x, target = batch()
        value = loss(model(x), target)
        value.backward()
        optimizer.step()
        return value.detach()

    return step
