"""Which powers of n are fitted."""

from __future__ import annotations

import bent
import numpy as np
import pytest
import sympy
from scipy.special import gamma
from sympy import Integer, Rational

import tplimits as tp
from tplimits.law.observables import observables
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry
from tplimits.program.nodes.evaluate import evaluate
from tplimits.sampling.claims import Claim
from tplimits.sampling.powers import HALVES, WHOLE, _in_signs, layer_series, series


def powers(program, claim=None, given=None):
    return series(program, {o.label: o for o in observables(program)}, claim or Claim("return", 0.0), given)


def test_programs_without_roots_of_n_have_whole_powers(programs):
    assert powers(programs.tied) == powers(programs.constant) == powers(programs.gram) == WHOLE


def test_shaped_activations_have_odd_powers_of_the_root(programs):
    assert powers(programs.shaped) == HALVES


def test_the_root_counts_only_upstream_of_the_claim():
    @tp.program
    def both(x: tp.Vector):
        plain = tp.avg(x * x)
        shaped = tp.avg(tp.tanh(x) * x / tp.sqrt(tp.n))
        return plain + shaped

    assert powers(both) == HALVES and powers(both, Claim("plain", 1.0)) == WHOLE


def test_covariances_of_bare_fluctuation_scalars_have_whole_powers(programs):
    label = "return[0]"
    assert powers(programs.fluctuation, Claim(label, 1.0, statistic="covariance")) == WHOLE
    assert powers(programs.fluctuation, Claim(label, 0.0, 0.0, "covariance", "return[1]")) == WHOLE
    assert powers(programs.fluctuation, Claim(label, 0.0)) == HALVES


def test_functions_of_fluctuation_scalars_have_halves():
    @tp.program
    def gate(u: tp.Vector, v: tp.Vector):
        s = tp.avg(u * v) * tp.sqrt(tp.n)
        return tp.tanh(s)

    assert powers(gate, Claim("return", 0.4, statistic="covariance")) == HALVES


def test_constants_bring_their_powers_in():
    @tp.program
    def scaled(x: tp.Vector, *, c):
        return tp.avg(tp.relu(c * x))

    bound = scaled.bind(c=1 + 1 / tp.sqrt(tp.n))
    assert powers(bound) == HALVES
    assert powers(scaled, given={"c": 1 + 1 / tp.n}) == WHOLE
    assert powers(scaled, given={"c": 1 + 1 / tp.sqrt(tp.n)}) == HALVES
    assert powers(scaled, given={"c": 2.0}) == WHOLE


def test_initial_laws_bring_their_powers_in():
    @tp.program
    def law(x: tp.Vector = tp.init(mean=1 / tp.sqrt(tp.n), std=1)):  # noqa: B008  # the law is the default
        return tp.avg(tp.relu(x))

    assert powers(law) == HALVES


def test_brackets_look_at_both_vectors():
    @tp.program
    def vectors(x: tp.Vector, y: tp.Vector):
        return x * (1 + 1 / tp.sqrt(tp.n))

    assert powers(vectors, Claim("⟨return|return⟩", 1.0)) == HALVES


def test_kinks_that_scalars_reach_have_halves_and_those_of_vectors_do_not():
    """E|avg(x y)| falls like n^(−1/2): L + b/n would point at .05 for a limit of 0."""

    @tp.program
    def gate(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * y)
        return tp.maximum(s, 0), tp.avg(tp.abs(s * x)), tp.avg(tp.relu(x - tp.avg(x)))

    assert powers(gate, Claim("return[0]", 0.0)) == powers(gate, Claim("return[1]", 0.0)) == HALVES
    assert powers(gate, Claim("return[2]", 0.4)) == WHOLE
    limit = tp.derive(gate)
    assert tp.check(limit, widths=(32, 64, 128, 256), draws=(3000, 2000, 1000, 500)).accepted
    wrong = {"return[0]": 0.05, "return[1]": 0.0, "return[2]": 0.4}
    assert not tp.check(limit, claims=wrong, widths=(32, 64, 128, 256), draws=(3000, 2000, 1000, 500)).accepted


