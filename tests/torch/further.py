"""More ways in which people write models: attention, sequences, images, sets, pairs of inputs."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models import Model, noise, tokens
from torch import nn


class Einsum(nn.Module):
    """Attention by einsum with weights of three dimensions, and relative positions of a table."""

    def __init__(self, n, heads=2, length=5):
        super().__init__()
        d = n // heads
        self.e, self.o = nn.Linear(3, n), nn.Linear(n, 2)
        self.w = nn.ParameterDict({k: nn.Parameter(torch.randn(heads, n, d) / n**0.5) for k in "qkv"})
        self.back = nn.Parameter(torch.randn(heads, d, n) / n**0.5)
        self.relative = nn.Parameter(torch.randn(heads, 2 * length - 1))
        at = torch.arange(length)
        self.register_buffer("offsets", at[:, None] - at[None, :] + length - 1, persistent=False)

    def forward(self, x):
        x = self.e(x)
        q, k, v = (torch.einsum("bti,hid->bhtd", x, self.w[name]) for name in "qkv")
        a = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1]) + self.relative[:, self.offsets]
        y = torch.einsum("bhts,bhsd->bhtd", a.softmax(-1), v)
        return self.o(x + torch.einsum("bhtd,hdi->bti", y, self.back)).mean(dim=1)


class Encoder(nn.Module):
    """nn.TransformerEncoder with a class token, norms first or last."""

    def __init__(self, n, first):
        super().__init__()
        layer = nn.TransformerEncoderLayer(n, 2, 2 * n, 0.1, F.gelu, batch_first=True, norm_first=first)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls, self.e = nn.Parameter(torch.zeros(1, 1, n)), nn.Linear(3, n)
        self.o = nn.Linear(n, 2)

    def forward(self, x):
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.e(x)], dim=1)
        return self.o(self.encoder(x)[:, 0])


class Crossed(nn.Module):
    """nn.MultiheadAttention between two inputs, with a key that hides the last token."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.o = nn.Linear(3, n), nn.Linear(4, n), nn.Linear(n, 2)
        self.attention = nn.MultiheadAttention(n, 2, batch_first=True, bias=False)

    def forward(self, x, y):
        hidden = torch.zeros(y.shape[0], y.shape[1], dtype=torch.bool)
        hidden[:, -1] = True
        z, _ = self.attention(self.a(x), self.b(y), self.b(y), key_padding_mask=hidden, need_weights=False)
        return self.o(z).sum(1)


class Alibi(nn.Module):
    """Slopes of heads, causal, RMS norms, SwiGLU; one head for tokens and their readout."""

    def __init__(self, n, heads=2, length=5):
        super().__init__()
        self.wte = nn.Embedding(7, n, padding_idx=0)
        self.norm_1, self.norm_2, self.heads = nn.RMSNorm(n), nn.RMSNorm(n), heads
        self.qkv, self.proj = nn.Linear(n, 3 * n, bias=False), nn.Linear(n, n, bias=False)
        self.gate, self.up = nn.Linear(n, 3 * n, bias=False), nn.Linear(n, 3 * n, bias=False)
        self.down, self.head = nn.Linear(3 * n, n, bias=False), nn.Linear(n, 7, bias=False)
        slopes = torch.tensor([2.0 ** (-i - 1) for i in range(heads)])
        at = torch.arange(length)
        self.register_buffer("bias", -slopes[:, None, None] * (at[:, None] - at[None, :]).abs())

    def forward(self, i):
        x = self.wte(i) * 3.0
        b, t, n = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(b, t, 3, self.heads, n // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = q @ k.mT * q.size(-1) ** -0.5 + self.bias
        a = torch.where(torch.ones(t, t).tril().bool(), a, torch.finfo(a.dtype).min)
        x = x + self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, n))
        y = self.norm_2(x)
        return self.head(x + self.down(F.silu(self.gate(y)) * self.up(y)))


class Rope(nn.Module):
    """Rotations of interleaved pairs in heads of a fixed size, shared keys, log-scaled queries."""

    def __init__(self, n, size=4):
        super().__init__()
        self.size, self.e, self.o = size, nn.Linear(3, n), nn.Linear(n, 1)
        self.q, self.kv = nn.Linear(n, n), nn.Linear(n, n)
        angles = torch.outer(torch.arange(4.0), 10.0 ** -(torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turn(self, x):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)

    def forward(self, x):
        x = self.e(x)
        b, t, n = x.shape
        q = self.q(x).view(b, t, -1, self.size).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, -1, self.size).permute(2, 0, 3, 1, 4)
        k, v = (z.repeat_interleave(2, dim=1) for z in (k, v))
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True, scale=0.3)
        return self.o(y.transpose(1, 2).contiguous().view(b, t, n))[:, -1, 0]


