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
        nn.Conv1d(2, n, 3, padding=1), nn.ReLU(), nn.Conv1d(n, n, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(n, OUTPUTS),
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
    "convolutions": (convolutions, noise(2, 2, 5)),
    "transformer": (Transformer, noise(2, 3, 4)),
    "gated": (Gated, noise(2, 3)),
}
WIDTHS, NETWORKS = (64, 128, 256), 64


def weight_of(net, name, n):
    """What |∂f/∂w|² of a parameter of torch is multiplied by where matrices and readouts carry n^(−½)."""
    kind = tp.NTP.of(net)[name]
    if kind == tp.NTP.vector or kind == tp.NTP.scalar:
        is_readout = net[net.position(name)].width is not None and net.entries[name].power == 0.5 and (
            name.startswith("o.") or name == list(net.built.weights)[-2]
        )  # fmt: skip
        return 1 / (n * float(net.built.atoms[net[net.position(name)].width])) if is_readout else 1.0
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
    for (found, error), claimed, wrong in zip(intercept(net, make, x), (pair.nngp, pair.ntk), (1.35, 1.1), strict=True):
        z = (found - numpy.asarray(claimed)) / error
        assert numpy.abs(z).max() < 4.0, (found, claimed, error)
        twin = (found - wrong * numpy.asarray(claimed)) / error  # 35 % and 10 % off
        assert numpy.abs(twin).max() > 4.0


def widening(n):
    return nn.Sequential(nn.Linear(5, n), nn.ReLU(), nn.Linear(n, 4 * n), nn.ReLU(), nn.Linear(4 * n, OUTPUTS))


def grouped(n):
    return nn.Sequential(nn.Linear(5, n), nn.ReLU(), nn.Linear(n, n), nn.GroupNorm(4, n), nn.Linear(n, OUTPUTS))


@pytest.mark.parametrize("make", [widening, grouped])
def test_readouts_have_as_many_neurons_as_they_read(make):
    """Of 4n neurons, and of four pieces of n/4: f fᵀ is that of torch's networks, not a quarter or four times it."""
    x = noise(2, 5)
    net = tp.from_torch(make, x, widths=(16, 32, 64)).gaussian().leading()
    claimed = tp.derive(net, tp.Kernels()).evaluate(net.data(x), ratios=net.ratios).nngp
    found = []
    for seed in range(40):
        torch.manual_seed(seed)
        model = make(128)
        for layer in (model[2], model[-1]):
            nn.init.zeros_(layer.bias)
        f = model(x).detach().numpy()
        found.append(f @ f.T / OUTPUTS)
    assert numpy.mean(found, axis=0) == pytest.approx(
        numpy.asarray(claimed).reshape(2, 2), rel=0.2, abs=0.02 * claimed.max()
    )


# -- training -------------------------------------------------------------------------------------

TARGETS = torch.tensor([1.0, -1.0], dtype=torch.float64)
STEPS, RATE = 3, 0.4


def trained(n):
    return nn.Sequential(nn.Linear(5, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 1, bias=False))


def by_torch(net, x, n, seed, rate):
    """f after each step of SGD in μP: readouts of 1/n, rates n for vectors, 1/n for readouts; hidden biases from 0."""
    torch.manual_seed(104729 * n + seed)
    model = trained(n).double()
    rates = []
    with torch.no_grad():
        model[4].weight.mul_(n**-0.5)
        model[2].bias.zero_()
    for name, p in model.named_parameters():
        factor = float(net.built.factors.get(name, 1)) ** 2
        rates.append({"params": [p], "lr": rate * {"2.weight": factor, "4.weight": 1 / n}.get(name, n)})
    optimizer = torch.optim.SGD(rates, lr=rate)
    found = []
    for _ in range(STEPS + 1):
        f = model(x)[:, 0]
        found.append(f.detach().numpy())
        optimizer.zero_grad()
        (0.5 * (f - TARGETS) ** 2).mean().backward()
        optimizer.step()
    return numpy.array(found)


def by_limit(limit, data, rate):
    """The same outputs in the limit."""

    def error(f):
        return (f - TARGETS.numpy().reshape(f.shape)) / 2

    found = limit.evaluate(data, error=error, lr=rate, steps=STEPS, particles=2048)
    return numpy.asarray(found.f).reshape(STEPS + 1, 2)


def test_feature_learning_of_an_imported_model():
    """The limit of maximal updates of the model with the entries that PyTorch draws, beside torch's own training."""
    x = noise(2, 5).double()
    net = tp.from_torch(trained, x.float(), widths=(16, 32, 64))
    limit = tp.derive(net.leading(), tp.MaximalUpdate(tp.SGD()))
    claimed = by_limit(limit, net.data(x), RATE)
    assert numpy.abs(claimed[-1] - claimed[0]).max() > 0.15
    means, variances = [], []
    for n in (64, 128, 256):
        many = numpy.array([by_torch(net, x, n, seed, RATE) for seed in range(64)])
        means.append(many.mean(0))
        variances.append(many.var(0, ddof=1) / 64)
    design = numpy.array([[1.0, 1 / n] for n in (64, 128, 256)])
    weights = numpy.linalg.pinv(design)[0]
    found = numpy.tensordot(weights, means, 1)
    error = numpy.sqrt(numpy.tensordot(weights**2, variances, 1)) + 1e-3  # that of the limit's particles
    assert numpy.abs((found - claimed) / error).max() < 4.0, (found, claimed, error)
    assert numpy.abs((found - by_limit(limit, net.data(x), 1.2 * RATE)) / error).max() > 4.0


class Several(nn.Module):
    """Two perceptrons, and what the model makes of their outputs."""

    def __init__(self, n, of):
        super().__init__()
        self.q, self.p = (nn.Sequential(nn.Linear(3, n), nn.Tanh(), nn.Linear(n, 1, bias=False)) for _ in range(2))
        self.scale, self.of = nn.Parameter(torch.ones(())), of

    def forward(self, x):
        return self.of(self.q(x), self.p(x), self.scale)


@pytest.mark.parametrize("of", [lambda q, p, s: q + p, lambda q, p, s: (q - p) / 2, lambda q, p, s: q * s + p])
def test_sums_that_are_no_readout_have_no_limit_that_is_zero(of):
    """Weights like n^(−½) that are summed over neurons are not small, whatever the model makes of the sums."""
    net = tp.from_torch(lambda n: Several(n, of), torch.ones(2, 3), widths=(8, 16, 32))
    with pytest.raises(tp.NoLimitError, match=r"`[qp].2.weight` starts at uniform.* multiplies neurons"):
        tp.derive(net.gaussian().leading(), tp.Kernels())
