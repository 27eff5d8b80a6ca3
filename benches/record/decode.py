"""Decodes with a language model of 1.5 billion parameters by CUDA graphs, 32 texts at once: the sizes of Qwen2.5-1.5B, random weights.

    decode.py TOKENS
"""

import contextlib
import os
import sys
import time

import torch
from torch.nn import functional

LAYERS, WIDTH, HEADS, GROUPS, HEAD, INNER, WORDS = 28, 1536, 12, 2, 128, 8960, 151936
TEXTS, LENGTH = 32, 1024


class Block(torch.nn.Module):
    """One layer with its cache of keys and values."""

    def __init__(self):
        super().__init__()
        self.before = torch.nn.RMSNorm(WIDTH)
        self.inputs = torch.nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * HEAD)
        self.output = torch.nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.after = torch.nn.RMSNorm(WIDTH)
        self.gate = torch.nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False)
        self.register_buffer("keys", torch.zeros(TEXTS, GROUPS, LENGTH, HEAD))
        self.register_buffer("values", torch.zeros(TEXTS, GROUPS, LENGTH, HEAD))

    def forward(self, x, at, seen, turn):
        split = self.inputs(self.before(x)).view(TEXTS, 1, -1, HEAD).transpose(1, 2)
        query, key, value = split.split([HEADS, GROUPS, GROUPS], dim=1)
        query, key = (y * turn[0] + torch.cat((-y[..., HEAD // 2 :], y[..., : HEAD // 2]), -1) * turn[1] for y in (query, key))
        self.keys.index_copy_(2, at, key)
        self.values.index_copy_(2, at, value)
        mixed = functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen, enable_gqa=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(TEXTS, 1, -1))
        gate, up = self.gate(self.after(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        words = torch.nn.Embedding(WORDS, WIDTH)
        blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        last = torch.nn.RMSNorm(WIDTH)
        at = torch.zeros(1, dtype=torch.long)
        token = torch.zeros(TEXTS, 1, dtype=torch.long)
        places = torch.arange(LENGTH)
        frequencies = 1e6 ** (-torch.arange(0, HEAD, 2, dtype=torch.float32) / HEAD)

    def step():
        angles = (at.float() * frequencies).repeat(2)
        turn = angles.cos().bfloat16(), angles.sin().bfloat16()
        x = words(token)
        for block in blocks:
            x = block(x, at, (places <= at).view(1, 1, 1, -1), turn)
        token.copy_((last(x) @ words.weight.T).argmax(-1))
        at.add_(1).remainder_(LENGTH)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    profiler = torch.profiler.profile() if os.environ.get("TRAIN_PROFILER") else contextlib.nullcontext()
    with profiler:
        begin = time.perf_counter()
        for number in range(int(sys.argv[1])):
            with torch.cuda.nvtx.range(f"token {number}"):
                graph.replay()
                # As servers do, to see which texts have ended.
                token.tolist()
        seconds = time.perf_counter() - begin
    print(f"{seconds / int(sys.argv[1]) * 1e3:.4f} ms a step")


main()
