"""Functions that bend between nodes are noticed, others are not; means over cells are those of what lies in between."""

from __future__ import annotations

import numpy
import pytest
import scipy.special

from tplimits.numbers.expansion import cells
from tplimits.numbers.expansion.fields import Field
from tplimits.numbers.expansion.nodes import Frame
from tplimits.numbers.expansion.resolutions import STEPS


def on_nodes(step, *derivatives):
    """A variable as its field, and F, F′ and F″ of it."""
    frame = Frame(step, frozenset({0}))
    x = frame.normal("n")
    return frame, x, [Field(x.dims, numpy.asarray(f(x.values))) for f in derivatives]


def softplus(k, at=0.0):
    s = scipy.special.expit
    return (
        lambda u: numpy.logaddexp(0, k * (u - at)),
        lambda u: k * s(k * (u - at)),
        lambda u: k**2 * s(k * (u - at)) * s(-k * (u - at)),
    )


def wave(k):
    return lambda u: numpy.sin(k * u), lambda u: k * numpy.cos(k * u), lambda u: -(k**2) * numpy.sin(k * u)


def tanh(k):
    t = numpy.tanh
    return (
        lambda u: t(k * u),
        lambda u: k * (1 - t(k * u) ** 2),
        lambda u: -2 * k**2 * t(k * u) * (1 - t(k * u) ** 2),
    )


@pytest.mark.parametrize("step", STEPS)
def test_what_bends_between_nodes(step):
    """At a node, between two, far off where no weight is, and waves that look like others on these nodes."""
    for sharp in (
        softplus(100),
        softplus(100, 0.37 * step),
        softplus(50, -5.1),
        tanh(200),
        wave(2 * numpy.pi / step - 1),
    ):
        assert cells.bends(*on_nodes(step, *sharp))
    for smooth in (softplus(1), softplus(1, -20.0), tanh(1), wave(1)):
        assert not cells.bends(*on_nodes(step, *smooth))


@pytest.mark.parametrize("at", [0.0, 0.05, 0.135])
def test_means_over_cells_know_of_a_peak_that_nodes_miss(at):
    """∫ f″ φ = k φ(at) for a softplus that turns sharply there, to the order of the square of the distance of nodes."""
    k, peak = 400.0, numpy.exp(-(at**2) / 2) / numpy.sqrt(2 * numpy.pi)
    frame, x, found = on_nodes(STEPS[0], *softplus(k, at))
    at_nodes = frame.expectation(found[2])
    assert not 0.5 < at_nodes / (k * peak) < 2
    assert frame.expectation(cells.over_cells(frame, x, found)[2]) == pytest.approx(k * peak, rel=0.05)
