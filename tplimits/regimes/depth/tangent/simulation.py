"""Paths of state and tangent together: the coefficients of one joint SDE, and its compiled steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, S

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import variable
from tplimits.regimes.depth.numbers.compiled import STEP, Coefficients, Compiled, numbered, on_tokens
from tplimits.regimes.depth.numbers.source import Generated, Output, assembly
from tplimits.regimes.depth.tangent.batch import JointMove, JointStep, batch
from tplimits.regimes.depth.tangent.paths import TangentPaths

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.numbers.batch import Ends, Noise
    from tplimits.regimes.depth.numbers.settings import Settings
    from tplimits.regimes.depth.tangent.forms import Part, TangentForms

#: what the blocks of R are called in loops, by the labels of forms, and their places
RESPONSES = {"R": "xx", "R·δ": "xd", "Rδ·": "dx", "Rδδ": "dd"}
#: what a step of state and tangent reads and fills beside its responses and constant arrays
OF_BOTH = ("c", "V", "C", "D", "d", "s", "N", "A", "B", "r", "DV", "DC", "DD", "X", "Y")


def tangent_source(outputs: Sequence[Output], responses: int) -> Generated:
    """The module of one SDE; `outputs` are DV, DC, DD, X and Y."""
    return assembly(outputs, OF_BOTH, [f"R{k}{part}" for k in range(responses) for part in RESPONSES.values()])


#: 1 where all weights are perturbed in every layer, else 0
_FED = variable("fed")


@dataclass(frozen=True)
class TangentSimulator(Coefficients):
    """The coefficients of one joint SDE."""

    #: names of what is added and what multiplies that is not zero
    filled: frozenset[str]

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
    parts: list[tuple[Expr, Part, dict[str, str]]] = [(S.One * STEP, forms.drift_part, {})]
    for k, response in enumerate(forms.responses):
        parts.append((sympy.sqrt(STEP), response, {label: f"R{k}{name}" for label, name in RESPONSES.items()}))
    terms: dict[str, list[Any]] = {name: [] for name in ("DV", "DC", "DD", "X", "Y")}
    scaled: dict[str, list[Expr]] = {name: [] for name in terms}

    def add(name: str, form: Form, number: Expr, names: Mapping[str, str]) -> None:
        nonlocal known
        alone, known = on_tokens(form, known, " of tangents.")
        for factors, coefficient in alone.terms.items():
            terms[name].append(tuple((names.get(label, label), at, copy) for label, at, copy in factors))
            scaled[name].append(number * coefficient)

    for number, part, names in parts:
        for block, form in part.added.items():
            add(f"D{block}", form, number, names)
        add("X", part.factor.own, number, names)
        add("Y", part.factor.tangent, number, names)
    add("DD", source, STEP * _FED, {})
    # C_ab ≠ C_ba: only V and D are filled by halves
    outputs = [Output(name, tuple(found), name in ("DV", "DD")) for name, found in terms.items()]
    made = tangent_source(outputs, len(forms.laws))
    coefficients = numbered(made, [c for found in scaled.values() for c in found])
    filled = frozenset(name for name, found in terms.items() if found)
    return TangentSimulator(made, coefficients, forms.isotropic, known, tuple(forms.laws), filled)


class CompiledTangent(Compiled):
    """A simulator at given constants."""

    blocks = 2
    step = JointStep
    instead = "drift_at and diffusion_at compute it"

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
        logs, move = numpy.zeros((count, steps // every + 1 if every else 1)), self.simulator.move(not fed)

        def loop(part: slice, W: Array, steps: int, noise: Noise, step: JointStep, ends: Ends) -> None:
            batch(W, steps, noise, step, move, ends, logs[part])

        c = self.coefficients(h, {_FED: float(fed)})
        W, ends = self.drawn(start, c, settings, halves, progress, loop)
        stopped, clipped, history = ends.stopped, ends.clipped, ends.history
        times = numpy.where(stopped >= 0, stopped * h, numpy.inf)
        kept = (numpy.arange(history.shape[1]) * (every * h), history, logs) if every else (None, None, None)
        return TangentPaths(W, logs[:, -1], settings.T, h, stopped >= 0, times, clipped, settings.seed, *kept)
