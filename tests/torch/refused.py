"""Models that are no programs: what they are, and what the refusal has to name."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models import Model, Sets, noise
from torch import nn
from torch.nn.utils import parametrizations


class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.o, self.n = nn.Linear(3, n), nn.Linear(n, 2), n

    def forward(self, x):
        return self.o(self.between(self.a(x)))


def between(function):
    """A perceptron with a function of its hidden layer."""
    return type("Between", (Base,), {"between": lambda self, h: function(h)})


class WithMatrix(Base):
    def __init__(self, n, change=lambda layer: layer):
        super().__init__(n)
        self.b = change(nn.Linear(n, n))

    def between(self, h):
        return torch.relu(self.b(h))


class OfTheMatrix(WithMatrix):
    def between(self, h):
        return h @ torch.softmax(self.b.weight, -1)


class Squared(WithMatrix):
    def between(self, h):
        return h @ (self.b.weight @ self.b.weight.t())


class Counted(Base):
    def __init__(self, n):
        super().__init__(n)
        self.register_buffer("count", torch.zeros(1))

    def between(self, h):
        self.count += 1
        return h * self.count


class Written(Base):
    """Weights of one layer are the outputs of another."""

    def __init__(self, n):
        super().__init__(n)
        self.g = nn.Linear(2, n * n)

    def forward(self, x, c):
        return self.o(torch.bmm(self.g(c).view(-1, self.n, self.n), self.a(x).unsqueeze(-1)).squeeze(-1))


class Deep(Base):
    def __init__(self, n):
        super().__init__(n)
        self.b = nn.Sequential(*(nn.Linear(n, n) for _ in range(n // 16)))

    def between(self, h):
        return self.b(h)


class Neighbours(Base):
    def __init__(self, n):
        super().__init__(n)
        self.c = nn.Conv1d(1, 1, 3, padding=1)

    def between(self, h):
        return self.c(h.unsqueeze(1)).squeeze(1)


class Beside(nn.Module):
    """Neurons and inputs side by side."""

    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Linear(3, n), nn.Linear(n + 3, 2)

    def forward(self, x):
        return self.b(torch.cat([torch.relu(self.a(x)), x], -1))


class Straight(torch.autograd.Function):
    """Signs, with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Merged(WithMatrix):
    """A correction of low rank that is added to the matrix itself."""

    def __init__(self, n):
        super().__init__(n)
        self.up, self.down = nn.Parameter(torch.zeros(n, 2)), nn.Parameter(torch.randn(2, n))

    def between(self, h):
        return F.linear(h, self.b.weight + self.up @ self.down)


class Standardised(WithMatrix):
    def between(self, h):
        w = self.b.weight
        return F.linear(h, (w - w.mean(1, keepdim=True)) / w.std(1, keepdim=True))


class Thinned(WithMatrix):
    """A mask of weights."""

    def __init__(self, n):
        super().__init__(n)
        self.register_buffer("kept", (torch.rand(n, n) > 0.5).float())

    def between(self, h):
        return F.linear(h, self.b.weight * self.kept)


class Linear(Base):
    """Attention without softmax, keys and values first."""

    def between(self, h):
        return h @ (h.transpose(1, 2) @ torch.tanh(h))


class Repeated(Base):
    """The same output at five positions."""

    def forward(self, x):
        return self.o(self.a(x)).unsqueeze(1).expand(-1, 5, 2)


class Complex(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w, self.o = nn.Parameter(torch.randn(3, n, dtype=torch.cfloat)), nn.Linear(n, 2)

    def forward(self, x):
        return self.o((x.to(torch.cfloat) @ self.w).real)


class Parts(nn.Module):
    """The entries of a matrix of n × 3 and those of a bias in one layer."""

    def __init__(self, n):
        super().__init__()
        self.g, self.o, self.n = nn.Linear(2, 4 * n), nn.Linear(n, 1), n

    def forward(self, x, z):
        w, b = self.g(z).split([3 * self.n, self.n], 1)
        return self.o(torch.tanh(torch.einsum("bni,bi->bn", w.view(-1, self.n, 3), x) + b))


class Images(Base):
    """The square of a width as one axis: each neuron beside each other one."""

    def __init__(self, n):
        super().__init__(n)
        self.o = nn.Linear(n * n, 2)

    def between(self, h):
        return (h.unsqueeze(2) * h.unsqueeze(1)).flatten(1)


class Looped(Base):
    """As many steps as neurons."""

    def between(self, h):
        for _ in range(self.n // 8):
            h = torch.tanh(h)
        return h


class Statistics(Base):
    """A running mean that forward itself keeps."""

    def __init__(self, n):
        super().__init__(n)
        self.register_buffer("mean", torch.zeros(n))

    def between(self, h):
        self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))
        return h - self.mean


class Seen(Base):
    """The tokens that are kept are chosen by their values."""

    def forward(self, x):
        h = self.a(x)
        scores = self.o(h)[..., 0]
        return self.o(torch.gather(h, 1, scores.topk(2, dim=1)[1].unsqueeze(-1).expand(-1, -1, h.shape[-1]))).sum(1)


class Early(Base):
    def forward(self, x):
        h = torch.relu(self.a(x))
        while h.norm() > 1e3:
            h = h / 2
        return self.o(h)


class Half(Base):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.a(x)
        return self.o(h.float())


X = (noise(3, 3),)


class Differentiated(Base):
    """A derivative of what it computes, as physics-informed networks have it."""

    def between(self, h):
        return torch.relu(h)

    def forward(self, x):
        x = x.requires_grad_()
        return torch.autograd.grad(super().forward(x).sum(), x, create_graph=True)[0]


