"""Means of products of kets of two inputs: independent groups, Gaussian forms, and what is left as a moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import sympy
from sympy import DiracDelta, Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.limit.kernels.infinite import with_infinite_axes
from tplimits.limit.kernels.isserlis import gaussian_polynomial
from tplimits.limit.kernels.leaves import (
    DrawMean,
    Moment,
    Of,
    Slot,
    free_indices,
    on_second,
    plain_axis,
    second,
)
from tplimits.limit.kernels.nodes import Node, overlap
from tplimits.limit.kernels.terms import Term, at, collapsed, is_random, products, summed, terms
from tplimits.program.entries import AxisSum, axis_symbol
from tplimits.program.functions import elementary

#: a moment of more correlated variables than this is not offered
MOST_VARIABLES = 6


class NoTangentKernel(NoLimitError):
    """The NNGP exists and the tangent kernel does not."""


class Expectations(ABC):
    """Takes means under the joint law of all nodes; `nodes`, `mean_of`, `inner`, `form` come from the tables."""

    nodes: list[Node]
    infinite: frozenset[str]

    @abstractmethod
    def mean_of(self, leaf: Of) -> Expr:
        """E of one node."""

    @abstractmethod
    def inner(self, a: Of, b: Of) -> Expr:
        """E of a product of two nodes."""

    @abstractmethod
    def form(self, expr: Expr, side: int) -> Of:
        """A Gaussian linear form as an entry of a node of its own."""

    # -- sums ---------------------------------------------------------------------------------

    def mean(self, expr: Expr) -> Expr:
        """E[expr] over everything random."""
        return self.mean_of_terms(terms(expr))

    def mean_of_terms(self, found: Iterable[Term]) -> Expr:
        parts = []
        for term in found:
            parts += [
                collapsed(t.coefficient * value, t.bounds)
                for t, value in with_infinite_axes(term, self.infinite, self.expect)
                if value != 0
            ]
        return sympy.Add(*parts)

    def expect(self, factors: Sequence[Expr]) -> Expr:
        """E of a product of random factors."""
        if sum(self.degree(f) for f in factors) % 2:
            return S.Zero  # the law of δθ does not notice its sign
        if not factors:
            return S.One
        result = S.One
        for group in self._groups(factors):
            result *= self._group(group)
            if result == 0:
                return S.Zero
        return result

    def leaves(self, expr: Expr) -> set[Of]:
        return {leaf for leaf in expr.atoms(Of) if type(leaf) is Of}

    def degree(self, factor: Expr) -> int:
        """How often δθ stands in a factor: tangents enter linearly."""
        if isinstance(factor, (Of, Slot)):
            return self.nodes[factor.node].degree
        return max((self.nodes[leaf.node].degree for leaf in self.leaves(factor)), default=0)

    def _sources(self, factor: Expr) -> frozenset:
        return frozenset().union(*(self.nodes[leaf.node].sources for leaf in self.leaves(factor)))

    def _groups(self, factors: Sequence[Expr]) -> list[list[Expr]]:
        """Factors gathered into groups that share no source of randomness."""
        groups: list[tuple[list[Expr], frozenset]] = []
        for factor in factors:
            mine, joined = self._sources(factor), [factor]
            rest = []
            for group, sources in groups:
                if overlap(sources, mine):
                    joined, mine = [*group, *joined], mine | sources
                else:
                    rest.append((group, sources))
            groups = [*rest, (joined, mine)]
        return [group for group, _ in groups]

    def _group(self, factors: list[Expr]) -> Expr:
        if all(isinstance(f, Of) for f in factors):
            if len(factors) == 1:
                return self.mean_of(factors[0])
            if len(factors) == 2:
                return self.inner(factors[0], factors[1])
        for i, factor in enumerate(factors):
            if isinstance(factor, Of) and not self.nodes[factor.node].gaussian:
                rest = [Term(S.One, (), (*factors[:i], *factors[i + 1 :]))]
                return self.mean_of_terms(products([terms(self.opened(factor)), rest]))
        moving = [f for f in factors if self._is_tangent(f)]
        still = [f for f in factors if not self._is_tangent(f)]
        if moving and still and not any(map(self.degree, still)):  # uncorrelated Gaussians are independent
            return self.expect(still) * self.expect(moving)
        if self._needs_draws(factors):
            return self._draw_means(factors)
        return self._moment(factors)

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
        return len(leaves) > MOST_VARIABLES or any(is_random(s) for f in factors for s in f.atoms(AxisSum))

    def _draw_means(self, factors: list[Expr]) -> Expr:
        """Means over draws, one for each member of an infinite family: members are independent."""
        members: dict[frozenset[Symbol], list[Expr]] = {}
        for factor in factors:
            mine = frozenset(i for i in free_indices(factor) if plain_axis(i.name) in self.infinite)
            members.setdefault(mine, []).append(self._in_logits(factor))
        first = {i: S.Zero for member in members for i in member}
        return sympy.Mul(*(DrawMean(sympy.Mul(*group).xreplace(first)) for group in members.values()))

    def _in_logits(self, expr: Expr) -> Expr:
        """Functions of logits written through the logits themselves."""
        swap = {x: self._in_logits(self.opened(x)) for x in self.leaves(expr) if self.nodes[x.node].body is not None}
        return expr.xreplace(swap)

    def opened(self, leaf: Of) -> Expr:
        """A node written through the nodes it is made of."""
        node = self.nodes[leaf.node]
        if node.body is None:
            raise NoLimitError(
                f"`{node.name}` is Gaussian only given random logits, and a nonlinear function of it is taken before "
                'they are averaged. Sum over an axis of infinitely many heads first: tp.Kernels(infinite=("head",)).'
            )
        return self.placed(node.body, node.axes, leaf)

    def placed(self, expr: Expr, axes: tuple[str, ...], leaf: Of) -> Expr:
        """An expression of input 1 in its axes, at the side and the indices of a leaf."""
        from_axes = [axis_symbol(a) for a in axes]
        if leaf.side == 2:
            expr = on_second(expr)
            from_axes = [second(a) for a in from_axes]
        return at(expr, dict(zip(from_axes, leaf.indices, strict=True)))

    def alone(self, form: Of) -> Of:
        """The one node a scaled form is made of."""
        body = self.opened(form)
        (leaf,) = self.leaves(body)
        return form if body.has(AxisSum) else leaf

    # -- moments ------------------------------------------------------------------------------

    def _moment(self, factors: list[Expr]) -> Expr:
        """E of functions of Gaussian nodes: forms, their covariances, independent groups again."""
        forms = Forms(self)
        written = [forms.factor(f) for f in factors]
        if forms.collides():
            forms = Forms(self, absorb=False)
            written = [forms.factor(f) for f in factors]
        covariance = {}
        for i, (z, a) in enumerate(forms.variables.items()):
            for w, b in list(forms.variables.items())[i:]:
                covariance[z, w] = covariance[w, z] = self.inner(a, b)
        pieces = [p for f in written for p in sympy.Mul.make_args(f)]
        result = sympy.Mul(*(p for p in pieces if not p.free_symbols & set(forms.variables)))
        if result.free_symbols & set(forms.parameters):
            result = result.xreplace(forms.parameters)
        for group, used in _connected([p for p in pieces if p.free_symbols & set(forms.variables)], covariance):
            result *= self._one_moment(sympy.Mul(*group), used, covariance, forms)
            if result == 0:
                return S.Zero
        return result

    def _one_moment(self, integrand: Expr, used: list[Symbol], covariance: dict, forms: Forms) -> Expr:
        used = [z for z in used if covariance[z, z] != 0]
        integrand = integrand.xreplace(
            {z: S.Zero for z in integrand.free_symbols if z in forms.variables and z not in used}
        )
        if integrand.xreplace({z: -z for z in used}) == -integrand:
            return S.Zero
        polynomial = gaussian_polynomial(integrand, used, covariance)
        if polynomial is not None:
            return polynomial.xreplace(forms.parameters)
        opened = sympy.expand(elementary(integrand)) if integrand.has(DiracDelta) else integrand
        if opened.has(DiracDelta):
            self._refuse_deltas(integrand)
        if len(used) > MOST_VARIABLES:
            raise NoLimitError(
                f"a mean over {len(used)} correlated Gaussian variables is needed, of {sympy.sstr(integrand):.200}; "
                "apply functions to images W x, not to sums of functions."
            )
        names = {z: Symbol(f"z{i}", real=True) for i, z in enumerate(used, start=1)}
        parameters = sorted(integrand.free_symbols & set(forms.parameters), key=lambda s: s.name)
        renamed = {p: Symbol(f"p{i}", real=True) for i, p in enumerate(parameters, start=1)}
        upper = [covariance[a, b] for i, a in enumerate(used) for b in used[i:]]
        return Moment(
            integrand.xreplace({**names, **renamed}),
            tuple(names.values()),
            tuple(upper),
            tuple(renamed.values()),
            tuple(forms.parameters[p] for p in parameters),
        )

    def _refuse_deltas(self, integrand: Expr) -> None:
        deltas = integrand.atoms(DiracDelta)
        if len(deltas) > 1 or any(p.exp != 1 for p in integrand.atoms(sympy.Pow) if p.base.has(DiracDelta)):
            shown = sympy.sstr(integrand)
            raise NoTangentKernel(
                f"the tangent kernel holds E {shown:.160}: a product of the derivatives of two jumps, which is "
                "infinite at coinciding inputs and has no limit. Train only the parameters behind the jump (train=…), or "
                "smooth it."
            )


@dataclass
class Forms:
    """Maximal Gaussian linear forms inside functions, as variables z; deterministic rest as parameters p."""

    engine: Expectations
    absorb: bool = True
    variables: dict[Symbol, Of] = field(default_factory=dict)
    parameters: dict[Symbol, Expr] = field(default_factory=dict)

    def collides(self) -> bool:
        """Whether one node stands in two forms with different coefficients: their law would be singular."""
        seen: dict[Of, Symbol] = {}
        for z, form in self.variables.items():
            made_of = self.engine.nodes[form.node].body
            alone = form if made_of is None or len(self.engine.leaves(made_of)) != 1 else self.engine.alone(form)
            if seen.setdefault(alone, z) != z and self.absorb:
                return True
        return False

    def variable(self, form: Of) -> Symbol:
        for z, known in self.variables.items():
            if known == form:
                return z
        z = Symbol(f"z′{len(self.variables)}", real=True)
        self.variables[z] = form
        return z

    def parameter(self, value: Expr) -> Expr:
        if value.is_number and not value.has(Slot):
            return value
        for p, known in self.parameters.items():
            if known == value:
                return p
        p = Symbol(f"p′{len(self.parameters)}", real=True)
        self.parameters[p] = value
        return p

    def factor(self, expr: Expr) -> Expr:
        """A random factor in variables and parameters."""
        if not is_random(expr):
            return self.parameter(expr)
        if isinstance(expr, Of):
            node = self.engine.nodes[expr.node]
            return self.variable(expr) if node.gaussian else self.factor(self.engine.opened(expr))
        if isinstance(expr, (sympy.Add, sympy.Mul, AxisSum)):
            return self._sum(expr)
        if isinstance(expr, sympy.Pow) and not is_random(expr.exp):
            return self.factor(expr.base) ** expr.exp
        return expr.func(*map(self.factor, expr.args))

    def _sum(self, expr: Expr) -> Expr:
        """Linear addends joined in one form; products factor by factor."""
        linear: list[Term] = []
        parts: list[Expr] = []
        random = False
        for addend in sympy.Add.make_args(expr):
            found = self._opened(terms(addend, powers=False))
            if all(len(t.factors) == 1 and isinstance(t.factors[0], Of) for t in found):
                linear += found
            elif all(len(t.factors) < 2 and all(isinstance(f, Of) for f in t.factors) for t in found):
                linear += [t for t in found if t.factors]
                parts += [self.parameter(summed(t.coefficient, t.bounds)) for t in found if not t.factors]
            else:
                random = random or is_random(addend)
                parts.append(self._product(addend, found))
        if linear:
            parts.append(self._form(linear, alone=not random))
        return sympy.Add(*parts)

    def _opened(self, found: list[Term]) -> list[Term]:
        """Non-Gaussian nodes that stand linearly, written out."""
        done = []
        for term in found:
            leaf = term.factors[0] if len(term.factors) == 1 else None
            if isinstance(leaf, Of) and not self.engine.nodes[leaf.node].gaussian:
                inner = products([[Term(term.coefficient, term.bounds, ())], terms(self.engine.opened(leaf))])
                done += self._opened(inner)
            else:
                done.append(term)
        return done

    def _product(self, addend: Expr, found: list[Term]) -> Expr:
        """A nonlinear addend: factor by factor, or term by term where it is a node written out."""
        if isinstance(addend, sympy.Mul):
            return sympy.Mul(*map(self.factor, addend.args))
        if any(t.bounds for t in found):
            raise NoLimitError(
                "a nonlinear function of a sum of nonlinear functions over a finite axis needs a mean over as many "
                "variables as the axis is long, which is not offered. Put a matrix between the two."
            )
        if not isinstance(addend, AxisSum) and len(found) == 1 and found[0].factors == (addend,):
            return addend.func(*map(self.factor, addend.args))
        return sympy.Add(*(self.parameter(t.coefficient) * sympy.Mul(*map(self.factor, t.factors)) for t in found))

    def _form(self, linear: list[Term], alone: bool) -> Expr:
        if len(linear) == 1 and not linear[0].bounds:
            coefficient, leaf = linear[0].coefficient, linear[0].factors[0]
            if coefficient.is_number:
                return coefficient * self.variable(leaf)
            if not self.absorb or not alone:
                return self.parameter(coefficient) * self.variable(leaf)
        merged: dict[tuple, Expr] = {}
        for t in linear:
            merged[t.bounds, t.factors] = merged.get((t.bounds, t.factors), S.Zero) + t.coefficient
        whole = sympy.Add(*(summed(c * f[0], b) for (b, f), c in merged.items()))
        return self.variable(self.engine.form(whole, int(linear[0].factors[0].side)))


def _connected(pieces: list[Expr], covariance: dict) -> list[tuple[list[Expr], list[Symbol]]]:
    """Factors joined where they share variables or their variables are correlated."""
    groups: list[tuple[list[Expr], set[Symbol]]] = []
    variables = {z for z, _ in covariance}
    for piece in pieces:
        mine = piece.free_symbols & variables
        joined, rest = [piece], []
        for group, used in groups:
            if any(a == b or covariance[a, b] != 0 for a in used for b in mine):
                joined, mine = [*group, *joined], mine | used
            else:
                rest.append((group, used))
        groups = [*rest, (joined, mine)]
    return [(g, sorted(u, key=lambda s: int(s.name.partition("′")[2]))) for g, u in groups]
