"""Where the tangents of parameters start: the Gram matrix of what a layer makes of fresh weights δW beside W.

By duality |∂L/∂W|² has the law of a response to a perturbation δW with the law of W itself.  In the layer of W the
tangent is the derivative of the next state along δW, written out as the block is: δ(f(W u)) = f′(W u) δW u.  Its Gram
matrix at leading order in 1/n is

    a form in V, where W multiplies vectors: a mean over neurons, which does not fluctuate;
    a quadratic form in R′ = L G Lᵀ where W stands in averages of two layers alone, as in logits: random, and smaller.

There δX is along what the layer adds to the state, so that C = (1/n) X′ δX′ is of the order of √D and starts with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import sympy

from tplimits.errors import NoLimitError
from tplimits.program.nodes.kinds import Avg, InitialVector
from tplimits.regimes.depth.algebra.activations import LINEAR, Basis
from tplimits.regimes.depth.algebra.forms import Form, by_order, collected, dimension_factor, over_tokens
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.model import Layer, Model, centred_label
from tplimits.regimes.depth.algebra.products import (
    ALPHA,
    BETA,
    MOST,
    SPAN,
    Factor,
    Factors,
    Poly,
    ProductTerm,
    at_token,
    averaged,
    multiplied,
    next_number,
    times,
)
from tplimits.regimes.depth.derivation.contraction import Contraction
from tplimits.regimes.depth.derivation.not_covered import NO_CLOSED_FORM
from tplimits.regimes.depth.tangent.moving import together, together_terms

if TYPE_CHECKING:
    from sympy import Expr

    from tplimits.regimes.depth.derivation.derivation import OneLayer

#: operands that are derivatives are numbered from here
_MOVED = 1 << 24


@dataclass(frozen=True)
class Start:
    """D of one parameter after its own layer, times n^`order`.

    `form` is its mean, a form in V.  Where it is random, `quadratic` has two factors R = L G Lᵀ, one for every member
    of a family, such as the heads: `members` are how many at each further index of R.
    `linear` is C with it, times n^(`order`/2), with one factor R.
    `refusal` says why that is not known.
    """

    parameter: str
    form: Form
    order: int = 0
    quadratic: Form | None = None
    linear: Form | None = None
    members: tuple[Expr, ...] = ()
    refusal: str = ""

    def scaled(self, before: Expr, after: Expr) -> Start:
        """The start in a stack whose other blocks multiply V by `before` and `after`."""
        given = (self.form, self.quadratic, self.linear)
        forms = [None if f is None else f.degree_scaled(before).scaled(after) for f in given]
        return replace(self, form=forms[0] or Form({}), quadratic=forms[1], linear=forms[2])


def start(layer: OneLayer, matrix: int) -> Start:
    """That of a matrix of a layer of several sequences; NoLimitError where it is not covered."""
    name, unit = layer.model.names[matrix], _unit(layer, matrix)
    writer = _Writer(layer, matrix)
    gram = writer.gram()
    exact = replace(layer, model=writer.model)
    orders = by_order(exact.contraction.mean(gram.terms), writer.model, layer.ring, layer.arrays)
    held = [(order, form) for order, form in sorted(orders.forms.items()) if form]
    # a part that cannot be averaged at the leading order, or before it, would be missing in the form
    if min(orders.opaque.values(), default=MOST + 1) <= (held[0][0] if held else MOST):
        raise NoLimitError(f"the gradient of `{name}`: its size in one layer holds {NO_CLOSED_FORM}.")
    if not held:
        raise NoLimitError(
            f"the gradient of `{name}` is smaller than those of order 1/n, of which the law is derived: the next state "
            "depends on it less, or not at all."
        )
    order, form = held[0][0], held[0][1].scaled(unit)
    group = frozenset().union(*(layer.groups(p) for p, s in enumerate(layer.program) if isinstance(s, Avg)))
    # a mean over neurons, which is its own limit; a response through averages fluctuates
    if order == 0 or matrix not in group:
        return Start(name, together(form), order // 2)
    found = _random(exact, writer, gram, group, order)
    # C holds one δX where D holds two: half of the power of 1/n
    across = _random(exact, writer, writer.gram(across=True), group, order // 2)
    mean = Start(name, together(form), order // 2)
    # only D quadratic and C linear in one R can be drawn together
    if found is None or across is None or found.responses != 2 or across.responses not in (0, 1):
        return replace(
            mean,
            refusal=f"the law of the gradient of `{name}`, which stands in averages of two products, is derived for "
            "one pair of matrices that meets nothing else; other uses beside it are not.",
        )
    return replace(mean, quadratic=found.form, linear=across.form, members=found.members)


def _unit(layer: OneLayer, matrix: int) -> Expr:
    """1 over the variance of the entries of a vector: it is moved by entries of variance 1, whatever its own are."""
    s = layer.program[matrix]
    if not isinstance(s, InitialVector):
        return sympy.S.One
    if s.law.std == 0:
        raise NoLimitError(f"the gradient of `{s.name}`, a vector of one number, is not derived; let it be drawn.")
    return s.law.std**-2


class _Writer:
    """The derivative of the next state along fresh weights of one matrix."""

    def __init__(self, layer: OneLayer, matrix: int) -> None:
        self.layer, self.matrix = layer, matrix
        old = layer.model
        self.fresh = 1 + max(old.depth)
        self.model: Model = replace(
            old,
            layers=dict(old.layers),
            operands=dict(old.operands),
            # averaged just before W: what multiplies W u brings it in, and f(W u) stands beside it
            depth={**{m: 2 * d for m, d in old.depth.items()}, self.fresh: 2 * old.depth[matrix] + 1},
            names={**old.names, self.fresh: f"δ{old.names[matrix]}"},
        )
        self._operands: dict[int, int | None] = {}

    def gram(self, across: bool = False) -> Poly:
        """(1/n) Σ δX′ δX′ at a token of the first sequence and one of the second, or `across` (1/n) Σ X′ δX′."""
        # sums of the second state are numbered behind all of the first: its terms are multiplied with every one of them
        apart = 2 + max((next_number(t.factors) for p in self.layer.states.values() for t in p.terms), default=0)
        left, right = self._at(ALPHA, 1, not across), self._at(BETA, apart + 1, True)
        return averaged(multiplied(left, right, self.layer.most), 0)

    def _at(self, token: int, beyond: int, is_moved: bool) -> Poly:
        state = self.layer.states[token]
        return at_token(self.poly(state) if is_moved else state, token, beyond)

    def poly(self, poly: Poly) -> Poly:
        """The derivative of a sum of products."""
        return Poly(tuple(new for t in poly.terms for new in self._term(t)), poly.cut)

    def _term(self, term: ProductTerm) -> Iterator[ProductTerm]:
        for place, (label, at, copy) in enumerate(term.factors):
            if label[0] == "G":
                raise NoLimitError(
                    "gradients of parameters behind a function of scalars with a kink where it settles are not derived."
                )
            if label[0] != "F":
                continue
            layer = self.model.layers[label]
            rest = (*term.factors[:place], *term.factors[place + 1 :])
            if layer.matrix == self.matrix:  # a mean over W does not move with W
                rest = tuple(f for f in rest if f[:2] != (centred_label(self.matrix), at[-1:]))
            for number, labels in self._factor(layer):
                found = tuple((each.label, at, copy) for each in labels)
                self.model.layers.update({each.label: each for each in labels})
                yield term._replace(coeff=number * term.coeff, factors=(*rest, *found))

    def _factor(self, layer: Layer) -> Iterator[tuple[int, tuple[Layer, ...]]]:
        if layer.matrix == self.matrix:
            beside = replace(layer, matrix=self.fresh, basis=LINEAR)
            for number, basis in _slope(layer.basis):
                yield number, (beside,) if basis is None else (replace(layer, basis=basis), beside)
        # the product rule: W stands in this factor, or before it in what this matrix is applied to
        if layer.operand is not None and layer.basis == LINEAR:
            moved = self._operand(layer.operand)
            if moved is not None:
                yield 1, (replace(layer, operand=moved),)

    def _operand(self, operand: int) -> int | None:
        """The number of the derivative of an operand; None where it is zero."""
        if operand not in self._operands:
            found = self.poly(self.model.operands[operand])
            # kept: several layers apply their matrices to one vector, and its derivative must be one operand
            self._operands[operand] = operand + _MOVED if found.terms else None
            if found.terms:
                self.model.operands[operand + _MOVED] = found
        return self._operands[operand]


def _slope(basis: Basis) -> list[tuple[int, Basis | None]]:
    """The derivative of a basis function; None stands for 1."""
    if basis.function != 1:
        slope = sympy.diff(basis.expr, U)
        return [(1, Basis(0, False, slope))] if slope != 0 else []
    if basis.power == 0:
        if basis.sign:
            raise NoLimitError("a function with a jump has no gradient: replace the sign or step by a continuous one.")
        return []
    lower = Basis(basis.power - 1, basis.sign)
    return [(basis.power, None if lower == Basis(0, False) else lower)]


class _Random(NamedTuple):
    """A Gram matrix with a number of factors R in every product."""

    form: Form
    responses: int
    members: tuple[Expr, ...]


def _random(layer: OneLayer, writer: _Writer, gram: Poly, group: frozenset[int], order: int) -> _Random | None:
    """The Gram matrix given the weights in averages: a factor R for every δX′."""
    model, terms, partners, dimensions, many = writer.model, [], set(), set(), set()
    # the fresh weights and those in averages stay as they are: R is made of both
    keep = group | {writer.fresh}
    contraction = Contraction(model, layer.ring.one, layer.most + 4)
    for (factors, powers, _, _), coefficient in contraction.mean(gram.terms, keep).items():
        dense = [f for f in factors if f[0][0] == "F"]
        neurons = sorted({f[1][-1] for f in dense})
        grown = [i for i in neurons if model.dimensions[i // SPAN].width and model.dimensions[i // SPAN].grows]
        # the sum over neurons of a pair is √n R with R of order 1, one half power of n
        if model.order_of(powers) - len(grown) > order:
            continue
        pairs = [sorted((f for f in dense if f[1][-1] == i), key=lambda f: _matrix(model, f, writer)) for i in neurons]
        many.add(len(pairs))
        # R pairs two linear products at one neuron; a function of one, or a third product, is no Gaussian response
        if any(len(p) != 2 or any(model.layers[f[0]].basis != LINEAR for f in p) for p in pairs):
            return None
        found: list[Factor] = []
        for first, second in pairs:
            response = _response(writer, first, second)
            if response is None:
                return None
            partners.add(model.layers[second[0]].matrix)
            dimensions.add(tuple(i // SPAN for i in response[1][2:]))
            found.append(response)
        for i in neurons:
            powers = times(powers, i // SPAN, 1)
        rest: Factors = (*(f for f in factors if f[0][0] not in "FZ"), *found)
        number, arranged = layer.arrays.arranged(rest, {i for _, at, _ in rest for i in at if i >= 0})
        value = layer.ring.expr(coefficient) * dimension_factor(model, powers)
        terms.append((over_tokens(arranged, model), value * sympy.Rational(number.numerator, number.denominator)))
    if not terms:
        return _Random(Form({}), 0, ())
    if len(partners) != 1 or len(dimensions) != 1 or len(many) != 1:
        return None
    members = tuple(model.dimensions[d].size for d in dimensions.pop())
    return _Random(collected(together_terms(terms)), many.pop(), members)


def _response(writer: _Writer, first: Factor, second: Factor) -> Factor | None:
    """R′_ab of two linear layers, at their tokens and at the members of their families: independent if one differs."""
    layers = [writer.model.layers[f[0]] for f in (first, second)]
    families = [f[1][: layer.families] for f, layer in zip((first, second), layers, strict=True)]
    if any(layer.operand is not None for layer in layers):
        return None
    if layers[1].matrix == writer.matrix and families[0] != families[1]:
        return None  # two members of one family meet: R of (h, h′) is then that of (h′, h) transposed
    tokens = (f[1][layer.families] for f, layer in zip((first, second), layers, strict=True))
    return ("R", (*tokens, *dict.fromkeys(families[0] + families[1])), 0)


def _matrix(model: Model, factor: tuple, writer: _Writer) -> tuple[bool, int]:
    """The fresh matrix first: R′_ab = n^(−1/2) Σ (δW u)_a (U u)_b."""
    return model.layers[factor[0]].matrix != writer.fresh, model.layers[factor[0]].matrix
