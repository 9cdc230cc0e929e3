"""Control variates in `check`: how many draws and how much time they save, and is `check` with them calibrated?

The first table has every program of the zoo that can be checked, each checked as it is, at draws that `check` chooses,
with and without control variates.  "draws at equal power" is the ratio of draws times squared standard errors of the
intercept, for the claim that gains least: how many times the draws would be without them, for the same error.  Programs
without an expansion count as 1.  The second is the calibration of `calibrate.py` with control variates: true limits may
be rejected in 3 % of the seeds, limits 2 % off must be in 95 %.

    python benchmarks/controls.py [--seeds 200] [--quick]

Prints both and exits with 1 when the median is below 10 or a bound is broken; a measurement over all seeds is written
to benchmarks/results/controls.json.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

import calibrate
import jobs
import record

import tplimits as tp
from tplimits import zoo
from tplimits.sampling.verdict import Claim, Verdict

LEAST_SAVED = 10.0
SEED = 1


@tp.program
def cubed(W: tp.Matrix, x: tp.Vector):
    y = W.T @ (W @ x)
    return tp.avg(y * (W.T @ (W @ y)))


@tp.program
def stepped(W: tp.Matrix, x: tp.Vector):
    return tp.avg(tp.relu(W @ tp.relu(W @ x)) ** 2)


CASES = {
    "tied": replace(calibrate.CASES["tied"], controls=True),
    "feedback": replace(calibrate.CASES["feedback"], controls=True),
    # the third moment of Marchenko and Pastur's law, whose eigenvalues have the heaviest tails here
    "cubed": calibrate.Case(cubed, "⟨x|(WᵀW)³x⟩ = 5", Claim("return", 5.0), 4.9, controls=True),
    # W relu(W x) is normal with variance E relu(g)² = 1/2
    "stepped": calibrate.Case(stepped, "|relu(W relu(Wx))|² = 1/4", Claim("return", 0.25), 0.98 * 0.25, controls=True),
}


@dataclass(frozen=True)
class Saved:
    """One program of the zoo, without and with control variates."""

    program: str
    accepted: bool
    draws: int
    draws_with: int
    equal_power: float
    seconds: float
    seconds_with: float
    why_not: str = ""


def saved(name: str) -> Saved | None:
    """Both checks; None where the program has no check of its own."""
    limit = tp.derive(zoo.get(name).program)
    if not zoo.get(name).infinite:
        (plain, before), (drawn, after) = _checked(limit, False), _checked(limit, None)
        why = drawn.sentence.partition("Control variates took no part: ")[2].partition(" Too few draws")[0]
        took = "Control variates took part" in drawn.sentence
        worth = [
            (p.stderr**2 * sum(plain.draws)) / (c.stderr**2 * sum(drawn.draws))
            for p, c in zip(plain.rows, drawn.rows, strict=True)
            if p.claim.statistic == "mean"
        ]
        equal = min(worth) if took else 1.0
        accepted = plain.accepted and drawn.accepted
        return Saved(name, accepted, sum(plain.draws), sum(drawn.draws), equal, before, after, why)
    return None


def _checked(limit: object, controls: bool | None) -> tuple[Verdict, float]:
    """The verdict, and processor time."""
    start = time.process_time()
    with ThreadPoolExecutor(1) as thread:
        verdict = tp.check(limit, seed=SEED, executor=thread, progress=False, controls=controls)  # type: ignore[arg-type]
    return verdict, time.process_time() - start


def one(name: str, seed: int) -> calibrate.Outcome:
    """One of the cases at one seed."""
    return calibrate.outcome(CASES[name], seed)


def table(rows: Sequence[Saved]) -> str:
    """What a person reads."""
    head = ("program", "draws", "with", "draws at equal power", "CPU s", "with", "")
    lines = [
        (
            r.program,
            str(r.draws),
            str(r.draws_with),
            f"{r.equal_power:.1f}",
            f"{r.seconds:.2f}",
            f"{r.seconds_with:.2f}",
            r.why_not[:60] or ("" if r.accepted else "REJECTED"),
        )
        for r in rows
    ]
    return record.table(head, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 0 when bounds hold, else 1."""
    options = jobs.command(__doc__, calibrate.SEEDS, quick=20).parse_args(arguments)
    start = time.perf_counter()
    rows = [row for name in zoo.PROGRAMS if (row := saved(name)) is not None]
    medians = {
        "draws": statistics.median(r.draws / r.draws_with for r in rows),
        "equal_power": statistics.median(r.equal_power for r in rows),
        "seconds": statistics.median(r.seconds / r.seconds_with for r in rows),
    }
    print(table(rows))
    print("medians of the ratios:", ", ".join(f"{name} {value:.1f}" for name, value in medians.items()), flush=True)
    seeds = [(name, seed) for name in CASES for seed in range(options.seeds)]
    outcomes = jobs.results(one, seeds, options.workers, "controls")
    found = [
        calibrate.summary(name, case, [o for (other, _), o in zip(seeds, outcomes, strict=True) if other == name])
        for name, case in CASES.items()
    ]
    print(calibrate.table(found))
    seconds = time.perf_counter() - start
    path = options.json or (record.RESULTS / "controls.json" if options.seeds >= calibrate.SEEDS else None)
    if path is not None:
        calibrated = [{**asdict(r), "within": r.within} for r in found]
        record.save(path, {"medians": medians, "zoo": [asdict(r) for r in rows], "calibration": calibrated}, seconds)
    return 0 if all(r.within for r in found) and medians["equal_power"] >= LEAST_SAVED else 1


if __name__ == "__main__":
    sys.exit(main())
