"""Models as their authors write them, by name: make(n), and what the model is called with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Model(NamedTuple):
    make: Callable[[int], Any]
    example: tuple[Any, ...]
    widths: tuple[int, ...] = (16, 32, 64)


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def tokens(vocabulary, *shape):
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(vocabulary))


def perceptron(n):
    return nn.Sequential(
        nn.Linear(5, n), nn.GELU(), nn.Linear(n, n), nn.SiLU(), nn.Linear(n, n // 2), nn.ELU(), nn.Linear(n // 2, 2)
    )


class Block(nn.Module):
    """A decoder's block with one matrix for queries, keys and values, and heads that grow or are more."""

    def __init__(self, n, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n, bias=False), nn.LayerNorm(n, bias=False)
        self.attn, self.proj = nn.Linear(n, 3 * n, bias=False), nn.Linear(n, n, bias=False)
        self.fc, self.out = nn.Linear(n, 4 * n, bias=False), nn.Linear(4 * n, n, bias=False)
        self.heads = heads

    def forward(self, x):
        batch, length, n = x.size()
        many = self.attn(self.ln_1(x)).split(n, dim=2)
        q, k, v = (z.view(batch, length, self.heads, n // self.heads).transpose(1, 2) for z in many)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(batch, length, n))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Decoder(nn.Module):
    """Tokens and positions, blocks, and a readout tied to the embedding."""

    def __init__(self, n, heads=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, n), nn.Embedding(6, n)
        self.blocks = nn.ModuleList([Block(n, heads) for _ in range(2)])
        self.ln, self.head = nn.LayerNorm(n, bias=False), nn.Linear(n, 11, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, i):
        x = self.wte(i) + self.wpe(torch.arange(i.shape[1], device=i.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class WrittenOut(nn.Module):
    """Attention with a mask in a buffer and −∞."""

    def __init__(self, n):
        super().__init__()
        self.e, self.o = nn.Linear(3, n), nn.Linear(n, 2)
        self.q, self.k, self.v = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, n)
        self.register_buffer("mask", torch.tril(torch.ones(5, 5)).bool())

    def forward(self, x):
        x = self.e(x)
        q, k, v = (f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        a = F.softmax(a.masked_fill(~self.mask, float("-inf")), dim=-1)
        return self.o((a @ v).transpose(1, 2).flatten(2)).mean(1)


class Rotary(nn.Module):
    """Rotations of queries and keys by tables along heads that grow."""

    def __init__(self, n):
        super().__init__()
        self.e, self.qkv, self.o = nn.Linear(3, n), nn.Linear(n, 3 * n), nn.Linear(n, 2)
        size = n // 2
        angles = torch.arange(5)[:, None] / (100 ** (torch.arange(0, size, 2) / size))
        self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], -1))
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], -1))

    def turned(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (2, -1)).transpose(1, 2) for z in self.qkv(self.e(x)).chunk(3, -1))
        a = torch.softmax(self.turned(q) @ self.turned(k).transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        return self.o((a @ v).transpose(1, 2).flatten(2)).mean(1)


class Mixer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.patches = nn.Conv2d(3, n, 4, 4)
        self.tokens = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
        self.channels = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.ln_1, self.ln_2, self.o = nn.LayerNorm(n), nn.LayerNorm(n), nn.Linear(n, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.ln_1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.ln_2(x))
        return self.o(x.mean(1))


class Sets(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, n), nn.Linear(n, n), nn.Linear(n, 2)

    def forward(self, x):
        return self.c(torch.tanh(self.b(F.relu(self.a(x)).sum(1))))


class GraphConvolution(Sets):
    def forward(self, x, adjacency):
        x = F.relu(adjacency @ self.a(x))
        return self.c(F.relu(adjacency @ self.b(x)))


class GraphAttention(nn.Module):
    """Scores of pairs of nodes from both at once."""

    def __init__(self, n):
        super().__init__()
        self.w, self.a, self.o = nn.Linear(3, n, bias=False), nn.Linear(2 * n, 1, bias=False), nn.Linear(n, 2)

    def forward(self, x, adjacency):
        h = self.w(x)
        many = h.shape[0]
        pairs = torch.cat([h.repeat_interleave(many, 0), h.repeat(many, 1)], 1).view(many, many, -1)
        e = F.leaky_relu(self.a(pairs).squeeze(-1), 0.2).masked_fill(adjacency == 0, -1e9)
        return self.o(F.elu(torch.softmax(e, 1) @ h))


class Experts(nn.Module):
    """A soft mixture of three experts."""

    def __init__(self, n):
        super().__init__()
        self.i, self.gate, self.o = nn.Linear(4, n), nn.Linear(n, 3), nn.Linear(n, 2)
        self.up = nn.Parameter(torch.randn(3, 2 * n, n) / n**0.5)
        self.down = nn.Parameter(torch.randn(3, n, 2 * n) / n**0.5)

    def forward(self, x):
        x = self.i(x)
        h = F.relu(torch.einsum("bi,eoi->beo", x, self.up))
        y = torch.einsum("beo,eio->bei", h, self.down)
        return self.o(x + (torch.softmax(self.gate(x), -1).unsqueeze(-1) * y).sum(1))


class Autoencoder(nn.Module):
    """One matrix there and back."""

    def __init__(self, n):
        super().__init__()
        self.w, self.b, self.c = (nn.Parameter(torch.randn(s)) for s in ((n, 6), (n,), (6,)))

    def forward(self, x):
        return F.linear(torch.tanh(F.linear(x, self.w, self.b)), self.w.t(), self.c)


class Shared(nn.Module):
    """One layer of a transformer used twice."""

    def __init__(self, n):
        super().__init__()
        self.i, self.o = nn.Linear(4, n), nn.Linear(n, 3)
        self.layer = nn.TransformerEncoderLayer(n, 2, 2 * n, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, x):
        return self.o(self.layer(self.layer(self.i(x)))[:, 0])


class LowRank(nn.Module):
    """A frozen matrix with a trained correction of rank 4."""

    def __init__(self, n):
        super().__init__()
        self.i, self.w, self.o = nn.Linear(4, n), nn.Linear(n, n), nn.Linear(n, 2)
        self.w.weight.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(4, n) / n**0.5), nn.Parameter(torch.zeros(n, 4))

    def forward(self, x):
        h = F.relu(self.i(x))
        return self.o(F.relu(self.w(h) + 2.0 * (h @ self.a.t()) @ self.b.t()))


