"""Drawn products of powers, steps, exponentials, waves and error functions, against Gauss' rule on their own axes.

The arguments of the steps come first among the coordinates: a step is an end of a line, and all that is left is smooth.
"""

from __future__ import annotations

import random

import numpy
import pytest
import scipy.special
import sympy

from tplimits.law.closed_forms.integrand import Law, NotClosed
from tplimits.law.closed_forms.table import close
from tplimits.program.nodes.functions import step

G = sympy.symbols("g0:3", real=True)
#: deviations each way, which are enough for what grows like an exponential, and nodes of a line
WIDE, MANY = 8.0, {2: 80, 3: 44}
ERROR_FUNCTION = [{"erf": scipy.special.erf}, "numpy"]


def drawn_law(rng, size):
    """A covariance of whole numbers over 4."""
    rows = sympy.Matrix(size, size, lambda i, j: rng.choice((-1, 0, 1, 2)) if i >= j else 0)
    return (rows * rows.T + sympy.eye(size)) / 4


def form(rng, size, least=0):
    slopes = [rng.choice((-2, -1, 1, 1, 2)) if i == least else rng.choice((-1, 0, 1)) for i in range(size)]
    return sum(c * g for c, g in zip(slopes, G, strict=False))


def integral(product, steps, covariance):
    """E product · Π step(u): smooth product, steps of independent forms."""
    size = covariance.shape[0]
    rows = [[s.coeff(g) for g in G[:size]] for s in steps]
    for unit in numpy.eye(size, dtype=int).tolist():  # up to a basis
        if sympy.Matrix([*rows, unit]).rank() > len(rows):
            rows.append(unit)
    basis = numpy.array(rows, dtype=float)
    root = numpy.linalg.cholesky(basis @ numpy.array(covariance, dtype=float) @ basis.T)
    x, w = numpy.polynomial.legendre.leggauss(MANY[size])
    v, weight = numpy.zeros((0, 1)), numpy.ones(1)
    for i in range(size):
        low = numpy.full(v.shape[1], -WIDE)
        if i < len(steps):
            edge = -float(steps[i].xreplace(dict.fromkeys(G, 0)))
            low = numpy.clip((edge - root[i, :i] @ v) / root[i, i], -WIDE, WIDE)
        half = (WIDE - low) / 2
        line = (WIDE + low)[:, None] / 2 + half[:, None] * x
        weight = (weight[:, None] * half[:, None] * w * numpy.exp(-(line**2) / 2) / numpy.sqrt(2 * numpy.pi)).ravel()
        v = numpy.concatenate([numpy.repeat(v, len(x), axis=1), line.reshape(1, -1)])
    values = sympy.lambdify(G[:size], product, ERROR_FUNCTION)(*numpy.linalg.solve(basis, root @ v))
    return float((weight * values).sum())


def steps_and_powers(rng, size):
    steps = [form(rng, size, i) for i in range(rng.choice((1, size)))]
    return steps, [G[rng.randrange(size)] for _ in range(rng.choice((0, 1, 2, 3)))]


def one_step_with_an_offset(rng, size):
    offset = sympy.Rational(rng.choice((-3, -1, 1, 2)), 3)
    return [form(rng, size) + offset], [G[rng.randrange(size)] for _ in range(rng.choice((0, 1, 2)))]


def exponentials(rng, size):
    steps = [form(rng, size)] if rng.random() < 0.5 else []
    bump = sympy.exp(-((form(rng, size)) ** 2) / rng.choice((2, 3)) + form(rng, size) / 3)
    others = [sympy.exp(form(rng, size) / 2 + 1)] if rng.random() < 0.5 else []
    return steps, [bump, *others, *(G[rng.randrange(size)] for _ in range(rng.choice((0, 1, 2))))]


def waves(rng, size):
    def wave():
        return rng.choice((sympy.cos, sympy.sin))(form(rng, size) + sympy.Rational(rng.choice((-1, 0, 0, 2)), 2))

    tilt = [sympy.exp(form(rng, size) / 2)] if rng.random() < 0.3 else []
    powers = [G[rng.randrange(size)] for _ in range(rng.choice((0, 1, 2, 3)))]
    return [], [*(wave() for _ in range(rng.choice((1, 2, 2, 3)))), *tilt, *powers]


def error_functions(rng, size):
    steps = [form(rng, size)] if rng.random() < 0.3 else []
    errors = [sympy.erf(form(rng, size) / rng.choice((1, 2))) for _ in range(1 if steps else 2)]
    return steps, [*errors, *(G[rng.randrange(size)] for _ in range(rng.choice((0, 1, 2))))]


KINDS = (steps_and_powers, one_step_with_an_offset, exponentials, waves, error_functions)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3])
def test_closed_forms_of_drawn_products(kind, size):
    rng, closed = random.Random(f"{kind.__name__} {size}"), 0
    for _ in range(6 - size):
        covariance = drawn_law(rng, size)
        steps, factors = kind(rng, size)
        if sympy.Matrix([[s.coeff(g) for g in G[:size]] for s in steps]).rank() < len(steps):
            continue
        law = Law(tuple(map(tuple, covariance.tolist())))
        try:
            found, _ = close([*factors, *map(step, steps)], G[:size], lambda law=law: law)
        except NotClosed:
            continue
        expected = integral(sympy.Mul(*factors), steps, covariance)
        assert float(found) == pytest.approx(expected, rel=1e-5, abs=1e-5), (factors, steps, covariance)
        closed += 1
    assert closed
