"""Entries that nobody asks for do not matter; loops give what the interpreter gives; close inputs keep digits."""

from __future__ import annotations

import random

import mpmath
import numpy as np
import pytest
import sympy
import tapped_networks as nets

import tplimits as tp
from tplimits.numbers.loops import machine
from tplimits.regimes.kernels.derivation.demand import ties
from tplimits.regimes.kernels.derivation.leaves import TableEntry
from tplimits.regimes.kernels.numbers import request
from tplimits.regimes.kernels.numbers.passes import plan
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled
from tplimits.regimes.kernels.numbers.tables.shifts import grid

Array = np.ndarray


def images(many: int, size: int, channels: int = 2) -> Array:
    return np.random.default_rng(size).standard_normal((many, channels, size))


# -- demand ---------------------------------------------------------------------------------------------


def equal_places(network: tp.Program) -> dict[str, bool]:
    """Of each table with axes, by name: whether the kernels of two inputs want equal places alone."""
    kernels = tp.derive(network, tp.Kernels()).derivation
    found = kernels.demand.cross
    return {t.name: len(found[t.number]) == len(t.left) for t in kernels.tables if t.left and t.number in found}


def test_a_readout_of_places_asks_for_equal_places():
    asked = equal_places(nets.network(nets.line(6), 6, nets.line(6), mean=False))
    assert asked and all(asked.values())


def test_a_mean_over_places_asks_for_all():
    assert not any(equal_places(nets.network(nets.line(6), 6, nets.line(6), mean=True)).values())


def test_a_pool_asks_for_all_places_before_it():
    kernels = tp.derive(nets.pooling(8, mean=False), tp.Kernels()).derivation
    kinds = {t.left: len(kernels.demand.cross[t.number]) for t in kernels.tables if t.number in kernels.demand.cross}
    assert kinds["half",] == 1
    assert kinds["at",] == 0


def test_the_last_block_is_read_at_equal_tokens():
    kernels = tp.derive(nets.transformer(3), tp.Kernels()).derivation
    demands = [
        len(kernels.demand.cross[t.number]) for t in kernels.tables if t.left and t.number in kernels.demand.cross
    ]
    assert demands[0] == 0, "attention mixes tokens"
    assert demands[-1] == 1, "the readout does not"


def test_ties_are_those_of_equal_indices():
    kernels = tp.derive(nets.network(nets.line(6), 6, nets.line(6), mean=False), tp.Kernels()).derivation
    table = next(t for t in kernels.tables if t.left)
    apart, together = (TableEntry(*map(sympy.Integer, (table.number, 1, 2, *places))) for places in ((0, 1), (1, 1)))
    assert not ties(table, apart)
    assert ties(table, together) == {(0, 0)}


NETWORKS = {
    "places": nets.network(nets.line(6), 6, nets.line(6), mean=False),
    "stride": nets.network(nets.line(7, stride=2), 7, nets.line(4), mean=False),
    "circular": nets.network(nets.line(6, circular=True), 6, nets.line(6, dilation=2), mean=False),
    "pool": nets.pooling(8, mean=False),
    "mean": nets.network(nets.line(5), 5, nets.line(5), mean=True),
    "group": nets.grouped(5, tied=False),
    "attention": nets.transformer(3),
}


class Poisoned(Tables):
    """Every entry that no reader asks for is NaN."""

    def _found(self, key):
        value, gap = super()._found(key)
        number, left, right, _ = key
        table, demand = self.derivation.recursion.tables[number], self.derivation.demand
        equal = (demand.own if left == right else demand.cross).get(number, frozenset())
        if left == right:  # variances at equal places are wanted always
            everything = frozenset((k, k) for k in range(len(table.left)))
            equal = equal if number in demand.own else everything
        array = np.array(value.array, dtype=float)
        right = array.ndim - len(table.right)
        for p, q in equal:
            k, m = right - len(table.left) + p, right + q
            view = np.moveaxis(array, (k, m), (0, 1))
            view[~np.eye(*view.shape[:2], dtype=bool)] = np.nan
        self.poisoned = getattr(self, "poisoned", 0) + int(np.isnan(array).sum())
        return Labelled(array, value.labels), gap


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_not_demanded_does_not_matter(name):
    """Whole tables with NaN wherever nobody asks, and plans that never compute these entries."""
    limit = tp.derive(NETWORKS[name], tp.Kernels())
    X, Y = images(3, 8 if name == "pool" else _size(name)), images(2, 8 if name == "pool" else _size(name)) + 0.5
    asked = request.request(limit.derivation, X, Y, {}, None)
    tables = Poisoned(limit.derivation, (asked.one, asked.other), asked.constants)
    whole = request.of_tables(asked, tables)
    assert tables.poisoned > 0 or name == "mean"
    for one, two in zip(limit.evaluate(X, Y), whole, strict=True):
        assert np.isfinite(two).all()
        np.testing.assert_allclose(one, request.dropped(asked, two), rtol=1e-12)


