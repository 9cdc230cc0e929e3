"""Vectors that are 0, or equal to others, at nearly all neurons: matrices act on what the others are."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

VECTORS = {
    "tail": lambda W, Z, x: 30 * tp.relu(x - 2.3),
    "tail of an image": lambda W, Z, x: 30 * tp.relu(Z @ x - 2.3),
    "beside another one": lambda W, Z, x: x + 30 * tp.relu(abs(x) - 3),
    "clipped": lambda W, Z, x: tp.clip(x, -3, 3),
    "steps": lambda W, Z, x: 30 * tp.step(abs(x) - 3) * x,
    "far out": lambda W, Z, x: 1e4 * tp.relu(x - 4.5),
}


@pytest.mark.parametrize("name", VECTORS)
def test_the_limits_are_those_of_infinite_width(name):
    @tp.program
    def program(W: tp.Matrix, Z: tp.Matrix, x: tp.Vector):
        k = W @ x
        h = W @ VECTORS[name](W, Z, x)
        return tp.avg(h * h), tp.avg(h * k), tp.avg(abs(h - k))

    wide, finite = tp.derive(program).evaluate(), tp.derive(program, tp.FiniteWidth()).evaluate()
    for i in range(3):
        one, other = wide[f"return[{i}]"], finite[f"return[{i}]"].limit
        assert abs(one.value - other.value) < 1e-6 * abs(one.value) + 4 * other.error
    assert wide["return[0]"].value > 1e-3  # one drawn network of 64 neurons has 0, or what the other vector gives


def test_what_is_the_same_at_all_neurons_has_no_direction_of_its_own():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ (tp.relu(x - 2.3) - tp.relu(x - 2.3) * tp.step(x - 1)) + W @ x
        return tp.avg((h - W @ x) ** 2)

    assert tp.derive(program, tp.FiniteWidth()).evaluate()["return"].limit.value == 0


def test_vectors_of_signs_have_kinks():
    """E relu(h + b), h ~ N(0, 1) and b = ±2; b of a half; and a scalar that stands on a value is refused."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, b: tp.Vector.signs(2)):
        return tp.avg(tp.relu(W @ x + b)), tp.avg(tp.relu(b - 0.5)), tp.avg(abs(b)), tp.avg(tp.relu(b - tp.avg(x * x)))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()
    density, tail = np.exp(-2) / np.sqrt(2 * np.pi), 0.022750131948179195
    wanted = [((density + 2 * (1 - tail)) + (density - 2 * tail)) / 2, 0.75, 2, 0.5]
    for i, value in enumerate(wanted):
        assert abs(found[f"return[{i}]"].limit.value - value) < 1e-9
    # (2 − m) times the share of b = 2: ¼ of the share, and ¼ of Var(√n m) = 2
    np.testing.assert_allclose(found["return[3]"].variance.value, 0.25 + 0.5, rtol=1e-8)

    @tp.program
    def touched(x: tp.Vector, b: tp.Vector.signs(1)):
        return tp.avg(tp.relu(b - tp.avg(x * x)))

    with pytest.raises(tp.NoLimitError, match="tends to 0 for many neurons and moves"):
        tp.derive(touched, tp.FiniteWidth())


def test_the_bias_of_a_kink_beside_signs():
    """θ = avg (3 + b) relu(h + b + ½): h is √S z with S = avg x², so that b is G″(1), G(s) the mean at S = s."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, b: tp.Vector.signs(2)):
        return tp.avg((3 + b) * tp.relu(W @ x + b + 0.5))

    def mean(s):
        z = np.linspace(-12, 12, 240_001)
        weights = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
        return sum((3 + b) * (weights @ np.maximum(np.sqrt(s) * z + b + 0.5, 0)) for b in (2, -2)) / 2

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    assert abs(found.limit.value - mean(1)) < 1e-7
    second = (mean(1.02) - 2 * mean(1) + mean(0.98)) / 0.02**2
    assert abs(found.bias.value - second) < 2e-3 * abs(second)


def test_the_bias_of_a_kink_where_signs_are_drawn_last():
    """θ = avg (3 + b) relu(S x + b + ½), S = avg x²: b is E[(x² − 1) ∂f] + E ∂²f, by derivatives in S."""

    @tp.program
    def program(x: tp.Vector, b: tp.Vector.signs(2)):
        return tp.avg((3 + b) * tp.relu(x * tp.avg(x * x) + b + 0.5))

    z = np.linspace(-12, 12, 240_001)
    density = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()

    def mean(s, beside=1.0):
        return sum((3 + b) * ((density * beside) @ np.maximum(s * z + b + 0.5, 0)) for b in (2, -2)) / 2

    step = 0.02
    second = (mean(1 + step) - 2 * mean(1) + mean(1 - step)) / step**2
    together = (mean(1 + step, z * z - 1) - mean(1 - step, z * z - 1)) / (2 * step)
    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    assert abs(found.limit.value - mean(1)) < 1e-7
    assert abs(found.bias.value - (together + second)) < 3e-3 * (abs(together) + abs(second))
