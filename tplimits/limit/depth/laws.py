"""Means of products of scalars with a kink: by the limiting law of what fluctuates, not by Taylor's series.

A scalar R of mean zero and size 1, an average over neurons that grow with n times the root of n, is Gaussian in the
limit, with a covariance that is a form in V.  Terms hold its powers |R|^p sgn(R)^s, and derivatives of them, as
factors; for P made of the same weights

    E P·G(R) = Σ_k κ(P, R, …, R) E ∂^k G(R)/k!,

κ the joint cumulant with k of the R.  Each further R that is joined to P costs n^(−1/2), so that k ≤ 2 here.  Moments:

    E ∂^d |R|^p sgn(R)^s = σ^(p − d) E[He_d(z) |z|^p sgn(z)^s],   z standard normal,

and of two R the Gaussian mean of a product.  The law of R itself differs from its limit by its third cumulant, of order
n^(−1/2): E G(R) = E G(N) + κ₃ E ∂³G(N)/6 + (σ′²) E ∂²G(N)/2, which is kept where G comes with n^(−1/2).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
from sympy import Dummy, Expr, Rational, S

from tplimits.errors import NoLimitError
from tplimits.limit.depth.algebra import (
    OPEN,
    SPAN,
    Factor,
    Factors,
    Poly,
    Term,
    indices,
    next_number,
    placed,
    product,
    renamed,
)
from tplimits.limit.depth.algebra import times as times_size
from tplimits.limit.depth.arrays import Arrays
from tplimits.limit.depth.coefficients import Ring
from tplimits.limit.depth.contraction import MOST, Contraction, Sum, end, identify
from tplimits.limit.depth.forms import Form, Orders, Resolved, by_order, collected
from tplimits.limit.depth.means import LOCAL, Deviation, GaussianMean, Terms, U, mean_label
from tplimits.limit.depth.model import KinkLabel, Model, kink_label

#: a number times factors
Value = list[tuple[Expr, Factors]]


@dataclass(frozen=True)
class Laws:
    """The laws of the scalars of one model, whose coefficients are expressions."""

    model: Model
    arrays: Arrays

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", {})

    # -- cumulants of scalars -----------------------------------------------------------------

    def covariance(self, first: int, at: tuple[int, ...], second: int, there: tuple[int, ...]) -> Orders:
        """Cov(R, R′) at tokens of the definition, by powers of n^(−1/2)."""
        return self._remembered(("cov", first, at, second, there), lambda: self._covariance(first, at, second, there))

    def _covariance(self, first: int, at: tuple[int, ...], second: int, there: tuple[int, ...]) -> Orders:
        left, right = self._placed(first, at), self._placed(second, there)
        contraction, ring, exact = self._contraction([*left, *right])
        ring_left, ring_right = (list(ring.poly(Poly(tuple(t))).terms) for t in (left, right))
        return self._orders(contraction.covariance(ring_left, ring_right), exact, ring)

    def moment(self, scalars: Sequence[tuple[int, tuple[int, ...]]]) -> Orders:
        """E Π R."""
        return self._remembered(("mean", *scalars), lambda: self._moment(scalars))

    def _moment(self, scalars: Sequence[tuple[int, tuple[int, ...]]]) -> Orders:
        every = [self._placed(k, at) for k, at in scalars]
        contraction, ring, exact = self._contraction([t for terms in every for t in terms])
        found: list[Term] = [Term(ring.ring.one, self.model.zero_powers, 0, ())]
        for terms in every:
            found = [
                product(a, b._replace(factors=placed(b.factors, {}, next_number(a.factors), 0)))
                for a in found
                for b in ring.poly(Poly(tuple(terms))).terms
            ]
        return self._orders(contraction.mean(found), exact, ring)

    def third(self, scalars: Sequence[tuple[int, tuple[int, ...]]]) -> Form:
        """The third cumulant at order n^(−1/2), the means being of that order at most."""
        found = self.moment(scalars)[1]
        for i in range(3):
            j, k = (scalars[a] for a in range(3) if a != i)
            found = found - times(self.moment([scalars[i]])[1], self.moment([j, k])[0])
        return found

    def _remembered(self, key: Any, make: Any) -> Any:
        known: dict = self._known  # type: ignore[attr-defined]
        if key not in known:
            known[key] = make()
        return known[key]

    def _placed(self, scalar: int, at: tuple[int, ...]) -> list[Term]:
        change = {OPEN - k: i for k, i in enumerate(at)}
        return [t._replace(factors=placed(t.factors, change, 0, 0)) for t in self.model.scalars[scalar].poly.terms]

    def _contraction(self, terms: Iterable[Term]) -> tuple[Contraction, Ring, Model]:
        operands = self.model.operands
        ring = Ring([t.coeff for t in (*terms, *(t for p in operands.values() for t in p.terms))])
        exact = replace(self.model, operands={p: ring.poly(operand) for p, operand in operands.items()})
        return Contraction(exact, ring.ring.one), ring, exact

    def _orders(self, found: Any, exact: Model, ring: Ring) -> Orders:
        orders = by_order(found, exact, ring, self.arrays)
        if orders.opaque:
            raise NoLimitError(
                "not closed: the law of a scalar with a kink holds sums over the neurons of the state, or moments of "
                "an activation, that are no functions of V; put a matrix between, as in tp.avg(W @ x)."
            )
        return Orders({o: _without_double(f) for o, f in orders.forms.items()}, {})

    # -- means of products --------------------------------------------------------------------

    def resolved(self, found: Sum) -> list[Resolved]:
        """A contraction with the means of functions of scalars put in."""
        plain: list[Resolved] = []
        held: dict[tuple[Factors, tuple[int, ...], bool | None], Any] = {}
        for (factors, powers, _, joined), c in found.items():
            if any(f[0][0] == "G" for f in factors):
                key = (factors, powers, joined)
                held[key] = held[key] + c if key in held else c
            elif joined is not False:
                plain.append(Resolved(factors, powers, S.One, c))
        for (factors, powers, joined), c in held.items():
            order = self.model.order_of(powers)
            if c == 0 or order > MOST:
                continue
            kinks = [f for f in factors if f[0][0] == "G"]
            values = [(0, v) for v in (self.joint if joined is False else self.expectation)(kinks)]
            if order <= 0 and joined is None:
                _refuse_large(values)
            if 0 < order <= 1 and joined is None:
                values += [(1, v) for v in self.corrections(kinks)]
            for later, (number, more) in values:
                plain.append(self._put_in(factors, times_size(powers, 0, -later), number, more, c))
        return plain

    def _put_in(self, factors: Factors, powers: tuple[int, ...], number: Expr, more: Factors, c: Any) -> Resolved:
        """One value in the place of functions of scalars, its δ's done; sums that nothing is left of are done too."""
        change: dict[int, int] = {}
        left = [extra for n, (a, *b), _ in more if n == "I" for extra in identify(change, a, b[0])]
        left += [(n, at, 0) for n, at, _ in factors if n[0] != "G"] + [f for f in more if f[0] != "I"]
        ends = {i: end(change, i) for i in change}
        found = renamed(left, ends)
        for index in {ends.get(i, i) for i in indices(factors)} - indices(found):
            if index >= 0:
                powers = times_size(powers, index // SPAN, 2)
        return Resolved(found, powers, number, c)

    def expectation(self, kinks: Sequence[Factor]) -> Value:
        """E of a product of factors, in the limit."""
        found: Value = [(S.One, ())]
        for cluster in self._clusters(merged(kinks)):
            if len(cluster) > 2:
                raise NoLimitError(
                    "not covered: the mean of a product of three or more dependent functions of scalars, each with a "
                    "kink at the value of its argument; keep one of them in a branch."
                )
            values = self._one(cluster[0]) if len(cluster) == 1 else self._two(*cluster)
            found = [(a * b, (*f, *g)) for a, f in found for b, g in values]
        return found

    def joint(self, kinks: Sequence[Factor]) -> Value:
        """The covariance of the factors of one copy with those of the other."""
        apart = [[f for f in kinks if f[2] == copy] for copy in (0, 1)]
        means = [self.expectation(part) for part in apart]
        return [
            *self.expectation(kinks),
            *((-a * b, (*f, *g)) for a, f in means[0] for b, g in means[1]),
        ]

    def corrections(self, kinks: Sequence[Factor]) -> Value:
        """What E of a product is more than its limit, at n^(−1/2), the means of the scalars apart."""
        kinks = merged(kinks)
        found: Value = []
        for a, b, c in itertools.combinations_with_replacement(range(len(kinks)), 3):
            scalars = [(_scalar(kinks[i]), _local(kinks[i], k)) for k, i in enumerate((a, b, c))]
            third = self.third(_distinct_tokens(scalars, (a, b, c)))
            if third:
                orders = len(set(itertools.permutations((a, b, c))))
                found += self._corrected(kinks, (a, b, c), third, Rational(orders, 6))
        for a, b in itertools.combinations_with_replacement(range(len(kinks)), 2):
            scalars = _distinct_tokens([(_scalar(kinks[i]), _local(kinks[i], k)) for k, i in enumerate((a, b))], (a, b))
            odd = self.covariance(*scalars[0], *scalars[1])[1]
            if odd:
                found += self._corrected(kinks, (a, b), odd, S.Half if a == b else S.One)
        return found

    def _corrected(self, kinks: list[Factor], which: tuple[int, ...], cumulant: Form, number: Expr) -> Value:
        moved = list(kinks)
        for i in which:
            moved[i] = differentiated(moved[i])
        own = {}
        for i in which:
            for place, token in enumerate(kinks[i][1]):
                own[_local(kinks[i], which.index(i))[place]] = token
        found: Value = []
        for value, factors in self.expectation(moved):
            for inner, c in cumulant.terms.items():
                beyond = next_number((*factors, *kinks))
                there = tuple((n, tuple(own.get(i, i + beyond if i >= 0 else i) for i in at), y) for n, at, y in inner)
                found.append((number * value * c, (*factors, *there)))
        return found

    def _clusters(self, kinks: list[Factor]) -> list[list[Factor]]:
        """Factors that depend on each other."""
        clusters: list[list[Factor]] = []
        for kink in kinks:
            near = [c for c in clusters if any(self._joined(kink, other) for other in c)]
            clusters = [c for c in clusters if c not in near] + [[*(f for c in near for f in c), kink]]
        return clusters

    def _joined(self, a: Factor, b: Factor) -> bool:
        return bool(self._cross(a, b))

    def _cross(self, a: Factor, b: Factor) -> Form:
        return self.covariance(_scalar(a), _local(a, 0), _scalar(b), _local(b, 1))[0]

    def _own(self, kink: Factor, place: int) -> Form:
        at = _local(kink, place)
        return self.covariance(_scalar(kink), at, _scalar(kink), at)[0]

    def _one(self, kink: Factor) -> Value:
        label = _label(kink)
        number = normal_moment(label.power, label.sign, label.derivatives)
        if number == 0:
            return []
        power = label.power - label.derivatives
        variance, tokens = _on_tokens([self._own(kink, 0)], dict(zip(_local(kink, 0), kink[1], strict=True)))
        simple = _simple_power(variance[0], power)
        if simple is not None:
            change = {LOCAL + i: token for i, token in enumerate(tokens)}
            return [(number * simple[0], renamed(simple[1], change))]
        if power == 0:
            return [(number, ())]
        return [(number, ((mean_label(Deviation(variance[0], power, len(tokens))), tokens, 0),))]

    def _two(self, a: Factor, b: Factor) -> Value:
        (number, first), (other, second) = (_without_derivatives(_label(f)) for f in (a, b))
        number = number * other
        if number == 0 or (first.sign + first.derivatives + second.sign + second.derivatives) % 2:
            return []
        if first.derivatives or second.derivatives:
            raise NoLimitError(
                "not covered: two dependent functions of scalars with a kink or jump at the value of their arguments, "
                "and a third average that depends on both; give the scalars matrices of their own."
            )
        cross = self._cross(a, b)
        tied = self._tied(cross, a, b)
        if not tied:
            return [(number * c, f) for c, f in self._pair(a, b, first, second, cross)]
        # members of families: independent unless they are the same
        apart = [(x * y, (*f, *g)) for x, f in self._one(_at(a, first)) for y, g in self._one(_at(b, second))]
        same = tuple(("I", (x, y), 0) for x, y in tied)
        bare = Form({tuple(f for f in factors if not _ties(f, tied, a, b)): c for factors, c in cross.terms.items()})
        together = self._pair(a, b, first, second, bare)
        return [
            *((number * c, f) for c, f in apart),
            *((number * c, (*f, *same)) for c, f in together),
            *((-number * c, (*f, *same)) for c, f in apart),
        ]

    def _tied(self, cross: Form, a: Factor, b: Factor) -> list[tuple[int, int]]:
        """Pairs of indices of families that have to be equal for the scalars to be dependent."""
        place = dict(zip((*_local(a, 0), *_local(b, 1)), (*a[1], *b[1]), strict=True))
        kinds = dict(zip((*_local(a, 0), *_local(b, 1)), (*self._dimensions(a), *self._dimensions(b)), strict=True))
        held = [
            {at for n, at, _ in factors if n == "I" and kinds.get(at[0], self.model.tokens) != self.model.tokens}
            for factors in cross.terms
        ]
        if not any(held):
            return []
        if any(h != held[0] for h in held):
            raise NoLimitError(
                "not covered: a scalar with a kink that mixes members of a family of matrices; let every member have a "
                "scalar of its own."
            )
        return [(place[x], place[y]) for x, y in sorted(held[0])]

    def _dimensions(self, kink: Factor) -> tuple[int, ...]:
        return self.model.scalars[_scalar(kink)].dimensions

    def _pair(self, a: Factor, b: Factor, first: KinkLabel, second: KinkLabel, cross: Form) -> Value:
        place = dict(zip((*_local(a, 0), *_local(b, 1)), (*a[1], *b[1]), strict=True))
        laws, tokens = _on_tokens([self._own(a, 0), cross, self._own(b, 1)], place)
        functions = tuple(abs(U) ** f.power * (sympy.sign(U) if f.sign else 1) for f in (first, second))
        return [(S.One, ((mean_label(GaussianMean(functions, tuple(laws), len(tokens))), tokens, 0),))]


# -- scalars in terms -----------------------------------------------------------------------------


def _label(kink: Factor) -> KinkLabel:
    label = kink[0]
    assert isinstance(label, KinkLabel)
    return label


def _scalar(kink: Factor) -> int:
    return _label(kink).scalar


def _at(kink: Factor, label: KinkLabel) -> Factor:
    return label, kink[1], kink[2]


def _local(kink: Factor, place: int) -> tuple[int, ...]:
    """Tokens of a definition for the indices of a factor, the `place`-th of a product."""
    return tuple(LOCAL + 10 * place + i for i in range(len(kink[1])))


def _distinct_tokens(
    scalars: list[tuple[int, tuple[int, ...]]], which: tuple[int, ...]
) -> list[tuple[int, tuple[int, ...]]]:
    """One factor that stands several times has one set of tokens."""
    return [(scalars[k][0], scalars[which.index(i)][1]) for k, i in enumerate(which)]


def _refuse_large(values: Sequence[Any]) -> None:
    if not values:
        raise NoLimitError(
            "not perturbative: a function of scalars with a kink or jump enters the next covariance at order 1, and "
            "makes its noise one of order 1; divide it by sqrt(n)."
        )


def merged(kinks: Sequence[Factor]) -> list[Factor]:
    """Powers of one scalar at one place multiplied; sgn² is 1."""
    found: dict[tuple[int, tuple[int, ...]], Factor] = {}
    rest: list[Factor] = []
    for kink in kinks:
        label, key = _label(kink), (_scalar(kink), kink[1])
        if key in found and not label.derivatives and not _label(found[key]).derivatives:
            other = _label(found[key])
            both = kink_label(label.scalar, label.power + other.power, label.sign != other.sign, 0)
            found[key] = _at(kink, both)
        elif key in found:
            rest.append(kink)
        else:
            found[key] = kink
    kept = [f for f in found.values() if _label(f).power or _label(f).sign]
    return [*kept, *rest]


def differentiated(kink: Factor) -> Factor:
    """∂ of a factor by its scalar."""
    label = _label(kink)
    return _at(kink, kink_label(label.scalar, label.power, label.sign, label.derivatives + 1))


def _without_derivatives(label: KinkLabel) -> tuple[Expr, KinkLabel]:
    """∂ |R|^p sgn^s = p |R|^(p − 1) sgn^(1 − s), as long as that is a function."""
    number, power, sign, left = S.One, label.power, label.sign, label.derivatives
    while left and number != 0 and (power > 0 or not sign):
        number, power, sign, left = number * power, power - 1, not sign, left - 1
    return number, kink_label(label.scalar, power, sign, left)


def normal_moment(power: Expr, sign: bool, derivatives: int) -> Expr:
    """E[He_d(z) |z|^p sgn(z)^s] of a standard normal.

    >>> normal_moment(S.Zero, True, 1), normal_moment(S(2), True, 0)
    (sqrt(2)/sqrt(pi), 0)
    """
    if (derivatives + sign) % 2:
        return S.Zero
    z = Dummy("z")
    found = S.Zero
    hermite = sympy.Poly(2 ** (-Rational(derivatives, 2)) * sympy.hermite(derivatives, z / sympy.sqrt(2)), z)
    for (k,), c in hermite.terms():
        q = power + k
        found += c * 2 ** (q / 2) * sympy.gamma((q + 1) / 2) / sympy.sqrt(sympy.pi)
    return sympy.simplify(found)


# -- forms at tokens ------------------------------------------------------------------------------


def _on_tokens(forms: Sequence[Form], place: dict[int, int]) -> tuple[list[Terms], tuple[int, ...]]:
    """Forms with their tokens called LOCAL, LOCAL + 1, …, and the indices these are."""
    held = sorted({i for form in forms for factors in form.terms for _, at, _ in factors for i in at if i < 0})
    tokens = tuple(dict.fromkeys(place[i] for i in held))
    change = {i: LOCAL + tokens.index(place[i]) for i in held}
    found = []
    for form in forms:
        terms = collected((renamed(f, change), c) for f, c in form.terms.items()).terms
        found.append(tuple(terms.items()))
    return found, tokens


def _simple_power(variance: Terms, power: Expr) -> tuple[Expr, Factors] | None:
    """A power of a product of variances of tokens as one; None for other variances."""
    if len(variance) != 1 or not (power.is_Integer and power >= 0):
        return None
    ((factors, coefficient),) = variance
    if any(n != "V" or at[0] != at[1] for n, at, _ in factors):
        return None
    roots = Counter(at[0] for _, at, _ in factors for _ in range(int(power)))
    found: list[Factor] = []
    for token, count in roots.items():
        found += [("V", (token, token), 0)] * (count // 2) + [("s", (token,), 0)] * (count % 2)
    return coefficient ** (power / 2), tuple(found)


def _without_double(form: Form) -> Form:
    """δ² is δ."""
    return collected((tuple(dict.fromkeys(f)) if _has_double(f) else f, c) for f, c in form.terms.items())


def _has_double(factors: Factors) -> bool:
    pairs = [f for f in factors if f[0] == "I"]
    return len(pairs) != len(set(pairs))


def _ties(factor: Factor, tied: Sequence[tuple[int, int]], a: Factor, b: Factor) -> bool:
    place = dict(zip((*_local(a, 0), *_local(b, 1)), (*a[1], *b[1]), strict=True))
    return factor[0] == "I" and tuple(place.get(i, i) for i in factor[1]) in tied


def times(a: Form, b: Form) -> Form:
    """The product of two forms."""
    found = []
    for f, c in a.terms.items():
        beyond = next_number(f)
        found += [((*f, *placed(g, {}, beyond, 0)), c * d) for g, d in b.terms.items()]
    return collected(found)
