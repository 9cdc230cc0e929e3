"""Models in the styles of people who have never heard of programs: what they need that the others do not."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models import Model, noise, tokens
from torch import nn

EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])


class Rounded(nn.Module):
    """SwiGLU of 8n/3 neurons rounded up, beside heads whose interleaved pairs are turned."""

    def __init__(self, n, multiple=16):
        super().__init__()
        hidden = multiple * ((int(2 * (4 * n) / 3) + multiple - 1) // multiple)
        self.e, self.norm = nn.Embedding(7, n), nn.RMSNorm(n, eps=1e-5)
        self.w1, self.w3 = nn.Linear(n, hidden, bias=False), nn.Linear(n, hidden, bias=False)
        self.w2, self.o = nn.Linear(hidden, n), nn.Linear(n, 7, bias=False)
        angles = torch.outer(torch.arange(4.0), 100.0 ** -(torch.arange(0, n, 2)[: n // 2] / n))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, i):
        x = self.e(i)
        a, b = x[..., ::2], x[..., 1::2]
        x = torch.stack((a * self.cos - b * self.sin, a * self.sin + b * self.cos), dim=-1).flatten(2)
        y = self.norm(x)
        return self.o(x + self.w2(F.silu(self.w1(y)) * self.w3(y)) * self.w1.out_features**-0.5)


class Quarters(nn.Module):
    """Every width is cut into four pieces, and logits are divided by the root of all neurons."""

    def __init__(self, n):
        super().__init__()
        self.i, self.norm, self.back = nn.Linear(3, n), nn.GroupNorm(4, n), nn.GroupNorm(4, n)
        self.qkv, self.o = nn.Conv1d(n, 3 * n, 1), nn.Conv1d(n, 1, 1)

    def forward(self, x):
        x = self.i(x).transpose(1, 2)
        q, k, v = self.qkv(self.norm(x)).unflatten(1, (3, 4, -1)).flatten(2, 3).unbind(1)
        a = (torch.einsum("bci,bcj->bij", q, k) * q.shape[1] ** -0.5).softmax(-1)
        return self.o(self.back(x + torch.einsum("bij,bcj->bci", a, v))).squeeze(1)


class Sent(nn.Module):
    """Messages along edges that are an input, added at their targets."""

    def __init__(self, n):
        super().__init__()
        self.i, self.l, self.r, self.o = nn.Linear(3, n), nn.Linear(n, n), nn.Linear(n, n, bias=False), nn.Linear(n, 2)

    def forward(self, x, edges):
        source, target = edges
        h = F.relu(self.i(x))
        degree = torch.zeros(len(x)).index_add_(0, target, torch.ones(edges.size(1))).clamp(min=1)
        h = F.relu(self.l(h) + torch.zeros_like(h).index_add(0, target, self.r(h)[source]) / degree[:, None])
        sent = h[source]
        return self.o(h.new_zeros(h.shape).scatter_add(0, target.unsqueeze(-1).expand_as(sent), sent))


class Lengths(nn.Module):
    """Sequences of different lengths: their last states, means and largest entries."""

    def __init__(self, n):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(9, n), nn.RNN(n, n, batch_first=True), nn.Linear(n, 2)

    def forward(self, i, lengths):
        y, _ = self.r(self.e(i))
        seen = (torch.arange(i.size(1))[None] < lengths[:, None]).unsqueeze(-1)
        last = y.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, y.size(2))).squeeze(1)
        again = y[torch.arange(len(y)), lengths - 1]
        return self.o(last + 2 * again + (y * seen).sum(1) + y.masked_fill(~seen, float("-inf")).amax(1))


class Padded(nn.Module):
    """A transformer layer whose keys an input hides, and a bag of tokens."""

    def __init__(self, n):
        super().__init__()
        self.bag, self.e = nn.EmbeddingBag(9, n, mode="mean"), nn.Embedding(9, n)
        self.layer = nn.TransformerEncoderLayer(n, 2, n, 0.1, batch_first=True)
        self.o = nn.Linear(n, 2)

    def forward(self, i, kept):
        return self.o(self.layer(self.e(i), src_key_padding_mask=kept == 0)[:, 0] + self.bag(i))


class Tutorial(nn.Module):
    """Sequences first, sines in a buffer, a causal mask given to nn.TransformerEncoder, tied weights."""

    def __init__(self, n):
        super().__init__()
        self.n, self.embedding, self.linear = n, nn.Embedding(6, n), nn.Linear(n, 6)
        place, rate = torch.arange(5).unsqueeze(1), torch.exp(torch.arange(0, n, 2) * (-math.log(10000.0) / n))
        table = torch.zeros(5, 1, n)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table)
        layer = nn.TransformerEncoderLayer(n, 2, n, 0.1)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.linear.weight = self.embedding.weight

    def forward(self, i):
        x = self.embedding(i) * math.sqrt(self.n) + self.table[: len(i)]
        return self.linear(self.encoder(x, nn.Transformer.generate_square_subsequent_mask(len(i))))


class Equalised(nn.Module):
    """Normal weights and a number that multiplies them in forward."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.randn(n, m)) for m in (5, n))
        self.gain, self.out = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.randn(2, n))

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(dim=1, keepdim=True) + 1e-8)
        for w in (self.a, self.b):
            z = F.leaky_relu(F.linear(z, w * (1 / math.sqrt(w.shape[1]))), 0.2) * math.sqrt(2)
        return F.linear(z, self.b * self.gain / z.shape[1]) @ self.out.T / self.out.shape[1]


