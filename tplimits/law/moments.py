"""Means that stay open or get a name of their own, and how they hang together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Symbol
from sympy.matrices.exceptions import NonInvertibleMatrixError

from tplimits.law.means import Expectation
from tplimits.program.parts import longer

if TYPE_CHECKING:
    from tplimits.law.gaussians import Gaussians

#: a closed covariance with more operations than this is kept under a name of its own
_INLINE_OPERATIONS = 14
_STANDING_IN = sympy.Dummy("g", real=True)


@dataclass(frozen=True)
class OpenMoment:
    """A mean without closed form: the constant `symbol` stands for E[integrand]."""

    symbol: Symbol
    integrand: Expr
    gaussians: Gaussians = field(compare=False, repr=False)


@dataclass(frozen=True)
class NamedValue:
    """A long closed expression under a short name; it is worked out when it is read."""

    symbol: Symbol
    define: Callable[[], Expr] = field(compare=False, repr=False)

    @cached_property
    def value(self) -> Expr:
        return self.define()


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


class NamedMoments:
    """The moments of one derivation by their names: open ones, long closed ones, dot coefficients."""

    def __init__(self, gaussians: Gaussians, moments: dict[Symbol, Moment] | None = None) -> None:
        self.gaussians = gaussians
        self.moments: dict[Symbol, Moment] = {} if moments is None else moments
        self._by_integrand: dict[Expr, Symbol] = {}
        self._by_products: dict[frozenset[Any], Symbol] = {}

    def _name(self, kind: str) -> Symbol:
        return Symbol(f"{kind}{len(self.moments) + 1}", real=True)

    def open(self, integrand: Expr) -> Symbol:
        """The constant that stands for a mean without closed form."""
        key = self._up_to_names(integrand)
        if key not in self._by_integrand:
            symbol = self._name("μ")
            self._by_integrand[key] = symbol
            self.moments[symbol] = OpenMoment(symbol, integrand, self.gaussians)
        return self._by_integrand[key]

    def _up_to_names(self, integrand: Expr) -> Expr:
        """A key that integrals of one function under one law share: E tanh²(x) and E tanh²(y) are the same number."""
        variables = self.gaussians.everywhere(integrand)
        # with several variables equal laws would have to be matched pair by pair; boxed ones are no free symbols
        if len(variables) != 1 or variables.isdisjoint(integrand.free_symbols):
            return integrand
        (variable,) = variables
        variance = self.gaussians.covariance(variable, variable)
        return sympy.Tuple(integrand.xreplace({variable: _STANDING_IN}), variance)

    def named(self, value: Expr, positive: bool = False) -> Expr:
        """The value itself when it is short, otherwise a name for it (expressions must not swell)."""
        # short ones stay visible: names hide that terms cancel
        if value.is_Atom or (len(value.args) <= 8 and _operations(value) <= _INLINE_OPERATIONS):
            return value
        key = sympy.Tuple(value)
        if key not in self._by_integrand:
            symbol = Symbol(f"v{len(self.moments) + 1}", **({"positive": True} if positive else {"real": True}))
            self._by_integrand[key] = symbol
            self.moments[symbol] = NamedValue(symbol, lambda: value)
        return self._by_integrand[key]

    def named_sum(self, products: Sequence[tuple[Expr, Expr]], pairs: Sequence[frozenset[Expr]]) -> Symbol:
        """A name for a sum of many products c·d, which is built when it is read; `pairs` are the {c, d}.

        Dot-kets of dot-kets have a number of products that is cubic in the depth, and few of the sums are looked at.
        """
        counts = Counter(pairs)
        # products commute, and a pair that stands twice counts twice
        key: frozenset[Any] = frozenset(pairs if len(counts) == len(pairs) else counts.items())
        if key not in self._by_products:
            symbol = self._by_products[key] = self._name("v")
            self.moments[symbol] = NamedValue(symbol, lambda: sympy.Add(*(c * d for c, d in products)))
        return self._by_products[key]

    def stein(self, place: int, gram: tuple[tuple[Expr, ...], ...], products: tuple[Expr, ...]) -> Symbol:
        """The constant that stands for a dot coefficient in Stein's form."""
        symbol = self._name("σ")
        self.moments[symbol] = SteinMoment(symbol, place, gram, products)
        return symbol

    def written_out(self, expr: Expr, most: int | None = None) -> Expr:
        """Names replaced by their closed values and moments by unevaluated expectations.

        With `most`, a name stays where what it stands for has more nodes than that.
        """
        memo: dict[Symbol, Expr] = {}

        def value(symbol: Symbol) -> Expr:
            if symbol not in memo:
                found = replaced(self.definition(symbol))
                # each name is opened once: written out anew at every place, a chain of names is exponential
                memo[symbol] = symbol if most is not None and longer(found, most) else found
            return memo[symbol]

        def replaced(inner: Expr) -> Expr:
            names = [s for s in inner.atoms(Symbol) if s in self.moments]
            return inner.xreplace({s: value(s) for s in names}) if names else inner

        return replaced(expr)

    def definition(self, symbol: Symbol) -> Expr:
        """What a name stands for, in terms of other names."""
        moment = self.moments[symbol]
        if isinstance(moment, NamedValue):
            return moment.value
        if isinstance(moment, OpenMoment):
            random = filter(moment.gaussians.is_random, moment.integrand.free_symbols)
            return Expectation(moment.integrand, *sorted(random, key=str))
        gram = sympy.Matrix(moment.gram)
        # only to be shown; numbers take the pseudo-inverse with a tolerance
        try:
            solved = gram.pinv() if gram.shape == (1, 1) else gram.inv()
        except NonInvertibleMatrixError:  # images of one vector in two spellings, sign(x)² v and sign(y)² v
            solved = gram.pinv()
        return (solved * sympy.Matrix(moment.products))[moment.place]

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
        # covariances too: they may hold moments of layers below, which have to be computed first
        return [moment.integrand, *(c for _, _, c in covariances(moment))]

    def reads(self, moment: Moment) -> list[Symbol]:
        """The moments another one is computed from."""
        found = {s for e in self.parts(moment) for s in e.free_symbols if s in self.moments}
        return sorted(found, key=lambda s: s.name)


