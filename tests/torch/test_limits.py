"""Limits of imported models beside networks that torch itself makes and differentiates."""

from __future__ import annotations

import numpy
import pytest
import torch
import torch.nn.functional as F
from models import noise
from torch import nn

import tplimits as tp

#: outputs are independent given the last layer: many of them are many networks
OUTPUTS = 64


def perceptron(n):
    return nn.Sequential(nn.Linear(5, n), nn.ReLU(), nn.Linear(n, n), nn.Tanh(), nn.Linear(n, OUTPUTS))


def convolutions(n):
    return nn.Sequential(
        nn.Conv2d(1, n, 3, padding=1), nn.ReLU(), nn.Conv2d(n, n, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, OUTPUTS),
    )  # fmt: skip


class Transformer(nn.Module):
    """Logits over d, so that attention is uniform at the start; a residual, a norm, a perceptron."""

    def __init__(self, n):
        super().__init__()
        self.e, self.q, self.k, self.v = nn.Linear(4, n), *(nn.Linear(n, n, bias=False) for _ in range(3))
        self.norm, self.up, self.o = nn.RMSNorm(n), nn.Linear(n, n), nn.Linear(n, OUTPUTS)

    def forward(self, x):
        x = self.e(x)
        x = x + F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), scale=1 / x.shape[-1])
        return self.o(F.relu(self.up(self.norm(x))).mean(1))


class Gated(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e, self.norm, self.o = nn.Linear(3, n), nn.LayerNorm(n), nn.Linear(n, OUTPUTS)
        self.both, self.back = nn.Linear(n, 2 * n, bias=False), nn.Linear(n, n, bias=False)

    def forward(self, x):
        x = self.e(x)
        a, b = self.both(self.norm(x)).chunk(2, -1)
        return self.o(x + self.back(F.relu(a) * b))


MODELS = {
    "perceptron": (perceptron, noise(2, 5)),
    "convolutions": (convolutions, noise(2, 1, 4, 4)),
    "transformer": (Transformer, noise(2, 3, 4)),
    "gated": (Gated, noise(2, 3)),
}
WIDTHS, NETWORKS = (64, 128, 256), 96


def weight_of(net, name, n):
    """What |∂f/∂w|² of a parameter of torch is multiplied by where matrices and readouts carry n^(−½)."""
    kind = tp.NTP.of(net)[name]
    if kind == tp.NTP.vector or kind == tp.NTP.scalar:
        is_readout = net[net.position(name)].width is not None and net.entries[name].power == 0.5 and (
            name.startswith("o.") or name == list(net.built.weights)[-2]
        )  # fmt: skip
        return 1 / n if is_readout else 1.0
    columns = float(net.built.atoms[net[net.position(name)].columns])
    return float(net.built.factors[name]) ** 2 / (n * columns)


def kernels_of(net, make, x, n, seed):
    """f fᵀ and ∇f·∇f of one network at its start."""
    torch.manual_seed(7919 * n + seed)
    model = make(n).double()
    with torch.no_grad():  # entries that vanish with the width are those of a lower order
        for name, entries in net.entries.items():
            p = dict(model.named_parameters())[name]
            if entries.power and p.ndim == 1:
                p.zero_()
    f = model(x.double())
    names, parameters = zip(*model.named_parameters(), strict=True)
    rows = [torch.autograd.grad(f[i, 0], parameters, retain_graph=True) for i in range(len(x))]
    θ = [[sum(float(weight_of(net, k, n) * (a * b).sum()) for k, a, b in zip(names, one, two, strict=True))
          for two in rows] for one in rows]  # fmt: skip
    f = f.detach()
    return (f @ f.T / OUTPUTS).numpy(), numpy.array(θ)


def intercept(net, make, x):
    """L of L + b/n, fitted to means over networks, and its standard error: for K and Θ."""
    found = []
    for which in range(2):
        means, variances = [], []
        for n in WIDTHS:
            many = numpy.array([kernels_of(net, make, x, n, seed)[which] for seed in range(NETWORKS)])
            means.append(many.mean(0))
            variances.append(many.var(0, ddof=1) / NETWORKS)
        design = numpy.array([[1.0, 1 / n] for n in WIDTHS])
        weights = numpy.linalg.pinv(design)[0]
        found.append((numpy.tensordot(weights, means, 1), numpy.sqrt(numpy.tensordot(weights**2, variances, 1))))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_kernels_are_those_of_networks_that_torch_makes(name):
    make, x = MODELS[name]
    net = tp.from_torch(make, x, widths=(16, 32, 64))
    limit = tp.derive(net.gaussian().leading(), tp.Kernels())
    pair = limit.evaluate(net.data(x))
    for (found, error), claimed in zip(intercept(net, make, x), (pair.nngp, pair.ntk), strict=True):
        z = (found - numpy.asarray(claimed)) / error
        assert numpy.abs(z).max() < 4.0, (found, claimed, error)
        twin = (found - 1.15 * numpy.asarray(claimed)) / error  # a limit 15 % off
        assert numpy.abs(twin).max() > 4.0
