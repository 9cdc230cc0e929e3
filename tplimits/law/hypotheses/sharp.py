"""Functions that turn ever more sharply with the width where a vector is 0: their limits hide what they are there.

    n x²/(1 + n x²) → 1   and   E (∂/∂x)² ~ √n          n^(−1/2)/(x² + 1/n) → 0   and   E = √(π/2) at every n

Of n entries some are as near to 0 as such a function is sharp: it tends to its limit for every x ≠ 0 and not in the
mean, of itself or of its derivative; so it is with the variable of tp.expect (hypothesis: bodies are functions of
vectors that do not depend on n, but for factors and shifts that vanish uniformly).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.gaussians import Gaussians
from tplimits.law.hypotheses.constants import first_moment, opened
from tplimits.law.hypotheses.moving_means import moving_mean
from tplimits.law.hypotheses.sharp_divisors import lead_of, sharp_divisors, weighed
from tplimits.program.nodes.entries import NO_NEURON, Entry, GaussMean, N
from tplimits.program.nodes.kinds import as_written
from tplimits.program.nodes.scale import at_infinity
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def refuse_sharp(program: Program, position: int, body: Expr, trained: bool = False) -> None:
    """NoLimitError where n → ∞ leaves a divisor that may vanish, and takes away what shows it.

    A quotient such as x/√(x² + 1/n) is none: its limit sign(x) has a pole that the numerator makes up for.  It is one
    where it is `trained`: gradients see the jump.
    """
    if not body.has(N):
        return
    if told := sharp_mean(body) or moving_mean(body, smooth=True):
        raise NoLimitError(f"{program.where(position)}: {told}")
    for term in sympy.Add.make_args(body):
        for base, left in sharp_divisors(term, _of_neurons, trained):
            base, zero = _told(program, base), _told(program, left)
            raise NoLimitError(
                f"{program.where(position)}: `{base}` is kept off 0 by less and less of it as n grows, and where "
                f"`{zero}` is 0 the function turns ever more sharply: of n entries some see it, and the limit does "
                "not. Let no power of n weigh the parts of a divisor against each other."
            )


def sharp_mean(body: Expr) -> str | None:
    """What is told where a mean of tp.expect is one of a function that is sharp at a value of its variable.

    √n E 1/(1 + n g²) and E n^(−1/2)/(g² + 1/n) tend to √(π/2), and the limits of their integrands are 0.  What a mean
    is multiplied by may stand anywhere, so that the limit of the integrand, without powers of n before it, is asked
    for a mean: |g|^(−1/2) has one, and (|g| + 1/n)^(−1/2) tends to it in the mean.
    """
    for mean in found(body, GaussMean):
        integrand, variable = mean.args
        for term in sympy.Add.make_args(sympy.expand_mul(integrand, deep=False)) if integrand.has(N) else ():
            grown = any(power > 0 and variable in left.free_symbols for _, power, left in weighed(term))
            rest = term / lead_of(term)
            if grown or (rest.has(N) and not _has_mean(rest, variable)):
                return (
                    f"tp.expect of `{integrand}`: `{term}` turns ever more sharply at a value of its variable as n "
                    "grows, and its mean is not that of its limit. Let no power of n keep the function off its pole."
                )
    return None


def _has_mean(term: Expr, variable: Symbol) -> bool:
    """Whether the limit of an integrand has a mean."""
    try:
        limit = at_infinity(term)
    except ValueError:  # what grows is refused elsewhere
        return True
    gaussians = Gaussians()
    return first_moment(opened(GaussMean(limit, variable), gaussians), gaussians).established


def _of_neurons(entry: Entry) -> bool:
    return bool(entry.neuron != NO_NEURON)


def _told(program: Program, expr: Expr) -> str:
    return as_written(program.__getitem__, expr)[:200]
