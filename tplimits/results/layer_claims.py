"""What a covariance SDE claims about layers of finite width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tplimits import check as finite
from tplimits.results.proportional import CovarianceSDE

if TYPE_CHECKING:
    from tplimits.check.request import Request

#: keywords of `simulate` that `check` hands on
OF_SIMULATE = ("dt", "paths", "stop")
_DEFAULTS = {"dt": 0.01, "paths": 16384}


def layer_claims(
    result: CovarianceSDE,
    request: Request,
    claims: Mapping[str, Any] | None,
    simulated: Mapping[str, Any],
    method: str = "auto",
) -> list[Any]:
    """The claims of a check: those given, those of b and Σ, or with more than one layer those of simulated paths."""
    stage, start = finite.depth, request.start
    if claims is not None:
        return list(stage.named_claims(claims, start.tokens))
    if request.depth is None:
        own = {
            "drift": result.drift_at(start.V, request.ratios, request.given),
            "diffusion": result.diffusion_at(start.V, request.ratios, request.given),
        }
        return list(stage.named_claims(own, start.tokens))
    paths = result.simulate(
        start.V,
        T=request.depth,
        seed=request.seed,
        method="psd" if method == "auto" else method,
        halve=True,
        ratios=request.ratios,
        constants=request.given,
        progress=False,
        **{**_DEFAULTS, **simulated},
    )
    return list(stage.end_claims(paths))
