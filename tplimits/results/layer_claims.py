"""What a covariance SDE claims about layers of finite width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tplimits import stages
from tplimits.errors import CheckError
from tplimits.results.proportional import CovarianceSDE

#: keywords of `simulate` that `check` hands on
_OF_SIMULATE = ("dt", "paths", "stop")
_DEFAULTS = {"dt": 0.005, "paths": 16384}


def layer_claims(
    result: CovarianceSDE,
    claims: Mapping[str, Any] | None,
    V0: Any,
    layers: int,
    widths: Any,
    ratios: Mapping[str, float] | None,
    given: dict[str, Any],
    seed: int,
    method: str,
) -> list[Any]:
    """The claims of a check: its own, those of b and Σ, or with more than one layer those of simulated paths.

    Keywords of `simulate` are taken out of `given`.
    """
    stage = stages.depth()
    start, layers = stage.start(V0, result.program), stage.layer_count(layers)
    simulated = {k: given.pop(k) for k in _OF_SIMULATE if k in given}
    if claims is not None:
        return list(stage.named_claims(claims, start.tokens))
    if layers == 1:
        own = {
            "drift": result.drift_at(start.V, ratios, **given),
            "diffusion": result.diffusion_at(start.V, ratios, **given),
        }
        return list(stage.named_claims(own, start.tokens))
    simulate = getattr(result, "simulate", None)
    if simulate is None:
        raise CheckError(f"layers={layers}: the SDE cannot be simulated here; give claims= on V, ρ or ρ², or layers=1.")
    if method != "auto":
        simulated["method"] = method
    depth = layers / (widths or stage.DEPTH_WIDTHS)[-1]
    paths = simulate(start.V, T=depth, seed=seed, **{**_DEFAULTS, **simulated}, **given)
    return list(stage.terminal_claims(paths.V))
