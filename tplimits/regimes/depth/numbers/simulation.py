"""Paths of a covariance SDE: its coefficients compiled once, thousands of paths in parallel threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numba
import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.numbers import generated
from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.algebra.forms import Form, unrolled
from tplimits.regimes.depth.algebra.means import definition_of
from tplimits.regimes.depth.algebra.products import SPAN
from tplimits.regimes.depth.derivation.splitting import splitting
from tplimits.regimes.depth.numbers import covariance, moves
from tplimits.regimes.depth.numbers.batch import Ends, Move, Noise, Step, aligned, batch, room
from tplimits.regimes.depth.numbers.dense import Dense
from tplimits.regimes.depth.numbers.means import MOST_TOKENS
from tplimits.regimes.depth.numbers.normals import streams
from tplimits.regimes.depth.numbers.ordinary import Ordinary
from tplimits.regimes.depth.numbers.paths import Paths, ended
from tplimits.regimes.depth.numbers.settings import Settings, initial, settings
from tplimits.regimes.depth.numbers.source import Generated, Outputs
from tplimits.regimes.depth.numbers.source import generated as generated_source
from tplimits.regimes.depth.numbers.tabulated import tables

if TYPE_CHECKING:
    from tplimits.numbers.native import Native
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.roots import Root

#: what has the numbers where tables are refused
_INSTEAD = "method='dense' computes it at every step"
__all__ = ["CompiledSDE", "Simulator", "engine", "initial", "settings", "simulate", "simulator"]
METHODS = ("psd", "euler", "dense")
#: the size of a step, as a symbol in coefficients
_STEP = Symbol("dt", positive=True)
#: paths handed to a thread at once
_CHUNK = 64


@dataclass(frozen=True)
class Simulator:
    """One SDE and method: the generated functions, and the coefficients of its terms as expressions."""

    method: str
    source: Generated
    coefficients: Form
    isotropic: Expr
    arrays: Mapping[str, Array]
    symmetric: tuple[bool, ...]
    move: Move

    @property
    def assemble(self) -> Native:
        """One step, compiled at the first call."""
        step: Native = generated.functions(self.source.text, "sde")["assemble"]
        return step


def simulator(limit: BlockLimit, method: str) -> Simulator:
    """The simulator of a block's limit.

    Raises EvaluationError where the diffusion has no structured root.
    """
    if limit.root is None:
        raise EvaluationError(
            f"method={method!r} needs a square root of Σ that is linear in independent normals, and none was found: "
            f"{limit.rootless}. method='dense' takes a root of Σ at every step, slowly."
        )
    noise = sympy.sqrt(_STEP)
    drift, root, arrays = _written_out(limit, limit.root)
    if method == "euler":
        added = [drift.terms, *(_numbered(r.form, k) for k, r in enumerate(root.responses))]
        factor: list[Mapping] = []
    else:
        split = splitting(drift, root)
        added = [split.drift.rest.terms, *(_numbered(r.rest, k) for k, r in enumerate(split.responses))]
        factor = [split.drift.factor.terms, *(_numbered(r.factor, k) for k, r in enumerate(split.responses))]
    outputs = Outputs(*(tuple(f for terms in part for f in terms) for part in (added, factor)))
    scaled = [
        (_STEP if k == 0 else noise) * c for part in (added, factor) for k, t in enumerate(part) for c in t.values()
    ]
    source = generated_source(outputs, len(root.responses))
    scaled += [c for mean in source.means for c in mean.coefficients]
    # numbered so that equal products of both outputs stay apart
    coefficients = Form({(("c", (k,), 0),): c for k, c in enumerate(scaled)})
    symmetric = tuple(r.symmetric for r in root.responses)
    move = Move(method == "euler", bool(source.inside & {"N", "s"}), bool(outputs.added), bool(outputs.factor))
    return Simulator(method, source, coefficients, root.isotropic, arrays, symmetric, move)


def _written_out(limit: BlockLimit, root: Root) -> tuple[Form, Root, dict[str, Array]]:
    """Drift and root without sums over other axes than the tokens: loops run over tokens alone."""
    arrays = dict(limit.arrays)
    forms = []
    for form in (limit.drift, *(r.form for r in root.responses)):
        alone, arrays = unrolled(form, arrays)
        if any(i >= SPAN for factors in alone.terms for _, at, _ in factors for i in at):
            raise EvaluationError(
                "a Gaussian mean differs between members of an axis other than the tokens, for which there are no "
                "compiled steps; method='dense' computes it, slowly."
            )
        forms.append(alone)
    responses = (replace(r, form=f) for r, f in zip(root.responses, forms[1:], strict=True))
    return forms[0], replace(root, responses=tuple(responses)), arrays


def _numbered(form: Form, k: int) -> dict:
    """The terms of a response with R called Rk."""
    return {
        tuple((f"R{k}", at, copy) if label == "R" else (label, at, copy) for label, at, copy in factors): c
        for factors, c in form.terms.items()
    }


@dataclass(frozen=True)
class CompiledSDE:
    """A simulator at given constants and step."""

    simulator: Simulator
    values: Mapping[Symbol, float]
    arrays: tuple[Array, ...]
    isotropic: float

    @classmethod
    def at(cls, simulator: Simulator, values: Mapping[Symbol, float], m: int) -> CompiledSDE:
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
        for mean in simulator.source.means:
            chosen += tables(mean.moment(values), _INSTEAD) if mean.tables else ()
        return cls(simulator, values, tuple(chosen), isotropic)

    def coefficients(self, h: float) -> Array:
        """The coefficients of all terms for a step of size h."""
        return numpy.array(covariance.numbers(self.simulator.coefficients, {**self.values, _STEP: h}))

    def assembled(
        self, V: Array, h: float, noises: Sequence[Array] = (), interpreted: bool = False
    ) -> tuple[Array, Array]:
        """What is added to V and what multiplies it in a step of size h, at given R; for tests."""
        m = len(V)
        at = room(self.simulator.source, m, self.coefficients(h), self.arrays)
        at.own["V"][...] = V
        at.responses[: len(noises)] = noises or 0.0
        moves.kernels(V, True, at.own["d"], at.own["s"], at.own["N"])
        if interpreted:
            self.simulator.assemble.function(m, at.flat)
        else:
            self.simulator.assemble(m, at.addresses)
        return at.own["D"], at.own["X"]

    def run(self, V0: Array, settings: Settings, halves: int, progress: Progress) -> Paths:
        """The paths; `halves` is 2 for the coarse run of a pair with the same noise."""
        steps, every, h = settings.grid(halves)
        count, m = settings.paths, V0.shape[-1]
        V = aligned((count, m, m))
        V[...] = V0
        history = numpy.empty((count, steps // every + 1 if every else 0, m, m))
        stopped, clipped = numpy.empty(count, dtype=numpy.int64), numpy.empty(count, dtype=numpy.int64)
        states, c = streams(settings.seed, count), self.coefficients(h)
        spread = math.sqrt(self.isotropic * h / 2)
        if self.simulator.method == "psd" and self.isotropic * h * m > 1:
            raise EvaluationError(
                f"dt={h:g} is too large for {m} tokens: steps of method='psd' need s·dt·m ≤ 1, where "
                f"s = {self.isotropic:g}; choose dt ≤ {1 / (self.isotropic * m):.3g}."
            )
        low, high = settings.interval(V0)
        symmetric, address = numpy.array(self.simulator.symmetric, dtype=bool), self.simulator.assemble.address

        def chunk(start: int) -> int:
            part = slice(start, start + _CHUNK)
            at = room(self.simulator.source, m, c, self.arrays)
            own = {name: array for name, array in at.own.items() if name in Step._fields}
            step = Step(address, at.addresses, at.responses, **own, work=aligned((6, m, m)))
            noise = Noise(states[part], halves, spread, symmetric)
            ends = Ends(low, high, every, history[part], stopped[part], clipped[part])
            batch(V[part], steps, noise, step, self.simulator.move, ends)
            return len(V[part])

        with reporting(progress) as report, ThreadPoolExecutor(settings.threads or numba.get_num_threads()) as pool:
            report.plan(count, "paths")
            for done in pool.map(chunk, range(0, count, _CHUNK)):
                report.advance(done)
        return ended(V, settings.T, h, self.simulator.method, stopped, clipped, settings.seed, history, every)


def engine(
    limit: BlockLimit, method: str, values: Mapping[Symbol, float], m: int, known: dict[str, Simulator]
) -> CompiledSDE | Dense | Ordinary:
    """What draws paths of a limit at given constants; `known` keeps the simulators that were made.

    Raises EvaluationError for an unknown method, and where no structured root of Σ was found or Σ is not positive.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise EvaluationError(f"method={shown(method)}: the methods are {', '.join(METHODS)}.")
    if limit.weights and limit.diffusion:
        raise EvaluationError(
            "the drift holds means over random weights of order 1, and there is noise beside them; paths of both are "
            "not covered. Take drift_at and diffusion_at, or scale all branches by 1/sqrt(n)."
        )
    if limit.weights or (not limit.diffusion and method != "dense" and _of_many_tokens(limit.drift)):
        return Ordinary(limit, values, method)
    if method == "dense":
        return Dense(limit, values)
    if method not in known:
        known[method] = simulator(limit, method)
    return CompiledSDE.at(known[method], values, m)


def _of_many_tokens(form: Form) -> bool:
    """Whether a form holds Gaussian means at more tokens than compiled steps have."""
    definitions = (definition_of(label) for factors in form.terms for label, _, _ in factors)
    return any(d is not None and d.rank > MOST_TOKENS for d in definitions)


def simulate(
    compiled: CompiledSDE | Dense | Ordinary, V0: Array, settings: Settings, progress: Progress = None
) -> Paths:
    """Paths from V0, with those of half the step where a step error is asked for."""
    run = partial(compiled.run, V0, settings)
    if not settings.halve:
        return run(1, progress)
    fine, coarse = run(1, progress), run(2, progress)
    return Paths(**{**coarse.__dict__, "halved": fine})
