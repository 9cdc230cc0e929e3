"""Measures on points whose clusters, shares and margins are known."""

import numpy as np
import pytest

from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads import measures
from tplimits.zoo.clustering_heads.task import SparseModularAddition

TASK = SparseModularAddition()
X = TASK.population()


def exact(of_multiset=1.0, of_order=0.0, of_suffix=0.0):
    """ξ as a function of the number of ones, of one of the first five tokens, and of one behind them."""
    along = of_multiset * TASK.counts(X)[:, 1] + of_order * X[:, 2] + of_suffix * X[:, 7]
    return np.stack([along, np.ones(len(X))], axis=1)


def test_clusters_of_an_exact_head_are_the_multisets():
    assert measures.clusters(exact()) == TASK.multisets == 6
    assert measures.clusters(exact(of_suffix=0.3)) == 12
    noise = np.random.default_rng(0).normal(0, 1e-3, (len(X), 2))
    assert measures.clusters(exact() + noise) == 6
    assert measures.clusters(exact() + 100 * noise) > 12


def test_shares_of_variance_sum_up():
    share = measures.invariance(exact(), X, TASK)
    assert share.within < 1e-25
    share = measures.invariance(exact(of_suffix=0.5), X, TASK)
    # Var(count) = 5/4, Var(0.5 bit) = 1/16
    assert share.suffix == pytest.approx((1 / 16) / (5 / 4 + 1 / 16)) and share.permutation < 1e-25
    share = measures.invariance(exact(of_order=0.5), X, TASK)
    total = 5 / 4 + 1 / 16 + 2 * 0.5 / 4
    # given the count, a bit is 1 with probability count/5
    inside = 0.25 * np.mean([c / 5 * (1 - c / 5) for c in TASK.counts(X)[:, 1]])
    assert share.permutation == pytest.approx(inside / total) and share.suffix < 1e-25


def test_one_point_has_no_shares():
    with pytest.raises(EvaluationError, match="all ξ are one point"):
        measures.invariance(np.ones((len(X), 2)), X, TASK)


def test_attention_and_sparsity():
    assert measures.attention_mass(np.full((3, 12), 1 / 12), TASK) == pytest.approx(5 / 12)
    act = np.array([[-0.05, 0.2], [3.0, 0.0]])
    assert measures.sparsity(act) == 0.5
    assert measures.sparsity(act, [1e-5, 0.1, 1.0, 10.0]).tolist() == [0.25, 0.5, 0.75, 1.0]


def test_first_success():
    assert measures.first_success([0.5, 0.9, 0.95, 0.5]) == 2
    assert measures.first_success([0.5, 0.9]) is None


@pytest.mark.parametrize("wrong", [np.ones(3), np.full((2, 2), np.nan), np.empty((0, 2))])
def test_what_are_no_rows_is_refused(wrong):
    with pytest.raises(EvaluationError, match="ξ"):
        measures.clusters(wrong)
