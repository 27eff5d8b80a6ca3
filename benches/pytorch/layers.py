"""Single layers drawn at random, some dozens to a model: what models drawn at random have few of.

Each reads what a function wrote just before, as layers of models do. LAYERS in the environment names the kinds; those of models, with
recurrent ones, if it is 1.
"""

import os
import random

import torch
from torch import nn
from torch.nn import functional

# Elements of a tensor and FLOPs of a layer, at most.
ELEMENTS, FLOPS = 1 << 26, 4e11
IMAGES = [7, 8, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 150, 192, 224, 256]


def spread(draw, least, most):
    """A whole number between two, as likely in each octave."""
    return max(least, min(most, round(least * (most / least) ** draw.random())))


def channels(draw, least, most):
    step = draw.choice([8, 8, 8, 16, 16, 32, 64, 4, 1])
    return max(step, spread(draw, least, most) // step * step)


class Layers(nn.Module):
    """Layers, each with the shapes of what it reads."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs):
        inputs, results = iter(inputs), []
        for layer in self.layers:
            results.append(layer(*[functional.relu(next(inputs)) for _ in range(layer.reads)]))
        return results


class Layer(nn.Module):
    """A function of so many tensors; `last` has channels last."""

    def __init__(self, layer, reads=1, last=False):
        super().__init__()
        self.layer, self.reads, self.last = layer, reads, last

    def forward(self, *inputs):
        if self.last:
            inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        return self.layer(*inputs)


class Attention(nn.Module):
    def __init__(self, causal, mask):
        super().__init__()
        self.causal, self.mask = causal, mask

    def forward(self, query, key, value, *mask):
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        if self.mask == "truth":
            mask = [mask[0] > -1.0]
        return functional.scaled_dot_product_attention(query, key, value, *mask, is_causal=self.causal)


class Cached(nn.Module):
    """Attention of a few queries over a cache, whose heads several of the queries share: as models of transformers call it."""

    def __init__(self, groups, way):
        super().__init__()
        self.groups, self.way = groups, way

    def forward(self, query, key, value, *mask):
        if self.way == "grouped":
            return functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        if self.groups > 1:
            batch, heads, keys, width = key.shape
            repeated = lambda x: x[:, :, None].expand(batch, heads, self.groups, keys, width).reshape(batch, heads * self.groups, keys, width)
            key, value = repeated(key), repeated(value)
        return functional.scaled_dot_product_attention(query, key, value, *[mask[0] > -1.0 for _ in mask])


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Products(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def convolution(draw, kind):
    """A convolution and the shape that it reads; `None` of what is too large."""
    rank = draw.choice([1, 1, 3]) if kind == "other" else 2
    transposed = kind == "other" and draw.random() < 0.6
    rank = draw.choice([1, 2, 2, 2, 3]) if transposed else rank
    size = draw.choice(IMAGES) if rank == 2 else spread(draw, 16, 8192) if rank == 1 else draw.choice([4, 7, 8, 14, 16, 28, 32, 56])
    batch = spread(draw, 1, 64)
    inputs, outputs = channels(draw, 16, 2048), channels(draw, 16, 2048)
    groups = 1
    if kind == "depthwise":
        groups = outputs = inputs
        kernel = draw.choice([3, 3, 3, 5, 5, 7, 7, 9, 11])
    elif kind == "grouped":
        width = draw.choice([2, 4, 4, 8, 8, 16, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 120, 128, 232, 256])
        groups = spread(draw, 2, max(2, 2048 // width))
        inputs = outputs = groups * width
        outputs = 2 * outputs if draw.random() < 0.15 else outputs
        kernel = draw.choice([3, 3, 3, 3, 3, 3, 1, 5])
    else:
        kernel = draw.choice([1, 1, 1, 1, 3, 3, 3, 3, 5, 7] if kind == "plain" else [1, 2, 3, 3, 3, 4, 5])
        if draw.random() < 0.08:
            inputs = draw.choice([1, 3])
    stride = draw.choice([1, 1, 1, 1, 2]) if not transposed else draw.choice([1, 2, 2, 2, 4])
    if kind == "plain" and draw.random() < 0.05:
        kernel = stride = draw.choice([2, 4, 8, 14, 16])
    dilation = draw.choice([2, 4]) if kernel == 3 and not transposed and draw.random() < 0.06 else 1
    read, written = batch * inputs * size**rank, batch * outputs * (size * stride if transposed else size // stride) ** rank
    flops = 2 * batch * outputs * (size if transposed else size // stride) ** rank * kernel**rank * inputs // groups
    if max(read, written) > ELEMENTS or flops > FLOPS or size // stride < 1 or size < kernel * dilation:
        return None
    cls = getattr(nn, f"Conv{'Transpose' if transposed else ''}{rank}d")
    arguments = {"stride": stride, "groups": groups, "bias": draw.random() < 0.5, "dilation": dilation}
    arguments["padding"] = 0 if kernel == stride else dilation * (kernel // 2)
    last = rank == 2 and not transposed and draw.random() < 0.15
    return lambda: Layer(cls(inputs, outputs, kernel, **arguments), last=last), [(batch, inputs, *[size] * rank)]


def attention(draw, _):
    heads, width, batch = draw.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32]), draw.choice([16, 24, 32, 32, 48, 64, 64, 64, 64, 80, 96, 128, 128, 256]), spread(draw, 1, 128)
    queries = spread(draw, 1, 4096) if draw.random() < 0.9 else 1
    keys = queries if draw.random() < 0.7 else spread(draw, 8, 4096)
    mask = draw.choice(["", "", "", "", "causal", "causal", "added", "truth"])
    keys = queries if mask == "causal" else keys
    if batch * heads * queries * keys > ELEMENTS or batch * heads * width * max(queries, keys) > ELEMENTS:
        return None
    shapes = [(batch, queries, heads, width), (batch, keys, heads, width), (batch, keys, heads, width)]
    shapes += [(draw.choice([1, batch]), 1, queries, keys)] if mask in ("added", "truth") else []
    return lambda: Layer(Attention(mask == "causal", mask), len(shapes)), shapes


def cached(draw, _):
    heads, groups, width = draw.choice([1, 2, 4, 8, 8, 8, 16, 32]), draw.choice([1, 1, 2, 3, 4, 4, 6, 7, 8]), draw.choice([64, 64, 80, 96, 128, 128, 128, 256])
    batch, keys, queries = spread(draw, 1, 256), spread(draw, 64, 16384), draw.choice([1, 1, 1, 1, 1, 2, 4, 8])
    way = draw.choice(["masked", "masked", "masked", "repeated", "grouped"])
    if heads > 32 // groups or batch * heads * groups * width * keys > 1 << 28:
        return None
    shapes = [(batch, heads * groups, queries, width), (batch, heads, keys, width), (batch, heads, keys, width)]
    shapes += [(draw.choice([1, batch]), 1, queries, keys)] if way == "masked" else []
    return lambda: Layer(Cached(groups, way), len(shapes)), shapes


def experts(draw, _):
    """Products of rows that are sorted by the expert to which they go. PyTorch computes them in bf16."""
    count, rows = draw.choice([4, 8, 16, 32, 64, 128]), spread(draw, 8, 32768)
    n, k = (64 * spread(draw, 4, 128) for _ in range(2))
    if max(count * n * k, rows * n, rows * k) > ELEMENTS or 2 * rows * n * k > FLOPS:
        return None
    ends = lambda: torch.tensor([(place + 1) * rows // count for place in range(count)], dtype=torch.int32)
    product = lambda x, weights, ends: torch._grouped_mm(x.bfloat16(), weights.bfloat16(), offs=ends)
    return lambda: Layer(Called(product), 3), [(rows, k), (count, k, n), ends]


def rare(draw, _):
    """What models call now and then: orders, random numbers, places, samples of images, sums along a dimension."""
    kind = draw.choice(["topk", "sort", "argsort", "cumsum", "histc", "rand", "bernoulli", "convolution", "sample", "gather", "scatter", "add", "bicubic"])
    rows, columns = spread(draw, 1, 1 << 16), spread(draw, 16, 1 << 16)
    size, batch, width = draw.choice(IMAGES), spread(draw, 1, 64), channels(draw, 16, 2048)
    if rows * columns > ELEMENTS or batch * width * size * size > ELEMENTS:
        return None
    images, few = [(batch, width, size, size)], spread(draw, 1, min(columns, 512))
    places = lambda shape, end: lambda: torch.randint(end, shape)
    if kind == "convolution":
        width, length, kernel = max(64, width // 8 * 8), spread(draw, 16, 8192), draw.choice([3, 4, 4, 7, 9, 31])
        if batch * width * length > ELEMENTS:
            return None
        return lambda: Layer(nn.Conv1d(width, width, kernel, padding=kernel - 1, groups=width)), [(batch, width, length)]
    if kind == "sample":
        sample = lambda x, grid: functional.grid_sample(x, grid, align_corners=False)
        return lambda: Layer(Called(sample), 2), images + [(batch, size, size, 2)]
    if kind == "bicubic":
        factor = draw.choice([2, 2, 0.5])
        return lambda: Layer(Called(lambda x: functional.interpolate(x, scale_factor=factor, mode="bicubic"))), images
    if kind == "gather":
        return lambda: Layer(Called(lambda x, place: x.gather(1, place)), 2), [(rows, columns), places((rows, few), columns)]
    if kind == "scatter":
        return lambda: Layer(Called(lambda x, place, y: x.scatter_add(1, place, y)), 3), [(rows, columns), places((rows, few), columns), (rows, few)]
    if kind == "add":
        return lambda: Layer(Called(lambda x, place, y: x.index_add(0, place, y)), 3), [(rows, columns), places((few,), rows), (few, columns)]
    functions = {
        "topk": lambda x: x.topk(few)[0],
        "sort": lambda x: x.sort(-1)[0],
        "argsort": lambda x: x.argsort(-1),
        "cumsum": lambda x: x.cumsum(-1),
        "histc": lambda x: x.flatten().float().histc(64, 0, 4),
        "rand": torch.rand_like,
        "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.5)),
    }
    return lambda: Layer(Called(functions[kind])), [(rows, columns)]


def product(draw, _):
    m, n, k = spread(draw, 1, 65536), spread(draw, 1, 16384), spread(draw, 4, 16384)
    if draw.random() < 0.8:
        m, n, k = (size // 8 * 8 or size for size in (m, n, k))
    batch = 1 if draw.random() < 0.7 else spread(draw, 2, 512)
    if batch * max(m * k, n * k, m * n) > ELEMENTS or 2 * batch * m * n * k > FLOPS:
        return None
    if batch > 1:
        return lambda: Layer(Products(), 2), [(batch, m, k), (batch, k, n)]
    bias = draw.random() < 0.7
    return lambda: Layer(nn.Linear(k, n, bias=bias)), [(m, k)]


def norm(draw, _):
    batch = spread(draw, 1, 64)
    if draw.random() < 0.5:
        rows, columns = spread(draw, 1, 1 << 17), draw.choice([channels(draw, 32, 8192), 256, 384, 512, 768, 1024, 4096])
        cls = draw.choice([nn.LayerNorm, nn.LayerNorm, nn.RMSNorm])
        return (lambda: Layer(cls(columns)), [(rows, columns)]) if rows * columns <= ELEMENTS else None
    size, width = draw.choice(IMAGES), channels(draw, 16, 2048) // 8 * 8 or 8
    if batch * width * size * size > ELEMENTS:
        return None
    cls = draw.choice([nn.BatchNorm2d, nn.BatchNorm2d, lambda width: nn.GroupNorm(8, width)])
    return lambda: Layer(cls(width)), [(batch, width, size, size)]


def recurrent(draw, kind):
    """A recurrent layer or several: how long they take is seen in a replay alone. PyTorch asks cuDNN for one kernel if they are `chosen`."""
    if kind == "chosen":
        inputs, hidden = (128 * draw.randint(1, 8) for _ in range(2))
        shape = (8 * draw.randint(1, 16), spread(draw, 8, 256), inputs)
        cell = draw.choice(["LSTM", "LSTM", "RNN"])
        return lambda: Layer(getattr(nn, cell)(inputs, hidden, batch_first=True)), [shape]
    cell, both, first = draw.choice(["LSTM", "LSTM", "GRU", "GRU", "RNN"]), draw.random() < 0.3, draw.random() < 0.7
    inputs, hidden = (draw.choice([32, 40, 64, 80, 96, 100, 128, 192, 200, 256, 300, 384, 400, 512, 640, 768, 1024]) for _ in range(2))
    layers, length, batch = draw.choice([1, 1, 2, 2, 3, 4]), spread(draw, 8, 256), draw.choice([1, 2, 4, 8, 16, 32, 64, 128, 256])
    shape = (batch, length, inputs) if first else (length, batch, inputs)
    return lambda: Layer(getattr(nn, cell)(inputs, hidden, layers, batch_first=first, bidirectional=both)), [shape]


SOURCES = {
    "plain": (convolution, 30),
    "grouped": (convolution, 40),
    "depthwise": (convolution, 15),
    "other": (convolution, 15),
    "attention": (attention, 30),
    "product": (product, 30),
    "norm": (norm, 12),
    "cached": (cached, 0),
    "experts": (experts, 0),
    "rare": (rare, 0),
}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def drawn_layers(seed, count):
    """So many models of layers; every second is a recurrent network, which is timed alone, of kinds of models and of `chosen` ones."""
    draw = random.Random(seed)
    kinds = os.environ["LAYERS"].split(",")
    bundles = [kind for kind in SOURCES if kind in kinds] or [kind for kind in SOURCES if SOURCES[kind][1]]
    weights = [SOURCES[kind][1] or 1 for kind in bundles]
    for place in range(count):
        if place % 2 and ("chosen" in kinds or kinds == ["1"]):
            kind = "chosen" if "chosen" in kinds else "recurrent"
            of = [recurrent(draw, kind)]
        else:
            kind = draw.choices(bundles, weights)[0]
            of = []
            while len(of) < (12 if kind == "cached" else 24):
                of += filter(None, [SOURCES[kind][0](draw, kind)])
        reads = [read for _, own in of for read in own]
        build = lambda of=of: Layers([layer() for layer, _ in of])
        inputs = lambda reads=reads: [torch.randn(*read, device=DEVICE) if isinstance(read, tuple) else read() for read in reads]
        yield f"layers_{kind}_{seed}_{place}", 1, draw.choice(["float16", "bfloat16"]), build, inputs
