"""Derivatives by averages that are held in stacks, beside the same ones held one by one."""

import numpy
import pytest

from tplimits.numbers.expansion.averages import Averages
from tplimits.numbers.expansion.fields import Field, constant, times
from tplimits.numbers.expansion.jets import Jet, Slopes, all_slopes
from tplimits.numbers.expansion.nodes import Frame

RNG = numpy.random.default_rng(3)
SIZES = {1: 3, 2: 4}


def field(*dims):
    return Field(dims, RNG.standard_normal([SIZES[d] for d in dims]))


def dense(one):
    """A field on the grid of all variables."""
    shape = [SIZES[d] if d in one.dims else 1 for d in SIZES]
    return numpy.broadcast_to(one.values.reshape(shape), tuple(SIZES.values()))


def both():
    """Slopes and their fields: of some averages in one stack, of others in two or three, in another order."""
    parts = [{5: field(1), 0: field(), 2: field(1, 2)}, {2: field(2), 5: field(1)}, {0: field(1, 2), 7: field()}]
    sums = {i: sum(dense(p[i]) for p in parts if i in p) for p in parts for i in p}
    return all_slopes(map(Slopes.of, parts)), sums


def same(slopes, expected):
    assert len(slopes) == len(expected) and set(slopes) == set(expected) and bool(slopes)
    for i, values in expected.items():
        assert dense(slopes[i]) == pytest.approx(values, abs=1e-14)


def test_parts_of_a_derivative_add_up():
    slopes, expected = both()
    same(slopes, expected)
    assert len(slopes.stacks) == len({stack.dims for _, stack in slopes.stacks}), "one stack for the same variables"
    assert all(list(rows) == sorted(rows) for rows, _ in slopes.stacks)
    assert not Slopes() and not dict(Slopes())


@pytest.mark.parametrize("dims", [(), (1,), (2,), (1, 2)])
def test_factors_reach_every_part(dims):
    slopes, expected = both()
    factor = field(*dims)
    same(slopes.times(factor), {i: v * dense(factor) for i, v in expected.items()})


def test_products_and_their_covariance():
    """(uw)′ = u′w + uw′, and ⟨u′, w′⟩ beside the product of the shifts, from fields one by one."""
    averages = Averages(Frame(0.5), {"n": 1.0})
    g = averages.frame.normal("n")
    own = [Jet(times(g, g)), averages.product(Jet(g), Jet(times(g, g)))]
    first, second = (averages.average(x, "n", "") for x in own)
    u, w = averages.product(Jet(g), first), averages.product(Jet(times(g, g)), averages.sum(first, second))
    found = averages.product(u, w)
    for i in (0, 1):
        right = sum(
            x.slopes[i].values * y.value.values if i in x.slopes else 0.0 for x, y in ((u, w), (w, u))
        )  # all of the same variable
        assert found.slopes[i].values == pytest.approx(right, abs=1e-12)
    C = averages.covariance
    inner = sum(u.slopes[i].values * C[i, k] * w.slopes[k].values for i in u.slopes for k in w.slopes)
    assert averages.inner(u.slopes, w.slopes).values == pytest.approx(inner, abs=1e-10)
    assert C[0, 0] == pytest.approx(2, abs=1e-9) and C[1, 1] == pytest.approx(15, abs=1e-8)


def test_scalars_near_zero_beside_what_moves_them():
    assert Jet(constant(1e-9)).is_near_zero(1e-6)
    small = Slopes.of({0: constant(1e-8), 1: constant(-1e-9)})
    assert not Jet(constant(1e-9), small).is_near_zero(1e-6)
    assert Jet(constant(1e-15), small).is_near_zero(1e-6)
    assert not Jet(field(1), small).is_near_zero(1e6), "no scalar"
    large = Slopes.of({0: constant(1e3)})
    assert Jet(constant(1e-4), large).is_near_zero(1e-6), "a thousand times what is off by 1e-7"
    assert not Jet(constant(2e-3), large).is_near_zero(1e-6)
