"""A training run as it is asked for: the keywords that `evaluate` has in both regimes of training, not yet checked."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import sent_to, working_executor
from tplimits.progress import Progress, refuse_unknown


@dataclass(frozen=True)
class RunAsked:
    """Data, error signals, rates and settings as they came in; `given` holds constants and scalars by name."""

    X: Any
    error: Any
    lr: Any
    steps: Any
    given: Mapping[str, Any]
    ratios: Any = None
    particles: Any = 16
    replicates: Any = 2
    seed: Any = 0
    block: Any = 2
    conditioning: Any = "white"
    checkpoint: Any = None

    def refuse_runner(self, executor: Executor | None, progress: Progress) -> None:
        """EvaluationError for what is no executor or no progress, and for work that an executor cannot do: what has a
        checkpoint, or functions that cannot be sent."""
        refuse_unknown(progress)  # runs that are no work would never ask for it
        working_executor(executor, EvaluationError)
        if executor is not None and self.checkpoint is not None:
            raise EvaluationError(
                "evaluate(checkpoint=…, executor=…): checkpoints are written by one process; give one."
            )
        moving = {name: value for name, value in self.given.items() if callable(value)}
        sent_to(executor, {"error": self.error, "lr": self.lr, **moving}, EvaluationError)