def _size(name: str) -> int:
    return {"places": 6, "stride": 7, "circular": 6, "mean": 5, "group": 5, "attention": 3}[name]


# -- shifts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "places",
    [
        nets.line(7),
        nets.line(7, stride=2),
        nets.line(9, dilation=3),
        nets.line(8, width=5),
        nets.image(4),
        nets.image(3, 5),
        nets.halves(8),
    ],
)
def test_affine_index_arrays_become_slices(places):
    assert grid(places, int(places.max()) + 1) is not None


@pytest.mark.parametrize(
    "places",
    [nets.line(7, circular=True), np.array([[2, 0, 1]]), np.repeat(np.arange(4), 2)[None], np.array([[3, 2, 1]])],
)
def test_other_index_arrays_are_gathered(places):
    assert grid(places, 4 if places.max() < 4 else 7) is None


# -- compiled -------------------------------------------------------------------------------------------


def both_ways(limit: tp.KernelLimit, X: Array, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple, tuple]:
    arrays = tuple(limit.evaluate(X))
    with monkeypatch.context() as patch:
        patch.setattr(plan, "_WORTHWHILE", -1.0)
        patch.setattr(plan, "_FEW", -1)
        patch.setattr(machine, "_SPEED", 0)
        loops = tuple(limit.evaluate(X))
    return arrays, loops


