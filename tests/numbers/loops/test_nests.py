"""What loops remember of values: not those that read what is written."""

from __future__ import annotations

import sympy

from tplimits.numbers.loops.nests import _follows, _reads
from tplimits.program.loops.form import Loop, Read, Statement

i = sympy.Symbol("i", integer=True)
X, Y = (Read(sympy.Symbol(name), i) for name in "xy")


def test_what_reads_an_array_is_seen():
    for key in (X, sympy.exp(X) + 1, ("wide", X * Y)):
        assert _reads(key, "x")
    for key in (Y, sympy.exp(Y), ("wide", Y), sympy.exp(i)):
        assert not _reads(key, "x")


def test_statements_that_meet_in_an_array_stay_in_order():
    def to(target, value):
        return Statement(target, (i,), (Loop(i, "n"),), value)

    first, one = to("x", Y), sympy.S.One
    assert _follows(to("z", X), first) and _follows(to("y", one), first) and _follows(to("x", one), first)
    assert not _follows(to("z", Y), first) and not _follows(to("z", one), first)
