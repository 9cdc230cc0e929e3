"""Functions of V in weights of order 1, as 1/√V_αα of a norm: the limit theorem asks for a drift that is continuous.

What is random beside V at a jump smooths it; a divisor made of V alone has to keep off 0, and V_αα > 0 of a token does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sympy import Add, Dummy, Expr, Symbol, sstr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.network.differentiate import jumps
from tplimits.program.nodes.domains import ends_of_domains, singular_places
from tplimits.program.nodes.entries import NO_NEURON, ArrayEntry, AxisSum, Entry, entries
from tplimits.regimes.depth.algebra.products import axis_of

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering


def one_term(expr: Expr, beside: Iterable[Symbol] = ()) -> Expr:
    """An expression with one term in the place of each sum over an axis: it grows as the sum does.

    With the terms at the indices `beside` it, of the same axis: of a softmax, that of which it is the share.
    """
    if isinstance(expr, AxisSum):
        own = (expr.summand.xreplace({expr.bound: i}) for i in beside if axis_of(i) == expr.axis)
        return Add(*(one_term(a, beside) for a in dict.fromkeys((expr.summand, *own))))
    leaf = not expr.args or isinstance(expr, (Entry, ArrayEntry))
    return expr if leaf else expr.func(*(one_term(a, beside) for a in expr.args))


def insist_on_continuity(lowering: Lowering, function: Expr) -> None:
    """NoLimitError where V alone decides on which side of a jump, or at which distance of a pole, a function is."""
    of_state = [e for e in entries(function) if e.source == lowering.program.state and e.neuron == NO_NEURON]
    if not of_state:
        return
    known = {e: Dummy(positive=True) if e.indices[0] == e.indices[1] else Dummy(real=True) for e in of_state}
    drawn = {e: Dummy(real=True) for e in entries(function) if e not in known}
    plain = one_term(function).xreplace({**known, **drawn})
    places = [(plain, place) for place, _ in jumps(plain)]
    places += [*singular_places(plain), *ends_of_domains(plain)]
    told = {d: in_words(e) for e, d in known.items()}
    for part, place in places:
        if _keeps_off(place):
            continue
        if place.free_symbols & set(known.values()) and not place.free_symbols & set(drawn.values()):
            raise NoLimitError(
                f"{lowering.where}: `{sstr(part.xreplace(told))}`, averages at their limits, is not continuous, or not "
                f"finite, where V passes `{sstr(place.xreplace(told))}` = 0, and the limit theorem asks for a drift "
                "that is. Keep the argument off 0, as by adding a positive number, or take a continuous function."
            )


def in_words(entry: Entry) -> Symbol:
    """V[α, β] for an entry of the state at two tokens."""
    return Symbol(f"V[{', '.join(str(i).split('″')[0] for i in entry.indices)}]")


def _keeps_off(argument: Expr) -> bool:
    return any(bool(side.is_positive or bounds(side)[0].is_positive) for side in (argument, -argument))