def test_sums_and_functions_of_fluctuations_in_one_expression_are_not_bare():
    @tp.program
    def mixed(u: tp.Vector, v: tp.Vector):
        s = tp.avg(u * v)
        return tp.sqrt(tp.n) * s + s, tp.tanh(tp.sqrt(tp.n) * s), 2 * tp.sqrt(tp.n) * s, s * tp.sqrt(tp.n) / (1 + s)

    wanted = (HALVES, HALVES, WHOLE, WHOLE)
    for i, expected in enumerate(wanted):
        assert powers(mixed, Claim(f"return[{i}]", 1.0, statistic="covariance")) == expected, i


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


def softened(function):
    """A function of x² + s² with s → 0 like n^(−1/2)."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(function(x, x * x + tp.avg((W @ x) * x) ** 2))

    return program


#: functions, the powers of 1/n in their means and their limits: E log x², E |x|^(−1/4), 1
ROUNDED = {
    "logarithm": (lambda x, r: tp.log(r), (Rational(1, 2), 1), -np.euler_gamma - np.log(2)),
    "root": (lambda x, r: r**-0.125, (Rational(3, 8), 1), 2**-0.125 * gamma(3 / 8) / gamma(1 / 2)),
    "quotient": (lambda x, r: x * x / r, (Rational(1, 2), 1), 1.0),
    "without a pole": (lambda x, r: 1 / (1 + r), (1,), None),
    "smooth": (lambda x, r: r**2, (1,), 3.0),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_poles_and_roots_that_scalars_round_off_bring_their_powers_in(name):
    function, expected, _ = ROUNDED[name]
    assert powers(softened(function)).powers == expected


def test_a_crossing_that_a_scalar_moves_is_averaged_over():
    @tp.program
    def moved(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.log(tp.abs(x - tp.avg((W @ x) * x))))

    assert powers(moved) == WHOLE


@pytest.mark.sampling
@pytest.mark.long
@pytest.mark.parametrize("name", ["logarithm", "root"])
def test_the_limits_of_rounded_poles_are_accepted_and_others_rejected(name):
    function, _, truth = ROUNDED[name]
    limit = tp.derive(softened(function))
    assert limit.evaluate()["return"].value == pytest.approx(truth, abs=1e-9)
    design = {"widths": (64, 128, 256, 512), "draws": (2000, 1000, 500, 250), "seed": 3}
    assert tp.check(limit, **design).accepted
    assert not tp.check(limit, **design, claims={"return": truth + 0.15}).accepted


#: roots of scalars that vanish in the limit, and the power of n that their means fall by
ROOTS = {
    "a difference": (lambda s, t, u: tp.sqrt(tp.abs(s - t)), 0.25),
    "one side": (lambda s, t, u: tp.sqrt(tp.relu(s - t)), 0.25),
    "without a name": (lambda s, t, u: tp.sqrt(tp.abs(u)), 0.25),
    "a length": (lambda s, t, u: tp.sqrt((s - t) ** 2 + u**2), 0.5),
}


@pytest.mark.parametrize("case", ROOTS)
def test_roots_that_vanish_in_the_limit_are_accepted_and_others_rejected(case):
    root, power = ROOTS[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s, t = tp.avg(x**2), tp.avg(y**2)
        r = root(s, t, tp.avg(x * y))
        return tp.avg(x**2 * r)

    few = {"widths": (16, 32, 64, 128, 256, 512), "draws": (8000,) * 6, "seed": 2, "progress": False}
    limit = tp.derive(program)
    verdict = tp.check(limit, **few)
    assert verdict.accepted
    assert tp.check(limit, claims={"r": 0.4, "s": 1, "t": 1}, **few).accepted is False
    # networks in NumPy fall by that power, and no other
    rng, means = np.random.default_rng(3), []
    for n in (32, 512):
        x, y = rng.standard_normal((2, 2000, n))
        s, t, u = (x * x).mean(axis=1), (y * y).mean(axis=1), (x * y).mean(axis=1)
        roots = {"a difference": abs(s - t) ** 0.5, "one side": np.maximum(s - t, 0) ** 0.5}
        roots |= {"without a name": abs(u) ** 0.5, "a length": np.hypot(s - t, u)}
        means.append(np.log(roots[case].mean()))
    assert abs((means[0] - means[1]) / np.log(16) - power) < 0.04
