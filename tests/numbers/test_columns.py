"""Columns of particles: orthogonal to what was seen while there is room, the same after a checkpoint."""

from __future__ import annotations

import tracemalloc

import numpy
import pytest
import scipy.stats

from tplimits.errors import EvaluationError
from tplimits.numbers.columns import (
    AntitheticPopulation,
    Basis,
    Growing,
    Population,
    _rotated,
    orthonormal,
    set_rng_state,
)

SIZE = 96


def made(kind, white=True, seed=0):
    return kind(SIZE, white, numpy.random.default_rng(seed))


def test_rows_that_grow_are_kept():
    rng, growing, all_rows = numpy.random.default_rng(0), Growing(3), []
    for count in (1, 14, 1, 1, 30, 0, 17):
        rows = rng.standard_normal((count, 3))
        growing.append(rows)
        all_rows.append(rows)
        assert (growing.rows == numpy.concatenate(all_rows)).all()


def test_rows_that_are_not_there_take_no_memory():
    size = 1 << 16
    tracemalloc.start()
    try:
        growing = Growing(size)
        assert tracemalloc.get_traced_memory()[1] < size
        growing.append(numpy.ones((1, size)))
        # the row itself, which is kept as it is
        assert tracemalloc.get_traced_memory()[0] <= 8 * size + size
        growing.append(numpy.ones((1, size)))
        assert tracemalloc.get_traced_memory()[0] <= 4 * 8 * size + size
    finally:
        tracemalloc.stop()


def test_a_basis_takes_away_twice_where_less_than_half_is_left():
    rng, basis = numpy.random.default_rng(1), Basis(SIZE)
    basis.append(orthonormal(rng.standard_normal((5, SIZE)), numpy.ones(5)))
    across = basis.rest(rng.standard_normal((1, SIZE)))[1][0]
    along = rng.standard_normal(5) @ basis.rows
    for part in (1e-1, 3e-3, 1e-5, 1e-9):
        x = along + part * across
        coordinates, left = basis.rest(numpy.stack([x, across, numpy.zeros(SIZE)]))
        assert (abs(left @ basis.rows.T).max(axis=1) <= 1e-15 * numpy.linalg.norm(left, axis=1)).all(), part
        assert left[0] == pytest.approx(part * across, abs=1e-14), part
        assert coordinates[0] @ basis.rows + left[0] == pytest.approx(x, abs=1e-13)
        assert not left[2].any() and not coordinates[2].any()


def test_a_basis_splits_what_it_sees():
    rng, basis = numpy.random.default_rng(0), Basis(SIZE)
    first = rng.standard_normal((3, SIZE))
    coordinates, left, rows = basis.new_directions(first)
    assert coordinates.shape == (3, 0) and (left == first).all()
    basis.append(rows)
    assert rows @ rows.T == pytest.approx(numpy.eye(3), abs=1e-14)
    x = numpy.stack([first[0] + 1e-4 * rng.standard_normal(SIZE), first[1] * 2 - first[2], rng.standard_normal(SIZE)])
    coordinates, left, new = basis.new_directions(x)
    assert coordinates @ rows + left == pytest.approx(x, abs=1e-13)
    assert abs(left @ rows.T).max() < 1e-15 * SIZE, "also of what all but lies in it"
    assert len(new) == 2 and abs(new @ rows.T).max() < 1e-11
    with pytest.raises(EvaluationError, match="not finite"):
        basis.new_directions(numpy.full((1, SIZE), numpy.inf))


def test_what_is_short_beside_its_length_is_no_direction():
    rows = numpy.eye(3)[:2] * [[1.0], [1.1e-6]]
    assert len(orthonormal(rows, numpy.ones(2))) == 2
    assert len(orthonormal(rows * [[1.0], [0.8]], numpy.ones(2))) == 1
    assert len(orthonormal(numpy.zeros((2, 3)), numpy.zeros(2))) == 0


@pytest.mark.parametrize("kind", [Population, AntitheticPopulation])
def test_white_columns_are_orthogonal_to_all_seen_and_have_variance_one(kind):
    population, rng = made(kind), numpy.random.default_rng(1)
    first = population.fresh(2)
    seen = rng.standard_normal((2, SIZE)) ** 2 + first[0]
    population.see(seen)
    second = population.fresh(3)
    both = numpy.concatenate([first, second])
    assert both @ both.T == pytest.approx(SIZE * numpy.eye(5), abs=1e-11)
    assert second @ seen.T == pytest.approx(numpy.zeros((3, 2)), abs=1e-10)
    assert both.sum(axis=1) == pytest.approx(numpy.zeros(5), abs=1e-11)
    if kind is AntitheticPopulation:
        assert (both[:, : SIZE // 2] == -both[:, SIZE // 2 :]).all()


@pytest.mark.parametrize(("kind", "most"), [(Population, 23), (AntitheticPopulation, 24)])
def test_a_quarter_of_the_particles_are_spent_on_columns(kind, most):
    """One of them on the mean, which odd columns need not."""
    population = made(kind)
    kept = population.fresh(most)
    assert kept @ kept.T == pytest.approx(SIZE * numpy.eye(most), abs=1e-10)
    more = population.fresh(1)
    assert abs(more @ kept.T).max() > 1 and not population.white and population.seen.count == 0
    assert made(kind).fresh(most + 1).std() == pytest.approx(1, abs=0.1)
    assert abs(made(kind).fresh(most + 1).sum(axis=1)).max() > 1


@pytest.mark.parametrize("kind", [Population, AntitheticPopulation])
def test_plain_columns_are_normal_and_orthogonal_to_what_is_asked(kind):
    population = made(kind, white=False)
    beside = Basis(SIZE)
    beside.append(orthonormal(numpy.ones((1, SIZE)), numpy.ones(1)))
    assert population.fresh(4, beside).sum(axis=1) == pytest.approx(numpy.zeros(4), abs=1e-12)
    values = population.fresh(60).ravel()
    assert scipy.stats.kstest(values, scipy.stats.norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("kind", [Population, AntitheticPopulation])
@pytest.mark.parametrize("generator", [numpy.random.PCG64, numpy.random.SFC64, numpy.random.Philox])
def test_a_checkpoint_goes_on_with_the_same_columns(kind, generator):
    population = kind(SIZE, True, numpy.random.Generator(generator(3)))
    population.fresh(2)
    state = population.state()
    kept = {**state, "seen": {"rows": state["seen"]["rows"].copy()}}
    expected = population.fresh(3)
    other = kind(SIZE, True, numpy.random.Generator(generator(9)))
    other.fresh(5)
    other.restore(kept)
    assert (other.fresh(3) == expected).all()


def test_a_damaged_state_of_a_generator_is_refused():
    rng = numpy.random.default_rng(0)
    for text in ("", "{}", "[1]", '{"bit_generator": "PCG64", "state": 3}', '{"bit_generator": "MT19937"}'):
        with pytest.raises(EvaluationError, match="state of a generator of random numbers is damaged"):
            set_rng_state(rng, text)


def test_one_row_needs_no_decomposition(monkeypatch):
    row = numpy.random.default_rng(3).standard_normal((1, 64))
    columns, triangle = numpy.linalg.qr(row.T)
    expected = columns.T * numpy.sign(triangle[0, 0])
    monkeypatch.setattr(numpy.linalg, "qr", None)
    assert numpy.allclose(_rotated(row), expected, rtol=1e-14)