class Glorot(nn.Module):
    """Entries of variance 2/(n + 4), and an adjacency that forward normalises."""

    def __init__(self, n):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(a, b)) for a, b in ((4, n), (n, n), (n, 3)))
        for w in self.weights:
            nn.init.xavier_uniform_(w)

    def forward(self, x, adjacency):
        adjacency = adjacency + torch.eye(len(adjacency))
        root = torch.diag(adjacency.sum(1).pow(-0.5))
        for i, w in enumerate(self.weights):
            x = (root @ adjacency @ root).mm((F.elu(x) if i else x).mm(w))
        return F.log_softmax(x, dim=1)


class Shortcut(nn.Module):
    """Channels that a shortcut has not are zeros; groups in fixed and in growing number."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, n, 3, 1, 1, bias=False), nn.Conv2d(n, 2 * n, 3, 2, 1, groups=4, bias=False)
        self.c, self.o, self.n = nn.Conv2d(2 * n, 2 * n, 1, groups=n // 2), nn.Linear(2 * n, 2), n

    def forward(self, x):
        x = F.relu(self.a(x))
        y = self.c(F.relu(self.b(x)))
        y += F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.n // 2, self.n // 2), "constant", 0)
        return self.o(y.flatten(2).mean(-1))


class Rest(nn.Module):
    """Gates of halves, running products, places that are written over, distances to prototypes."""

    def __init__(self, n):
        super().__init__()
        self.e, self.gate, self.o = nn.Linear(3, n), nn.Sequential(nn.Linear(n, 2 * n), nn.GLU()), nn.Linear(4, 2)
        self.prototypes = nn.Parameter(torch.randn(4, n))

    def forward(self, x):
        x = self.e(x)
        decay = torch.cumprod(torch.sigmoid(x), dim=1)
        y = self.gate(x * decay)
        z = torch.zeros_like(y)
        z[:, 1:] = y[:, :-1]
        z[:, 0] = 0.5 * y[:, 1]
        return self.o(torch.exp(-torch.cdist(z, self.prototypes).div(x.shape[-1] ** 0.5))).sum(1)


class Functions(nn.Module):
    """Functions that few models have, and names that PyTorch has beside the usual ones."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.m, self.o = nn.Linear(4, n), nn.Linear(4, n), nn.Linear(n, n), nn.Linear(n, 2)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        bounded = 0.5 * torch.tanh(a)
        h = torch.arctan(a) + torch.asinh(b) + torch.special.erfc(a) + torch.special.expit(b) + torch.asin(bounded)
        h = h + torch.acos(bounded) + torch.atanh(bounded) + torch.acosh(1.5 + b.abs()) + torch.tan(bounded)
        h = h + torch.exp2(bounded) + torch.log2(1 + b**2) + torch.log10(1 + a**2) + torch.logit(0.5 + 0.5 * bounded)
        h = h + torch.logaddexp(a, b) + torch.hypot(a + 3, b) + torch.xlogy(a, 1.5 + b.abs()) + torch.special.ndtr(b)
        h = h + torch.special.entr(1.5 + bounded) + torch.deg2rad(a) + torch.fmax(a, b) + torch.sgn(self.m(h)) * h
        return self.o(torch.where(torch.greater(h, 0), torch.nan_to_num(h), 0.1 * h))


