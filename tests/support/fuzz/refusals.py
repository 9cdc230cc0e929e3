"""Refusals: which reason they give, and whether it can be right, judged without the engines that gave it."""

from __future__ import annotations

import re

from fuzz.disguises import STEEP
from fuzz.draft import Case
from fuzz.measuring import NOT_FINITE, RESTLESS, VANISHING
from fuzz.seams import NO_LIMIT

#: the reason of programs that are not taken because a domain is lost in what they compute
CANCELS = "a domain cancels"
#: classes of reasons by what messages say; the first that fits
REASONS = {
    CANCELS: r"cancels, and may be no number",
    "tangent kernel through a jump": r"derivatives of two jumps|derivative .* jump|derivative is a delta",
    "lands on a jump": r"lands? on a jump|of (a|the) jump|is 0 within",
    "root of a vanishing scalar": r"stands under (the|a) root",
    "not finite at a limit": r"is not finite|divided by, or in a logarithm|singular value|division by|has a pole at",
    "moment not established": r"moment not established|not established",
    "logits moved by earlier ones": r"the move of a random logit that other random logits take part in",
    "second moment": r"finite second moment|square integrable",
    "fluctuation class": r"outside the class whose covariance",
    "readout not fresh": r"fresh",
    "a value to be given": r"give its value",
    "two neurons": r"mixes two neurons|neurons inseparably",
    "too many variables": r"correlated variables with kinks, beyond the reach of quadrature",
    "sum of nonlinear functions": r"nonlinear function of a sum",
    "activation without moments": r"closed moments|closed form|kink away from zero|no expansion",
    "kink where a logit settles": r"kink is passed (at random|where V decides)|kink or a jump at the value",
    "several dense layers": r"a function of several dense layers",
    "leading map not linear": r"leading map|not perturbative|not closed|stays nonlinear|not Markov",
    "no polynomial of the state": r"a function of the state",
    "mixture": r"the limit is a mixture|given random logits",
    "several scalars": r"of several scalars",
    "tied weights in a block": r"in one block|tied weights",
    "scalar inside": r"scalar parameter",
    "no limit of this depth": r"has no limit of depth proportional",
    "grows with the width": r"diverges with|grows with|grows without bound|grows like",
    "too large": r"too many|more than|nodes|does not fit|exceed",
    "direction of a vanishing gradient": r"by the smallest gradient as by any other",
    "precision": r"precision|too few particles|not reached|no number for",
}
#: limits of the package that its documents state: a refusal that says so is no surprise
DOCUMENTED = frozenset(
    {
        *(
            "fluctuation class",
            "readout not fresh",
            "a value to be given",
            "tangent kernel through a jump",
            "two neurons",
        ),
        *("sum of nonlinear functions", "activation without moments", "leading map not linear", "several dense layers"),
        *("no polynomial of the state", "mixture", "logits moved by earlier ones", "kink where a logit settles"),
        *(
            "too many variables",
            "tied weights in a block",
            "scalar inside",
            "grows with the width",
            "no limit of this depth",
            "direction of a vanishing gradient",
        ),
    }
)
#: reasons that are right where the case holds one of `NO_LIMIT`
SINGULAR = frozenset(
    {
        *("lands on a jump", "root of a vanishing scalar", "not finite at a limit", "second moment"),
        *("moment not established", "precision"),
    }
)


def reason_of(message: str) -> str:
    """The class of a message; the start of what it says where it is of none."""
    for name, pattern in REASONS.items():
        if re.search(pattern, message):
            return name
    return "other: " + re.sub(r"^.*?line \d+[^:]*:? *", "", message)[:60]


def judged(case: Case, reason: str, seen: frozenset[str]) -> str:
    """Why a refusal is reasonable: by what networks do, by what stands in the case, by the documents; or "to read"."""
    for what in (NOT_FINITE, RESTLESS):
        if what in seen:
            return f"networks: {what}"
    if reason in SINGULAR and NO_LIMIT & set(case.traps):
        return "singular at a zero in disguise"
    if reason == "lands on a jump" and case.regime == "training" and "kink at zero" in case.traps:
        return "the gradient of a kink at a zero in disguise"
    if reason in ("second moment", "moment not established") and STEEP in case.traps and case.regime != "width":
        return "the gradient of a root"
    if reason in ("lands on a jump", "not finite at a limit") and VANISHING in seen:
        return f"networks: {VANISHING}"
    return "documented" if reason in DOCUMENTED else "to read"