class Cells(nn.Module):
    """A recurrent cell by hand, or a sequence of them."""

    def __init__(self, n, kind):
        super().__init__()
        self.kind, self.n, self.o = kind, n, nn.Linear(n, 2)
        self.c = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](3, n)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.n)
        state = (h, h) if self.kind == "lstm" else h
        for t in range(x.shape[1]):
            state = self.c(x[:, t], state)
        return self.o(state[0] if self.kind == "lstm" else state)


class Sequence(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.r, self.o = nn.LSTM(3, n, num_layers=2, batch_first=True), nn.Linear(n, 2)

    def forward(self, x):
        return self.o(self.r(x)[0][:, -1])


class Depthwise(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.i, self.d = nn.Conv2d(3, n, 3, padding=1), nn.Conv2d(n, n, 3, padding=1, groups=n)
        self.p, self.bn, self.o = nn.Conv2d(n, 2 * n, 1), nn.BatchNorm2d(2 * n), nn.Linear(2 * n, 4)

    def forward(self, x):
        x = self.bn(self.p(F.relu6(self.d(F.hardswish(self.i(x))))))
        return self.o(F.adaptive_avg_pool2d(x, 1).flatten(1))


def flattened(n):
    return nn.Sequential(
        nn.Conv2d(1, n, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(n, 2 * n, 3, padding=1), nn.ReLU(inplace=True), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(8 * n, n), nn.ReLU(), nn.Dropout(0.5), nn.Linear(n, 3),
    )  # fmt: skip


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, n):
        super().__init__()
        self.c, self.o = nn.Conv2d(3, n, 3, padding=1), nn.Linear(n, 2)
        self.a, self.b = nn.Linear(n, n // 4), nn.Linear(n // 4, n)

    def forward(self, x):
        x = F.relu(self.c(x))
        g = torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3))))))
        return self.o((x * g[:, :, None, None]).mean((2, 3)))


class UNet(nn.Module):
    """Group norms over a join of two widths, and a transposed convolution."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, n, 3, padding=1), nn.Conv2d(n, 2 * n, 3, stride=2, padding=1)
        self.u, self.c = nn.ConvTranspose2d(2 * n, n, 2, stride=2), nn.Conv2d(2 * n, n, 3, padding=1)
        self.g, self.h, self.o = nn.GroupNorm(4, n), nn.GroupNorm(4, 2 * n), nn.Conv2d(n, 1, 1)

    def forward(self, x):
        a = F.silu(self.g(self.a(x)))
        c = torch.cat([a, self.u(F.silu(self.b(a)))], 1)
        return self.o(F.silu(self.c(self.h(c)))).mean((2, 3))


class Shuffled(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4 * n, 3, padding=1), nn.Conv2d(n, n, 3, padding=1)
        self.g, self.o = nn.GroupNorm(2, n), nn.Conv2d(n, 1, 3, padding=1)

    def forward(self, x):
        x = F.silu(self.g(self.b(F.relu(F.pixel_shuffle(self.a(x), 2)))))
        return self.o(F.interpolate(x, scale_factor=2, mode="bilinear"))


class Line(nn.Module):
    """Convolutions along one direction: dilated, strided, pooled."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Conv1d(2, n, 5, padding=2), nn.Conv1d(n, n, 3, padding="same", dilation=2)
        self.c, self.o = nn.Conv1d(n, n, 3, stride=2, padding=1), nn.Linear(n, 2)

    def forward(self, x):
        x = F.relu(self.a(x))
        x = F.max_pool1d(F.leaky_relu(self.c(x + F.relu(self.b(x)))), 2)
        return self.o(x.amax(-1))


