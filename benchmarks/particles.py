"""Are particles what they claim?  How fast errors fall, whether stated errors are honest, how quiet white ones are.

Rate: the error of one replicate of M particles, measured from the known limit, falls as M^(-1/2).  Coverage: the limit
lies in the 95 % interval (Student's t) of 8 replicates in 90 to 99 % of the seeds.  Spread: the deviation of one
replicate of M white particles is at most 1.1 times that of a network of width M.  Programs that white particles do
exactly have no error to measure.

    python benchmarks/particles.py [--seeds 200] [--quick] [--parts rate coverage spread]

Prints tables and exits with 1 when a bound is broken; a full measurement is written to
benchmarks/results/particles.json.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jobs
import numpy
import record

import tplimits as tp
from tplimits import zoo
from tplimits.sampling.sample import Sampler
from tplimits.sampling.work import width_cap

CONDITIONINGS = ("white", "lazy")
SEEDS = 200
#: an error, or a ratio of deviations, below this is rounding
EXACT = 1e-10

#: matrix polynomials, which white particles do exactly
POLYNOMIALS = (
    *("matched_product", "repeated_product", "gram_power_2", "gram_power_3", "gram_power_4"),
    *("symmetric_power_4", "product_gram_2"),
)
#: nonlinearities with and without transposes, scalars, averages over pairs
NONLINEAR = (
    *("tied_tanh", "tied_relu", "tied_step", "arcsine_kernel", "relu_kernel", "layer_norm", "mean_distance"),
    *("sign_outer", "max_of_three"),
)

#: particles in a rate, and the slope that is asked for; its deviation is about 0.02 at 128 replicates
COUNTS = (256, 1024, 4096, 16384)
SLOPE, SLOPE_OFF, RATE_REPLICATES = -0.5, 0.08, 128
RATED = (
    *("gram_power_2", "tied_tanh", "tied_relu", "tied_step"),
    *("relu_kernel", "layer_norm", "tied_rnn", "mean_distance"),
)

#: an interval is made from this many replicates of so many particles
REPLICATES, PARTICLES = 8, 512
LEVEL, COVERED_LEAST, COVERED_MOST = 0.95, 0.90, 0.99
COVERED = {"white": NONLINEAR, "lazy": ("gram_power_2", "gram_power_4", *NONLINEAR)}

#: a deviation is the mean over blocks of variances of this many draws each: their scatter is its error
BLOCK, SPREAD_MOST, WIDTH = 40, 1.1, 512


@functools.cache
def limit(name: str) -> tuple[tp.WidthLimit, dict[str, float]]:
    """A program's limit, and its numbers."""
    found = tp.derive(zoo.get(name).program)
    return found, {label: number.value for label, number in found.evaluate().items()}


# -- jobs: what one worker does ------------------------------------------------------------------


def squared_errors(name: str, conditioning: str, particles: int, replicates: int) -> dict[str, float]:
    """The mean square of (one replicate − limit), by observable."""
    derived, exact = limit(name)
    # the seed depends on the count: sharing normals would correlate the points of a line
    numbers = derived.evaluate(
        "particles", particles=particles, replicates=replicates, seed=particles, conditioning=conditioning
    )
    return {k: (replicates - 1) * n.error**2 + (n.value - exact[k]) ** 2 for k, n in numbers.items()}


def covered(name: str, conditioning: str, seed: int) -> dict[str, bool]:
    """Whether the interval of one seed holds the limit."""
    derived, exact = limit(name)
    numbers = derived.evaluate(
        "particles", particles=PARTICLES, replicates=REPLICATES, seed=seed, conditioning=conditioning
    )
    intervals = {k: n.interval(LEVEL) for k, n in numbers.items()}
    return {k: low <= exact[k] <= high for k, (low, high) in intervals.items()}


def width_of(name: str) -> int:
    """The width of the networks, and number of particles, in the comparison of spreads."""
    return min(WIDTH, width_cap(limit(name)[0].program) or WIDTH)


def variances(name: str, block: int) -> tuple[dict[str, float], dict[str, float]]:
    """Variances over one block of white replicates, and over as many networks of the same width."""
    derived, _ = limit(name)
    size = width_of(name)
    numbers = derived.evaluate("particles", particles=size, replicates=BLOCK, seed=block, conditioning="white")
    networks = Sampler(derived.program, derived.observables, seed=block).run(size, 0, BLOCK).values.var(axis=0, ddof=1)
    labels = [o.label for o in derived.observables]
    return {k: BLOCK * n.error**2 for k, n in numbers.items()}, dict(zip(labels, map(float, networks), strict=True))


# -- results ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """How the error of one observable falls with the number of particles."""

    program: str
    observable: str
    conditioning: str
    particles: tuple[int, ...]
    errors: tuple[float, ...]
    slope: float

    @property
    def exact(self) -> bool:
        return max(self.errors) < EXACT

    @property
    def within(self) -> bool:
        return self.exact or abs(self.slope - SLOPE) <= SLOPE_OFF

    def cells(self) -> tuple[str, ...]:
        errors = (f"{e:.1e}" for e in self.errors)
        return (*errors, "exact" if self.exact else f"{self.slope:+.3f}")


