"""Means that hardly any point of a sample sees: their spread is no error, and 0 ± 0 no number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import tplimits as tp


@tp.program
def far(a: tp.Vector, b: tp.Vector, c: tp.Vector, d: tp.Vector, e: tp.Vector):
    return tp.avg(tp.relu(a + b + c + d + e - 12))


@tp.program
def corner(a: tp.Vector, b: tp.Vector, c: tp.Vector, d: tp.Vector, e: tp.Vector):
    return tp.avg(tp.step(a - 2) * tp.step(b - 2) * tp.step(c - 2) * tp.step(d - 2) * tp.step(e - 2))


@tp.program
def few(a: tp.Vector, b: tp.Vector, c: tp.Vector, d: tp.Vector, e: tp.Vector):
    return tp.avg(tp.relu(tp.tanh(a) + tp.tanh(b) + tp.tanh(c) + tp.tanh(d) + tp.tanh(e) - 4.5))


@tp.program
def image(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
    return tp.avg((W @ tp.relu(x + y - 9)) ** 2)


@pytest.mark.parametrize("program", [far, corner, few, image])
def test_what_no_particle_sees_is_no_number(program):
    with pytest.raises(tp.EvaluationError, match="not 0: their spread says nothing of its error"):
        tp.derive(program).evaluate(method="particles")


@pytest.mark.parametrize("program", [far, pytest.param(corner, marks=pytest.mark.long), few])
@pytest.mark.parametrize("method", ["auto", "particles"])
def test_nor_is_it_one_to_order_one_over_n(program, method):
    """Limit, b and C were 0 ± 0, for 1.6e-8 and more."""
    with pytest.raises(tp.EvaluationError, match="not 0: their spread says nothing of its error"):
        tp.derive(program, tp.FiniteWidth()).evaluate(method=method)


def test_closed_forms_know_them_all_the_same():
    s = np.sqrt(5)
    found = (float(tp.derive(p).evaluate()["return"]) for p in (far, corner))
    wanted = s * (norm.pdf(12 / s) - 12 / s * norm.sf(12 / s)), norm.sf(2) ** 5
    assert list(found) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize(
    "nothing",
    [
        lambda x, y: tp.relu(-(x**2)),
        lambda x, y: tp.relu(x) * tp.relu(-x) * y,
        lambda x, y: tp.step(x - y - 1) * tp.step(y - x) * tp.tanh(y),
        lambda x, y: tp.relu(tp.tanh(x) + tp.tanh(y) - 2),
        lambda x, y: tp.step(-1 - x**2) * y,
    ],
)
def test_what_is_zero_by_identity_stays_zero(nothing):
    @tp.program
    def none(x: tp.Vector, y: tp.Vector):
        return tp.avg(nothing(x, y))

    for limit in (
        tp.derive(none).evaluate(method="particles")["return"],
        tp.derive(none, tp.FiniteWidth()).evaluate(method="particles")["return"].limit,
    ):
        assert limit.value == 0


def test_what_a_scalar_keeps_shut_stays_zero_on_wider_laws_too():
    @tp.program
    def shut(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * x)
        return tp.avg(tp.step(s - 2) * y * y)

    assert tp.derive(shut).evaluate(method="particles")["return"].value == 0


@tp.program
def beyond_all_nodes(x: tp.Vector, y: tp.Vector, *, c):
    return tp.avg(tp.step(x * x - c * c)), tp.avg(tp.step(x * x + y * y - c * c)), tp.avg(tp.tanh(tp.relu(x - c)))


@pytest.mark.parametrize("c", [14, 20, 30])
def test_what_lies_beyond_all_nodes_is_within_the_error(c):
    found = list(tp.derive(beyond_all_nodes).evaluate(c=c).values())
    truths = [2 * norm.sf(c), np.exp(-c * c / 2)]
    assert all(abs(number.value - truth) <= number.error < 1e-20 for number, truth in zip(found, truths, strict=False))
    # E tanh(relu(x − c)) < P(x > c), and a fiftieth of that is less
    assert norm.sf(c) / 50 <= found[2].value + found[2].error < 1e-30


@tp.program
def island(x: tp.Vector):
    return tp.avg(1e6 * tp.step(1e-6 - tp.abs(x - 1)))


@tp.program
def island_of_four(a: tp.Vector, b: tp.Vector, c: tp.Vector, d: tp.Vector):
    return tp.avg(1e6 * tp.step(1e-6 - tp.abs(a + 2 * c * d - 1)) * tp.step(tp.tanh(b)))


@tp.program
def no_island(a: tp.Vector, b: tp.Vector, c: tp.Vector, d: tp.Vector):
    return tp.avg(tp.relu(a * c - b * d) * tp.relu(b * d - a * c) * tp.tanh(d))


def test_islands_that_all_particles_pass_by_are_refused():
    with pytest.raises(tp.EvaluationError, match="particles pass by what makes return"):
        tp.derive(island).evaluate(method="particles")
    assert tp.derive(island).evaluate()["return"].value == pytest.approx(2 * norm.pdf(1), rel=1e-6)


@pytest.mark.long
def test_integrals_stand_where_particles_pass_by():
    # 2·10⁻⁶ times the density of a + 2 c d at 1, which is that of a + |c| 2 d: a mean over c alone
    grid = (np.arange(200_000) + 0.5) / 200_000 * 16 - 8
    truth = (norm.pdf(grid) * norm.pdf(1, scale=np.sqrt(1 + 4 * grid**2))).sum() * 16 / 200_000
    found = tp.derive(island_of_four).evaluate()["return"]
    assert found.method == "quadrature" and abs(found.value - truth) <= 3 * found.error < 0.3
    with pytest.raises(tp.EvaluationError, match="particles pass by what makes return"):
        tp.derive(island_of_four).evaluate(method="particles")
    for method in ("auto", "particles"):
        assert tp.derive(no_island).evaluate(method=method)["return"].value == 0
