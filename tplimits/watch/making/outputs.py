"""The operator regime: outputs alone move, and they follow from kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.watch.making.engine import Engine

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked


class Outputs(Engine):
    """The path of outputs of `TangentLimit.evaluate`, found as a whole; a seed draws the outputs at the start."""

    in_one_go: ClassVar[bool] = True

    def __init__(self, asked: Asked, width: float, seed: int) -> None:
        if asked.given_to(width, seed):
            raise EvaluationError(
                "start=…: in the operator regime the limit is that of fresh networks, whose parameters are random; "
                "leave tp.inf out."
            )
        self.asked, self.seed, self.step = asked, seed, 0

    @cached_property
    def _path(self) -> Array:
        asked = self.asked
        return asked.limit.derived.evaluate(
            asked.with_probes,
            error=asked.signal,
            lr=asked.rates,
            steps=asked.steps,
            particles=asked.detail.particles,
            replicates=asked.detail.replicates,
            seed=self.seed,
            block=asked.detail.block,
            ratios=asked.ratios,
            constants=asked.recipe.schedules,
            progress=False,
        ).f

    def advance(self, step: int) -> None:
        """Go on to a step."""
        self.step = step

    def outputs(self) -> Array:
        """f on all inputs."""
        return self._path[self.step, : self.asked.count]

    def on_probes(self) -> Array:
        """f on the probes."""
        return self._path[self.step, self.asked.probe_rows]

    def state(self) -> dict[str, Array]:
        """Nothing is kept: the path is found again."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing: the next `advance` says where it is."""
