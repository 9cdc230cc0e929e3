"""Models that end with a function of their readout: the network that ends with the readout, and that function."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models import MODELS, Sets

import tplimits as tp


@pytest.mark.parametrize("name", ["soft cap", "normalised logits"])
def test_the_function_of_the_readout_is_the_model(name):
    make, example, widths = MODELS[name]
    net = tp.from_torch(make, example, widths=widths)
    f, head = net.headed()
    module = make(16).double()
    x = example[0].double()
    weights, data = f.weights(module), f.data(x)
    rows = []
    for i in range(len(x)):
        found = f.run(n=16, ratios=f.ratios, constants={**weights, **{k: v[i] for k, v in data.items()}})
        rows.append(found["return"].sum(axis=-1) + found[f[f.returns[1]].name])
    outputs = module(x).detach().numpy()
    assert abs(head(np.array(rows)) - outputs).max() < 1e-12
    assert abs(np.array(rows) - outputs).max() > 1e-3  # the function does something
    y = torch.tensor(np.array(rows), requires_grad=True)
    φ = 5 * torch.tanh(y) if name == "soft cap" else torch.log_softmax(y, -1)
    labels = torch.arange(len(x)) % 2
    (signal,) = torch.autograd.grad(F.cross_entropy(φ, labels), y)
    found = head.loss(tp.cross_entropy(labels.tolist()))(np.array(rows))
    assert abs(found - signal.numpy()).max() < 1e-10


def test_kernels_are_those_of_the_readout():
    """Before the soft cap 5 tanh(f/5) stands f/5: its kernels are those of the network without a cap, over 25."""
    _, example, widths = MODELS["soft cap"]

    class Plain(Sets):
        def forward(self, x):
            return self.c(F.relu(self.b(F.relu(self.a(x)))))

    capped, _ = tp.from_torch(MODELS["soft cap"].make, example, widths=widths).headed()
    plain = tp.from_torch(Plain, example, widths=widths)
    one, other = (
        tp.derive(net.gaussian().leading(), tp.Kernels()).evaluate(net.data(*example)) for net in (capped, plain)
    )
    np.testing.assert_allclose(25 * one.nngp, other.nngp, rtol=1e-8)
    np.testing.assert_allclose(25 * one.ntk, other.ntk, rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "words"), [("cosine", "the parameter `t` stands behind the readout"), ("sets", "ends with its readout")]
)
def test_what_has_no_head(name, words):
    make, example, widths = MODELS[name]
    with pytest.raises(tp.ProgramError) as refusal:
        tp.from_torch(make, example, widths=widths).headed()
    assert words in str(refusal.value)
