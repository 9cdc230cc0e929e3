"""L, b and C as exact numbers, where every mean behind them has a closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Rational, S, Symbol

from tplimits.errors import EvaluationError, ProgramError
from tplimits.law.kets import key_of
from tplimits.law.observables import Observable, keys
from tplimits.law.unroll import indices
from tplimits.numbers.expansion.averages import ROOT
from tplimits.numbers.expansion.reading import Reading, Use
from tplimits.program.nodes.entries import NO_NEURON, Entry, entries, width_symbol
from tplimits.program.parts import found
from tplimits.regimes.finite_width.closed import ClosedAverages, Jet, NoClosedForm, decimal
from tplimits.regimes.finite_width.report import as_text, remainder
from tplimits.regimes.finite_width.results import Expansion, expansions
from tplimits.regimes.finite_width.shorter import tidy

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.numbers.expansion.tables import Table
    from tplimits.program.nodes.kinds import InitialScalar, InitialVector, OuterNonlin, ScalarNonlin

#: n^(−1/2), as an entry that bodies read
_ROOT = Entry(sympy.Integer(-1), NO_NEURON)
#: a direction whose squared length is below this in the limit has none
_VANISHING = 1e-12
#: closed forms and numbers agree to this, beside the errors of the numbers
_AGREE = 1e-6


@dataclass(frozen=True)
class ExactExpansion:
    """E θ = L + r/√n + b/n + … and Cov(θ, θ′) = C/n + … with L, r, b and C as SymPy expressions.

    What is `random` in the limit is √n·θ, and its C that of θ.

    >>> import tplimits as tp
    >>> @tp.program
    ... def tied(W: tp.Matrix, x: tp.Vector):
    ...     return tp.avg(tp.relu(W.T @ tp.relu(W @ x)))
    >>> tp.derive(tied, tp.FiniteWidth()).exact().bias("return")
    -13*sqrt(6)/(72*sqrt(pi))
    """

    limits: Mapping[str, Expr]
    biases: Mapping[str, Expr]
    roots: Mapping[str, Expr]
    random: frozenset[str]
    #: C, or why a mean of two functions has no closed form
    _covariances: Mapping[tuple[str, str], Expr | NoClosedForm] = field(repr=False)

    def limit(self, name: str) -> Expr:
        """L of a scalar."""
        return self.limits[self._known(name)]

    def bias(self, name: str) -> Expr:
        """b of a scalar."""
        return self.biases[self._known(name)]

    def root(self, name: str) -> Expr:
        """The coefficient of n^(−1/2) in the mean of a scalar."""
        return self.roots[self._known(name)]

    def covariance(self, a: str, b: str | None = None) -> Expr:
        """C of two scalars, or of one with itself; EvaluationError where that alone has no closed form."""
        found = self._covariances[self._known(a), self._known(a if b is None else b)]
        if isinstance(found, NoClosedForm):
            raise found
        return found

    def closes(self, a: str, b: str | None = None) -> bool:
        """Whether the covariance of two scalars has a closed form."""
        return not isinstance(self._covariances[self._known(a), self._known(a if b is None else b)], NoClosedForm)

    def _known(self, name: str) -> str:
        if name not in self.limits:
            raise ProgramError(f"no scalar `{name!s:.200}` was asked for; there are {', '.join(self.limits)}.")
        return name

    def __str__(self) -> str:
        wide = max(map(len, self.limits))
        return "\n".join(f"{name:<{wide}}  {self._in_words(name)}" for name in self.limits)

    def _in_words(self, name: str) -> str:
        told = f"L = {self.limits[name]}  b = {self.biases[name]}  C = {self._shown(name, str)}"
        if name in self.random:
            told = f"random in the limit, variance {self._shown(name, str)}"
        return told if self.roots[name] == 0 else f"{told}  and {self.roots[name]}/√n"

    def _repr_latex_(self) -> str:
        rows = []
        for name, value in self.limits.items():
            left, variance, rest = as_text(name), self._shown(name, sympy.latex), remainder(self.roots[name] != 0)
            if name in self.random:
                rows.append(rf"{left} &\to N\left(0, {variance}\right)")
                continue
            root = (
                rf" + \frac{{1}}{{\sqrt n}}\left({sympy.latex(self.roots[name])}\right)"
                if self.roots[name] != 0
                else ""
            )
            bias = rf"\frac{{1}}{{n}}\left({sympy.latex(self.biases[name])}\right)"
            mean = rf"\mathrm{{E}}\,{left} &= {sympy.latex(value)}{root} + {bias} + {rest}"
            rows.append(rf"{mean}, & \mathrm{{Var}}\,{left} &= \frac{{1}}{{n}}\left({variance}\right) + {rest}")
        return "$$\\begin{aligned}" + r" \\ ".join(rows) + "\\end{aligned}$$"

    def _shown(self, name: str, shown: Callable[[Expr], str]) -> str:
        variance = self._covariances[name, name]
        return "?" if isinstance(variance, NoClosedForm) else shown(variance)


class _Exactly(Reading[Jet]):
    """A pass in symbols; directions exist as one drawn network had them."""

    averages: ClosedAverages

    def __init__(self, table: Table) -> None:
        super().__init__(table.program)
        self.numbers, self.exist = table.numbers, table.seen.exist
        self.averages = ClosedAverages({w: _rational(r) for w, r in table.numbers.ratios.items()})
        self._widths = {width_symbol(w): self.averages.ratios[w] for w in self.program.widths}
        self._leaves = {leaf: _rational(v) for leaf, v in table.numbers.leaves.items() if leaf not in self._widths}

    def run(self, wanted: frozenset[int]) -> None:
        """The instructions that are wanted, and no others: their means may have no closed form."""
        for position, s in enumerate(self.program.instructions):
            self._where = self.program.where(position)
            for index in indices(self.program, s.axes) if position in wanted else ():
                self.read(s, (position, index))

    def initial_vector(self, s: InitialVector, key: Key) -> None:
        mean, std = (decimal(v.xreplace(self._leaves)) for v in (s.law.mean, s.law.std))
        if std == 0:
            self.jets[key] = Jet(mean)
            return
        if s.law.shape == "signs":
            raise NoClosedForm(f"{self._where}: entries of `{s.name}` are signs, which no closed form is known for.")
        g = Symbol("g", real=True)
        shaped = s.law.shaped(g).xreplace({g: self.averages.normal(s.over, 1).value})
        self.jets[key] = Jet(mean + std * shaped)

    def initial_scalar(self, s: InitialScalar, key: Key) -> None:
        self.jets[key] = Jet(_rational(self.numbers.scalars[key]))

    def scalar(self, s: ScalarNonlin, key: Key) -> None:
        body = self._in_roots(self._body(s, key))
        rest = body * _ROOT
        if body.is_Mul and body.as_powers_dict()[_ROOT] == -1:
            self.fluctuations[key] = self._read(rest)
        else:
            self.jets[key] = self._read(body)

    def outer(self, s: OuterNonlin, key: Key) -> None:
        if s.slots:
            raise NoClosedForm(f"{self._where}: `{s.name}` is a function of two neurons, not expanded in closed form.")
        self.jets[key] = self._read(self._body(s, key))

    def _read(self, expr: Expr) -> Jet:
        body = decimal(self._in_roots(expr).xreplace(self._leaves))
        known = {e: self.jets[key_of(e)] for e in entries(body) if e != _ROOT}
        return self.averages.function(body, {**known, _ROOT: Jet(S.Zero, {ROOT: S.One})})

    def _in_roots(self, expr: Expr) -> Expr:
        """Powers of widths ρ n as those of n^(−1/2)."""
        powers = [p for p in found(expr, sympy.Pow) if p.base in self._widths and p.exp.is_number]
        swap = {p: self._widths[p.base] ** p.exp * _ROOT ** (-2 * p.exp) for p in powers}
        return expr.xreplace(swap).xreplace({w: ratio / _ROOT**2 for w, ratio in self._widths.items()})

    def _is_new(self, use: Use, rest: Jet, square: Jet, name: str) -> bool:
        if self.exist[use] and abs(float(rest.value)) < _VANISHING:
            self._refuse_vanishing(use, name)
        return self.exist[use]


def _rational(value: float) -> Rational:
    return Rational(repr(float(value)))


def exactly(table: Table, observables: Sequence[Observable]) -> ExactExpansion:
    """L, b and C of some scalars in closed form.

    Raises NoClosedForm where a mean has none; EvaluationError should they differ from the numbers.
    """
    run = _Exactly(table)
    run.run(table.program.behind(key[0] for o in observables for key in keys(o)))
    do, jets = run.averages, {o.label: run.observed(o) for o in observables}
    random = frozenset(o.label for o in observables if table.value.random[table.labels.index(o.label)])
    covariances = {(a, b): _covariance(do, u, w) for a, u in jets.items() for b, w in jets.items()}
    limits = {name: tidy(x.value) for name, x in jets.items()}
    # of √n·θ, what is b/n of θ
    roots = {
        name: tidy(x.shift if name in random else sympy.Add(*(d * do.root(i) for i, d in x.slopes.items())))
        for name, x in jets.items()
    }
    biases = {name: S.Zero if name in random else tidy(x.shift) for name, x in jets.items()}
    exact = ExactExpansion(limits, biases, roots, random, covariances)
    _compare(exact, expansions(table))
    return exact


def _covariance(do: ClosedAverages, u: Jet, w: Jet) -> Expr | NoClosedForm:
    """Σ_ik d_i C_ik d'_k."""
    try:
        pairs = ((i, k, x * y) for i, x in u.slopes.items() for k, y in w.slopes.items())
        return tidy(sympy.Add(*(c * do.covariance(i, k) for i, k, c in pairs)))
    except NoClosedForm as open_:
        return open_


def _compare(exact: ExactExpansion, numbers: Mapping[str, Expansion]) -> None:
    """Two ways to the same numbers: EvaluationError where they part."""
    for name in exact.limits:
        of = numbers[name]
        stated = [
            ("limit", exact.limit(name), of.limit),
            ("bias", exact.bias(name), of.bias),
            ("coefficient of 1/√n", exact.root(name), of.root),
        ]
        if exact.closes(name):
            stated.append(("covariance", exact.covariance(name), of.fluctuation))
        for what, value, number in stated:
            if abs(float(value) - float(number)) > 6 * number.error + _AGREE * max(1.0, abs(float(number))):
                raise EvaluationError(
                    f"the closed form of the {what} of `{name}`, {value}, is not the number {number}: neither can be "
                    "trusted. Please report the program."
                )
