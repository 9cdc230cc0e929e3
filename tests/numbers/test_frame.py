"""Independent coordinates: exact covariances, dependent directions left out, and what is no covariance."""

from __future__ import annotations

import numpy
import pytest

from tplimits.errors import EvaluationError
from tplimits.numbers.frame import independent_frame


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_coordinates_have_the_covariance_they_were_made_from(rank):
    """The first forms first: each coordinate is met by the form that brought it in, and by none before it."""
    factor = numpy.random.default_rng(rank).uniform(-1, 1, (4, rank))
    frame = independent_frame(factor @ factor.T)
    assert frame.rank == rank and frame.factor.shape == (4, rank)
    assert frame.factor @ frame.factor.T == pytest.approx(factor @ factor.T, abs=1e-12)
    assert numpy.triu(frame.factor[:rank], 1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("share", "rank"), [(0.9e-10, 1), (1.1e-10, 2)])
def test_a_direction_of_less_than_a_tenth_of_a_billionth_is_dependent(share, rank):
    scale = 7.0
    assert independent_frame(scale * numpy.array([[1.0, 1.0], [1.0, 1 + share]])).rank == rank


def test_variances_that_are_rounding_of_what_they_were_added_up_from_are_zero():
    """a − b of two forms of one function: 10⁻¹⁵ of what was subtracted."""
    for variance, rank in ((0.9e-14, 0), (1.1e-14, 1), (0.0, 0), (-0.9e-6, 0)):
        assert independent_frame(numpy.array([[4 * variance]]), numpy.array([4.0])).rank == rank


def test_what_is_no_gram_matrix_is_refused():
    with pytest.raises(EvaluationError, match=r"variance -4\.4e-06 < 0 met in a quadrature: not a Gram matrix"):
        independent_frame(numpy.array([[-4.4e-6]]), numpy.array([4.0]))
    with pytest.raises(EvaluationError, match="variance -3 < 0"):
        independent_frame(numpy.array([[1.0, 2.0], [2.0, 1.0]]))


def test_a_form_that_never_moves_has_covariances_of_rounding_with_those_that_do():
    """Its variance may be negative by the square of that rounding."""
    off = 0.9e-14
    assert independent_frame(numpy.array([[1.0, off], [off, 0.0]]), numpy.array([1.0, 0.0])).rank == 1
    with pytest.raises(EvaluationError):
        independent_frame(numpy.array([[1.0, 2e-14], [2e-14, 0.0]]), numpy.array([1.0, 0.0]))


def test_nothing_has_no_coordinates():
    assert independent_frame(numpy.zeros((0, 0))).factor.shape == (0, 0)
