"""Stopped gradients of PyTorch's modules: detach, and regions under torch.no_grad()."""

import pytest
import torch
from torch import nn

import tplimits as tp

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Layers(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, n), nn.Linear(n, n), nn.Linear(n, 2)
        self.gain = nn.Parameter(torch.ones(n))


class StraightThrough(Layers):
    def forward(self, x):
        h = torch.tanh(self.a(x))
        return self.c(self.b(h + (torch.sign(h) - h).detach()) * self.gain.detach())


class WithoutGradients(Layers):
    def forward(self, x):
        h = torch.tanh(self.a(x))
        with torch.no_grad():
            teacher = torch.tanh(self.b(h))
            with torch.enable_grad():
                teacher = teacher * self.gain
        return self.c(h * teacher)


class MatrixDetached(Layers):
    def forward(self, x):
        return self.c(nn.functional.linear(torch.tanh(self.a(x)), self.b.weight.detach()))


@pytest.mark.parametrize("make", [StraightThrough, WithoutGradients])
def test_gradients_stop_where_the_module_stops_them(make):
    net = tp.from_torch(make, X, widths=(16, 32, 64))
    assert "stop_gradient" in str(net)
    module = make(24).double()
    match = net.matches(module, X)
    assert match and max(match.gradients.values()) <= 1e-12, str(match)
    (module(X.double()) ** 2).sum().backward()
    passed = {name for name, p in module.named_parameters() if p.grad is not None}
    assert ("gain" in passed, "b.weight" in passed) == (make is WithoutGradients, make is StraightThrough)


def test_a_detached_matrix_is_refused_by_name():
    with pytest.raises(tp.ProgramError, match=r"operation detach.*a function of a weight matrix"):
        tp.from_torch(MatrixDetached, X, widths=(16, 32, 64))
