"""What a limit is asked for: labels, and what they are made of."""

from __future__ import annotations

import numpy
import pytest

import tplimits as tp
from tplimits.law.observables import BracketObservable, ScalarObservable, keys, observables


@tp.program
def several(W: tp.Matrix, x: tp.Vector["token"], s: tp.Scalar):
    h = tp.tanh(W @ x)
    r = tp.avg(h * h)
    t = r * s
    same = t
    _hidden = tp.avg(x)
    return tp.sum(x, over="token"), h, tp.sum(t, over="token") + same + _hidden


def test_returned_scalars_brackets_and_named_scalars():
    """Of a family all pairs; of names those of computed scalars that are not returned, under their own name."""
    program = several.bind(token=2)
    found = observables(program)
    assert [o.label for o in found] == [
        "⟨return[0]|return[0]⟩",
        *("⟨return[1][token=0]|return[1][token=0]⟩", "⟨return[1][token=0]|return[1][token=1]⟩"),
        "⟨return[1][token=1]|return[1][token=1]⟩",
        *("return[2][token=0]", "return[2][token=1]"),
        *("r[token=0]", "r[token=1]", "t[token=0]", "t[token=1]"),
    ]
    by_label = {o.label: o for o in found}
    h = program.returns[1]
    bracket = by_label["⟨return[1][token=0]|return[1][token=1]⟩"]
    assert isinstance(bracket, BracketObservable) and keys(bracket) == ((h, (0,)), (h, (1,)))
    scalar = by_label["r[token=1]"]
    assert isinstance(scalar, ScalarObservable) and keys(scalar) == ((program.position("r"), (1,)),)


def test_entries_that_a_table_leaves_out_are_zero():
    """Of arrays of numbers as of vectors: −1 is no entry, and not the last one."""

    @tp.program
    def shifted(x: tp.Vector["at"]):
        c = tp.constant([2.0, 3.0, 7.0], axes="at")
        left = numpy.array([-1, 0, 1])
        return tp.sum(tp.avg(c.take(at=left, axes=("at",)) * x * x.take(at=left, axes=("at",))), over="at"), tp.sum(
            tp.avg(c.take(at=left, axes=("at",)) * x * x), over="at"
        )

    values = [n.value for n in tp.derive(shifted).evaluate().values()][:2]
    assert values == pytest.approx([0.0, 5.0])
