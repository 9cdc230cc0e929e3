"""Numbers of the symbols of a program, and what is none of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tplimits as tp
from tplimits.law.observables import observables
from tplimits.numbers.expansion import tables
from tplimits.numbers.expansion.fields import TooLarge
from tplimits.numbers.expansion.resolutions import Expanded
from tplimits.numbers.expansion.tables import Asked, numbers_of
from tplimits.program.nodes.entries import size_symbol


@tp.program
def sized(W: tp.Matrix, x: tp.Vector["token"], V: tp.Matrix["n", "k"], y: tp.Vector["k"], s: tp.Scalar, *, c, e=0.5):
    h = W @ tp.sum(x, over="token")
    return tp.avg(h * tp.tanh(s * c * e * h)) + tp.avg(tp.sin(V @ y))


def test_sizes_ratios_and_scalars_have_their_numbers():
    program, found = numbers_of(sized.bind(token=3), {"c": 2.0, "s": 0.7}, {"k": 1.5})
    assert not program.constants and found.ratios == {"n": 1.0, "k": 1.5}
    assert found.leaves == {size_symbol("token"): 3.0} and list(found.scalars.values()) == [0.7]
    _, even = numbers_of(sized, {"c": 2.0, "s": 0.7}, {})
    assert even.ratios == {"n": 1.0, "k": 1.0} and even.leaves == {}, "widths are equal, an axis may have no size yet"


@pytest.mark.parametrize(
    ("given", "ratios", "reason"),
    [
        ({"s": 0.7}, {}, r"the constant `c` of `sized` has no value"),
        ({"c": 2.0, "s": 0.7, "z": 1.0}, {}, r"`z` is not a constant or a given scalar of `sized`"),
        ({"c": 2.0, "s": 0.7}, {"m": 2.0}, "m"),
    ],
)
def test_what_is_missing_or_too_much_is_refused(given, ratios, reason):
    with pytest.raises(tp.EvaluationError, match=reason):
        numbers_of(sized.bind(token=3), given, ratios)


@tp.program
def pair(x: tp.Vector):
    return tp.avg(x * x), tp.avg(x)


def test_runs_on_points_are_averaged_and_their_spread_is_the_error(monkeypatch):
    """The standard error of a mean of so many runs, one degree of freedom fewer; parts are those of the first."""
    rng, rows = np.random.default_rng(0), []

    def run(*asked):
        rows.append(
            (rng.standard_normal(2), rng.standard_normal(2), rng.standard_normal((2, 2)), rng.standard_normal(2))
        )
        return Expanded(*rows[-1], (), (False, True), np.full((2, 1), len(rows)), ((1.0, len(rows)),))

    monkeypatch.setattr(tables, "on_points", run)
    bound, numbers = numbers_of(pair, {}, {})
    found = tables._on_points(bound, observables(bound), numbers, None, Asked("particles", 64, 5, 3))
    assert len(rows) == 5 and found.degrees == 4 and found.method == "particles"
    for i, name in enumerate(("limit", "bias", "covariance", "root")):
        values = np.array([row[i] for row in rows])
        assert getattr(found.value, name) == pytest.approx(values.mean(axis=0))
        spread = ((values - values.mean(axis=0)) ** 2).sum(axis=0) / 4
        assert getattr(found.error, name) == pytest.approx((spread / 5) ** 0.5)
    assert found.value.calls == ((1.0, 1),) and found.value.random == (False, True)


@tp.program
def poles(x: tp.Vector, *, c):
    b = tp.neuron("b")
    return tp.avg(x * tp.avg(1 / (c + x[b]), over=b))


@tp.program
def three(x: tp.Vector):
    b, c = tp.neuron("b"), tp.neuron("c")
    return tp.avg(tp.avg(tp.tanh(x * x[b] * x[c]), over=(b, c)))


def test_functions_of_neurons_that_have_no_expansion():
    for program, given, reason in ((poles, {"c": 0.5}, "x"), (three, {}, "averages over 2 further neurons")):
        with pytest.raises(tp.NoLimitError, match=reason):
            tables.expanded(program, given, {})


def test_a_function_of_two_neurons_that_is_a_product_is_read_as_one():
    """Avg_β x_α z_β = x_α Avg z with z of another width, in L, b and C, to the last digit."""

    @tp.program
    def boxed(V: tp.Matrix["k", "n"], x: tp.Vector, y: tp.Vector):
        z, b = tp.tanh(V @ y) ** 2, tp.neuron("b")
        return tp.avg(tp.tanh(x * tp.avg(x[b] ** 2 + 0 * x, over=b)) ** 2), tp.avg(z)

    @tp.program
    def plain(V: tp.Matrix["k", "n"], x: tp.Vector, y: tp.Vector):
        z = tp.tanh(V @ y) ** 2
        return tp.avg(tp.tanh(x * tp.avg(x**2)) ** 2), tp.avg(z)

    one, other = (tp.derive(p, tp.FiniteWidth()).evaluate(ratios={"k": 2.0}) for p in (boxed, plain))
    for label, e in one.items():
        for part in ("limit", "bias", "variance"):
            assert float(getattr(e, part)) == pytest.approx(float(getattr(other[label], part)), abs=1e-8)


def of_one(limit):
    """An expansion of one observable with this limit."""
    one = np.array([limit])
    return Expanded(one, 2 * one, 3 * one[:, None], 4 * one, (), (False,), np.zeros((1, 0)), ())


@pytest.mark.parametrize(("fine", "coarse"), [(1.0, 1.25), (-3.0, -2.0), (1e6, 1e6), (0.0, 0.0)])
def test_two_grids_that_have_room_tell_the_error(fine, coarse, monkeypatch):
    """Three differences where they do not agree, and rounding; without room it is passed over, alone it tells none."""
    bound, numbers = numbers_of(pair, {}, {})
    left = iter((TooLarge, fine, coarse, TooLarge))

    def read(*asked):
        value = next(left)
        if value is TooLarge:
            raise TooLarge
        return of_one(value)

    monkeypatch.setattr(tables, "fitting", lambda *asked: (0.1, 0.2, 0.3))
    monkeypatch.setattr(tables, "on_grid", read)
    found = tables._on_grids(bound, observables(bound)[:1], numbers, None)
    assert found.method == "quadrature" and float(found.value.limit[0]) == fine
    for name, factor in (("limit", 1), ("bias", 2), ("covariance", 3), ("root", 4)):
        error = float(getattr(found.error, name).ravel()[0])
        rounding = error - 3 * factor * abs(fine - coarse)
        assert 1e-16 < rounding < 1e-6 * (1 + abs(factor * fine))
        assert rounding > 1e-16 * abs(factor * fine)
    left = iter((TooLarge, fine, TooLarge))
    assert tables._on_grids(bound, observables(bound)[:1], numbers, None) is None


@pytest.mark.parametrize("error", [TooLarge, MemoryError])
def test_more_points_than_there_is_room_for(error, monkeypatch):
    def read(*asked):
        raise error

    bound, numbers = numbers_of(pair, {}, {})
    monkeypatch.setattr(tables, "on_points", read)
    with pytest.raises(tp.EvaluationError, match=r"particles=4096: .* give fewer"):
        tables._on_points(bound, observables(bound), numbers, None, Asked("particles", 4096, 2, 0))


def test_what_is_not_finite_is_told(monkeypatch):
    bound, numbers = numbers_of(pair, {}, {})
    for name in ("limit", "bias", "covariance"):
        wrong = replace(of_one(1.0), **{name: getattr(of_one(1.0), name) * np.inf})
        monkeypatch.setattr(tables, "on_points", lambda *asked, wrong=wrong: wrong)
        with pytest.raises(tp.EvaluationError, match="the expansion of `return\\[0\\]` is not finite"):
            tables.table(bound, observables(bound)[:1], numbers, Asked("particles", 8, 2, 0))


@tp.program
def listed(x: tp.Vector, s: tp.Scalar["a", "b"]):
    return tp.avg(tp.tanh(x * tp.sum(s, over=("a", "b"))) ** 2)


def test_families_of_scalars():
    values = np.arange(6.0).reshape(2, 3)
    program = listed.bind(a=2, b=3)
    position = program.position("s")
    _, found = numbers_of(program, {"s": values}, {})
    assert found.scalars == {(position, (i, j)): values[i, j] for i in range(2) for j in range(3)}
    with pytest.raises(tp.EvaluationError, match=r"`s` has shape \(3, 2\); it needs \(2, 3\)"):
        numbers_of(program, {"s": values.T}, {})
    with pytest.raises(tp.EvaluationError, match="the scalar `s` has no value, and means over its law"):
        numbers_of(program, {}, {})
