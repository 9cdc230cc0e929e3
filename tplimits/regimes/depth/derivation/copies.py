"""Several sequences that go through one layer with the same weights, each attending to itself.

Sequence k has tokens of its own, a dimension of the index algebra more: its vectors are those of the layer with the
tokens renamed, and Wick pairings join them because the matrices are the same.  With free tokens α, β, δ, ω in sequences
0 to 3, the drift is b^αβ of a token of the first and one of the second sequence, which no form for one sequence tells:
V^(x̄x̄) may be a mean over the first, over the second, or over one token of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tplimits.errors import NoLimitError
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector
from tplimits.regimes.depth.algebra.model import ONES, KinkLabel, Layer, Model, Scalar, kink_label
from tplimits.regimes.depth.algebra.products import (
    ALPHA,
    BETA,
    COPIES,
    DELTA,
    OMEGA,
    SPAN,
    Dimension,
    Factors,
    Poly,
    times,
)
from tplimits.regimes.depth.derivation.laws import Laws

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.derivation import OneLayer

#: the sequence that each free token belongs to
SEQUENCE = {ALPHA: 0, BETA: 1, DELTA: 2, OMEGA: 3}
#: operands of sequence k are numbered from k times this
_APART = 1 << 20


@dataclass(frozen=True)
class _Sequence:
    """The vectors and scalars of a model in sequence `number`, whose tokens are another dimension."""

    model: Model
    number: int

    @property
    def tokens(self) -> int:
        """The dimension of its tokens."""
        return len(self.model.dimensions) + self.number - 1 if self.number else self.model.tokens

    def poly(self, poly: Poly) -> Poly:
        """A sum of the model, in this sequence."""
        terms = []
        for t in poly.terms:
            powers = (*t.powers, *(0,) * (len(SEQUENCE) - 1))
            if self.number:  # a mean over tokens is one over those of this sequence
                held = powers[self.model.tokens]
                powers = times(times(powers, self.model.tokens, -held), self.tokens, held)
            terms.append(t._replace(powers=powers, factors=self.factors(t.factors)))
        return Poly(tuple(terms), poly.cut)

    def factors(self, factors: Factors) -> Factors:
        """A product of the model, in this sequence."""
        return tuple((self.label(label), tuple(map(self.index, at)), copy) for label, at, copy in factors)

    def index(self, index: int) -> int:
        """An index of the model, in this sequence."""
        here = index >= 0 and index // SPAN == self.model.tokens
        return self.tokens * SPAN + index % SPAN if here else index

    def label(self, label: str) -> str:
        """The label of the same function of this sequence."""
        if label[0] == "F":
            return self.layer(self.model.layers[label]).label
        if isinstance(label, KinkLabel):
            scalar = self.scalar(label.scalar)
            return kink_label(scalar, label.power, label.sign, label.derivatives, label.function)
        return label

    def layer(self, layer: Layer) -> Layer:
        """The same matrix times the operand of this sequence."""
        # the matrix keeps its number: that it is the same is what joins two sequences
        return layer if layer.operand is None else replace(layer, operand=self.operand(layer.operand))

    def operand(self, operand: int) -> int:
        """The number of an operand of the model; the ones that biases multiply are the same for all."""
        return operand if operand == ONES else operand + _APART * self.number

    def scalar(self, scalar: int) -> int:
        """The number of a scalar of the model."""
        return scalar + len(self.model.scalars) * self.number


def _model(model: Model, sequences: tuple[_Sequence, ...]) -> Model:
    layers = [s.layer(layer) for s in sequences for layer in model.layers.values()]
    own = model.dimensions[model.tokens]
    more = [Dimension(f"{own.name}′{s.number}", own.size, False, False) for s in sequences[1:]]
    scalars = [Scalar(s.poly(x.poly), x.dimensions) for s in sequences for x in model.scalars]
    return replace(
        model,
        dimensions=(*model.dimensions, *more),
        layers={layer.label: layer for layer in layers},
        operands={s.operand(p): s.poly(poly) for s in sequences for p, poly in model.operands.items()},
        scalars=scalars,
        sequences=tuple(s.tokens for s in sequences),
    )


def in_sequences(layer: OneLayer) -> OneLayer:
    """A layer whose free tokens are of four sequences.

    NoLimitError where the weights differ between tokens, or are averaged at order 1.
    """
    _insist_on_shared_weights(layer)
    sequences = tuple(_Sequence(layer.model, k) for k in range(len(SEQUENCE)))
    return replace(
        layer,
        model=_model(layer.model, sequences),
        states={token: sequences[k].poly(layer.state) for token, k in SEQUENCE.items()},
        scalars=tuple(s.poly(x) for s in sequences for x in layer.scalars),
        laws=Laws(_model(layer.laws.model, sequences), layer.arrays),
    )


def _insist_on_shared_weights(layer: OneLayer) -> None:
    program = layer.program
    state = program[program.state or 0]
    own = {program.root_axis(a) for a in state.axes}
    for position, s in enumerate(program):
        if (
            isinstance(s, (InitialMatrix, InitialVector))
            and position != program.state
            and own & {program.root_axis(a) for a in s.axes}
        ):
            raise NoLimitError(
                f"`{program.name}`: the entries of `{s.name}` differ between tokens, and which of them two sequences "
                "share is not followed here; tangents are derived for blocks whose weights all tokens share."
            )
    if layer.model.weights:
        raise NoLimitError(
            f"`{program.name}` holds functions of scalars that keep their size, as the softmax of logits of order 1, "
            "of several dense layers at once, or of V as norms are: "
            "the mean of a product of their derivatives is not derived. Divide the logits by sqrt(n), as shaped "
            "attention does."
        )


def sequence_of(index: int) -> int | None:
    """The sequence that a token of a form belongs to; None for indices of other axes.

    >>> [sequence_of(i) for i in (ALPHA, OMEGA, (COPIES + 2) * SPAN, SPAN + 1)]
    [0, 3, 2, None]
    """
    if index < 0:
        return SEQUENCE.get(index)
    return index // SPAN - COPIES if index // SPAN >= COPIES else None
