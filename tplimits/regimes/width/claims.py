"""What a width limit claims about programs of finite width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits import sampling
from tplimits.errors import CheckError
from tplimits.law import targets
from tplimits.program.nodes.given import by_name

if TYPE_CHECKING:
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.regimes.width.limit import WidthLimit
    from tplimits.sampling.claims import Claim
    from tplimits.sampling.verdict import Verdict


def width_verdict(result: WidthLimit, asked: CheckAsked) -> Verdict:
    """The limits, or a user's own claims, judged at finite widths."""
    judged = _own_claims(result, asked) if asked.claims is None else _users_claims(result, asked)
    return sampling.verdict.run_check(result.program, judged, asked.sampling, asked.given)


def _users_claims(result: WidthLimit, asked: CheckAsked) -> list[Claim]:
    """What a user claims: about means, or about the variance of what stays random."""
    random = {o.label for o in result.observables if targets.target(result.state, o).variance != 0}
    return [
        sampling.verdict.Claim(name, value, statistic="covariance" if name in random else "mean")
        for name, value in by_name(asked.claims, "claims", CheckError).items()
    ]


def _own_claims(result: WidthLimit, asked: CheckAsked) -> list[Claim]:
    """What the limit itself claims: values, and variances of what stays random."""
    given, drawn = asked.given, asked.sampling
    numbers = result.evaluate(
        asked.own.get("method") or "auto",
        ratios=given.ratios,
        constants=given.constants,
        particles=asked.own.get("particles") or 4096,
        replicates=asked.own.get("replicates") or 8,
        seed=drawn.seed,
        executor=drawn.executor,
        progress=drawn.progress,
    )
    judged = []
    for name, number in numbers.items():
        if number.variance:
            judged.append(sampling.verdict.Claim(name, number.variance, number.variance_error, "covariance"))
        else:
            judged.append(sampling.verdict.Claim(name, number.value, number.error))
    return judged
