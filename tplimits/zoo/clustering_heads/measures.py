"""What is measured on the network: clusters and invariances of ξ, where the attention is, sparsity, margins.

All take arrays with one row for each input, as a trained network gives them by the names of its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads.task import SparseModularAddition

#: a success of the paper: accuracy above this
SUCCESS = 0.9


def clusters(ξ: Any, apart: float = 0.02) -> int:
    """How many groups the points ξ (N, d) form: chains whose links are shorter than about `apart` × their spread.

    The spread is the root mean square distance from the mean.

    >>> clusters([[0.0, 0.0], [0.001, 0.0], [1.0, 0.0]])
    2
    """
    points = _rows("ξ", ξ)
    spread = numpy.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())
    # one point for each cell of an eighth of a link: thousands of inputs make few, and links grow like the square
    cell = apart / 8
    points = numpy.unique(numpy.round(points / (max(spread, 1e-300) * cell)), axis=0) * cell
    links = cKDTree(points).sparse_distance_matrix(cKDTree(points), apart)
    return int(connected_components(links, directed=False)[0])


@dataclass(frozen=True)
class Invariance:
    """Shares of the variance of ξ that the task has no use for; all are 0 in an exact head.

    `permutation` is the variance between orders of the same k tokens, `suffix` that between suffixes behind one
    prefix; both together are the variance inside multisets.
    """

    permutation: float
    suffix: float

    @property
    def within(self) -> float:
        """The share of the variance of ξ inside multisets."""
        return self.permutation + self.suffix


def invariance(ξ: Any, x: Any, task: SparseModularAddition) -> Invariance:
    """Both shares on inputs x (N, L), best all of the population.

    >>> task = SparseModularAddition(length=2, relevant=1)
    >>> invariance([[0.0], [0.5], [1.0], [1.5]], [[0, 0], [0, 1], [1, 0], [1, 1]], task)
    Invariance(permutation=0.0, suffix=0.2)

    Raises EvaluationError where ξ does not vary at all.
    """
    points, sequences = _rows("ξ", ξ), numpy.asarray(x)
    total = _variance(points)
    if total == 0:
        raise EvaluationError("all ξ are one point; shares of their variance have no meaning.")
    of_prefix = _means(points, sequences[:, : task.relevant])
    of_multiset = _means(points, task.counts(sequences))
    suffix, permutation = _variance(points - of_prefix), _variance(of_prefix - of_multiset)
    return Invariance(float(permutation / total), float(suffix / total))


def attention_mass(s: Any, task: SparseModularAddition) -> float:
    """The share of the attention s (N, L) on the k tokens that count, averaged over inputs."""
    return float(_rows("s", s)[:, : task.relevant].sum(axis=1).mean())


def sparsity(act: Any, below: Any = 0.1) -> Any:
    """The share of activations with |a| < ε, for one ε or many: 1 is sparse, 0 dense.

    >>> sparsity([[0.0, 2.0]], [0.1, 3.0]).tolist()
    [0.5, 1.0]
    """
    sizes = numpy.sort(numpy.abs(numpy.asarray(act, dtype=numpy.float64)), axis=None)
    share = numpy.searchsorted(sizes, numpy.asarray(below, dtype=numpy.float64), side="left") / sizes.size
    return share if numpy.ndim(below) else float(share)


def first_success(accuracies: Any, above: float = SUCCESS) -> int | None:
    """The first time at which the accuracy exceeds `above`; None if it never does."""
    found = numpy.flatnonzero(numpy.asarray(accuracies) > above)
    return int(found[0]) if len(found) else None


@dataclass(frozen=True)
class Margins:
    """How far the network is from the two points where x/|x| is singular, relative to typical sizes.

    `tokens` is min|E + P| and `sequences` min|ξ|, both over their medians.  The limit of large width holds for
    positive ones, with constants that grow as they become small.
    """

    tokens: float
    sequences: float


def margins(E: Any, P: Any, ξ: Any) -> Margins:
    """Both margins; E (K, d), P (L, d), ξ (N, d).

    >>> margins([[1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 3.0]])
    Margins(tokens=0.6666666666666666, sequences=0.5)
    """
    S = numpy.linalg.norm(_rows("E", E)[:, None] + _rows("P", P)[None], axis=-1)
    size = numpy.linalg.norm(_rows("ξ", ξ), axis=1)
    return Margins(float(S.min() / numpy.median(S)), float(size.min() / numpy.median(size)))


def _variance(points: Array) -> float:
    return float(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())


def _means(points: Array, keys: Any) -> Array:
    """For every row, the mean of all rows with the same key."""
    _, group, counts = numpy.unique(keys, axis=0, return_inverse=True, return_counts=True)
    sums = numpy.zeros((len(counts), points.shape[1]))
    numpy.add.at(sums, group.ravel(), points)
    found: Array = (sums / counts[:, None])[group.ravel()]
    return found


def _rows(name: str, values: Any) -> Array:
    found = numpy.asarray(values, dtype=numpy.float64)
    if found.ndim != 2 or not found.size:
        raise EvaluationError(f"{name} has shape {found.shape}; give rows, one for each input.")
    if not numpy.isfinite(found).all():
        raise EvaluationError(f"{name} holds NaN or infinite numbers.")
    return found
