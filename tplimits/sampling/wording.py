"""A verdict in words: the sentence and the table a person reads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tplimits.pages.report import with_error
from tplimits.pictures.plots import WORDS
from tplimits.sampling.rows import LACK, Row

#: draws are too few to speak of a test when the error they find is this much larger than it should be
_WEAK = 1.15
#: more draws than this at one width are no advice
_HOPELESS = 10**9


def sentence(rows: Sequence[Row], level: float, widths: Sequence[int], remarks: Sequence[str] = ()) -> str:
    """What was judged, at which level, which claim is worst, and where finite width points."""
    rejected, undecided = ([row for row in rows if row.accepted is found] for found in (False, None))
    worst = min(rejected or undecided or rows, key=lambda row: (row.p, -abs(row.z)))
    together = f" (family-wise, Holm over {len(rows)} claims)" if len(rows) > 1 else ""
    over = f"over widths {worst.widths[0]} to {widths[-1]}"
    how = f"by the intercept of {worst.series} {over}, at level {level:g}{together}"
    claimed = f"{worst.claim.name} = {with_error(worst.claim.value, worst.claim.error)}"
    found = with_error(worst.intercept, worst.stderr)
    apart = f"{abs(worst.z):.1f} standard errors"
    if undecided and not rejected:
        head = f"Undecided {how}: the claim {claimed} is {apart} from {found}, which is no evidence here."
    elif not rejected:
        head = f"Accepted {how}: the claim {claimed} is {apart} from {found}, where finite width points"
        head += ", and no other is further off." if len(rows) > 1 else "."
    else:
        count = f"{len(rejected)} of {len(rows)} claims, the worst " if len(rows) > 1 else ""
        head = f"Rejected {how}: {count}{claimed}, but finite width points at {found}, {apart} away."
    return " ".join([head, *_doubts(rows), *remarks])


def _doubts(rows: Sequence[Row]) -> list[str]:
    """Where the fitted series does not describe the widths."""
    odd = [row for row in rows if row.lack_of_fit < LACK / len(rows)]
    if not odd:
        return []
    names = ", ".join(row.claim.name for row in odd[:3]) + (", ..." if len(odd) > 3 else "")
    first = odd[0]
    return [
        f"The widths do not follow {first.series} for {names} (lack of fit, p = {first.lack_of_fit:.1e}): raise them."
    ]


def weak(rows: Sequence[Row]) -> list[Row]:
    """The claims that a wrong value could pass for want of draws."""
    return [row for row in rows if row.finds > _WEAK * row.tolerance]


def weakness(rows: Sequence[Row], draws: Sequence[int] | None) -> list[str]:
    """What these draws can and cannot find, and the `draws` that would do."""
    short = weak(rows)
    if not short:
        return []
    row = max(short, key=lambda r: r.finds / r.tolerance)
    text = f"Too few draws: an error of the claim on {row.claim.name} below {row.finds:.2g} may pass, where"
    text += f" {row.tolerance:.2g} should be found with probability 95 %;"
    if draws is None:
        return [f"{text} the claim's own error is what limits it."]
    if max(draws) > _HOPELESS:
        return [f"{text} no draws at these widths would do, add widths or raise them."]
    return [f"{text} use draws={_tuple(draws)}."]


def _tuple(draws: Sequence[int]) -> str:
    """Draws rounded up to two digits."""
    rounded = []
    for n in draws:
        unit = 10 ** max(0, len(str(n)) - 2)
        rounded.append(str(-(-n // unit) * unit))
    return f"({', '.join(rounded)})"


def table(rows: Sequence[Row], program: str, widths: Sequence[int], draws: Sequence[int]) -> str:
    """One line a claim under the widths and draws."""
    head: tuple[str, ...] = ("quantity", "claimed", "finite width", "z", "p", "b", "slope", "lack of fit", "")
    body: list[tuple[str, ...]] = [_line(row) for row in rows]
    if len(rows) > 1:
        head = (*head[:5], "p (Holm)", *head[5:])
        body = [(*line[:5], f"{row.p_holm:.2g}", *line[5:]) for line, row in zip(body, rows, strict=True)]
    lengths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(line, lengths, strict=True)).rstrip() for line in (head, *body)
    ]
    sampled = ", ".join(f"{n}: {d}" for n, d in zip(widths, draws, strict=True))
    return "\n".join([f"program {program}; draws at width {sampled}", *lines])


def _line(row: Row) -> tuple[str, ...]:
    expected = "−1/2" if row.claim.statistic == "mean" else "0"
    slope = "–" if math.isnan(row.slope) else f"{row.slope:+.2f} ({expected})".replace("-", "−")
    return (
        row.claim.name,
        with_error(row.claim.value, row.claim.error),
        with_error(row.intercept, row.stderr),
        f"{row.z:+.2f}".replace("-", "−"),
        f"{row.p:.2g}",
        f"{row.b:.3g}".replace("-", "−"),
        slope,
        f"{row.lack_of_fit:.2g}",
        "REJECTED" if row.accepted is False else WORDS[row.accepted],
    )
