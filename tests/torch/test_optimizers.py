"""Optimizers beside those of PyTorch: the same network, started alike, in training by both.

PyTorch's is what most people mean by a name.  Nothing of the package's is read on its side but the data: the network,
its gradients, clipping and decay are PyTorch's, and what PyTorch has not is written here by its paper.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tplimits as tp
from tplimits.regimes.training.finite import networks
from tplimits.torch.scaling.optimizers import RULES

WIDTH, STEPS, LR = 12, 6, 0.03
DRAWN = np.random.default_rng(8)
X, Y = DRAWN.standard_normal((5, 3)), DRAWN.standard_normal(5)
START = {
    "U": DRAWN.standard_normal((3, WIDTH)),
    "W": DRAWN.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5,
    "v": DRAWN.standard_normal(WIDTH) / WIDTH**0.5,
    "c": np.array(0.3),
}


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, c: tp.Scalar):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.tanh(W @ x)) + c


def outputs(w):
    return torch.tanh(torch.tanh(torch.tensor(X) @ w["U"]) @ w["W"].T) @ w["v"] + w["c"]


def by_torch(make, threshold=None, decays=None):
    """Outputs of all steps; `decays` are w ← (1 − λ) w before a step."""
    w = {name: torch.tensor(value, requires_grad=True) for name, value in START.items()}
    optimizer, found = make(list(w.values())), []
    for t in range(STEPS + 1):
        f = outputs(w)
        found.append(f.detach().numpy())
        if t == STEPS:
            return np.array(found)
        optimizer.zero_grad()
        (((f - torch.tensor(Y)) ** 2).sum() / (2 * len(Y))).backward()
        if threshold is not None:
            torch.nn.utils.clip_grad_norm_(list(w.values()), threshold)
        with torch.no_grad():
            for name, λ in (decays or {}).items():
                w[name] *= 1 - λ
        optimizer.step()


def by_package(optimizer, lr=LR, decays=0.0, parametrization=tp.SP):
    asked = parametrization, optimizer, X, tp.squared_error(Y), lr, STEPS, WIDTH
    return networks.train(net, *asked, weight_decay=decays, given=START).f[0]


class Written(torch.optim.Optimizer):
    """An update of one parameter at a time: step(g, state, t) is what is subtracted, times the rate."""

    def __init__(self, parameters, update):
        super().__init__(parameters, {})
        self.update, self.t, self.held = update, 0, {}

    def step(self):
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p -= LR * self.update(p.grad, self.held.setdefault(p, {}), self.t)
        self.t += 1


def lion(g, held, t):
    """Chen et al., Alg. 2, with β1 = .9, β2 = .99."""
    m = held.get("m", torch.zeros_like(g))
    held["m"] = 0.99 * m + 0.01 * g
    return torch.sign(0.9 * m + 0.1 * g)


def signum(g, held, t):
    return torch.sign(g)


def written(update):
    return lambda parameters: Written(parameters, update)


def of(kind, lr=LR, **settings):
    return lambda parameters: kind(parameters, lr=lr, **settings)


nesterov = tp.Entrywise(lambda g, m: g + 0.9 * m, states={"m": lambda g, m: 0.9 * m + g})
dampened = tp.Entrywise(lambda m: m, states={"m": lambda g, m, t: tp.where(t, 0.9 * m + 0.6 * g, g)})
centred = tp.Entrywise(
    lambda g, v, m: g / (tp.sqrt(v - m**2) + 1e-3),
    states={"v": lambda g, v: 0.9 * v + 0.1 * g**2, "m": lambda g, m: 0.9 * m + 0.1 * g},
)
optim, beside = torch.optim, {"convention": "torch"}
CASES = {
    "SGD": (tp.SGD(), of(optim.SGD)),
    "momentum": (tp.SGD(momentum=0.9), of(optim.SGD, momentum=0.9)),
    "nesterov": (nesterov, of(optim.SGD, momentum=0.9, nesterov=True)),
    "dampening": (dampened, of(optim.SGD, momentum=0.9, dampening=0.4)),
    "Adam": (tp.Adam(**beside), of(optim.Adam)),
    "Adam, ε of order 1": (tp.Adam(0.8, 0.95, 0.1, **beside), of(optim.Adam, betas=(0.8, 0.95), eps=0.1)),
    "Adam, ε below all gradients": (tp.Adam(), of(optim.Adam)),
    "NAdam": (tp.NAdam(**beside), of(optim.NAdam)),
    "NAdam, ε of order 1": (tp.NAdam(0.8, 0.95, 0.1, **beside), of(optim.NAdam, betas=(0.8, 0.95), eps=0.1)),
    "RMSprop": (tp.RMSProp(**beside), of(optim.RMSprop)),
    "RMSprop, ε of order 1": (tp.RMSProp(0.9, 0.1, **beside), of(optim.RMSprop, alpha=0.9, eps=0.1)),
    "centred RMSprop": (centred, of(optim.RMSprop, alpha=0.9, eps=1e-3, centered=True)),
    "Adagrad": (tp.Adagrad(**beside), of(optim.Adagrad, eps=1e-8)),
    "Adagrad, ε of order 1": (tp.Adagrad(0.1, **beside), of(optim.Adagrad, eps=0.1)),
    "Adamax": (RULES["adamax"].update, of(optim.Adamax)),
    "Lion": (RULES["lion"].update, written(lion)),
    "sign": (tp.SignSGD(), written(signum)),
}


@pytest.fixture(params=[False, True], ids=["arrays", "compiled"])
def engine(request, monkeypatch):
    monkeypatch.setattr(networks, "is_worth", lambda held, steps: request.param)


@pytest.mark.parametrize("case", CASES)
def test_networks_move_as_those_of_pytorch(case, engine):
    optimizer, make = CASES[case]
    np.testing.assert_allclose(by_package(optimizer), by_torch(make), atol=1e-6)


@pytest.mark.parametrize("case", ["SGD", "momentum", "Adam", "NAdam"])
def test_another_update_is_told_apart(case):
    """Wrong twins: sums in place of means, ε inside the root, and β1 without its schedule."""
    twins = {
        "SGD": tp.SGD(momentum=0.01),
        "momentum": nesterov,
        "Adam": tp.Adam(eps=1e-2),
        "NAdam": tp.NAdam(),
    }
    _, make = CASES[case]
    assert abs(by_package(twins[case]) - by_torch(make)).max() > 1e-4


DECAYS = {"U": 0.1, "W": 0.02, "v": 0.0, "c": 0.3}


@pytest.mark.parametrize("case", ["SGD", "momentum", "Adam", "RMSprop", "Lion"])
def test_weights_of_each_layer_decay_by_themselves(case, engine):
    optimizer, make = CASES[case]
    found = by_package(optimizer, decays=DECAYS)
    np.testing.assert_allclose(found, by_torch(make, decays=DECAYS), atol=1e-6)
    assert abs(found - by_torch(make, decays=dict.fromkeys(DECAYS, 0.1))).max() > 1e-3


def test_decay_of_adamw_is_the_rate_times_its_own(engine):
    found = by_package(tp.Adam(**beside), decays=LR * 0.5)
    np.testing.assert_allclose(found, by_torch(of(optim.AdamW, weight_decay=0.5)), atol=1e-6)


#: c = d = e: gradients with respect to w, whose norm is that of all of them
WHOLE = tp.ABCD({"matrix": (0, "1/2", 1, 1), **dict.fromkeys(("vector", "readout"), (0, 0, "1/2", "1/2"))})


@pytest.mark.parametrize("threshold", [0.05, 10.0])
def test_clipping_by_the_norm_of_all_gradients_divides_where_pytorch_multiplies(threshold, engine):
    """g/max(θ, |G|) is 1/θ of PyTorch's: the rate takes the factor of SGD, and Adam without ε sees none."""
    momentum, adam = of(optim.SGD, momentum=0.9), of(optim.Adam, eps=0)
    with pytest.warns(UserWarning, match="without ε"):
        steady = tp.Adam(eps=0)
    for inner, lr, make in ((tp.SGD(momentum=0.9), LR * threshold, momentum), (steady, LR, adam)):
        clipped = tp.Clipped(inner, threshold, of="gradient")
        rates = lr if inner != steady else {"U": lr * WIDTH**0.5, "W": lr * WIDTH, "v": lr * WIDTH**0.5, "c": lr}
        found = by_package(clipped, rates, parametrization=WHOLE)
        np.testing.assert_allclose(found, by_torch(make, threshold), atol=1e-5)
    assert abs(by_torch(momentum, 0.05) - by_torch(momentum, 10.0)).max() > 1e-2


