"""Kinks that no neuron crosses, and kinks of vectors that are the same at every width, which need no place."""

from __future__ import annotations

import numpy as np
import pytest
from expanded import expansion_of_one_layer, of_one_layer

import tplimits as tp

ONE_SIDED = {
    "relu of a modulus": (lambda h: tp.relu(0.3 * tp.abs(h + 0.5)), lambda x: 0.3 * abs(x + 0.5), [-0.5]),
    "modulus of relu, named": (
        lambda h: tp.abs(tp.relu(h - 1).named("r") * 2),
        lambda x: 2 * np.maximum(x - 1, 0),
        [1],
    ),
    "nothing": (lambda h: tp.relu(-tp.abs(h - 1)) + tp.tanh(h) ** 2, lambda x: np.tanh(x) ** 2, []),
    "the larger": (lambda h: tp.maximum(tp.exp(-(h**2)), tp.exp(-(h**2)) + tp.abs(h - 1)), None, [1]),
}


@pytest.mark.parametrize("kind", ONE_SIDED)
def test_arguments_on_one_side_at_every_width(kind):
    function, f, kinks = ONE_SIDED[kind]
    f = f or (lambda x: np.exp(-(x**2)) + abs(x - 1))

    *wanted, fluctuating = of_one_layer(f, kinks)
    found = expansion_of_one_layer(function)
    numbers = [float(v) for v in (found.limit, found.bias, found.variance)]
    assert numbers == pytest.approx(wanted, abs=1e-6)
    assert numbers != pytest.approx([*wanted[:2], wanted[2] - fluctuating], abs=1e-6)


def test_scalars_are_on_either_side_of_their_limits():
    @tp.program
    def kink(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.relu(tp.abs(x) * tp.avg(x * y)))

    with pytest.raises(tp.NoLimitError, match="has a kink at the limit of its argument"):
        tp.derive(kink, tp.FiniteWidth()).evaluate()


def test_kinks_of_vectors_that_do_not_move_need_no_place():
    """max(sin 2x, y): its zero in y is seen in one order of arguments, and in the other there are many in x."""

    def one(y: tp.Vector, x: tp.Vector):
        return tp.avg(tp.maximum(tp.sin(2 * x), y))

    def other(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.maximum(tp.sin(2 * x), y))

    found, placed = (tp.derive(tp.program(f), tp.FiniteWidth()).evaluate()["return"] for f in (one, other))
    assert (found.limit.method, placed.limit.method) == ("particles", "quadrature")
    for number, truth in ((found.limit, placed.limit), (found.variance, placed.variance)):
        assert number.value == pytest.approx(float(truth), abs=6 * number.error)
        assert 0 < number.error < 1e-3
    assert float(found.bias) == 0


def test_kinks_at_no_definite_place_that_move_are_refused():
    @tp.program
    def moving(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.relu(tp.sin(2 * (W @ x)) - x))

    with pytest.raises(tp.EvaluationError, match="lies at no definite value"):
        tp.derive(moving, tp.FiniteWidth())


def test_a_share_of_neurons_is_no_crossing():
    """gelu x is x far out, where max(h, x) is x and does not move; it moves where both cross, which is elsewhere."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector.normal(0, 1.3)):
        return tp.avg(tp.relu(tp.gelu(y) - tp.maximum(W @ x, y)))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    # by nested quadrature over h and y, and differences in the variance of h
    assert found.limit.value == pytest.approx(0.106178026967, abs=1e-10)
    assert found.bias.value == pytest.approx(-0.037494, abs=2e-6)
    assert found.variance.value == pytest.approx(0.082003, abs=1e-6)
