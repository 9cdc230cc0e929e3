"""Paths of a covariance SDE, by the engine that it has; the coefficients of compiled ones, written once a method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import sympy
from sympy import Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import word_of
from tplimits.regimes.depth.algebra.means import definition_of
from tplimits.regimes.depth.derivation.splitting import splitting
from tplimits.regimes.depth.numbers.batch import Ends, Move, Noise, Step, batch
from tplimits.regimes.depth.numbers.compiled import STEP, Coefficients, Compiled, numbered, on_tokens
from tplimits.regimes.depth.numbers.dense import Dense
from tplimits.regimes.depth.numbers.means import MOST_TOKENS
from tplimits.regimes.depth.numbers.ordinary import Ordinary
from tplimits.regimes.depth.numbers.paths import Paths, ended
from tplimits.regimes.depth.numbers.settings import Settings, initial, settings
from tplimits.regimes.depth.numbers.source import OF_STATE, Output, assembly

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.roots import Root

__all__ = ["CompiledSDE", "Simulator", "engine", "initial", "settings", "simulate", "simulator"]
#: paths with a field `halved`
_P = TypeVar("_P", bound=Any)
METHODS = ("psd", "euler", "dense")


@dataclass(frozen=True)
class Simulator(Coefficients):
    """The coefficients of one SDE for steps of one method."""

    method: str
    move: Move


def simulator(limit: BlockLimit, method: str) -> Simulator:
    """The simulator of a block's limit.

    Raises EvaluationError where the diffusion has no structured root.
    """
    if limit.root is None:
        raise EvaluationError(
            f"method={method!r} needs a square root of Σ that is linear in independent normals, and none was found: "
            f"{limit.rootless}. method='dense' takes a root of Σ at every step, slowly."
        )
    noise = sympy.sqrt(STEP)
    drift, root, arrays = _written_out(limit, limit.root)
    if method == "euler":
        added = [drift.terms, *(_numbered(r.form, k) for k, r in enumerate(root.responses))]
        factor: list[Mapping] = []
    else:
        split = splitting(drift, root)
        added = [split.drift.rest.terms, *(_numbered(r.rest, k) for k, r in enumerate(split.responses))]
        factor = [split.drift.factor.terms, *(_numbered(r.factor, k) for k, r in enumerate(split.responses))]
    # what is added to V is symmetric, what multiplies it is not
    D, X = (
        Output(name, tuple(f for terms in part for f in terms), name == "D")
        for name, part in (("D", added), ("X", factor))
    )
    scaled = [
        (STEP if k == 0 else noise) * c for part in (added, factor) for k, t in enumerate(part) for c in t.values()
    ]
    laws = tuple(r.law for r in root.responses)
    source = assembly([D, X], OF_STATE, [f"R{k}" for k in range(len(laws))])
    move = Move(method == "euler", bool(source.inside & {"N", "s"}), bool(D.terms), bool(X.terms))
    return Simulator(source, numbered(source, scaled), root.isotropic, arrays, laws, method, move)


def _written_out(limit: BlockLimit, root: Root) -> tuple[Form, Root, dict[str, Array]]:
    """Drift and root without sums over other axes than the tokens."""
    arrays = dict(limit.arrays)
    forms = []
    for form in (limit.drift, *(r.form for r in root.responses)):
        alone, arrays = on_tokens(form, arrays, "; method='dense' computes it, slowly.")
        forms.append(alone)
    responses = (replace(r, form=f) for r, f in zip(root.responses, forms[1:], strict=True))
    return forms[0], replace(root, responses=tuple(responses)), arrays


def _numbered(form: Form, k: int) -> dict:
    """The terms of a response with R called Rk."""
    return {
        tuple((f"R{k}", at, copy) if label == "R" else (label, at, copy) for label, at, copy in factors): c
        for factors, c in form.terms.items()
    }


class CompiledSDE(Compiled):
    """A simulator at given constants."""

    step = Step
    instead = "method='dense' computes it at every step"

    def run(self, V0: Array, settings: Settings, halves: int, progress: Progress) -> Paths:
        """The paths; `halves` is 2 for the coarse run of a pair with the same noise."""
        _, every, h = settings.grid(halves)
        m, c = V0.shape[-1], self.coefficients(h)
        if self.simulator.method == "psd" and self.isotropic * h * m > 1:
            raise EvaluationError(
                f"dt={h:g} is too large for {m} tokens: steps of method='psd' need s·dt·m ≤ 1, where "
                f"s = {self.isotropic:g}; choose dt ≤ {1 / (self.isotropic * m):.3g}."
            )

        def loop(_: slice, V: Array, steps: int, noise: Noise, step: Step, ends: Ends) -> None:
            batch(V, steps, noise, step, self.simulator.move, ends)

        V, ends = self.drawn(V0, c, settings, halves, progress, loop)
        how = settings.T, h, self.simulator.method
        return ended(V, *how, ends.stopped, ends.clipped, settings.seed, ends.history, every)


def engine(
    limit: BlockLimit, method: str, values: Mapping[Symbol, float], m: int, known: dict[str, Simulator]
) -> CompiledSDE | Dense | Ordinary:
    """What draws paths of a limit at given constants; `known` keeps the simulators that were made.

    Raises EvaluationError for an unknown method, and where no structured root of Σ was found or Σ is not positive.
    """
    word_of("method", method, METHODS, EvaluationError)
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
    """Paths from V0."""
    return halved(lambda halves: compiled.run(V0, settings, halves, progress), settings)


def halved(run: Callable[[int], _P], settings: Settings) -> _P:
    """What a run finds, with the paths of half the step where a step error is asked for."""
    if not settings.halve:
        return run(1)
    fine, coarse = run(1), run(2)
    return replace(coarse, halved=fine)
