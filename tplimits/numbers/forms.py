"""An integrand as a function of linear forms of Gaussian variables.

The dimension of an integral is the rank of the forms its nonlinear factors see; variables that stand
only in a polynomial factor are integrated analytically given those (their conditional law is
Gaussian).  A mean over boxes inside a nonlinear function is an integrand of its own, whose forms may
lean on forms of the outer one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.closed_forms.integrand import step_products
from tplimits.law.hypotheses.bounds import bounds, keeps_off
from tplimits.law.means import BoxMean
from tplimits.numbers.exponentials import of_differences, where_exponentials_meet
from tplimits.program.nodes import functions
from tplimits.program.nodes.functions import step
from tplimits.program.nodes.normal_means import singular
from tplimits.program.nodes.properties import SIGNED, TURNING
from tplimits.program.parts import addends, holds

if TYPE_CHECKING:
    from tplimits.law.gaussians import Gaussians


@dataclass(frozen=True)
class Form:
    """constant + Σ slope_i · variable_i, by variable."""

    slope: tuple[tuple[Symbol, Expr], ...]
    constant: Expr


@dataclass(frozen=True)
class Inner:
    """A mean over boxes: its integrand with the outer forms it leans on standing as symbols."""

    symbol: Symbol
    integrand: Integrand
    leans_on: tuple[Symbol, ...]


@dataclass(frozen=True)
class Integrand:
    """body(forms, locals) · Π polynomial variables.

    `locals` are computed first, in order: means over boxes, and named long factors.

    `variables` are the Gaussian variables integrated over; `kinks` are combinations of form symbols
    (plus outer symbols) whose zero sets the quadrature has to respect: kinks, jumps, logarithms, roots, poles.
    `turns` are arguments of smooth functions, each with where it is zero or turns itself: kinks if they are steep.
    """

    variables: tuple[Symbol, ...]
    forms: tuple[tuple[Symbol, Form], ...]
    body: Expr
    polynomial: tuple[tuple[Symbol, int], ...]
    locals: tuple[Inner | tuple[Symbol, Expr], ...]
    kinks: tuple[Expr, ...]
    turns: tuple[tuple[Expr, Expr], ...] = ()

    @cached_property
    def may_have_poles(self) -> bool:
        """Whether the body is not seen to be finite everywhere."""
        return bool(self.locals or singular(self.body) or holds(self.body, sympy.tan, sympy.cot))

    def reads(self) -> set[Symbol]:
        """All symbols that stand in it; the constants among them are what it is computed from."""
        found = self.body.free_symbols.union(*(k.free_symbols for k in self.kinks))
        for _, form in self.forms:
            found |= form.constant.free_symbols.union(*(c.free_symbols for _, c in form.slope))
        for entry in self.locals:
            found |= entry[1].free_symbols if isinstance(entry, tuple) else entry.integrand.reads()
        return found


class _Lowering:
    """Rewrites one integrand; `outer` registers a form of the enclosing integrand."""

    def __init__(
        self, variables: Sequence[Symbol], outer: Callable[[Expr], Expr] | None, level: int, gaussians: Gaussians
    ) -> None:
        self.variables, self._outer, self._level, self.gaussians = set(variables), outer, level, gaussians
        self.forms: dict[Form, Symbol] = {}
        self.locals: list[Inner | tuple[Symbol, Expr]] = []
        self._named: set[Symbol] = set()
        self.kinks_of_inner: dict[Expr, None] = {}
        self.leans: dict[Symbol, None] = {}

    def depends(self, expr: Expr) -> bool:
        """Whether an expression depends on the variables integrated here."""
        return not self.variables.isdisjoint(self.gaussians.of(expr))

    def form(self, expr: Expr) -> Expr | None:
        """The symbol of a linear expression (a constant is itself), None when it is not linear in the variables."""
        # what is no part of a slope stays as it is: a square that is multiplied out is negative by its rounding
        constant = [a for a in sympy.Add.make_args(expr) if not self.depends(a)]
        slope = []
        # arguments of functions stay as they are: functions of variables are no linear form, however they are written
        for term in sympy.Add.make_args(sympy.Add(*addends(expr - sympy.Add(*constant)))):
            mine = [f for f in sympy.Mul.make_args(term) if self.depends(f)]
            if not mine:
                constant.append(term)
                continue
            # a product of variables, or a function of one, is no linear form
            if len(mine) > 1 or mine[0] not in self.variables:
                return None
            if self.gaussians.of(term / mine[0]):
                return None  # the coefficient is a variable of the enclosing integrand
            slope.append((mine[0], term / mine[0]))
        merged: dict[Symbol, Expr] = {}
        for variable, c in slope:
            merged[variable] = merged.get(variable, S.Zero) + c
        rest = self.foreign(sympy.Add(*constant))
        if not merged:
            return rest
        key = Form(tuple(sorted(merged.items(), key=lambda p: p[0].name)), rest)
        if key not in self.forms:
            self.forms[key] = Symbol(f"f{self._level}_{len(self.forms)}", real=True)
        return self.forms[key]

    def foreign(self, expr: Expr) -> Expr:
        """What does not depend on the variables: constants, and forms of the enclosing integrand."""
        if self._outer is None or not expr.free_symbols:
            return expr
        symbol = self._outer(expr)
        # what the inner mean leans on decides for how many outer nodes it has to be taken
        if symbol != expr:
            self.leans.update(dict.fromkeys(symbol.free_symbols))
        return symbol

    def rewrite(self, expr: Expr) -> Expr:
        """The expression over form symbols and inner means."""
        if not self.depends(expr) and not expr.has(BoxMean):
            return self.foreign(expr)
        if expr in self.gaussians.long:
            return self._long(expr)
        if isinstance(expr, BoxMean):
            return self._box(expr)
        linear = self.form(expr) if not expr.has(BoxMean) else None
        if linear is not None:
            return linear
        if isinstance(expr, sympy.Add):
            # all linear terms of a sum as one form: the dimension is the rank of the forms, not the number of terms
            plain = [a for a in expr.args if not a.has(BoxMean) and self._is_linear(a)]
            others = [self.rewrite(a) for a in expr.args if a not in plain]
            together = self.form(sympy.Add(*plain)) if plain else None
            return sympy.Add(*others, *([together] if together is not None else []))
        return expr.func(*(self.rewrite(a) for a in expr.args))

    def _is_linear(self, expr: Expr) -> bool:
        mine = [f for f in sympy.Mul.make_args(expr) if self.depends(f)]
        if not mine:
            return True
        return len(mine) == 1 and mine[0] in self.variables and not self.gaussians.of(expr / mine[0])

    def _box(self, node: BoxMean) -> Symbol:
        lowering = _Lowering(node.boxed, self.rewrite, self._level + 1, self.gaussians)
        symbol = Symbol(f"inner{self._level}_{len(self.locals)}", real=True)
        inner = _integrand(node.integrand, lowering, node.boxed)
        # what moves with the variables of the box, itself or through a local value, cuts the box alone
        own = {s for s, _ in inner.forms} | {e[0] if isinstance(e, tuple) else e.symbol for e in inner.locals}
        foreign = (k for k in _arguments(_bodies(inner.body, lowering)) if not k.free_symbols & own)
        self.kinks_of_inner.update(dict.fromkeys(foreign))
        self.locals.append(Inner(symbol, inner, tuple(lowering.leans)))
        return symbol

    def _long(self, name: Symbol) -> Symbol:
        if name not in self._named:
            self._named.add(name)
            self.locals.append((name, self.rewrite(self.gaussians.long[name].definition)))
        return name


def lower(integrand: Expr, variables: Sequence[Symbol], gaussians: Gaussians) -> Integrand:
    """The integrand over linear forms of the given Gaussian variables."""
    return _integrand(of_differences(integrand), _Lowering(variables, None, 0, gaussians), variables)


def _integrand(expr: Expr, lowering: _Lowering, variables: Sequence[Symbol]) -> Integrand:
    powers: dict[Symbol, int] = {}
    nonlinear = []
    for factor in sympy.Mul.make_args(expr):
        base, power = factor.as_base_exp() if not isinstance(factor, sympy.exp) else (factor, S.One)
        if base in lowering.variables and power.is_Integer and power > 0:
            # polynomial factors cost no dimension: given the forms they are Gaussian and integrated by parts
            powers[base] = powers.get(base, 0) + int(power)
        else:
            nonlinear.append(factor)
    body = lowering.rewrite(sympy.Mul(*nonlinear))
    # a conditional mean in the place of x vanishes with x up to rounding alone, which a pole beside it magnifies
    if any(singular(part) for part in _bodies(body, lowering)):
        body, powers = _with_own_forms(body, powers, lowering)
    forms = tuple((symbol, form) for form, symbol in lowering.forms.items())
    own = {s for s, _ in forms}
    kinks = [k for k in (*_arguments(_bodies(body, lowering)), *lowering.kinks_of_inner) if k.free_symbols & own]
    turning = [(a, k) for a, k in turns(_bodies(body, lowering)) if k.free_symbols & own]
    return Integrand(
        tuple(variables),
        forms,
        body,
        tuple(powers.items()),
        tuple(lowering.locals),
        tuple(dict.fromkeys(kinks)),
        tuple(turning),
    )


def _with_own_forms(body: Expr, powers: dict[Symbol, int], lowering: _Lowering) -> tuple[Expr, dict[Symbol, int]]:
    """Beside a pole a power of a variable is written in its form, where it has one: x/(x² + y²) is read off one x."""
    left = dict(powers)
    for form, symbol in list(lowering.forms.items()):
        if len(form.slope) == 1 and form.slope[0][0] in left:
            ((variable, slope),) = form.slope
            body = body * ((symbol - form.constant) / slope) ** left.pop(variable)
    return body, left


def _bodies(body: Expr, lowering: _Lowering) -> list[Expr]:
    return [body, *(entry[1] for entry in lowering.locals if isinstance(entry, tuple))]


def _arguments(bodies: Sequence[Expr]) -> list[Expr]:
    """Kink arguments, piecewise linear ones piece by piece, products factor by factor."""
    found: dict[Expr, None] = {}
    arguments = set().union(*(functions.kinks(b) | singular(b) for b in bodies))
    for argument in sorted(arguments, key=sympy.default_sort_key):
        for piece in _pieces(argument):
            found.update(dict.fromkeys(factors(piece)))
    return list(found)


def turns(bodies: Sequence[Expr]) -> list[tuple[Expr, Expr]]:
    """Arguments of smooth functions that change by no more than their value, each with what it vanishes with."""
    arguments = {n.args[0] for b in bodies for n in b.atoms(*TURNING) if n.args[0].free_symbols}
    arguments |= {a for b in bodies for a in where_exponentials_meet(b)}
    return [(a, k) for a in sorted(arguments, key=sympy.default_sort_key) for k in factors(a)]


def factors(piece: Expr) -> list[Expr]:
    """What a piece vanishes with: its factors; of a sum of terms that are never negative, the factors of each."""
    found = []
    for factor in sympy.Mul.make_args(sympy.factor_terms(piece)):
        base = factor.base if isinstance(factor, sympy.Pow) else factor
        if isinstance(base, SIGNED):
            found += factors(base.args[0])
        elif isinstance(base, sympy.Add) and base.is_nonnegative:
            found += [inner for term in base.args for inner in factors(term)]
        elif base.free_symbols and not _keeps_its_sign(base):
            found.append(base)
    return found


def _keeps_its_sign(base: Expr) -> bool:
    """What never changes sign is not a cut: 2 + cos h is none, and is searched for along every line if it is."""
    if base.is_nonnegative or keeps_off(base):
        return True
    # combinations of form symbols are most of what is asked
    low, high = bounds(base) if holds(base, sympy.Function) else (-S.Infinity, S.Infinity)
    return bool(low.is_extended_positive or high.is_extended_negative)


def _pieces(argument: Expr) -> list[Expr]:
    simple = step_products(functions.elementary(argument))
    pieces = [sympy.expand(simple)]
    for node in sorted(simple.atoms(step), key=sympy.default_sort_key):
        pieces = [sympy.expand(p.xreplace({node: S(v)})) for p in pieces for v in (0, 1)]
        # every step doubles them; the kinks that are missed are left to the comparison of two resolutions
        if len(pieces) > 64:
            break
    return list(dict.fromkeys(p for p in pieces if not p.has(step)))
