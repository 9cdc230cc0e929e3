"""Unevaluated first: means of kets as expressions, closed where the table can close them.

A mean is expanded by linearity, split along independent groups of variables, closed group by group
by the rules of `closed_forms.table`, and what stays open becomes a *moment*: a named constant with
its integrand, for the numerical stage.  Nothing is ever approximated here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.closed_forms.alike import Renamed, answers
from tplimits.law.closed_forms.integrand import Law, NotClosed, most_nodes, step_products, tidy
from tplimits.law.closed_forms.table import CLOSED_FORMS, ClosedForm, close
from tplimits.law.combinations import Combinations
from tplimits.law.effort import Effort
from tplimits.law.expanding import expanded, may_close, times, two_factors
from tplimits.law.hypotheses.moments import tail
from tplimits.law.means import BoxMean
from tplimits.law.moments import Moment, OpenMoment
from tplimits.law.turning import Turning
from tplimits.program.nodes.functions import elementary
from tplimits.program.parts import found, linked, symbols

if TYPE_CHECKING:
    from tplimits.law.gaussians import Gaussians

#: more pairs of terms than this are summed through means and covariances
_MANY_PAIRS = 400
#: a mean over more variables is not compared with others by its law
_FEW_VARIABLES = 3


class Expectations(Combinations):
    """Takes means under the joint law of all Gaussian variables of a derivation."""

    def __init__(
        self,
        gaussians: Gaussians,
        table: Sequence[ClosedForm] = CLOSED_FORMS,
        moments: dict[Symbol, Moment] | None = None,
        effort: Effort | None = None,
    ) -> None:
        super().__init__(gaussians, moments)
        self.table = table
        self.effort = effort or Effort()
        self.used_rows: dict[str, None] = {}
        self._turning = Turning(self.covariance)
        self._atom_means: dict[tuple[Expr, frozenset[Symbol] | None], Expr] = {}

    def _finite(self, term: Expr) -> bool:
        return tail(term, self.gaussians).established

    def mean(self, expr: Expr, over: Iterable[Symbol] | None = None) -> Expr:
        """E[expr] over all variables, or over the given boxed copies with the others held fixed."""
        scope = None if over is None else frozenset(over)
        if scope is None:
            # the commonest questions, answered before anything is expanded
            if (expr.is_Symbol and self.gaussians.is_random(expr)) or self._is_pair(expr):
                return self._atom_mean(expr, None)
            if not self._random(expr):
                return expr
            # a product of two kets as a bracket: pair by pair each mean is remembered, multiplied out it is not
            factors = two_factors(expr, self._random)
            if factors is not None:
                return self.inner(*factors)
            split = self.terms(expr)
        else:
            split = self._split(expr, scope)
        return sympy.Add(*(times(c, self._atom_mean(a, scope)) for a, c in split.items()))

    def inner(self, a: Expr, b: Expr) -> Expr:
        """⟨a|b⟩ = E[a b], term by term so that each pair of terms is done once."""
        left, right = self.terms(a), self.terms(b)
        # pairs without a common source need no mean of their own: E x E y
        if len(left) * len(right) > _MANY_PAIRS:
            return self._inner_by_covariances(left, right)
        parts = []
        # a square: every mixed pair stands in it twice
        if left is right:
            atoms = list(left.items())
            for i, (x, c) in enumerate(atoms):
                parts.append(times(c, c, self._pair_mean(x, x)))
                parts += [times(2 * c, d, self._pair_mean(x, y)) for y, d in atoms[i + 1 :]]
        else:
            parts = [times(c, d, self._pair_mean(x, y)) for x, c in left.items() for y, d in right.items()]
        return sympy.Add(*(p for p in parts if p != 0))

    def _inner_by_covariances(self, left: dict[Expr, Expr], right: dict[Expr, Expr]) -> Expr:
        """⟨a|b⟩ = E a E b + Σ Cov over the pairs of terms that share a source: few, for long sums."""
        means = {x: self._atom_mean(x, None) for x in (*left, *right)}
        sources = {x: self._sources(x) for x in means}
        product = sympy.Mul(*(sympy.Add(*(times(c, means[x]) for x, c in side.items())) for side in (left, right)))
        parts = [product]
        for x, c in left.items():
            for y, d in right.items():
                # E x y − E x E y, where the second part is in the product of the means already
                if not sources[x].isdisjoint(sources[y]):
                    parts.append(times(c, d, self._pair_mean(x, y)))
                    parts.append(-c * d * means[x] * means[y])
        return sympy.Add(*(p for p in parts if p != 0))

    def _sources(self, atom: Expr) -> set[object]:
        """What an atom is made of: initial variables, matrices, boxes; disjoint sources are independent."""
        return {self.gaussians.family(s) for s in self.gaussians.of(atom)}

    def _pair_mean(self, x: Expr, y: Expr) -> Expr:
        if x.is_Symbol and y.is_Symbol and x in self.gaussians and y in self.gaussians:
            return self.covariance(x, y)
        return self._atom_mean(x * y, None)

    def covariance(self, a: Symbol, b: Symbol) -> Expr:
        return self.gaussians.covariance(a, b)

    def _atom_mean(self, atom: Expr, scope: frozenset[Symbol] | None) -> Expr:
        if atom == 1:
            return S.One
        key = (atom, scope)
        if key not in self._atom_means:
            self._atom_means[key] = self._compute(atom, scope)
        return self._atom_means[key]

    def _compute(self, atom: Expr, scope: frozenset[Symbol] | None) -> Expr:
        self.effort.read(atom)
        if scope is None and atom in self.gaussians.long:
            # independent groups cannot be told inside of a name
            return self.open(atom)  # no row of the table sees through a name
        if scope is None and self._is_pair(atom):
            with contextlib.suppress(NotClosed):
                return self._pair_closed(*atom.args)
        merged, boxed, copies = self._merge_boxes(atom)
        if boxed:
            # given copies stay fixed while those of the merged boxes are integrated together with the scope
            wider = None if scope is None else scope | boxed
            value = sympy.Add(*(c * self._atom_mean(a, wider) for a, c in self._split(merged, wider).items()))
            if (
                scope is None
                and copies > 1
                and any(isinstance(self.moments.get(s), OpenMoment) for s in symbols(value))
            ):
                return self._product_mean(atom, scope)  # open anyway: nested, the integral has fewer dimensions
            return value
        opened = expanded(atom, self._random, self._finite)
        # only now: as long as it was one factor, it could be closed or be odd as a whole
        if opened != atom and opened.is_Add:  # a product of two sums
            return sympy.Add(*(c * self._atom_mean(a, scope) for a, c in self._split(opened, scope).items()))
        return self._product_mean(atom, scope)

    def _is_pair(self, atom: Expr) -> bool:
        return atom.is_Mul and len(atom.args) == 2 and all(a in self.gaussians for a in atom.args)

    def _pair_closed(self, x: Symbol, y: Symbol) -> Expr:
        """E[x y] of two variables, as the table has it."""
        if not any(row.name == "isserlis" for row in self.table):
            raise NotClosed
        value = tidy(self.covariance(x, y))
        if value != 0:
            self.used_rows.setdefault("isserlis")
        return value

    def _merge_boxes(self, atom: Expr) -> tuple[Expr, frozenset[Symbol], int]:
        """Fubini: box means standing as factors are pulled into the mean, each with its own copies."""
        factors: list[Expr] = []
        boxed: set[Symbol] = set()
        copies = 0
        # boxes inside of functions, as in exp(E□ a), are not merged, and their copies may not be used a second time
        others = (f for f in sympy.Mul.make_args(atom) if not isinstance(f.as_base_exp()[0], BoxMean))
        nested = {v for f in others for b in f.atoms(BoxMean) for v in b.boxed}
        for factor in sympy.Mul.make_args(atom):
            base, power = factor.as_base_exp()
            if isinstance(base, BoxMean) and power.is_Integer and power > 0:
                for _ in range(int(power)):
                    copies += 1
                    # E□ a · E□ b is a mean over two boxes: the second gets copies of its own, or both would move
                    # together
                    fresh = self._fresh(base) if (boxed | nested) & set(base.boxed) else base
                    factors.append(fresh.integrand)
                    boxed |= set(fresh.boxed)
            else:
                factors.append(factor)
        return (sympy.Mul(*factors), frozenset(boxed), copies) if copies else (atom, frozenset(), 0)

    def _fresh(self, node: BoxMean) -> BoxMean:
        box = self.gaussians.new_box()
        return node.xreplace({s: self.gaussians.copy(s, box) for s in node.boxed})

    def rename_boxes(self, expr: Expr) -> Expr:
        """The expression with every box mean on fresh copies (before it is copied into a box itself)."""
        nodes = expr.atoms(BoxMean)
        return expr.xreplace({node: self._fresh(node) for node in nodes}) if nodes else expr

    def _variables(self, expr: Expr, scope: frozenset[Symbol] | None) -> list[Symbol]:
        names = (s for s in self.gaussians.of(expr) if scope is None or s in scope)
        return sorted(names, key=lambda s: s.name)

    def _groups(
        self, factors: Sequence[Expr], scope: frozenset[Symbol] | None
    ) -> list[tuple[list[Expr], list[Symbol]]]:
        """Factors gathered into independent groups with their variables."""

        def dependent(mine: AbstractSet[Symbol], others: AbstractSet[Symbol]) -> bool:
            # uncorrelated Gaussians are independent, so that means factor; asked pair by pair, no joint law is built
            return any(a == b or self.covariance(a, b) != 0 for a in mine for b in others)

        groups = linked(((factor, self._variables(factor, scope)) for factor in factors), dependent)
        return [(group, sorted(variables, key=lambda s: s.name)) for group, variables in groups]

    def _product_mean(self, atom: Expr, scope: frozenset[Symbol] | None) -> Expr:
        result = S.One
        for factors, variables in self._groups(sympy.Mul.make_args(atom), scope):
            result = times(result, self._group_mean(sympy.Mul(*factors), variables, scope))
            if result == 0:
                return S.Zero
        return result

    def _group_mean(self, product: Expr, variables: list[Symbol], scope: frozenset[Symbol] | None) -> Expr:
        if not variables:
            return product
        value = self._as_before(product, variables) if scope is None else self._known(product, variables, scope)
        if value is not None:
            return value
        # a mean over boxes that reads the neuron's own variables is a function of these, not a number
        if scope is not None and self.gaussians.of(product) - scope:
            return BoxMean(product, *variables)
        return self.open(product)

    def _as_before(self, product: Expr, variables: list[Symbol]) -> Expr | None:
        """What is known of a mean, of one that differs by names alone if there was one; None where it stays open."""
        if len(variables) > _FEW_VARIABLES or not self._may_close(product):
            return self._known(product, variables, None)
        law = [self.covariance(a, b) for i, a in enumerate(variables) for b in variables[i:]]
        if len(law) == 1 and law[0].is_Rational:  # cheaper to integrate than to compare
            return self._known(product, variables, None)
        renamed = Renamed([product, *law, *variables])
        if not renamed.is_faithful:
            return self._known(product, variables, None)
        answer = answers(tuple(self.table), most_nodes(), renamed.parts)
        if not answer:
            others, self.used_rows = self.used_rows, {}
            value = self._known(product, variables, None)
            answer += [value if value is None else renamed.there(value), tuple(self.used_rows)]
            self.used_rows = others
        value, rows = answer
        self.used_rows.update(dict.fromkeys(rows))
        return value if value is None else renamed.back(value)

    def _known(self, product: Expr, variables: list[Symbol], scope: frozenset[Symbol] | None) -> Expr | None:
        """0 by symmetry, or a closed form; None where there is neither."""
        # before anything is rewritten: E x tanh² x vanishes without a closed form
        if not self._hides_signs(product) and self._turning.is_odd(product, variables):
            return S.Zero
        try:
            return self._closed(product, scope)
        except NotClosed:
            return None

    def _hides_signs(self, product: Expr) -> bool:
        """Whether names of long factors stand in it: no row of the table, and no sign, is seen inside of them."""
        return not self.gaussians.long.keys().isdisjoint(found(product, Symbol))

    def _closed(self, product: Expr, scope: frozenset[Symbol] | None) -> Expr:
        """The mean by the table; NotClosed when one term of it is open."""
        if not self._may_close(product):
            raise NotClosed
        # rewritten in steps, exponentials, waves and polynomials: the kinds that rows of the table remove
        simple = expanded(step_products(elementary(product)), self._random, self._finite)
        parts = []
        for term in sympy.Add.make_args(simple):
            constant: list[Expr] = []
            random: list[Expr] = []
            for factor in sympy.Mul.make_args(term):
                (random if self._variables(factor, scope) else constant).append(factor)
            value = sympy.Mul(*constant)
            # again by independent groups: after expanding, terms fall apart that were linked as a whole
            for factors, variables in self._groups(random, scope):
                closed, rows = close(factors, variables, functools.partial(self._law, variables), self.table)
                self.used_rows.update(dict.fromkeys(rows))
                value *= closed
            parts.append(value)
        return tidy(sympy.Add(*parts))

    def _may_close(self, product: Expr) -> bool:
        return not self._hides_signs(product) and may_close(product, self._random)

    def _law(self, variables: Sequence[Symbol]) -> Law:
        return Law(tuple(tuple(self.covariance(a, b) for b in variables) for a in variables))
