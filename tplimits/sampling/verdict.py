"""The verdict: are the claimed limits where finite widths point?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError, shown
from tplimits.law.observables import observables
from tplimits.pages.curves import Curve, drawn
from tplimits.pages.report import Report, Reported, document, with_error
from tplimits.pictures.plots import WORDS, plot_verdict
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import several, whole_number
from tplimits.progress import Report as Progress
from tplimits.progress import reporting
from tplimits.sampling.adaptive import Inquiry, doubtful, look_again, sample_adaptively, sample_fixed, sample_pilot
from tplimits.sampling.claims import Claim, checked
from tplimits.sampling.controls import Plain
from tplimits.sampling.powers import limits_of, series
from tplimits.sampling.sample import Draws, Sampler
from tplimits.sampling.sampling import Given, Sampling
from tplimits.sampling.widths import MORE_WIDTHS, WIDTHS, sampled_widths
from tplimits.sampling.wording import sentence, table, weak, weakness

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.sampling.rows import Row

_AS_CHOSEN, _NOTHING = Sampling(), Given()
#: claims in the table on top of a report
_MOST_CLAIMS = 30
#: a standard error from fewer draws is worth nothing
LEAST_DRAWS = 8
_LOOKED_AGAIN = "The rejection was confirmed by as many fresh draws."
_NOT_CONFIRMED = "Half of these draws had rejected a claim; as many fresh ones did not confirm it."
_WIDER = "By widths {} to {} alone {} was not accepted, either."
_NOT_WIDER = "By widths {} to {} alone {} was not accepted: terms of higher order count there."
_TOO_FEW = "These draws are too few to tell: give more, as draws=, at these widths or wider ones."


@dataclass(frozen=True, repr=False)
class Verdict(Reported):
    """What a check found: `accepted`, why in a `sentence`, and a `table` with one line a claim.

    `accepted` is None where no claim is rejected, and one is undecided: because the widths do not follow the fitted
    series, or because wider networks, too few, did not confirm a rejection.
    `rows` holds the same as numbers; `draws` are those at each of the `widths`.
    """

    accepted: bool | None
    sentence: str
    table: str
    rows: tuple[Row, ...]
    level: float
    widths: tuple[int, ...]
    draws: tuple[int, ...]
    seconds: float = field(compare=False)
    seed: int | None = field(default=None, compare=False)

    @property
    def worst(self) -> Row:
        """The claim with the smallest p-value."""
        return min(self.rows, key=lambda row: (row.p, -abs(row.z)))

    def plot(self, path: str | Path | None = None) -> Any:
        """The means at each width, the fit and the claims as a Matplotlib figure; saved when a path is given."""
        return plot_verdict(self, path)

    def report(self) -> Report:
        """What was judged, and how finite widths close in on it."""
        rows = sorted(self.rows, key=lambda row: (row.p, -abs(row.z)))
        curves = [_closing_in(row) for row in rows[:4]]
        numbers = [(r.claim.name, f"{with_error(r.intercept, r.stderr)}, claimed {r.claim.value:.8g}") for r in rows]
        told = ("p", "p_holm", "z", "intercept", "stderr", "slope", "accepted")
        claims = [
            {"name": r.claim.name, "claimed": float(r.claim.value)} | {n: getattr(r, n) for n in told} for r in rows
        ]
        return Report(
            title=f"Check at finite width: {WORDS[self.accepted]}",
            answer=self.sentence,
            text=repr(self),
            numbers=tuple(numbers[:_MOST_CLAIMS]),
            seed=self.seed,
            picture=drawn(curves, "width n; bars are two standard errors, dashed lines the claims", logarithmic=True),
            document=document(
                "tplimits verdict",
                seed=self.seed,
                accepted=self.accepted,
                sentence=self.sentence,
                level=self.level,
                widths=self.widths,
                draws=self.draws,
                claims=_plain(claims),
            ),
        )

    def __repr__(self) -> str:
        return f"{self.sentence}\n{self.table}"


def _closing_in(row: Row) -> Curve:
    """The means at each width beside the claim."""
    moments = row.moments
    errors = tuple(2 * float(e) for e in numpy.sqrt(moments.noise))
    means = tuple(map(float, moments.means))
    return Curve(row.claim.name, tuple(map(float, moments.widths)), means, errors, float(row.claim.value))


def _plain(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of NumPy as Python's."""
    return [{k: v.item() if isinstance(v, numpy.generic) else v for k, v in row.items()} for row in rows]


