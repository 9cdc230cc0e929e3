"""Functions that turn ever more sharply with the width where a vector is 0: their limits hide what they are there.

    n x²/(1 + n x²) → 1   and   E (∂/∂x)² ~ √n          n^(−1/2)/(x² + 1/n) → 0   and   E = √(π/2) at every n

Of n entries some are as near to 0 as such a function is sharp: it tends to its limit for every x ≠ 0 and not in the
mean, of itself or of its derivative (hypothesis: bodies are functions of vectors that do not depend on n, but for
factors and shifts that vanish uniformly).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import NO_NEURON, Entry, N, entries
from tplimits.program.nodes.kinds import as_written
from tplimits.program.nodes.scale import at_infinity, led_by
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def refuse_sharp(program: Program, position: int, body: Expr, trained: bool = False) -> None:
    """NoLimitError where n → ∞ leaves a divisor that may vanish, and takes away what shows it.

    A quotient such as x/√(x² + 1/n) is none: its limit sign(x) has a pole that the numerator makes up for.  It is one
    where it is `trained`: gradients see the jump.
    """
    for term in sympy.Add.make_args(body) if body.has(N) else ():
        for base, left in sharp_divisors(term, _of_neurons, trained):
            base, zero = _told(program, base), _told(program, left)
            raise NoLimitError(
                f"{program.where(position)}: `{base}` is kept off 0 by less and less of it as n grows, and where "
                f"`{zero}` is 0 the function turns ever more sharply: of n entries some see it, and the limit does "
                "not. Let no power of n weigh the parts of a divisor against each other."
            )


def sharp_divisors(term: Expr, random: Callable[[Entry], bool], trained: bool = False) -> Iterator[tuple[Expr, Expr]]:
    """Divisors that n → ∞ leaves with what may vanish alone, where that is `random`: each, and what is left of it.

    >>> x = Entry(sympy.Integer(0), NO_NEURON)
    >>> [left == x**2 for _, left in sharp_divisors(1 / (1 + N * x**2), lambda entry: True)]
    [True]
    >>> list(sharp_divisors(x / (1 + x**2 / N), lambda entry: True))
    []
    """
    lead = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if f.as_base_exp()[0] == N))

    def may_vanish(left: Expr) -> bool:
        low, high = bounds(left)
        return bool(low <= 0 <= high) and any(map(random, entries(left)))

    for node in found(term, sympy.Pow):
        if not (node.exp.is_negative and node.base.is_Add and node.base.has(N)):
            continue
        power, left = led_by(node.base)
        if not may_vanish(left):
            continue
        # a factor that vanishes may hide the pole of what it multiplies
        hides = lead.as_base_exp()[1].is_negative and any(may_vanish(a) for _, a in _poles(term / lead))
        if trained or power > 0 or hides:
            yield node.base, left


def _of_neurons(entry: Entry) -> bool:
    return bool(entry.neuron != NO_NEURON)


def _told(program: Program, expr: Expr) -> str:
    return as_written(program.__getitem__, expr)[:200]


def _poles(rest: Expr) -> list[tuple[Expr, Expr]]:
    try:
        return singular_places(at_infinity(rest))
    except ValueError:  # what grows is refused elsewhere
        return []
