"""The compiled steps of an SDE, of states alone or with their tangents, at given constants: paths in threads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numba
import numpy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers import generated
from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.algebra.forms import Form, unrolled
from tplimits.regimes.depth.algebra.products import SPAN
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.numbers.batch import Ends, Noise, aligned, room
from tplimits.regimes.depth.numbers.normals import streams
from tplimits.regimes.depth.numbers.tabulated import tables

if TYPE_CHECKING:
    from tplimits.numbers.native import Native
    from tplimits.regimes.depth.numbers.settings import Settings
    from tplimits.regimes.depth.numbers.source import Generated

#: the size of a step, as a symbol in coefficients
STEP = Symbol("dt", positive=True)
#: paths handed to a thread at once
_CHUNK = 64

#: all steps of some paths, in place: which they are, where they start, how many steps, their noise, step and ends
Loop = Callable[[slice, Array, int, Noise, Any, Ends], None]


def on_tokens(form: Form, arrays: Mapping[str, Array], instead: str) -> tuple[Form, dict[str, Array]]:
    """A form without sums over other axes than the tokens: loops run over tokens alone."""
    alone, arrays = unrolled(form, arrays)
    if any(i >= SPAN for factors in alone.terms for _, at, _ in factors for i in at):
        raise EvaluationError(
            "a Gaussian mean differs between members of an axis other than the tokens, for which there are no "
            f"compiled steps{instead}"
        )
    return alone, arrays


def numbered(source: Generated, coefficients: Sequence[Expr]) -> Form:
    """The coefficients of the terms and of the means, numbered so that equal products of two outputs stay apart."""
    every = (*coefficients, *(c for mean in source.means for c in mean.coefficients))
    return Form({(("c", (k,), 0),): c for k, c in enumerate(every)})


@dataclass(frozen=True)
class Coefficients:
    """One SDE: the generated functions, and the coefficients of its terms as expressions."""

    source: Generated
    coefficients: Form
    isotropic: Expr
    arrays: Mapping[str, Array]
    laws: tuple[int, ...]

    @property
    def assemble(self) -> Native:
        """One step, compiled at the first call."""
        step: Native = generated.functions(self.source.text, "sde")["assemble"]
        return step


@dataclass(frozen=True)
class Compiled:
    """An SDE at given constants."""

    simulator: Any
    values: Mapping[Symbol, float]
    arrays: tuple[Array, ...]
    isotropic: float

    #: a matrix of a path has so many blocks of tokens along a side
    blocks: ClassVar[int] = 1
    #: what a loop is given of one step
    step: ClassVar[Any]
    #: what has the numbers where tables are refused
    instead: ClassVar[str]

    @classmethod
    def at(cls, simulator: Coefficients, values: Mapping[Symbol, float], m: int) -> Self:
        """Numbers put in.

        Raises EvaluationError where a constant is missing, a coefficient is not real, or Σ is not positive.
        """
        (isotropic,) = covariance.numbers(Form({(): simulator.isotropic}), values)
        if isotropic < 0:
            raise EvaluationError(
                f"Σ is not positive: its isotropic part s·(V^αδ V^βω + V^αω V^βδ) has s = {simulator.isotropic} = "
                f"{isotropic:.6g}; choose constants with s ≥ 0."
            )
        chosen = [numpy.ascontiguousarray(simulator.arrays[label], dtype=float) for label in simulator.source.arrays]
        for array in chosen:
            if set(array.shape) != {m}:
                raise EvaluationError(f"V0 is for {m} tokens, the constant arrays of the block for {array.shape[0]}.")
        for mean, weight in zip(simulator.source.means, _weights(simulator, values), strict=True):
            chosen += tables(mean.moment(values), cls.instead, weight) if mean.tables else ()
        return cls(simulator, values, tuple(chosen), isotropic)

    def coefficients(self, h: float, more: Mapping[Symbol, float] | None = None) -> Array:
        """The coefficients of all terms for a step of size h."""
        given = {**self.values, STEP: h, **(more or {})}
        return numpy.array(covariance.numbers(self.simulator.coefficients, given))

    def drawn(
        self, start: Array, c: Array, settings: Settings, halves: int, progress: Progress, loop: Loop
    ) -> tuple[Array, Ends]:
        """Where paths from `start` (paths, size, size), or one for all, end, and what is kept of all of them."""
        steps, every, h = settings.grid(halves)
        count, size = settings.paths, start.shape[-1]
        m = size // self.blocks
        V = aligned((count, size, size))
        V[...] = start
        history = numpy.empty((count, steps // every + 1 if every else 0, size, size))
        stopped, clipped = numpy.empty(count, dtype=numpy.int64), numpy.empty(count, dtype=numpy.int64)
        states, spread = streams(settings.seed, count), math.sqrt(self.isotropic * h / 2)
        # the interval is for the state: a tangent may grow or vanish as it likes, its size is kept as a logarithm
        low, high = settings.interval(start[..., :m, :m])
        laws, address = numpy.array(self.simulator.laws, dtype=numpy.int64), self.simulator.assemble.address

        def chunk(first: int) -> int:
            part = slice(first, first + _CHUNK)
            at = room(self.simulator.source, m, c, self.arrays)
            own = {**at.own, "work": aligned((6, m, m))}
            own = {name: array for name, array in own.items() if name in self.step._fields}
            step = self.step(address, at.addresses, at.responses, **own)
            noise = Noise(states[part], halves, spread, laws)
            loop(part, V[part], steps, noise, step, Ends(low, high, every, history[part], stopped[part], clipped[part]))
            return len(V[part])

        with reporting(progress) as report, ThreadPoolExecutor(settings.threads or numba.get_num_threads()) as pool:
            report.plan(count, "paths")
            for done in pool.map(chunk, range(0, count, _CHUNK)):
                report.advance(done)
        return V, Ends(low, high, every, history, stopped, clipped)


def _weights(simulator: Coefficients, values: Mapping[Symbol, float]) -> list[float]:
    """For each mean the largest coefficient of a step of size 1, times what its variances are as a multiple of V."""
    means = simulator.source.means
    if not any(mean.tables for mean in means):
        return [1.0] * len(means)
    given = dict.fromkeys(covariance.held(simulator.coefficients), 1.0) | dict(values)
    found = numpy.abs(covariance.numbers(simulator.coefficients, given)).tolist()
    own = [len(mean.coefficients) for mean in means]
    of_terms, of_means = found[: len(found) - sum(own)], iter(found[len(found) - sum(own) :])
    scales = [sum(itertools.islice(of_means, count)) for count in own]
    return [max(of_terms, default=1.0) * scale for scale in scales]
