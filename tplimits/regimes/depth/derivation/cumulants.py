"""Joint cumulants of scalars of size 1, averages over neurons that grow with n times the root of n, as forms in V."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tplimits.errors import NoLimitError
from tplimits.regimes.depth.algebra.forms import Form, Orders, by_order, collected
from tplimits.regimes.depth.algebra.products import OPEN, Factors, Poly, ProductTerm, next_number, placed, product
from tplimits.regimes.depth.derivation.contraction import Contraction
from tplimits.regimes.depth.derivation.not_covered import NO_CLOSED_FORM

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.arrays import Arrays
    from tplimits.regimes.depth.algebra.coefficients import Ring
    from tplimits.regimes.depth.algebra.model import Model


@dataclass(frozen=True)
class Cumulants:
    """The cumulants of the scalars of one model, whose coefficients are expressions."""

    model: Model
    arrays: Arrays

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", {})

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
        found: list[ProductTerm] = [ProductTerm(ring.one, self.model.zero_powers, 0, ())]
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

    def _placed(self, scalar: int, at: tuple[int, ...]) -> list[ProductTerm]:
        change = {OPEN - k: i for k, i in enumerate(at)}
        return [t._replace(factors=placed(t.factors, change, 0, 0)) for t in self.model.scalars[scalar].poly.terms]

    def _contraction(self, terms: Iterable[ProductTerm]) -> tuple[Contraction, Ring, Model]:
        exact, ring = self.model.in_ring(terms)
        return Contraction(exact, ring.one), ring, exact

    def _orders(self, found: Any, exact: Model, ring: Ring) -> Orders:
        orders = by_order(found, exact, ring, self.arrays)
        if orders.opaque:
            if not any(label[0] == "Q" for factors in orders.opaque for label, _, _ in factors):
                raise NoLimitError(f"not covered: the law of a scalar with a kink holds {NO_CLOSED_FORM}.")
            raise NoLimitError(
                "not closed: the law of a scalar with a kink holds sums over the neurons of the state that are no "
                "functions of V; put a matrix between, as in tp.avg(W @ x)."
            )
        insist_on_plain(orders[0])
        return Orders({o: _without_double(f) for o, f in orders.forms.items()}, {})


def insist_on_plain(form: Form) -> None:
    """Refuse a cumulant that holds functions of other scalars with a kink: those of a vector that the scalar reads."""
    if any(f[0][0] == "G" for factors in form.terms for f in factors):
        raise NoLimitError(
            "not covered: a kink inside of a kink, where the argument of one reads a vector that another turns."
        )


def _without_double(form: Form) -> Form:
    """δ² is δ."""
    return collected((tuple(dict.fromkeys(f)) if _has_double(f) else f, c) for f, c in form.terms.items())


def _has_double(factors: Factors) -> bool:
    pairs = [f for f in factors if f[0] == "I"]
    return len(pairs) != len(set(pairs))


def times(a: Form, b: Form) -> Form:
    """The product of two forms."""
    found = []
    for f, c in a.terms.items():
        beyond = next_number(f)
        found += [((*f, *placed(g, {}, beyond, 0)), c * d) for g, d in b.terms.items()]
    return collected(found)
