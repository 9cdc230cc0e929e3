"""Assumption 2.8.2: which activations satisfy it, by their own first part that fails; and which functions are found."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes import functions as f
from tplimits.regimes.classification.derivation.activations import X, activations, judged

HOLDS = (
    *(f.softplus(X), f.softplus(X) ** 2, 2 * f.softplus(3 * X), f.relu(X) ** 2, f.relu(X) ** 3),
    # a power near 1, and what is far from relu and stays so
    *(f.relu(X) ** sympy.Rational(21001, 10000), 1000 * f.sigmoid(X) + f.softplus(X), f.softplus(f.softplus(X))),
)
FAILS = {
    f.relu(X): "φ′ is not pseudo-Lipschitz at 0",
    f.relu(X + 1): "φ′ is not pseudo-Lipschitz at -1",
    f.relu(X - 1): "is not positive",
    f.relu(X - sympy.Rational(1, 100)) ** 2: "φ(1/200) is not positive",
    f.relu(X**3 - sympy.Rational(1, 10**6)) ** 2: "is not positive",
    f.gelu(X): "φ(-1/8) < 0",  # Remark 2.8.4 names gelu and its powers
    f.gelu(X) ** 2: "φ′(-1/8) < 0",
    sympy.tanh(X): "φ(-1/8) < 0",
    sympy.Abs(X): "φ′(-1/8) < 0",
    f.sigmoid(X): "bounded for no δ",
    sympy.exp(X): "not pseudo-Lipschitz",
    f.step(X): "φ is not pseudo-Lipschitz at 0",
    f.softplus(X) + sympy.log(1 + f.softplus(X)): "bounded for no δ",
    # log(1 + x)/20, log log x and log² x beside powers of x
    f.softplus(X) + sympy.log(1 + f.softplus(X)) / 20: "bounded for no δ",
    f.softplus(X) + sympy.log(1 + sympy.log(1 + f.softplus(X))): "bounded for no δ",
    f.relu(X) ** 3 + sympy.log(1 + f.relu(X) ** 3) ** 2 / 10**6: "bounded for no δ",
    f.softplus(X + sympy.Rational(1, 10**6)) ** 2: "bounded for no δ",
    X: "φ(-1/8) < 0",
}


@pytest.mark.parametrize("φ", HOLDS, ids=str)
def test_functions_like_relu_that_are_smooth_satisfy_it(φ):
    assert judged(φ).holds is True


@pytest.mark.parametrize("φ", FAILS, ids=str)
def test_others_fail_for_a_reason(φ):
    found = judged(φ)
    assert found.holds is False
    assert FAILS[φ] in found.reason


def test_what_is_not_excluded_is_not_claimed():
    found = judged(X + sympy.sqrt(1 + X**2))
    assert found.holds is None and "not established" in str(found)


@tp.network
def mixed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    x = tp.softplus(tp.sum(U * ξ, over="d") + 1)
    c = x / tp.sqrt(tp.avg(x**2))
    return v * (x + 3 * tp.relu(W @ c + b) ** 2)


def test_activations_are_read_off_whatever_stands_around_them():
    """Sums over the input, biases, skips, factors and readouts are affine; squares that are averaged are a norm."""
    bodies = [s.body for s in mixed if hasattr(s, "slots")]
    assert {φ for body in bodies for φ in activations(body)} == {f.softplus(X), f.relu(X) ** 2, X**2}
    found = tp.classify(mixed, tp.MUP, tp.SGD())
    assert [finding.holds for finding in found.assumption] == [True, True]
    assert "Assumption 2.8.2 holds for softplus(x) and holds for relu(x)**2" in repr(found)


@tp.network
def hyperbolic(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * tp.tanh((tp.exp(x) - tp.exp(-x)) / (3 + tp.exp(x) + tp.exp(-x)))


@tp.network
def of_two(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector):
    both = tp.elementwise(lambda x, y: (f.sigmoid(x) + sympy.tanh(y)) / (3 + f.sigmoid(x) + sympy.tanh(y)))
    return v * tp.tanh(both(tp.sum(U * ξ, over="d"), b))


@tp.network
def at_one_side(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v / (1 + tp.sign(tp.sum(U * ξ, over="d")))


def test_functions_of_multiples_of_one_argument_are_one_activation():
    """sinh(x)/(3/2 + cosh(x)) in exponentials, a quotient of functions of two vectors, a pole on a half-line."""
    (φ,) = {found for s in hyperbolic if hasattr(s, "slots") for found in activations(s.body)}
    for at in (0.3, 2.0):
        assert float(φ.subs(X, at)) == pytest.approx(np.tanh(np.sinh(at) / (1.5 + np.cosh(at))), rel=1e-12)
    assert "φ(-1/8) < 0" in repr(tp.classify(hyperbolic, tp.MUP, tp.SGD()))
    # of several arguments nothing is said
    assert not [found for s in of_two if hasattr(s, "slots") for found in activations(s.body) if found != sympy.tanh(X)]
    assert "operator" in repr(tp.classify(of_two, tp.NTP, tp.SGD()))
    assert "is no real number" in judged(1 / (1 + sympy.sign(X))).reason
    assert "is no real number" in repr(tp.classify(at_one_side, tp.NTP, tp.SGD()))


def test_a_verdict_says_what_of_the_assumption_fails():
    shown = repr(tp.classify(2, tp.MUP, tp.SignSGD()))
    assert "Assumption 2.8.2 fails for relu(x): φ′ is not pseudo-Lipschitz at 0" in shown
    assert "the sign jumps at 0" in shown
    assert "is then counted, not proved" in shown
    linear = tp.network(_linear)
    assert "there is no activation" in repr(tp.classify(linear, tp.MUP, tp.SGD()))


def _linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sum(U * ξ, over="d")
