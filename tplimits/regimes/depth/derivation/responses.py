"""How one layer's V′ responds to weights that enter through averages of two dense layers: forms in R, R = L G Lᵀ.

E[V′ | the weights of an average] is, at order n^(−1/2), a sum over pairs of matrices (and members of their families)
of forms in R_ab = n_k^(−1/2) Σ_j (W u)_aj (U u)_bj.  Its covariance is E R_ab R_cd = V_ac V_bd for the same pair, and
zero for different ones: whichever of W and U two pairs share, the other has mean zero on its own.  A bias is a matrix
times the vector of ones: R_b = n_k^(−1/2) Σ_j c_j (U u)_bj is L g, with E R_b R_d = V_bd.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Rational

from tplimits.regimes.depth.algebra.activations import LINEAR
from tplimits.regimes.depth.algebra.arrays import ARRAYS, Arrays
from tplimits.regimes.depth.algebra.forms import Form, collected, dimension_factor, over_tokens
from tplimits.regimes.depth.algebra.model import ONES
from tplimits.regimes.depth.algebra.products import (
    ALPHA,
    BETA,
    COPIES,
    DELTA,
    MATRIX,
    OMEGA,
    SPAN,
    SYMMETRIC,
    VECTOR,
    Factor,
    Factors,
    ProductTerm,
    indices,
    next_number,
    product,
    renamed,
    times,
)
from tplimits.regimes.depth.derivation.contraction import shifted

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.derivation import OneLayer


@dataclass(frozen=True)
class Response:
    """The noise of one group of weights: dV^αβ = form(R), R = L G Lᵀ (L (G + Gᵀ) Lᵀ/√2 if `symmetric`), or R = L g."""

    matrices: tuple[str, ...]
    form: Form
    symmetric: bool = False

    @property
    def law(self) -> int:
        """Which law R has."""
        rank = next(len(at) for factors in self.form.terms for label, at, _ in factors if label == "R")
        return SYMMETRIC if self.symmetric else MATRIX if rank > 1 else VECTOR

    def second_moments(self, factors: Factors) -> list[Factors]:
        """The products that E of one with two R in it is a sum of: E R_ab R_cd = V_ac V_bd, G with independent entries.

        And V_ad V_bc where G + Gᵀ stands for G.
        """
        one, two = (at for label, at, _ in factors if label == "R")
        rest = tuple(f for f in factors if f[0] != "R")
        ways = (two, two[::-1]) if self.symmetric else (two,)
        return [(*rest, *(("V", pair, 0) for pair in zip(one, way, strict=True))) for way in ways]

    def covariance(self) -> Form:
        """Cov of the noise with itself at other tokens."""
        found = []
        for (left, a), (right, b) in itertools.product(self.form.terms.items(), repeat=2):
            one = ProductTerm(a, (), 0, left)
            other = shifted(ProductTerm(b, (), 0, _elsewhere(right)), next_number(left), 0)
            both = product(one, other)
            found += [(factors, both.coeff) for factors in self.second_moments(both.factors)]
        return collected(found)


def _elsewhere(factors: Factors) -> Factors:
    """A product at δ, ω in the place of α, β; of several sequences, in the third and fourth."""
    change = {ALPHA: DELTA, BETA: OMEGA}
    change |= {i: i + 2 * SPAN for i in indices(factors) if i // SPAN >= COPIES}
    return renamed(factors, change)


@dataclass(frozen=True)
class _Part:
    """One term of a response: a product with an R in it, at a pair of matrices and at indices of their families."""

    pair: tuple[int, int]
    families: tuple[tuple[int, ...], tuple[int, ...]]
    factors: Factors
    coefficient: Expr
    powers: tuple[int, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(i for family in self.families for i in family))


def responses_of(layer: OneLayer, group: frozenset[int]) -> list[Response] | None:
    """What E[V′ | group] has at order ε, one response a pair; None where it is not linear in averages of two layers."""
    pairs: dict[tuple[int, int], list[_Part]] = {}
    for part in _parts(layer, group):
        if part is None or _is_crossed(part):
            return None
        pairs.setdefault(part.pair, []).append(part)
    found = []
    for pair, parts in pairs.items():
        # terms that identify the families differently need different G, correlated with one another
        if len({_pattern(p) for p in parts}) > 1:
            return None
        names = tuple(layer.model.names[m] for m in sorted(set(pair)))
        found += [Response(names, form, pair[0] == pair[1]) for form in _by_member(layer, parts) if form]
    return found


def _parts(layer: OneLayer, group: frozenset[int]) -> Iterator[_Part | None]:
    model = layer.model
    for (factors, powers, _, _), coefficient in layer.contraction.mean(layer.gram(ALPHA, BETA).terms, group).items():
        dense = [f for f in factors if f[0][0] == "F"]
        bent = any(f[0][0] == "G" for f in factors)
        if not dense and not bent:
            continue
        neurons = {f[1][-1] for f in dense}
        linear = len(dense) == 2 and len(neurons) == 1 and all(model.layers[f[0]].basis == LINEAR for f in dense)
        # Σ_j q_j k_j of a width is √width times a variable of order 1, and each sum that is left to do counts so
        halves = sum(1 for i in neurons if model.dimensions[i // SPAN].width and model.dimensions[i // SPAN].grows)
        order = model.order_of(powers) - halves
        if order > 1:
            continue
        closed = not any(f[0][0] == "C" for f in factors)
        operands = {model.layers[f[0]].operand for f in dense}
        if bent or not linear or not closed or not operands <= {None, ONES} or operands == {ONES}:
            yield None
            continue
        (neuron,) = neurons
        # the first token of R is that of the matrix with the lower number, in all terms of the pair
        ordered = sorted(dense, key=lambda f: (model.layers[f[0]].matrix, f))
        first, second = (model.layers[f[0]] for f in ordered)
        families = ordered[0][1][: first.families], ordered[1][1][: second.families]
        tokens = (*ordered[0][1][first.families : -1], *ordered[1][1][second.families : -1])
        rest = (*(f for f in factors if f[0][0] not in "FZ"), ("R", tokens, 0))
        yield _Part(
            (first.matrix, second.matrix),
            families,
            rest,
            layer.ring.expr(coefficient),
            times(powers, neuron // SPAN, 1),
        )


def _is_crossed(part: _Part) -> bool:
    """Whether two members of one family meet: R of (h, h′) is then that of (h′, h) transposed."""
    return part.pair[0] == part.pair[1] and part.families[0] != part.families[1]


def _pattern(part: _Part) -> tuple[tuple[int, ...], ...]:
    """Which indices of the two families are one."""
    return tuple(tuple(part.members.index(i) for i in family) for family in part.families)


def _by_member(layer: OneLayer, parts: Sequence[_Part]) -> list[Form]:
    """The forms of the members of a pair; where arrays do not tell members apart, √members times one."""
    model, arrays = layer.model, layer.arrays
    parts = [_contracted(p, layer) for p in parts]
    told = [tuple(i in indices(_arrays_of(p.factors)) for i in p.members) for p in parts]
    apart = [any(flags[k] for flags in told) for k in range(len(parts[0].members))]
    sizes = [_size(parts, k, arrays) if each else 1 for k, each in enumerate(apart)]
    found = []
    for member in itertools.product(*map(range, sizes)):
        terms = []
        for part in parts:
            powers, at = part.powers, {}
            for k, i in enumerate(part.members):
                if apart[k]:
                    at[i] = member[k]
                else:
                    # members that enter alike: a sum of so many independent R is √members times one
                    powers = times(powers, i // SPAN, 1)
            factors = arrays.sliced(part.factors, at)
            scale, factors = arrays.arranged(factors, indices(factors))
            number = part.coefficient * dimension_factor(model, powers)
            terms.append((over_tokens(factors, model), number * Rational(scale.numerator, scale.denominator)))
        found.append(collected(terms))
    return found


def _contracted(part: _Part, layer: OneLayer) -> _Part:
    """Sums over other axes done where they can be; a diagonal array may have made two indices of families one."""
    held = set(part.members)
    factors = layer.arrays.contracted(part.factors, lambda i: i not in held and not layer.model.is_token(i))
    return _Part(part.pair, part.families, factors, part.coefficient, part.powers)


def _arrays_of(factors: Factors) -> list[Factor]:
    return [f for f in factors if f[0][0] in ARRAYS]


def _size(parts: Iterable[_Part], place: int, arrays: Arrays) -> int:
    """How many members there are at one place of the families, from an array that has them."""
    for part in parts:
        index = part.members[place]
        for label, at, _ in _arrays_of(part.factors):
            if index in at:
                return int(arrays.values[label].shape[at.index(index)])
    raise AssertionError("no array holds the index of the family")


def proportional_as_one(responses: Sequence[Response]) -> list[Response]:
    """Independent responses c_k·form as one of size √(Σ c_k²)."""
    found: list[tuple[Response, Expr]] = []
    for response in responses:
        for place, (first, total) in enumerate(found):
            ratio = _ratio(response, first)
            if ratio is not None:
                names = tuple(dict.fromkeys((*first.matrices, *response.matrices)))
                found[place] = Response(names, first.form, first.symmetric), total + ratio**2
                break
        else:
            found.append((response, sympy.S.One))
    return [
        r if total == 1 else Response(r.matrices, r.form.scaled(sympy.sqrt(total)), r.symmetric) for r, total in found
    ]


def _ratio(one: Response, other: Response) -> Expr | None:
    """c where one is c times the other."""
    if one.symmetric != other.symmetric or one.form.terms.keys() != other.form.terms.keys():
        return None
    ratios = {sympy.cancel(c / other.form.terms[f]) for f, c in one.form.terms.items()}
    (ratio, *more) = ratios
    return ratio if not more and ratio.is_number else None
