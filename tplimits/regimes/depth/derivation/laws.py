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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sympy import DiracDelta, Expr, Rational, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.parity import parity
from tplimits.regimes.depth.algebra.forms import Form, Resolved
from tplimits.regimes.depth.algebra.means import LOCAL, Deviation, GaussianMean, U, mean_label
from tplimits.regimes.depth.algebra.powers import (
    as_function,
    differentiated,
    distinct_tokens,
    label_of,
    merged,
    normal_moment,
    scalar_of,
    sign_of,
    squared_signs,
    tokens_of,
    with_label,
    without_derivatives,
)
from tplimits.regimes.depth.algebra.products import MOST, SPAN, Factor, Factors, Sum, indices, next_number, renamed
from tplimits.regimes.depth.algebra.products import times as times_size
from tplimits.regimes.depth.algebra.writing import defined
from tplimits.regimes.depth.derivation.cumulants import Cumulants, insist_on_plain
from tplimits.regimes.depth.derivation.groupings import end, identify
from tplimits.regimes.depth.derivation.not_covered import EntangledError
from tplimits.regimes.depth.derivation.placing import freed, on_tokens, simple_power

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.model import KinkLabel

#: a number times factors
Value = list[tuple[Expr, Factors]]


@dataclass(frozen=True)
class Laws(Cumulants):
    """The laws of the scalars of one model, whose coefficients are expressions."""

    def resolved(self, found: Sum) -> list[Resolved]:
        """A contraction with the means of functions of scalars put in."""
        plain: list[Resolved] = []
        held: dict[tuple[Factors, tuple[int, ...], bool | None], Any] = {}
        for (factors, powers, _, joined), c in found.items():
            if any(f[0][0] == "G" for f in factors):
                key = (factors, powers, joined)
                held[key] = held[key] + c if key in held else c
            elif joined is not False or any(f[0][0] == "Y" for f in factors):
                plain.append(Resolved(factors, powers, S.One, c))
        for (factors, powers, joined), c in held.items():
            order = self.model.order_of(powers)
            if not c or order > MOST:
                continue
            kinks = [f for f in factors if f[0][0] == "G"]
            self._insist_on_independence(kinks, factors)
            values = [(0, v) for v in (self.joint if joined is False else self.expectation)(kinks)]
            # a mean with a value is refused by its order; one that vanishes, as of a sign, leaves noise of order 1
            if order <= 0 and joined is None:
                _refuse_large(values)
            # corrections are smaller by n^(−1/2): beyond order 1 they are past ε², which nothing is kept of
            if 0 < order <= 1 and joined is None:
                values += [(1, v) for v in self.corrections(kinks)]
            for later, (number, more) in values:
                plain.append(self._put_in(factors, times_size(powers, 0, -later), number, more, c))
        return plain

    def _insist_on_independence(self, kinks: Sequence[Factor], factors: Factors) -> None:
        """Refuse a product with a function of scalars of order 1 that hold the same matrices."""
        for label, _, _ in factors:
            if label[0] == "Y" and self.matrices(kinks) & self.model.weights[label].matrices:
                raise EntangledError(
                    f"{self.model.weights[label].refusal} On a branch of size n^(-1/2) it would have one, if no "
                    "function of scalars with a kink held the same matrices; give these scalars matrices of their own.",
                    self.model.weights[label].matrices,
                )

    def matrices(self, kinks: Iterable[Factor]) -> frozenset[int]:
        """The matrices in the scalars of some factors."""
        return self.model.matrices_in(*(self.model.scalars[scalar_of(k)].poly for k in kinks))

    def _put_in(self, factors: Factors, powers: tuple[int, ...], number: Expr, more: Factors, c: Any) -> Resolved:
        """One value in the place of functions of scalars, its δ's done; sums that nothing is left of are done too."""
        change: dict[int, int] = {}
        left = [extra for n, at, _ in more if n == "I" for extra in identify(change, *at)]
        left += [(n, at, 0) for n, at, _ in factors if n[0] != "G"] + [f for f in more if f[0] != "I"]
        ends = {i: end(change, i) for i in change}
        found = renamed(left, ends)
        # a summed index that no factor holds any more counts its dimension
        for index in {ends.get(i, i) for i in indices(factors)} - indices(found):
            if index >= 0:
                powers = times_size(powers, index // SPAN, 2)
        return Resolved(found, powers, number, c)

    def expectation(self, kinks: Sequence[Factor]) -> Value:
        """E of a product of factors, in the limit."""
        found: Value = [(S.One, ())]
        for cluster in self._clusters(self.merged(kinks)):
            # joint Gaussian means are named at two scalars; three have no closed form here
            if len(cluster) > 2:
                raise EntangledError(
                    "not covered: the mean of a product of three or more dependent functions of scalars, each with a "
                    "kink at the value of its argument; keep one of them in a branch.",
                    self.matrices(cluster),
                )
            values = self._one(cluster[0]) if len(cluster) == 1 else self._two(*cluster)
            found = [(a * b, (*f, *g)) for a, f in found for b, g in values]
        return found

    def merged(self, kinks: Sequence[Factor], order: int = 0) -> list[Factor]:
        """Powers of one scalar at one place multiplied, in a term of an order; what must not be zero is noted."""
        for kink in squared_signs(kinks):
            variance = self.variance(scalar_of(kink), len(kink[1]))
            # told with its arrays: another scalar has another name
            told = "".join(defined(variance, self.arrays.values))
            self.model.note(f"`sign(y)**2`, y of variance {told},", variance, order)
        return merged(kinks)

    def variance(self, scalar: int, axes: int) -> Form:
        """The variance of a scalar, its tokens called α, β, …"""
        local = tuple(LOCAL + k for k in range(axes))
        return freed(self.covariance(scalar, local, scalar, local)[0])

    def joint(self, kinks: Sequence[Factor]) -> Value:
        """The covariance of the factors of one copy with those of the other."""
        apart = [[f for f in kinks if f[2] == copy] for copy in (0, 1)]
        means = [self.expectation(part) for part in apart]
        return [*self.expectation(kinks), *((-a * b, (*f, *g)) for a, f in means[0] for b, g in means[1])]

    def corrections(self, kinks: Sequence[Factor]) -> Value:
        """What E of a product is more than its limit, at n^(−1/2), the means of the scalars apart."""
        # powers of one scalar at one place are one power first: |R|·|R| is R², not two dependent factors
        kinks = self.merged(kinks)
        found: Value = []
        for a, b, c in itertools.combinations_with_replacement(range(len(kinks)), 3):
            scalars = [(scalar_of(kinks[i]), tokens_of(kinks[i], k)) for k, i in enumerate((a, b, c))]
            third = self.third(distinct_tokens(scalars, (a, b, c)))
            if third:
                # κ₃ is symmetric: each set of three stands for all orders of it in the sum over triples, of which 1/3!
                # is taken
                orders = len(set(itertools.permutations((a, b, c))))
                found += self._corrected(kinks, (a, b, c), third, Rational(orders, 6))
        for a, b in itertools.combinations_with_replacement(range(len(kinks)), 2):
            scalars = distinct_tokens(
                [(scalar_of(kinks[i]), tokens_of(kinks[i], k)) for k, i in enumerate((a, b))], (a, b)
            )
            # the variance of R at finite n, off its limit by n^(−1/2)
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
                own[tokens_of(kinks[i], which.index(i))[place]] = token
        found: Value = []
        values = self.expectation(moved)
        if values:
            insist_on_plain(cumulant)
        for value, factors in values:
            for inner, c in cumulant.terms.items():
                beyond = next_number((*factors, *kinks))
                there = tuple((n, tuple(own.get(i, i + beyond if i >= 0 else i) for i in at), y) for n, at, y in inner)
                found.append((number * value * c, (*factors, *there)))
        return found

    def _clusters(self, kinks: list[Factor]) -> list[list[Factor]]:
        """Factors that depend on each other."""
        clusters: list[list[Factor]] = []
        for kink in kinks:
            near = [c for c in clusters if any(self._cross(kink, other) for other in c)]
            clusters = [c for c in clusters if c not in near] + [[*(f for c in near for f in c), kink]]
        return clusters

    def _cross(self, a: Factor, b: Factor) -> Form:
        return self.covariance(scalar_of(a), tokens_of(a, 0), scalar_of(b), tokens_of(b, 1))[0]

    def _own(self, kink: Factor, place: int) -> Form:
        at = tokens_of(kink, place)
        return self.covariance(scalar_of(kink), at, scalar_of(kink), at)[0]

    def _one(self, kink: Factor) -> Value:
        label = label_of(kink)
        if label.function != 1:
            return self._whole(kink, label)
        # σ^(p − d) times a number: derivatives by R lower the power of its deviation
        number = normal_moment(label.power, label.sign, label.derivatives)
        if number == 0:
            return []
        power = label.power - label.derivatives
        variance, tokens = on_tokens([self._own(kink, 0)], dict(zip(tokens_of(kink, 0), kink[1], strict=True)))
        simple = simple_power(variance[0], power)
        if simple is not None:
            change = {LOCAL + i: token for i, token in enumerate(tokens)}
            return [(number * simple[0], renamed(simple[1], change))]
        if power == 0:
            return [(number, ())]
        return [(number, ((mean_label(Deviation(variance[0], power, len(tokens))), tokens, 0),))]

    def _whole(self, kink: Factor, label: KinkLabel) -> Value:
        """The mean of a function that is no power."""
        if sign_of(label) == -1:
            return []
        middle = label.function.xreplace({U: S.Zero})
        # σ(R) − 1/2 is odd
        if not (label.power or label.sign) and parity(label.function - middle, U) == -1:
            return [(middle, ())]
        self._insist_on_function(kink)
        place = dict(zip(tokens_of(kink, 0), kink[1], strict=True))
        variance, tokens = on_tokens([self._own(kink, 0)], place)
        mean = GaussianMean((as_function(label),), tuple(variance), len(tokens))
        return [(S.One, ((mean_label(mean), tokens, 0),))]

    def _insist_on_function(self, *kinks: Factor) -> None:
        """Refuse derivatives that are no functions."""
        if any(y.derivatives or y.function.has(DiracDelta) for y in map(label_of, kinks)):
            raise EntangledError(
                "not covered: two dependent functions of scalars with a kink or jump at the value of their arguments, "
                "and a third average that depends on both, or a skewness of the arguments; give the scalars matrices "
                "of their own.",
                self.matrices(kinks),
            )

    def _two(self, a: Factor, b: Factor) -> Value:
        (number, first), (other, second) = (without_derivatives(label_of(f)) for f in (a, b))
        number = number * other
        # a product of one odd and one even function of two Gaussians has mean zero
        if number == 0 or sign_of(first) * sign_of(second) == -1:
            return []
        a, b = with_label(a, first), with_label(b, second)
        self._insist_on_function(a, b)
        cross = self._cross(a, b)
        tied = self._tied(cross, a, b)
        if not tied:
            return [(number * c, f) for c, f in self._pair(a, b, cross)]
        # members of families: independent unless they are the same
        apart = [(x * y, (*f, *g)) for x, f in self._one(a) for y, g in self._one(b)]
        same = tuple(("I", (x, y), 0) for x, y in tied)
        bare = Form({tuple(f for f in factors if not _ties(f, tied, a, b)): c for factors, c in cross.terms.items()})
        together = self._pair(a, b, bare)
        return [
            *((number * c, f) for c, f in apart),
            *((number * c, (*f, *same)) for c, f in together),
            *((-number * c, (*f, *same)) for c, f in apart),
        ]

    def _tied(self, cross: Form, a: Factor, b: Factor) -> list[tuple[int, int]]:
        """Pairs of indices of families that have to be equal for the scalars to be dependent."""
        place = _places(a, b)
        kinds = dict(zip(place, (*self._dimensions(a), *self._dimensions(b)), strict=True))
        held = [
            {at for n, at, _ in factors if n == "I" and kinds.get(at[0], self.model.tokens) != self.model.tokens}
            for factors in cross.terms
        ]
        if not any(held):
            return []
        if any(h != held[0] for h in held):
            raise EntangledError(
                "not covered: a scalar with a kink that mixes members of a family of matrices; let every member have a "
                "scalar of its own.",
                self.matrices((a, b)),
            )
        return [(place[x], place[y]) for x, y in sorted(held[0])]

    def _dimensions(self, kink: Factor) -> tuple[int, ...]:
        return self.model.scalars[scalar_of(kink)].dimensions

    def _pair(self, a: Factor, b: Factor, cross: Form) -> Value:
        place = _places(a, b)
        laws, tokens = on_tokens([self._own(a, 0), cross, self._own(b, 1)], place)
        functions = (as_function(label_of(a)), as_function(label_of(b)))
        return [(S.One, ((mean_label(GaussianMean(functions, tuple(laws), len(tokens))), tokens, 0),))]


def _refuse_large(values: Sequence[Any]) -> None:
    if not values:
        raise NoLimitError(
            "not perturbative: a function of scalars with a kink or jump enters the next covariance at order 1, and "
            "makes its noise one of order 1; divide it by sqrt(n)."
        )


def _places(a: Factor, b: Factor) -> dict[int, int]:
    """The indices of two scalars by those of their definitions."""
    return dict(zip((*tokens_of(a, 0), *tokens_of(b, 1)), (*a[1], *b[1]), strict=True))


def _ties(factor: Factor, tied: Sequence[tuple[int, int]], a: Factor, b: Factor) -> bool:
    place = _places(a, b)
    return factor[0] == "I" and tuple(place.get(i, i) for i in factor[1]) in tied
