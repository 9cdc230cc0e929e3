"""Methods and look-ups refuse what they do not take by an error of the package, never by one of Python."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits import zoo

WRONG = (None, 1.5, float("nan"), "x", [], {}, {1}, (), 1j, np.array(1.5), np.zeros((2, 0)), np.eye(2), object(), int)
WRONG += (sympy.Symbol("q"), sympy.I, b"1", True, -(10**30), iter("ab"))


@lru_cache
def _kernels():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    return tp.derive(net, tp.Kernels())


@lru_cache
def _verdict():
    return tp.classify(1, tp.MUP, tp.SGD())


CALLS = {
    "powers": lambda wrong: _verdict().powers(wrong),
    "multipliers": lambda wrong: _verdict().multipliers.at(wrong, base=128),
    "closed_form": lambda wrong: _kernels().closed_form(wrong),
    "zoo.get": zoo.get,
    "update": lambda wrong: tp.Adam().update([wrong]),
    "updates": lambda wrong: tp.Adam().update(wrong),
    "exponents": lambda wrong: tp.ABCD({"W": wrong}),
}
#: what is right there, as it is written
RIGHT = {
    "multipliers": ("1.5", "array(1.5)"),
    "update": ("1.5", "array(1.5)", "q", "I", str(-(10**30))),
    "updates": ("{1}",),
    "exponents": ("{}",),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_argument_is_refused(call):
    for wrong in WRONG:
        if repr(wrong) not in RIGHT.get(call, ()):
            with pytest.raises(tp.TplimitsError):
                CALLS[call](wrong)


def test_powers_of_widths_that_leave_the_range_of_doubles():
    with pytest.raises(tp.ProgramError, match="leave the range of doubles"):
        _verdict().multipliers.at(1e-320, base=1e300)
