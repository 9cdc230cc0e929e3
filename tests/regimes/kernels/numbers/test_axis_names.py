"""Kernels do not depend on what finite axes are called: names that are used again beside names that are new."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tplimits as tp

X = np.random.default_rng(1).standard_normal((2, 2, 3))
T = [[1.0, 0.5], [-0.3, 2.0]]


def network(seed, fresh):
    """A matrix over tokens that is multiplied, squared and transposed at random, its axes named anew or as before."""

    def made(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        rng, names, count = np.random.default_rng(seed), np.random.default_rng(seed + 1), itertools.count()

        def name(*taken):
            if fresh:
                return f"a{next(count)}"
            left = [p for p in ("token", "key", "mid") if p not in taken]
            return left[names.integers(len(left))]

        h = tp.tanh(W @ tp.sum(U * ξ, over="d"))
        a, b = "token", "key"
        M = tp.avg(h * h.rename(token="key"))
        for _ in range(rng.integers(1, 4)):
            kind, C, new = rng.integers(4), rng.normal(size=(3, 3)).round(1), name(a, b)
            if kind == 0:
                M, a = tp.sum(tp.constant(C, axes=(a, new)) * M, over=a), new
            elif kind == 1:
                M = tp.softmax(M, over=(a, b)[rng.integers(2)])
            elif kind == 2:
                M, b = tp.sum(M * M.rename(**{b: new}).rename(**{a: b}), over=b), new
            else:
                M, b = tp.sum(M * M.rename(**{a: new}), over=b), new
        return v * tp.sum(M * (h if b == "token" else h.rename(token=b)), over=(a, b))

    return tp.network(made).bind(token=3)


def kernels(net, at):
    return tp.derive(net, tp.Kernels()).evaluate(at, progress=False)


@pytest.mark.parametrize("seed", range(8))
def test_names_of_axes_that_are_used_again(seed):
    again, anew = (kernels(network(seed, fresh), X) for fresh in (False, True))
    np.testing.assert_allclose(again.nngp, anew.nngp, rtol=1e-9)
    np.testing.assert_allclose(again.ntk, anew.ntk, rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8, 60))
def test_more_names_of_axes_that_are_used_again(seed):
    test_names_of_axes_that_are_used_again(seed)


def test_heads_that_talk_under_the_name_that_they_had():
    """B_g = Σ_h T_hg c_h E q² over heads that are called heads again: K = Σ_g B_g B′_g E q q′, c = (1, 2)."""

    def talking(renamed):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
            q = Q @ tp.sum(U * ξ, over="d")
            A = tp.avg(q * q) * tp.constant([1.0, 2.0], axes="head")
            B = tp.sum(tp.constant(T, axes=("head", "g")) * A, over="head")
            if renamed:
                return v * tp.sum(B.rename(g="head") * q, over="head")
            return v * tp.sum(B * q.rename(head="g"), over="g")

        return net

    x = np.array([[1.0, 0.3], [0.6, -0.8]])
    gram = x @ x.T
    B = np.diag(gram)[:, None] * (np.array([1.0, 2.0]) @ np.array(T))
    wanted = B @ B.T * gram
    for renamed in (True, False):
        np.testing.assert_allclose(kernels(talking(renamed), x).nngp, wanted, rtol=1e-12)
    # Σ_h c_h T_hh twice, which a captured index gives
    captured = 2 * np.outer(np.diag(gram), np.diag(gram)) * (1 + 2 * 2.0) ** 2 * gram
    assert np.abs(captured - wanted).max() > 1
