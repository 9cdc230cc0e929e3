"""Single pairs in many digits: what they may be asked for, and what has no such digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sympy import Integer, Symbol

import tplimits as tp
from tplimits.program.nodes.entries import AxisSum, Kron, axis_symbol
from tplimits.regimes.kernels.derivation.leaves import Data, Datum, DrawMean, Given, TableEntry
from tplimits.regimes.kernels.numbers import request
from tplimits.regimes.kernels.numbers.precise import NotPrecise, PrecisePair

d, e = axis_symbol("d"), axis_symbol("e")
D, E = Symbol("d"), Symbol("e")
ONE, TWO = Integer(1), Integer(2)
X = np.random.default_rng(0).standard_normal((2, 3))
MASK = np.array([[1.0, 0.0, 2.0], [0.5, 1.0, 1.0]])


@tp.network
def net(ξ: tp.Input["d"], m: tp.Input["d"], s: tp.Input, U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(s * tp.sum(U * ξ, over="d") + tp.sum(V * m, over="d"))


def pair() -> tuple[PrecisePair, dict[str, int]]:
    derivation = tp.derive(net, tp.Kernels()).derivation
    asked = request.request(derivation, {"ξ": X, "m": MASK, "s": np.array([2.0, 3.0])}, None, {}, None)
    names = {derivation.network[p].name: p for p in derivation.network.inputs}
    return PrecisePair(derivation, asked.one, asked.other, (0, 1), asked.constants), names


def test_inner_products_and_numbers_of_inputs():
    found, names = pair()
    x, y, s = (
        Data(Integer(names[n]), Integer(side), *i) for n, side, i in (("ξ", 1, [d]), ("ξ", 2, [d]), ("s", 2, []))
    )
    with mpmath.workdps(40):
        assert abs(found.value(AxisSum(x * y, d, D)) - sum(mpmath.mpf(a) * b for a, b in zip(*X, strict=True))) < 1e-30
        assert abs(found.value(AxisSum(x**2, d, D)) - sum(mpmath.mpf(a) ** 2 for a in X[0])) < 1e-30
        assert found.value(s) == 3
        assert abs(found.value(AxisSum(s * x * y, d, D)) - 3 * found.value(AxisSum(x * y, d, D))) < 1e-30


@pytest.mark.parametrize(
    "sum_of",
    [
        lambda x, y, m: x * y * m,  # a mask on the line of the data
        lambda x, y, m: x * m,  # two sources
        lambda x, y, m: x * y**2,  # three factors
        lambda x, y, m: x,
        lambda x, y, m: x**-1 * y,
        lambda x, y, m: x * y * Kron(d, Integer(1)),  # a place
        lambda x, y, m: x * y * TableEntry(Integer(0), ONE, TWO, d, d),  # a table of two indices
        lambda x, y, m: x * Data(x.args[0], TWO, Integer(0)),  # a fixed place of the other
        lambda x, y, m: Data(x.args[0], ONE, d, d) * Data(x.args[0], TWO, d, d),  # a diagonal
        lambda x, y, m: Given(Integer(0), ONE, d) * Given(Integer(0), TWO, d),
    ],
)
def test_other_sums_of_data_are_not_taken_for_inner_products(sum_of):
    found, names = pair()
    x, y = (Data(Integer(names["ξ"]), side, d) for side in (ONE, TWO))
    with pytest.raises(NotPrecise):
        found.value(AxisSum(sum_of(x, y, Data(Integer(names["m"]), ONE, d)), d, D))


@pytest.mark.parametrize(
    "expr",
    [
        Kron(d, e),
        Datum(Integer(0), ONE),
        Given(Integer(0), ONE),
        DrawMean(Symbol("z")),
        TableEntry(Integer(0), ONE, TWO, Integer(1), Integer(2)),
        Data(Integer(0), ONE, Integer(1)),
        AxisSum(TableEntry(Integer(0), ONE, TWO, d), d, D),
        AxisSum(AxisSum(Data(Integer(0), ONE, d) * Data(Integer(0), TWO, d), d, D), e, E),
        Symbol("unknown"),
    ],
)
def test_places_and_data_that_are_indices_have_no_digits(expr):
    found, _ = pair()
    for each in (expr, 2 * expr + 1):
        with pytest.raises(NotPrecise):
            found.value(each)
