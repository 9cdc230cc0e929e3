"""Is `check` calibrated?  How often it rejects true limits, and finds wrong ones, over many seeds.

For each program and seed the true limit is checked at level 0.01, at the draws that `check` chooses itself; so is, on
the same draws, a claim that is 2 % too small (for the zero limit: off by 0.05 of the root mean square of what is
averaged).  The true limit may be rejected in at most 3 % of the seeds (6 of 200: more has probability 0.4 % at level
0.01), the wrong claim must be in at least 95 %.  Seeds are 0, 1, 2, ...; none is left out.

    python benchmarks/calibrate.py [--seeds 200] [--quick] [--programs tied zero ...]

Prints a table, writes benchmarks/results/calibrate.json, and exits with 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy
import rich.console
import rich.progress
import scipy.stats
import sympy

import tplimits as tp
from tplimits.check.verdict import Claim, run_check
from tplimits.program.program import Program

LEVEL = 0.01
MOST_REJECTED, LEAST_FOUND = 0.03, 0.95
RESULTS = Path(__file__).parent / "results" / "calibrate.json"


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
    """A program, its true limit with where it comes from, and the value that must be found wrong."""

    program: Program
    formula: str
    true: Claim
    wrong: float


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
    """Check the true claim at one seed, and judge the wrong one by the same fit."""
    case = CASES[name]
    with ThreadPoolExecutor(1) as thread:
        verdict = run_check(case.program, [case.true], seed=seed, level=LEVEL, executor=thread, progress=False)
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


def summary(name: str, outcomes: Sequence[Outcome]) -> Result:
    """Count what happened."""
    z = [o.z for o in outcomes]
    return Result(
        program=name,
        formula=CASES[name].formula,
        seeds=len(outcomes),
        true_rejected=sum(o.true_rejected for o in outcomes),
        wrong_rejected=sum(o.wrong_rejected for o in outcomes),
        z_mean=float(numpy.mean(z)),
        z_std=float(numpy.std(z)),
        poor_fits=sum(o.lack_of_fit < LEVEL for o in outcomes),
        median_draws=int(numpy.median([o.draws for o in outcomes])),
        median_seconds=float(numpy.median([o.seconds for o in outcomes])),
    )


def calibrate(names: Sequence[str], seeds: int, workers: int, advance: Callable[[str], None]) -> list[Result]:
    """Every program over every seed, on several processes."""
    results = []
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        waiting = {name: [pool.submit(one, name, seed) for seed in range(seeds)] for name in names}
        for name, futures in waiting.items():
            outcomes = []
            for future in futures:
                outcomes.append(future.result())
                advance(name)
            results.append(summary(name, outcomes))
    return results


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
            "within" if r.within else "OUT OF BOUNDS",
        )
        for r in results
    ]
    sizes = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(s) for c, s in zip(row, sizes, strict=True)).rstrip() for row in (head, *rows))


def record(results: Sequence[Result], seconds: float) -> dict[str, object]:
    """What the file keeps: results, bounds, machine and versions."""
    return {
        "level": LEVEL,
        "bounds": {"true_rejected_at_most": MOST_REJECTED, "wrong_rejected_at_least": LEAST_FOUND},
        "results": [{**asdict(r), "within": r.within} for r in results],
        "seconds": round(seconds, 1),
        "machine": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "versions": {
            "python": platform.python_version(),
            "tplimits": tp.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "sympy": sympy.__version__,
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 0 when every program is within bounds, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="seeds per program (200)")
    parser.add_argument("--quick", action="store_true", help="40 seeds: a look, not a measurement")
    parser.add_argument("--programs", nargs="+", choices=list(CASES), default=list(CHEAP))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (one per processor)")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the numbers go")
    options = parser.parse_args(arguments)
    seeds = 40 if options.quick else options.seeds
    start = time.perf_counter()
    with rich.progress.Progress(console=rich.console.Console(stderr=True)) as bar:
        task = bar.add_task("calibrate", total=seeds * len(options.programs))
        results = calibrate(
            options.programs, seeds, options.workers, lambda name: bar.update(task, advance=1, description=name)
        )
    seconds = time.perf_counter() - start
    print(table(results))
    print(f"{seconds:.0f} s; bounds: true rejected at most {MOST_REJECTED:.0%}, wrong found at least {LEAST_FOUND:.0%}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(record(results, seconds), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if all(r.within for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
