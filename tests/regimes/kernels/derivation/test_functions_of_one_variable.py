"""Kernels of φ(h) whose slope is told only where φ is read as a function of h alone, against integrals over h."""

import mpmath
import numpy as np
import pytest
import sympy

import tplimits as tp

X = np.array([[1.0, 0.5, -0.3]])
C = float(X[0] @ X[0])


def integral(f, places):
    """E f(h), h of variance C, with an integral of its own between any two places."""
    root = mpmath.sqrt(C)
    ends = [-12, *sorted(p / root for p in places), 12]
    return float(mpmath.quad(lambda z: f(root * z) * mpmath.npdf(z), ends))


def joined(u):
    return sympy.Piecewise((u**2, u < 1), (2 * u - 1, True))


def exponential(u):
    return (mpmath.exp(u - 1) - u) / (u - 1) ** 2 if abs(u - 1) > 1e-5 else mpmath.mpf(1) / 2


#: φ as a network writes it, as a function of numbers, its slope, and where either is not smooth
CASES = {
    "a root of relu": (
        lambda h: tp.relu(h) ** sympy.Rational(3, 4),
        lambda u: u**0.75 if u > 0 else 0,
        lambda u: 0.75 * u**-0.25 if u > 0 else 0,
        (0,),
    ),
    "a root of relu beside a constant": (
        lambda h: tp.relu(h - 1) ** sympy.Rational(3, 4),
        lambda u: (u - 1) ** 0.75 if u > 1 else 0,
        lambda u: 0.75 * (u - 1) ** -0.25 if u > 1 else 0,
        (1,),
    ),
    "two branches that meet": (
        lambda h: tp.elementwise(joined)(h),
        lambda u: u**2 if u < 1 else 2 * u - 1,
        lambda u: 2 * u if u < 1 else 2,
        (1,),
    ),
    "a sign where a step is": (
        lambda h: (h - 1) * tp.step(h - 1) * tp.sign(h),
        lambda u: u - 1 if u > 1 else 0,
        lambda u: 1 if u > 1 else 0,
        (1,),
    ),
    "a removable pole beside a constant": (
        lambda h: (tp.exp(h - 1) - h) / (h - 1) ** 2,
        exponential,
        lambda u: mpmath.diff(exponential, u) if abs(u - 1) > 1e-3 else mpmath.mpf(1) / 6,
        (1,),
    ),
    "a function that is zero": (lambda h: h + tp.step(tp.relu(h) * tp.relu(-h)), lambda u: u, None, (0,)),
}


@pytest.mark.parametrize("case", CASES)
def test_one_variable(case):
    """Θ = K + 2 C E φ′²: of v, and of W and U."""
    network, function, slope, places = CASES[case]

    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * network(W @ tp.sum(U * ξ, over="d"))

    train = None if slope else ("v",)
    found = tp.derive(tp.network(net), tp.Kernels(train=train)).evaluate(X)
    nngp = integral(lambda u: function(u) ** 2, places)
    assert found.nngp[0, 0] == pytest.approx(nngp, rel=1e-7)
    ntk = nngp + 2 * C * integral(lambda u: slope(u) ** 2, places) if slope else nngp
    assert found.ntk[0, 0] == pytest.approx(ntk, rel=1e-6 if "root" in case else 1e-7)
    assert slope is None or abs(ntk - nngp) > 0.01


def test_a_root_of_relu_that_is_not_integrable():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.sqrt(tp.relu(tp.sum(U * ξ, over="d")))

    found = tp.derive(net, tp.Kernels()).evaluate(X)
    assert found.nngp[0, 0] == pytest.approx(np.sqrt(C / (2 * np.pi)), rel=1e-9)  # E relu
    with pytest.raises(tp.NoLimitError, match=r"has a pole where .* changes sign"):
        _ = found.ntk


def test_the_axis_whose_size_would_help_is_named():
    def net(ξ: tp.Input["word"], U: tp.Vector["word"].uniform(-1, 1), v: tp.Vector):
        return v * tp.tanh(tp.sum(U * ξ, over="word"))

    with pytest.raises(tp.NoLimitError, match=r"at most 12: net\.bind\(word=…\)"):
        tp.derive(tp.network(net), tp.Kernels())
    data = np.array([[0.6, -0.8]])
    # two uniform variables of ±1 times .6 and .8
    grid, weights = np.polynomial.legendre.leggauss(60)
    mean = weights @ np.tanh(0.6 * grid[:, None] - 0.8 * grid) ** 2 @ weights / 4
    assert tp.derive(tp.network(net).bind(word=2), tp.Kernels()).evaluate(data).nngp[0, 0] == pytest.approx(mean)

    def other(ξ: tp.Input["word"], U: tp.Vector["word"], v: tp.Vector):
        return v * tp.tanh(tp.sum(tp.relu(U * ξ), over="word"))

    with pytest.raises(tp.NoLimitError, match=r"Put a matrix between the two\.$"):
        tp.derive(tp.network(other), tp.Kernels())
