"""Losses by name against derivatives by differences and SciPy, their parts, and what is refused."""

import numpy as np
import pytest
import scipy
import sympy

import tplimits as tp
from tplimits.program.network.loss import exact_signal

NAN = float("nan")


def by_differences(loss, f):
    """The derivative of a loss by the outputs."""
    found = np.zeros_like(f)
    for place in np.ndindex(*f.shape):
        step = np.zeros_like(f)
        step[place] = 1e-6
        found[place] = (loss.loss(f + step) - loss.loss(f - step)) / 2e-6
    return found


RNG = np.random.default_rng(0)
LOSSES = {
    "squared": (tp.squared_error(RNG.standard_normal((5, 2))), (5, 2)),
    "squared, weights, some": (tp.squared_error([1.0, NAN, 0, 2, 1], [0, 2, 3], weights=[1, 9, 0, 2.5, 1]), (5,)),
    "labels": (tp.cross_entropy([0, 2, 1, 1, 0]), (5, 3)),
    "smooth": (tp.cross_entropy([0, 2, 1, 1, 0], smoothing=0.3, weights=[1, 2, 0, 0.5, 1], train=[0, 1, 2, 4]), (5, 3)),
    "positions": (tp.cross_entropy(RNG.integers(0, 4, (5, 2)), weights=RNG.random((5, 2))), (5, 2, 4)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_signals_are_derivatives_of_the_loss(name):
    loss, shape = LOSSES[name]
    f = np.random.default_rng(1).standard_normal(shape)
    assert np.allclose(loss(f), by_differences(loss, f), atol=1e-8)
    assert not np.allclose(1.1 * loss(f), by_differences(loss, f), atol=1e-8)
    assert np.array_equal(loss(f)[~loss.train], np.zeros_like(f)[~loss.train])


@pytest.mark.parametrize("name", LOSSES)
def test_exact_signals_are_the_same(name):
    loss, shape = LOSSES[name]
    f = np.random.default_rng(2).integers(-3, 3, shape)
    found = exact_signal(loss)(np.vectorize(sympy.Integer, otypes=[object])(f), 0)
    assert np.allclose(found.astype(float), loss(f.astype(float)), rtol=1e-12)


def test_cross_entropy_is_that_of_the_softmax():
    f, labels = np.random.default_rng(3).standard_normal((6, 4)), [0, 3, 1, 1, 2, 0]
    p = scipy.special.softmax(f, axis=1)[np.arange(6), labels]
    assert np.isclose(tp.cross_entropy(labels).loss(f), -np.log(p).mean())
    assert np.isclose(tp.cross_entropy(labels, smoothing=0.2).loss(f), (
        -0.8 * np.log(p).mean() - 0.2 * np.log(scipy.special.softmax(f, axis=1)).mean()
    ))  # fmt: skip
    assert tp.cross_entropy([1]).loss([[1e4, -1e4]]) == 2e4, "no overflow"
    assert tp.cross_entropy([1])([[1e4, -1e4]]).tolist() == [[1.0, -1.0]]


def test_accuracy():
    f = np.array([[0.1, 0.2], [3.0, 1.0], [0.0, -1.0], [5.0, 6.0]])
    assert tp.cross_entropy([1, 0, 1, 0]).accuracy(f) == 0.5
    assert tp.cross_entropy([1, 0, 1, 0], weights=[1, 1, 0, 2]).accuracy(f) == 0.5
    assert tp.squared_error([1.0, -1, 1]).accuracy([0.2, 0.1, -3]) == pytest.approx(1 / 3)
    assert tp.squared_error([1.0, 0, 1]).accuracy([0.6, 0.1, 0.4]) == pytest.approx(2 / 3)
    assert tp.squared_error(np.eye(2)[[1, 0, 1, 0]]).accuracy(f) == 0.5
    assert tp.squared_error(np.arange(100.0)).accuracy(np.arange(100.0)) is None, "a regression"


def test_targets_of_a_regression_are_no_classes():
    """However few they are: values that are to be met, and no names of classes."""
    for y in (np.sin(np.arange(13.0)), [0.3, 0.7], [0.5, 1.5, 2.25, 0.5], np.zeros(4), [[0.1, 2.0], [0.3, 2.0]]):
        assert tp.squared_error(y).accuracy(y) is None
    for y in ([1, -1], [0.0, 3, 2, 2], [0.5, -0.5, 0.5], np.eye(3) - 1 / 3, [[0.9, -0.1], [-0.1, 0.9]]):
        assert tp.squared_error(y).accuracy(y) == 1


def test_classes_are_those_of_all_inputs():
    """One input that is held out is not right because there is no other of them."""
    loss = tp.squared_error([1.0, -1.0, 1.0, NAN, 1.0], train=[0, 1, 2, 4])
    assert loss.held_out is None and loss.batch([0, 2]).accuracy([-1.0, 1.0]) == 0.5
    held = tp.squared_error([1.0, -1.0, 1.0], train=[0, 1]).held_out
    assert held.accuracy([0.0, 0.0, -3.0]) == 0 and held.accuracy([0.0, 0.0, 0.1]) == 1
    many = tp.squared_error(np.arange(80.0), train=range(40))
    assert many.accuracy(np.arange(80.0)) is None and many.held_out.accuracy(np.arange(80.0)) is None


def test_batches_of_a_loss_are_means_over_the_batch():
    labels, f = np.array([0, 1, 2, 1]), np.random.default_rng(4).standard_normal((4, 3))
    loss = tp.cross_entropy(labels, weights=[1, 2, 3, 4])
    rows = [3, 0, 3]
    assert np.isclose(loss.batch(rows).loss(f[rows]), tp.cross_entropy(labels[rows], weights=[4, 1, 4]).loss(f[rows]))
    assert loss.batch(np.arange(4)).loss(f) == loss.loss(f)
    for wrong in ([4], [-1], [0.5], [[0]], [True], []):
        with pytest.raises(tp.EvaluationError, match="batch"):
            loss.batch(wrong)


def test_held_out_inputs_do_not_enter_and_are_a_loss_of_their_own():
    f = np.random.default_rng(5).standard_normal((4, 3))
    loss = tp.cross_entropy([0, 1, 2, 1], train=[0, 2])
    assert np.isclose(loss.held_out.loss(f), tp.cross_entropy([0, 1, 2, 1], train=[1, 3]).loss(f))
    moved = f.copy()
    moved[[1, 3]] += 1.0
    assert np.array_equal(loss(f), loss(moved)) and loss.loss(f) == loss.loss(moved)
    assert tp.cross_entropy([0, 1]).held_out is None
    assert tp.cross_entropy([0, -1], train=[0]).held_out is None, "no label"
    assert tp.squared_error([1.0, NAN], train=[0]).held_out is None
    assert loss.rows.tolist() == [0, 2] and loss.rows_at(5, None).tolist() == [0, 2]
    assert sorted(loss.rows_at(0, tp.batches(1)).tolist() + loss.rows_at(1, tp.batches(1)).tolist()) == [0, 2]


def test_facts_tell_losses_apart():
    one, two = tp.cross_entropy([0, 1]), tp.cross_entropy([0, 1], smoothing=0.1)
    assert one.facts == tp.cross_entropy([0, 1]).facts != two.facts and one.facts[0] == "CrossEntropy"
    assert tp.squared_error([0, 1]).facts != tp.squared_error([0, 1], weights=[1, 2]).facts


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: tp.cross_entropy([0, 1.5]), r"a training label is 1\.5"),
        (lambda: tp.cross_entropy([0, -1]), "a training label is -1"),
        (lambda: tp.cross_entropy([0, NAN]), "a training label is nan"),
        (lambda: tp.cross_entropy([]), "one label for each input"),
        (lambda: tp.cross_entropy("ab"), "it takes an array of numbers"),
        (lambda: tp.cross_entropy(np.array([1j, 0])), "complex numbers"),
        (lambda: tp.cross_entropy([10**400, 0]), "it takes an array of numbers"),
        (lambda: tp.squared_error([1j, 0]), "complex numbers"),
        (lambda: tp.cross_entropy([0, 1], smoothing=1), "from 0 on, below 1"),
        (lambda: tp.cross_entropy([0, 1], smoothing=-0.1), "from 0 on, below 1"),
        (lambda: tp.cross_entropy([0, 1], smoothing="a"), "finite number"),
        (lambda: tp.cross_entropy([0, 1], train=[2]), "cross_entropy.train=.2.*for each of the 2 inputs"),
        (lambda: tp.cross_entropy([0, 1], train=[False, False]), "selects no input"),
        (lambda: tp.cross_entropy([0, 1], weights=[1]), r"has shape \(1,\); give \(2,\)"),
        (lambda: tp.cross_entropy([0, 1], weights=[1, -1]), "weights are not negative"),
        (lambda: tp.cross_entropy([0, 1], weights=[0, 0]), "all weights of training inputs are zero"),
        (lambda: tp.squared_error([0, 1], weights=[1, NAN]), "NaN"),
        (lambda: tp.squared_error([0, 1], train=[0], weights=[0, 1]), "all weights of training inputs are zero"),
        (lambda: tp.cross_entropy([0, 3])(np.zeros((2, 3))), "the label 3 has no output"),
        (lambda: tp.cross_entropy([0, 3])(np.zeros((3, 4))), r"labels have shape \(2,\), the outputs \(3, 4\)"),
        (lambda: tp.cross_entropy([0, 3]).loss(np.zeros(2)), r"labels have shape \(2,\), the outputs \(2,\)"),
        (lambda: tp.squared_error([0, 3]).accuracy(np.zeros(3)), r"targets have shape \(2,\), the outputs \(3,\)"),
    ],
)
def test_what_makes_no_sense_is_refused(make, what):
    with pytest.raises(tp.EvaluationError, match=what):
        make()
