"""Training runs on particles: replicates, their mean and standard error; progress, checkpoints, executors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import threadpoolctl

from tplimits.errors import EvaluationError
from tplimits.numeric.training import checkpoint
from tplimits.numeric.training.columns import Array
from tplimits.numeric.training.execution import TrainingExecution
from tplimits.numeric.training.request import Request
from tplimits.program.loss import error_signal
from tplimits.progress import Progress, reporting


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One replicate: f (steps + 1, inputs, *outputs), Gram matrices and samples of the kets that were asked for."""

    f: Array
    grams: dict[str, Array]
    kets: dict[str, Array]


class Replicate:
    """One training run on one draw of particles, which can be left and taken up again after every step."""

    def __init__(self, asked: Request, number: int) -> None:
        self.asked = asked
        seed = numpy.random.SeedSequence(asked.seed, spawn_key=(number,))
        self.execution = TrainingExecution(
            asked.recursion.total,
            asked.recursion.optimizers,
            asked.X,
            asked.particles,
            asked.block,
            numpy.random.Generator(numpy.random.SFC64(seed)),
            asked.white,
            asked.ratios,
            asked.given,
        )
        self.decay = {name: 1.0 - float(λ) for name, λ in asked.recursion.weight_decay.items()}
        self.signal = error_signal(asked.error)
        self.f: list[Array] = []
        self.grams: dict[str, list[Array]] = {name: [] for name in asked.record}
        self.kets: dict[str, list[Array]] = {name: [] for name in asked.record}

    def advance(self) -> None:
        """The outputs at the next time, and a step of training unless it was the last."""
        with numpy.errstate(all="ignore"):  # what overflows is refused by name
            self._advance()

    def _advance(self) -> None:
        t = len(self.f)
        f = self.execution.outputs()
        if not numpy.isfinite(f).all():
            raise EvaluationError(
                f"step {t}: the outputs are not finite. Training diverges at this learning rate, or a moment does not "
                "exist; give a smaller lr."
            )
        self.f.append(f)
        for name in self.asked.record:
            ket = self._ket(name)
            self.kets[name].append(ket)
            self.grams[name].append(ket @ numpy.swapaxes(ket, -1, -2) / ket.shape[-1])
        if t < self.asked.steps:
            self.execution.step(t, self.signal(f, t), self.asked.rates_at(t), self.decay)

    def _ket(self, name: str) -> Array:
        """A vector of the network at the parameters of now: (*axes, inputs, particles)."""
        position = self.asked.recursion.network.position(name)
        array = self.execution.arrays[position][0]
        if not self.asked.recursion.total.on_data[position]:
            array = numpy.broadcast_to(array, (self.asked.inputs, *array.shape))
        return numpy.array(numpy.moveaxis(array, 0, -2))

    def finished(self) -> bool:
        """Whether all steps are done."""
        return len(self.f) > self.asked.steps

    def trajectory(self, with_kets: bool) -> Trajectory:
        """What was found."""
        stacked = {name: numpy.array(kets) for name, kets in self.kets.items()} if with_kets else {}
        return Trajectory(numpy.array(self.f), {name: numpy.array(g) for name, g in self.grams.items()}, stacked)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        held = {"f": numpy.array(self.f), "execution": self.execution.state()}
        held |= {f"gram {name}": numpy.array(g) for name, g in self.grams.items()}
        return held | {f"ket {name}": numpy.array(k) for name, k in self.kets.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Back to what a checkpoint holds."""
        self.f = list(state["f"])
        for name in self.asked.record:
            self.grams[name], self.kets[name] = list(state[f"gram {name}"]), list(state[f"ket {name}"])
        self.execution.restore(state["execution"])


def _whole(asked: Request, number: int, told: Callable[[], None] = lambda: None) -> Trajectory:
    """One replicate from beginning to end."""
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        replicate = Replicate(asked, number)
        while not replicate.finished():
            replicate.advance()
            told()
    return replicate.trajectory(number == 0)


def trajectories(asked: Request, executor: Executor | None, progress: Progress) -> list[Trajectory]:
    """All replicates; the same numbers whoever runs them."""
    with reporting(progress) as report:
        times = asked.steps + 1
        report.plan(asked.replicates * times, "training")
        try:
            if asked.checkpoint is not None:
                return list(_kept(asked, lambda: report.advance(1)))
            if executor is None:
                return [_whole(asked, k, lambda: report.advance(1)) for k in range(asked.replicates)]
            found = []
            for one in executor.map(partial(_whole, asked), range(asked.replicates)):
                found.append(one)
                report.advance(times)
            return found
        except MemoryError:
            raise EvaluationError(
                f"particles={asked.particles}, block={asked.block}: they do not fit into memory; give fewer."
            ) from None


def _kept(asked: Request, told: Callable[[], None]) -> Iterator[Trajectory]:
    """All replicates one after the other, with a checkpoint after every step."""
    assert asked.checkpoint is not None
    known = checkpoint.fingerprint(asked)
    held = checkpoint.load(asked.checkpoint, known) or {}
    done: dict[str, Any] = held.get("done", {})
    for number in range(asked.replicates):
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            replicate = Replicate(asked, number)
            if str(number) in done:
                replicate.f = list(done[str(number)]["f"])
                for name in asked.record:
                    replicate.grams[name] = list(done[str(number)][f"gram {name}"])
                    replicate.kets[name] = list(done[str(number)].get(f"ket {name}", ()))
            elif int(held.get("running", -1)) == number:
                replicate.restore(held["replicate"])
            for _ in replicate.f:
                told()
            while not replicate.finished():
                replicate.advance()
                told()
                if not replicate.finished():
                    state = {"fingerprint": known, "done": done, "running": number, "replicate": replicate.state()}
                    checkpoint.save(asked.checkpoint, state)
        one = replicate.trajectory(number == 0)
        done[str(number)] = {"f": one.f, **{f"gram {n}": g for n, g in one.grams.items()}}
        done[str(number)] |= {f"ket {n}": k for n, k in one.kets.items()}
        checkpoint.save(asked.checkpoint, {"fingerprint": known, "done": done})
        yield one


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """The mean over the first axis and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
