"""The drift and the noise of one layer: E[V′ − V] and Cov(V′) by powers of ε = n^(−1/2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from sympy import S

from tplimits.errors import NoLimitError
from tplimits.regimes.depth.algebra.coefficients import Ring
from tplimits.regimes.depth.algebra.forms import Orders, by_order, collected
from tplimits.regimes.depth.algebra.model import Jump, KinkLabel, Layer, Model
from tplimits.regimes.depth.algebra.powers import differentiated, scalar_of
from tplimits.regimes.depth.algebra.products import (
    ALPHA,
    BETA,
    DELTA,
    MOST,
    OMEGA,
    OPEN,
    SPAN,
    Factor,
    Poly,
    ProductTerm,
    Sum,
    at_token,
    averaged,
    indices,
    lowest,
    multiplied,
    next_number,
    placed,
    product,
    times,
)
from tplimits.regimes.depth.algebra.vanishing import vanishes
from tplimits.regimes.depth.derivation.contraction import Contraction, Pair
from tplimits.regimes.depth.derivation.laws import Laws
from tplimits.regimes.depth.derivation.lowering import AS_WRITTEN, Lowering, Taken
from tplimits.regimes.depth.derivation.not_covered import EntangledError
from tplimits.regimes.depth.derivation.reading import Reading, dimensions
from tplimits.regimes.depth.derivation.scalars.judging import insist_on_real

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.arrays import Arrays

#: the highest order up to which series are taken
_LARGEST = 12
#: V^αβ
IDENTITY = (("V", (ALPHA, BETA), 0),)


@dataclass(frozen=True)
class OneLayer:
    """One block: what lowering made of it, and its moments."""

    program: Program
    model: Model
    ring: Ring
    arrays: Arrays
    state: Poly
    reading: Reading
    laws: Laws
    scalars: tuple[Poly, ...] = ()
    most: int = MOST
    remarks: tuple[str, ...] = ()
    #: the state at free tokens of other sequences
    states: Mapping[int, Poly] = field(default_factory=dict)

    def groups(self, average: int) -> frozenset[int]:
        """The matrices that an average over neurons depends on."""
        return self.reading.matrices_of[average]

    @property
    def jumps(self) -> dict[str, Jump]:
        """The jumps of the model, with orders that hold for the next covariance too."""
        # where a part grows with n, what is small may be multiplied by it: nothing is known of its size
        grows = self.most > MOST
        return {k: j._replace(order=0) if grows and j.order else j for k, j in self.model.jumps.items()}

    @property
    def contraction(self) -> Contraction:
        return Contraction(self.model, self.ring.one, self.most)

    def gram(self, first: int, second: int) -> Poly:
        """V′ at two free tokens: (1/n) Σ_i X′ X′."""
        # summed indices of the second X′ beyond all of the first: a number in common would join two sums
        apart = 2 + max((next_number(t.factors) for t in self.state.terms), default=0)
        left, right = self._at(first, 1), self._at(second, apart)
        return self._with_merged_kinks(averaged(multiplied(left, right, self.most), 0))

    def _at(self, token: int, beyond: int) -> Poly:
        return at_token(self.states.get(token, self.state), token, beyond)

    def mean(self) -> Orders:
        """E[V′^αβ]; to the orders below 1/n where those alone are derived, and leave no limit."""
        found = self._mean(self.gram(ALPHA, BETA).terms)
        try:
            return self._by_order(found)
        except NoLimitError:
            # what adds up to more than order 1 is the plainer reason, and that a term of order 1/n is not covered none
            lower = self._by_order({key: c for key, c in found.items() if self.model.order_of(key[1]) < MOST})
            if all(o >= MOST or vanishes(f, self.arrays.values) for o, f in self.drift(lower).forms.items()):
                raise
            return lower

    def _mean(self, terms: Sequence[ProductTerm], stage: int = 0) -> Sum:
        """E of a sum, functions of scalars and what depends on the same weights together."""
        moved: Sum = {}
        for matrix, scalars in self._stages[stage:]:
            moved = totalled(moved, self._moved_mean(terms, scalars))
            terms = self._opened(terms, matrix)
        return totalled(totalled(self.contraction.mean(terms), self._moved_mean(terms, self._late)), moved)

    def _moved_mean(self, terms: Sequence[ProductTerm], scalars: frozenset[int]) -> Sum:
        return totalled(self.contraction.mean(self.responses(terms, scalars)), self._joined_twice(terms, scalars))

    def _joined_twice(self, terms: Sequence[ProductTerm], scalars: frozenset[int]) -> Sum:
        twice = self.contraction.joined((p for t in terms for p in self._twice(t, scalars)), shared=True)
        return {(*key[:3], None): c for key, c in twice.items() if key[3]}

    def drift(self, mean: Orders) -> Orders:
        """E[V′ − V]."""
        return replace(mean, forms={**mean.forms, 0: mean[0] - collected([(IDENTITY, S.One)])})

    def covariance(self) -> Orders:
        """Cov(V′^αβ, V′^δω)."""
        left, right = self.gram(ALPHA, BETA).terms, self.gram(DELTA, OMEGA).terms
        total: Sum = {}
        for stage, (matrix, scalars) in enumerate(self._stages):
            total = totalled(total, self.contraction.joined(self._moved(left, right, scalars)))
            # Cov = E Cov given the other matrices, and Cov of what is left in the mean over this one
            outer = self.contraction.joined(self._pairs(left, right), self._all - {matrix})
            joined = [ProductTerm(c, *key[1:3], key[0]) for key, c in outer.items() if key[3]]
            total = totalled(total, {(*key[:3], True): c for key, c in self._mean(joined, stage + 1).items()})
            left, right = self._opened(left, matrix), self._opened(right, matrix)
        plain = [(a, b) for a, b in self._pairs(left, right) if not (has_kinks(a) or has_kinks(b))]
        near = [*self._near(left, right), *self._moved(left, right, self._late)]
        found = self._by_order(totalled(self.contraction.joined([*plain, *near]), total))
        for label in (f[0] for form in found.forms.values() for factors in form.terms for f in factors):
            if label[0] == "Y":
                raise self.model.weights[label].too_large(
                    " Here the noise of a layer holds the function too, as where it multiplies the state or what is of "
                    "order 1; such noise is not derived."
                )
        return found

    def _pairs(self, left: Sequence[ProductTerm], right: Sequence[ProductTerm]) -> list[Pair]:
        return [(a, b) for a in left for b in right if a.pert + b.pert <= self.most]

    def _near(self, left: Sequence[ProductTerm], right: Sequence[ProductTerm]) -> list[Pair]:
        held = [pair for pair in self._pairs(left, right) if any(map(has_kinks, pair))]
        # what comes with 1/n is joined to nothing at that order
        return [pair for pair in held if not any(has_kinks(t) and t.pert >= MOST for t in pair)]

    def _moved(self, left: Sequence[ProductTerm], right: Sequence[ProductTerm], scalars: frozenset[int]) -> list[Pair]:
        """What a function with a kink holds of the weights that the other side is made of: joined to it through R."""
        if not scalars:
            return []
        near = self._near(left, right)
        self._insist_on_one_response(near, scalars)
        moved = [(c, b) for a, b in near for c in self.responses([a], scalars)]
        return [*moved, *((a, c) for a, b in near for c in self.responses([b], scalars))]

    def _by_order(self, found: Sum) -> Orders:
        return by_order(found, self.model, self.ring, self.arrays, self.laws, least=MOST)

    @cached_property
    def _outside(self) -> frozenset[int]:
        """The matrices whose operands hold functions of scalars with a kink, and those that multiply these in turn."""
        held: set[int] = set()
        while True:
            more = {layer.matrix for layer in self.model.layers.values() if self._reads_kinks(layer, held)}
            if more <= held:
                return frozenset(held)
            held |= more

    def _reads_kinks(self, layer: Layer, matrices: set[int]) -> bool:
        terms = () if layer.operand is None else self.model.operands[layer.operand].terms
        labels = {f[0] for t in terms for f in t.factors}
        return any(n[0] == "G" or (n[0] == "F" and self.model.layers[n].matrix in matrices) for n in labels)

    @cached_property
    def _stages(self) -> tuple[tuple[int, frozenset[int]], ...]:
        """These matrices, outermost first, and the scalars of which each is the first: all of these stand by then."""
        order = [m for m in self.model.outermost_first() if m in self._outside]
        first = [next((m for m in order if m in self.model.matrices_in(scalar)), None) for scalar in self.scalars]
        return tuple((m, frozenset(k for k, own in enumerate(first) if own == m)) for m in order)

    @cached_property
    def _late(self) -> frozenset[int]:
        """The scalars without such matrices."""
        return frozenset(range(len(self.scalars))).difference(*(scalars for _, scalars in self._stages))

    @property
    def _all(self) -> frozenset[int]:
        return frozenset(self.model.depth)

    def _opened(self, terms: Sequence[ProductTerm], matrix: int) -> tuple[ProductTerm, ...]:
        """E of a sum over a matrix outside of functions of scalars, so that these stand in it as factors."""
        found = self.contraction.mean(terms, self._all - {matrix})
        return self._with_merged_kinks(Poly(tuple(ProductTerm(c, *key[1:3], key[0]) for key, c in found.items()))).terms

    def responses(self, terms: Iterable[ProductTerm], scalars: frozenset[int]) -> list[ProductTerm]:
        """P R ∂G for each P G(R)."""
        return [product(t, r) for term in terms for t, r in self._once(term, scalars)]

    def _once(self, term: ProductTerm, scalars: frozenset[int]) -> Iterator[Pair]:
        for place, kink in enumerate(term.factors):
            if self._is_kink(kink, scalars):
                # Stein: E P G(R) = E P E G + Cov(P, R) E G′ + …, R written out as what it is made of
                moved = (*term.factors[:place], differentiated(kink), *term.factors[place + 1 :])
                for r in self._placed(kink, next_number(term.factors)):
                    yield term._replace(factors=moved), r

    def _is_kink(self, factor: Factor, scalars: frozenset[int]) -> bool:
        return factor[0][0] == "G" and scalar_of(factor) in scalars

    def _twice(self, term: ProductTerm, scalars: frozenset[int]) -> Iterator[Pair]:
        """P ∂²G and R R/2."""
        half = self.ring.rational(Fraction(1, 2))
        for once, first in self._once(term, scalars):
            beyond = max(next_number(once.factors), next_number(first.factors))
            for place, kink in enumerate(once.factors):
                if self._is_kink(kink, scalars):
                    moved = (*once.factors[:place], differentiated(kink), *once.factors[place + 1 :])
                    for r in self._placed(kink, beyond):
                        both = product(first, r)
                        yield once._replace(factors=moved), both._replace(coeff=half * both.coeff)

    def _with_merged_kinks(self, poly: Poly) -> Poly:
        """A sum with the powers of one scalar at one place multiplied."""
        terms = []
        for t in poly.terms:
            kinks = [f for f in t.factors if f[0][0] == "G"]
            if len(kinks) > 1:
                rest = [f for f in t.factors if f[0][0] != "G"]
                factors = (*rest, *self.laws.merged(kinks, t.pert))
                # sgn² is 1 at every place that it is summed over
                powers = reduce(lambda p, i: times(p, i // SPAN, 2), indices(t.factors) - indices(factors), t.powers)
                t = t._replace(factors=factors, powers=powers)
            terms.append(t)
        return Poly(tuple(terms), poly.cut)

    def _placed(self, kink: Factor, beyond: int) -> Iterator[ProductTerm]:
        label = kink[0]
        assert isinstance(label, KinkLabel)
        change = {OPEN - k: i for k, i in enumerate(kink[1])}
        for t in self.scalars[label.scalar].terms:
            yield t._replace(factors=placed(t.factors, change, beyond, kink[2]))

    def _insist_on_one_response(self, pairs: Iterable[Pair], scalars: frozenset[int]) -> None:
        """Refuse noise for which a second average would have to be joined to the same scalars."""
        both = [product(a, b._replace(factors=placed(b.factors, {}, next_number(a.factors), 0))) for a, b in pairs]
        # a second average joined to the same scalars costs n^(−1/2) more, and is refused where that is kept
        found = self._by_order(self._joined_twice(both, scalars))
        if any(not vanishes(f, self.arrays.values) for f in found.forms.values()):
            raise EntangledError(
                f"`{self.program.name}`: not covered: the noise of a product of a function of a scalar with a kink and "
                "an average that depends on the same weights; give the scalar matrices of its own.",
                self.model.matrices_in(*self.scalars),
            )


def has_kinks(term: ProductTerm) -> bool:
    """Whether a term holds functions of scalars with a kink."""
    return any(f[0][0] == "G" for f in term.factors)


def totalled(a: Sum, b: Sum) -> Sum:
    """Two contractions added."""
    found = dict(a)
    for key, c in b.items():
        found[key] = found[key] + c if key in found else c
    return found


def lowered(program: Program, fixed: tuple[str, ...] = (), taken: Taken = AS_WRITTEN) -> OneLayer:
    """A block in the index algebra, with its coefficients in one ring; functions of scalars `taken` as told."""
    sizes = dimensions(program, fixed)
    limit, known = MOST, None
    insist_on_real(Lowering(program, sizes, limit, taken))
    while limit <= _LARGEST:
        lowering = Lowering(program, sizes, limit, taken)
        state = lowering.template(program.returns[0])
        polys = [state, *lowering.model.operands.values()]
        # a part of size n^(1/2) or more takes away from the orders that are known; V′ V′ holds it four times
        most = MOST + 4 * sum(max(0, -lowest(p)) for p in polys)
        if state.cut is None or state.cut >= most:
            break
        if lowering.short and state.cut == known:  # it ends there, whatever is asked for
            raise lowering.short
        limit, known = max(most, limit + 1), state.cut
    else:
        raise lowering.short or NoLimitError(
            f"`{program.name}`: small quantities are multiplied by such powers of n that the next state is not known "
            "to order 1/n; divide by the size of what is normalised."
        )
    model = lowering.model
    laws = Laws(replace(model, operands=dict(model.operands)), lowering.arrays)
    # all coefficients of one derivation in one ring, so that they add and cancel without simplification
    scalars = [scalar.poly for scalar in model.scalars]
    ring = Ring([t.coeff for p in (*polys, *scalars, *model.averages.values()) for t in p.terms])
    model.operands = {p: ring.poly(poly) for p, poly in model.operands.items()}
    model.averages = {p: ring.poly(poly) for p, poly in model.averages.items()}
    return OneLayer(
        program,
        model,
        ring,
        lowering.arrays,
        ring.poly(state),
        lowering.reading,
        laws,
        tuple(map(ring.poly, scalars)),
        most,
        tuple(lowering.remarks),
    )
