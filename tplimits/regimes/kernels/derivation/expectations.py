"""Means of products of kets of two inputs: independent groups, Gaussian forms, and what is left as a moment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence

import sympy
from sympy import DiracDelta, Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.closed_forms.isserlis import gaussian_polynomial
from tplimits.program.nodes.entries import AxisSum, free_indices, variable
from tplimits.program.nodes.functions import elementary
from tplimits.program.parts import found, linked
from tplimits.regimes.kernels.derivation.deltas import conditional, without_vanishing_deltas
from tplimits.regimes.kernels.derivation.forms import Forms, scales_outside
from tplimits.regimes.kernels.derivation.infinite import limit_of_sum, members_summed, with_infinite_axes
from tplimits.regimes.kernels.derivation.leaves import (
    ONE_SIDE,
    DrawMean,
    Moment,
    NoTangentKernel,
    Of,
    Slot,
    Unknown,
    plain_axis,
)
from tplimits.regimes.kernels.derivation.nodes import overlap
from tplimits.regimes.kernels.derivation.openings import Openings
from tplimits.regimes.kernels.derivation.terms import Term, collapsed, connected, is_random, products, terms

#: functions of more logits than this are averaged over draws of the logits
MOST_LOGITS = 6
#: a moment of more correlated variables than this is not offered: its integrand takes minutes to derive
MOST_VARIABLES = 22


def _stands_in_pole(leaf: Of, factors: Sequence[Expr]) -> bool:
    """Whether a denominator reads a node: terms of b = b̂ + ½ beside 1/(x² + b²) have no moments each for itself."""
    powers = (p for f in factors for p in f.atoms(sympy.Pow) if p.exp.could_extract_minus_sign())
    return any(p.base.has(leaf) for p in powers)


class Expectations(Openings):
    """Takes means under the joint law of all nodes; `nodes`, `mean_of`, `inner`, `form` come from the tables."""

    infinite: frozenset[str]

    @abstractmethod
    def mean_of(self, leaf: Of) -> Expr:
        """E of one node."""

    @abstractmethod
    def inner(self, a: Of, b: Of) -> Expr:
        """E of a product of two nodes."""

    @abstractmethod
    def shown(self, value: Expr) -> str:
        """A mean as text."""

    def mean(self, expr: Expr) -> Expr:
        """E[expr] over everything random."""
        return self.mean_of_terms(terms(expr))

    def mean_of_terms(self, found: Iterable[Term]) -> Expr:
        parts = []
        for term in [t for whole in found for t in self._with_sums_opened(whole)]:
            parts += [
                collapsed(t.coefficient * value, t.bounds)
                for t, value in with_infinite_axes(term, self.infinite, self.expect, self.shown)
                if value != 0
            ]
        return self.settled(sympy.Add(*parts))

    def _with_sums_opened(self, term: Term) -> list[Term]:
        """The term with sums over infinite axes written out where a member, which is a part of them, stands beside.

        Where a function reads them, the sum of these members is a variable, too.
        """
        if not (axes := {a for _, axis in term.bounds if (a := plain_axis(axis.name)) in self.infinite}):
            return [term]
        for i, factor in enumerate(term.factors):
            others = (*term.factors[:i], *term.factors[i + 1 :])
            beside = [o for o in others if any(plain_axis(x.name) in axes for x in free_indices(o))]
            if not self._sums_over(factor, axes) or not any(
                overlap(self._sources(factor), self._sources(o)) for o in beside
            ):
                continue
            if isinstance(factor, Of):
                spread = products([terms(self.opened(factor)), [Term(term.coefficient, term.bounds, others)]])
            else:
                index = next(x for x, a in term.bounds if plain_axis(a.name) in axes and x in free_indices(beside[0]))
                limit = limit_of_sum(self, term, index)
                assert limit is not None  # of a sum that need not be centred there always is one
                spread = [limit]
            return [t for whole in spread for t in self._with_sums_opened(whole)]
        return [term]

    def _sums_over(self, factor: Expr, axes: Collection[str]) -> bool:
        bodies = (self.nodes[leaf.node].body for leaf in self.leaves(factor))
        return any(body is not None and members_summed(body, axes) for body in bodies)

    def expect(self, factors: Sequence[Expr]) -> Expr:
        """E of a product of random factors."""
        if sum(self.degree(f) for f in factors) % 2:
            return S.Zero  # the law of δθ does not notice its sign
        if not factors:
            return S.One
        # tangents out of functions: given the others they are Gaussian, and their mean is a bracket
        opened = [self._tangents_outside(f) for f in factors]
        if any(opened):
            lists = [o or [Term(S.One, (), (f,))] for o, f in zip(opened, factors, strict=True)]
            return sympy.Add(*(t.coefficient * self.expect(t.factors) for t in products(lists)))
        result = S.One
        for group in self._groups(factors):
            result *= self._group(group)
            if result == 0:
                return S.Zero
        return result

    def degree(self, factor: Expr) -> int:
        """How often δθ stands in a factor: tangents enter linearly."""
        if isinstance(factor, (Of, Slot)):
            return self.nodes[factor.node].degree
        return max((self.nodes[leaf.node].degree for leaf in self.leaves(factor)), default=0)

    def _tangents_outside(self, factor: Expr) -> list[Term]:
        """A function that is linear in tangents, ẋ/(1 + u²) − 2u² ẋ/(1 + u²)², as (function of u) × ẋ; else nothing."""
        if isinstance(factor, (Of, Slot)) or factor.has(AxisSum) or not self.degree(factor):
            return []
        found = []
        for leaf in sorted(self.leaves(factor), key=sympy.default_sort_key):
            if self.nodes[leaf.node].degree:
                place = sympy.Dummy(real=True)
                slope = sympy.together(factor.xreplace({leaf: place}).diff(place))
                # not linear in it: left as it is
                if slope.has(place):
                    return []
                found += products([terms(slope, powers=False), [Term(S.One, (), (leaf,))]])
        return found

    def _sources(self, factor: Expr) -> frozenset:
        return frozenset().union(*(self.nodes[leaf.node].sources for leaf in self.leaves(factor)))

    def _groups(self, factors: Sequence[Expr]) -> list[list[Expr]]:
        """Factors gathered into groups that share no source of randomness."""
        return [group for group, _ in linked(((f, self._sources(f)) for f in factors), overlap)]

    def _group(self, factors: list[Expr]) -> Expr:
        if all(isinstance(f, Of) for f in factors):
            if len(factors) == 1:
                return self.mean_of(factors[0])
            if len(factors) == 2:
                return self.inner(factors[0], factors[1])
        # a node that is made of others is written out, one at a time: other factors may be closed as they stand
        for i, factor in enumerate(factors):
            if isinstance(factor, Of) and not self.nodes[factor.node].gaussian and self.nodes[factor.node].mean is None:
                inner = terms(self.opened(factor))
                if len(inner) > 1 and _stands_in_pole(factor, factors):
                    continue
                rest = [Term(S.One, (), (*factors[:i], *factors[i + 1 :]))]
                return self.mean_of_terms(products([inner, rest]))
        moving = [f for f in factors if self._is_tangent(f)]
        still = [f for f in factors if not self._is_tangent(f)]
        if moving and still and not any(map(self.degree, still)):  # uncorrelated Gaussians are independent
            return self.expect(still) * self.expect(moving)
        self.refuse_known_by_means(factors)
        # a softmax over tokens: as many variables as tokens, which no quadrature reaches
        if self._needs_draws(factors):
            return self._draw_means(factors)
        return self._moment(factors)

    def refuse_unknown(self, value: Expr) -> None:
        """NoLimitError where a mean is needed of a product of what is known by its mean alone."""
        for unknown in found(value, Unknown):
            self.refuse_known_by_means(Of(number, ONE_SIDE) for number in unknown.args)

    def _is_tangent(self, factor: Expr) -> bool:
        """Whether a factor is a Gaussian tangent: uncorrelated with all that is no tangent."""
        return isinstance(factor, Of) and self.nodes[factor.node].degree == 1 and self.nodes[factor.node].gaussian

    def _needs_draws(self, factors: list[Expr]) -> bool:
        """Whether functions couple logits along an axis, as a softmax does: a mean over as many variables as tokens."""
        leaves = self.leaves(sympy.Mul(*factors))
        for leaf in leaves:
            node = self.nodes[leaf.node]
            if node.degree or any(kind != "√n" for kind, *_ in node.sources):
                return False
        return len(leaves) > MOST_LOGITS or any(is_random(s) for f in factors for s in f.atoms(AxisSum))

    def _draw_means(self, factors: list[Expr]) -> Expr:
        """Means over draws, one for each member of an infinite family: members are independent."""
        members: dict[frozenset[Symbol], list[Expr]] = {}
        for factor in factors:
            mine = frozenset(i for i in free_indices(factor) if plain_axis(i.name) in self.infinite)
            # independent members have independent draws: a product of means, not a mean of the product
            members.setdefault(mine, []).append(self.written_out(factor))
        first = {i: S.Zero for member in members for i in member}
        return sympy.Mul(*(DrawMean(sympy.Mul(*group).xreplace(first)) for group in members.values()))

    def written_out(self, expr: Expr) -> Expr:
        """Functions written through the vectors, or the logits, that are made of no others."""
        swap = {x: self.written_out(self.opened(x)) for x in self.leaves(expr) if self.nodes[x.node].body is not None}
        return expr.xreplace(swap)

    def _moment(self, factors: list[Expr]) -> Expr:
        """E of functions of Gaussian nodes: forms, their covariances, independent groups again."""
        forms = Forms(self)
        written = forms.without_multiples([forms.factor(f) for f in factors])
        # one node in two forms makes a singular law of two variables: taken apart it is one variable
        if forms.collides():
            forms = Forms(self, absorb=False)
            written = forms.without_multiples([forms.factor(f) for f in factors])
        covariance = {}
        for i, (z, a) in enumerate(forms.variables.items()):
            for w, b in list(forms.variables.items())[i:]:
                covariance[z, w] = covariance[w, z] = self.inner(a, b)
        return self._independent([p for f in written for p in sympy.Mul.make_args(f)], covariance, forms)

    def _independent(self, pieces: list[Expr], covariance: dict, forms: Forms) -> Expr:
        """E of a product, group by group of correlated variables."""
        result = sympy.Mul(*(p for p in pieces if not p.free_symbols & set(forms.variables)))
        if result.free_symbols & set(forms.parameters):
            result = result.xreplace(forms.parameters)
        for group, used in connected([p for p in pieces if p.free_symbols & set(forms.variables)], covariance):
            result *= self._one_moment(sympy.Mul(*group), used, covariance, forms)
            if result == 0:
                return S.Zero
        return result

    def _one_moment(self, integrand: Expr, used: list[Symbol], covariance: dict, forms: Forms) -> Expr:
        # a form that vanishes is a constant 0 in the integrand
        used = [z for z in used if covariance[z, z] != 0]
        integrand = integrand.xreplace(
            {z: S.Zero for z in integrand.free_symbols if z in forms.variables and z not in used}
        )
        if not used:  # functions of vectors that vanish
            return integrand.xreplace(forms.parameters)
        if integrand.xreplace({z: -z for z in used}) == -integrand:
            return S.Zero
        # z δ(z) = 0 of continuous functions: most deltas of kinks end here
        integrand = without_vanishing_deltas(integrand, used)
        polynomial = gaussian_polynomial(integrand, used, covariance)
        if polynomial is not None:
            return polynomial.xreplace(forms.parameters)
        if integrand.has(DiracDelta):
            # a product has those of its factors: what is refused is not multiplied out first
            factors = [sympy.expand(elementary(f)) for f in sympy.Mul.make_args(integrand)]
            if S.Zero not in factors and any(f.has(DiracDelta) for f in factors):
                self._refuse_deltas(integrand)
                # one delta in a term, so that each leaves a conditional mean
                opened = sympy.Add.make_args(sympy.expand(sympy.Mul(*factors)))
                return self._with_deltas(opened, used, covariance, forms)
        if len(used) > MOST_VARIABLES:
            nodes = dict.fromkeys(self.nodes[forms.variables[z].node].name for z in used)
            raise NoLimitError(
                f"a mean over {len(used)} correlated Gaussian variables is needed, those of {', '.join(nodes)}, which "
                f"does not separate: E[{sympy.sstr(integrand):.200}]. At most {MOST_VARIABLES} are taken together: put "
                "a matrix between two functions, or apply functions to images W x, not to sums of functions."
            )
        parameters = sorted(integrand.free_symbols & set(forms.parameters), key=lambda s: s.name)
        # relu(p z) = p relu(z) for p > 0: without parameters inside the moment has a closed form
        free = scales_outside(integrand, parameters) if parameters else integrand
        if free != integrand:
            addends = sympy.Add.make_args(sympy.expand(free))
            parts = (self._independent(list(sympy.Mul.make_args(a)), covariance, forms) for a in addends)
            return sympy.Add(*parts)
        names = {z: variable(f"z{i}") for i, z in enumerate(used, start=1)}
        renamed = {p: variable(f"p{i}") for i, p in enumerate(parameters, start=1)}
        upper = [covariance[a, b] for i, a in enumerate(used) for b in used[i:]]
        return Moment(
            integrand.xreplace({**names, **renamed}),
            tuple(names.values()),
            tuple(upper),
            tuple(renamed.values()),
            tuple(forms.parameters[p] for p in parameters),
        )

    def _with_deltas(self, addends: Sequence[Expr], used: list[Symbol], covariance: dict, forms: Forms) -> Expr:
        """E of a sum in which deltas stand, one in a term: each leaves a mean given that its argument vanishes."""
        smooth = sympy.Add(*(a for a in addends if not a.has(DiracDelta)))
        found = self._one_moment(smooth, used, covariance, forms) if smooth != 0 else S.Zero
        for term in addends:
            if term.has(DiracDelta):
                given = conditional(term, used, covariance)
                # given that the delta's form vanishes the others have a mean
                moved = {z: z + forms.parameter(m.xreplace(forms.parameters)) for z, m in given.mean.items() if m != 0}
                pieces = list(sympy.Mul.make_args(given.integrand.xreplace(moved)))
                value = self._independent(pieces, given.covariance, forms)
                found += given.density.xreplace(forms.parameters) * value
        return found

    def _refuse_deltas(self, integrand: Expr) -> None:
        deltas = integrand.atoms(DiracDelta)
        if len(deltas) > 1 or any(p.exp != 1 for p in integrand.atoms(sympy.Pow) if p.base.has(DiracDelta)):
            shown = sympy.sstr(integrand)
            raise NoTangentKernel(
                f"the tangent kernel holds E {shown:.160}: a product of the derivatives of two jumps, which is "
                "infinite at coinciding inputs and has no limit. Train only the parameters behind the jump (train=…), "
                "or smooth it."
            )
