"""How far rounding may put a scalar off: by a part of the terms that cancel in it, and by nothing where none do.

A product, and a sum or an average of what is never negative, are as exact as a number of their size, however small:
10⁻³¹ ⟨x²⟩ is no zero.  An average of what has both signs is off like one of order 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.network.differentiate import almost_everywhere
from tplimits.program.nodes.entries import AxisSum, Entry, Lookup, entries
from tplimits.program.nodes.hidden_jumps import derivative
from tplimits.program.nodes.kinds import Avg, OuterNonlin, ScalarNonlin, through_names
from tplimits.program.nodes.series import near
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the part of its terms by which rounding puts a sum off
ROUNDING = 1e-12
#: a function of so many operations is read with the names in it
_LONG = 400


@remembered(1 << 10)
def terms_of(program: Program, argument: Expr) -> Expr:
    """The size of the terms that a scalar is made of, as an expression in what it reads."""

    def opens(body: Expr) -> list[Entry]:
        read = ((e, program[e.source]) for e in entries(body) if not e.has(Lookup))
        return [e for e, s in read if isinstance(s, ScalarNonlin) and not s.body.has(AxisSum)]

    return _terms(program, through_names(program.__getitem__, argument, opens, _LONG))


def _terms(program: Program, node: Expr) -> Expr:
    if isinstance(node, Entry):
        return abs(node) if _is_told(program, node) else abs(node) + 1
    if isinstance(node, AxisSum):
        return AxisSum(_terms(program, node.summand), *node.args[1:])
    if node.is_Add or node.is_Mul:
        return node.func(*(_terms(program, a) for a in node.args))
    if node.is_Pow and node.exp.is_number:
        return abs(node.base) ** (node.exp - 1) * _terms(program, node.base)
    if not entries(node):
        return abs(node)
    if isinstance(node, near):
        place, function, radius, *coefficients = node.args
        return abs(near(place, _terms(program, function), radius, *map(abs, coefficients)))
    inside: list[Expr] = [S.Zero]
    for k, a in enumerate(node.args):
        if isinstance(node, sympy.Function) and entries(a):
            place = sympy.Dummy(real=True)
            slope = almost_everywhere(derivative(node.func(*node.args[:k], place, *node.args[k + 1 :]), place))
            inside.append(abs(slope.xreplace({place: a})) * _terms(program, a))
    return abs(node) + sympy.Add(*inside)


def _is_told(program: Program, entry: Entry) -> bool:
    """Whether a scalar is data, or an average in which nothing cancels; parameters are sums of updates."""
    s = program[entry.source]
    if not isinstance(s, Avg):
        return entry.source in program.inputs
    vector = program[s.operand.source]
    if not isinstance(vector, OuterNonlin) or vector.slots:
        return False
    low, _ = bounds(vector.body.xreplace({e: sympy.Dummy(real=True) for e in entries(vector.body)}))
    return bool(low >= 0)
