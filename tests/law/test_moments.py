"""What a dot coefficient in Stein's form is shown as where its Gram matrix is singular."""

from __future__ import annotations

import pytest
import sympy

import tplimits as tp


@pytest.mark.parametrize("size", [1, 2, 3])
def test_images_of_one_vector_share_their_coefficient(size):
    """W y in several spellings: the pseudo-inverse gives each its share of E x h, and all together are it."""
    engine = tp.derive(tp.program(one)).state.engine
    v, c = sympy.symbols("v c", positive=True)
    gram, products = ((v,) * size,) * size, (c,) * size
    found = [engine.written_out(engine.stein(place, gram, products)) for place in range(size)]
    assert [sympy.simplify(f - c / (size * v)) for f in found] == [0] * size


def test_images_of_different_vectors_have_the_inverse():
    engine = tp.derive(tp.program(one)).state.engine
    found = [engine.written_out(engine.stein(place, ((2, 1), (1, 1)), (3, 1))) for place in range(2)]
    assert found == [2, -1]


def one(x: tp.Vector):
    return tp.avg(x * x)
