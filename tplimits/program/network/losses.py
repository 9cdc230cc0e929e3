"""Losses by name: a number to watch, and the error signal χ = ∂loss/∂f that it sends back, one number an output.

The squared loss over B training inputs is Σ (f − y)²/2B, so that χ = (f − y)/B there and 0 elsewhere; the cross-entropy
is the mean of −log p(label).  The factor 1/B matters: an optimizer with an ε, such as Adam, sees the size of the
gradient.  With weights w, means are Σ w ℓ/Σ w.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.language.tracing import exact
from tplimits.program.network.data import classes_of, fixed, mask_of, weights_of
from tplimits.program.nodes.given import array_of, finite_number, real_array

if TYPE_CHECKING:
    from tplimits.program.network.batches import Batches

Mask = NDArray[numpy.bool_]


@dataclass(frozen=True, eq=False)
class Loss(ABC):
    """A mean over labelled inputs: `targets` has a row for each of them, `train` marks those that are trained on.

    `weights` has one number for each target that counts on its own.
    """

    targets: Array
    train: Mask
    weights: Array

    @abstractmethod
    def fitting(self, f: Any) -> NDArray[Any]:
        """Outputs (inputs, *outputs) as an array; EvaluationError where they do not fit the targets."""

    @abstractmethod
    def each(self, f: Array, y: Array) -> Array:
        """The loss of each of some targets, in the shape of the weights."""

    @abstractmethod
    def signal(self, f: Array, y: Array) -> Array:
        """The derivatives of these losses, in the shape of the outputs."""

    @abstractmethod
    def hits(self, f: Array, y: Array) -> Mask | None:
        """Whether outputs say the right class, in the shape of the weights; None where there are no classes."""

    @abstractmethod
    def exact_signal(self, f: numpy.ndarray, y: Any) -> numpy.ndarray:
        """`signal` for one target, on an array of expressions."""

    def loss(self, f: Any) -> float:
        """The mean over the training inputs, for outputs (inputs, *outputs)."""
        return self._mean(self.each(*self._trained(f)))

    def accuracy(self, f: Any) -> float | None:
        """The share of training targets whose class the outputs say; None where targets are no classes."""
        hits = self.hits(*self._trained(f))
        return None if hits is None else self._mean(hits)

    def __call__(self, f: Any, t: int = 0) -> Array:
        """χ for outputs of shape (inputs, *outputs), the same at all times."""
        outputs, (at, targets, weights) = self.fitting(f), self._chosen
        signal = self.signal(numpy.asarray(outputs[at], dtype=numpy.float64), targets)
        uneven, total = self._weighed
        if uneven:
            signal = signal * weights.reshape(weights.shape + (1,) * (signal.ndim - weights.ndim))
        found = numpy.zeros(outputs.shape)
        # inputs that are not trained on send no signal, and do not count in the mean
        found[at] = signal / total
        return found

    def exact(self, f: numpy.ndarray) -> numpy.ndarray:
        """The same for an array of expressions, with targets and weights as exact numbers."""
        f = self.fitting(f)
        found = numpy.full(f.shape, sympy.S.Zero, dtype=object)
        # exact fractions of the doubles: limits in symbols decide zeros, and decimals would not cancel
        total = sympy.Add(*(exact(float(w)) for w in self.weights[self.train].ravel()))
        for place in numpy.ndindex(*self.weights.shape):
            if self.train[place[0]]:
                weight = exact(float(self.weights[place])) / total
                found[place] = self.exact_signal(f[place], self.targets[place]) * weight
        return found

    @property
    def facts(self) -> tuple[Any, ...]:
        """All that it is, as plain data: its kind, targets, training inputs, weights."""
        arrays = (getattr(self, f.name) for f in fields(self))
        return (type(self).__name__, *(a.tolist() if isinstance(a, numpy.ndarray) else a for a in arrays))

    def _trained(self, f: Any) -> tuple[Array, Array]:
        at, targets, _ = self._chosen
        return numpy.asarray(self.fitting(f)[at], dtype=numpy.float64), targets

    # looked at in every frame of a recording, where a mask costs as much as the loss itself
    @cached_property
    def _chosen(self) -> tuple[slice | Mask, Array, Array]:
        """Which rows are trained on, a slice where they follow one another; their targets and weights."""
        first, after = self.rows[0], self.rows[-1] + 1
        at = slice(first, after) if self.train[first:after].all() else self.train
        return at, self.targets[at], self.weights[at]

    @cached_property
    def _weighed(self) -> tuple[bool, float]:
        """Whether a target counts more or less than once, and how much all of them count."""
        weights = self._chosen[2]
        return bool((weights != 1).any()), float(weights.sum())

    def _mean(self, values: NDArray[Any]) -> float:
        weights = self._chosen[2]
        return float((values * weights).sum() / weights.sum())

    @cached_property
    def rows(self) -> NDArray[numpy.int64]:
        """The numbers of the training inputs."""
        return numpy.flatnonzero(self.train)

    def rows_at(self, t: int, batches: Batches | None) -> NDArray[numpy.int64]:
        """The numbers of the inputs of step t: some of the training inputs, or all of them."""
        return self.rows if batches is None else self.rows[batches.indices(t, len(self.rows))]

    def batch(self, indices: Any) -> Self:
        """The same loss on the inputs with these numbers, each as often as it is listed: the mean over this batch."""
        rows = array_of(indices)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= 0) & (rows < len(self.train))).all():
            raise EvaluationError(
                f"batch({indices!r:.60}): give numbers of inputs, from 0 to {len(self.train) - 1}, in a list."
            )
        found = replace(self, targets=self.targets[rows], train=self.train[rows], weights=self.weights[rows])
        return found._with_weight("batch(…)")

    @property
    def held_out(self) -> Self | None:
        """The same loss on the inputs that are not trained on; None unless all of them have targets."""
        rest = ~self.train
        known = numpy.isfinite(self.targets[rest]).all() and (self.weights[rest] > 0).any()
        return replace(self, train=rest) if known else None

    def _with_weight(self, call: str) -> Self:
        """This loss, if its mean is over something."""
        if not self.train.any():
            raise EvaluationError(f"{call}: no input is trained on; there is nothing to average.")
        if not self.weights[self.train].sum() > 0:
            raise EvaluationError(f"{call}: all weights of training inputs are zero; there is nothing to average.")
        return self


@dataclass(frozen=True, eq=False)
class SquaredError(Loss):
    """Σ (f − y)²/2B over the B training inputs; made by `squared_error`.

    `classes` are the different targets of all inputs, (classes, entries); none where targets are those of a regression.
    """

    classes: Array

    def fitting(self, f: Any) -> NDArray[Any]:
        outputs = numpy.asarray(f)
        if outputs.shape != self.targets.shape:
            raise EvaluationError(
                f"squared_error: the targets have shape {self.targets.shape}, the outputs {outputs.shape}."
            )
        return outputs

    def each(self, f: Array, y: Array) -> Array:
        return ((f - y) ** 2 / 2).reshape(len(f), -1).sum(axis=1)

    def signal(self, f: Array, y: Array) -> Array:
        return f - y

    def hits(self, f: Array, y: Array) -> Mask | None:
        """The class of an output is the nearest of the different targets, whichever inputs they are targets of."""
        if not len(self.classes):
            return None
        f, y = (((x.reshape(len(x), 1, -1) - self.classes) ** 2).sum(axis=-1).argmin(axis=1) for x in (f, y))
        return f == y

    def exact_signal(self, f: numpy.ndarray, y: Any) -> numpy.ndarray:
        targets = numpy.array([exact(float(one)) for one in numpy.ravel(y)], dtype=object)
        return numpy.asarray(f - targets.reshape(numpy.shape(y)), dtype=object)


@dataclass(frozen=True, eq=False)
class CrossEntropy(Loss):
    """−Σ_c q_c log p_c, p the softmax of the last axis of the outputs, q = (1 − ε) 1[c = label] + ε/classes."""

    smoothing: float = 0.0

    @cached_property
    def _largest(self) -> float:
        return float(self._chosen[1].max())

    def fitting(self, f: Any) -> NDArray[Any]:
        outputs = numpy.asarray(f)
        if outputs.ndim == 0 or outputs.shape[:-1] != self.targets.shape:
            raise EvaluationError(
                f"cross_entropy: the labels have shape {self.targets.shape}, the outputs {outputs.shape}; outputs have "
                "one more axis, the last, for the classes."
            )
        largest = self._largest
        if largest >= outputs.shape[-1]:
            raise EvaluationError(
                f"cross_entropy: the label {int(largest)} has no output; with {outputs.shape[-1]} classes labels go "
                f"from 0 to {outputs.shape[-1] - 1}."
            )
        return outputs

    def each(self, f: Array, y: Array) -> Array:
        f = numpy.ascontiguousarray(numpy.moveaxis(f, -1, 0))  # classes first: what runs over inputs is fast
        f = f - f.max(axis=0)
        at = y.astype(numpy.intp).ravel(), numpy.arange(y.size)  # a fifth of the time of take_along_axis
        wanted = f.reshape(len(f), -1)[at].reshape(y.shape)
        if self.smoothing:
            wanted = (1 - self.smoothing) * wanted + self.smoothing * f.mean(axis=0)
        return numpy.log(numpy.exp(f).sum(axis=0)) - wanted

    def signal(self, f: Array, y: Array) -> Array:
        p = numpy.exp(f - f.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True) - self._wanted(f, y)

    def hits(self, f: Array, y: Array) -> Mask:
        return f.argmax(axis=-1) == y

    def exact_signal(self, f: numpy.ndarray, y: Any) -> numpy.ndarray:
        weights = [sympy.exp(one) for one in f]
        wanted = [exact(float(q)) for q in self._wanted(numpy.zeros(len(f)), numpy.asarray(y))]
        found = [w / sympy.Add(*weights) - q for w, q in zip(weights, wanted, strict=True)]
        return numpy.array(found, dtype=object)

    def _wanted(self, f: Array, y: Array) -> Array:
        """q, the probabilities that are aimed at."""
        classes = f.shape[-1]
        at = (y[..., None] == numpy.arange(classes)).astype(numpy.float64)
        return (1 - self.smoothing) * at + self.smoothing / classes


def squared_error(y: Any, train: Any = None, weights: Any = None) -> SquaredError:
    """The squared loss Σ w (f − y)²/2 / Σ w over the training inputs: χ = w (f − y)/Σ w there, 0 on the others.

    `y` has shape (inputs, *outputs); `train` marks training inputs by True, or lists their numbers; None trains on all.
    `weights` w has one number for each input, 1 by default.  Targets of inputs that are not trained on may be NaN.
    Targets are classes, and have an accuracy, where they are 2 to 64 different ones in whole numbers, such as −1 and 1
    or one-hot, or in two numbers that are repeated, such as 0.9 and −0.1: an output is of the class of the nearest.

    >>> χ = squared_error([1.0, float("nan"), 3.0], train=[True, False, True])
    >>> χ([0.0, 5.0, 0.0]).tolist(), χ.loss([0.0, 5.0, 0.0])
    ([-0.5, 0.0, -1.5], 2.5)

    Raises EvaluationError for targets that are no numbers or not finite where they are needed, for a mask that does
    not fit or selects nothing, and for weights that are negative or all zero.
    """
    targets = real_array("squared_error(y)", y, finite=False)
    if targets.ndim == 0 or not len(targets):
        raise EvaluationError("squared_error(y): give one target for each input.")
    mask = mask_of("squared_error", train, len(targets))
    if not numpy.isfinite(targets[mask]).all():
        wrong = int(numpy.flatnonzero(mask & ~numpy.isfinite(targets.reshape(len(targets), -1)).all(axis=1))[0])
        raise EvaluationError(
            f"squared_error(y): the target of training input {wrong} is NaN or infinite; leave it out by train=."
        )
    weighed = weights_of("squared_error", weights, (len(targets),))
    found = SquaredError(fixed(targets), mask, weighed, fixed(classes_of(targets)))
    return found._with_weight("squared_error(weights=…)")


def cross_entropy(labels: Any, train: Any = None, smoothing: Any = 0, weights: Any = None) -> CrossEntropy:
    """The cross-entropy Σ w ℓ/Σ w, ℓ = −Σ_c q_c log softmax(f)_c, with q = (1 − ε) 1[c = label] + ε/classes.

    `labels` has shape (inputs, …), whole numbers from 0 on; outputs have the same axes and one more, the last, for the
    classes.  `train` marks training inputs by True, or lists their numbers; None trains on all; labels of others are
    ignored.  `smoothing` is ε, from 0 on and below 1; `weights` w has one number for each input, or for each label.

    >>> χ = cross_entropy([1, 0])
    >>> χ([[0.0, 0.0], [0.0, 0.0]]).tolist(), round(χ.loss([[0.0, 0.0], [0.0, 0.0]]), 6)
    ([[0.25, -0.25], [-0.25, 0.25]], 0.693147)

    Raises EvaluationError for labels that are no classes, for a mask that does not fit or selects nothing, and for
    weights that are negative or all zero.
    """
    found = real_array("cross_entropy(labels)", labels, finite=False)
    if found.ndim == 0 or not found.size:
        raise EvaluationError("cross_entropy(labels): give one label for each input.")
    mask = mask_of("cross_entropy", train, len(found))
    whole = numpy.isfinite(found) & (found == numpy.floor(found)) & (found >= 0)
    if not whole[mask].all():
        wrong = found[mask][~whole[mask]][0]
        raise EvaluationError(f"cross_entropy(labels): a training label is {wrong:g}; labels are 0, 1, 2, …")
    found[~whole] = numpy.nan  # of inputs that are not trained on
    ε = finite_number("smoothing", smoothing, EvaluationError)
    if not 0 <= ε < 1:
        raise EvaluationError(f"cross_entropy(smoothing={shown(smoothing)}): give a number from 0 on, below 1.")
    weighed = weights_of("cross_entropy", weights, found.shape)
    return CrossEntropy(fixed(found), mask, weighed, ε)._with_weight("cross_entropy(weights=…)")
