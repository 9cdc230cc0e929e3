"""The drift and the noise of one layer: E[V′ − V] and Cov(V′) by powers of ε = n^(−1/2)."""

from __future__ import annotations

from dataclasses import dataclass

from sympy import S, Symbol

from tplimits.errors import NoLimitError
from tplimits.limit.depth.algebra import OPEN, Dimension, Poly, averaged, lowest, multiplied, next_number, placed
from tplimits.limit.depth.arrays import Arrays
from tplimits.limit.depth.coefficients import Ring
from tplimits.limit.depth.contraction import MOST, Contraction
from tplimits.limit.depth.forms import Orders, by_order, collected
from tplimits.limit.depth.lowering import Lowering
from tplimits.limit.depth.model import Model
from tplimits.limit.depth.reading import Reading
from tplimits.program.entries import size_symbol, width_symbol
from tplimits.program.program import Program

#: the highest order up to which series are taken
_LARGEST = 12
#: free token indices: α, β, δ, ω
ALPHA, BETA, DELTA, OMEGA = -4, -3, -2, -1
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
    most: int = MOST
    remarks: tuple[str, ...] = ()

    def groups(self, average: int) -> frozenset[int]:
        """The matrices that an average over neurons depends on."""
        return self.reading.matrices_of[average]

    @property
    def contraction(self) -> Contraction:
        return Contraction(self.model, self.ring.ring.one, self.most)

    def gram(self, first: int, second: int) -> Poly:
        """V′ at two free tokens: (1/n) Σ_i X′ X′."""
        apart = 2 + max((next_number(t.factors) for t in self.state.terms), default=0)
        left, right = self._at(first, 1), self._at(second, apart)
        return averaged(multiplied(left, right, self.most), 0)

    def _at(self, token: int, beyond: int) -> Poly:
        change = {OPEN: 0, OPEN - 1: token}
        terms = (t._replace(factors=placed(t.factors, change, beyond, 0)) for t in self.state.terms)
        return Poly(tuple(terms), self.state.cut)

    def mean(self) -> Orders:
        """E[V′^αβ]."""
        return by_order(self.contraction.mean(self.gram(ALPHA, BETA).terms), self.model, self.ring, self.arrays)

    def drift(self, mean: Orders) -> Orders:
        """E[V′ − V]."""
        return Orders({**mean.forms, 0: mean[0] - collected([(IDENTITY, S.One)])}, mean.opaque)

    def covariance(self) -> Orders:
        """Cov(V′^αβ, V′^δω)."""
        left, right = self.gram(ALPHA, BETA).terms, self.gram(DELTA, OMEGA).terms
        found = by_order(self.contraction.covariance(left, right), self.model, self.ring, self.arrays)
        for label in (f[0] for form in found.forms.values() for factors in form.terms for f in factors):
            if label[0] == "Y":
                raise NoLimitError(self.model.weights[label].refusal)
        return found


def dimensions(program: Program, fixed: tuple[str, ...]) -> tuple[Dimension, ...]:
    """Widths, n first, then finite axes; sizes that are not known are symbols."""
    widths = ["n", *(w for w in program.widths if w != "n")]
    found = [Dimension(w, width_symbol(w), True, w not in fixed) for w in widths]
    state = program[program.state or 0]
    tokens = {program.root_axis(a) for a in state.axes}
    for axis in dict.fromkeys(program.root_axis(a) for a in program.all_axes):
        size = program.size(axis)
        symbol = Symbol("m", integer=True, positive=True) if axis in tokens else size_symbol(axis)
        found.append(Dimension(axis, symbol if size is None else size, False, False))
    return tuple(found)


def lowered(program: Program, fixed: tuple[str, ...] = ()) -> OneLayer:
    """A block in the index algebra, with its coefficients in one ring."""
    sizes = dimensions(program, fixed)
    limit = MOST
    while limit <= _LARGEST:
        lowering = Lowering(program, sizes, limit)
        state = lowering.template(program.returns[0])
        polys = [state, *lowering.model.operands.values()]
        # a part of size n^(1/2) or more takes away from the orders that are known; V′ V′ holds it four times
        most = MOST + 4 * sum(max(0, -lowest(p)) for p in polys)
        if all(p.cut is None or p.cut >= most for p in polys):
            break
        limit = max(most, limit + 1)
    else:
        raise NoLimitError(
            f"`{program.name}`: small quantities are multiplied by such powers of n that the next state is not known "
            "to order 1/n; divide by the size of what is normalised."
        )
    model = lowering.model
    ring = Ring([t.coeff for p in (*polys, *model.averages.values()) for t in p.terms])
    model.operands = {p: ring.poly(poly) for p, poly in model.operands.items()}
    model.averages = {p: ring.poly(poly) for p, poly in model.averages.items()}
    return OneLayer(
        program, model, ring, lowering.arrays, ring.poly(state), lowering.reading, most, tuple(lowering.remarks)
    )
