"""Laws of gradients as rows: order statistics, shares of the mean and pictures of numbers that are known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.depth.tangent import verdict
from tplimits.regimes.depth.tangent.verdict import Gradients, Row


def row(logs, stopped=(), of="W", layer=0.0):
    logs = np.asarray(logs, dtype=float)
    out = np.isin(np.arange(len(logs)), stopped)
    return Row(of, layer, logs, out, np.empty(0), np.empty(0), np.empty(0))


def test_quantiles_count_stopped_paths_above_all_others():
    logs = np.arange(101.0)
    assert row(logs).quantiles == (5.0, 50.0, 95.0)
    assert row(logs, stopped=range(10)).quantiles == (15.0, 60.0, math.inf)
    assert row(logs, stopped=range(101)).quantile(0.05)[0] == math.inf
    error = row(np.random.default_rng(0).standard_normal(4000)).quantile(0.5)[1]
    assert error == pytest.approx(math.sqrt(math.pi / 2 / 4000), rel=0.15)  # ½/φ(0)/√4000


def test_the_mean_and_what_the_largest_hundredth_holds():
    sizes = np.arange(1.0, 301.0)
    assert row(np.log(sizes)).mean == pytest.approx((150.5, (298 + 299 + 300) / sizes.sum()))
    assert row(np.log(sizes), stopped=[299]).mean == pytest.approx((150.0, (297 + 298 + 299) / (sizes.sum() - 300)))
    assert row(np.log([3.0, 1.0])).mean == pytest.approx((2.0, 0.75))
    assert all(map(math.isnan, row([-math.inf] * 2).mean + row([0.0], stopped=[0]).mean))


def test_a_row_is_zero_where_all_that_ran_through_is():
    assert row([-math.inf, -math.inf, 3.0], stopped=[2]).zero and not row([-math.inf, 3.0]).zero
    assert not row([-math.inf], stopped=[0]).zero


@pytest.mark.parametrize(("many", "bins"), [(1000, 40), (400, 20), (60, 4), (2, 4)])
def test_pictures_are_medians_along_depth_and_densities_at_the_first_layer(monkeypatch, many, bins):
    monkeypatch.setattr(verdict, "drawn", lambda curves, across: [(c.name, c.x, c.y) for c in curves])
    logs = np.linspace(-1.0, 3.0, many)
    rows = [
        row(logs + 2, layer=1.0),
        row(logs),
        row([-math.inf, *logs], of="late", layer=1.0),
        row([-math.inf] * 9, of="late", layer=0.5),
        row([4.0] * 9, of="constant"),
        row([-math.inf, 4.0], of="one"),
    ]
    medians, densities = Gradients._pictures(SimpleNamespace(rows=rows), ["W", "late", "constant"])
    middle = float(np.quantile(logs, 0.5, method="lower"))
    assert medians == [("W", (0.0, 1.0), pytest.approx((middle, middle + 2)))]
    ((name, x, y),) = densities
    width = 4.0 / bins
    assert (name, len(x)) == ("W", bins) and x == pytest.approx(-1 + width * (np.arange(bins) + 0.5))
    assert sum(y) * width == pytest.approx(1.0)
    (alone,) = Gradients._pictures(SimpleNamespace(rows=rows), ["late", "one"])
    assert alone == densities


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"paths": -1}, "paths=-1: give a whole number, at least 1"),
        ({"seed": "a"}, "a seed is a whole number"),
        ({"of": range(10**9)}, "a gradient is called by a name"),
        ({"layers": [10**400]}, "places along depth are from 0"),
    ],
)
def test_laws_are_asked_in_numbers_and_names(asked, what):
    """Where nothing is simulated before the first layer, counts and seeds had not been looked at."""
    limit = tp.derive(matrices, tp.Proportional(tangent=True))
    with pytest.raises(tp.EvaluationError, match=what):
        limit.gradients(np.eye(2), **{"T": 0.1, "of": "input", "layers": (0.0,), "paths": 4, **asked})
    for constant, values, told in ((1, (0.1,), "give one of the words"), ("γ", (), "values of the constant")):
        with pytest.raises(tp.EvaluationError, match=told):
            limit.growth(constant, values, np.eye(2))
    with pytest.raises(tp.EvaluationError, match="choose a larger dt"):
        limit.chain(T=1e308, γ=0.5)


@tp.block
def matrices(x: tp.State["token"], W: tp.Matrix, *, γ):
    return tp.sqrt(1 - γ**2) * x + γ * (W @ x)


def test_levels_and_places_of_laws():
    found = Gradients("rows", 1.0, 2, None, (row([1.0, 2.0]),), 0)
    for level in (1.5, "a", [], [0.5, 0.6]):
        with pytest.raises(tp.EvaluationError, match=r"quantile|`q`"):
            found.of("W").quantile(level)
    for name, place in (("U", 0.0), ("W", 0.5), ([], 0.0), ("W", "first")):
        with pytest.raises(tp.EvaluationError, match="was asked for; there are"):
            found.of(name, place)