def by_norm(threshold):
    """A momentum that is divided by its norm, or by a larger threshold times √n or n."""

    def update(g, held, t):
        held["m"] = 0.9 * held.get("m", torch.zeros_like(g)) + g
        # U and v are vectors of n, W has n² entries, c one
        size = 1 if g.ndim == 0 else WIDTH if g.shape == (WIDTH, WIDTH) else WIDTH**0.5
        return held["m"] / max(held["m"].norm(), threshold * size)

    return written(update)


@pytest.mark.parametrize(
    ("optimizer", "threshold"),
    [(tp.Normalized(tp.SGD(momentum=0.9)), 0.0), (tp.Clipped(tp.SGD(momentum=0.9), 0.02), 0.02)],
    ids=["normalised", "clipped"],
)
def test_updates_over_their_own_norm(optimizer, threshold, engine):
    np.testing.assert_allclose(by_package(optimizer), by_torch(by_norm(threshold)), atol=1e-6)


def adafactor(g, held, t):
    """Yang & Littwin, Sec. 2.10.3: means of squares over rows and columns, with ρ = .9 and ε = .01."""
    seen = [g.square().mean(1, keepdim=True), g.square().mean(0, keepdim=True)] if g.shape == (WIDTH, WIDTH) else [g**2]
    held["s"] = [0.9 * old + 0.1 * new for old, new in zip(held.get("s", [0.0, 0.0]), seen, strict=False)]
    r = held["s"][0]
    v = r * held["s"][1] / r.mean() if len(seen) == 2 else r
    return g / torch.sqrt(v / (1 - 0.9 ** (t + 1)) + 1e-4)


def test_factored_squares(engine):
    np.testing.assert_allclose(by_package(tp.Adafactor(0.9, 0.01)), by_torch(written(adafactor)), atol=1e-6)


@pytest.mark.parametrize("case", ["momentum", "Adam", "NAdam", "Lion"])
def test_networks_that_are_watched_move_alike(case):
    optimizer, make = CASES[case]
    asked = {"error": tp.squared_error(Y), "lr": LR, "steps": STEPS, "widths": (WIDTH,), "seeds": 1, "start": START}
    found = tp.watch(net, X, optimizer=optimizer, parametrization=tp.SP, weight_decay=DECAYS, progress=False, **asked)
    wanted = by_torch(make, decays=DECAYS)
    for t in range(STEPS + 1):
        np.testing.assert_allclose(np.ravel(found.outputs(frame=t, width=WIDTH, seed=0)), wanted[t], atol=1e-4)
