"""check(): the claims of a result against the same program at finite widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tplimits import check as finite
from tplimits.errors import CheckError
from tplimits.limit import targets
from tplimits.program.given import by_name, named_once, seed_number, working_executor
from tplimits.results.kernel_claims import kernel_verdict
from tplimits.results.kernels import KernelLimit
from tplimits.results.layer_claims import OF_SIMULATE, layer_claims
from tplimits.results.proportional import CovarianceSDE
from tplimits.results.training.claims import OF_EVALUATE, training_verdict
from tplimits.results.training.maximal import MaximalLimit
from tplimits.results.training.tangent import TangentLimit
from tplimits.results.width import WidthLimit

if TYPE_CHECKING:
    from tplimits.check.verdict import Verdict


def check(
    result: WidthLimit | CovarianceSDE | KernelLimit | MaximalLimit | TangentLimit,
    widths: Sequence[int] | None = None,
    draws: int | Sequence[int] | None = None,
    seed: int = 0,
    level: float = 1e-2,
    claims: Mapping[str, Any] | None = None,
    *,
    X1: Any = None,
    X2: Any = None,
    V0: Any = None,
    layers: int = 1,
    weights: str = "law",
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Any = None,
    method: str = "auto",
    particles: int | None = None,
    replicates: int | None = None,
    **named: Any,
) -> Verdict:
    """Is the limit where the same program points at finite widths?

    Runs the program with real matrices at `widths`, fits L + b/n (odd powers of n^(-1/2) where they
    occur) to the means, and judges the intercept L against the derived limit at family-wise `level`; of a
    fluctuation scalar, its (co)variance.  Without `draws` a pilot chooses them so that a claim 2 % off is
    rejected with 95 % probability.  `claims={"return": 0.6}` judges your own values instead.  `method`,
    `particles` (4096) and `replicates` (8) are those of `evaluate`; constants and scalars go by name.

    Of a covariance SDE the block is run, from states of covariance `V0`: n·E[V′ − V] and n·Cov(V′) of one layer against
    b and Σ, or the law of V after `layers` layers (at the largest width, with the same depth/width at the others)
    against `simulate`: 5, 50 and 95 % quantiles of the variances, mean, standard deviation and these quantiles of each
    correlation ρ.  The claims carry the errors of `paths` paths (16384) and of steps of half of `dt` (0.01).
    `weights="law"` draws products with matrices, which is exact, `"real"` the matrices themselves.  `claims` name
    entries, "b[0,1]", "Σ[0,0;0,1]", "std ρ[0,1]", "95% ρ[0,1]", or whole arrays, "drift" and "diffusion".  Without
    `draws` expect some 5 s on two free processors.

    Of a kernel limit the network and its gradients are run on the inputs `X1` and `X2` (None: X1): K[i,j] and Θ[i,j].
    `claims` name single entries or whole arrays, "nngp" and "ntk".

    Of a limit of training, networks are run whose true matrices are trained, on `X`, `error`, `lr` and `steps` as
    `evaluate` takes them: f[t,i] is the output on input i after t steps, f[t,i;a] one of several outputs.  In the
    operator regime outputs are random at the start and judged given it: those of the networks are shifted to `f0` (0
    if left out; a path under weight decay).  2 % are those of the largest change of any output since the start.
    `claims` name entries or the array "f", (steps + 1, inputs, *outputs), whose first row is the start.
    `particles`, `replicates`, `block` and `conditioning` are those of `evaluate`; `error` is called for every network.

    Raises CheckError where the check cannot be run as asked, EvaluationError where the limit has no number.
    """
    training = isinstance(result, (MaximalLimit, TangentLimit))
    asked = {name: named.pop(name) for name in OF_EVALUATE if training and name in named}
    given = named_once(constants, named, "check()", CheckError)
    ratios = by_name(ratios, "ratios", CheckError)
    seed = seed_number(seed, CheckError)
    working_executor(executor, CheckError)
    if isinstance(result, CovarianceSDE):
        simulated = {k: given.pop(k) for k in OF_SIMULATE if k in given}
        stage = finite.depth
        request = stage.Request(result.program, V0, layers, widths, seed, weights, ratios, given, result.fixed)
        claimed = layer_claims(result, request, claims, simulated, method)
        verdict: Verdict = stage.run_layers(request, claimed, draws, level, executor, progress)
        return verdict
    if isinstance(result, KernelLimit):
        options = {"ratios": ratios, "claims": claims, "executor": executor, "progress": progress}
        return kernel_verdict(result, X1, X2, widths, draws, seed, level, given, **options)
    if isinstance(result, (MaximalLimit, TangentLimit)):
        if layers != 1 or method != "auto":
            raise CheckError("layers= and method= are for other limits; this is one of a network in training.")
        asked |= {"X1": X1, "X2": X2, "V0": V0, "particles": particles, "replicates": replicates}
        return training_verdict(result, asked, widths, draws, seed, level, given, ratios, claims, executor, progress)
    if not isinstance(result, WidthLimit):
        raise CheckError(f"check() takes the result of tp.derive(), not {type(result).__name__}.")
    if V0 is not None or layers != 1:
        raise CheckError("V0= and layers= are for a covariance SDE; this is a limit of infinite width.")
    stage = finite.verdict
    if claims is None:
        sizes = particles or 4096, replicates or 8
        judged = _own_claims(result, stage, given, ratios, method, *sizes, seed, executor, progress)
    else:
        random = {o.label for o in result.observables if targets.target(result.state, o).variance != 0}
        judged = [
            stage.Claim(k, v, statistic="covariance" if k in random else "mean")
            for k, v in by_name(claims, "claims", CheckError).items()
        ]
    return stage.run_check(result.program, judged, widths, draws, seed, level, ratios, given, executor, progress)


def _own_claims(
    result: WidthLimit,
    stage: ModuleType,
    given: Mapping[str, Any],
    ratios: Mapping[str, float] | None,
    method: str,
    particles: int,
    replicates: int,
    seed: int,
    executor: Executor | None,
    progress: Any,
) -> list[Any]:
    """What the limit itself claims: values, and variances of what stays random."""
    numbers = result.evaluate(
        method,
        ratios=ratios,
        constants=given,
        particles=particles,
        replicates=replicates,
        seed=seed,
        executor=executor,
        progress=progress,
    )
    judged = []
    for name, number in numbers.items():
        if number.variance:
            judged.append(stage.Claim(name, number.variance, number.variance_error, "covariance"))
        else:
            judged.append(stage.Claim(name, number.value, number.error))
    return judged
