"""Trains or runs one of seven small models for some seconds, a range `step` for each step:

    models.py MODEL SECONDS

With NCU=1 in the environment it runs one step, between the marks of the profiler, and ends.
"""

import os
import sys
import time

import torch
from torch.nn import functional

WARM_UP = 3
TOGETHER = 10


class Block(torch.nn.Module):
    """A block of a transformer."""

    def __init__(self, width, activation):
        super().__init__()
        self.activation = activation
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)])
        self.inputs = torch.nn.Linear(width, 3 * width)
        self.output = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        heads = width // 64
        split = self.inputs(self.norms[0](x)).view(batch, tokens, 3, heads, 64)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(self.activation(self.up(self.norms[1](x))))


def transformer(layers, width, dtype, activation=functional.relu):
    blocks = [Block(width, activation) for _ in range(layers)]
    ends = [torch.nn.LayerNorm(width), torch.nn.Linear(width, 8192)]
    model = torch.nn.Sequential(*blocks, *ends).to("cuda", dtype)
    return model, torch.randn(4, 512, width, device="cuda", dtype=dtype)


def training(model, x, loss, optimizer=torch.optim.AdamW):
    optimizer = optimizer(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()

    return step


def square(output):
    return output.float().square().mean()


def gpt():
    model, x = transformer(6, 768, torch.bfloat16)
    wanted = torch.randint(0, 8192, (4 * 512,), device="cuda")
    return training(model, x, lambda output: functional.cross_entropy(output.float().view(-1, 8192), wanted))


def vit():
    return training(*transformer(4, 512, torch.float16), square, torch.optim.SGD)


def tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    return training(*transformer(2, 512, torch.float32), square)


def conv():
    layers = [
        torch.nn.Conv2d(3, 64, 7, 2, 3),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, 2, 1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(128, 128, 3, 1, 1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 1000),
    ]
    model = torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)
    return training(model, torch.randn(32, 3, 224, 224, device="cuda", dtype=torch.bfloat16), square)


def lstm():
    model = torch.nn.LSTM(512, 512, 2, batch_first=True).to("cuda")
    return training(model, torch.randn(32, 32, 512, device="cuda"), lambda output: square(output[0]))


def infer():
    model, x = transformer(8, 1024, torch.float16)
    return torch.no_grad()(lambda: model(x))


def small():
    """A training step, and a CUDA graph whose kernels ran one by one for some seconds before."""
    model, x = transformer(1, 256, torch.bfloat16, functional.gelu)
    train = training(model, x, square, torch.optim.SGD)
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)]
    captured = torch.nn.Sequential(*layers).to("cuda", torch.float16)
    z = torch.randn(64, 256, device="cuda", dtype=torch.float16)
    alone = torch.no_grad()(lambda: captured(z))
    until = time.time() + (0 if os.environ.get("NCU") else 5)
    while time.time() < until:
        alone()
        train()
    alone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        alone()

    def step():
        train()
        graph.replay()

    return step


def main():
    torch.manual_seed(0)
    step = {"gpt": gpt, "vit": vit, "tf32": tf32, "conv": conv, "lstm": lstm, "infer": infer, "small": small}[sys.argv[1]]()
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    if os.environ.get("NCU"):
        torch.cuda.profiler.start()
        step()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        return
    until = time.time() + float(sys.argv[2])
    while time.time() < until:
        for _ in range(TOGETHER):
            with torch.cuda.nvtx.range("step"):
                step()
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
