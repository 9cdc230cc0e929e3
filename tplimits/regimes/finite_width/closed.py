"""Averages to order 1/n in symbols: the rules of `numbers.expansion.averages` with means in closed form.

    D_ji = E ∂_i f_j,   ψ_j = f_j − a_j + Σ_i D_ji ψ_i,   C_jk = Σ_ℓ E ψ_j^ℓ ψ_k^ℓ / ρ_ℓ
    m_j = E μ_j + (1/ρ) Σ_i E[(∂_i f_j) ψ_i]

A vector is a function of independent standard normal variables, and derivatives by averages are such functions, too;
at a kink they hold Dirac's delta.  Every mean is one of the width limit's closed forms, or there is no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sympy
from sympy import DiracDelta, Dummy, Expr, Rational, S, Symbol

from tplimits.errors import EvaluationError
from tplimits.law.closed_forms.integrand import patience
from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.numbers.expansion.averages import ROOT
from tplimits.program.network.differentiate import partials
from tplimits.program.nodes.digits import NOT_NUMBERS
from tplimits.program.nodes.entries import Entry, GaussMean, axis_symbol
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.parts import found, holds, put_in
from tplimits.regimes.finite_width.shorter import tidy

#: floats that were written as decimals have denominators above this
_BINARY = 1 << 30
#: nodes of a coefficient of a mean that are still simplified
_PATIENCE = 2000


class NoClosedForm(EvaluationError):
    """A mean that is no expression in known functions."""


@dataclass(frozen=True)
class Jet:
    """A vector, or a scalar, to order 1/n."""

    value: Expr
    slopes: Mapping[int, Expr] = field(default_factory=dict)
    shift: Expr = S.Zero

    @property
    def is_fixed(self) -> bool:
        """Whether it is a function of its own neuron alone, the same at every width: shifts come of slopes."""
        return not self.slopes


def decimal(expr: Expr) -> Expr:
    """An expression with 1/5 for the float 0.2."""
    swap = {r: Rational(repr(float(r))) for r in found(expr, Rational) if r.q > _BINARY}
    swap |= {f: Rational(repr(float(f))) for f in found(expr, sympy.Float)}
    return expr.xreplace(swap)


def _terms(expr: Expr) -> Iterator[Expr]:
    """Products that add up to an expression; what stands in functions stays as it is."""
    heads = {f: Dummy() for f in found(expr, sympy.Function)}
    back = {name: f for f, name in heads.items()}
    return (term.xreplace(back) for term in sympy.Add.make_args(sympy.expand(put_in(expr, heads, {}))))


class ClosedAverages:
    """All averages so far; `ratios` are widths relative to n."""

    def __init__(self, ratios: Mapping[str, Rational]) -> None:
        self.ratios = ratios
        self.labels: list[str] = []
        self._gaussians = Gaussians()
        self._engine = Expectations(self._gaussians)
        #: ψ of each average, by axis, and the coefficient of n^(−1/2) in its mean
        self._influences: list[dict[str, Expr]] = []
        self._roots: list[Expr] = []
        self._covariances: dict[tuple[int, int], Expr] = {}
        #: symbols for numbers that are sums, and what they are
        self._names: dict[Expr, Expr] = {}
        self._constants: dict[Expr, Expr] = {}

    def mean(self, expr: Expr, label: str) -> Expr:
        """E over all normal variables; NoClosedForm where there is none."""
        with patience(_PATIENCE):
            value = self._engine.mean(self._named(self._checked(expr, label))).xreplace(self._constants)
        if self._gaussians.of(value) or any(s in self._engine.moments for s in value.free_symbols):
            raise NoClosedForm(f"{label} has no closed form: E[{sympy.sstr(expr)[:200]}].")
        return tidy(value)

    def _named(self, expr: Expr) -> Expr:
        """With symbols for numbers that are sums: means are short in their coefficients, not in what these hold."""
        swap: dict[Expr, Expr] = {}
        for number in found(expr, sympy.Add, sympy.Pow):
            if number.is_number and holds(number, sympy.Add):
                if number not in self._names:
                    sign = 1 if number.is_positive else -1
                    name = Symbol(f"p{len(self._names)}", positive=True)
                    self._names[number], self._constants[name] = sign * name, sign * number
                swap[number] = self._names[number]
        return put_in(expr, swap, {}) if swap else expr

    def _checked(self, expr: Expr, label: str) -> Expr:
        """An integrand whose deltas stand beside what functions are there: δ(c) f is δ(c) f on c = 0."""
        if not holds(expr, DiracDelta, sympy.Derivative):
            return expr
        terms = [self._at_its_place(term, label) for term in _terms(expr)]
        return sympy.Add(*terms)

    def _at_its_place(self, term: Expr, label: str) -> Expr:
        deltas = found(term, DiracDelta)
        if not deltas and not holds(term, sympy.Derivative):
            return term
        delta = next(iter(deltas), S.One)
        beside = term / delta
        if len(delta.args) > 1 or holds(beside, DiracDelta, sympy.Derivative):
            raise NoClosedForm(f"{label} has no closed form: it holds a second derivative of a jump.")
        root = self._root(delta.args[0], label)
        undecided = {f: Dummy() for f in found(beside, *JUMPS) if sympy.expand(f.args[0].xreplace(root)) == 0}
        there = beside.xreplace(undecided).xreplace(root)
        if holds(there, Dummy):
            raise NoClosedForm(f"{label} has no closed form: a jump stands at the place of another one.")
        return delta * there

    def _root(self, bent: Expr, label: str) -> dict[Expr, Expr]:
        """A variable, and the one place of it where an argument is zero, whatever the other variables are."""
        slopes = ((v, sympy.expand(sympy.diff(bent, v))) for v in self._gaussians.of(bent))
        for v, slope in slopes:
            if slope.is_number and slope != 0:
                return {v: sympy.expand(v - bent / slope)}
        where = sympy.sstr(bent)[:200]
        raise NoClosedForm(f"{label} has no closed form: its kink where {where} = 0 is at no one place of a variable.")

    def covariance(self, i: int, k: int) -> Expr:
        """C of two averages; n^(−1/2) does not fluctuate."""
        if ROOT in (i, k):
            return S.Zero
        key = (min(i, k), max(i, k))
        if key not in self._covariances:
            one, other = (self._influences[j] for j in key)
            label = f"the covariance of {self.labels[key[0]]} and {self.labels[key[1]]}"
            self._covariances[key] = tidy(
                sympy.Add(*(self.mean(one[a] * other[a], label) / self.ratios[a] for a in one if a in other))
            )
        return self._covariances[key]

    def root(self, i: int) -> Expr:
        """The coefficient of n^(−1/2) in the mean of an average, or of n^(−1/2) itself."""
        return S.One if i == ROOT else self._roots[i]

    def inner(self, a: Mapping[int, Expr], b: Mapping[int, Expr]) -> Expr:
        """⟨d, d'⟩ = Σ_ik d_i (C_ik + r_i r_k) d'_k."""
        pairs = ((i, k, d * e) for i, d in a.items() for k, e in b.items())
        return sympy.Add(*(d * (self.covariance(i, k) + self.root(i) * self.root(k)) for i, k, d in pairs))

    def normal(self, axis: str, variance: float) -> Jet:
        """A vector that is new."""
        number = len(self._gaussians.source)
        return Jet(sympy.sqrt(variance) * self._gaussians.add(f"g{number}", InitialSource(number, ())))

    def average(self, x: Jet, axis: str, label: str) -> Jet:
        """Avg x over an axis, as a scalar."""
        value = self.mean(x.value, label)
        if x.is_fixed and not self._gaussians.of(x.value):
            return Jet(value)
        slopes = {i: d for i, e in x.slopes.items() if (d := self.mean(e, label)) != 0}
        influence = {axis: x.value - value}
        for i, d in slopes.items():
            for place, psi in self._influences[i].items() if i != ROOT else ():
                influence[place] = influence.get(place, S.Zero) + d * psi
        cross = [
            self.mean(d * self._influences[i][axis], label)
            for i, d in x.slopes.items()
            if i != ROOT and axis in self._influences[i]
        ]
        shift = self.mean(x.shift, label) + sympy.Add(*cross) / self.ratios[axis]
        self.labels.append(label)
        self._influences.append({a: sympy.expand(psi) for a, psi in influence.items()})
        self._roots.append(tidy(sympy.Add(*(d * self.root(i) for i, d in slopes.items()))))
        return Jet(value, {len(self.labels) - 1: S.One}, tidy(shift))

    def sum(self, *jets: Jet) -> Jet:
        """A sum."""
        slopes: dict[int, Expr] = {}
        for x in jets:
            for i, d in x.slopes.items():
                slopes[i] = slopes.get(i, S.Zero) + d
        return Jet(sympy.Add(*(x.value for x in jets)), slopes, sympy.Add(*(x.shift for x in jets)))

    def scaled(self, x: Jet, factor: float) -> Jet:
        """A number times x."""
        c = decimal(sympy.sympify(factor))
        return Jet(c * x.value, {i: c * d for i, d in x.slopes.items()} if c != 0 else {}, c * x.shift)

    def product(self, u: Jet, w: Jet) -> Jet:
        """u w."""
        a, b = (Entry(sympy.Integer(k), axis_symbol("own")) for k in range(2))
        return self.function(a * b, {a: u, b: w})

    def power(self, x: Jet, power: float) -> Jet:
        """A power of a positive scalar."""
        a = Entry(S.Zero, axis_symbol("own"))
        return self.function(a ** Rational(power), {a: x})

    def function(self, expr: Expr, known: Mapping[Expr, Jet]) -> Jet:
        """F(u, w, …) by Ito's rule; NoClosedForm where a derivative is missing at the limit."""
        if holds(expr, GaussMean):
            raise NoClosedForm("a mean over a variable that no neuron has (tp.expect) is not expanded in closed form.")
        at = {e: x.value for e, x in known.items()}
        slopes: dict[int, Expr] = {}
        shift: list[Expr] = []
        for first in partials(expr, Dummy):
            x = known[first.entry]
            if x.is_fixed:
                continue
            here = self._at(first.value, at)
            for i, d in x.slopes.items():
                slopes[i] = slopes.get(i, S.Zero) + here * d
            shift.append(here * x.shift)
            for second in partials(first.value, Dummy):
                y = known[second.entry]
                if x.slopes and y.slopes:
                    shift.append(self._at(second.value, at) * self.inner(x.slopes, y.slopes) / 2)
        return Jet(self._at(expr, at), slopes, sympy.Add(*shift))

    def _at(self, expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
        value = expr.xreplace(dict(values))
        if found(value, *NOT_NUMBERS):
            raise NoClosedForm(f"`{sympy.sstr(expr)[:200]}` is not finite at the limit of its arguments.")
        return value
