"""Where training starts: laws, neurons shared by widths, one more token; and recipes."""

import numpy as np
import pytest
from scipy import stats

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads import recipes, start


def test_neurons_have_uniform_laws():
    found = start.neurons(4096, 1, base=32)
    for name, end in (("w", 2**-0.5), ("b", 2**-0.5), ("u", 32**-0.5)):
        assert stats.kstest(found[name].ravel(), stats.uniform(-end, 2 * end).cdf).pvalue > 1e-4
    assert abs(start.neurons(64, 1)["u"]).max() <= 64**-0.5


def test_wider_networks_have_the_neurons_of_narrower_ones():
    for base in (None, 32):
        few, many = start.neurons(32, 4, base=base), start.neurons(512, 4, base=base)
        scale = 1.0 if base else (512 / 32) ** 0.5
        assert np.array_equal(few["w"], many["w"][:, :32])
        assert np.allclose(few["u"], scale * many["u"][:, :32])


def test_a_token_is_added_behind_the_others():
    before = start.scalars(0, vocab=2)
    after = start.with_token(before)
    assert after["E"].shape == (3, 2) and np.array_equal(after["E"][:2], before["E"])
    assert after["P"] is before["P"]


def test_recipes_give_linear_updates_a_rate_and_others_an_eps():
    linear, adam = recipes.recipe(tp.SGD(momentum=0.5), 0.1, 32), recipes.recipe(tp.Adam(eps=1e-8), 0.1, 32, 0.5)
    assert linear["lr"]["u"] == pytest.approx(0.1 / 32) and linear["lr"]["c"] == 0.1
    assert adam["lr"]["u"] == pytest.approx(0.05) and adam["optimizer"]["u"].eps == pytest.approx(32e-8)
    assert adam["optimizer"]["E"].eps == 1e-8


def test_updates_without_eps_that_are_not_linear_are_refused():
    with pytest.raises(EvaluationError, match="how it sees gradients 32 times as large"):
        recipes.recipe(tp.Entrywise(lambda g: tp.tanh(g)), 0.1, 32)
