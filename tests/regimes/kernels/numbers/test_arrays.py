"""Arrays with named dimensions, angles, and pairs that are nearly singular."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tplimits as tp
from tplimits.numbers.moments.angles import atan2
from tplimits.regimes.kernels.numbers.alike import near_inputs
from tplimits.regimes.kernels.numbers.inputs import Inputs
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, averaged, contracted, mapped
from tplimits.regimes.kernels.numbers.tables.singular import blocks, same_data, suspects

SIZES = {"i": 2, "j": 3, "k": 4, "l": 5}


@st.composite
def factors(draw):
    many = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = []
    for _ in range(many):
        labels = draw(st.permutations(sorted(SIZES)))[: draw(st.integers(0, 4))]
        found.append(Labelled(rng.standard_normal([SIZES[x] for x in labels]), tuple(labels)))
    present = sorted({x for f in found for x in f.labels})
    over = set(draw(st.lists(st.sampled_from(present), unique=True))) if present else set()
    return found, over


@given(factors())
@settings(max_examples=150, deadline=None)
def test_contractions_are_those_of_einsum(drawn):
    found, over = drawn
    result = contracted(found, over)
    rest = "".join(sorted({x for f in found for x in f.labels} - over))
    wanted = np.einsum(",".join("".join(f.labels) for f in found) + "->" + rest, *(f.array for f in found))
    assert set(result.labels) == set(rest)
    np.testing.assert_allclose(result.at(tuple(rest)), wanted, rtol=1e-12, atol=1e-12)


def test_functions_broadcast_by_name_and_means_drop_a_name():
    one, other = Labelled(np.arange(3.0), ("j",)), Labelled(np.arange(2.0), ("i",))
    both = mapped(np.add, [one, other])
    assert both.at(("i", "j")).tolist() == [[0, 1, 2], [1, 2, 3]]
    assert averaged(both, "j").array.tolist() == [1, 2]
    assert averaged(one, "draw") is one


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_angles(y, x):
    y += 0.0  # −0 is 0 here, and the angle of (−1, −0) is π
    if abs(y) + abs(x) > 1e-200:
        assert atan2(y, x) == pytest.approx(math.atan2(y, x), rel=2e-15, abs=1e-300)


@tp.network
def tokens(ξ: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d"))


def test_the_same_data_is_found_token_by_token():
    one = np.array([[[1.0, 2.0]], [[3.0, 1.0]]])  # two inputs, one feature, two tokens
    inputs = Inputs({0: one}, {"d": 1, "token": 2}, 2)
    same = same_data(tokens, (inputs, inputs), ("input 1", "input 2"), ("input 1", "token", "input 2", "token‴"))
    found = same.at(("input 1", "input 2", "token", "token‴"))
    wanted = one[:, 0][:, None, :, None] == one[:, 0][None, :, None, :]
    assert (found == wanted).all()
    assert same_data(tokens, (inputs, inputs), ("input 1", "input 2"), ("input 1", "input 2", "token")) is None


def test_the_same_data_on_sides_of_other_sizes():
    one = np.array([[[1.0, 2.0]], [[3.0, 1.0]]])
    other = np.array([[[2.0, 2.0]], [[1.0, 4.0]], [[3.0, 3.0]]])
    sides = (Inputs({0: one}, {"d": 1, "token": 2}, 2), Inputs({0: other}, {"d": 1, "token": 2}, 3))
    same = same_data(tokens, sides, ("input 1", "input 2"), ("input 1", "token", "input 2", "token‴"))
    found = same.at(("input 1", "input 2", "token", "token‴"))
    assert (found == (one[:, 0][:, None, :, None] == other[:, 0][None, :, None, :])).all()


def test_rows_with_the_same_columns_are_one_block():
    flags = Labelled(np.array([[True, False], [False, False], [True, False]]), ("input 1", "input 2"))
    pairs = suspects([flags, Labelled(np.array([False, True, False]), ("input 1",))], (3, 2))
    assert [(r.tolist(), c.tolist()) for r, c in blocks(pairs)] == [([0, 2], [0]), ([1], [0, 1])]


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7, 1e-8])
def test_nearly_coincident_tokens(distance):
    """Θ of the readout of a hidden layer with biases over two tokens, by the same formulas in 40 digits."""

    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        return v * tp.mean(tp.relu(W @ x), over="token")

    X = np.array([[[1.0, 0.5], [0.25, -1.0]], [[1.0 + distance, 0.5], [0.25, -1.0 + distance]]])
    _, found = tp.derive(net, tp.Kernels()).evaluate(X)

    def step(p, c, q):
        θ = mpmath.atan2(mpmath.sqrt(max(p * q - c * c, mpmath.mpf(0))), c)
        root = mpmath.sqrt(max(p * q - c * c, mpmath.mpf(0)))
        return (root + (mpmath.pi - θ) * c) / (2 * mpmath.pi), (mpmath.pi - θ) / (2 * mpmath.pi)

    with mpmath.workdps(40):
        data = [[[mpmath.mpf(float(v)) for v in X[i, :, t]] for t in range(2)] for i in range(2)]

        def gram(i, s, j, t):
            return mpmath.fdot(data[i][s], data[j][t])

        def layer(i, s, j, t):
            p, c, q = gram(i, s, i, s), gram(i, s, j, t), gram(j, t, j, t)
            value, slope = step(p, c, q)
            kernel, flat = step(p / 2, value, q / 2)
            return kernel + flat * (value + slope * c)

        for i in range(2):
            for j in range(2):
                wanted = mpmath.fsum(layer(i, s, j, t) for s in range(2) for t in range(2)) / 4
                assert abs(found[i, j] / float(wanted) - 1) < 1e-10


def test_inputs_are_near_where_an_eighth_of_their_places_is():
    """Places along the last axis, squared distances over all features beside squared lengths."""
    rng = np.random.default_rng(2)
    x, other = rng.standard_normal((2, 3, 16)), rng.standard_normal((2, 3, 16))
    one, two = x.copy(), x.copy()
    one[:, :, 1:], two[:, :, 2:] = other[:, :, 1:], other[:, :, 2:]  # the same at one place of 16, at two of them
    two[0] += 1e-3 * rng.standard_normal((3, 16))
    two[1, :, 0] *= 1.03
    near = [near_inputs(*(Inputs({0: a}, {}, 2) for a in (x, y))).tolist() for y in (x, one, two)]
    assert near == [[[True, False], [False, True]], [[False] * 2] * 2, [[True, False], [False, False]]]
