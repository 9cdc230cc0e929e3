"""Bodies in which the width stands explicitly, or a scalar at a kink: read through series of who asks.

f(y) = Σ c_ps(n) |y|^p sgn(y)^s              of one scalar y that tends to 0 (`settled` has the jets of powers)
√n a tanh(h/(a√n)) = h − h³/(3a² n) + …      of vectors, by powers of n^(−1/2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.numbers.expansion.jets import Jet, number
from tplimits.numbers.expansion.settled import Series, Settled
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import Entry, GaussMean, entries, reads_vectors
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.kinds import MatMul
from tplimits.program.nodes.parity import Sign, signs

if TYPE_CHECKING:
    from tplimits.numbers.expansion.averages import Averages
    from tplimits.numbers.expansion.bodies import Bodies
    from tplimits.program.nodes.program import Program


class Explicit:
    """Such bodies in one pass."""

    def __init__(self, series: Series, averages: Averages, program: Program) -> None:
        self.series, self.program = series, program
        self.averages = averages
        self._powers = Settled(averages)

    def settles(self, x: Jet) -> bool:
        """Whether a jet is a scalar that tends to 0 and moves."""
        return not x.is_fixed and x.is_near_zero(self.averages.frame.tolerance)

    def relu(self, bodies: Bodies, x: Jet, expr: Expr) -> Jet:
        """relu(x) = (x + |x|)/2 of a scalar that tends to 0."""
        size = self._powers.power(x, S.One, False, -S.Half, lambda why: _refused(bodies, expr, why))
        return self.averages.scaled(self.averages.sum(x, size), 0.5)

    def read(self, bodies: Bodies, expr: Expr, known: Mapping[Expr, Jet]) -> Jet | None:
        """A body of these kinds; None for others."""
        spread = _distributed(bodies, expr)
        # √n(relu(x) + y²) term by term: each term then has one scalar in it
        if spread is not expr:
            return self.averages.sum(*(bodies.evaluate(a, known) for a in sympy.Add.make_args(spread)))
        factors = sympy.Mul.make_args(expr)
        scalars = [f for f in factors if not reads_vectors(f) and not f.has(GaussMean)]
        together = sympy.Mul(*scalars)
        if self._has_kink_or_growth(bodies, together):
            found = dict.fromkeys(entries(together))
            # a series in one variable: a kink between two scalars has no order of its own
            if len(found) == 1:
                (entry,) = found
                jet, apart = known.get(entry), _outside(bodies, together)
                if jet is not None and apart is not None and self._tends_to_zero(jet):
                    others = [f for f in factors if f not in scalars]
                    total = self._function(bodies, apart, entry, jet)
                    for f in others:
                        total = self.averages.product(total, bodies.evaluate(f, known))
                    return total
        if self._hides_width(bodies, expr):
            return self._in_widths(bodies, expr, known)
        return None

    def _tends_to_zero(self, x: Jet) -> bool:
        moves = self.averages.values_only or not x.is_fixed
        return moves and x.is_near_zero(self.averages.frame.tolerance)

    def _has_kink_or_growth(self, bodies: Bodies, expr: Expr) -> bool:
        if not expr.has(Entry):
            return False
        if expr.has(*functions.BENT) or _most(bodies, expr) > 0:
            return True
        return any(p.base.has(Entry) and not p.exp.is_Integer for p in expr.atoms(sympy.Pow))

    def _function(self, bodies: Bodies, expr: Expr, entry: Entry, x: Jet) -> Jet:
        """f(x) by its powers around 0."""
        y = self.series.argument
        function = _exact(bodies, expr).xreplace({entry: y})
        total = number(0.0)
        terms, tell = self.series.at_zero(function, int(sympy.ceiling(2 + 2 * _most(bodies, expr))))
        if not (tell or self.averages.values_only):
            self._powers.fluctuation(x, lambda why: _refused(bodies, expr, why))
        for (p, sign), coefficient in terms.items():
            for term in sympy.Add.make_args(sympy.expand(coefficient)):
                (power, ratios), rest = bodies.powers_of_widths(term)
                scale = ratios * float(evaluate(sympy.Mul(*rest), {}))
                jet = self._power(bodies, expr, entry, x, (p, sign), power)
                total = self.averages.sum(total, self.averages.scaled(jet, scale))
        return total

    def _power(self, bodies: Bodies, expr: Expr, entry: Entry, x: Jet, kind: tuple[Expr, bool], power: Expr) -> Jet:
        """n^power |x|^p sgn(x)^s."""
        p, sign = kind
        # y and y² are smooth: jets multiply them without a law of R
        if p.is_Integer and p <= 2 and bool(p % 2) == sign and power <= 0:
            found = bodies.power_of_width(power, 1.0)
            for _ in range(int(p)):
                found = self.averages.product(found, x)
            return found
        # |x|^p is n^(−p/2) |R|^p
        order = power - p / 2
        # E R³ is of order n^(−1/2) and adds to the mean at order 1/n, unless the law of R is symmetric
        if sign and order == -S.Half and p != 1 and entry.source not in turned(self.program):
            raise _refused(
                bodies,
                expr,
                "holds the third cumulant of its argument, which no matrix turns the sign of: not implemented",
            )
        return self._powers.power(x, p, sign, order, lambda why: _refused(bodies, expr, why))

    def _hides_width(self, bodies: Bodies, expr: Expr) -> bool:
        """A product with a positive power of n, or with a root or quotient of a mean over functions of n."""
        if not isinstance(expr, sympy.Mul) or not expr.has(*bodies.widths):
            return False
        if any(head.has(*bodies.widths) for head in expr.atoms(*functions.BENT)):
            return False  # Taylor's series ends at a kink
        (power, _), others = bodies.powers_of_widths(expr)
        if power > 0:
            return True
        # norms by the function's own mean: numerator and denominator vanish together as n grows
        means = [f for f in others if f.is_Pow and f.base.has(GaussMean) and not f.exp.is_nonnegative]
        inside = [g for f in means for g in f.atoms(sympy.Function) if not isinstance(g, GaussMean)]
        return any(g.args[0].has(*bodies.widths) for g in inside)

    def _in_widths(self, bodies: Bodies, expr: Expr, known: Mapping[Expr, Jet]) -> Jet | None:
        """Σ_k n^(−k/2) c_k; None where it grows."""
        found = self.series.in_widths(_exact(bodies, expr), bodies.widths)
        # read by parts again, where the message names the term that grows
        if any(k < 0 for k in found):
            return None
        total = number(0.0)
        for k, c in found.items():
            scale = bodies.power_of_width(-sympy.Rational(k, 2), 1.0)
            total = self.averages.sum(total, self.averages.product(scale, bodies.evaluate(c, known)))
        return total


@lru_cache(maxsize=64)
def turned(program: Program) -> frozenset[int]:
    """Values whose sign turns with that of some matrix: their law is symmetric, since W and −W have one law."""
    matrices = {s.matrix for s in program if isinstance(s, MatMul)}
    found = (signs(program, 1, partial(_beside, W), {}) for W in matrices)
    return frozenset(position for turn in found for position, sign in enumerate(turn) if sign == -1)


def _beside(matrix: int, s: MatMul, sign: Sign) -> Sign:
    """The sign of a product where that of one matrix is turned."""
    return -sign if sign is not None and s.matrix == matrix else sign


def _exact(bodies: Bodies, expr: Expr) -> Expr:
    # rationals: a series asks whether coefficients vanish
    return expr.xreplace(
        {k: sympy.nsimplify(v, rational=True) for k, v in bodies.leaves.items() if k not in bodies.widths}
    )


def _most(bodies: Bodies, expr: Expr) -> Expr:
    """The largest power of n before a term; 0 at least."""
    if not expr.has(*bodies.widths):
        return S.Zero
    terms = sympy.Add.make_args(sympy.expand(expr))
    return sympy.Max(S.Zero, *(bodies.powers_of_widths(t)[0][0] for t in terms))


def _outside(bodies: Bodies, expr: Expr) -> Expr | None:
    """A function with powers of n taken out of kinks; None where they stand beside other terms, or inside of more.

    Around 0 such functions are expanded at fixed n: relu(y + n^(−1/2)) has its kink where y = n^(−1/2) R may lie.
    """

    def taken(head: type[Expr], degree: int) -> Callable[..., Expr]:
        def out(argument: Expr, *rest: Expr) -> Expr:
            (power, ratios), others = bodies.powers_of_widths(argument)
            scale = (next(iter(bodies.widths)) ** power * sympy.nsimplify(ratios, rational=True)) ** degree
            return scale * head(sympy.Mul(*others), *rest)

        return out

    for head, degree in ((functions.relu, 1), (functions.leaky_relu, 1), (functions.step, 0)):
        expr = expr.replace(head, taken(head, degree))
    inner = [*expr.atoms(sympy.Function), *(p for p in expr.atoms(sympy.Pow) if p.base not in bodies.widths)]
    return None if any(i.has(*bodies.widths) for i in inner) else expr


def _distributed(bodies: Bodies, expr: Expr) -> Expr:
    """Powers of n times a sum of functions with kinks, term by term."""
    if not isinstance(expr, sympy.Mul):
        return expr
    sums = [f for f in expr.args if isinstance(f, sympy.Add) and f.has(*functions.BENT) and len(set(entries(f))) > 1]
    if len(sums) != 1 or bodies.powers_of_widths(expr)[0][0] == 0:
        return expr
    return sympy.Add(*(expr / sums[0] * a for a in sums[0].args))


def _refused(bodies: Bodies, expr: Expr, why: str) -> NoLimitError:
    return NoLimitError(f"{bodies.told(expr)} {why}.")
