"""What the scripts on clustering heads share: the published setting, recordings, and measures of their networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tplimits as tp
from tplimits.watch.forward import Forward
from tplimits.zoo.clustering_heads import measures, recipes, spikes
from tplimits.zoo.clustering_heads.task import SparseModularAddition
from tplimits.zoo.networks.sparse_modular_addition import transformer

#: as published: training inputs, batch, rate of Adam, hidden width
SAMPLES, BATCH, RATE, WIDTH = 2048, 32, 3e-3, 32
EPOCH = SAMPLES // BATCH
Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Setting:
    """A task with its data: training inputs drawn with replacement; held out is the population, or another draw.

    fresh: so many of the training inputs come from another draw; the rest, and the order of batches, stay.
    """

    task: SparseModularAddition
    seed: int = 0
    vocab: int = 3
    fresh: int = 0

    @cached_property
    def train(self) -> Array:
        other = self.task.draw(SAMPLES, 10_000 + self.seed)
        return np.concatenate([other[: self.fresh], self.task.train_and_test(SAMPLES, self.seed)[0][self.fresh :]])

    @cached_property
    def test(self) -> Array:
        small = self.task.modulus**self.task.length <= 2 * SAMPLES
        return self.task.population() if small else self.task.train_and_test(SAMPLES, self.seed)[1]

    @cached_property
    def probes(self) -> Array:
        return self.task.probes(10 if self.task.modulus == 2 else 15, 4)

    def watch(
        self,
        epochs: int,
        every: int | Sequence[int] = 10,
        widths: Sequence[float] = (WIDTH,),
        seeds: int | Sequence[int] = 1,
        *,
        net: Mapping[str, Any] | None = None,
        rate: float = RATE,
        perceptron: float = 1.0,
        held_out: bool = True,
        batch: int | None = BATCH,
        **more: Any,
    ) -> tp.Recording:
        """A recording of Adam at a constant rate; `every` counts epochs, or lists them."""
        X = np.concatenate([self.train, self.test]) if held_out else self.train
        loss = tp.cross_entropy(self.task.labels(X), train=range(SAMPLES))
        program = transformer(**{"vocab": self.vocab, "length": self.task.length, **(net or {})})
        base = (net or {}).get("base", WIDTH)
        per_epoch = 1 if batch is None else SAMPLES // batch
        frames = every * per_epoch if isinstance(every, int) else [e * per_epoch for e in every]
        return tp.watch(
            program,
            X,
            error=loss,
            steps=epochs * per_epoch,
            every=frames,
            widths=widths,
            seeds=seeds,
            batches=None if batch is None else tp.batches(batch, self.seed),
            probes=self.probes,
            labels=self.task.labels(self.probes),
            parametrization=tp.MUP,
            **recipes.recipe(tp.Adam(), rate, base, perceptron),
            **more,
        )

    def state(self, rec: tp.Recording, frame: int = -1, width: Any = None, seed: Any = None) -> State:
        """The network of a frame on the held-out inputs."""
        names = ("ξ", "s", "act")
        values = {name: rec.value(name, frame, width, seed, self.test) for name in names}
        f = rec.outputs(frame, width, seed, self.test)
        θ = rec.parameters(frame, width, seed)
        accuracy = float((f.argmax(axis=1) == self.task.labels(self.test)).mean())
        share = measures.invariance(values["ξ"], self.test, self.task)
        return State(
            accuracy,
            share,
            measures.clusters(values["ξ"]),
            measures.attention_mass(values["s"], self.task),
            measures.sparsity(values["act"]),
            measures.margins(θ["E"][: self.task.modulus], θ["P"], values["ξ"]),
            values["act"],
        )


@dataclass(frozen=True)
class State:
    """What is measured on one network."""

    accuracy: float
    share: measures.Invariance
    clusters: int
    mass: float
    sparsity: float
    margins: measures.Margins
    act: Array

    @property
    def kind(self) -> str:
        """The variant: ideal, corrected by value, partial or fuzzy; or a failure."""
        if self.accuracy <= measures.SUCCESS:
            return "failure"
        if self.share.within < 0.01:
            return "ideal" if self.mass > 0.9 else "corrected by value"
        return "partial" if self.share.suffix < 0.05 else "fuzzy"

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy:.3f}, variance of ξ inside multisets {self.share.within:.1e} (suffixes "
            f"{self.share.suffix:.1e}), {self.clusters} clusters, attention on the first k {self.mass:.2f}, sparsity "
            f"{self.sparsity:.2f}: {self.kind}"
        )


def outcome(setting: Setting, rec: tp.Recording, epochs: Sequence[int] | Array) -> dict[str, list[Any]]:
    """Of every seed: accuracy and loss at the end, the epochs at which it left the plateau and first succeeded."""
    (width,) = rec.widths
    chance = np.log(setting.task.modulus)
    left = [measures.first_success(-loss, -0.9 * chance) for loss in rec.loss[width]]
    accuracies = rec.curves("held-out accuracy")[width]
    found = [measures.first_success(curve) for curve in accuracies]
    when = ([None if i is None else int(epochs[i]) for i in indices] for indices in (left, found))
    ends = {"accuracy": accuracies[:, -1].tolist(), "loss": rec.loss[width][:, -1].tolist()}
    return {**ends, **dict(zip(("left", "succeeded"), when, strict=True))}


class Measured:
    """Losses and values of a recorded program at any parameters."""

    def __init__(self, setting: Setting, rec: tp.Recording) -> None:
        self.setting, self.rec = setting, rec
        self._forward = Forward(rec.program, rec.settings)
        self._loss = tp.cross_entropy(setting.task.labels(setting.train))

    def loss(self, θ: Mapping[str, Any]) -> float:
        """On the training inputs."""
        return self._loss.loss(self._forward.outputs(θ, {"x": self.setting.train}))

    def value(self, name: str, θ: Mapping[str, Any], X: Any = None) -> Array:
        """A named value, on the training inputs if no others are given."""
        data = {"x": self.setting.train if X is None else X}
        return self._forward.value(self.rec.program.position(name), θ, data)

    def spike(self, t: int, **run: Any) -> spikes.Spike:
        """What happened between frame t − 1 and frame t."""
        before, after = (self.rec.parameters(t + k, **run) for k in (-1, 0))
        return spikes.attributed(before, after, self.loss, lambda θ: self.value("ξ", θ))
