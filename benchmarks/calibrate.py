"""Is `check` calibrated?  How often it rejects true limits, and finds wrong ones, over many seeds.

For each program and seed the true limit is checked at level 0.01, at the draws that `check` chooses itself; so is, on
the same draws, a claim that is 2 % too small (for the zero limit: off by 0.05 of the root mean square of what is
averaged).  The true limit may be rejected in at most 3 % of the seeds (6 of 200: more has probability 0.4 % at level
0.01), the wrong claim must be in at least 95 %.  Seeds are 0, 1, 2, ...; none is left out.

    python benchmarks/calibrate.py [--seeds 200] [--quick] [--programs tied zero ...]

Prints a table and exits with 1 when a bound is broken; a measurement of all cheap programs over all seeds is written to
benchmarks/results/calibrate.json.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import jobs
import numpy
import record

import tplimits as tp
from tplimits.program.nodes.program import Program
from tplimits.sampling.sampling import Sampling
from tplimits.sampling.verdict import Claim, run_check

LEVEL = 0.01
MOST_REJECTED, LEAST_FOUND = 0.03, 0.95
SEEDS = 200


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)))


@tp.program
def zero(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W @ (W @ x)))


@tp.program
def pairs(x: tp.Vector):
    β = tp.neuron("β")
    y = tp.avg(tp.abs(x - x[β]), over=β)
    return tp.avg(y)


@tp.program
def fluctuation(u: tp.Vector, v: tp.Vector):
    return tp.avg(u * v) * tp.sqrt(tp.n)


@tp.program
def feedback(W: tp.Matrix, x: tp.Vector):
    return W.T @ tp.relu(W @ x)


@dataclass(frozen=True)
class Case:
    """A program, its true limit with where it comes from, the value that must be found wrong, and how it is drawn."""

    program: Program
    formula: str
    true: Claim
    wrong: float
    controls: bool = False


def _sech2() -> float:
    """E sech²(g) for a standard normal g, by Gauss-Hermite quadrature."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(100)
    return float(weights @ numpy.cosh(nodes) ** -2.0) / math.sqrt(2 * math.pi)


def _cases() -> dict[str, Case]:
    pair, sech2 = 2 / math.sqrt(math.pi), _sech2()
    return {
        # the entries of x and of W W x are independent N(0, 1): the root mean square of their product is 1
        "zero": Case(zero, "⟨x|WWx⟩ = 0", Claim("return", 0.0), 0.05),
        "pairs": Case(pairs, "Avg |x_α − x_β| = 2/√π", Claim("return", pair), 0.98 * pair),
        "tied": Case(tied, "⟨x|Wᵀtanh(Wx)⟩ = E sech²", Claim("return", sech2), 0.98 * sech2),
        "fluctuation": Case(fluctuation, "Var √n ⟨u|v⟩ = 1", Claim("return", 1.0, statistic="covariance"), 0.98),
        "feedback": Case(feedback, "|Wᵀrelu(Wx)|² = 3/4", Claim("return", 0.75), 0.98 * 0.75),
    }


CASES = _cases()
#: those that take a second or less; the others are there to be asked for
CHEAP = ("zero", "pairs", "tied", "fluctuation")


@dataclass(frozen=True)
class Outcome:
    """One seed: whether each claim was rejected, the true one's z, and what it took."""

    true_rejected: bool
    wrong_rejected: bool
    z: float
    lack_of_fit: float
    draws: int
    seconds: float


def one(name: str, seed: int) -> Outcome:
    """One of the cases at one seed."""
    return outcome(CASES[name], seed)


def outcome(case: Case, seed: int) -> Outcome:
    """Check the true claim at one seed, and judge the wrong one by the same fit."""
    with ThreadPoolExecutor(1) as thread:
        verdict = run_check(
            case.program,
            [case.true],
            Sampling(seed=seed, level=LEVEL, executor=thread, progress=False),
            controls=case.controls,
        )
    row = verdict.rows[0]
    _, p = row.fit.two_sided(case.wrong, 0.0)
    return Outcome(not verdict.accepted, p <= LEVEL, row.z, row.lack_of_fit, sum(verdict.draws), verdict.seconds)


@dataclass(frozen=True)
class Result:
    """One program over all seeds."""

    program: str
    formula: str
    seeds: int
    true_rejected: int
    wrong_rejected: int
    z_mean: float
    z_std: float
    poor_fits: int
    median_draws: int
    median_seconds: float

    @property
    def within(self) -> bool:
        """Whether both bounds hold."""
        allowed = math.floor(MOST_REJECTED * self.seeds)
        return self.true_rejected <= allowed and self.wrong_rejected >= LEAST_FOUND * self.seeds


def summary(name: str, case: Case, outcomes: Sequence[Outcome]) -> Result:
    """Count what happened."""
    z = [o.z for o in outcomes]
    return Result(
        program=name,
        formula=case.formula,
        seeds=len(outcomes),
        true_rejected=sum(o.true_rejected for o in outcomes),
        wrong_rejected=sum(o.wrong_rejected for o in outcomes),
        z_mean=float(numpy.mean(z)),
        z_std=float(numpy.std(z)),
        poor_fits=sum(o.lack_of_fit < LEVEL for o in outcomes),
        median_draws=int(numpy.median([o.draws for o in outcomes])),
        median_seconds=float(numpy.median([o.seconds for o in outcomes])),
    )


def table(results: Sequence[Result]) -> str:
    """What a person reads."""
    head = (
        "program",
        "limit",
        "seeds",
        "true rejected",
        "wrong found",
        "z mean",
        "z std",
        "poor fits",
        "draws",
        "s",
        "",
    )
    rows = [
        (
            r.program,
            r.formula,
            str(r.seeds),
            str(r.true_rejected),
            f"{100 * r.wrong_rejected / r.seeds:.1f} %",
            f"{r.z_mean:+.2f}",
            f"{r.z_std:.2f}",
            str(r.poor_fits),
            str(r.median_draws),
            f"{r.median_seconds:.2f}",
            record.verdict(r.within),
        )
        for r in results
    ]
    return record.table(head, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 0 when every program is within bounds, else 1."""
    parser = jobs.command(__doc__, SEEDS, quick=40)
    parser.add_argument("--programs", nargs="+", choices=list(CASES), default=list(CHEAP))
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    seeds = [(name, seed) for name in options.programs for seed in range(options.seeds)]
    outcomes = jobs.results(one, seeds, options.workers, "calibrate")
    results = [
        summary(name, CASES[name], [o for (other, _), o in zip(seeds, outcomes, strict=True) if other == name])
        for name in options.programs
    ]
    seconds = time.perf_counter() - start
    print(table(results))
    print(f"{seconds:.0f} s; bounds: true rejected at most {MOST_REJECTED:.0%}, wrong found at least {LEAST_FOUND:.0%}")
    full = options.seeds >= SEEDS and set(options.programs) >= set(CHEAP)
    path = options.json or (record.RESULTS / "calibrate.json" if full else None)
    if path is not None:
        bounds = {"true_rejected_at_most": MOST_REJECTED, "wrong_rejected_at_least": LEAST_FOUND}
        found = [{**asdict(r), "within": r.within} for r in results]
        setting = {"level": LEVEL, "bounds": bounds, "processes": options.workers}
        record.save(path, {**setting, "results": found}, seconds)
    return 0 if all(r.within for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
