"""Training as generated loops: what is trained and how, once for all widths, seeds and the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.program.network.data import inputs_of, with_sizes
from tplimits.program.network.loss import error_signal
from tplimits.program.network.losses import Loss
from tplimits.program.network.samples import with_samples
from tplimits.program.network.schedules import moving, parted
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import seed_number, whole_from
from tplimits.program.parametrization.table import MUP, Parametrization
from tplimits.regimes.training.finite.recipe import recipe
from tplimits.regimes.training.trainer.drawing import drawn, refuse_no_mean_field
from tplimits.regimes.training.trainer.engine import SizedRecipe
from tplimits.regimes.training.trainer.running import Running

if TYPE_CHECKING:
    from tplimits.program.network.batches import Batches
    from tplimits.program.nodes.program import Program


class Trainer:
    """Trains networks of one program; `start` gives a run at one width, or in the limit.

    net: a network.  loss: `tp.squared_error(y)`, `tp.cross_entropy(labels)`, or any error signal χ = loss(f) or
    loss(f, t).  optimizer, lr, weight_decay: one for all parameters, or by name; lr may be a function of the step.
    batches: `tp.batches(…)`; None trains on all training inputs at every step.

    >>> import tplimits as tp
    >>> @tp.network
    ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.sum(U * ξ, over="d")
    >>> trainer = Trainer(linear, tp.squared_error([1.0]), tp.SGD(), 0.5)
    >>> limit = trainer.start([[1.0]], particles=1024)
    >>> limit.advance(1)
    >>> bool(abs(limit.outputs()[0] - 1) < 1e-2)  # the mean of (U + v/2)(v + U/2) is 1
    True

    Raises EvaluationError for a rate, a decay or a loss that is none.
    """

    def __init__(
        self,
        net: Program,
        loss: Any,
        optimizer: Any,
        lr: Any,
        parametrization: Parametrization = MUP,
        weight_decay: Any = 0.0,
        batches: Batches | None = None,
    ) -> None:
        self.recipe = recipe(net, parametrization, optimizer, lr, weight_decay)
        self.loss, self.signal, self.batches = loss, error_signal(loss), batches
        if batches is not None and not isinstance(loss, Loss):
            raise EvaluationError(
                f"batches={batches!r} with error={loss!r:.60}: a batch has a loss of its own; give tp.squared_error(…) "
                "or tp.cross_entropy(…)."
            )
        self._plans: dict[tuple[Any, ...], SizedRecipe] = {}

    def start(
        self,
        X: Any,
        *,
        width: int | None = None,
        particles: int | None = None,
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        ratios: Mapping[str, float] | None = None,
    ) -> Running:
        """A run before its first step, at a `width` or, with `particles` in place of neurons, in the limit.

        X: data (N, *axes), or a dictionary of arrays where the network takes several.  parameters: initial values of
        some parameters and constants by name, in the program's scale, (*axes, n); others are drawn.

        Raises EvaluationError for data or parameters that do not fit, and for a limit that is none of such means.
        """
        if (width is None) == (particles is None):
            raise EvaluationError("start(width=…) or start(particles=…): give one of them.")
        limit = width is None
        if limit:
            refuse_no_mean_field(self.recipe)
        n = (
            whole_from("particles", particles, 1, EvaluationError)
            if limit
            else whole_from("width", width, 1, EvaluationError)
        )
        data = inputs_of(self.recipe.net, X, "X")
        plan, given = self._plan(data, dict(parameters or {}))
        net, count = plan.recipe.net, len(next(iter(data.values())))
        if isinstance(self.loss, Loss):  # rows of targets are looked up by compiled code, which asks nobody
            self.loss.fitting(numpy.zeros((count, *plan.outputs)))
        known = {**given, **data}
        sampled, sample = with_samples(net)
        run = Execution(sampled.bind(**{sample: count}), n, 1, numpy.random.default_rng(0), ratios, known)
        held = drawn(plan.recipe, run, seed_number(seed, EvaluationError), limit)
        return Running(self, plan, data, run.width, held, limit)

    def _plan(self, data: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[SizedRecipe, dict[str, Any]]:
        """The recipe with all sizes and constants fixed, and what is given beside constants."""
        schedules, rest = parted(self.recipe.net, given)
        bound = with_sizes(self.recipe.net, data, {})
        constants = {name: rest.pop(name) for name in tuple(rest) if name in bound.constants}
        # constants become numbers in the loops: a plan is compiled for these, and kept by them
        bound = bound.bind(**constants) if constants else bound
        bound, moved = moving(bound, schedules)
        key = (bound, tuple(moved.values()))
        if key not in self._plans:
            self._plans[key] = SizedRecipe(replace(self.recipe, net=bound, schedules=moved), self.loss)
        return self._plans[key], rest
