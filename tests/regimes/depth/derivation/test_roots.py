"""The structured square root against the diffusion it is a root of."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped
import sympy

import tplimits as tp
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import ALPHA, BETA
from tplimits.regimes.depth.derivation.responses import Response, proportional_as_one

NUMBERS = {"γ": 0.6, "τ0": 0.7}
SLOPES = {"c_plus": 0.0, "c_minus": -1.0}
BLOCKS = {
    "attention": (shaped.shaped_attention, NUMBERS),
    "resnet": (shaped.relu_resnet, {"γ": 0.6, **SLOPES}),
    "mlp": (shaped.relu_mlp, SLOPES),
    "stack": (tp.stack(shaped.shaped_attention, shaped.relu_resnet), {**NUMBERS, **SLOPES}),
    "heads": (shaped.heads_attention, {**NUMBERS, "head": 4}),
    "causal": (shaped.masked_attention(np.tril(np.ones((3, 3)))), NUMBERS),
    "random": (shaped.masked_attention(np.random.default_rng(0).uniform(0.1, 1, (3, 3))), NUMBERS),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_root_squared_is_the_diffusion_symbolically(name):
    sde = tp.derive(BLOCKS[name][0], tp.Proportional())
    assert sde.root is not None
    assert not sde.root.covariance() - sde.diffusion_form


@pytest.mark.parametrize("name", BLOCKS)
def test_the_noise_map_times_its_transpose(name):
    """J Jᵀ = Σ for the linear map from independent normal matrices to dV."""
    block, numbers = BLOCKS[name]
    sde = tp.derive(block, tp.Proportional())
    m = 3
    V = published.random_covariance(m, seed=3)
    L = np.linalg.cholesky(V)
    values = sde.values(m, numbers)
    a, b = np.triu_indices(m)
    columns = []
    isotropic = float(sde.root.isotropic.xreplace(values))
    for i in range(m):
        for j in range(m):
            G = np.zeros((m, m))
            G[i, j] = 1
            columns.append((np.sqrt(isotropic / 2) * L @ (G + G.T) @ L.T)[a, b])
            for response in sde.root.responses:
                R = L @ ((G + G.T) / np.sqrt(2) if response.symmetric else G) @ L.T
                noise = sum(
                    float(c.xreplace(values)) * _einsum(factors, V, R, sde.arrays)
                    for factors, c in response.form.terms.items()
                )
                columns.append(noise[a, b])
    J = np.array(columns).T
    sigma = sde.diffusion_at(V, **numbers)
    assert np.abs(J @ J.T - sigma).max() < 1e-13 * max(1, np.abs(sigma).max())


def _einsum(factors, V, R, arrays):
    place, operands = {-4: 0, -3: 1}, []
    for label, at, _ in factors:
        operands += [{"V": V, "R": R, **arrays}[label], [place.setdefault(i, len(place)) for i in at]]
    return np.einsum(*operands, [0, 1])


@pytest.mark.parametrize("symmetric", (False, True))
@pytest.mark.parametrize("sizes", [(1,), (1, 1), (2, -1), (1, 1, 1, 3)])
def test_proportional_responses_have_the_covariance_of_their_sum(sizes, symmetric):
    """Independent normal matrices R in c_k·form(R): the squares of c_k add up."""
    R, V = (("R", (ALPHA, BETA), 0),), (("R", (ALPHA, ALPHA), 0), ("V", (BETA, BETA), 0))
    form, other = Form({R: sympy.Integer(2), V: sympy.Symbol("c")}), Form({R: sympy.S.One})
    every = [Response((f"W{k}",), form.scaled(sympy.Integer(c)), symmetric) for k, c in enumerate(sizes)]
    every.insert(1, Response(("U",), other, symmetric))
    (one, alone) = merged = proportional_as_one(every)
    assert alone == every[1]
    assert set(one.matrices) == {f"W{k}" for k in range(len(sizes))}
    left = Form({})
    for response in every:
        left = left + response.covariance()
    for response in merged:
        left = left - response.covariance()
    assert not left
