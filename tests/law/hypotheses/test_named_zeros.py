"""Vectors that are zero in the limit through several names: no engine takes the jump at them for settled.

Networks have sign((s − 1) y), s = ⟨a|a⟩ → 1, with either sign: its square is 1 at every width, where the limits of the
arguments alone would give sign(0)² = 0.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tplimits as tp

X = np.array([[0.6, 0.8]])


def a_multiple(y, s, W, step):
    z = s * y
    return step(1 * z) - y


def twice_a_multiple(y, s, W, step):
    z = s * y
    double = step(2 * z)
    return step(double / 2) - y


def an_image(y, s, W, step):
    z = s * y
    double = step(2 * z)
    p, q = W @ double, W @ y
    return step(p) - 2 * q


def halves(y, s, W, step):
    """Each on its side: 0 for y < 0 at every width, (s − 1) y for y > 0."""
    above, below = tp.maximum(y, 0), tp.minimum(y, 0)
    double = step(2 * s * above)
    both = step(below + double / 2)
    return both - y


#: and the mean of sign² over networks
VECTORS = {a_multiple: 1, twice_a_multiple: 1, an_image: 1, halves: 0.5}


NAMES = itertools.count()


def named(value):
    """The value under a name of its own, so that it is an instruction."""
    return value.named(f"step{next(NAMES)}")


def of_width(vector, moved):
    @tp.program
    def program(W: tp.Matrix, y: tp.Vector, a: tp.Vector):
        f = vector(y, moved * tp.avg(a * a), W, named)
        return tp.avg(tp.sign(f) ** 2), tp.avg(tp.sign(f) * y)

    return tp.derive(program).evaluate()["return[1]"].value


def of_kernels(vector, moved, mean=0):
    law = tp.init(mean=mean, std=1)

    @tp.network
    def network(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix,
        v: tp.Vector,
        a: tp.Vector,
        b: tp.Vector = law,
    ):
        h = tp.sum(U * ξ, over="d")
        f = vector(h if mean == 0 else b, moved * tp.avg(a * a), W, named)
        return v * (tp.sign(f) + 0 * h)

    return tp.derive(network, tp.Kernels(train=())).evaluate(X).nngp.item()


def of_a_mean(vector, moved):
    """A vector of another law, which is no Gaussian node."""
    return of_kernels(vector, moved, mean=0.5)


@pytest.mark.parametrize("engine", [of_width, of_kernels, of_a_mean])
@pytest.mark.parametrize("vector", VECTORS)
def test_the_limit_lands_on_the_jump(engine, vector):
    with pytest.raises(tp.TplimitsError, match="lands on a jump"):
        engine(vector, 1)


@pytest.mark.parametrize("vector", VECTORS)
def test_beside_it_there_is_a_limit(vector):
    """At s → 2 the sign is that of y, or of what is left of it."""
    assert of_kernels(vector, 2) == pytest.approx(VECTORS[vector], abs=1e-9)
    half = 0.5 if vector is halves else 1
    expected = 0 if vector is an_image else half * np.sqrt(2 / np.pi)  # W y and y are independent
    assert of_width(vector, 2) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("vector", VECTORS)
def test_networks_jump(vector):
    """By NumPy: the square of the sign does not go to 0, and its product with y keeps fluctuating."""
    rng = np.random.default_rng(0)
    squares, products = [], []
    for _ in range(40):
        n = 400
        y, a, W = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, n)) / np.sqrt(n)
        s = (a @ a) / n
        f = {
            a_multiple: s * y - y,
            twice_a_multiple: s * y - y,
            an_image: (2 * s - 2) * (W @ y),
            halves: np.maximum(y, 0) * (s - 1),
        }[vector]
        squares.append(np.mean(np.sign(f) ** 2))
        products.append(np.mean(np.sign(f) * (W @ y if vector is an_image else y)))
    assert np.mean(squares) == pytest.approx(VECTORS[vector], abs=0.02)
    assert np.std(products) > 0.3  # ±√(2/π), or half of it