class Logarithmic(Base):
    """Entries that no power of n makes, and that look like n^(-1/4) at two widths."""

    def __init__(self, n):
        super().__init__(n)
        nn.init.normal_(self.o.weight, std=1 / math.log(n))

    def between(self, h):
        return torch.relu(h)


REFUSED = {
    "sort": (Model(between(lambda h: torch.sort(h, -1)[0]), X), "operation sort"),
    "top k": (Model(between(lambda h: torch.topk(h, h.shape[-1], -1)[0]), X), "operation topk"),
    "largest neuron": (Model(between(lambda h: h - h.amax(-1, keepdim=True)), X), "operation amax"),
    "three neurons": (Model(between(lambda h: torch.cat([h[:, :3], 2 * h[:, 3:]], 1)), X), "operation slice"),
    "running sum": (Model(between(lambda h: torch.cumsum(h, -1)), X), "operation cumsum"),
    "Fourier": (Model(between(lambda h: torch.fft.fft(h).real), X), "operation fft_fft"),
    "neighbours": (Model(Neighbours, X), "`c`, operation conv1d"),
    "local response": (
        Model(between(lambda h: F.local_response_norm(h.unsqueeze(-1), 3).squeeze(-1)), X),
        "windows along it",
    ),
    "dropout": (Model(between(lambda h: F.dropout(h, 0.5, training=True)), X), "dropout whatever the mode is"),
    "batch statistics": (
        Model(between(lambda h: F.batch_norm(h, None, None, training=True)), X),
        "statistics of the batch",
    ),
    "dropped weights": (
        Model(between(lambda h: F.scaled_dot_product_attention(h[None], h[None], h[None], dropout_p=0.1)[0]), X),
        "whatever the mode is",
    ),
    "control flow": (
        Model(between(lambda h: -h if h.sum() > 0 else h), X),
        "control flow depends on values of tensors",
    ),
    "derivative": (Model(Differentiated, X), "differentiates in forward"),
    "logarithm": (Model(Logarithmic, X, (64, 128, 256)), "which is no multiple of 1/4"),
    "spectral norm": (Model(lambda n: WithMatrix(n, parametrizations.spectral_norm), X), "`b.parametrizations"),
    "weight norm": (Model(lambda n: WithMatrix(n, parametrizations.weight_norm), X), "`b.parametrizations"),
    "softmax of weights": (Model(OfTheMatrix, X), "operation softmax"),
    "product of weights": (Model(Squared, X), "a product of two weight matrices"),
    "counter": (Model(Counted, X), "buffer or input `count`"),
    "parts of one layer": (Model(Parts, (noise(3, 3), noise(3, 2))), "operation view (view): it puts entries side by"),
    "hypernetwork": (Model(Written, (noise(3, 3), noise(3, 2))), "`g.weight`"),
    "depth": (Model(Deep, X, (16, 32, 64)), "the number of layers and operations has to be the same at all widths"),
    "neurons and inputs": (Model(Beside, X), "`b.weight`: a dimension has n + 3 entries"),
    "own gradients": (Model(between(Straight.apply), X), "torch.autograd.Function `Straight`"),
    "merged correction": (Model(Merged, X), "operation matmul"),
    "standardised weights": (Model(Standardised, X), "operation mean (mean): the entries of a weight matrix"),
    "mask of weights": (Model(Thinned, X), "operation mul"),
    "noise": (Model(between(lambda h: h + torch.randn_like(h)), X), "operation randn_like"),
    "reversed neurons": (Model(between(lambda h: h + h.flip(-1)), X), "operation flip"),
    "rows of some inputs": (Model(between(lambda h: h[h.sum(-1) > 0]), X), "operation index (index): how many entries"),
    "nearest of neurons": (Model(between(lambda h: h * (h.argmax(-1, keepdim=True) > 0)), X), "operation argmax"),
    "rounded values": (Model(between(torch.round), X), "operation round (round_1): it rounds values"),
    "linear attention": (Model(Linear, (noise(2, 4, 3),)), "an array of n² entries"),
    "repeated output": (Model(Repeated, X), "the same at all 5 positions"),
    "complex": (Model(Complex, X), "`w` is complex"),
    "distances of neurons": (Model(between(lambda h: torch.cdist(h, h) @ h), X), "operation cdist"),
    "square of a width": (Model(Images, X), "`o.weight`"),
    "as many steps as neurons": (
        Model(Looped, X),
        "the number of layers and operations has to be the same at all widths",
    ),
    "own statistics": (Model(Statistics, X), "`mean`"),
    "chosen tokens": (Model(Seen, (noise(2, 4, 3),)), "operation topk"),
    "until small": (Model(Early, X), "torch.export cannot follow"),
    "median neuron": (Model(between(lambda h: h - h.median(-1, keepdim=True)[0]), X), "operation median"),
    "odd neurons": (
        Model(between(lambda h: F.pad(h[:, : h.shape[-1] // 2 : 2], (0, 3 * h.shape[-1] // 4))), X),
        "one neuron of 2, from a part",
    ),
    "width as positions": (Model(between(lambda h: F.avg_pool1d(h.unsqueeze(1), 3, 1, 1).squeeze(1)), X), "pool"),
    "neurons by number": (Model(between(lambda h: h * torch.arange(h.shape[-1])), X), "it numbers neurons"),
    "one row at a time": (
        Model(between(torch.func.vmap(torch.tanh)), X),
        "torch.func.vmap is in the graph; apply the function to the whole batch",
    ),
    "half precision": (Model(Half, X), "torch.autocast is in the graph"),
    "roots of negative numbers": (
        Model(between(lambda h: torch.relu(h) * torch.sqrt(h.mean(-1, keepdim=True) - 10)), X),
        "the model itself returns nan",
    ),
    "no width": (Model(lambda _: Sets(8), (noise(2, 5, 3),)), "make ignores its argument"),
}
