"""Error signals: values by hand, and what is refused."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.network.loss import error_signal, exact_signal

NAN = float("nan")


@pytest.mark.parametrize("train", [[True, False, True, False], [0, 2], range(0, 3, 2), np.array([0, -2])])
def test_the_signal_is_divided_by_the_number_of_training_inputs(train):
    χ = tp.squared_error([1.0, NAN, 3.0, NAN], train=train)
    assert χ.rows.tolist() == [0, 2]
    assert χ([2.0, 9.0, 9.0, 9.0]).tolist() == [0.5, 0.0, 3.0, 0.0]


def test_several_outputs():
    χ = tp.squared_error([[1.0, 2.0], [0.0, 0.0]])
    assert χ(np.zeros((2, 2))).tolist() == [[-0.5, -1.0], [0.0, 0.0]]
    with pytest.raises(tp.EvaluationError, match=r"\(2, 2\), the outputs \(2,\)"):
        χ(np.zeros(2))


@pytest.mark.parametrize(
    ("y", "train", "what"),
    [
        ([1.0, NAN], None, "training input 1 is NaN"),
        ([1.0, np.inf], [1], "training input 1 is NaN or infinite"),
        ([1.0, 2.0], [False, False], "selects no input"),
        ([1.0, 2.0], [], "selects no input"),
        ([1.0, 2.0], [True], "for each of the 2 inputs"),
        ([1.0, 2.0], [2], "for each of the 2 inputs"),
        ([1.0, 2.0], [0.5], "for each of the 2 inputs"),
        (["a"], None, "it takes an array of numbers"),
        (["1", "2"], None, "it takes an array of numbers"),
        (np.array(["2000", "2001"], "M8[Y]"), None, "it takes an array of numbers"),
        (np.ma.masked_array([1.0, 1e20], mask=[False, True]), None, r"`squared_error\(y\)` is given a masked array"),
        ([1.0, 2.0], np.ma.masked_array([True, True], mask=[False, True]), "for each of the 2 inputs"),
        ([], None, "one target for each input"),
        (1.0, None, "one target for each input"),
    ],
)
def test_targets_and_masks_that_make_no_sense_are_refused(y, train, what):
    with pytest.raises(tp.EvaluationError, match=what):
        tp.squared_error(y, train=train)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (lambda f: f[:1], r"shape \(1,\)"),
        (lambda f: f * NAN, "NaN or infinite numbers at step 3"),
        (lambda f: np.array(["a", "b"]), "one number for each"),
        (7, "give a function of the outputs"),
    ],
)
def test_signals_of_ones_own_are_checked(error, what):
    with pytest.raises(tp.EvaluationError, match=what):
        error_signal(error)(np.ones(2), 3)


def test_exact_signals():
    f = np.array([sympy.Symbol("a"), sympy.Symbol("b")], dtype=object)
    χ = exact_signal(tp.squared_error([0.25, NAN], train=[0]))
    assert χ(f, 0).tolist() == [f[0] - sympy.Rational(1, 4), 0]
    assert exact_signal(lambda f: f - 0.5)(f, 0)[1] == f[1] - sympy.Rational(1, 2)
    with pytest.raises(tp.EvaluationError, match=r"shape \(1,\)"):
        exact_signal(lambda f: f[:1])(f, 0)
