"""One layer of a deep network to order 1/n: the covariance of its tokens, from that of the layer before.

    V′ = M(V) + r/√n + b/n + fluctuations of covariance C/n

The state enters by its covariance alone: x_a = Σ_b L_ab q_b with V = L Lᵀ and q_b orthonormal by averages at width n.
V itself may be random: V = v + r/√n + b/n with covariance C/n.  By Ito's rule the mean of V′ then holds ½ D²M : C, and
its covariance DM C DMᵀ: one pass gives b and C of a layer, DM, and contractions of D²M that are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array, pairs
from tplimits.errors import EvaluationError
from tplimits.numbers.expansion.averages import Averages
from tplimits.numbers.expansion.fields import TooLarge
from tplimits.numbers.expansion.jets import Given, Jet
from tplimits.numbers.expansion.programs import Numbers, Pass
from tplimits.numbers.expansion.resolutions import Divisions, divided, drawn_size
from tplimits.numbers.expansion.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tplimits.law.kets import Key
    from tplimits.numbers.expansion.nodes import Frame
    from tplimits.numbers.expansion.reading import Use
    from tplimits.numbers.expansion.settled import Series
    from tplimits.program.nodes.kinds import InitialVector
    from tplimits.program.nodes.program import Program


#: what is left of a token beside the ones before, as a part of its square, where it is a combination of them
_SINGULAR = 1e-10


def fixed(V: Array) -> Given:
    """A covariance (m, m) that is not random."""
    value = V[numpy.triu_indices(len(V))]
    zero = numpy.zeros(len(value))
    return Given(value, zero, zero, numpy.zeros((len(value), len(value))))


def full(entries: Array) -> Array:
    """A covariance (m, m) from its entries a ≤ b."""
    m = round((2 * len(entries) + 0.25) ** 0.5 - 0.5)
    found = numpy.zeros((m, m))
    found[numpy.triu_indices(m)] = entries
    return found + numpy.triu(found, 1).T


@dataclass(frozen=True)
class Layer:
    """One block at given numbers, on nodes of one distance; tokens are members of the state's only axis."""

    program: Program
    numbers: Numbers
    step: float = 0.42
    #: nodes of variables that enter through polynomials: k are exact up to degree 2k − 1, of products of four states
    few: int = 4
    #: who expands functions of scalars at their kinks, and functions that the width stands inside of
    series: Series | None = None
    _exist: dict[Use, bool] = field(default_factory=dict, compare=False, repr=False)
    #: kinks, for the last V
    _met: dict[bytes, Divisions] = field(default_factory=dict, compare=False, repr=False)

    def image(self, V: Array) -> Array:
        """M(V), the covariance of the next state at n = ∞."""
        value = self._made(fixed(V), values_only=True)[0].value
        return full(value)

    def moved(self, law: Given) -> tuple[Given, Array]:
        """The law of V′ from that of V, and DM; entries a ≤ b in row order.

        Raises EvaluationError where V is singular: roots of its Cholesky factor have no derivative there.
        """
        return self._made(law, values_only=False)

    def _made(self, law: Given, values_only: bool) -> tuple[Given, Array]:
        def made(frame: Frame) -> tuple[Given, Array]:
            return _covariance(self._run(frame, law, values_only))

        try:
            with numpy.errstate(all="ignore"):
                # the limit alone does not tell: directions may vanish there and be present at every width
                if not self._exist:  # which directions a matrix meets at finite width, as one drawn network shows
                    size = drawn_size(self.program)
                    sizes = dict.fromkeys(self.numbers.ratios, size)
                    self._run(Samples(sizes, numpy.random.default_rng(0)), law, True, size)
                return divided(self.program.name, self.step, made, self.few, self._divisions(law))
        except TooLarge:
            raise EvaluationError(
                f"`{self.program.name}` has functions of more variables than a grid has room for; take fewer tokens."
            ) from None

    def _divisions(self, law: Given) -> Divisions:
        key = law.value.tobytes()
        if key not in self._met:
            # kinks at V before are where those at V begin, if they depend on nothing
            before = next(iter(self._met.values()), Divisions())
            self._met.clear()
            self._met[key] = before.elsewhere()
        return self._met[key]

    def _run(self, frame: Frame, law: Given, values_only: bool, size: int | None = None) -> _Layer:
        averages = Averages(frame, self.numbers.ratios, values_only)
        run = _Layer(self.program, self.numbers, averages, self._exist, size, self.series)
        run.law, run.given = law, []
        run.run()
        return run


class _Layer(Pass):
    """A pass whose state is made of its covariance."""

    law: Given
    #: the averages that V is
    given: list[int]
    _state: list[Jet] | None = None

    def initial_vector(self, s: InitialVector, key: Key) -> None:
        if key[0] != self.program.state:
            super().initial_vector(s, key)
            return
        if self._state is None:
            self._state = self._states(s.over)
        self.jets[key] = self._state[key[1][0]]

    def _states(self, axis: str) -> list[Jet]:
        """x_a = Σ_b L_ab q_b."""
        do, m = self.averages, len(full(self.law.value))
        every = pairs(m)
        given = do.given([f"V[{a},{b}]" for a, b in every], self.law)
        self.given = [j for x in given for j in x.slopes]
        V = dict(zip(every, given, strict=True))
        L: dict[tuple[int, int], Jet] = {}
        basis: list[Jet] = []
        for b in range(m):
            basis.append(self._direction(axis, basis))
            for a in range(b, m):
                known = (do.scaled(do.product(L[a, k], L[b, k]), -1.0) for k in range(b))
                left = do.sum(V[b, a], *known)
                if a == b:
                    # √left has no derivative at 0, and rounding decides its value
                    if left.value.values <= _SINGULAR * V[a, a].value.values:
                        raise EvaluationError(
                            f"V is singular, or nearly so: token {a} is a combination of those before it, where the "
                            "coefficients have no derivatives."
                        )
                    L[a, a], inverse = do.power(left, 0.5), do.power(left, -0.5)
                else:
                    L[a, b] = do.product(left, inverse)
        return [do.sum(*(do.product(L[a, b], basis[b]) for b in range(a + 1))) for a in range(m)]

    def _direction(self, axis: str, before: list[Jet]) -> Jet:
        """A vector of length 1, orthogonal to those before by averages at width n (Gram and Schmidt)."""
        do, g = self.averages, Jet(self.frame.normal(axis))
        minus = [do.average(do.product(q, g), axis, "directions of the state") for q in before]
        square = do.average(do.product(g, g), axis, "directions of the state")
        # averages at width n, not their limits 0 and 1: V is the Gram of x at that width exactly
        rest = do.sum(square, *(do.scaled(do.product(c, c), -1.0) for c in minus))
        left = do.sum(g, *(do.scaled(do.product(c, q), -1.0) for c, q in zip(minus, before, strict=True)))
        return do.product(do.power(rest, -0.5), left)

    def images(self) -> Iterator[Jet]:
        """Averages of products of the next states."""
        do, out = self.averages, self.program.returns[0]
        width = self.program[out].width
        assert width is not None
        m = len(full(self.law.value))
        for a, b in pairs(m):
            yield do.average(do.product(self.jets[out, (a,)], self.jets[out, (b,)]), width, f"V′[{a},{b}]")


def _covariance(run: _Layer) -> tuple[Given, Array]:
    """The law of the next covariance, and what it is moved by V."""
    law, _, total = run.averages.law(list(run.images()))
    return law, total[:, run.given]
