"""The feature-learning limit of a network in training as a user sees it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy

from tplimits import stages
from tplimits.errors import EvaluationError
from tplimits.limit.training.maximal import MaximalRecursion, derive_maximal
from tplimits.program.given import named_once
from tplimits.program.program import Program
from tplimits.progress import Progress
from tplimits.results.training.runs import TrainingRun


@dataclass(frozen=True)
class MaximalUpdate:
    """The regime of feature learning: the maximal update parametrization, trained by an entrywise optimizer.

    `optimizer` is one for all parameters, or a mapping that names every parameter; so is `weight_decay`, the decoupled
    decay λ of w ← (1 − λ) w − η Q_t (frameworks multiply theirs by the learning rate).
    """

    optimizer: Any
    weight_decay: Any = 0


def derive_maximal_limit(network: Program, regime: MaximalUpdate) -> MaximalLimit:
    """The recursion of a network in training."""
    return MaximalLimit(network, regime, derive_maximal(network, regime.optimizer, regime.weight_decay))


@dataclass(frozen=True)
class MaximalLimit:
    """Training at infinite width with features that move: kets and operators at every step."""

    program: Program
    regime: MaximalUpdate
    recursion: MaximalRecursion = field(repr=False, compare=False)

    # -- numbers ------------------------------------------------------------------------------

    def evaluate(
        self,
        X: Any,
        *,
        error: Any,
        lr: Any,
        steps: int,
        particles: int = 8192,
        replicates: int = 8,
        seed: int = 0,
        block: int = 256,
        conditioning: str = "white",
        record: Any = (),
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> TrainingRun:
        """Outputs f_0, …, f_steps on all inputs, on joint samples of kets ("particles").

        X: data (N, *axes), or a dictionary of arrays where the network takes several.
        error: χ = error(f) or error(f, t), such as `tp.squared_error(y)`; f and χ have shape (N, *outputs).
        lr: a number, a function of the step, or a mapping that names every parameter.
        particles: samples of every ket, at least four for each input, step and use of a matrix.
        block: nonlinear updates of a matrix are averaged over as many particles (`particles` × `block` numbers a state).
        record: names of vectors whose samples and Gram matrices are kept at every step.
        checkpoint: a file that is written after every step; the same call goes on from there.
        Scalar parameters and constants go by name, or in `constants`.

        Raises EvaluationError for data, targets or settings that make no sense, too few particles, and outputs that
        are not finite.
        """
        if executor is not None and checkpoint is not None:
            raise EvaluationError("evaluate(checkpoint=…, executor=…): checkpoints are written by one process; give one.")
        given = named_once(constants, named, "evaluate()", EvaluationError)
        numbers = stages.maximal()
        asked = stages.maximal_request().request(
            self.recursion,
            X,
            error,
            lr,
            steps,
            particles,
            replicates,
            seed,
            block,
            conditioning,
            ratios,
            given,
            record,
            checkpoint,
        )
        found = numbers.trajectories(asked, executor, progress)
        runs = numpy.array([one.f for one in found])
        f, stderr = numbers.mean_and_error(runs)
        grams = {name: numpy.mean([one.grams[name] for one in found], axis=0) for name in asked.record}
        return TrainingRun(f"{self.program.name}, μ-limit", f, stderr, runs, grams, found[0].kets)
