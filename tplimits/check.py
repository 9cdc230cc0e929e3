"""check(): the claims of a result against the same program at finite widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from tplimits import regimes
from tplimits.errors import CheckError
from tplimits.program.nodes.given import by_name, named_once
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes.protocol import Checkable, CheckAsked, Limit
from tplimits.sampling.sampling import Given, Sampling

if TYPE_CHECKING:
    from tplimits.sampling.verdict import Verdict


@constants_apart
def check(
    result: Limit,
    widths: Sequence[int] | None = None,
    draws: int | Sequence[int] | None = None,
    seed: int = 0,
    level: float = 1e-2,
    claims: Mapping[str, Any] | None = None,
    *,
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Any = None,
    **named: Any,
) -> Verdict:
    """Is the limit where the same program points at finite widths?

    Runs the program with real matrices at `widths`, fits L + b/n (odd powers of n^(-1/2) where they
    occur) to the means, and judges the intercept L against the derived limit at family-wise `level`; of a
    fluctuation scalar, its (co)variance.  Without `draws` a pilot chooses them so that a claim 2 % off is
    rejected with 95 % probability.  The smallest widths are left out where the series does not describe them; where
    it describes no choice of them, what is off its intercept is undecided (`accepted` is None) unless it is further off
    than means would have to go that approach a limit like n^(-1/4).
    `claims={"return": 0.6}` judges your own values instead.  `method`, `particles` (4096) and `replicates` (8)
    are those of `evaluate`; constants and scalars go by name.  With `controls=True` the part of order n^(−1/2), known
    from the neurons of each network, is taken off what is drawn, around its mean over the law of neurons: noise falls
    like 1/n.  None: where many draws would be needed.

    Of a covariance SDE the block is run, from states of covariance `V0`: n·E[V′ − V] and n·Cov(V′) of one layer against
    b and Σ, or the law of V after `layers` layers (at the largest width, with the same depth/width at the others)
    against `simulate`: 5, 50 and 95 % quantiles of the variances, mean, standard deviation and these quantiles of each
    correlation ρ.  The claims carry the errors of `paths` paths (16384) and of steps of half of `dt` (0.01).
    `weights="law"` draws products with matrices, which is exact, `"real"` the matrices themselves.  `claims` name
    entries, "b[0,1]", "Σ[0,0;0,1]", "std ρ[0,1]", "95% ρ[0,1]", or whole arrays, "drift" and "diffusion".  Without
    `draws` expect some 5 s on two free processors.

    Of a kernel limit the network and its gradients are run on the inputs `X1` and `X2` (None: X1): K[i,j] and Θ[i,j].
    `claims` name single entries or whole arrays, "nngp" and "ntk".  Of kernels of order 1 the coefficients of 1/n are
    judged beside them: b(K[i,j]) and C(K[i,j]), and the same of Θ, or the arrays "nngp_bias", "nngp_variance",
    "ntk_bias" and "ntk_variance"; K is the covariance of outputs given all layers below the readout.

    Of a limit of training, networks are run whose true matrices are trained, on `X`, `error`, `lr` and `steps` as
    `evaluate` takes them: f[t,i] is the output on input i after t steps, f[t,i;a] one of several outputs.  In the
    operator regime outputs are random at the start and judged given it: those of the networks are shifted to `f0` (0
    if left out; a path under weight decay).  2 % are those of the largest change of any output since the start.
    `claims` name entries or the array "f", (steps + 1, inputs, *outputs), whose first row is the start.
    `particles`, `replicates`, `block` and `conditioning` are those of `evaluate`; `error` is called for every network.

    Raises CheckError where the check cannot be run as asked, EvaluationError where the limit has no number.
    """
    if not isinstance(result, Checkable) or isinstance(result, type):
        raise CheckError(f"check() takes the result of tp.derive(), not {type(result).__name__}.")
    own, rest = _own(result, named)
    sampling = Sampling(widths, draws, seed, level, executor, progress)
    given = Given(named_once(constants, rest, "check()", CheckError), by_name(ratios, "ratios", CheckError))
    return result.judged(CheckAsked(sampling, given, claims, own))


def _own(result: Limit, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords that this limit takes, and constants; CheckError for keywords of other limits, None is left out."""
    own = {name: value for name, value in named.items() if name in result.check_keywords}
    rest = {name: value for name, value in named.items() if name not in own}
    program = result.program
    known = {*program.constants, *program.known.axes, *program.widths, *(s.name for s in program)}
    if not rest:
        return own, rest
    for _, other in regimes.known.REGIMES:
        for name in other.check_keywords:
            if name in rest and name not in known:
                value = rest.pop(name)
                if value is not None:
                    raise CheckError(
                        f"{name}= is for the check of a {other.__name__}; this is a {type(result).__name__}."
                    )
    return own, rest
