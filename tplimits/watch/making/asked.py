"""A recording that is to be made: how networks are trained, and what of them is kept."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError, shown
from tplimits.law.unroll import size_of
from tplimits.program.files.serial import to_json
from tplimits.program.network.batches import Batches
from tplimits.program.network.loss import error_signal
from tplimits.program.network.losses import Loss
from tplimits.program.network.samples import dependent
from tplimits.program.network.schedules import path
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector, Instruction
from tplimits.program.parametrization.table import MUP, Parametrization
from tplimits.regimes.training.feature_learning import MaximalLimit
from tplimits.regimes.training.numbers.checkpoint import fingerprint
from tplimits.regimes.training.numbers.scalars import scalars_of
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.version import VERSION
from tplimits.watch.making.limits import LimitOf

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.finite.recipe import Recipe


def rows_at(error: Any, batches: Batches | None, t: int, count: int) -> Array | None:
    """The inputs that step t is made of, with repetitions; None stands for all of them, once."""
    if not isinstance(error, Loss):
        return None
    rows = error.rows_at(t, batches)
    return None if batches is None and len(rows) == count else rows


def refuse_no_batches(error: Any, batches: Any) -> None:
    """EvaluationError for batches of what has none, and for a schedule that gives none."""
    if batches is None:
        return
    if not isinstance(error, Loss):
        raise EvaluationError(
            "batches=…: a batch needs a loss that is a mean over inputs: tp.squared_error(y) or "
            "tp.cross_entropy(labels), not a function of all outputs."
        )
    if not isinstance(batches, Batches):
        raise EvaluationError(f"batches={shown(batches, 60)}: give tp.batches(size), or None for all inputs.")
    error.rows_at(0, batches)


@dataclass(frozen=True)
class Signal:
    """χ of step t on the first `count` inputs; 0 on those that follow, which are looked at and not trained on."""

    error: Any
    batches: Batches | None
    count: int

    def __call__(self, f: Array, t: int) -> Array:
        """χ in the shape of the outputs."""
        found, own = numpy.zeros_like(f), f[: self.count]
        rows = rows_at(self.error, self.batches, t, self.count)
        if rows is None:
            found[: self.count] = error_signal(self.error)(own, t)
        else:
            numpy.add.at(found, rows, error_signal(self.error.batch(rows))(own[rows], t))
        return found

    @property
    def whole(self) -> Signal:
        """The same without batches."""
        return Signal(self.error, None, self.count)


#: (width, seed) of a run; None stands for all runs
Pair = tuple[float, int]
#: numbers that samples of kets take in a recording where nothing is said
_NUMBERS, _MOST_NUMBERS = 330_000, 1 << 23
#: samples that are kept of a ket, at least and at most
_FEWEST, _MANY = 16, 512


@dataclass(frozen=True)
class Detail:
    """How limits are drawn, and what is looked at beside the usual."""

    particles: int
    replicates: int
    block: int
    samples: int | None
    gradients: bool
    sharpness: bool
    recorded: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Asked:
    """Everything but widths and seeds; `starts` holds parameters to start from, for one run or for all.

    `kept` says how many samples of kets a file has that is gone on with.
    """

    X: Mapping[str, Array]
    error: Any
    batches: Batches | None
    recipe: Recipe
    frames: tuple[int, ...]
    probes: Mapping[str, Array]
    labels: Array | None
    starts: Mapping[Pair | None, Mapping[str, Array]]
    ratios: Mapping[str, float]
    detail: Detail = field(repr=False)
    kept: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # trainers are made again elsewhere

    @property
    def net(self) -> Program:
        """The network, with all sizes."""
        return self.recipe.net

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.frames[-1]

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(next(iter(self.X.values())))

    @cached_property
    def probe_rows(self) -> NDArray[numpy.int64]:
        """Where the probes stand in `with_probes`: at an input that is the same, or after all inputs."""
        known: dict[bytes, int] = {}
        for number, row in enumerate(_rows(self.X)):
            known.setdefault(row, number)
        found = [known.get(row) for row in _rows(self.probes)]
        fresh = itertools.count(self.count)
        return numpy.array([next(fresh) if number is None else number for number in found])

    @cached_property
    def with_probes(self) -> dict[str, Array]:
        """The inputs, then the probes that are none of them."""
        new = self.probe_rows >= self.count
        return {name: numpy.concatenate([x, self.probes[name][new]]) for name, x in self.X.items()}

    def looked_at(self, t: int) -> NDArray[numpy.int64]:
        """The rows of these that a limit needs at time t: all at a frame, else those that the step is made of."""
        if t in self._taken:
            return numpy.arange(len(next(iter(self.with_probes.values()))))
        rows = rows_at(self.error, self.batches, t, self.count)
        return numpy.arange(self.count) if rows is None else numpy.unique(rows)

    @cached_property
    def _taken(self) -> frozenset[int]:
        return frozenset(self.frames)

    @property
    def signal(self) -> Signal:
        """The error signals on these."""
        return Signal(self.error, self.batches, self.count)

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters that are trained."""
        return tuple(self.recipe.optimizers)

    @cached_property
    def limit(self) -> LimitOf:
        """The limit of wide networks."""
        return LimitOf(self.recipe)

    @cached_property
    def trainer(self) -> Trainer:
        """What trains networks; parameters that are not trained are frozen."""
        return self._trainer(self.recipe.parametrization)

    @cached_property
    def limit_trainer(self) -> Trainer:
        """What trains samples of kets, in the table of exponents that the own one is equivalent to."""
        return self._trainer(MUP.adjusted(self.net, self.limit.optimizers))

    def _trainer(self, table: Parametrization) -> Trainer:
        decays = dict(self.recipe.decays)
        return Trainer(self.net, self.error, self.limit.optimizers, self.rates, table, decays, self.batches)

    @property
    def rates(self) -> dict[str, Any]:
        """The rate of every parameter, a number or a function of the step; 0 of those that are not trained."""
        own = {name: rate.value for name, rate in self.recipe.rates.items()}
        return {**dict.fromkeys(self.limit.optimizers, 0.0), **own}

    def scalars(self, width: float, seed: int) -> dict[str, Any]:
        """The scalar parameters that all runs of a seed start at, and those that move with the step."""
        given = self.given_to(width, seed)
        held = {name: w for name, w in given.items() if isinstance(self._initial(name), InitialScalar)}
        return {**held, **scalars_of(self.net, self.X, given, seed, self.ratios), **self.recipe.schedules}

    def _initial(self, name: str) -> Instruction:
        return self.net[self.net.initial_names[name]]

    def given_to(self, width: float, seed: int) -> Mapping[str, Array]:
        """Parameters that a run starts at."""
        return {**self.starts.get(None, {}), **self.starts.get((width, seed), {})}

    def neurons(self, width: float, seed: int) -> int:
        """How many neurons are trained; in a limit samples of kets, those that are given or as many as asked for."""
        if not math.isinf(width):
            return int(width)
        for name, array in self.given_to(width, seed).items():
            s = self._initial(name)
            if isinstance(s, InitialVector):
                return round(array.shape[-1] / self.ratios.get(s.over, 1.0))
        return self.detail.particles

    def widths_at(self, n: int) -> dict[str, int]:
        """All widths of a network of width n."""
        return {"n": n, **{width: max(1, round(n * ratio)) for width, ratio in self.ratios.items()}}

    def readout_width(self, n: int) -> int:
        """n₀."""
        return self.widths_at(n)[self.net.output_width]

    def speed(self, name: str, n: int) -> float:
        """p of a step W ← W − η p ∂L/∂W of plain gradient descent at width n; norms that divide are left out."""
        e, widths, optimizer = self.recipe.exponents[name], self.widths_at(n), self.recipe.optimizers[name]
        c = e.c + optimizer.extra_power(self.recipe.kinds[name], e)
        s = self.net[self.net.initial_names[name]]
        columns = self.readout_width(n) / widths[s.columns] if isinstance(s, InitialMatrix) else 1.0
        return float(self.readout_width(n)) ** float(e.d - c - 2 * e.a) * columns

    @cached_property
    def samples(self) -> int:
        """How many samples of kets are kept at a frame."""
        if self.kept is not None:
            return self.kept
        detail = self.detail
        if detail.samples is not None:
            return min(detail.samples, detail.particles)
        fitting = _NUMBERS // max(1, len(self.frames) * self._per_sample)
        if fitting < _FEWEST and len(self.frames) * self._per_sample * _FEWEST > _MOST_NUMBERS:
            raise EvaluationError(
                f"{_FEWEST} samples of all kets at {len(self.frames)} frames are more than {_MOST_NUMBERS} numbers: "
                "name what is kept by record=(…), or give fewer probes or frames, or samples=."
            )
        power = 1 << (fitting.bit_length() - 1) if fitting else 0
        return min(max(_FEWEST, power), _MANY, detail.particles)

    @property
    def _per_sample(self) -> int:
        """Numbers at a frame for each sample."""
        net = self.net
        if self.limit.is_neuronwise:
            vectors = [p for p in net.initial_names.values() if isinstance(net[p], InitialVector)]
            return sum(math.prod(size_of(net, a) for a in net[p].axes) for p in set(vectors))
        if not isinstance(self.limit.derived, MaximalLimit):
            return 0
        on_data, probes, total = dependent(net), len(next(iter(self.probes.values()))), 0
        for position in map(net.position, self.detail.recorded):
            if net[position].width is not None:
                total += math.prod(size_of(net, a) for a in net[position].axes) * (probes if on_data[position] else 1)
        return total

    def samples_of(self, width: str) -> int:
        """The samples that are kept of the kets of one width."""
        return max(1, round(self.samples * self.ratios.get(width, 1.0)))

    @cached_property
    def fingerprint(self) -> str:
        """What was asked for, as a short text: the same, the same numbers; widths and seeds are not in it."""
        recipe, detail = self.recipe, self.detail
        rates = hashlib.sha256()
        for name, rate in (*recipe.rates.items(), *recipe.decays.items()):
            rates.update(repr((name, rate.along(self.steps))).encode())
        for name, schedule in recipe.schedules.items():
            rates.update(repr((name, path(schedule, self.steps).tolist())).encode())
        parts: list[object] = [
            *(VERSION, to_json(self.net)),
            *(recipe.parametrization.a_out, recipe.exponents, recipe.optimizers, rates.hexdigest()),
            *(self.batches, self.frames, sorted(self.ratios.items()), detail),
        ]
        arrays: dict[str, Any] = {f"X {name}": x for name, x in self.X.items()}
        arrays |= {f"probe {name}": x for name, x in self.probes.items()}
        for pair, given in self.starts.items():
            arrays |= {f"start {pair} {name}": w for name, w in given.items()}
        axes = tuple(dict.fromkeys(a for p in self.net.returns for a in self.net[p].axes))
        shape = (self.count, *(size_of(self.net, a) for a in axes))
        return fingerprint(parts, arrays, self.error, shape, self.steps)


def _rows(X: Mapping[str, Array]) -> list[bytes]:
    """Each input as bytes."""
    return [b"".join(x[i].tobytes() for x in X.values()) for i in range(len(next(iter(X.values()))))]
