"""Entries as PyTorch makes them: laws in the program, at finite width and in limits."""

import numpy as np
import pytest
import torch
from torch import nn

import tplimits as tp

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).float()
WIDTHS = (64, 128, 256)


def perceptron(act):
    return lambda n: nn.Sequential(nn.Linear(3, n), act(), nn.Linear(n, n), act(), nn.Linear(n, 1))


def other_laws(n):
    model = perceptron(nn.Tanh)(n)
    nn.init.trunc_normal_(model[2].weight, std=n**-0.5, a=-2 * n**-0.5, b=2 * n**-0.5)
    nn.init.trunc_normal_(model[2].bias, std=0.1, a=-0.15, b=0.15)
    with torch.no_grad():
        model[0].bias.copy_(torch.sign(torch.randn(n)))
    return model


@pytest.fixture(scope="module")
def imported():
    return tp.from_torch(perceptron(nn.Tanh), X, widths=WIDTHS)


def law(net, name):
    return net[net.position(name)].law


def test_laws_are_measured(imported):
    assert {name: law(imported, name).shape for name in imported.entries} == dict.fromkeys(imported.entries, "uniform")
    assert law(imported, "0.bias") == law(imported, "0.weight") and law(imported, "2.weight").std == 1
    found = tp.from_torch(other_laws, X, widths=WIDTHS)
    shapes = {name: law(found, name).shape for name in ("0.bias", "2.weight", "2.bias")}
    assert shapes == {"0.bias": "signs", "2.weight": "truncated", "2.bias": "truncated"}
    assert abs(float(law(found, "2.weight").cut) - 2) < 0.05 and abs(float(law(found, "2.bias").cut) - 1.5) < 0.15


def test_matrices_are_drawn_as_pytorch_draws_them(imported):
    W = imported.run(n=256, ratios=imported.ratios, input=X[0].numpy())["2.weight"]
    assert abs(W).max() * 16 <= np.sqrt(3) and abs((W**4).mean() / W.var() ** 2 - 1.8) < 0.02


def test_normal_twins(imported):
    normal = imported.gaussian()
    assert {law(normal, name).shape for name in imported.entries} == {"normal"}
    assert all(law(normal, name).std == law(imported, name).std for name in imported.entries)


@pytest.mark.sampling
def test_kernels_of_the_imported_model(imported):
    """Natural parametrization: each layer's own factor; accepted as it is drawn, and not with normal first layers."""
    with pytest.raises(tp.NoLimitError, match=r"`2.bias` starts at uniform.*net.leading\(\)"):
        tp.derive(imported, tp.Kernels())
    limit = tp.derive(imported.leading(), tp.Kernels())
    assert any("2.weight has entries uniform" in line for line in limit.assumptions)
    X1 = 3 * X.double().numpy()
    options = {"X1": X1, "widths": (32, 64, 128), "draws": (600, 500, 400), "ratios": imported.ratios}
    assert tp.check(limit, **options).accepted
    found = limit.evaluate(X1, ratios=imported.ratios)
    wrong = {"nngp": 1.1 * found.nngp, "ntk": 1.1 * found.ntk}
    assert not tp.check(limit, claims=wrong, **options).accepted


def test_functions_with_kinks_ask_for_universality():
    net = tp.from_torch(perceptron(nn.ReLU), X, widths=WIDTHS)
    start = net.leading()
    with pytest.raises(tp.NoLimitError, match=r"`2.weight` are not normal.*relu of vectors.*assume="):
        tp.derive(start, tp.Kernels())
    assert tp.derive(start.gaussian(), tp.Kernels()) and tp.derive(start, tp.Kernels(), assume=("universality",))
