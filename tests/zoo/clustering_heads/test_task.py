"""Sparse modular addition: labels by a loop, multisets by a list, and what is refused."""

import itertools

import numpy as np
import pytest

from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads.task import SparseModularAddition

TASK = SparseModularAddition(length=5, relevant=3, modulus=3)


def test_labels_are_sums_of_the_first_tokens():
    X = TASK.population()
    assert X.shape == (3**5, 5)
    for row, label in zip(X, TASK.labels(X), strict=True):
        total = 0
        for token in row[:3]:
            total = (total + int(token)) % 3
        assert label == total


@pytest.mark.parametrize(("k", "p"), [(5, 2), (5, 3), (3, 4), (1, 2)])
def test_multisets_are_counted(k, p):
    listed = set(itertools.combinations_with_replacement(range(p), k))
    task = SparseModularAddition(length=k + 1, relevant=k, modulus=p)
    assert task.multisets == len(listed)
    assert len(np.unique(task.counts(task.population()), axis=0)) == len(listed)


def test_probes_cross_prefixes_with_suffixes():
    probes = SparseModularAddition().probes(prefixes=10, suffixes=4)
    assert probes.shape == (40, 12)
    assert len(np.unique(probes[:, 5:], axis=0)) == 4
    assert all(len(np.unique(block[:, :5], axis=0)) == 1 for block in probes.reshape(10, 4, 12))
    sums, counts = np.unique(probes.reshape(10, 4, 12)[:, 0, :5].sum(axis=1), return_counts=True)
    assert sums.tolist() == [0, 1, 2, 3, 4, 5] and counts.max() <= 2


def test_train_and_test_are_two_draws():
    train, test = SparseModularAddition().train_and_test(2048, seed=3)
    assert train.shape == test.shape == (2048, 12)
    seen = set(map(tuple, train))
    share = np.mean([tuple(row) in seen for row in test])
    assert abs(share - (1 - np.exp(-0.5))) < 0.05  # the published test set was seen by two fifths


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 4, "relevant": 5}, "5 relevant tokens in sequences of 4"),
        ({"modulus": 1}, "modulus=1: give a whole number, at least 2"),
        ({"length": 2.5}, "length=2.5"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(EvaluationError, match=message):
        SparseModularAddition(**settings)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[0, 1, 2, 3, 0]], r"tokens go from 0 to 3; they are 0 … 2"),
        ([[0, 1, 2]], r"shape \(1, 3\)"),
        ([[0.0, 1.0, 2.0, 0.0, 0.0]], "float64"),
    ],
)
def test_sequences_that_are_none_are_refused(x, message):
    with pytest.raises(EvaluationError, match=message):
        TASK.labels(x)


def test_a_large_population_is_not_made():
    with pytest.raises(EvaluationError, match=r"there are 10\^12 sequences; draw some"):
        SparseModularAddition(modulus=10).population()