class Folded(nn.Module):
    """Windows that overlap when they are put back, channels that are shuffled, a part of a width that is written to."""

    def __init__(self, n):
        super().__init__()
        self.a, self.m, self.o, self.n = nn.Conv2d(3, n, 1), nn.Linear(4 * n, 4 * n), nn.Linear(n, 2), n

    def forward(self, x):
        h = self.a(x)
        windows = self.m(F.unfold(h, 2, stride=1).transpose(1, 2)).transpose(1, 2)
        h = nn.ChannelShuffle(2)(torch.tanh(F.fold(windows, h.shape[2:], 2, stride=1)))
        h[:, : self.n // 2] *= 2
        return self.o(h.mean((2, 3)))


class NewStates(nn.Module):
    """States that are made like the input, and have none of its dimensions; a scale that forward casts."""

    def __init__(self, n):
        super().__init__()
        self.cell, self.o, self.n = nn.LSTMCell(5, n), nn.Linear(n, 2), n
        self.register_buffer("scale", torch.tensor(n**0.5), persistent=False)

    def forward(self, x):
        h, c = x.new_zeros(len(x), self.n), x.new_full((len(x), self.n), 0.5)
        for _ in range(2):
            h, c = self.cell(x, (h, c))
        return self.o(h) * self.scale.to(self.o.weight.dtype)


class SameEverywhere(nn.Module):
    """Convolutions of what is 0, 1, or a number of the input at all neurons."""

    def __init__(self, n):
        super().__init__()
        self.i, self.c, self.o, self.n = nn.Conv1d(2, n, 1), nn.Conv1d(n, n, 3, padding=1), nn.Linear(n, 1), n

    def forward(self, x):
        h = x.new_zeros(len(x), self.n, x.shape[2])
        for seen in (x, torch.ones_like(x)):
            h = torch.tanh(self.i(seen) + self.c(h))
        alike = x.mean(1, keepdim=True).expand(-1, self.n, -1)
        return self.o((h + self.c(torch.ones_like(h)) + self.c(alike)).mean(2))


class Factors(nn.Module):
    """Parameters of one's own, and products of several of them at once."""

    def __init__(self, n):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, n) / 2)
        self.v, self.w = (nn.Parameter(torch.randn(n, n) / n**0.5) for _ in range(2))
        self.b = nn.Parameter(torch.randn(n, 2) / n)

    def forward(self, x, y):
        h = torch.tanh(torch.einsum("bi,in,nm->bm", x, self.a, self.w))
        s = torch.einsum("bn,nm,bm->b", h, self.v, torch.einsum("bi,in->bn", y, self.a)) / h.shape[-1]
        return torch.einsum("bn,nm,mk,ko->bo", h, self.v, self.w, self.b) + s[:, None]


class Apart(nn.Module):
    """Two inputs through one network, and how far apart they are there."""

    def __init__(self, n):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(5, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x, y):
        x, y = self.f(x), self.f(y)
        return F.pairwise_distance(x, y, keepdim=True) / x.shape[-1] ** 0.5 + F.pairwise_distance(x, y, p=1)[:, None]


class Composed(nn.Module):
    """Operations that PyTorch composes of others, copies of a whole width, places that an index on it names."""

    def __init__(self, n):
        super().__init__()
        self.i, self.m, self.t = nn.Linear(3, n), nn.Linear(2 * n, n), nn.Parameter(torch.randn(4, 4))
        self.v, self.o = nn.Parameter(torch.randn(n)), nn.Linear(n, 2)

    def forward(self, x):
        h = self.m(torch.tanh(self.i(x)).repeat(1, 1, 2))
        h = torch.tensordot(h, self.t, ([1], [0])).movedim(-1, 1) + torch.outer(self.t[0], self.v)
        at = torch.tensor([2, 0])[None, :, None].expand(len(h), 2, h.shape[2])
        h = F.pad(torch.clamp(h, self.t[0, 0] - 1, self.t[0, 0] + 1), (0, 0, 0, 1), value=0.5)
        h = torch.cat([torch.diff(h, dim=1), h.gather(1, at)], 1)
        return self.o(h / h.std().view(1, 1)) + F.huber_loss(h, h.flip(1))


class Mixture(nn.Module):
    """The density of a mixture, from three readouts."""

    def __init__(self, n):
        super().__init__()
        self.h = nn.Linear(6, n)
        self.weight, self.mean, self.scale = (nn.Linear(n, 3) for _ in range(3))

    def forward(self, x):
        h = torch.tanh(self.h(x))
        z = (x[:, :1] - self.mean(h)) * torch.exp(-self.scale(h))
        return torch.logsumexp(F.log_softmax(self.weight(h), -1) - self.scale(h) - z**2 / 2, -1)


STRANGERS = {
    "several factors": Model(Factors, (noise(3, 4), noise(3, 4) ** 2)),
    "apart": Model(Apart, (noise(4, 5), noise(4, 5).cos())),
    "same everywhere": Model(SameEverywhere, (noise(2, 2, 4),)),
    "composed": Model(Composed, (noise(2, 4, 3),)),
    "mixture": Model(Mixture, (noise(4, 6),)),
    "rounded": Model(Rounded, (tokens(7, 2, 4),)),
    "quarters": Model(Quarters, (noise(2, 4, 3),)),
    "sent": Model(Sent, (noise(4, 3), EDGES)),
    "lengths": Model(Lengths, (tokens(9, 2, 4), torch.tensor([2, 4]))),
    "padded": Model(Padded, (tokens(9, 2, 4), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]))),
    "tutorial": Model(Tutorial, (tokens(6, 5, 2),)),
    "equalised": Model(Equalised, (noise(3, 5),)),
    "Glorot": Model(Glorot, (noise(4, 4), (noise(4, 4) > 0).float())),
    "shortcut": Model(Shortcut, (noise(2, 3, 4, 4),)),
    "rest": Model(Rest, (noise(2, 3, 3),)),
    "functions": Model(Functions, (noise(3, 4),)),
    "folded": Model(Folded, (noise(2, 3, 4, 4),)),
    "new states": Model(NewStates, (noise(3, 5),)),
}
