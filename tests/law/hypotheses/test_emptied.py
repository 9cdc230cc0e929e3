"""Averages over other neurons of which nothing is left, against networks by plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import tplimits as tp
from tplimits.errors import EvaluationError

avg, relu = tp.avg, tp.relu


def program(average, spread=1.0, mean=0.0, divided=lambda a, x: tp.tanh(a * x) * x / a):
    """The mean of tanh(a x) x / a, a function of two neurons averaged over one of them."""

    def subject(x: tp.Vector, y: tp.Vector, b: tp.Vector):
        β = tp.neuron("β")
        y = (mean + spread * y).named("shifted")
        return avg(divided(avg(average(y, b[β], y[β]), over=β), x))

    return tp.program(subject)


def network(average, n, spread=1.0, mean=0.0):
    """The same at one width."""
    x, y, b = np.random.default_rng(n).normal(size=(3, n))
    y = mean + spread * y
    a = average(y[:, None], b, y).mean(1)
    with np.errstate(invalid="ignore"):
        return float((np.tanh(a * x) * x / a).mean())


def shifted(y, b, _):
    return relu(y + b)


@pytest.mark.parametrize(("spread", "mean"), [(2.0, 0.0), (2.0, 1.0), (1.0, -1.0)])
def test_some_neurons_are_below_all_others(spread, mean):
    """It had been a number."""
    with pytest.raises(tp.NoLimitError, match="an average over other neurons of what is flat on one side"):
        tp.derive(program(shifted, spread, mean))
    assert np.isnan(network(lambda y, b, _: np.maximum(y + b, 0), 2048, spread, mean))


def test_between_them_it_is_a_doubt():
    limit = tp.derive(program(shifted, 1.0, 0.5))
    with pytest.raises(tp.EvaluationError, match="pole not established"):
        limit.evaluate()


REGULAR = {
    "own ones are narrower": (shifted, 0.5, lambda y, b, _: np.maximum(y + b, 0)),
    "linear in the others": (lambda y, b, _: relu(y * b), 1.0, lambda y, b, _: np.maximum(y * b, 0)),
    "with a part of its own": (lambda y, b, _: relu(y * b + 1), 1.0, lambda y, b, _: np.maximum(y * b + 1, 0)),
    "not bent by both": (lambda y, b, _: relu(b) * tp.exp(y), 1.0, lambda y, b, _: np.maximum(b, 0) * np.exp(y)),
}


@pytest.mark.parametrize("case", REGULAR)
def test_others_keep_their_numbers(case):
    average, spread, same = REGULAR[case]
    found = tp.derive(program(average, spread)).evaluate()["return"].value
    draws = [network(same, n, spread) for n in (1500, 1501, 1502, 1503, 1504, 1505)]
    error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - found) < 5 * error + 0.005
    assert abs(np.mean(draws) - 1.1 * found) > 5 * error + 0.005  # the wrong twin


def test_what_is_kept_off_zero_is_not_asked():
    kept = tp.derive(program(shifted, 1.0, -1.0, lambda a, x: x * x / (1 + a))).evaluate()["return"].value
    assert 0.5 < kept < 1
    assert tp.derive(program(shifted, 1.0, -1.0, lambda a, x: tp.sign(a))).evaluate()["return"].value == pytest.approx(
        1
    )


def test_it_is_seen_through_names():
    with pytest.raises(tp.NoLimitError, match="an average over other neurons"):
        tp.derive(program(shifted, 2.0, 0.0, lambda a, x: (lambda z: tp.tanh(z) / z)((a * tp.exp(x)).named("z"))))


#: averages of which none is empty although others take both signs, and their means given y
LEFT = {
    "what is bounded below beside others": (
        lambda y, x, b: tp.relu(tp.tanh(y) + x[b]),
        lambda t: t * norm.cdf(t) + norm.pdf(t),
    ),
    "a function of others that is positive somewhere": (
        lambda y, x, b: tp.relu(tp.tanh(y) + x[b] * x[b] - 1),
        # E (x² − c²)₊ for c² = 1 − tanh y
        lambda t: 2 * (np.sqrt(1 - t) * norm.pdf(np.sqrt(1 - t)) + t * norm.sf(np.sqrt(1 - t))),
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_averages_that_are_left_for_all_neurons_have_logarithms(case):
    average, known = LEFT[case]

    @tp.program
    def logarithm(x: tp.Vector, y: tp.Vector):
        b = tp.neuron("b")
        left = tp.avg(average(y, x, b), over=b)
        told = (tp.log(left) * y).named("told")
        return tp.avg(told)

    # that it has a second moment is a doubt of its own
    number = tp.derive(logarithm, assume=("moment of told",)).evaluate()["return"]
    truth = quad(lambda y: y * np.log(known(np.tanh(y))) * norm.pdf(y), -9, 9, points=[-3, 0, 3], limit=200)[0]
    assert abs(number.value - truth) < 1e-8


def test_an_average_that_holds_the_neuron_itself_is_left():
    @tp.program
    def near(x: tp.Vector):
        b = tp.neuron("b")
        others = tp.avg(tp.step(1 - (x - x[b]) ** 2), over=b)
        told = (tp.log(others) * tp.exp(-x * x)).named("told")
        return tp.avg(told)

    with pytest.raises(EvaluationError, match="moment not established: told"):  # and no pole
        tp.derive(near).evaluate()