class Capped(Sets):
    """A readout that a function is applied to."""

    def forward(self, x):
        return 5 * torch.tanh(self.c(F.relu(self.b(F.relu(self.a(x))))) / 5)


class Normalised(Sets):
    def forward(self, x):
        return F.log_softmax(self.c(F.relu(self.b(F.relu(self.a(x))))), -1)


class Gated(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e, self.norm, self.o = nn.Linear(3, n), nn.RMSNorm(n), nn.Linear(n, 1)
        self.both, self.back = nn.Linear(n, 4 * n, bias=False), nn.Linear(2 * n, n, bias=False)

    def forward(self, x):
        x = self.e(x)
        a, b = self.both(self.norm(x)).chunk(2, -1)
        return self.o(x + self.back(F.silu(a) * b)).squeeze(-1)


class Conditioned(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e, self.f, self.h, self.o = nn.Linear(3, n), nn.Linear(2, 2 * n), nn.Linear(n, n), nn.Linear(n, 2)

    def forward(self, x, c):
        g, b = self.f(c).chunk(2, -1)
        return self.o(F.relu(self.h(F.relu(self.e(x))) * (1 + g) + b))


class Cosine(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.t = nn.Linear(3, n), nn.Linear(4, n), nn.Parameter(torch.tensor(1.0))

    def forward(self, x, y):
        return (F.normalize(self.a(x), dim=-1) * F.normalize(self.b(y), dim=-1)).sum(-1) * self.t.exp()


class Latent(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.latent = nn.Parameter(torch.randn(3, n))
        self.kv, self.q, self.o = nn.Linear(4, 2 * n), nn.Linear(n, n), nn.Linear(n, 2)

    def forward(self, x):
        k, v = self.kv(x).chunk(2, -1)
        q = self.q(self.latent).expand(x.shape[0], -1, -1)
        return self.o(F.scaled_dot_product_attention(q, k, v)).mean(1)


class Positions(nn.Module):
    """Sines of positions along the width."""

    def __init__(self, n):
        super().__init__()
        self.e, self.w, self.o = nn.Embedding(7, n), nn.Linear(n, n), nn.Linear(n, 2)
        angles = torch.arange(5)[:, None] * torch.exp(torch.arange(0, n, 2) * (-math.log(10000.0) / n))
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, i):
        return self.o(F.relu(self.w(self.e(i) + self.pe))).mean(1)


class Offset(Sets):
    """A bias that has more dimensions than what neurons are summed to."""

    def __init__(self, n):
        super().__init__(n)
        self.offset = nn.Parameter(torch.randn(5, 2))

    def forward(self, x):
        return super().forward(x).unsqueeze(1) + self.offset


MODELS = {
    "perceptron": Model(perceptron, (noise(3, 5),)),
    "decoder": Model(Decoder, (tokens(11, 2, 6),)),
    "decoder with more heads": Model(lambda n: Decoder(n, n // 8), (tokens(11, 2, 6),)),
    "attention written out": Model(WrittenOut, (noise(2, 5, 3),)),
    "rotary": Model(Rotary, (noise(2, 5, 3),)),
    "mixer": Model(Mixer, (noise(2, 3, 8, 8),)),
    "sets": Model(Sets, (noise(2, 5, 3),)),
    "offset": Model(Offset, (noise(2, 5, 3),)),
    "graph convolution": Model(GraphConvolution, (noise(5, 3), noise(5, 5).abs())),
    "graph attention": Model(GraphAttention, (noise(5, 3), (noise(5, 5) > 0).float() + torch.eye(5))),
    "experts": Model(Experts, (noise(3, 4),)),
    "tied autoencoder": Model(Autoencoder, (noise(3, 6),)),
    "shared layer": Model(Shared, (noise(2, 5, 4),)),
    "low rank": Model(LowRank, (noise(3, 4),)),
    "GRU cells": Model(lambda n: Cells(n, "gru"), (noise(2, 3, 3),)),
    "LSTM cells": Model(lambda n: Cells(n, "lstm"), (noise(2, 3, 3),)),
    "LSTM": Model(Sequence, (noise(2, 3, 3),)),
    "depthwise": Model(Depthwise, (noise(2, 3, 5, 5),)),
    "flattened": Model(flattened, (noise(2, 1, 8, 8),)),
    "gate": Model(Gate, (noise(2, 3, 5, 5),)),
    "U-Net": Model(UNet, (noise(2, 3, 4, 4),)),
    "pixel shuffle": Model(Shuffled, (noise(2, 1, 3, 3),)),
    "one direction": Model(Line, (noise(2, 2, 12),)),
    "soft cap": Model(Capped, (noise(2, 3),)),
    "normalised logits": Model(Normalised, (noise(2, 3),)),
    "gated": Model(Gated, (noise(4, 3),)),
    "conditioned": Model(Conditioned, (noise(4, 3), noise(4, 2))),
    "cosine": Model(Cosine, (noise(4, 3), noise(4, 4))),
    "latent": Model(Latent, (noise(2, 5, 4),)),
    "sines": Model(Positions, (tokens(7, 2, 5),)),
}
