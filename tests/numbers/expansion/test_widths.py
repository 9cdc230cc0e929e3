"""Functions of the width in expansions: n/(n − 1) is 1 + 1/n, and is no power that multiplies something small."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.numbers.expansion.widths import in_powers_of_widths
from tplimits.program.nodes.entries import N


@tp.program
def unbiased(W: tp.Matrix, x: tp.Vector):
    y = W @ x
    return tp.sqrt(tp.avg((y - tp.avg(y)) ** 2) * tp.n / (tp.n - 1))


@tp.program
def biased(W: tp.Matrix, x: tp.Vector):
    y = W @ x
    return tp.sqrt(tp.avg((y - tp.avg(y)) ** 2))


@tp.program
def factor(W: tp.Matrix, x: tp.Vector):
    return tp.avg((W @ x) ** 2) * tp.sqrt(tp.n / (tp.n - 3))


@tp.program
def small(W: tp.Matrix, x: tp.Vector):
    return tp.n * (tp.n / (tp.n - 1) - 1) * tp.avg((W @ x) ** 2) + 2 / (tp.n + 5)


@tp.program
def root(W: tp.Matrix, x: tp.Vector):
    return tp.avg((W @ x) ** 2) / (1 + 1 / tp.sqrt(tp.n + 3))


#: with q = |x|²/n, of mean 1 and variance 2/n, and y normal given it: L, the coefficient of n^(−1/2), b, C
KNOWN = {
    unbiased: (1, 0, -0.5, 1),
    biased: (1, 0, -1, 1),
    factor: (1, 0, 1.5, 4),
    small: (1, 0, 3, 4),
    root: (1, -1, 1, 4),
}


@pytest.mark.parametrize("program", KNOWN, ids=lambda p: p.name)
def test_known_expansions(program):
    e = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    found = [float(value) for value in (e.limit, e.root, e.bias, e.variance)]
    assert found == pytest.approx(KNOWN[program], abs=1e-9)


def test_networks_of_a_layer_norm_with_an_unbiased_variance():
    """b beside sixty thousand networks of width 20, the same number at a biased variance is another one."""

    def normed(W: tp.Matrix, x: tp.Vector, k):
        y = W @ x
        centred = y - tp.avg(y)
        return tp.avg(tp.tanh(centred / tp.sqrt(tp.avg(centred**2) * k) + 1))

    @tp.program
    def usual(W: tp.Matrix, x: tp.Vector):
        return normed(W, x, tp.n / (tp.n - 1))

    @tp.program
    def twin(W: tp.Matrix, x: tp.Vector):
        return normed(W, x, 1)

    n, generator = 20, np.random.default_rng(0)
    y = generator.normal(size=(60_000, n))  # |x| is divided by
    centred = y - y.mean(axis=1, keepdims=True)
    values = np.tanh(centred / y.std(axis=1, ddof=1, keepdims=True) + 1).mean(axis=1)
    found, other = (tp.derive(p, tp.FiniteWidth()).at(n)["return"] for p in (usual, twin))
    error = 4 * values.std() / np.sqrt(len(values)) + 0.1 / n**2
    assert abs(values.mean() - float(found)) < error < abs(values.mean() - float(other))


def test_several_widths_are_multiples_of_one():
    @tp.program
    def wide(W: tp.Matrix["k", "n"], x: tp.Vector):
        return tp.avg((W @ x) ** 2) * tp.width("k") / (tp.width("k") + tp.n + 1)

    written = in_powers_of_widths(wide, {"n": 1.0, "k": 3.0})
    body = written[written.returns[0]].body
    (coefficient,) = (f for f in sympy.Mul.make_args(body) if f.free_symbols <= {N})
    assert sympy.expand(coefficient) == sympy.Rational(3, 4) * (1 - 1 / (4 * N))


def test_a_refusal_names_the_returns_that_have_an_expansion():
    @tp.program
    def mixed(W: tp.Matrix, x: tp.Vector):
        y = W @ x
        return tp.avg(tp.tanh(y) ** 2), tp.avg(tp.sqrt(tp.relu(y) + 1 / tp.n)), tp.avg(y * y)

    with pytest.raises(tp.NoLimitError, match=r"comes near 0.*returns \[0\], \[2\] would have an expansion"):
        tp.derive(mixed, tp.FiniteWidth())
