"""Powers of n in the terms of a sum."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Rational, S

import tplimits as tp
from tplimits.program.nodes.entries import N
from tplimits.program.nodes.scale import powers_of_n

x = sympy.Symbol("x", real=True)


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        (x, (0,)),
        (x * N + 2 * sympy.sqrt(N), (Rational(1, 2), 1)),
        (x**2 / N - sympy.sqrt(N) * N * x, (-1, Rational(3, 2))),
        (x * sympy.exp(N), ()),
        (x + sympy.tanh(x * N), ()),
        (N**x, ()),
        (x + N ** sympy.sqrt(2), ()),
        (S.Zero, ()),
    ],
    ids=str,
)
def test_they_are_those_of_all_terms_or_none(expr, found):
    assert set(powers_of_n(expr)) == set(found)


@tp.program
def kink_in_a_kink(x: tp.Vector, a: tp.Vector, V: tp.Matrix):
    y = tp.tanh(x)
    # max(s, t) with s − t → 0, inside of min(…, 2)
    ones = tp.clip(2 * tp.avg(tp.step(V @ y)), tp.avg((V @ y) ** 2) / tp.avg(y * y), 2)
    return tp.avg(y * y * ones * tp.sigmoid(1 + tp.sqrt(tp.n) * tp.avg(a * x)))


def test_a_kink_inside_of_one_that_is_decided_keeps_its_own_side():
    nodes, step = np.linspace(-9, 9, 2001, retstep=True)
    law = step * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    wanted = (law @ np.tanh(nodes) ** 2) * (law @ (1 / (1 + np.exp(-1 - nodes))))
    limit = tp.derive(kink_in_a_kink)
    assert limit.evaluate()["return"].value == pytest.approx(wanted, rel=1e-9)
    # max(s, t) is above 1 by n^(−1/2)
    at_width = np.mean([kink_in_a_kink.run(n=300, seed=s)["return"] for s in range(200)])
    assert abs(at_width - wanted) < 0.15 * wanted < abs(at_width - 2 * wanted)
