"""What a covariance SDE claims about layers of finite width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.regimes.depth import finite
from tplimits.regimes.depth.numbers.paths import DEGREES

if TYPE_CHECKING:
    from tplimits.regimes.depth.finite.request import LayersRequest
    from tplimits.regimes.depth.of_block import OfBlock
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.sampling.verdict import Verdict

#: keywords of `simulate` that `check` hands on
OF_SIMULATE = ("dt", "paths", "stop")
_DEFAULTS = {"dt": 0.01, "paths": 16384}


def layer_verdict(result: OfBlock, asked: CheckAsked) -> Verdict:
    """Drift and noise of one layer, or the law after many, judged at finite widths."""
    own = asked.own
    request = finite.judged.LayersRequest.of(result, asked, own.get("weights", "law"))
    simulated = {name: own[name] for name in OF_SIMULATE if name in own}
    claimed = layer_claims(result, request, asked.claims, simulated, own.get("method") or "auto")
    return finite.judged.run_layers(request, claimed, asked.sampling)


def layer_claims(
    result: Any,
    request: LayersRequest,
    claims: Mapping[str, Any] | None,
    simulated: Mapping[str, Any],
    method: str = "auto",
) -> list[Any]:
    """The claims of a check: those given, those of b and Σ, or with more than one layer those of simulated paths."""
    stage, start = finite.judged, request.start
    if claims is not None:
        return list(stage.named_claims(claims, start.tokens))
    if request.depth is None:
        at = (start.V, request.ratios, request.given)
        drift, diffusion = result.layer_at(*at)
        of_drift = stage.named_claims({"drift": drift}, start.tokens)
        errors = result.drift_estimate_at(*at).error[numpy.triu_indices(start.tokens)].tolist()
        told = [replace(claim, error=error, degrees=DEGREES) for claim, error in zip(of_drift, errors, strict=True)]
        return [*told, *stage.named_claims({"diffusion": diffusion}, start.tokens)]
    paths = result.simulate(
        start.V,
        T=request.depth,
        seed=request.seed,
        halve=True,
        ratios=request.ratios,
        constants=request.given,
        progress=False,
        **{**_DEFAULTS, **simulated, **({} if method == "auto" else {"method": method})},
    )
    return list(stage.end_claims(paths))
