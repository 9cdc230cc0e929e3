"""What a check of layers is asked for: a block, the covariance it starts from, how many layers at which widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError, EvaluationError
from tplimits.program.nodes.given import whole_number, word_of
from tplimits.regimes.depth.finite.states import Start, cholesky
from tplimits.regimes.depth.numbers.covariance import covariances
from tplimits.sampling.powers import layer_series
from tplimits.sampling.widths import sampled_widths

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.finite.layer import Weights
    from tplimits.regimes.depth.of_block import OfBlock
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.sampling.estimate import Series

#: the widths of a check of one layer, of a depth, and of a depth with odd powers of √n, unless it is told others
LAYER_WIDTHS = (40, 80, 160, 320, 640)
DEPTH_WIDTHS = (32, 64, 128)
ODD_DEPTH_WIDTHS = (16, 32, 64, 128)
#: a negative eigenvalue of V0 is rounding below this part of the trace
_ROUNDING = 1e-10
#: layers at a smaller width may be off their share of the depth by this part without a remark
_UNEVEN = 0.005


def start(V0: Any, program: Program) -> Start:
    """V0 checked: a covariance of as many tokens as the block has.

    Raises CheckError where it is none.
    """
    if V0 is None:
        raise CheckError(f"check() of `{program.name}` needs V0=, the covariance (m, m) that its first layer is given.")
    try:
        V = covariances(V0)
    except EvaluationError as wrong:
        raise CheckError(f"V0: {wrong}") from None
    if V.ndim != 2:
        raise CheckError(f"V0 has shape {V.shape}; a check starts from one covariance, of shape (m, m).")
    least = float(numpy.linalg.eigvalsh(V)[0])
    if least < -_ROUNDING * float(numpy.trace(V)):
        raise CheckError(f"V0 has the eigenvalue {least:.3g}; a covariance has none below zero.")
    return Start(V, cholesky(V))


def layer_count(layers: Any) -> int:
    """A whole number of layers; CheckError for anything else."""
    number = whole_number(layers)
    if number is None or number < 1:
        raise CheckError(f"layers={layers!r}: a chain has a whole number of layers, 1 or more.")
    return number


def bound_block(program: Program, tokens: int, given: Mapping[str, Any] | None) -> tuple[Program, dict[str, Any]]:
    """The block with all sizes fixed, and what is given beside them."""
    values = dict(given or {})
    sizes = {a: values.pop(a) for a in list(values) if a in program.known.axes}
    assert program.state is not None
    return program.bind(**{program[program.state].axes[0]: tokens, **sizes}), values


def _fixed_width(program: Program, name: str, value: Any) -> int:
    size = whole_number(value)
    if size is None or size < 1:
        raise CheckError(f"the width `{name}` of `{program.name}` stays fixed: give {name}=, a positive whole number.")
    return size


@dataclass(frozen=True)
class LayersRequest:
    """Layers of a block, from states of covariance V0: `layers` of them at the largest of `widths`.

    `weights="law"` draws products with matrices, `"real"` the matrices; `ratios` are those of other widths to n,
    `given` holds constants, sizes and the widths that stay `fixed`.

    Its properties raise CheckError where what was asked for cannot be.
    """

    program: Program
    V0: Any
    layers: Any = 1
    widths: Sequence[int] | None = None
    seed: int = 0
    weights: Weights = "law"
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()

    @classmethod
    def of(cls, limit: OfBlock, asked: CheckAsked, weights: Weights) -> LayersRequest:
        """What a check of a limit asks for."""
        own, sampling, given = asked.own, asked.sampling, asked.given
        chains = own.get("V0"), own.get("layers", 1), sampling.widths, sampling.seed, weights
        return cls(limit.program, *chains, given.ratios, given.constants, limit.fixed)

    def __post_init__(self) -> None:
        word_of("weights", self.weights, ("law", "real"), CheckError)

    @cached_property
    def start(self) -> Start:
        """Where the chains start."""
        return start(self.V0, self.program)

    @cached_property
    def count(self) -> int:
        """The number of layers."""
        return layer_count(self.layers)

    @cached_property
    def _bound(self) -> tuple[Program, dict[str, Any]]:
        return bound_block(self.program, self.start.tokens, self.given)

    @property
    def block(self) -> Program:
        """The block with all sizes fixed."""
        return self._bound[0]

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The constants of the block."""
        return {name: value for name, value in self._bound[1].items() if name not in self.fixed}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The widths that do not grow."""
        return {w: _fixed_width(self.program, w, self._bound[1].get(w)) for w in self.fixed}

    @cached_property
    def series(self) -> Series:
        """The powers of n in which moments of a layer are expanded."""
        return layer_series(self.block, self.constants)

    @cached_property
    def _taken(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        usual = LAYER_WIDTHS if self.count == 1 else DEPTH_WIDTHS if self.series.step == 1 else ODD_DEPTH_WIDTHS
        asked = usual if self.widths is None else self.widths
        ratios = {w: r for w, r in (self.ratios or {}).items() if w not in self.fixed}
        layers = None if self.count == 1 else self.count
        taken, remarks = sampled_widths(self.block, asked, self.series, ratios, layers)
        if taken[0] < self.start.tokens:
            raise CheckError(
                f"width {taken[0]} cannot hold {self.start.tokens} tokens of a given covariance; start from a larger "
                "one."
            )
        return taken, (*remarks, *self._uneven(taken))

    def _uneven(self, taken: tuple[int, ...]) -> list[str]:
        """Widths at which the depth is no whole number of layers."""
        shares = {n: self.count * n / taken[-1] for n in taken} if self.count > 1 else {}
        odd = [n for n, d in shares.items() if abs(max(1, round(d)) - d) > _UNEVEN * d]
        if not odd:
            return []
        return [
            f"At width {odd[0]} the depth of {self.count} layers at width {taken[-1]} is {shares[odd[0]]:.4g} layers, "
            "which is not whole: choose widths in whole proportions."
        ]

    @property
    def taken(self) -> tuple[int, ...]:
        """The widths to sample at."""
        return self._taken[0]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What there is to say about the widths."""
        return self._taken[1]

    @property
    def depth(self) -> float | None:
        """T, the number of layers divided by the width; None for one layer at every width."""
        return None if self.count == 1 else self.count / self.taken[-1]
