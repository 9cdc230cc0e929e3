"""What the scripts with kernels on real data share: data, targets, accuracies with their errors, evidence.

The protocol of all tables.  The kernels of all inputs are evaluated once.  Disjoint training sets with as many inputs
of every class are drawn from them, and each predicts all other inputs by exact regression on class targets.  The
accuracy is the mean over sets; its standard error adds the spread over training sets and over inputs.  Differences of
two kernels are taken input by input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from sklearn.datasets import load_digits

Array = np.ndarray
#: noises that are tried, in units of the mean diagonal of the kernel
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def digits(many: int | None = None, seed: int = 0) -> tuple[Array, Array]:
    """Images (N, 1, 64) of 8 × 8 digits with mean 0 and variance 1 each, and labels; all, or as many of every class."""
    images, labels = load_digits(return_X_y=True)
    if many is not None:
        rng = np.random.default_rng(seed)
        chosen = [rng.permutation(np.flatnonzero(labels == c))[: many // 10] for c in range(10)]
        images, labels = (part[np.stack(chosen, axis=1).ravel()] for part in (images, labels))
    centred = images - images.mean(axis=1, keepdims=True)
    return (centred / centred.std(axis=1, keepdims=True))[:, None, :], labels


def targets(labels: Array) -> Array:
    """(C − 1)/C of the class, −1/C of all others."""
    classes = np.unique(labels)
    return (labels[:, None] == classes) - 1 / len(classes)


@dataclass(frozen=True)
class Fitted:
    """Regression on some training inputs: noise K + c mean(diag K), and the scale of K that maximises the evidence."""

    gram: Array
    train: Array
    y: Array
    noise: float

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        own = self.gram[np.ix_(self.train, self.train)]
        return scipy.linalg.cho_factor(own + self.noise * own.diagonal().mean() * np.eye(len(own)))

    @cached_property
    def weights(self) -> Array:
        return scipy.linalg.cho_solve(self._factor, self.y[self.train])

    @property
    def evidence(self) -> float:
        """log p(y) by target, −½ log s − ½ log det K/N − ½ log 2πe, at the best scale s = yᵀK⁻¹y/N of all classes."""
        y = self.y[self.train]
        scale = (y * self.weights).sum() / y.size
        half_det = np.log(self._factor[0].diagonal()).sum() / len(y)
        return float(-0.5 * np.log(scale) - half_det - 0.5 * np.log(2 * np.pi * np.e))

    def outputs(self, at: Array) -> Array:
        return self.gram[np.ix_(at, self.train)] @ self.weights


@dataclass(frozen=True)
class Accuracy:
    """A mean over training sets with its standard error; `right` is what each input has, NaN where it trained."""

    right: Array

    @classmethod
    def of(cls, rows: Sequence[str]) -> Accuracy:
        """From what `rows` has written."""
        return cls(np.array([[{"1": 1.0, "0": 0.0, ".": np.nan}[c] for c in row] for row in rows]))

    @property
    def rows(self) -> list[str]:
        """A line for each training set: 1 for an input that is right, 0, and a dot where it trained."""
        return ["".join("." if np.isnan(r) else str(int(r)) for r in row) for row in self.right]

    @property
    def mean(self) -> float:
        return float(np.nanmean(self.right))

    @property
    def error(self) -> float:
        return _error(self.right)

    def minus(self, other: Accuracy) -> tuple[float, float]:
        """The difference and its standard error, from the same training sets and inputs."""
        difference = self.right - other.right
        return float(np.nanmean(difference)), _error(difference)

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.error:.1f} %"


def _error(right: Array) -> float:
    """The root of the variances of means over training sets and over inputs, taken as independent."""
    by_set, by_input = np.nanmean(right, axis=1), np.nanmean(right, axis=0)
    return float(np.sqrt(by_set.var(ddof=1) / len(by_set) + by_input.var(ddof=1) / len(by_input)))


@dataclass(frozen=True)
class Protocol:
    """Labels, and disjoint training sets of equal size with all classes alike."""

    labels: Array
    size: int
    most: int = 10
    seed: int = 0

    @cached_property
    def sets(self) -> Sequence[Array]:
        rng, classes = np.random.default_rng(self.seed), np.unique(self.labels)
        each = self.size // len(classes)
        order = [rng.permutation(np.flatnonzero(self.labels == c)) for c in classes]
        many = min(self.most, min(len(o) for o in order) // each)
        return [np.concatenate([o[k * each : (k + 1) * each] for o in order]) for k in range(many)]

    def fitted(self, gram: Array, train: Array, noise: float | None = None) -> Fitted:
        """With a noise in units of the mean diagonal; None takes the one with the largest evidence."""
        y = targets(self.labels)
        found = [Fitted(gram, train, y, c) for c in (NOISES if noise is None else (noise,))]
        return max(found, key=lambda one: one.evidence)

    def accuracy(self, gram: Array, noise: float | None = None) -> Accuracy:
        """Of regression with a Gram matrix of all inputs."""
        right = np.full((len(self.sets), len(self.labels)), np.nan)
        everything = np.arange(len(self.labels))
        classes = np.unique(self.labels)
        for row, train in zip(right, self.sets, strict=True):
            rest = np.setdiff1d(everything, train)
            outputs = self.fitted(gram, train, noise).outputs(rest)
            row[rest] = classes[outputs.argmax(axis=1)] == self.labels[rest]
        return Accuracy(right)

    def evidence(self, gram: Array) -> float:
        """The mean over training sets of the evidence by target, at the best noise and scale."""
        return float(np.mean([self.fitted(gram, train).evidence for train in self.sets]))
