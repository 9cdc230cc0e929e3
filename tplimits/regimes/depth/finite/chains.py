"""A block at finite width: the covariance of its states, layer by layer, from a given one.

One layer is judged by its drift and its noise, `b[α,β]` = n·E[V′ − V] and `Σ[α,β;δ,ω]` = n·Cov(V′), both with control
variates (`tplimits.regimes.depth.finite.controls`); a chain of layers by the law of V at its end
(`tplimits.regimes.depth.finite.ends`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array, pairs
from tplimits.numbers.threads import one_thread
from tplimits.program.nodes.evaluate import stream
from tplimits.regimes.depth.finite.controls import LEAST_PER_CONTROL, controls, enough, moments
from tplimits.regimes.depth.finite.ends import end_labels, end_values
from tplimits.regimes.depth.finite.expected import Expectation
from tplimits.regimes.depth.finite.layer import Layer, Weights
from tplimits.regimes.depth.finite.states import Mirrored, Start, covariance
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.sample import Draws
from tplimits.sampling.work import layer_batch, layer_work

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


#: draws of the pilot for each control
_PILOT_PER_CONTROL = 10


def drift_labels(m: int) -> tuple[str, ...]:
    """`b[α,β]` for every pair."""
    return tuple(f"b[{a},{b}]" for a, b in pairs(m))


def diffusion_labels(m: int) -> tuple[str, ...]:
    """`Σ[α,β;δ,ω]` for pairs of pairs, the first not after the second."""
    every = pairs(m)
    return tuple(f"Σ[{a},{b};{c},{d}]" for i, (a, b) in enumerate(every) for c, d in every[i:])


@dataclass(frozen=True)
class ChainSampler:
    """Runs chains of a block; with one layer it reads √n·ΔV and the controls, with more the end of the chain.

    `depth` is the number of layers divided by the width; None is one layer at every width.  With `mirrored` a draw
    of one layer is a pair: the same state, all weights with the other sign.
    """

    program: Program
    start: Start
    depth: float | None = None
    seed: int = 0
    weights: Weights = "law"
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] | None = None
    fixed: Mapping[str, int] = field(default_factory=dict)
    mirrored: bool = False

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the columns of the draws are."""
        m = self.start.tokens
        if self.depth is not None:
            return end_labels(m)
        changes = tuple(f"√n·ΔV[{a},{b}]" for a, b in pairs(m))
        one = (*changes, *changes, *(f"control {i}" for i in range(len(self.variances))))
        return one * self.members

    @property
    def members(self) -> int:
        """Chains of one draw."""
        return 2 if self.mirrored else 1

    @cached_property
    def variances(self) -> Array:
        """The variances of the controls."""
        rng = numpy.random.default_rng(0)
        # variances of controls do not depend on the width: one small layer tells how many there are
        layer = self._layer(2 + self.start.tokens, 1, rng)
        x, u = self.start.states(1, layer.width["n"], rng)
        layer.advance(x)
        return controls(u, layer.noise)[1]

    def layers(self, n: int) -> int:
        """The layers of a chain at width n."""
        return 1 if self.depth is None else max(1, round(self.depth * n))

    def prepare(self) -> None:
        """What is the same for every batch, found once."""
        _ = self.labels

    def batch(self, n: int) -> int:
        """Chains in a full batch at width n."""
        return max(1, layer_batch(self.program, n, self.ratios, self.weights == "law") // self.members)

    def work(self, n: int) -> float:
        """The work of one chain at width n."""
        return self.members * self.layers(n) * layer_work(self.program, n, self.ratios, self.weights == "law")

    def _layer(self, n: int, draws: int, rng: Any) -> Layer:
        # a width that stays has a ratio that falls with n
        ratios = {**(self.ratios or {}), **{w: size / n for w, size in self.fixed.items()}}
        return Layer(self.program, n, self.start.tokens, draws, rng, self.weights, ratios, self.given)

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        rng = stream(self.seed, n, index)
        with numpy.errstate(all="ignore"):
            values = self._one_layer(n, draws, rng) if self.depth is None else self._end(n, draws, rng)
        return Draws(n, values, (values**2).mean(axis=0))

    def along(self, n: int, index: int, draws: int, layers: int) -> Iterator[Array]:
        """V before and after each of some layers, in batch number `index` at width n."""
        yield from self._along(n, draws, stream(self.seed, n, index), layers)

    def _along(self, n: int, draws: int, rng: numpy.random.Generator, layers: int) -> Iterator[Array]:
        layer = self._layer(n, draws, rng)
        x, _ = self.start.states(draws, n, rng)
        yield covariance(x)
        for _ in range(layers):
            with numpy.errstate(all="ignore"):
                x = layer.advance(x)
                V = covariance(x)
            yield V

    def _end(self, n: int, draws: int, rng: numpy.random.Generator) -> Array:
        *_, V = self._along(n, draws, rng, self.layers(n))
        return end_values(V)

    def _one_layer(self, n: int, draws: int, rng: numpy.random.Generator) -> Array:
        """For each member of a draw √n·ΔV, its mean over the last matrices, and the controls."""
        layer = self._layer(n, draws * self.members, Mirrored(rng) if self.mirrored else rng)
        x, u = (numpy.concatenate([rows] * self.members) for rows in self.start.states(draws, n, rng))
        V = covariance(layer.advance(x))
        a, b = numpy.triu_indices(self.start.tokens)
        changes = [numpy.sqrt(n) * (one - self.start.V)[:, a, b] for one in (V, Expectation(layer).covariance())]
        columns = numpy.concatenate([*changes, controls(u, layer.noise)[0]], axis=1)
        return numpy.concatenate(numpy.split(columns, self.members), axis=1)


@dataclass(frozen=True)
class LayerInquiry(Inquiry):
    """Claims on drift and noise of one layer."""

    @property
    def chain(self) -> ChainSampler:
        """The sampler, as what it is."""
        assert isinstance(self.sampler, ChainSampler)
        return self.sampler

    @property
    def pilot(self) -> int:
        return max(super().pilot, _PILOT_PER_CONTROL * len(self.chain.variances))

    @property
    def least(self) -> int:
        # without controls the noise of a pilot is that of single draws, and so is the design made from it
        return max(super().least, 2 * LEAST_PER_CONTROL * len(self.chain.variances))

    @property
    def columns(self) -> dict[str, int]:
        m = self.chain.start.tokens
        return {label: i for i, label in enumerate((*drift_labels(m), *diffusion_labels(m)))}

    def measured(self, samples: Sequence[Draws]) -> tuple[Draws, ...]:
        """The columns b and Σ of each width."""
        with one_thread():
            return tuple(measured(self.chain, s) for s in samples)


def measured(sampler: ChainSampler, sample: Draws) -> Draws:
    """Draws with one column for each entry of b, then of Σ, from draws of √n·ΔV and of controls."""
    count = len(pairs(sampler.start.tokens))
    y, expected, c = numpy.split(
        sample.values.reshape(len(sample.values), sampler.members, -1), [count, 2 * count], axis=2
    )
    first, second = moments(y, expected, c, sampler.variances)
    a, b = numpy.triu_indices(count)
    values = numpy.concatenate([numpy.sqrt(sample.n) * first, second[:, a, b]], axis=1)
    # the yardstick of a zero drift: V itself; of a zero covariance: the variances
    V, noise = sampler.start.V, (y**2).mean(axis=(0, 1))
    size = [V[i, i] * V[j, j] for i, j in pairs(len(V))]
    return Draws(sample.n, values, numpy.concatenate([size, (noise[a] * noise[b])]))


def uses_controls(sampler: ChainSampler, draws: Sequence[int]) -> bool:
    """Whether control variates take part at every width."""
    return all(enough(d, len(sampler.variances)) for d in draws)
