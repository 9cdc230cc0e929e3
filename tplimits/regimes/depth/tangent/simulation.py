"""Paths of state and tangent together: the coefficients of one joint SDE compiled, thousands of paths in threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba
import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers import generated
from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.algebra.forms import Form, unrolled
from tplimits.regimes.depth.algebra.products import SPAN
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.numbers.batch import Ends, Noise, room
from tplimits.regimes.depth.numbers.normals import streams
from tplimits.regimes.depth.numbers.source import Generated, Output
from tplimits.regimes.depth.numbers.tabulated import tables
from tplimits.regimes.depth.tangent.batch import JointMove, JointStep, batch
from tplimits.regimes.depth.tangent.paths import TangentPaths
from tplimits.regimes.depth.tangent.source import RESPONSES, tangent_source

if TYPE_CHECKING:
    from tplimits.numbers.native import Native
    from tplimits.regimes.depth.numbers.settings import Settings
    from tplimits.regimes.depth.tangent.forms import Part, TangentForms

#: the size of a step, and 1 where all weights are perturbed in every layer, else 0
_STEP, _FED = Symbol("dt", positive=True), Symbol("fed", real=True)
_CHUNK = 64
#: what has the numbers where tables are refused
_INSTEAD = "drift_at and diffusion_at compute it"


@dataclass(frozen=True)
class TangentSimulator:
    """One joint SDE: the generated module, and the coefficients of its terms."""

    source: Generated
    coefficients: Form
    isotropic: Expr
    arrays: Mapping[str, Array]
    symmetric: tuple[bool, ...]
    #: names of what is added and what multiplies that is not zero
    filled: frozenset[str]

    @property
    def assemble(self) -> Native:
        """One step, compiled at the first call."""
        step: Native = generated.functions(self.source.text, "tangent")["assemble"]
        return step

    def move(self, alike: bool) -> JointMove:
        """What a step does."""
        inside, filled = self.source.inside, self.filled
        of_tangents = bool(inside & {"A", "B", "r"})
        return JointMove(
            bool(inside & {"N", "s"}), of_tangents, bool(filled & {"DV", "DC", "DD"}), bool(filled & {"X", "Y"}), alike
        )


def simulator(forms: TangentForms, source: Form, arrays: Mapping[str, Array], rootless: str) -> TangentSimulator:
    """The simulator of joint forms; `source` is added to D where all weights are perturbed.

    Raises EvaluationError where the diffusion has no structured root, for the reason `rootless`.
    """
    if forms.drift_part is None or forms.isotropic is None:
        raise EvaluationError(
            f"paths need a square root of Σ that is linear in independent normals, and none was found: {rootless}. "
            "drift_at and diffusion_at have numbers."
        )
    known = dict(arrays)
    # the drift grows with dt, a response with √dt: else both are forms of one kind
    parts: list[tuple[Expr, Part, dict[str, str]]] = [(S.One * _STEP, forms.drift_part, {})]
    for k, response in enumerate(forms.responses):
        parts.append((sympy.sqrt(_STEP), response, {label: f"R{k}{name}" for label, name in RESPONSES.items()}))
    terms: dict[str, list[Any]] = {name: [] for name in ("DV", "DC", "DD", "X", "Y")}
    scaled: dict[str, list[Expr]] = {name: [] for name in terms}

    def add(name: str, form: Form, number: Expr, names: Mapping[str, str]) -> None:
        nonlocal known
        alone, known = unrolled(form, known)
        for factors, coefficient in alone.terms.items():
            if any(i >= SPAN for _, at, _ in factors for i in at):
                raise EvaluationError(
                    "a Gaussian mean differs between members of an axis other than the tokens, for which there are no "
                    "compiled steps of tangents."
                )
            terms[name].append(tuple((names.get(label, label), at, copy) for label, at, copy in factors))
            scaled[name].append(number * coefficient)

    for number, part, names in parts:
        for block, form in part.added.items():
            add(f"D{block}", form, number, names)
        add("X", part.factor.own, number, names)
        add("Y", part.factor.tangent, number, names)
    add("DD", source, _STEP * _FED, {})
    # C_ab ≠ C_ba: only V and D are filled by halves
    outputs = [Output(name, tuple(found), name in ("DV", "DD")) for name, found in terms.items()]
    made = tangent_source(outputs, len(forms.symmetric))
    every = [c for found in scaled.values() for c in found] + [c for mean in made.means for c in mean.coefficients]
    coefficients = Form({(("c", (k,), 0),): c for k, c in enumerate(every)})
    filled = frozenset(name for name, found in terms.items() if found)
    return TangentSimulator(made, coefficients, forms.isotropic, known, tuple(forms.symmetric), filled)


@dataclass(frozen=True)
class CompiledTangent:
    """A simulator at given constants."""

    simulator: TangentSimulator
    values: Mapping[Symbol, float]
    arrays: tuple[Array, ...]
    isotropic: float

    @classmethod
    def at(cls, simulator: TangentSimulator, values: Mapping[Symbol, float]) -> CompiledTangent:
        """Numbers put in; EvaluationError where one is missing or Σ is not positive."""
        (isotropic,) = covariance.numbers(Form({(): simulator.isotropic}), values)
        if isotropic < 0:
            raise EvaluationError(
                f"Σ is not positive: its isotropic part s·(V^αδ V^βω + V^αω V^βδ) has s = {isotropic:.6g}; choose "
                "constants with s ≥ 0."
            )
        chosen = [numpy.ascontiguousarray(simulator.arrays[label], dtype=float) for label in simulator.source.arrays]
        for mean in simulator.source.means:
            chosen += tables(mean.moment(values), _INSTEAD) if mean.tables else ()
        return cls(simulator, values, tuple(chosen), isotropic)

    def run(self, start: Array, settings: Settings, fed: bool, halves: int, progress: Progress) -> TangentPaths:
        """Paths from joint covariances (paths, 2m, 2m) or one for all; `halves` is 2 for the coarse run of a pair."""
        steps, every, h = settings.grid(halves)
        count, size = settings.paths, start.shape[-1]
        # Bartlett's triangle has 1 − s h (i + ½) below a root, with i up to 2m − 1 here
        if self.isotropic * h * size > 1:
            raise EvaluationError(
                f"dt={h:g} is too large for {size // 2} tokens and their tangents: steps need 2·s·dt·m ≤ 1, where "
                f"s = {self.isotropic:g}; choose dt ≤ {1 / (self.isotropic * size):.3g}."
            )
        W = numpy.ascontiguousarray(numpy.broadcast_to(start, (count, size, size))).copy()
        history = numpy.empty((count, steps // every + 1 if every else 0, size, size))
        logs = numpy.zeros((count, max(1, history.shape[1])))
        stopped, clipped = numpy.empty(count, dtype=numpy.int64), numpy.empty(count, dtype=numpy.int64)
        states = streams(settings.seed, count)
        c = numpy.array(covariance.numbers(self.simulator.coefficients, {**self.values, _STEP: h, _FED: float(fed)}))
        # the interval is for the state: a tangent may grow or vanish as it likes, its size is kept as a logarithm
        low, high = settings.interval(start[..., : size // 2, : size // 2])
        symmetric, address = numpy.array(self.simulator.symmetric, dtype=bool), self.simulator.assemble.address
        spread, move = math.sqrt(self.isotropic * h / 2), self.simulator.move(not fed)

        def chunk(begin: int) -> int:
            part = slice(begin, begin + _CHUNK)
            at = room(self.simulator.source, size // 2, c, self.arrays)
            own = {name: array for name, array in at.own.items() if name in JointStep._fields}
            step = JointStep(address, at.addresses, at.responses, **own)
            noise = Noise(states[part], halves, spread, symmetric)
            ends = Ends(low, high, every, history[part], stopped[part], clipped[part])
            batch(W[part], steps, noise, step, move, ends, logs[part])
            return len(W[part])

        with reporting(progress) as report, ThreadPoolExecutor(settings.threads or numba.get_num_threads()) as pool:
            report.plan(count, "paths")
            for done in pool.map(chunk, range(0, count, _CHUNK)):
                report.advance(done)
        times = numpy.where(stopped >= 0, stopped * h, numpy.inf)
        kept = (numpy.arange(history.shape[1]) * (every * h), history, logs) if every else (None, None, None)
        return TangentPaths(W, logs[:, -1], settings.T, h, stopped >= 0, times, clipped, settings.seed, *kept)
