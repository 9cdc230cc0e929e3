"""What a width limit claims about programs of finite width."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy

from tplimits import sampling
from tplimits.errors import CheckError, shown
from tplimits.law import targets
from tplimits.law.hypotheses.fluctuation import is_place
from tplimits.law.observables import keys
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import by_name
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector

if TYPE_CHECKING:
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.regimes.width.limit import WidthLimit
    from tplimits.sampling.claims import Claim
    from tplimits.sampling.verdict import Verdict

#: the smallest width where none is asked for
_LEAST = 64


def width_verdict(result: WidthLimit, asked: CheckAsked) -> Verdict:
    """The limits, or a user's own claims, judged at finite widths."""
    judged = _own_claims(result, asked) if asked.claims is None else _users_claims(result, asked)
    errors = _riemann_errors(result, asked) if any(map(is_place, result.program)) else {}
    judged = [replace(c, error=math.hypot(c.error, errors.get(c.label, 0.0))) for c in judged]
    controls = asked.own.get("controls")
    if controls is not None and not isinstance(controls, bool):
        raise CheckError(f"controls={shown(controls)}: give True, False, or None to let the check choose.")
    return sampling.verdict.run_check(result.program, judged, asked.sampling, asked.given, controls)


def _riemann_errors(result: WidthLimit, asked: CheckAsked) -> dict[str, float]:
    """How far averages of functions of places alone are off at the smallest width, where nothing is random.

    They are sums of Riemann, off by a multiple of 1/n² that no spread of draws tells: by no more than they change when
    the width is doubled, several times over.
    """
    program = result.program
    random = {p for p, s in enumerate(program) if isinstance(s, (InitialMatrix, InitialVector)) and not is_place(s)}
    random -= {p for p in random if isinstance(s := program[p], InitialVector) and s.law.std == 0}
    still = {o.label: keys(o) for o in result.observables if not program.behind(p for p, _ in keys(o)) & random}
    n = min(asked.sampling.widths or (_LEAST,))
    found: list[dict[str, float]] = []
    for width in (n, 2 * n):
        rng = numpy.random.default_rng(0)
        run = Execution(program, width, 1, rng, asked.given.ratios, asked.given.constants).run()
        values = {label: [run.arrays[p][(0, *i)] for p, i in many] for label, many in still.items()}
        found.append({label: float(numpy.mean(numpy.prod(v, axis=0))) for label, v in values.items()})
    return {label: 4 * abs(found[0][label] - found[1][label]) for label in still}


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
            degrees = number.degrees or math.inf
            judged.append(sampling.verdict.Claim(name, number.value, number.error, degrees=degrees))
    return judged
