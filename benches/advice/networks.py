"""The networks of the experiments. Each has a switch for the one thing that its experiment plants."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Perceptron(nn.Module):
    """Hidden layers of one width, and a head with a few classes, so that the loss costs little."""

    def __init__(self, width, depth, classes=64, inputs=None, bias=True, activation=functional.gelu):
        super().__init__()
        widths = [inputs or width] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in zip(widths, widths[1:]))
        self.head = nn.Linear(width, classes, bias=bias)
        self.activation = activation

    def forward(self, x):
        for layer in self.layers:
            x = self.activation(layer(x))
        return self.head(x)


def attention_by_hand(q, k, v):
    """Causal attention as textbooks write it: the whole matrix of scores goes through memory at every line."""
    tokens = q.shape[-2]
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    return weights @ v


def attention_fused(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    """A transformer layer without biases, normalized before each half."""

    def __init__(self, width, heads, attention=attention_fused):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        samples, tokens, width = x.shape
        split = self.qkv(self.norm1(x)).view(samples, tokens, 3, self.heads, width // self.heads)
        heads = self.attention(*split.permute(2, 0, 3, 1, 4))
        x = x + self.out(heads.transpose(1, 2).reshape(samples, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Layers on embedded tokens; the first output token decides among a few classes."""

    def __init__(self, width, heads, depth, attention=attention_fused, classes=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads, attention) for _ in range(depth))
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Residual(nn.Module):
    """Residual layers of two products, each recomputed in the backward pass if `recompute`."""

    def __init__(self, width, depth, recompute, classes=64):
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)
        self.recompute = recompute

    def forward(self, x):
        for up, down in zip(self.up, self.down):

            def layer(x, up=up, down=down):
                return x + down(functional.gelu(up(x)))

            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(x)


class LanguageHead(nn.Module):
    """An embedding, one hidden layer and the product with the vocabulary, which dominates."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(functional.gelu(self.hidden(self.embedding(tokens))))


class Convolutions(nn.Module):
    """3x3 convolutions with batch normalization; a stem reduces the image by `stride`."""

    def __init__(self, channels, depth, stride=1, classes=64):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=stride, padding=1, bias=False)
        convolution = [nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(depth)]
        self.convolutions = nn.ModuleList(convolution)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.stem(x)
        for convolution, norm in zip(self.convolutions, self.norms):
            x = functional.relu(norm(convolution(x)))
        return self.head(x.mean((2, 3)))
