"""The rules of differentiation against weights that are moved: the same nodes, no rule."""

import linecache

import numpy as np
import pytest
import sympy
from expanded import KNOWN
from fuzz.cases import case
from reweighted import Prepared, by_calculus, by_weights

import tplimits as tp

#: seeds of random programs whose expansion is refused neither as it is nor on few neurons, where √n times an average
#: of mean 0 is not seen to stay, and that divide by no zero in disguise, as that of 40 does
SEEDS = (8, 9, 10, 14, 18, 20, 24, 29, 30, 44, 48, 50)


def compared(prepared, monkeypatch):
    expected = by_weights(prepared)
    for found, other in zip(by_calculus(prepared, monkeypatch), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-6 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("name", KNOWN)
def test_known_programs(name, monkeypatch):
    program, ratios, _ = KNOWN[name]
    compared(Prepared(program, size=12, ratios=ratios), monkeypatch)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed, monkeypatch):
    one = case(seed)
    name = f"<random program {seed}>"
    linecache.cache[name] = (len(one.source), None, one.source.splitlines(True), name)
    space = {"tp": tp, "np": np, "sympy": sympy}
    exec(compile(one.source, name, "exec"), space)
    program = space["subject"].bind(**one.options["bind"]) if one.options["bind"] else space["subject"]
    compared(Prepared(program, size=8, ratios=one.options["ratios"]), monkeypatch)


def test_a_rule_with_a_mistake_is_seen(monkeypatch):
    from tplimits.numbers.expansion.averages import Averages
    from tplimits.numbers.expansion.fields import constant

    prepared = Prepared(KNOWN["tied"][0], size=12)
    expected = by_weights(prepared)[1]
    monkeypatch.setattr(Averages, "cross", lambda self, x, axis, of=None: constant(0.0))
    assert np.abs(by_calculus(prepared, monkeypatch)[1] - expected).max() > 0.1
