"""Bodies of instructions on jets: every head of the language with its first two derivatives.

A kink needs Dirac's delta in its second derivative (`kinks`); a jump is read where its argument does not move at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.vanishing import FORM
from tplimits.numbers.expansion import cells
from tplimits.numbers.expansion.averages import ROOT, Averages
from tplimits.numbers.expansion.fields import Field, aligned, constant, mapped, union
from tplimits.numbers.expansion.hidden import misses_peak
from tplimits.numbers.expansion.jets import Jet, Slopes, number
from tplimits.numbers.expansion.kinks import AT_KINK, Kinks
from tplimits.numbers.expansion.several import of_several
from tplimits.numbers.expansion.singular import written
from tplimits.program.nodes import functions
from tplimits.program.nodes.branches import without_jump, without_jumps
from tplimits.program.nodes.entries import GaussMean, entries
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.hidden_jumps import derivative
from tplimits.program.nodes.running_errors import refuse_rounding
from tplimits.program.nodes.series import near
from tplimits.program.parts import holds, remembered

if TYPE_CHECKING:
    from tplimits.numbers.expansion.explicit import Explicit

_U = Symbol("u", real=True)


@dataclass
class Bodies:
    """Evaluates expressions on jets; `roots` are the widths, whose powers n^(−1/2) and 1/n are jets, too."""

    averages: Averages
    leaves: Mapping[Expr, float]
    widths: Mapping[Symbol, float]
    #: what a refusal says of an argument: its text
    shown: Callable[[Expr], str]
    #: the width n itself, where it is not infinite
    size: int | None = None
    #: functions at kinks where scalars settle, and of the width; None refuses them
    explicit: Explicit | None = None
    #: the line that is read
    where: str = ""

    def read(self, body: Expr, known: Mapping[Expr, Jet]) -> Jet:
        """The body of an instruction; EvaluationError where rounding decides its jumps."""
        # first, so that variables are divided at kinks: nodes of an undivided grid may stand on them by chance
        found = self.evaluate(body, known)
        dims = union(*(jet.value for jet in known.values()))
        # what rounding decides of a body has been judged by its law when networks are drawn
        judged = self.size is None and self.averages.frame.of_law
        plain = judged and body.free_symbols.isdisjoint(self.widths)
        if dims and plain and holds(body, *functions.JUMPS):
            values = {e: aligned(jet.value, dims) for e, jet in known.items()}
            weights = numpy.broadcast_arrays(aligned(self.averages.frame.weight(dims), dims), *values.values())[0]
            refuse_rounding(body, {**self.leaves, **values}, weights, evaluate, self.shown)
        return found

    def evaluate(self, expr: Expr, known: Mapping[Expr, Jet], memo: dict[Expr, Jet] | None = None) -> Jet:
        """An expression whose entries are known."""
        memo = {} if memo is None else memo
        if expr in known:
            return known[expr]
        if expr not in memo:
            memo[expr] = self._made(expr, known, memo)
        return memo[expr]

    def _made(self, expr: Expr, known: Mapping[Expr, Jet], memo: dict[Expr, Jet]) -> Jet:
        if expr in self.leaves and expr not in self.widths:
            return number(self.leaves[expr])
        if expr.is_number and not expr.has(GaussMean):
            return number(float(evaluate(expr, {})))
        if expr in self.widths or (expr.is_Pow and expr.base in self.widths):
            return self.power_of_width(*self.powers_of_widths(expr)[0])
        if isinstance(expr, GaussMean):
            return self._gauss_mean(expr, known)
        # before sums and products are taken apart: a kink or a power of n can cancel between parts alone
        if self.explicit is not None and self.size is None:
            found = self.explicit.read(self, expr, known)
            if found is not None:
                return found
        if isinstance(expr, sympy.Add):
            return self.averages.sum(*(self.evaluate(a, known, memo) for a in expr.args))
        if isinstance(expr, sympy.Mul):
            return self._product(expr, known, memo)
        if isinstance(expr, sympy.Pow):
            if expr.exp.is_number:
                return self._smooth(_U**expr.exp, self.evaluate(expr.base, known, memo), expr)
            # unevaluated: SymPy would make the power of it again
            return self.evaluate(sympy.exp(expr.exp * sympy.log(expr.base), evaluate=False), known, memo)
        return self._head(expr, known, memo)

    def _product(self, expr: Expr, known: Mapping[Expr, Jet], memo: dict[Expr, Jet]) -> Jet:
        """Factors from the left; x·step(x) is relu(x), which has a derivative."""
        kinked = without_jumps(expr)
        if kinked != expr:
            return self.evaluate(kinked, known, memo)
        powers, factors = self.powers_of_widths(expr)
        total = self.power_of_width(*powers)
        for f in factors:
            total = self.averages.product(total, self.evaluate(f, known, memo))
        return total

    def powers_of_widths(self, expr: Expr) -> tuple[tuple[Expr, float], list[Expr]]:
        """A product as n^power · ratios · other factors: ((power, ratios), others); √k/√n is a ratio."""
        total, ratios = sympy.S.Zero, 1.0
        others: list[Expr] = []
        for f in sympy.Mul.make_args(expr):
            base, power = f.as_base_exp()
            if base in self.widths and power.is_number:
                # (ρn)^p is ρ^p n^p: exponents add over all widths, since only their ratios are fixed
                total, ratios = total + power, ratios * self.widths[base] ** float(power)
            else:
                others.append(f)
        return (total, ratios), others

    def power_of_width(self, power: Expr, ratios: float) -> Jet:
        """n^(−1/2) has a derivative by itself, 1/n a shift; smaller powers are nothing, larger ones have no limit."""
        if power == 0:
            return number(ratios)
        # a run at finite width, on drawn neurons: powers of n are numbers
        if self.size is not None:
            return number(ratios * self.size ** float(power))
        if power == -sympy.S.Half:
            return Jet(constant(0.0), Slopes.of({ROOT: constant(ratios)}))
        if power == -1:
            return Jet(constant(0.0), shift=constant(ratios))
        if power.is_number and power < -1:
            return number(0.0)
        raise NoLimitError(
            f"{self.where}: n^({power}) multiplies what tends to 0, and stays random in the limit, or has no expansion "
            "in n^(−1): an expansion to order 1/n is of averages whose limits are numbers, with n^(−1/2) and 1/n "
            "beside them. Ask for the average without it; the variance of √n·Avg is its coefficient C."
        )

    def _gauss_mean(self, expr: GaussMean, known: Mapping[Expr, Jet]) -> Jet:
        """A mean over a normal variable that no neuron has."""
        if expr.free_symbols <= self.leaves.keys() - self.widths.keys():
            return number(float(evaluate(expr, self.leaves)))
        integrand, variable = expr.args
        frame = self.averages.frame
        g = frame.apart()
        inside = self.evaluate(integrand, {**known, variable: Jet(g)})
        return inside.through(lambda f: frame.mean(f, g.dims))

    def _head(self, expr: Expr, known: Mapping[Expr, Jet], memo: dict[Expr, Jet]) -> Jet:
        do, read = self.averages, lambda e: self.evaluate(e, known, memo)
        if isinstance(expr, functions.stop_gradient):
            return read(expr.args[0])
        if isinstance(expr, functions.leaky_relu):
            x, slope = read(expr.args[0]), read(expr.args[1])
            bent = self._relu(x, expr)
            return do.sum(bent, do.product(slope, do.sum(x, do.scaled(bent, -1.0))))
        if isinstance(expr, functions.maximum):
            x, y = map(read, expr.args)
            bent = do.sum(y, self._relu(do.sum(x, do.scaled(y, -1.0)), expr))
            return _exactly(bent, numpy.maximum, x, y)
        if isinstance(expr, functions.minimum):
            x, y = map(read, expr.args)
            bent = do.sum(x, do.scaled(self._relu(do.sum(x, do.scaled(y, -1.0)), expr), -1.0))
            return _exactly(bent, numpy.minimum, x, y)
        if isinstance(expr, functions.where):
            kinked = without_jump(expr)
            if kinked is not None:
                return read(kinked)
            c, x, y = map(read, expr.args)
            chosen = do.sum(y, do.product(self._step(c, expr), do.sum(x, do.scaled(y, -1.0))))
            return _exactly(chosen, lambda c, x, y: numpy.where(c > 0, x, y), c, x, y)
        if isinstance(expr, near) and not expr.args[1].has(FORM):
            read_from = {e: Symbol(f"x {e}", real=True) for e in sorted(entries(expr), key=str)}
            jets = {name: known[e] for e, name in read_from.items()}
            return of_several(do, expr.xreplace(read_from), jets, self.leaves)
        x = read(expr.args[0])
        if isinstance(expr, near):
            function, *series = expr.args[1:]
            return self._smooth(near(_U, function.xreplace({FORM: _U}), *series), x, expr)
        if isinstance(expr, functions.relu):
            return self._relu(x, expr)
        if isinstance(expr, sympy.Abs):
            return do.sum(do.scaled(self._relu(x, expr), 2.0), do.scaled(x, -1.0))
        if isinstance(expr, functions.step):
            return self._step(x, expr)
        if isinstance(expr, sympy.sign):  # 0 where its argument is, as that of relu may be for half of the neurons
            return do.sum(self._step(x, expr), do.scaled(self._step(do.scaled(x, -1.0), expr), -1.0))
        # other heads with a kink of their own: δ is known to the heads above alone
        if functions.kinks(functions.elementary(expr.func(_U, *expr.args[1:]))):
            return read(functions.elementary(expr))
        if len(expr.args) == 1:
            return self._smooth(expr.func(_U), x, expr)
        rest = [float(evaluate(a, self.leaves)) for a in expr.args[1:]]
        return self._smooth(expr.func(_U, *map(sympy.Float, rest)), x, expr)

    def _smooth(self, function: Expr, x: Jet, expr: Expr) -> Jet:
        """F(x) of one variable, with two derivatives where x moves."""
        # few Gauss–Hermite nodes are exact for polynomials alone
        exact = function.is_polynomial(_U)
        if not exact:
            self.averages.frame.enters(x.value)
        moves = not x.is_fixed
        # derivatives of what does not move tell whether its values at nodes are enough
        count = 3 if moves or not (exact or self.averages.values_only) else 1
        with numpy.errstate(all="ignore"):
            found = [mapped(lambda v, f=f: _on(f, v), x.value) for f in _derivatives(function)[:count]]
        if x.value.dims and not exact and isinstance(function, (sympy.Pow, sympy.log)):
            # where nothing moves, or it had been refused: no neuron stands at a pole or a root
            found = [mapped(lambda v, f: numpy.where(numpy.abs(v) < AT_KINK**2, 0.0, f), x.value, f) for f in found]
        # a scalar that tends to 0 has a limit within its error of it: √ and log are finite there, and wrong
        singular = not x.value.dims and moves and self._is_singular(function, x)
        needed = found if moves else found[:1]
        if self.size is None and (singular or not all(numpy.isfinite(f.values).all() for f in needed)):
            raise NoLimitError(
                f"{self.told(expr)} is not finite, or has no two derivatives, at the limit of its arguments "
                "(hypothesis: scalars enter by functions with two continuous derivatives at their limits). Keep "
                "denominators, roots and logarithms away from zero."
            )
        if not exact and count == 3:
            found = self._between(function, x.value, found, expr)
        if not moves:
            return Jet(found[0])
        value, first, second = found
        return self.averages.function(x, value, first, second if _derivatives(function)[2] != 0 else None)

    def _between(self, function: Expr, x: Field, found: list[Field], expr: Expr) -> list[Field]:
        """The same, over cells between nodes where a frame asks for it; it is told of functions that bend there."""
        frame = self.averages.frame
        if frame.divides and x.dims and not frame.misses and misses_peak(frame, x, partial(_on, function), found[0]):
            frame.misses = frame.bends = self.told(expr)
        if frame.by_cells and x.dims:
            return cells.over_cells(frame, x, found)
        if not frame.bends and cells.bends(frame, x, found):
            frame.bends = self.told(expr)
        return found

    def _is_singular(self, function: Expr, x: Jet) -> bool:
        """Whether a scalar tends to where a root, a pole or a logarithm ends, as far as its error tells."""
        tolerance = self.averages.frame.tolerance
        if isinstance(function, (sympy.asin, sympy.acos, sympy.atanh)):
            return abs(abs(float(x.value.values)) - 1) < tolerance
        powers = isinstance(function, sympy.Pow) and not (function.exp.is_Integer and function.exp.is_positive)
        return (powers or isinstance(function, sympy.log)) and x.is_near_zero(tolerance)

    def _relu(self, x: Jet, expr: Expr) -> Jet:
        # a scalar at its kink: off by a multiple of n^(−1/2), which the series of who asks takes in
        if self.explicit is not None and self.size is None and self.explicit.settles(x):
            return self.explicit.relu(self, x, expr)
        value = mapped(lambda v: numpy.maximum(v, 0.0), x.value)
        first = mapped(lambda v: numpy.where(v > 0, 1.0, 0.0), x.value)
        delta = self._delta(x, expr)
        # relu″ = δ, as a number on the node that stands at the kink
        return self.averages.function(x, value, first, delta)

    def _step(self, x: Jet, expr: Expr) -> Jet:
        """A jump: an expansion is there where its argument does not move at the jump, as c·g at g = 0."""
        value = mapped(lambda v: numpy.where(v > 0, 1.0, 0.0), x.value)
        if x.is_fixed or self.averages.values_only:
            self._delta(x, expr)
            return Jet(value)
        delta = self._delta(x, expr)
        if delta is not None:
            for d in (*x.slopes.values(), *(() if x.shift is None else (x.shift,))):
                # the jump's derivative is a delta times the slope: 0 if the argument does not move where it is 0
                if mapped(lambda m, s: numpy.where(m > 0, s, 0.0), delta, d).size > AT_KINK:
                    raise NoLimitError(
                        f"{self.told(expr)} jumps where its argument moves with averages of the program: the second "
                        "derivative of a jump at such a place is not implemented. Replace the jump by a continuous "
                        "function; a multiple of one image W x inside it is read."
                    )
        return Jet(value)

    def _delta(self, x: Jet, expr: Expr) -> Field | None:
        """δ(x); None where x does not cross 0."""
        frame = self.averages.frame
        # drawn neurons, values alone: nobody asks for a second derivative
        if self.averages.values_only and not frame.divides:
            return None
        return Kinks(frame, self.told(expr)).delta(x)

    def told(self, expr: Expr) -> str:
        """A function and its line."""
        return f"{self.where}: `{self.shown(written(expr))}`"


def _exactly(jet: Jet, function: Callable[..., Any], *arguments: Jet) -> Jet:
    """With the value of a function that returns one of its arguments: x − (x − y) is y but for rounding.

    A jump of min(x, y) − y would be decided by that rounding, at half of all neurons.
    """
    return replace(jet, value=mapped(function, *(argument.value for argument in arguments)))


@remembered(1 << 10)
def _derivatives(function: Expr) -> tuple[Expr, Expr, Expr]:
    first = derivative(function, _U)
    return function, first, derivative(first, _U)


def _on(function: Expr, values: Array) -> Any:
    return numpy.broadcast_to(numpy.asarray(evaluate(function, {_U: values}), dtype=numpy.float64), numpy.shape(values))
