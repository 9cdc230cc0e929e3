"""What a recording needs of a network in training, or of a limit: the one protocol of all engines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.regimes.training.feature_learning import MaximalLimit
from tplimits.watch.making.kets import Kets
from tplimits.watch.making.neurons import Neurons
from tplimits.watch.making.outputs import Outputs

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked

Array = NDArray[Any]


class Engine(Protocol):
    """A run at a step: it goes on, it is looked at, it can be left and taken up again, bit for bit."""

    #: whether leaving it costs as much as the whole run
    in_one_go: ClassVar[bool]

    def advance(self, step: int) -> None:
        """Go on to a step; EvaluationError, with the step, where training diverges."""

    def outputs(self) -> Array:
        """f on all inputs."""

    def norms(self) -> Mapping[str, float]:
        """Norms of the gradients of the loss on all inputs by parameter, and other numbers that the engine knows."""

    def parameters(self) -> Mapping[str, Array]:
        """Parameters as they stand in the program, or samples of kets; none where there are only values."""

    def values(self) -> Mapping[str, Array]:
        """Values on the probes that do not follow from parameters."""

    def on_probes(self) -> Array | None:
        """f on the probes where it does not follow from what is kept of the parameters."""

    def finish(self) -> None:
        """After the last frame: what can be judged only then."""

    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Back to what `state` gave."""


def engine_of(asked: Asked, width: float) -> type[Neurons] | type[Kets] | type[Outputs]:
    """The engine of a width, made from (asked, width, seed); `math.inf` is the limit of the parametrization."""
    if not math.isinf(width) or asked.limit.is_neuronwise:
        return Neurons
    derived = asked.limit.derived
    for name, decay in asked.recipe.decays.items():
        if callable(decay.value):
            raise EvaluationError(
                f"weight_decay=…, `{name}`: networks and limits without matrices decay by a function of the step; "
                "the other limits are derived with one number for all steps. Give a number, or leave tp.inf out."
            )
    return Kets if isinstance(derived, MaximalLimit) else Outputs
