"""Numbers of the symbols of a program, and what is none of them."""

from __future__ import annotations

import pytest

import tplimits as tp
from tplimits.numbers.expansion.tables import numbers_of
from tplimits.program.nodes.entries import size_symbol


@tp.program
def sized(W: tp.Matrix, x: tp.Vector["token"], V: tp.Matrix["n", "k"], y: tp.Vector["k"], s: tp.Scalar, *, c, e=0.5):
    h = W @ tp.sum(x, over="token")
    return tp.avg(h * tp.tanh(s * c * e * h)) + tp.avg(tp.sin(V @ y))


def test_sizes_ratios_and_scalars_have_their_numbers():
    program, found = numbers_of(sized.bind(token=3), {"c": 2.0, "s": 0.7}, {"k": 1.5})
    assert not program.constants and found.ratios == {"n": 1.0, "k": 1.5}
    assert found.leaves == {size_symbol("token"): 3.0} and list(found.scalars.values()) == [0.7]


@pytest.mark.parametrize(
    ("given", "ratios", "reason"),
    [
        ({"s": 0.7}, {}, r"the constant `c` of `sized` has no value"),
        ({"c": 2.0, "s": 0.7, "z": 1.0}, {}, r"`z` is not a constant or a given scalar of `sized`"),
        ({"c": 2.0, "s": 0.7}, {"m": 2.0}, "m"),
    ],
)
def test_what_is_missing_or_too_much_is_refused(given, ratios, reason):
    with pytest.raises(tp.EvaluationError, match=reason):
        numbers_of(sized.bind(token=3), given, ratios)