def run_check(
    program: Program,
    claims: Sequence[Claim],
    sampling: Sampling = _AS_CHOSEN,
    given: Given = _NOTHING,
    controls: bool | None = None,
) -> Verdict:
    """Run a program at finite widths and judge what is claimed about its limit.

    Widths are 64 to 512, or 16 to 512 for covariances and odd powers of √n, unless others are given; a program
    with an OuterNonlin of order r ≥ 3 is sampled at smaller widths in the same proportions, n^r ≤ 2²¹.  Without
    numbers of draws a pilot decides, so that a claim 2 % off (a zero limit: off by 0.05 of the root mean square of what
    is averaged) is rejected with probability 95 %.  With `controls` the part of first order is taken off
    the draws of means (`tplimits.sampling.controls`); None: where the pilot asks for many draws.

    Raises CheckError where this cannot be done as asked, or where a draw is not finite.
    """
    start = time.perf_counter()
    return concluded(_inquiry(program, claims, sampling, given, controls), sampling, start)


def concluded(inquiry: Inquiry, sampling: Sampling, start: float) -> Verdict:
    """Sample what an inquiry asks for, and judge it; `start` is when the check began."""
    try:
        with reporting(sampling.progress) as report:
            inquiry, rows, samples, remarks = _sampled(inquiry, sampling.draws, sampling.executor, report)
    except MemoryError:
        raise CheckError(
            f"widths={inquiry.widths}, draws={sampling.draws}: the draws do not fit into memory; give smaller "
            "widths or fewer."
        ) from None
    return _verdict(inquiry, rows, samples, remarks, start, sampling.seed)


def _sampled(
    inquiry: Inquiry, draws: int | Sequence[int] | None, executor: Executor | None, report: Progress
) -> tuple[Inquiry, tuple[Row, ...], tuple[Draws, ...], list[str]]:
    """The inquiry as it was made, one row a claim, the draws behind them, and what is to be remarked."""
    again: list[str] = []
    # with draws given there is no pilot to decide by: controls are taken only where asked for
    inquiry = inquiry.sharper(())
    if draws is not None:
        samples = sample_fixed(inquiry, _draws(draws, inquiry.widths), executor, report)
        rows = inquiry.judged(samples)
    else:
        pilot = sample_pilot(inquiry, executor, report)
        sharper = inquiry.sharper(pilot)
        # draws of another sampler have other columns, and are of no use to it
        samples = sample_adaptively(sharper, executor, report, pilot if sharper.sampler is inquiry.sampler else ())
        inquiry, rows = sharper, sharper.judged(samples)
        wider = None if all(row.accepted for row in rows) else inquiry.beyond(samples)
        if wider is not None:
            samples = sample_adaptively(wider, executor, report)
            rows, again = _of_wider(inquiry.widths, rows, wider.judged(samples))
            inquiry = wider
        elif doubtful(rows, inquiry.level):
            rows, samples = look_again(inquiry, rows, samples, executor, report)
            again = [_LOOKED_AGAIN if any(row.accepted is False for row in rows) else _NOT_CONFIRMED]
    return inquiry, rows, samples, [*inquiry.remarks, *inquiry.told(samples), *again]


