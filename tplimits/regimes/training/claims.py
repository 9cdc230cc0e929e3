"""What a limit of training claims about networks of finite width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tplimits.errors import CheckError
from tplimits.program.network.schedules import moving, parted
from tplimits.regimes.training import finite, numbers

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.program.parametrization.table import Parametrization
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.regimes.training.finite.judged import OutputSampler
    from tplimits.regimes.training.limit import TrainingLimit
    from tplimits.regimes.training.runs import TrainingRun
    from tplimits.sampling.verdict import Verdict

#: arguments of `evaluate` that the command line gives in both regimes
OF_COMMAND = ("X", "error", "lr", "steps", "checkpoint", "particles", "replicates")
#: what pages say under their first line
NOTE = (
    "All widths to infinity together. Q_t is the update function of the optimizer, χ the error signal at the outputs, "
    "and differentials d stand for gradients."
)
#: those that say how the numbers of the limit come about
_OF_PARTICLES = ("particles", "replicates", "block", "conditioning")
#: keywords of `evaluate` that a check takes as they are
OF_EVALUATE = ("X", "error", "lr", "steps", "f0", *_OF_PARTICLES)


@dataclass(frozen=True)
class TrainedAs:
    """How the networks are trained that have the limit; with a `random_start` it is one given their first outputs."""

    parametrization: Parametrization
    optimizers: Mapping[str, Optimizer]
    weight_decay: Any
    growing: Sequence[str]
    random_start: bool


def training_verdict(result: TrainingLimit, asked: CheckAsked) -> Verdict:
    """Outputs of networks in training, or a user's own claims, judged at finite widths."""
    how = result.trained_as
    _refuse(how, asked.own)
    if not how.random_start:  # networks are compared with the limit of one start, not with a law over several
        numbers.scalars.refuse_open_scalars(result.program, asked.numbers.constants)
    sampler = _sampler(result, how, asked)
    stated = None
    if asked.claims is None:
        # networks are shifted to one start, and the limit has to be that given this start
        start = (sampler.start if sampler.recipe.drifting else sampler.start[0]) if how.random_start else None
        run = _run(result, asked, asked.own["lr"], asked.own["steps"], start)
        stated = run.f, run.stderr, len(run.replicates) - 1
    return finite.judged.check_outputs(sampler, stated, asked.claims, asked.sampling, how.random_start)


def _sampler(result: TrainingLimit, how: TrainedAs, asked: CheckAsked) -> OutputSampler:
    """The networks, their outputs shifted to where the limit starts."""
    own = asked.own
    network, given = moving(result.program, asked.numbers.constants)
    schedules, rest = parted(network, given)
    recipe = finite.recipe.recipe(
        network, how.parametrization, how.optimizers, own["lr"], how.weight_decay, tuple(how.optimizers), schedules
    )
    if how.random_start:
        start = 0.0 if own.get("f0") is None else own["f0"]
    else:  # outputs without training are sure: f_0, with weight decay a path
        steps = own["steps"] if recipe.drifting else 0
        # at rate 0 the limit is f^dec itself
        f = _run(result, asked, 0.0, steps, None).f
        start = f if recipe.drifting else f[0]
    return finite.judged.output_sampler(
        recipe,
        own["X"],
        own["error"],
        own["steps"],
        start,
        asked.sampling.seed,
        replace(asked.numbers, constants=rest),
        how.growing,
    )


def _run(result: TrainingLimit, asked: CheckAsked, lr: Any, steps: Any, f0: Any) -> TrainingRun:
    """The limit itself; only a limit with a random start takes one.  What does not train is quick: done here."""
    given, sampling = asked.given, asked.sampling
    settings = {name: asked.own[name] for name in _OF_PARTICLES if asked.own.get(name) is not None}
    if f0 is not None:
        settings["f0"] = f0
    return result.evaluate(
        asked.own["X"],
        error=asked.own["error"],
        lr=lr,
        steps=steps,
        seed=sampling.seed,
        ratios=given.ratios,
        constants=given.constants,
        executor=None if isinstance(lr, float) and lr == 0 else sampling.executor,
        progress=sampling.progress,
        **settings,
    )


def _refuse(how: TrainedAs, own: Mapping[str, Any]) -> None:
    """Refuse what is missing, or of no use."""
    for name in ("X", "error", "lr", "steps"):
        if own.get(name) is None:
            raise CheckError(
                f"check() of a network in training needs {name}=: give X, error, lr and steps as evaluate() takes them."
            )
    if not how.random_start and own.get("f0") is not None:
        raise CheckError("f0= is for the operator regime; in the feature-learning limit outputs at the start are sure.")
