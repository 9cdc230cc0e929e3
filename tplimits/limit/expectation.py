"""Unevaluated first: means of kets as expressions, closed where the table can close them.

A mean is expanded by linearity, split along independent groups of variables, closed group by group
by the rules of `closed_forms.table`, and what stays open becomes a *moment*: a named constant with
its integrand, for the numerical stage.  Nothing is ever approximated here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import sympy
from sympy import Expr, S, Symbol

from tplimits.limit.closed_forms.integrand import Law, NotClosed, step_products, tidy
from tplimits.limit.closed_forms.table import CLOSED_FORMS, ClosedForm, close
from tplimits.limit.gaussians import Gaussians
from tplimits.program import functions
from tplimits.program.functions import elementary

#: a closed covariance with more operations than this is kept under a name of its own
_INLINE_OPERATIONS = 14
#: a product of sums with more terms than this is not multiplied out; fewer where it cannot close anyway
_MOST_TERMS, _MOST_OPEN_TERMS = 3000, 40
_OPEN_HEADS = (sympy.tanh, sympy.sech, functions.sigmoid, functions.softplus, sympy.log, sympy.atan, sympy.asinh)
#: a random factor with more nodes than this gets a name
_LONG = 160
#: more pairs of terms than this are summed through means and covariances
_MANY_PAIRS = 400


class BoxMean(Expr):
    """E over the boxed copies alone: (integrand, *boxed variables), a function of the others."""

    is_commutative = True
    is_real = True

    @property
    def integrand(self) -> Expr:
        return self.args[0]

    @property
    def boxed(self) -> tuple[Symbol, ...]:
        return self.args[1:]

    @property
    def free_symbols(self) -> set[Symbol]:
        return self.integrand.free_symbols - set(self.boxed)

    def _eval_derivative(self, symbol: Symbol) -> Expr:
        # a derivative acts on slot 0 only: boxed copies are bound (Def. 2.6.5)
        return BoxMean(self.integrand.diff(symbol), *self.boxed)


class Expectation(Expr):
    """E[integrand] over all Gaussian variables, shown to the user where no closed form is known."""

    is_commutative = True
    is_real = True

    @property
    def integrand(self) -> Expr:
        return self.args[0]

    @property
    def free_symbols(self) -> set[Symbol]:
        return set()

    def _eval_derivative(self, symbol: Symbol) -> Expr:
        return S.Zero

    def _sympystr(self, printer) -> str:
        return f"E[{printer._print(self.args[0])}]"

    def _latex(self, printer) -> str:
        return rf"\mathbb{{E}}\left[{printer._print(self.args[0])}\right]"


@dataclass(frozen=True)
class OpenMoment:
    """A mean without closed form: the constant `symbol` stands for E[integrand]."""

    symbol: Symbol
    integrand: Expr
    gaussians: Gaussians = field(compare=False, repr=False)


@dataclass(frozen=True)
class NamedValue:
    """A long closed expression under a short name."""

    symbol: Symbol
    value: Expr


@dataclass(frozen=True)
class SteinMoment:
    """A dot coefficient by Stein's form: component `place` of ⟨y|y⟩⁺⟨ŷ|x⟩ (no derivative needed).

    `gram` is the covariance of the hats, row by row, and `products` the means E[ŷ_i x].
    """

    symbol: Symbol
    place: int
    gram: tuple[tuple[Expr, ...], ...]
    products: tuple[Expr, ...]


Moment = OpenMoment | NamedValue | SteinMoment


class Expectations:
    """Takes means under the joint law of all Gaussian variables of a derivation."""

    def __init__(
        self,
        gaussians: Gaussians,
        table: Sequence[ClosedForm] = CLOSED_FORMS,
        moments: dict[Symbol, Moment] | None = None,
    ) -> None:
        self.gaussians, self.table = gaussians, table
        self.moments: dict[Symbol, Moment] = {} if moments is None else moments
        self.used_rows: dict[str, None] = {}
        self._by_integrand: dict[Expr, Symbol] = {}
        self._atom_means: dict[tuple[Expr, frozenset[Symbol] | None], Expr] = {}
        self._terms: dict[Expr, dict[Expr, Expr]] = {}
        self._long_derivatives: dict[tuple[Symbol, Symbol], Expr] = {}

    # -- linear structure ---------------------------------------------------------------------

    def terms(self, expr: Expr) -> dict[Expr, Expr]:
        """The expression as Σ coefficient · product of random factors; the key 1 is the constant."""
        found = self._terms.get(expr)
        if found is None:
            found = self._terms[expr] = self._split(expr, None)
        return found

    def _split(self, expr: Expr, over: frozenset[Symbol] | None) -> dict[Expr, Expr]:
        collected: dict[Expr, list[Expr]] = {}
        for term in sympy.Add.make_args(_expanded(expr, self._random)):
            constant, random = [], []
            for factor in sympy.Mul.make_args(term):
                (random if self._is_random(factor, over) else constant).append(factor)
            collected.setdefault(sympy.Mul(*random), []).append(sympy.Mul(*constant))
        result = {a: sympy.Add(*parts) for a, parts in collected.items()}
        return {a: c for a, c in result.items() if c != 0}

    def _random(self, expr: Expr) -> bool:
        """Whether an expression holds a random variable at all, boxed ones included."""
        return not expr.is_number and any(self.gaussians.is_random(s) for s in expr.atoms(Symbol))

    def _is_random(self, expr: Expr, over: frozenset[Symbol] | None) -> bool:
        if expr.is_number:
            return False
        free = expr.free_symbols
        if over is not None:
            return not over.isdisjoint(self.gaussians.of(expr)) or expr.has(BoxMean)
        return any(self.gaussians.is_random(s) for s in free) or expr.has(BoxMean)

    # -- means --------------------------------------------------------------------------------

    def mean(self, expr: Expr, over: Iterable[Symbol] | None = None) -> Expr:
        """E[expr] over all variables, or over the given boxed copies with the others held fixed."""
        scope = None if over is None else frozenset(over)
        if scope is None:
            factors = _two_factors(expr)
            if factors is not None:
                return self.inner(*factors)
            split = self.terms(expr)
        else:
            split = self._split(expr, scope)
        return sympy.Add(*(c * self._atom_mean(a, scope) for a, c in split.items()))

    def inner(self, a: Expr, b: Expr) -> Expr:
        """⟨a|b⟩ = E[a b], term by term so that each pair of terms is done once."""
        left, right = self.terms(a), self.terms(b)
        if len(left) * len(right) > _MANY_PAIRS:
            return self._inner_by_covariances(left, right)
        parts = []
        if left is right:
            atoms = list(left.items())
            for i, (x, c) in enumerate(atoms):
                parts.append(_times(c, c, self._pair_mean(x, x)))
                parts += [_times(2 * c, d, self._pair_mean(x, y)) for y, d in atoms[i + 1 :]]
        else:
            parts = [_times(c, d, self._pair_mean(x, y)) for x, c in left.items() for y, d in right.items()]
        return sympy.Add(*(p for p in parts if p != 0))

    def _inner_by_covariances(self, left: dict[Expr, Expr], right: dict[Expr, Expr]) -> Expr:
        """⟨a|b⟩ = E a E b + Σ Cov over the pairs of terms that share a source: few, for long sums."""
        means = {x: self._atom_mean(x, None) for x in (*left, *right)}
        sources = {x: self._sources(x) for x in means}
        product = sympy.Mul(
            *(sympy.Add(*(_times(c, S.One, means[x]) for x, c in side.items())) for side in (left, right))
        )
        parts = [product]
        for x, c in left.items():
            for y, d in right.items():
                if not sources[x].isdisjoint(sources[y]):
                    parts.append(_times(c, d, self._pair_mean(x, y)))
                    parts.append(-c * d * means[x] * means[y])
        return sympy.Add(*(p for p in parts if p != 0))

    def _sources(self, atom: Expr) -> set[object]:
        """What an atom is made of: initial variables, matrices, boxes; disjoint sources are independent."""
        return {self.gaussians.family(s) for s in self.gaussians.of(atom)}

    def _pair_mean(self, x: Expr, y: Expr) -> Expr:
        if x.is_Symbol and y.is_Symbol and x in self.gaussians and y in self.gaussians:
            return self.covariance(x, y)
        return self._atom_mean(x * y, None)

    def combination(self, parts: Iterable[tuple[Expr, Expr]]) -> Expr:
        """Σ coefficient · ket, with like terms collected."""
        collected: dict[Expr, Expr] = {}
        for factor, expr in parts:
            for atom, c in self.terms(expr).items():
                collected[atom] = collected.get(atom, S.Zero) + factor * c
        collected = {a: self.named(c) for a, c in collected.items() if c != 0}
        result = sympy.Add(*(a if c == 1 else c * a for a, c in collected.items()))
        self._terms.setdefault(result, collected)
        return result

    def derivative(self, expr: Expr, symbol: Symbol) -> Expr:
        """∂expr/∂symbol; boxed copies of the symbol do not count (slot 0 only)."""
        parts = []
        for atom, c in self.terms(expr).items():
            if atom == symbol:
                parts.append(c)
            elif symbol in self.gaussians.of(atom):
                parts.append(c * self._atom_derivative(atom, symbol))
        return _with_sech(sympy.Add(*parts))

    def _atom_derivative(self, atom: Expr, symbol: Symbol) -> Expr:
        """The chain rule through names of long factors."""
        parts = [sympy.diff(atom, symbol)] if symbol in atom.free_symbols else []
        for name in sorted((s for s in atom.free_symbols if s in self.gaussians.long), key=lambda s: s.name):
            if symbol in self.gaussians.long[name].variables:
                parts.append(sympy.diff(atom, name) * self._long_derivative(name, symbol))
        return sympy.Add(*parts)

    def _long_derivative(self, name: Symbol, symbol: Symbol) -> Expr:
        key = (name, symbol)
        if key not in self._long_derivatives:
            value = self.derivative(self.gaussians.long[name].definition, symbol)
            if _size(value) > _LONG:
                value = self.gaussians.name_long(f"∂{name}/∂{symbol}", value)
            self._long_derivatives[key] = value
        return self._long_derivatives[key]

    def shortened(self, expr: Expr, label: str) -> Expr:
        """The expression with its long random factors under names of their own."""
        if (len(expr.args) < 2 and not expr.args) or _size(expr) <= _LONG:
            return expr
        parts = []
        for atom, c in self.terms(expr).items():
            if _size(atom) > _LONG and not atom.has(BoxMean, sympy.DiracDelta):
                atom = self.gaussians.name_long(label, atom)
            parts.append(c * atom)
        return sympy.Add(*parts)

    def lengthened(self, expr: Expr) -> Expr:
        """An expression that is just a name, as its definition (one level)."""
        long = self.gaussians.long
        return expr.xreplace({s: long[s].definition for s in expr.free_symbols if s in long})

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
        merged, boxed, copies = self._merge_boxes(atom)
        if boxed:
            wider = None if scope is None else scope | boxed
            value = sympy.Add(*(c * self._atom_mean(a, wider) for a, c in self._split(merged, wider).items()))
            if (
                scope is None
                and copies > 1
                and any(isinstance(self.moments.get(s), OpenMoment) for s in value.free_symbols)
            ):
                return self._product_mean(atom, scope)  # open anyway: nested, the integral has fewer dimensions
            return value
        expanded = _expanded(atom, self._random)
        if expanded != atom and expanded.is_Add:  # a product of two sums
            return sympy.Add(*(c * self._atom_mean(a, scope) for a, c in self._split(expanded, scope).items()))
        return self._product_mean(atom, scope)

    def _merge_boxes(self, atom: Expr) -> tuple[Expr, frozenset[Symbol], int]:
        """Fubini: box means standing as factors are pulled into the mean, each with its own copies."""
        factors, boxed, copies = [], set(), 0
        nested = {
            v for f in sympy.Mul.make_args(atom) for b in f.atoms(BoxMean) if not _is_box_power(f) for v in b.boxed
        }
        for factor in sympy.Mul.make_args(atom):
            base, power = factor.as_base_exp()
            if isinstance(base, BoxMean) and power.is_Integer and power > 0:
                for _ in range(int(power)):
                    copies += 1
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
        groups: list[tuple[list[Expr], list[Symbol]]] = []
        for factor in factors:
            mine = self._variables(factor, scope)
            touching, rest = [], []
            for group in groups:
                linked = any(a == b or self.covariance(a, b) != 0 for a in mine for b in group[1])
                (touching if linked else rest).append(group)
            joined = [f for g in touching for f in g[0]] + [factor]
            variables = sorted({v for g in touching for v in g[1]} | set(mine), key=lambda s: s.name)
            groups = [*rest, (joined, variables)]
        return groups

    def _product_mean(self, atom: Expr, scope: frozenset[Symbol] | None) -> Expr:
        result = S.One
        for factors, variables in self._groups(sympy.Mul.make_args(atom), scope):
            result *= self._group_mean(sympy.Mul(*factors), variables, scope)
            if result == 0:
                return S.Zero
        return result

    def _group_mean(self, product: Expr, variables: list[Symbol], scope: frozenset[Symbol] | None) -> Expr:
        if not variables:
            return product
        if self._odd(product, variables):
            return S.Zero
        try:
            return self._closed(product, scope)
        except NotClosed:
            pass
        if scope is not None and self.gaussians.of(product) - scope:
            return BoxMean(product, *variables)
        return self.open(product)

    def _odd(self, product: Expr, variables: list[Symbol]) -> bool:
        """Whether the product changes sign with some variables whose law does not notice."""
        if any(s in self.gaussians.long for s in product.atoms(Symbol)):
            return False  # the signs inside a named factor are not visible
        groups: list[set[Symbol]] = []
        for v in variables:
            touching = [g for g in groups if any(self.covariance(v, w) != 0 for w in g)]
            groups = [g for g in groups if g not in touching] + [set().union({v}, *touching)]
        if len(groups) > 1:
            groups.append(set(variables))
        return any(product.xreplace({v: -v for v in g}) == -product for g in groups)

    def _closed(self, product: Expr, scope: frozenset[Symbol] | None) -> Expr:
        """The mean by the table; NotClosed when one term of it is open."""
        simple = _expanded(step_products(elementary(product)), self._random)
        parts = []
        for term in sympy.Add.make_args(simple):
            constant, random = [], []
            for factor in sympy.Mul.make_args(term):
                (random if self._variables(factor, scope) else constant).append(factor)
            value = sympy.Mul(*constant)
            for factors, variables in self._groups(random, scope):
                closed, rows = close(factors, variables, lambda v=variables: self._law(v), self.table)
                self.used_rows.update(dict.fromkeys(rows))
                value *= closed
            parts.append(value)
        return tidy(sympy.Add(*parts))

    def _law(self, variables: Sequence[Symbol]) -> Law:
        return Law(tuple(tuple(self.covariance(a, b) for b in variables) for a in variables))

    # -- moments ------------------------------------------------------------------------------

    def _name(self, kind: str) -> Symbol:
        return Symbol(f"{kind}{len(self.moments) + 1}", real=True)

    def open(self, integrand: Expr) -> Symbol:
        """The constant that stands for a mean without closed form."""
        if integrand not in self._by_integrand:
            symbol = self._name("μ")
            self._by_integrand[integrand] = symbol
            self.moments[symbol] = OpenMoment(symbol, integrand, self.gaussians)
        return self._by_integrand[integrand]

    def named(self, value: Expr, positive: bool = False) -> Expr:
        """The value itself when it is short, otherwise a name for it (expressions must not swell)."""
        if value.is_Atom or (len(value.args) <= 8 and sympy.count_ops(value) <= _INLINE_OPERATIONS):
            return value
        key = sympy.Tuple(value)
        if key not in self._by_integrand:
            symbol = Symbol(f"v{len(self.moments) + 1}", **({"positive": True} if positive else {"real": True}))
            self._by_integrand[key] = symbol
            self.moments[symbol] = NamedValue(symbol, value)
        return self._by_integrand[key]

    def stein(self, place: int, gram: tuple[tuple[Expr, ...], ...], products: tuple[Expr, ...]) -> Symbol:
        """The constant that stands for a dot coefficient in Stein's form."""
        symbol = self._name("σ")
        self.moments[symbol] = SteinMoment(symbol, place, gram, products)
        return symbol

    def written_out(self, expr: Expr) -> Expr:
        """Names replaced by their closed values and moments by unevaluated expectations."""
        memo: dict[Symbol, Expr] = {}

        def value(symbol: Symbol) -> Expr:
            if symbol not in memo:
                moment = self.moments[symbol]
                if isinstance(moment, NamedValue):
                    memo[symbol] = replaced(moment.value)
                elif isinstance(moment, OpenMoment):
                    memo[symbol] = Expectation(replaced(moment.integrand))
                else:
                    gram = sympy.Matrix(moment.gram)
                    solved = gram.pinv() if gram.shape == (1, 1) else gram.inv()
                    memo[symbol] = replaced((solved * sympy.Matrix(moment.products))[moment.place])
            return memo[symbol]

        def replaced(inner: Expr) -> Expr:
            names = [s for s in inner.free_symbols if s in self.moments]
            return inner.xreplace({s: value(s) for s in names}) if names else inner

        return replaced(expr)

    def needed(self, expr: Expr) -> list[Symbol]:
        """The moments an expression depends on, in an order in which they can be computed."""
        order: dict[Symbol, None] = {}

        def visit(symbol: Symbol) -> None:
            if symbol in order:
                return
            for inner in self.reads(self.moments[symbol]):
                visit(inner)
            order[symbol] = None

        for s in sorted((s for s in expr.free_symbols if s in self.moments), key=lambda s: s.name):
            visit(s)
        return list(order)

    def parts(self, moment: Moment) -> list[Expr]:
        """The expressions a moment is computed from, covariances included."""
        if isinstance(moment, NamedValue):
            return [moment.value]
        if isinstance(moment, SteinMoment):
            return [*moment.products, *(c for row in moment.gram for c in row)]
        return [moment.integrand, *(c for _, _, c in covariances(moment))]

    def reads(self, moment: Moment) -> list[Symbol]:
        """The moments another one is computed from."""
        found = {s for e in self.parts(moment) for s in e.free_symbols if s in self.moments}
        return sorted(found, key=lambda s: s.name)