def _of_wider(widths: Sequence[int], narrow: Sequence[Row], wide: Sequence[Row]) -> tuple[tuple[Row, ...], list[str]]:
    """The rows by wider networks, which decide of what narrower ones did not accept, and what to remark of it.

    Undecided is also what they do not reject, but tell too little of.
    """
    off = ", ".join(row.claim.name for row in narrow if not row.accepted)
    # to ask again for what was accepted would be one more chance to reject a true claim
    found = [True if old.accepted else new.accepted for old, new in zip(narrow, wide, strict=True)]
    unsure = [not old.accepted and bool(weak([new])) for old, new in zip(narrow, wide, strict=True)]
    found = [None if f and u else f for f, u in zip(found, unsure, strict=True)]
    remark = _WIDER if False in found else _NOT_WIDER
    remarks = [remark.format(widths[0], widths[-1], off), *([_TOO_FEW] if any(unsure) else [])]
    return tuple(replace(row, accepted=f) for row, f in zip(wide, found, strict=True)), remarks


def _inquiry(
    program: Program, claims: Sequence[Claim], sampling: Sampling, given: Given, controls: bool | None
) -> Inquiry:
    known = {o.label: o for o in observables(program)}
    found = checked(claims, list(known.values()))
    limits = limits_of(known, found)
    forms = tuple(series(program, known, claim, given.constants, limits) for claim in found)
    used = dict.fromkeys(label for claim in found for label in claim.labels)
    sampler = Sampler(program, tuple(known[label] for label in used), sampling.seed, given.ratios, given.constants)
    # all claims share the draws: the widths must do for the form with most parameters
    form = max(forms, key=lambda f: f.parameters)
    widths = sampling.widths
    if widths is None:
        # the noise of a covariance does not fall with n, so that small widths are as sharp as large ones and much
        # cheaper
        dear = form.step != 1 or any(claim.statistic == "covariance" for claim in found)
        widths = MORE_WIDTHS if dear else WIDTHS
    Execution(program, 2, 1, numpy.random.default_rng(0), given.ratios, given.constants)  # refuses what it cannot read
    taken, remarks = sampled_widths(program, widths, form, given.ratios)
    return Plain(sampler, taken, found, forms, sampling.level, remarks, controls)


def _verdict(
    inquiry: Inquiry, rows: tuple[Row, ...], samples: Sequence[Draws], remarks: list[str], start: float, seed: int
) -> Verdict:
    taken = tuple(len(s.values) for s in samples)
    found = {row.accepted for row in rows}
    accepted = False if False in found else None if None in found else True
    if accepted and weak(rows):
        enough = inquiry.required(samples)
        remarks = remarks + weakness(rows, enough if any(e > t for e, t in zip(enough, taken, strict=True)) else None)
    return Verdict(
        accepted=accepted,
        sentence=sentence(rows, inquiry.level, inquiry.widths, remarks),
        table=table(rows, inquiry.sampler.program.name, inquiry.widths, taken),
        rows=rows,
        level=inquiry.level,
        widths=inquiry.widths,
        draws=taken,
        seconds=time.perf_counter() - start,
        seed=seed,
    )


def _draws(draws: int | Sequence[int], widths: Sequence[int]) -> tuple[int, ...]:
    """Draws at each width."""
    given = (draws,) * len(widths) if whole_number(draws) is not None else several(draws)
    if given is None:
        raise CheckError(f"draws={shown(draws)}: give a whole number, or one for each width.")
    whole = [whole_number(d) for d in given]
    if len(whole) != len(widths):
        raise CheckError(f"draws={shown(draws)}: {len(whole)} numbers for {len(widths)} widths; give one for each.")
    if None in whole or any(d < LEAST_DRAWS for d in whole if d is not None):
        raise CheckError(
            f"draws={shown(draws)}: each width needs at least {LEAST_DRAWS} draws for a standard error; leave draws "
            "out to let the check choose."
        )
    return tuple(d for d in whole if d is not None)