class ConvNext(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.stem, self.dw = nn.Conv2d(3, n, 2, 2), nn.Conv2d(n, n, 3, padding=1, groups=n)
        self.norm, self.up, self.down = nn.LayerNorm(n, eps=1e-6), nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        self.scale, self.o = nn.Parameter(0.1 * torch.ones(n)), nn.Linear(n, 2)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        y = (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
        return self.o((x + y).mean([-2, -1]))


class Mobile(nn.Module):
    """Inverted residuals with squeeze and excite, written by nn.Sequential."""

    def __init__(self, n):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, n, 3, 2, 1, bias=False), nn.BatchNorm2d(n), nn.Hardswish(inplace=True))
        self.deep = nn.Sequential(
            nn.Conv2d(n, 2 * n, 1, bias=False), nn.BatchNorm2d(2 * n), nn.ReLU6(inplace=True),
            nn.Conv2d(2 * n, 2 * n, 3, padding=1, groups=2 * n, bias=False), nn.BatchNorm2d(2 * n), nn.ReLU6(True),
        )  # fmt: skip
        self.excite = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(2 * n, n // 2, 1),
            nn.ReLU(),
            nn.Conv2d(n // 2, 2 * n, 1),
            nn.Hardsigmoid(),
        )
        self.back, self.o = nn.Conv2d(2 * n, n, 1, bias=False), nn.Linear(n, 3)

    def forward(self, x):
        x = self.stem(x)
        y = self.deep(x)
        return self.o(torch.flatten(F.adaptive_avg_pool2d(x + self.back(y * self.excite(y)), (1, 1)), 1))


class Dense(nn.Module):
    """Every layer reads all layers before it."""

    def __init__(self, n):
        super().__init__()
        self.first = nn.Conv2d(1, n, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d((i + 1) * n, n, 3, padding=1, bias=False) for i in range(3))
        self.pool, self.o = nn.AvgPool2d(2), nn.Linear(4 * n, 2)

    def forward(self, x):
        many = [self.first(x)]
        for layer in self.layers:
            many.append(F.relu(layer(torch.cat(many, 1))))
        return self.o(F.max_pool2d(self.pool(torch.cat(many, 1)), 2).flatten(1))


class Recurrent(nn.Module):
    """nn.GRU in two directions, the last state of each."""

    def __init__(self, n):
        super().__init__()
        self.r, self.o = nn.GRU(3, n, batch_first=True, bidirectional=True), nn.Linear(2 * n, 2)

    def forward(self, x):
        y, _ = self.r(x)
        return self.o(torch.cat([y[:, -1, : y.shape[-1] // 2], y[:, 0, y.shape[-1] // 2 :]], -1))


class Scan(nn.Module):
    """A diagonal linear recurrence with gates, one for each neuron."""

    def __init__(self, n):
        super().__init__()
        self.i, self.b, self.o = nn.Linear(2, n), nn.Linear(n, n), nn.Linear(n, 1)
        self.log_a, self.d = nn.Parameter(torch.rand(n)), nn.Parameter(torch.ones(n))

    def forward(self, x):
        x = self.i(x)
        u, a, h, out = self.b(x), torch.exp(-F.softplus(self.log_a)), 0.0, []
        for t in range(x.shape[1]):
            h = a * h + (1 - a) * u[:, t]
            out.append(h + self.d * x[:, t])
        return self.o(torch.stack(out, 1)).squeeze(-1)


class Bilinear(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.form = nn.Linear(3, n), nn.Linear(4, n), nn.Bilinear(3, 4, n)
        self.o = nn.Linear(n, 2)

    def forward(self, x, y):
        return self.o(torch.tanh(self.form(x, y)) + torch.tanh(self.a(x)) * torch.sigmoid(self.b(y)))


class Waves(nn.Module):
    """Fourier features of coordinates and sine layers, after a table of frequencies."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("frequencies", torch.tensor([[1.0, 2.0, 0.5], [0.3, 1.0, 4.0]]))
        self.a, self.b, self.o = nn.Linear(6, n), nn.Linear(n, n), nn.Linear(n, 1)

    def forward(self, x):
        z = 2 * math.pi * x @ self.frequencies
        h = torch.sin(3.0 * self.a(torch.cat([z.sin(), z.cos()], -1)))
        return self.o(torch.sin(self.b(h)))[..., 0]


class Perceiver(nn.Module):
    """Latents that read the input, then one another; a mean over latents with weights."""

    def __init__(self, n):
        super().__init__()
        self.latents, self.e, self.o = nn.Parameter(torch.randn(3, n)), nn.Linear(4, n), nn.Linear(n, 2)
        self.q, self.k, self.v = (nn.Linear(n, n, bias=False) for _ in range(3))
        self.weights = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        x, z = self.e(x), self.latents.unsqueeze(0).repeat(len(x), 1, 1)
        for source in (x, None):
            source = z if source is None else source
            a = F.softmax(torch.bmm(self.q(z), self.k(source).transpose(1, 2)) / z.shape[-1], dim=2)
            z = z + torch.bmm(a, self.v(source))
        return self.o((torch.softmax(self.weights, 0)[:, None] * z).sum(1))


class Routed(nn.Module):
    """Experts by the largest gate, kept differentiable: weights beside the largest count little."""

    def __init__(self, n):
        super().__init__()
        self.i, self.gate, self.o = nn.Linear(3, n), nn.Linear(n, 4, bias=False), nn.Linear(n, 1)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(n, n), nn.GELU(), nn.Linear(n, n)) for _ in range(4))

    def forward(self, x):
        x = self.i(x)
        g = torch.softmax(4 * self.gate(x), -1)
        y = torch.stack([e(x) for e in self.experts], dim=-1)
        return self.o(x + (y * g.unsqueeze(-2)).sum(-1))


class Variational(nn.Module):
    """An encoder to means and log variances, given noise, and a decoder."""

    def __init__(self, n):
        super().__init__()
        self.enc, self.dec = nn.Sequential(nn.Linear(5, n), nn.ReLU()), nn.Sequential(nn.Linear(n, n), nn.ReLU())
        self.mu, self.log_var, self.out = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, 5)

    def forward(self, x, noise):
        h = self.enc(x)
        z = self.mu(h) + noise[:, :1] * torch.exp(0.5 * self.log_var(h).clamp(-4, 4))
        return self.out(self.dec(z))


class Siamese(nn.Module):
    """The cosine of two inputs through the same layers, and its temperature."""

    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, n), nn.ReLU(), nn.Linear(n, n))
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x, y):
        return self.log_scale.exp() * F.cosine_similarity(self.net(x), self.net(y), dim=-1)


class Described(nn.Module):
    """Inputs and outputs in dictionaries, padding by F.pad, a running mean over tokens, roll and flip."""

    def __init__(self, n):
        super().__init__()
        self.e, self.a, self.o = nn.Embedding(6, n), nn.Linear(n, n), nn.Linear(n, 2)

    def forward(self, ids, values):
        x = self.e(ids) + F.pad(values, (0, 0, 1, 0))[:, :-1].sum(-1, keepdim=True)
        running = x.cumsum(1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1)
        x = F.relu(self.a(running)) + torch.roll(x, 1, 1) + x.flip(1)
        return {"logits": self.o(x.amax(1))}


class Upward(nn.Module):
    """Transposed convolutions, pixel shuffle, group norms, leaky functions, bounded outputs."""

    def __init__(self, n):
        super().__init__()
        self.lift, self.grow = nn.Linear(3, 4 * n), nn.ConvTranspose2d(n, n, 4, 2, 1, bias=False)
        self.norm, self.mix = nn.GroupNorm(2, n), nn.Conv2d(n, 4 * n, 1)
        self.out = nn.Conv2d(n, 1, 3, padding=1)

    def forward(self, z):
        x = self.lift(z).view(len(z), -1, 2, 2)
        x = F.leaky_relu(self.norm(self.grow(x)), 0.2)
        return torch.tanh(self.out(F.pixel_shuffle(F.leaky_relu(self.mix(x), 0.2), 2))).mean((1, 2, 3))


class Messages(nn.Module):
    """A graph by its edges: gathered, gated, and summed by a matrix of incidences."""

    def __init__(self, n):
        super().__init__()
        self.e, self.m, self.u, self.o = nn.Linear(3, n), nn.Linear(2 * n, n), nn.GRUCell(n, n), nn.Linear(n, 1)
        self.register_buffer("source", torch.tensor([0, 1, 2, 3, 0]))
        self.register_buffer("target", torch.tensor([1, 2, 3, 0, 2]))
        self.register_buffer("incidence", F.one_hot(self.target, 4).float().t())

    def forward(self, x):
        h = torch.tanh(self.e(x))
        for _ in range(2):
            messages = F.relu(self.m(torch.cat([h[self.source], h[self.target]], dim=-1)))
            h = self.u(self.incidence @ messages, h)
        return self.o(h.mean(0))


class Temporal(nn.Module):
    """Causal dilated convolutions with gates and skips."""

    def __init__(self, n):
        super().__init__()
        self.i, self.o = nn.Conv1d(2, n, 1), nn.Linear(n, 1)
        self.f = nn.ModuleList(nn.Conv1d(n, 2 * n, 2, dilation=2**k) for k in range(2))
        self.s = nn.ModuleList(nn.Conv1d(n, n, 1) for _ in range(2))

    def forward(self, x):
        x = self.i(x.transpose(1, 2))
        skips = 0
        for k, (f, s) in enumerate(zip(self.f, self.s, strict=True)):
            a, b = f(F.pad(x, (2**k, 0))).chunk(2, dim=1)
            y = s(torch.tanh(a) * torch.sigmoid(b))
            x, skips = x + y, skips + y
        return self.o(F.softplus(skips[:, :, -1]))


class Highway(nn.Module):
    """Gates, layers in a dictionary, functions by name, a learned slope and a norm without gains."""

    def __init__(self, n):
        super().__init__()
        self.parts = nn.ModuleDict({k: nn.Linear(n, n) for k in ("h", "t")})
        self.i, self.o, self.slope = nn.Linear(3, n), nn.Linear(n, 2), nn.PReLU()
        nn.init.xavier_normal_(self.parts["h"].weight)
        nn.init.constant_(self.parts["t"].bias, -1.0)

    def forward(self, x):
        x = F.layer_norm(self.i(x), self.i.weight.shape[:1])
        t = torch.sigmoid(self.parts["t"](x))
        x = torch.lerp(x, self.slope(self.parts["h"](x)), t)
        return self.o(x / (1e-6 + x.pow(2).mean(-1, keepdim=True)).sqrt())


class ManyGroups(nn.Module):
    """Norms over groups of four channels, as many as the width allows."""

    def __init__(self, n):
        super().__init__()
        self.a, self.g, self.o = nn.Conv2d(2, n, 3, padding=1), nn.GroupNorm(n // 4, n), nn.Linear(n, 2)

    def forward(self, x):
        return self.o(F.relu(self.g(self.a(x))).mean((2, 3)))


class Cached(nn.Module):
    """Recurrence by pieces, with states and outputs before the first one: parts without a position."""

    def __init__(self, n):
        super().__init__()
        self.i, self.w, self.o = nn.Linear(3, n), nn.Linear(n, n, bias=False), nn.Linear(n, 2)

    def forward(self, x):
        before, first, last = self.i(x).split([0, x.shape[1] - 1, 1], dim=1)
        state, found = last[:, 0], before
        for piece in (before, first, last):
            for t in range(piece.shape[1]):
                state = torch.tanh(self.w(state)) + piece[:, t]
                found = torch.cat([found, state[:, None]], dim=1)
        return self.o(found) + self.o(torch.tanh(before)).sum(1, keepdim=True)


FURTHER = {
    "cached": Model(Cached, (noise(2, 4, 3),)),
    "many groups": Model(ManyGroups, (noise(2, 2, 3, 3),)),
    "einsum": Model(Einsum, (noise(2, 5, 3),)),
    "encoder, norms first": Model(lambda n: Encoder(n, True), (noise(2, 4, 3),)),
    "encoder, norms last": Model(lambda n: Encoder(n, False), (noise(2, 4, 3),)),
    "crossed": Model(Crossed, (noise(2, 3, 3), noise(2, 4, 4))),
    "slopes": Model(Alibi, (tokens(7, 2, 5),)),
    "interleaved": Model(Rope, (noise(2, 4, 3),)),
    "ConvNeXt": Model(ConvNext, (noise(2, 3, 4, 4),)),
    "mobile": Model(Mobile, (noise(2, 3, 6, 6),)),
    "dense": Model(Dense, (noise(2, 1, 4, 4),)),
    "both directions": Model(Recurrent, (noise(2, 3, 3),)),
    "scan": Model(Scan, (noise(2, 4, 2),)),
    "bilinear": Model(Bilinear, (noise(3, 3), noise(3, 4))),
    "waves": Model(Waves, (noise(3, 2),)),
    "perceiver": Model(Perceiver, (noise(2, 4, 4),)),
    "routed": Model(Routed, (noise(3, 3),)),
    "variational": Model(Variational, (noise(3, 5), noise(3, 2))),
    "siamese": Model(Siamese, (noise(3, 4), noise(3, 4))),
    "dictionaries": Model(Described, (tokens(6, 2, 4), noise(2, 4, 3))),
    "upward": Model(Upward, (noise(3, 3),)),
    "messages": Model(Messages, (noise(4, 3),)),
    "temporal": Model(Temporal, (noise(2, 5, 2),)),
    "highway": Model(Highway, (noise(3, 3),)),
}
