"""Generated loops against the contraction of every term by NumPy, compiled and as plain Python."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import published
import pytest
import shaped
from single_step import assembled

import tplimits as tp
from tplimits.regimes.depth.numbers import simulation

SLOPES = {"c_plus": 0.2, "c_minus": -1.0}
NUMBERS = {"γ": 0.6, "τ0": 0.8}
SIZES = [2, 3, 5, 8]
STEP = 0.01


def mask(size, kind):
    if kind == "causal":
        return np.tril(np.ones((size, size)))
    return np.random.default_rng(size).uniform(0.1, 1, (size, size))


BLOCKS = {
    "attention": (lambda m: shaped.shaped_attention, NUMBERS),
    "resnet": (lambda m: shaped.relu_resnet, {"γ": 0.6, **SLOPES}),
    "relu_mlp": (lambda m: shaped.relu_mlp, SLOPES),
    "smooth_mlp": (lambda m: shaped.smooth_mlp, {"a": 1.3}),
    "heads": (lambda m: shaped.heads_attention.bind(head=2), NUMBERS),
    "transformer": (lambda m: tp.stack(shaped.shaped_attention, shaped.relu_resnet), {**NUMBERS, **SLOPES}),
    "twice": (lambda m: tp.stack(shaped.shaped_attention, shaped.shaped_attention), NUMBERS),
    "symmetric": (lambda m: shaped.shaped_attention, NUMBERS),
    "causal": (lambda m: shaped.masked_attention(mask(m, "causal")), NUMBERS),
    "random": (lambda m: shaped.masked_attention(mask(m, "random")), NUMBERS),
}


@functools.cache
def derived(name, size):
    constants = BLOCKS[name][1]
    fixed = size if name in ("causal", "random") else 0
    return _derived(name, fixed), constants


@functools.cache
def _derived(name, size):
    sde = tp.derive(BLOCKS[name][0](size), tp.Proportional())
    return with_symmetric_logits(sde) if name == "symmetric" else sde


def with_symmetric_logits(sde):
    """The same response to a symmetric R, with the diffusion that this makes."""
    (response,) = sde.root.responses
    root = dataclasses.replace(sde.root, responses=(dataclasses.replace(response, symmetric=True),))
    limit = dataclasses.replace(sde.limit, root=root, diffusion=root.covariance())
    return dataclasses.replace(sde, limit=limit)


def compiled(name, size, method):
    sde, constants = derived(name, size)
    simulator = simulation.simulator(sde.limit, method)
    return simulation.CompiledSDE.at(simulator, sde.values(size, constants), size)


def basis(sde, V):
    """For each independent standard normal: (which response or None, what it makes of V at isotropic scale 1)."""
    L, m = np.linalg.cholesky(V), len(V)
    for i in range(m):
        for j in range(m):
            G = np.zeros((m, m))
            G[i, j] = 1
            yield None, L @ (G + G.T) @ L.T
            for k, response in enumerate(sde.root.responses):
                yield k, L @ ((G + G.T) / np.sqrt(2) if response.symmetric else G) @ L.T


def noises(sde, size, k=None, R=None):
    return [R if i == k else np.zeros((size, size)) for i in range(len(sde.root.responses))]


def close(found, wanted, scale=None):
    return np.abs(found - wanted).max() <= 1e-12 * (np.abs(wanted).max() if scale is None else scale)


CASES = [pytest.param(name, size, id=f"{name}-{size}") for name in BLOCKS for size in SIZES]


@pytest.mark.long
@pytest.mark.parametrize(("name", "size"), CASES)
def test_what_an_euler_step_adds(name, size):
    (sde, constants), step = derived(name, size), compiled(name, size, "euler")
    V = published.random_covariance(size, seed=size)
    drift = STEP * sde.drift_at(V, **constants)
    added, factor = assembled(step, V, STEP, noises(sde, size))
    assert close(added, drift, max(np.abs(drift).max(), 1e-3)) and not factor.any()
    columns = []
    for k, noise in basis(sde, V):
        if k is None:
            columns.append(np.sqrt(step.isotropic / 2) * noise)
        else:
            columns.append((assembled(step, V, STEP, noises(sde, size, k, noise))[0] - added) / np.sqrt(STEP))
    a, b = np.triu_indices(size)
    J = np.array(columns)[:, a, b].T
    assert close(J @ J.T, sde.diffusion_at(V, **constants))


@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_positive_step_has_the_same_drift_and_noise(name, size):
    """Mean of (1 + X) (V + D) (1 + X)ᵀ to order h, and its part of order √h, against those of an Euler step."""
    (sde, constants), step = derived(name, size), compiled(name, size, "psd")
    euler = compiled(name, size, "euler")
    V = published.random_covariance(size, seed=20 + size)
    rest, X0 = assembled(step, V, STEP, noises(sde, size))
    mean = X0 @ V + V @ X0.T + rest
    plain = assembled(euler, V, STEP, noises(sde, size))[0]
    for k, noise in basis(sde, V):
        if k is not None:
            D, X = (
                found - base
                for found, base in zip(assembled(step, V, STEP, noises(sde, size, k, noise)), (rest, X0), strict=True)
            )
            mean = mean + X @ V @ X.T
            wanted = assembled(euler, V, STEP, noises(sde, size, k, noise))[0] - plain
            assert close(X @ V + V @ X.T + D, wanted, 1.0)
    assert close(mean, STEP * sde.drift_at(V, **constants), np.abs(X0 @ V).max() + np.abs(mean).max())


@pytest.mark.parametrize("method", simulation.METHODS)
@pytest.mark.parametrize("name", BLOCKS)
def test_the_source_run_as_python_gives_the_same(name, method):
    (sde, _), step = derived(name, 3), compiled(name, 3, method)
    V = published.random_covariance(3, seed=5)
    R = [np.random.default_rng(k).standard_normal((3, 3)) for k in range(len(sde.root.responses))]
    found, twin = (assembled(step, V, STEP, R, interpreted=i) for i in (False, True))
    assert all(close(a, b, 1.0) for a, b in zip(found, twin, strict=True))


@pytest.mark.parametrize(("name", "psd"), [("attention", 2), ("transformer", 2), ("causal", 3), ("random", 3)])
def test_nested_loops(name, psd):
    """What multiplies V costs m² for full attention, m³ for masks; what is added has R Vᵀ, m³."""
    for method, most in (("psd", psd), ("euler", 3)):
        plan = compiled(name, 4, method).simulator.source.plan
        assert max(t.rank + 1 for t in plan.intermediates) <= most


def test_intermediates_are_shared():
    plan = compiled("attention", 4, "euler").simulator.source.plan
    keys = [t.factors for t in plan.intermediates]
    assert len(set(keys)) == len(keys) <= 14
