"""A check of a covariance SDE: one layer against drift and noise, or a whole depth against the law of V at its end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError
from tplimits.regimes.depth.finite.chains import (
    ChainSampler,
    LayerInquiry,
    diffusion_labels,
    drift_labels,
    uses_controls,
)
from tplimits.regimes.depth.finite.ends import LEAST_DRAWS, EndInquiry, end_claims, statistic_labels
from tplimits.regimes.depth.finite.request import LayersRequest
from tplimits.sampling.claims import Claim
from tplimits.sampling.verdict import Verdict, concluded

if TYPE_CHECKING:
    from tplimits.sampling.sampling import Sampling

__all__ = ["LayersRequest", "end_claims", "inquire", "named_claims", "run_layers"]
_FEW = f"Fewer than {LEAST_DRAWS} draws at a width: their quantiles have no error to speak of."
_PLAIN = "Too few draws for control variates: the noise of single draws is all there."


def run_layers(request: LayersRequest, claims: Sequence[Claim], sampling: Sampling) -> Verdict:
    """Run the layers that are asked for, and judge what is claimed about them.

    With one layer the claims are about b and Σ, with more about the law of V after as many layers at the largest width,
    and in proportion at the others.

    Raises CheckError where this cannot be done as asked, or where a draw is not finite.
    """
    begin = time.perf_counter()
    inquiry = inquire(request, claims, sampling.level)
    verdict = concluded(inquiry, sampling, begin)
    if isinstance(inquiry, LayerInquiry) and not uses_controls(inquiry.chain, verdict.draws):
        verdict = replace(verdict, sentence=f"{verdict.sentence} {_PLAIN}")
    if isinstance(inquiry, EndInquiry) and min(verdict.draws) < LEAST_DRAWS:
        verdict = replace(verdict, sentence=f"{verdict.sentence} {_FEW}")
    return verdict


def inquire(request: LayersRequest, claims: Sequence[Claim], level: float) -> LayerInquiry | EndInquiry:
    """What is to be sampled and judged."""
    tokens, depth, taken = request.start.tokens, request.depth, request.taken
    chain = ChainSampler(
        request.block,
        request.start,
        depth,
        request.seed,
        request.weights,
        request.ratios,
        request.constants,
        request.sizes,
        mirrored=depth is None and request.series.step != 1,
    )
    found = _known(claims, tokens, request.count)
    asked = (chain, taken, found, (request.series,) * len(found), level, request.remarks)
    return LayerInquiry(*asked) if depth is None else EndInquiry(*asked, tokens=tokens)


def _known(claims: Sequence[Claim], m: int, layers: int) -> tuple[Claim, ...]:
    known = statistic_labels(m) if layers > 1 else (*drift_labels(m), *diffusion_labels(m))
    for claim in claims:
        if claim.label not in known:
            shown = ", ".join(known[:6])
            raise CheckError(
                f"there is no `{claim.label}` to check in {layers} layers of {m} tokens; there is {shown}, …"
            )
        if not math.isfinite(claim.value):
            raise CheckError(f"the claim {claim.name} = {claim.value} is not a finite number; a check needs one.")
    if not claims:
        raise CheckError("there is no claim to judge; claim a drift or a diffusion.")
    return tuple(claims)


def named_claims(claims: Mapping[str, Any], tokens: int) -> list[Claim]:
    """Claims by name: single entries, or `drift` (m, m) and `diffusion` (P, P) as whole arrays.

    >>> [c.name for c in named_claims({"drift": [[1, 2], [2, 3]], "Σ[0,0;0,0]": 2}, 2)]
    ['b[0,0]', 'b[0,1]', 'b[1,1]', 'Σ[0,0;0,0]']
    """
    upper, many = numpy.triu_indices(tokens), tokens * (tokens + 1) // 2
    wanted: dict[str, tuple[tuple[str, ...], Any]] = {
        "drift": (drift_labels(tokens), upper),
        "diffusion": (diffusion_labels(tokens), numpy.triu_indices(many)),
    }
    found = []
    for name, value in claims.items():
        if name not in wanted:
            found.append(Claim(name, _number(name, value)))
            continue
        labels, places = wanted[name]
        array, size = numpy.asarray(value, dtype=numpy.float64), tokens if name == "drift" else many
        if array.shape != (size, size):
            raise CheckError(
                f"the claim on {name} has shape {array.shape}; for {tokens} tokens it is ({size}, {size})."
            )
        most = float(numpy.abs(array).max())
        found += [Claim(label, float(v), size=most) for label, v in zip(labels, array[places], strict=True)]
    return found


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CheckError(f"the claim on `{name}` is {value!r}; give a number.") from None
