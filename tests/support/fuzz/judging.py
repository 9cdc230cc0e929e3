"""One case judged: derived, evaluated, and compared with finite width at a level that holds for a family of cases.

Few draws come first.  What they doubt, a claim rejected at `SCREEN` or one to which networks do not come nearer, is
looked at with many fresh draws at wider widths, and only these count; at level 1e-2 divided by the number of cases.
Where a function has a kink at the limit of a scalar, means have terms in n^(-1/2) that the program does not show, and
trained roots have terms that fall more slowly yet: what the check rejects is fitted again with them.
"""

from __future__ import annotations

import re
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import tplimits as tp
from fuzz.answers import Answer, Effort, answer, asked, derived, evaluated, made, of_results, pair_of, refusal_of
from fuzz.disguises import LEFT
from fuzz.draft import Case
from fuzz.measuring import NOT_FINITE, measured
from fuzz.patience import PATIENCE, OutOfPatience, patience
from fuzz.refusals import CANCELS, judged, reason_of
from fuzz.spelling import idle, respelled
from fuzz.stepping import written_out
from fuzz.unreached import below_its_spread, not_reached
from tplimits.sampling.estimate import Series, fit
from tplimits.sampling.verdict import Verdict

#: p-values below this are looked at again
SCREEN = 1e-2
#: from claims that are true networks deviate like n^(-1/2), n^(-1/4) at worst
FLAT = -0.15
#: errors of a claim that finite widths do not resolve: what falls like n^(-2) is no series that anyone fits
NEGLIGIBLE = 1e-3
#: draws of a random kernel, in those of networks, and where each draw asks for integrals of its own
MIXTURE, COSTLY = 2, 256
#: how much nearer four widths, each twice the one before, bring what falls like n^(-1/4) or faster: half way at least
_WIDER = 1 / 8
#: powers of what is trained
_ROOT = re.compile(r"\*\*\(?(0\.\d+|\d+/\d+)")


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    `kind` is "agreed", "refused" (no limit, or no number), "series" (agreed with slower terms), "wrong",
    "spelling" (another answer in other words), "foreign" (an exception that is not the package's), "illegal" (the
    program was not taken), "unchecked" or "slow".
    `reason` says which refusal; `verdict` of a refusal is why it is reasonable, or "to read".
    """

    seed: int
    regime: str
    kind: str
    reason: str = ""
    verdict: str = ""
    detail: str = ""
    p: float = 1.0
    traps: tuple[str, ...] = ()
    seconds: float = 0.0


#: a first look and a second one, by regime; training takes fewer widths because each draw is a whole training, and
#: drifts, whose noise grows like √n, are seen best in narrow networks
EFFORTS = {
    "width": (
        Effort((16, 32, 64, 128), (800, 400, 200, 100)),
        Effort((32, 64, 128, 256, 512), (6000, 4000, 2000, 800, 400)),
    ),
    "kernels": (Effort((16, 32, 64, 128), (800, 400, 200, 100)), Effort((32, 64, 128, 256), (4000, 3000, 1500, 600))),
    "depth": (
        Effort((32, 48, 64, 128), (4000, 3000, 2000, 1000)),
        Effort((40, 80, 160, 320, 640), (16000, 16000, 12000, 8000, 4000)),
    ),
    "training": (
        Effort((16, 32, 64, 128), (200, 100, 50, 30)),
        Effort((32, 64, 128, 256), (1500, 1000, 500, 250), 8192),
    ),
}


def looked(case: Case, limit: Any, effort: Effort, level: float, seed: int) -> Verdict:
    """A check with so many draws."""
    given = asked(case, effort)
    given |= {"widths": effort.widths, "draws": effort.draws, "seed": seed, "level": level}
    if case.regime == "kernels" and limit.is_mixture and "claims" not in given:
        return looked_at_means(case, limit, given, effort)
    if case.regime != "training":
        return tp.check(limit, progress=False, **given)
    with written_out(case.options["limit"], case.options["lr"]):
        return tp.check(limit, progress=False, **given)


def looked_wide(case: Case, limit: Any, particles: int) -> tuple[Effort, Verdict]:
    """A look at wide networks: √(½ + s) with s → 0 is no number in a few of those of middling width."""
    for widths, draws in (((256, 384, 512), (300, 200, 150)), ((1024, 1536, 2048), (60, 40, 30))):
        effort = Effort(widths, draws, particles)
        try:
            return effort, looked(case, limit, effort, SCREEN, case.seed)
        except tp.CheckError as error:
            last = error
    raise last


def looked_at_means(case: Case, limit: Any, given: dict[str, Any], effort: Effort) -> Verdict:
    """A check of the means of random kernels, whose own noise counts as well."""
    count = MIXTURE * effort.draws[0]
    try:
        sample = pair_of(limit, asked(case, effort), count)
    except tp.EvaluationError:
        count = COSTLY
        sample = pair_of(limit, asked(case, effort), count)
    kernels = {"nngp": sample.nngp, "ntk": sample.ntk}
    verdict = tp.check(limit, progress=False, claims={k: v.mean(axis=0) for k, v in kernels.items()}, **given)
    errors = {"K": sample.nngp.std(axis=0) / count**0.5, "Θ": sample.ntk.std(axis=0) / count**0.5}
    rows = []
    for row in verdict.rows:
        name, entry = row.claim.label[0], row.claim.label[2:-1]
        places = [int(i) for i in re.findall(r"\d+", entry)]
        kept, outputs = places[: errors[name].ndim], places[errors[name].ndim :]  # of outputs that are alike, one
        error = float(errors[name][tuple(kept)]) * (len(set(outputs)) < 2)
        p = row.fit.two_sided(row.claim.value, error)[1]
        rows.append(replace(row, p=p, p_holm=min(1.0, p * len(verdict.rows))))
    return replace(verdict, rows=tuple(rows))


def doubts(case: Case, verdict: Verdict, level: float) -> list[str]:
    """Claims that are rejected, and claims from which networks keep their distance."""
    found = [
        f"{row.claim.name}: rejected"
        for row in verdict.rows
        if row.p_holm <= level and abs(row.intercept - row.claim.value) > NEGLIGIBLE * max(row.moments.scale, 0.5)
    ]
    if case.regime == "width":
        for row in verdict.rows:
            apart = float(row.moments.variances[-1]) ** 0.5 > 0.02 * row.moments.scale
            if row.claim.statistic == "mean" and row.slope > FLAT and apart:
                found.append(f"{row.claim.name}: does not settle")
    return found


def slowest(case: Case) -> Fraction:
    """The power of 1/n of the slowest term: 1/2, but for |h|ᵃ of a trained h with 1/2 < a < 1.

    A step moves h by n^(-1/2) |h|^(a-1).  Where that is more than |h|, for |h| < n^(-1/(4 - 2a)), gradients are not
    those of the start, which hold a share n^(-(2a - 1)/(4 - 2a)) of the tangent kernel there.
    """
    found = (
        [Fraction(a) for a in _ROOT.findall(case.source)] if "NeuralTangent" in case.options.get("limit", "") else []
    )
    return min([(2 * a - 1) / (4 - 2 * a) for a in found if Fraction(1, 2) < a < 1], default=Fraction(1, 2))


def with_slow_terms(verdict: Verdict, level: float, power: Fraction) -> bool:
    """Whether all claims stand when terms in n^(-power) are fitted as well."""
    series = Series((power, 2 * power))
    p = [fit(row.moments, series).two_sided(row.claim.value, row.claim.error)[1] for row in verdict.rows]
    return min(p) > level / len(p)


def approaching(verdict: Verdict, level: float, power: Fraction) -> bool:
    """Whether the means of every rejected claim come nearer to it; slow terms fit what stays away, too."""
    rejected = [row for row in verdict.rows if row.p_holm <= level]
    apart = [abs(row.moments.means[[0, -1]] - row.claim.value) for row in rejected]
    return all(last < _WIDER ** float(power / 2) * first for first, last in apart)


def compared(case: Case, limit: Any, level: float) -> tuple[str, str, float]:
    """(kind, detail, p) of the comparison with finite width."""
    first, second = EFFORTS[case.regime]
    try:
        verdict = looked(case, limit, first, SCREEN, case.seed)
    except tp.CheckError:  # small networks are not all finite
        first, verdict = looked_wide(case, limit, second.particles)
        second = first
    if not doubts(case, verdict, SCREEN):
        return "agreed", "", verdict.worst.p
    verdict = looked(case, limit, second, level, case.seed + 1)
    found = doubts(case, verdict, level)
    if not found:
        return "agreed", "", verdict.worst.p
    rejected_only, power = not any("settle" in text for text in found), slowest(case)
    settles = rejected_only and with_slow_terms(verdict, level, power) and approaching(verdict, level, power)
    kind = "series" if settles else "wrong"
    return kind, "; ".join(found) + f"\n{verdict.table}", verdict.worst.p


def outputs_alone(case: Case, limit: Any, level: float) -> dict[str, Any]:
    """The comparison of NNGP kernels alone, for networks that have no gradient."""
    second = EFFORTS["kernels"][1]
    given = asked(case, second)
    K = limit.evaluate(given.pop("X1"), **given).nngp
    untrained = "tp.Kernels(train=(), " + re.sub(r"^tp.Kernels\(|train=\([^)]*\)(, )?", "", case.options["limit"])
    claims = {"nngp": K} if K.ndim == 2 else None
    case = replace(case, options={**case.options, "limit": untrained, "claims": claims})
    verdict = looked(case, derived(case), second, level, case.seed + 1)
    found = doubts(case, verdict, level)
    return {"kind": "wrong" if found else "agreed", "detail": "; ".join(found), "p": verdict.worst.p}


def seen(case: Case) -> frozenset[str]:
    """What networks say of a program of the width limit; nothing of other subjects, which need data."""
    return measured(made(case), case.options) if case.regime == "width" else frozenset()


def _agrees(case: Case, limit: Any, level: float) -> bool:
    """Whether networks come to what is told of a case."""
    return compared(case, limit, level)[0] == "agreed"


def _both_reasonable(case: Case, *answers: Answer) -> bool:
    """Whether two refusals name two things that are delicate: which comes first rests on the order of statements."""
    what = seen(case)
    return all(judged(case, answer.reason, what) != "to read" for answer in answers)


def otherwise(case: Case, said: Answer) -> dict[str, Any] | None:
    """What is wrong with the answers to the same question in other words; None where they are one.

    Idle statements, which other words leave out, may be refused: then other words are compared with one another.
    """
    effort = EFFORTS[case.regime][0]
    if said.reason:
        said = answer(case, effort)
    asked_for = [respelled(case, inline) for inline in (True, False)]
    answers = [answer(other, effort) for other in asked_for]
    pairs = [(said, asked_for[i], answers[i]) for i in (0, 1)]
    if said.reason and idle(case):
        pairs = [(answers[0], asked_for[1], answers[1])]
    for first, other, second in pairs:
        apart = first.apart(second)
        if CANCELS in (first.reason, second.reason) and LEFT in case.traps:
            continue
        if apart and not (first.reason and second.reason and _both_reasonable(case, first, second)):
            detail = "\n".join((*apart, other.source, *(a.message for a in (first, second) if a.message)))
            both = first.numbers.keys() == second.numbers.keys() != set()
            return {"kind": "wrong" if both else "spelling", "reason": "" if both else apart[0], "detail": detail}
    return None


def _judged(case: Case, level: float) -> dict[str, Any]:
    try:
        limit = derived(case)
        claimed = evaluated(case, limit, EFFORTS[case.regime][0])
        said = of_results(case, claimed)
    except (tp.NoLimitError, tp.EvaluationError) as refusal:
        said = refusal_of(refusal)
        if (found := otherwise(case, said)) is not None:
            return found
        verdict = judged(case, said.reason, seen(case))
        return {"kind": "refused", "reason": said.reason, "verdict": verdict, "detail": said.message}
    except tp.ProgramError as refusal:
        said = refusal_of(refusal)
        right = said.reason == CANCELS and LEFT in case.traps
        kind, verdict = ("refused", "a domain is left") if right else ("illegal", "")
        return {"kind": kind, "reason": said.reason, "verdict": verdict, "detail": said.message}
    found = otherwise(case, said)
    return found if found is not None else _at_finite_width(case, limit, claimed, level)


def _at_finite_width(case: Case, limit: Any, claimed: dict[str, Any], level: float) -> dict[str, Any]:
    agrees = partial(_agrees, level=level)
    try:
        kind, detail, p = compared(case, limit, level)
    except (tp.CheckError, tp.EvaluationError) as refusal:
        if case.regime == "kernels" and "DiracDelta" in str(refusal):  # networks have no gradient: K alone
            try:
                return {**outputs_alone(case, limit, level), "reason": "gradient through a jump"}
            except tp.TplimitsError as second:
                refusal = second
        if case.regime == "width" and (found := below_its_spread(case, agrees)) is not None:
            return found
        if NOT_FINITE in seen(case) or (case.regime != "width" and "is not finite in" in str(refusal)):
            return {"kind": "wrong", "detail": f"{claimed}, but networks are not finite: {refusal}"}
        return {"kind": "unchecked", "reason": reason_of(str(refusal)), "detail": str(refusal)}
    if kind == "wrong" and (why := not_reached(case, limit, agrees)):
        return {"kind": "unchecked", "reason": why, "detail": detail}
    return {"kind": kind, "detail": detail, "p": p}


def judge(case: Case, family: int = 1000, seconds: int = PATIENCE) -> Outcome:
    """What comes of a case, one of a family of so many."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Numba extension module")
        warnings.filterwarnings("ignore", message=".*the limit theorems ask for a pseudo-Lipschitz update")
        try:
            with patience(seconds):
                found = _judged(case, 1e-2 / family)
        except OutOfPatience:
            found = {"kind": "slow"}
        except Exception as error:
            found = {"kind": "foreign", "reason": type(error).__name__, "detail": traceback.format_exc(limit=-4)}
    return Outcome(case.seed, case.regime, **found, traps=case.traps, seconds=round(time.process_time() - start, 2))


def row_of(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a row of a file."""
    return asdict(outcome)