@dataclass(frozen=True)
class Coverage:
    """How often the stated interval of one observable holds the limit."""

    program: str
    observable: str
    conditioning: str
    seeds: int
    covered: int

    @property
    def within(self) -> bool:
        return COVERED_LEAST <= self.covered / self.seeds <= COVERED_MOST

    def cells(self) -> tuple[str, ...]:
        return str(self.seeds), f"{100 * self.covered / self.seeds:.1f} %"


@dataclass(frozen=True)
class Spread:
    """The deviation of white particles beside that of networks; the error of their ratio is one deviation."""

    program: str
    observable: str
    conditioning: str
    width: int
    draws: int
    white: float
    network: float
    ratio: float
    ratio_error: float

    @property
    def exact(self) -> bool:
        return self.ratio < EXACT

    @property
    def within(self) -> bool:
        return self.exact or self.ratio <= SPREAD_MOST

    def cells(self) -> tuple[str, ...]:
        ratio = "exact" if self.exact else f"{self.ratio:.3f} ± {self.ratio_error:.3f}"
        return str(self.width), str(self.draws), f"{self.white:.2e}", f"{self.network:.2e}", ratio


Result = Rate | Coverage | Spread


def rates(seeds: int, workers: int) -> list[Result]:
    """The slope for every observable, white and lazy; fewer seeds mean fewer replicates."""
    replicates = max(8, RATE_REPLICATES * seeds // SEEDS)
    pairs = [(name, c) for name in RATED for c in CONDITIONINGS]
    # the longest jobs first, so that no worker is left with one at the end
    tasks = [(*pair, count, replicates) for count in reversed(COUNTS) for pair in pairs]
    found = dict(zip(tasks, jobs.results(squared_errors, tasks, workers, "rate"), strict=True))
    result: list[Result] = []
    for name, c in pairs:
        for label in limit(name)[1]:
            errors = tuple(math.sqrt(found[name, c, count, replicates][label]) for count in COUNTS)
            slope = float(numpy.polyfit(numpy.log(COUNTS), numpy.log(errors), 1)[0])
            result.append(Rate(name, label, c, COUNTS, errors, slope))
    return result


def coverages(seeds: int, workers: int) -> list[Result]:
    """The coverage of every observable, white and lazy."""
    tasks = [(name, c, seed) for c, names in COVERED.items() for name in names for seed in range(seeds)]
    counts: dict[tuple[str, str, str], int] = {}
    for (name, c, _), inside in zip(tasks, jobs.results(covered, tasks, workers, "coverage"), strict=True):
        for label, hit in inside.items():
            counts[name, label, c] = counts.get((name, label, c), 0) + hit
    return [Coverage(*key, seeds, count) for key, count in counts.items()]


def spreads(seeds: int, workers: int) -> list[Result]:
    """White particles and networks for every program, in blocks; four draws of each for a seed that is asked for."""
    blocks = max(4, seeds // 10)
    tasks = [(name, block) for name in (*POLYNOMIALS, *NONLINEAR) for block in range(blocks)]
    found = dict(zip(tasks, jobs.results(variances, tasks, workers, "spread"), strict=True))
    result: list[Result] = []
    for name in (*POLYNOMIALS, *NONLINEAR):
        for label in limit(name)[1]:
            white, network = (_deviation([found[name, b][side][label] for b in range(blocks)]) for side in (0, 1))
            ratio = white[0] / network[0]
            error = ratio * math.hypot(white[1], network[1])
            seen = (white[0], network[0], ratio, error)
            result.append(Spread(name, label, "white", width_of(name), blocks * BLOCK, *seen))
    return result


def _deviation(blocks: Sequence[float]) -> tuple[float, float]:
    """The deviation from variances of blocks, and its relative error by their scatter."""
    mean = float(numpy.mean(blocks))
    return math.sqrt(mean), float(numpy.std(blocks, ddof=1)) / math.sqrt(len(blocks)) / mean / 2


PARTS: dict[str, tuple[Callable[[int, int], list[Result]], tuple[str, ...]]] = {
    "rate": (rates, (*(f"M = {count}" for count in COUNTS), "slope")),
    "coverage": (coverages, ("seeds", "covered")),
    "spread": (spreads, ("width", "draws", "white", "network", "ratio")),
}


def summary(results: Sequence[Result], head: Sequence[str]) -> str:
    """What a person reads."""
    rows = [(r.program, r.observable, r.conditioning, *r.cells(), record.verdict(r.within)) for r in results]
    return record.table(("program", "observable", "conditioning", *head, ""), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; 0 when everything is within bounds, else 1."""
    parser = jobs.command(__doc__, SEEDS, quick=40)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    found: dict[str, Any] = {}
    within = True
    for part in options.parts:
        measure, head = PARTS[part]
        results = measure(options.seeds, options.workers)
        print(f"{summary(results, head)}\n", flush=True)
        found[part] = [{**asdict(r), "within": r.within} for r in results]
        within &= all(r.within for r in results)
    seconds = time.perf_counter() - start
    print(f"{seconds:.0f} s")
    full = options.seeds >= SEEDS and set(options.parts) == set(PARTS)
    path = options.json or (record.RESULTS / "particles.json" if full else None)
    if path is not None:
        bounds = {"slope": [SLOPE - SLOPE_OFF, SLOPE + SLOPE_OFF], "coverage": [COVERED_LEAST, COVERED_MOST]}
        setting = {"bounds": {**bounds, "ratio_at_most": SPREAD_MOST}, "processes": options.workers}
        record.save(path, {**setting, **found}, seconds)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
