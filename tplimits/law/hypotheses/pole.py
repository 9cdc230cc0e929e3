"""Poles: a denominator or a logarithm keeps away from zero in the limit.

    1/θ_n → 1/θ and log θ_n → log θ   only for θ ≠ 0

(the hypothesis of `jump`: ψ continuous at the limits of its arguments).  It is asked of every negative power and
every logarithm of the body, also of one that stands beside a factor with limit 0: in avg(u)·(1/s) with s → 0 two
fluctuations are divided by each other.  1/(√n θ_n) is asked of √n θ_n, which may be of order 1.  A denominator that
vanishes at single points of a random variable is a question of moments (`moments`).

An average over another neuron holds that neuron itself: 1/(x_α − x_β) is divided by zero at every width, for β = α,
which the limit, where neurons are independent, does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr
from sympy.utilities.iterables import multiset_partitions

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses import emptied
from tplimits.law.hypotheses.zero import Place, Zero, kept_from_zero
from tplimits.program.nodes import functions
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, N, entries, reads_vectors
from tplimits.program.parts import found, put_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tplimits.law.hypotheses.reader import Doubt, Reader

#: what may be finite although an argument is not
_SHELTER = (*functions.JUMPS, functions.minimum, functions.maximum, sympy.exp, sympy.tanh, sympy.erf, sympy.atan)
#: powers of n on whose scale something that tends to 0 is looked at
_SCALES = tuple(sympy.Rational(k, 2) for k in range(1, 5))
#: what SymPy puts where a value is not finite, or not real
_NOT_FINITE: tuple[type, ...] = (type(sympy.zoo), type(sympy.nan), type(sympy.oo), type(-sympy.oo), type(sympy.I))


def poles(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on a pole of a body; the doubts where that cannot be told."""
    _refuse_coincidences(reader, body, where)
    empty = _beside_empty(reader, body, where)
    # of poles inside of others the inner ones first: beside them the outer ones have no value
    inside_out = sorted(singular_places(body), key=lambda place: len(singular_places(place[1])))
    places = [
        _place(reader, body, node, a) for node, alone in inside_out for a in _magnified(reader, body, node, alone)
    ]
    return [*kept_from_zero(reader, "pole", places, where), *empty]


def _magnified(reader: Reader, body: Expr, node: Expr, argument: Expr) -> Iterator[Expr]:
    """What a pole divides by, where it tends to 0 beside a power of n on its own scale: 1/(√n s) is a pole of √n s."""
    is_small = node.is_Pow and body.has(N) and sympy.expand(reader.limit(argument)) == 0
    # of sin(√n s) √n t/(√n s) the powers outside cancel
    raised = [p for p in found(body, sympy.Mul) if node in p.args and p.has(N)] if is_small else []
    scales = (N**power * argument for power in _SCALES) if raised else ()
    magnified = next((a for a in scales if sympy.expand(reader.limit(a)) != 0), None)
    if magnified is not None:
        yield magnified
    if magnified is None or put_in(body, dict.fromkeys(raised, sympy.S.Zero), {}).has(node):
        yield argument


def insist_finite(reader: Reader, body: Expr, value: Expr, where: str) -> None:
    """NoLimitError where the value of a body at the limits of its arguments is no number."""
    if found(value, *_NOT_FINITE):
        # given data is at no limit
        scalars = [e for e in entries(body) if e.neuron == NO_NEURON and (reader.limit(e).is_number or reader.moves(e))]
        limits = ", ".join(f"{reader.shown(e)} → {reader.written(e)}" for e in scalars)
        raise NoLimitError(
            f"{where}: `{reader.shown(body)}` is not finite at the limit of its arguments ({limits or 'constants'}); "
            "hypothesis: ψ continuous at the limits of its scalars. Keep the denominator or the logarithm away from "
            "zero."
        )


def _place(reader: Reader, body: Expr, node: Expr, argument: Expr) -> Place:
    def refusal(seen: Zero) -> str:
        # of |√n s|/(√n s) the powers of n cancel before anything is read
        beside = (f for p in found(body, sympy.Mul) if node in p.args for f in p.args if f != node)
        scaled = body.has(N) or any(entries(f) and reader.limit(f) == 0 for f in beside)
        by_name = scaled and not reads_vectors(argument)
        named = ", or name what fluctuates beside √n, (tp.sqrt(tp.n) * …).named(…)" if by_name else ""
        return (
            f"`{reader.shown(node)}` is not finite at the limit of its arguments: `{reader.shown(argument)}` tends to "
            f"{seen} (hypothesis: ψ continuous at the limits of its scalars). Keep the denominator or the logarithm "
            f"away from zero{named}."
        )

    # relu(S) is 0 for S < 0 at every width, and divided by at every width; where a vector is, moments are judged
    return Place(argument, argument, refusal, still=not reads_vectors(argument))


def _refuse_coincidences(reader: Reader, body: Expr, where: str) -> None:
    """NoLimitError where a body is divided by zero at every width, at neurons that are one and the same."""
    if len({e.neuron for e in entries(body)} - {NO_NEURON}) < 2:
        return
    for node in _exposed(body):
        for part, argument in singular_places(node):
            if part == node and any(sympy.expand(a) == 0 for a in _coincident(argument)):
                raise NoLimitError(
                    f"{where}: `{_told(reader, node)}` is not finite at any width: an average over other neurons holds "
                    f"the neuron itself, and there `{_told(reader, argument)}` is 0. Keep it away from zero, as by "
                    "adding a constant to its square."
                )


def _beside_empty(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where a body is divided by an average that is empty for some neurons; the doubts."""
    if reader.around is None or not reader.around.may_be_empty:
        return []
    alone = ((node, place) for node in _exposed(body) for place in singular_places(node))
    exposed = dict.fromkeys((node, a) for node, (part, a) in alone if part == node and reads_vectors(a))
    return [d for node, a in exposed for d in emptied.are_left(reader, node, a, _told(reader, node), where)]


def _told(reader: Reader, expr: Expr) -> str:
    """A part of a body with the neurons of its entries, as a user writes them."""
    names = {e: reader.shown(e) + ("" if e.neuron == OWN else f"[{e.neuron}]") for e in entries(expr)}
    return sympy.sstr(expr.xreplace({e: sympy.Symbol(name) for e, name in names.items()}))


def _exposed(body: Expr) -> Iterator[Expr]:
    """The parts of a body that are infinite or no number only where all of it is."""
    yield body
    if not isinstance(body, _SHELTER):
        for part in body.args:
            yield from _exposed(part)


def _coincident(expr: Expr) -> Iterator[Expr]:
    """A part of a body with some of its neurons being the same."""
    read = [e for e in entries(expr) if e.neuron != NO_NEURON]
    neurons = sorted({e.neuron for e in read}, key=str)
    for blocks in multiset_partitions(neurons) if len(neurons) > 1 else ():
        if len(blocks) < len(neurons):
            same = {neuron: block[0] for block in blocks for neuron in block}
            yield expr.xreplace({e: Entry(e.args[0], same[e.neuron], *e.indices) for e in read})
