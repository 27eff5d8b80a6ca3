"""Programs that keep the GPU busy with the wrong kernels."""

import torch
from experiment import experiment
from networks import (
    Convolutions,
    LanguageHead,
    Perceptron,
    Residual,
    Transformer,
    attention_by_hand,
    attention_fused,
)
from torch.nn import functional

from .training import adam, training


@experiment(
    "fp32-products",
    cause="products of matrices in FP32 without tensor cores",
    change='torch.set_float32_matmul_precision("high"): TF32',
    limit="gpu",
    advice="tensor-cores",
    clean=False,
)
def fp32_products(setup, after):
    torch.set_float32_matmul_precision("high" if after else "highest")
    width, samples = setup.size(2048, 16), setup.size(4096, 8)
    model = Perceptron(width, 4).to(setup.device)
    x, y = setup.randn(samples, width), setup.classes(samples)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))


@experiment(
    "attention-by-hand",
    cause="attention as products, a mask and a softmax: the scores go through memory many times",
    change="scaled_dot_product_attention",
    limit="gpu",
    advice="fused-attention",
    # The mask, the scale and the softmax are element-wise kernels, too.
    also=("fuse-elementwise",),
)
def attention(setup, after):
    width, tokens = setup.size(1024, 16), setup.size(2048, 8)
    kind = attention_fused if after else attention_by_hand
    model = Transformer(width, setup.size(16, 2), 1, kind).to(setup.device, torch.bfloat16)
    x, y = setup.randn(4, tokens, width, dtype=torch.bfloat16), setup.classes(4)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))


def updated(setup, width, depth, samples, after):
    model = Perceptron(width, depth, bias=False).to(setup.device)
    x, y = setup.randn(samples, width), setup.classes(samples)
    optimizer = adam(model.parameters(), **({"fused": True} if after else {"foreach": False, "fused": False}))
    return training(model, optimizer, lambda: (x, y))


@experiment(
    "optimizer-bandwidth",
    cause="AdamW with foreach=False, fused=False on large parameters: every line goes through memory",
    change="fused=True",
    limit="gpu",
    advice="fused-optimizer",
    also=("fuse-elementwise",),
)
def optimizer_bandwidth(setup, after):
    return updated(setup, setup.size(4096, 16), 8, setup.size(512, 8), after)


@experiment(
    "optimizer-launches",
    cause="AdamW with foreach=False, fused=False on many small parameters: some ten launches for each",
    change="fused=True",
    limit="launch",
    limit_after="launch",
    advice="fused-optimizer",
    # The small network around the optimizer is limited by launches, too.
    also=("cuda-graphs",),
)
def optimizer_launches(setup, after):
    return updated(setup, setup.size(128, 16), 15, 64, after)


def gelu_by_hand(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@experiment(
    "elementwise-chain",
    cause="an activation written as eight element-wise operators, each of which goes through memory",
    change="torch.compile",
    limit="gpu",
    advice="fuse-elementwise",
)
def elementwise_chain(setup, after):
    width, samples = setup.size(2048, 16), setup.size(65536, 8)
    model = Perceptron(width, 2, activation=gelu_by_hand).to(setup.device, torch.bfloat16)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    optimizer = adam(model.parameters(), fused=True)
    return training(setup.compiled(model) if after else model, optimizer, lambda: (x, y))


@experiment(
    "channels-first",
    cause="convolutions under autocast with channels first: the library transposes around each",
    change="model and input in channels_last",
    limit="gpu",
    advice="channels-last",
    # Batch normalization and ReLU are kernels of their own in both variants.
    also=("fuse-elementwise",),
    clean=False,
)
def channels_first(setup, after):
    layout = torch.channels_last if after else torch.contiguous_format
    samples, size = setup.size(128, 4), setup.size(28, 8)
    model = Convolutions(setup.size(256, 8), 4).to(setup.device, memory_format=layout)
    x = setup.randn(samples, 3, size, size).to(memory_format=layout)
    y = setup.classes(samples)
    optimizer = adam(model.parameters(), fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(setup.device.type, torch.bfloat16):
            loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@experiment(
    "odd-vocabulary",
    cause="a vocabulary of 50257: the rows of the logits are not aligned, and tiles overhang",
    change="the vocabulary is padded to 50304",
    limit="gpu",
    advice="tile-padding",
    # The softmax over the vocabulary reads and writes all logits.
    also=("fuse-elementwise",),
)
def odd_vocabulary(setup, after):
    used = setup.size(50257, 57)
    size = setup.size(50304, 64) if after else used
    samples = setup.size(8192, 8)
    model = LanguageHead(size, setup.size(2048, 16)).to(setup.device, torch.bfloat16)
    tokens, y = setup.classes(samples, used), setup.classes(samples, used)
    return training(model, adam(model.parameters(), fused=True), lambda: (tokens, y))


@experiment(
    "needless-recomputation",
    cause="every layer is recomputed in the backward pass, although memory is plentiful",
    change="no activation checkpointing",
    limit="gpu",
    advice="recomputation",
    also=("fuse-elementwise",),
)
def needless_recomputation(setup, after):
    width, samples = setup.size(2048, 16), setup.size(8192, 8)
    model = Residual(width, setup.size(4, 2), recompute=not after).to(setup.device, torch.bfloat16)
    x, y = setup.randn(samples, width, dtype=torch.bfloat16), setup.classes(samples)
    return training(model, adam(model.parameters(), fused=True), lambda: (x, y))


@experiment(
    "serialized-streams",
    cause="two directions of a scan have a stream each, but wait for each other after every round",
    change="the streams wait for each other once, at the end",
    limit="gpu",
    advice="serialized-streams",
    also=("fuse-elementwise",),
)
def serialized_streams(setup, after):
    # A scan of few rows occupies few multiprocessors, so that two of them fit beside each other.
    rows, length = 32, setup.size(65536, 64)
    x = setup.randn(rows, length)
    inputs = [x, x.flip(1).contiguous()]
    streams = [setup.stream(), setup.stream()]

    def step():
        states = list(inputs)
        if setup.gpu:
            for stream in streams:
                stream.wait_stream(torch.cuda.current_stream())
        for _ in range(6):
            for direction, stream in enumerate(streams):
                with setup.on(stream):
                    states[direction] = torch.tanh(torch.cumsum(states[direction], 1))
                if setup.gpu and not after:
                    streams[1 - direction].wait_stream(stream)
        if setup.gpu:
            for state, stream in zip(states, streams):
                torch.cuda.current_stream().wait_stream(stream)
                state.record_stream(torch.cuda.current_stream())
        return states[0] + states[1]

    return step