def covariances(moment: OpenMoment) -> list[tuple[Symbol, Symbol, Expr]]:
    """All covariances an open moment depends on, boxed variables included."""
    gaussians = moment.gaussians
    variables = sorted(gaussians.everywhere(moment.integrand), key=lambda s: s.name)
    return [(a, b, gaussians.covariance(a, b)) for a in variables for b in variables]


def _size(expr: Expr) -> int:
    """Nodes of an expression tree, counted no further than needed."""
    count, stack = 0, [expr]
    while stack and count <= _LONG:
        node = stack.pop()
        count += 1
        stack.extend(node.args)
    return count


def _with_sech(expr: Expr) -> Expr:
    """1 − tanh² as sech²: one factor instead of two terms."""
    if not expr.has(sympy.tanh):
        return expr
    if isinstance(expr, sympy.Add) and len(expr.args) == 2 and S.One in expr.args:
        (other,) = (a for a in expr.args if a != 1)
        if isinstance(-other, sympy.Pow) and (-other).exp == 2 and isinstance((-other).base, sympy.tanh):
            return sympy.sech((-other).base.args[0]) ** 2
    return expr.func(*(_with_sech(a) for a in expr.args)) if expr.args else expr


def _times(c: Expr, d: Expr, mean: Expr) -> Expr:
    """c·d·mean without building products with 1."""
    if mean == 0:
        return S.Zero
    coefficient = d if c == 1 else c if d == 1 else c * d
    return mean if coefficient == 1 else coefficient * mean