def _operations(value: Expr) -> int:
    """What `sympy.count_ops` counts, read off where that is easy; of long sums a lower bound."""
    plain = _plain_operations(value)
    if plain is not None:
        return plain
    bases = (f.base if f.is_Pow else f for f in sympy.Mul.make_args(value))
    longest = max((len(b.args) for b in bases if b.is_Add), default=0)
    return longest - 1 if longest > _INLINE_OPERATIONS + 1 else int(sympy.count_ops(value))


def _plain_operations(value: Expr) -> int | None:
    """The operations of sums, products and squares of symbols, inside one another; None where there is anything else.

    >>> x, y, z = sympy.symbols("x y z")
    >>> _plain_operations(x**2 + (x + y * z) * y), _plain_operations(x - y)
    (5, None)
    """
    if value.is_Symbol:
        return 0
    if value.is_Pow:
        inner = _plain_operations(value.base) if value.exp == 2 else None
        return None if inner is None else inner + 1
    if not (value.is_Add or value.is_Mul):
        return None
    total = len(value.args) - 1
    for part in value.args:
        inner = _plain_operations(part)
        if inner is None:
            return None
        total += inner
    return total


def covariances(moment: OpenMoment) -> list[tuple[Symbol, Symbol, Expr]]:
    """All covariances an open moment depends on, boxed variables included."""
    gaussians = moment.gaussians
    variables = sorted(gaussians.everywhere(moment.integrand), key=lambda s: s.name)
    return [(a, b, gaussians.covariance(a, b)) for a in variables for b in variables]
