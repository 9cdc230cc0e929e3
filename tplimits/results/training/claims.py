"""What a limit of training claims about networks of finite width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from tplimits import check as finite
from tplimits.errors import CheckError
from tplimits.program.parametrization.table import MUP, NTP
from tplimits.results.training.maximal import MaximalLimit
from tplimits.results.training.tangent import TangentLimit

if TYPE_CHECKING:
    from tplimits.check.verdict import Verdict

#: keywords of `evaluate` that a check takes as they are
OF_EVALUATE = ("X", "error", "lr", "steps", "f0", "particles", "replicates", "block", "conditioning")
#: those that say how the numbers of the limit come about
_OF_PARTICLES = ("particles", "replicates", "block", "conditioning")


def training_verdict(
    result: MaximalLimit | TangentLimit,
    asked: Mapping[str, Any],
    widths: Sequence[int] | None,
    draws: int | Sequence[int] | None,
    seed: int,
    level: float,
    given: Mapping[str, Any],
    ratios: Mapping[str, float] | None,
    claims: Mapping[str, Any] | None,
    executor: Executor | None,
    progress: Any,
) -> Verdict:
    """Outputs of networks in training, or a user's own claims, judged at finite widths; `asked` as for `evaluate`."""
    _refuse(result, asked)
    stage = finite.outputs
    X, error, steps = (asked[name] for name in ("X", "error", "steps"))
    numbers = {k: v for k, v in given.items() if k != "draws"}
    settings: dict[str, Any] = {k: asked[k] for k in _OF_PARTICLES if asked.get(k) is not None}
    decay: Any
    if isinstance(result, TangentLimit):
        operator = result.operator
        optimizers, decay, growing = operator.optimizers, operator.weight_decay, operator.infinite
        start = 0.0 if asked.get("f0") is None else asked["f0"]
    else:
        recursion = result.recursion
        optimizers, growing = recursion.optimizers, ()
        start = _start(result, asked, settings, seed, ratios, given)
        decay = {name: float(λ) for name, λ in recursion.weight_decay.items()}
    table = NTP if isinstance(result, TangentLimit) else MUP
    parametrization = table.adjusted(result.program, optimizers)
    recipe = finite.recipe.recipe(
        result.program, parametrization, optimizers, asked["lr"], decay, only=tuple(optimizers)
    )
    sampler = stage.output_sampler(recipe, X, error, steps, start, seed, ratios, numbers, growing)
    f = stderr = None
    if claims is None:
        if isinstance(result, TangentLimit):
            settings["f0"] = sampler.start if recipe.decaying else sampler.start[0]
        run = result.evaluate(
            X,
            error=error,
            lr=asked["lr"],
            steps=steps,
            seed=seed,
            ratios=ratios,
            constants=given,
            executor=executor,
            progress=progress,
            **settings,
        )
        f, stderr = run.f, run.stderr
    given_start = isinstance(result, TangentLimit)
    verdict: Verdict = stage.check_outputs(
        sampler, f, stderr, claims, widths, draws, level, executor, progress, given_start
    )
    return verdict


def _start(
    result: MaximalLimit,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any],
    seed: int,
    ratios: Mapping[str, float] | None,
    given: Mapping[str, Any],
) -> Any:
    """The outputs of the feature-learning limit without training, which are sure: f_0, with weight decay a path."""
    decaying = any(result.recursion.weight_decay.values())
    steps = asked["steps"] if decaying else 0
    run = result.evaluate(
        asked["X"], error=asked["error"], lr=0.0, steps=steps, seed=seed, ratios=ratios, constants=given, **settings
    )
    return run.f if decaying else run.f[0]


def _refuse(result: MaximalLimit | TangentLimit, asked: Mapping[str, Any]) -> None:
    """Refuse what is missing, or of no use."""
    for name in ("X", "error", "lr", "steps"):
        if asked.get(name) is None:
            raise CheckError(
                f"check() of a network in training needs {name}=: give X, error, lr and steps as evaluate() takes them."
            )
    for name in ("X1", "X2", "V0"):
        if asked.get(name) is not None:
            raise CheckError(f"{name}= is for other limits; of a network in training give X, error, lr and steps.")
    if isinstance(result, MaximalLimit) and asked.get("f0") is not None:
        raise CheckError("f0= is for the operator regime; in the feature-learning limit outputs at the start are sure.")