@pytest.mark.parametrize("seed", range(4))
def test_loops_are_the_interpreter(seed, monkeypatch):
    rng = random.Random(seed)
    size = rng.choice((4, 5, 6))
    first = nets.line(size, rng.choice((1, 3)), rng.choice((1, 2)), rng.choice((1, 2)), rng.random() < 0.3)
    many = first.shape[1]
    second = nets.line(many, 3, 1, rng.choice((1, 2)), rng.random() < 0.3)
    if rng.random() < 0.3:
        second = np.repeat(np.arange(many), 2)[None]
    limit = tp.derive(nets.network(first, size, second, rng.random() < 0.5), tp.Kernels())
    X = images(3, size)
    X[1] = X[0]
    X[1, 0, 1] += 1e-7
    for one, two in zip(*both_ways(limit, X, monkeypatch), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("name", ["pool", "group", "attention"])
def test_loops_of_pools_groups_and_attention(name, monkeypatch):
    X = images(2, 8 if name == "pool" else _size(name))
    for one, two in zip(*both_ways(tp.derive(NETWORKS[name], tp.Kernels()), X, monkeypatch), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_a_loop_that_is_really_compiled(monkeypatch):
    limit, X = tp.derive(NETWORKS["places"], tp.Kernels()), images(5, 6)
    wanted = limit.evaluate(X)
    monkeypatch.setattr(plan, "_WORTHWHILE", -1.0)
    monkeypatch.setattr(plan, "_FEW", -1)
    for _ in range(2):  # the second call uses the arrays of the first again
        for one, two in zip(limit.evaluate(X), wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    for one, two in zip(limit.evaluate(2 * X), wanted, strict=True):
        np.testing.assert_allclose(one, 4 * two, rtol=1e-12)


# -- nearly equal inputs --------------------------------------------------------------------------------


def by_hand(X: Array, pool: bool) -> tuple[Array, Array]:
    """Two convolutions of three taps and a readout of places, or of their mean, in 40 digits."""
    with mpmath.workdps(40):
        many, _, size = X.shape
        data = [[[mpmath.mpf(float(v)) for v in X[n, :, a]] for a in range(size)] for n in range(many)]

        def inside(a):
            return 0 <= a < size

        def tapped(table, n, a, m, b):
            return mpmath.fsum(table(n, a + t, m, b + t) for t in (-1, 0, 1) if inside(a + t) and inside(b + t))

        def layer(table):
            known: dict = {}

            def found(n, a, m, b):
                if (n, a, m, b) not in known:
                    p, c, q = (tapped(table, *k) for k in ((n, a, n, a), (n, a, m, b), (m, b, m, b)))
                    root = mpmath.sqrt(max(p * q - c * c, mpmath.mpf(0)))
                    turn = mpmath.pi - mpmath.atan2(root, c)
                    known[n, a, m, b] = (root + turn * c) / (2 * mpmath.pi), turn / (2 * mpmath.pi), c
                return known[n, a, m, b]

            return found

        first = layer(lambda n, a, m, b: mpmath.fdot(data[n][a], data[m][b]))
        second = layer(lambda *k: first(*k)[0])

        def tangent(*k):
            inner = tapped(lambda *i: first(*i)[0] + first(*i)[1] * first(*i)[2], *k)
            return second(*k)[0] + second(*k)[1] * inner

        places = [(a, b) for a in range(size) for b in range(size) if pool or a == b]
        sums = [
            [[float(mpmath.fsum(f(n, a, m, b) for a, b in places) / size**2) for m in range(many)] for n in range(many)]
            for f in (lambda *k: second(*k)[0], tangent)
        ]
        return np.array(sums[0]), np.array(sums[1])


@pytest.mark.parametrize("pool", [False, True])
def test_nearly_equal_inputs_keep_their_digits(pool):
    x, e = np.random.default_rng(3).standard_normal((2, 2, 4))
    one = x.copy()
    one[0, 2] += 1e-3
    X = np.stack([x, x + 1e-7 * e, one, x.copy(), x + 1e-10 * e])
    limit = tp.derive(nets.network(nets.line(4), 4, nets.line(4), mean=pool), tp.Kernels())
    found = limit.evaluate(X)
    for array, wanted in zip(found, by_hand(X, pool), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-12)
        np.testing.assert_array_equal(array, array.T)
    np.testing.assert_allclose(found.ntk[0, 3], found.ntk[0, 0], rtol=1e-15)


def test_collinear_inputs_at_every_place():
    x = np.random.default_rng(4).standard_normal((2, 4))
    X = np.stack([x, 1.5 * x, 1.001 * x])
    found = tp.derive(nets.network(nets.line(4), 4, nets.line(4), mean=False), tp.Kernels()).evaluate(X)
    for array, wanted in zip(found, by_hand(X, False), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-12)


# -- finite width ---------------------------------------------------------------------------------------

TWINS = {
    "stride": (NETWORKS["stride"], nets.network(nets.line(7, stride=2), 7, nets.line(4, width=1), mean=False)),
    "dilation": (
        nets.network(nets.line(6, dilation=2), 6, nets.line(6), mean=False),
        nets.network(nets.line(6), 6, nets.line(6), mean=False),
    ),
    "pool": (nets.pooling(8, mean=False), nets.pooling(8, mean=True)),
    "up": (
        nets.network(nets.line(4), 4, np.repeat(np.arange(4), 2)[None], mean=True),
        nets.network(nets.line(4), 4, np.repeat(np.arange(4), 2)[None], mean=False),
    ),
    "group": (nets.grouped(5, tied=False), nets.grouped(5, tied=True)),
}


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("name", TWINS)
def test_networks_of_finite_width_have_these_kernels(name):
    right, wrong = (tp.derive(n, tp.Kernels()) for n in TWINS[name])
    size = {"stride": 7, "dilation": 6, "pool": 8, "up": 4, "group": 5}[name]
    X = np.random.default_rng(11).standard_normal((2, 2, size))
    drawn = {"X1": X, "widths": (32, 64, 128), "draws": (400, 300, 200), "seed": 0}
    assert tp.check(right, **drawn).accepted
    assert not tp.check(right, claims={"ntk": wrong.evaluate(X).ntk}, **drawn).accepted