def _is_box_power(factor: Expr) -> bool:
    return isinstance(factor.as_base_exp()[0], BoxMean)


def _two_factors(expr: Expr) -> tuple[Expr, Expr] | None:
    """The two factors of a product of sums, which is better left unexpanded."""
    if isinstance(expr, sympy.Pow) and expr.exp == 2 and expr.base.is_Add:
        return expr.base, expr.base
    if isinstance(expr, sympy.Mul) and len(expr.args) == 2 and any(a.is_Add for a in expr.args):
        return expr.args
    return None


def _expanded(expr: Expr, random: Callable[[Expr], bool]) -> Expr:
    """The expression as a sum of products; constant factors and arguments of functions stay as they are.

    A product with more than _MOST_TERMS terms is left alone: it is then one random factor.
    """
    if not isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow)):
        return expr
    terms = _distributed(expr, random, _MOST_OPEN_TERMS if expr.has(*_OPEN_HEADS) else _MOST_TERMS)
    return expr if terms is None or len(terms) == 1 else sympy.Add(*terms)


def _distributed(expr: Expr, random: Callable[[Expr], bool], most: int) -> list[Expr] | None:
    if not random(expr):
        return [expr]
    if isinstance(expr, sympy.Add):
        parts = [_distributed(a, random, most) or [a] for a in expr.args]
        return [t for part in parts for t in part]
    if isinstance(expr, sympy.Pow) and expr.base.is_Add and expr.exp.is_Integer and 1 < expr.exp <= 12:
        base = _distributed(expr.base, random, most) or [expr.base]
        if math.comb(len(base) + int(expr.exp) - 1, int(expr.exp)) > most:
            return None
        terms = [S.One]
        for _ in range(int(expr.exp)):
            terms = list(sympy.Add.make_args(sympy.Add(*(a * b for a in terms for b in base))))
        return terms
    if isinstance(expr, sympy.Mul):
        lists = [_distributed(a, random, most) or [a] for a in expr.args]
        if math.prod(len(part) for part in lists) > most:
            return None
        return [sympy.Mul(*chosen) for chosen in itertools.product(*lists)]
    return [expr]
