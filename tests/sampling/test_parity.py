"""Whether moments are series in 1/n or in 1/√n."""

from __future__ import annotations

import bent
import numpy as np
import pytest
import sympy
from sympy import Integer, Rational

import tplimits as tp
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry
from tplimits.program.nodes.evaluate import evaluate
from tplimits.sampling.parity import HALVES, WHOLE, _in_signs, layer_series


def head(matrices: int, logits):
    """A function of √n q·k/n, with queries and keys through so many matrices."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        q, k = Q @ x, (Q if matrices == 1 else K) @ (x if matrices == 2 else Q @ x)
        return v * tp.exp(logits(tp.sqrt(tp.n), tp.avg(q * k))) * x

    return net


@pytest.mark.parametrize(
    ("matrices", "logits", "series"),
    [
        (2, lambda root, G: root * G, WHOLE),  # −Q undoes −√n
        (1, lambda root, G: root * G, WHOLE),  # q·Qq: odd in Q as well
        (3, lambda root, G: root * G, WHOLE),  # q·K q: −K does
        (2, lambda root, G: root * G**2, HALVES),
        (2, lambda root, G: root * G + G, HALVES),
        (2, lambda root, G: G / root + root * tp.tanh(G), WHOLE),
        (2, lambda root, G: G**2 / root**2, WHOLE),
        (2, lambda root, G: root * G * tp.sign(G), WHOLE),  # |√n G|
    ],
)
def test_a_sign_of_a_matrix_undoes_that_of_a_root(matrices, logits, series):
    assert layer_series(head(matrices, logits)) == series


@pytest.mark.parametrize(
    ("branch", "series"),
    [
        (lambda h, root: tp.cos(h) / root, HALVES),
        (lambda h, root: tp.relu(h) / root, HALVES),
        (lambda h, root: h / root, WHOLE),
        (lambda h, root: root * tp.sin(h / root**2), WHOLE),
        (lambda h, root: h / root ** Rational(1, 2), HALVES),  # powers of n^(−1/4)
        (lambda h, root: h / root ** Rational(2, 3), HALVES),
    ],
)
def test_of_a_layer_what_is_returned_must_stay(branch, series):
    @tp.block
    def layer(x: tp.State["token"], W: tp.Matrix):
        return x + branch(W @ x, tp.sqrt(tp.n))

    assert layer_series(layer) == series


@pytest.mark.sampling
@pytest.mark.parametrize("root", [8**0.5, -(8**0.5)])
def test_either_root_gives_one_mean(seed, root):
    """E exp(√n avg(q k)/2) at n = 8 is (1 − 1/(4n))^(−n/2) for independent q and k, whichever root is meant."""
    q, k = np.random.default_rng(seed).standard_normal((2, 200_000, 8))
    found = np.exp(root * (q * k).mean(axis=1) / 2)
    wanted = (1 - 1 / 32) ** -4
    error = found.std() / len(found) ** 0.5
    assert abs(found.mean() - wanted) < 5 * error < abs(found.mean() - 1.03 * wanted)


@pytest.mark.parametrize(
    ("weights", "series"),
    [
        (lambda Y: tp.relu(Y) ** 2, WHOLE),  # (Y² + Y|Y|)/2
        (lambda Y: tp.relu(Y) / tp.n, HALVES),
        (lambda Y: tp.abs(Y) / tp.sqrt(tp.n), WHOLE),  # |√n Y|/n
        (lambda Y: tp.abs(Y), HALVES),
        (lambda Y: tp.sqrt(Y**2) / tp.sqrt(tp.n), WHOLE),
        (lambda Y: (Y**2) ** Rational(1, 3), HALVES),  # a root that is no square root
    ],
)
def test_the_sign_of_a_scalar_counts_as_a_root(weights, series):
    assert layer_series(bent.attention(weights)) == series


def test_constants_that_are_given_take_their_terms_with_them():
    @tp.block
    def layer(x: tp.State["token"], W: tp.Matrix, *, c):
        return x + tp.cos(W @ x) * c / tp.sqrt(tp.n)

    assert layer_series(layer) == layer_series(layer, {"c": Integer(2), "other": Integer(0)}) == HALVES
    assert layer_series(layer, {"c": Integer(0)}) == WHOLE


def test_kinks_that_data_reaches_bring_no_odd_powers():
    """Data is what it is at every width: relu(Σ U ξ) is passed by Gaussian entries, not by a scalar that fluctuates."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))

    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * tp.relu(tp.avg(x * (W @ x)))

    assert layer_series(net) == WHOLE
    assert layer_series(gated) == HALVES


E, F = (Entry(Integer(i), NO_NEURON) for i in (1, 2))


@pytest.mark.parametrize(
    "body",
    [
        functions.step(E - F),
        functions.relu(E) + 2 * sympy.Abs(F),
        functions.leaky_relu(E * F, Rational(1, 4)),
        functions.maximum(E, F) * functions.minimum(2 * E, F),
        functions.where(E, F, functions.relu(functions.relu(F) - E)),
    ],
    ids=str,
)
def test_kinks_of_scalars_are_the_same_through_signs(body):
    written = _in_signs(body)
    assert not written.has(functions.step, functions.relu, functions.leaky_relu, functions.maximum, functions.where)
    for e, f in ((0.7, 0.4), (-0.7, 0.4), (0.7, -1.4), (-0.7, -0.4)):
        values = {E: Rational(e), F: Rational(f)}
        assert float(written.xreplace(values)) == pytest.approx(float(evaluate(body, values)))


def test_kinks_of_vectors_stay():
    body = functions.relu(Entry(Integer(1), OWN) + E)
    assert _in_signs(body) == body
