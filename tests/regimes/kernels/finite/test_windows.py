"""Layers with windows, groups, masks, shared weights: by hand place by place, and at finite width beside wrong twins.

Each case is a network, its kernels by the recursion of `place_recursion`, and a twin: the kernels of a mistake that is
easily made.  The kernels derived are those by hand to 1e-12; networks of finite width accept them and reject the twin
at level 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import place_recursion as by_hand
import pytest
from checks import check_kernels
from place_recursion import square, taps

import tplimits as tp

L = tp.layers
Kernels = tuple[np.ndarray, np.ndarray]
#: sizes of entries that differ from place to place, so that a window in the wrong place is seen
_AT = np.array([0.3, 1.6, 0.5, 2.0, 0.2, 1.2, 0.8, 1.8])


def inputs(places: int, d: int = 2) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.standard_normal((2, d, places)) * np.resize(_AT, places) / d**0.5


@dataclass(frozen=True)
class Case:
    """A network, its data, and the kernels by hand of it and of a mistake."""

    network: tp.Program
    data: Any
    right: Callable[[], Kernels]
    twin: Callable[[], Kernels]


def line(**how: Any) -> tp.Program:
    """A convolution of eight places, one more, a readout of each place."""

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["end"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3}, to="mid", **how))
        y = tp.relu(L.conv1d(x, W, over="mid", taps="tap", to="end", **how))
        return tp.sum(v * y, over="end") / tp.sqrt(tp.size("end"))

    return net


def of_line(first: by_hand.Reads, second: by_hand.Reads) -> Callable[[], Kernels]:
    def kernels() -> Kernels:
        x = by_hand.data(inputs(8)).through(first, 1.0).relu().through(second, 1.0).relu()
        return x.read_out(len(second) ** -0.5)

    return kernels


def strided() -> Case:
    """⌈8/2⌉ = 4 places and 2: of the one zero that is needed, SAME puts none before; the twin puts it there."""
    right, twin = ([taps(8, 4, stride=2, before=b), taps(4, 2, stride=2, before=b)] for b in (0, 1))
    return Case(line(stride=2), inputs(8), of_line(*right), of_line(*twin))


def dilated() -> Case:
    """Taps two places apart; those of the twin are neighbours."""
    right, twin = ([taps(8, 8, dilation=d, before=d)] * 2 for d in (2, 1))
    return Case(line(dilation=2), inputs(8), of_line(*right), of_line(*twin))


def circular() -> Case:
    """The first place is beside the last; the twin has zeros there."""
    right, twin = ([taps(8, 8, before=1, circular=c)] * 2 for c in (True, False))
    return Case(line(padding="CIRCULAR"), inputs(8), of_line(*right), of_line(*twin))


def valid() -> Case:
    """Six places and four; the twin fills up with zeros."""
    right = [taps(8, 6), taps(6, 4)]
    twin = [taps(8, 8, before=1)] * 2
    return Case(line(padding="VALID"), inputs(8), of_line(*right), of_line(*twin))


def transposed() -> Case:
    """Three places spread over six with holes, s a + τ − 1 = i turned round; the twin starts one place later."""
    table = np.array(
        [[(i + 1 - t) // 2 if (i + 1 - t) % 2 == 0 and i + 1 - t < 6 else -1 for i in range(6)] for t in (0, 1, 2)]
    )

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 6}, taps={"tap": 3}, stride=2, to="half"))
        y = tp.relu(tp.sum(W @ x.take(half=table, axes=("tap", "at")), over="tap"))
        return tp.sum(v * y, over="at") / tp.sqrt(6)

    def kernels(phase: int) -> Callable[[], Kernels]:
        # the transpose of place 2a + τ − phase ← a: each place a adds to those it would read
        reads: list[list[tuple[object, int]]] = [[] for _ in range(6)]
        for a in range(3):
            for t in range(3):
                if 0 <= 2 * a + t - phase < 6:
                    reads[2 * a + t - phase].append((t, a))
        first = taps(6, 3, stride=2, before=0)
        x = by_hand.data(inputs(6))
        return lambda: x.through(first, 1.0).relu().through(reads, 1.0).relu().read_out(6**-0.5)

    return Case(net, inputs(6), kernels(1), kernels(0))


def pooled() -> Case:
    """Means of 2 × 2 places of a 4 × 4 image; the twin forgets that different places of a window are correlated."""

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
        x = tp.relu(L.conv2d(ξ, U, over={"at": (4, 4)}, taps={"tap": (2, 2)}) / 2)
        x = L.avg_pool(x, over={"at": (4, 4)}, window=2)
        y = tp.relu(L.conv2d(x, W, over={"at_4": (2, 2)}, taps={"tap": (2, 2)}, padding="VALID", to="end") / 2)
        return v * tp.sum(y, over="end")

    def kernels(correlated: bool) -> Callable[[], Kernels]:
        def found() -> Kernels:
            x = by_hand.data(inputs(16)).through(square(taps(4, 4, window=2), 4), 1 / 2).relu()
            windows = square(taps(4, 2, window=2, stride=2), 4)
            x = x.summed(windows, 1 / 4) if correlated else x.only_equal(windows, 1 / 4)
            return x.through(square(taps(2, 1, window=2), 2), 1 / 2).relu().read_out(1.0)

        return found

    return Case(net, inputs(16), kernels(True), kernels(False))


def local_pool() -> Case:
    """Local average pooling, windows that overlap; the twin is global pooling."""

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector["at"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3}))
        x = L.avg_pool(x, over={"at": 8}, window=3, stride=1, padding="SAME")
        return tp.sum(v * x, over="at") / tp.sqrt(8)

    x = by_hand.data(inputs(8)).through(taps(8, 8, before=1), 1.0).relu()
    return Case(
        net,
        inputs(8),
        lambda: x.summed(taps(8, 8, before=1), 1 / 3).read_out(8**-0.5),
        lambda: x.summed([[(0, a) for a in range(8)]], 1 / 8).read_out(1.0),
    )


def unet() -> Case:
    """Down, a convolution, up, and a skip; in the twin the way up fills in zeros between places."""

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "way"], v: tp.Vector["at"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3}))
        y = L.avg_pool(x, over="at", window=2)
        y = tp.relu(L.conv1d(y, W.sel(way=0), over="at_4", taps="tap"))
        y = L.upsample(y, over="at_4", factor=2)
        z = tp.relu(L.conv1d(x + y, W.sel(way=1), over="at", taps="tap"))
        return tp.sum(v * z, over="at") / tp.sqrt(8)

    def kernels(filled: bool) -> Callable[[], Kernels]:
        def found() -> Kernels:
            first = by_hand.data(inputs(8)).through(taps(8, 8, before=1), 1.0)
            down = first.relu().summed(taps(8, 4, window=2, stride=2), 1 / 2)
            both = by_hand.beside(first, down.through(taps(4, 4, before=1), 1.0)).relu()
            ups = [[("x", a)] + ([("y", 8 + a // 2)] if filled or a % 2 == 0 else []) for a in range(8)]
            return both.summed(ups).through(taps(8, 8, before=1), 1.0).relu().read_out(8**-0.5)

        return found

    return Case(net.bind(way=2), inputs(8), kernels(True), kernels(False))


def grouped() -> Case:
    """Two groups of channels with weights of their own; those of the twin share them."""

    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap", "group"],
        W: tp.Matrix["n", "n", "tap", "group"],
        v: tp.Vector["at"],
    ):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 5}, taps={"tap": 3}))
        y = tp.relu(L.conv1d(x, W, over="at", taps="tap"))
        return tp.sum(v * tp.sum(y, over="group"), over="at") / 4

    def kernels(apart: bool) -> Callable[[], Kernels]:
        def found() -> Kernels:
            one = taps(5, 5, before=1)
            first = [[((g, t), s) for t, s in of] for g in range(2) for of in one]
            second = [[((g if apart else 0, t), 5 * g + s) for t, s in of] for g in range(2) for of in one]
            x = by_hand.data(inputs(5)).through(first, 1.0).relu().through(second, 1.0).relu()
            return x.summed([[("y", a), ("z", 5 + a)] for a in range(5)]).read_out(1 / 4)

        return found

    return Case(net.bind(group=2), inputs(5), kernels(True), kernels(False))


def shared() -> Case:
    """One matrix a tap for two layers, and the difference of their outputs; the twin has two."""

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 5}, taps={"tap": 3}))
        y = tp.relu(L.conv1d(x, W, over="at", taps="tap"))
        z = tp.relu(L.conv1d(y, W, over="at", taps="tap"))
        return tp.sum(v * (y - z), over="at")

    def kernels(one_matrix: bool) -> Callable[[], Kernels]:
        def found() -> Kernels:
            reads = taps(5, 5, before=1)
            x = by_hand.data(inputs(5)).through(reads, 1.0)
            both = by_hand.beside(x, x.relu().through(reads, 1.0)).relu()  # x and y
            later = [[((k if not one_matrix else 0, t), 5 * k + s) for t, s in of] for k in range(2) for of in reads]
            y, sign = both.through(later, 1.0).relu(), np.repeat([1.0, -1.0], 5)  # y and −z
            y = by_hand.Places(*(np.einsum("p,ipjq,q->ipjq", sign, A, sign) for A in (y.K, y.T)))
            return y.summed([[("y", a), ("z", 5 + a)] for a in range(5)]).read_out(1.0)

        return found

    return Case(net, inputs(5), kernels(True), kernels(False))


def masked_heads() -> Case:
    """Two heads of attention over unequal lengths, one matrix for queries and keys; the twin sees the padding."""
    seen = np.array([[1, 1, 1.0], [1, 1, 0]])

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        m: tp.Input["token"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head"],
        V: tp.Matrix["n", "n", "head"],
        O: tp.Matrix["n", "n", "head"],  # noqa: E741
        v: tp.Vector,
    ):
        x = tp.relu(L.linear(ξ, U))
        q = L.linear(x, Q)
        y = tp.sum(L.linear(L.attention(q, q, L.linear(x, V), mask=m), O), over="head") / tp.sqrt(2)
        return v * tp.sum(m * y, over="token") / tp.sum(m, over="token")

    def kernels(mask: np.ndarray) -> Callable[[], Kernels]:
        def found() -> Kernels:
            x = by_hand.data(inputs(3)).through([[(0, t)] for t in range(3)], 1.0).relu()
            return x.attended(mask).read_out_sum(seen / seen.sum(axis=1, keepdims=True))

        return found

    return Case(net.bind(head=2), {"ξ": inputs(3), "m": seen}, kernels(seen), kernels(np.ones((2, 3))))


CASES = {
    make.__name__: make
    for make in (
        *(strided, dilated, circular, valid, transposed, pooled, local_pool, unet, grouped, shared, masked_heads),
    )
}


@pytest.fixture(params=CASES)
def case(request) -> Case:
    return CASES[request.param]()


def test_kernels_are_those_of_a_recursion_over_places(case: Case):
    found = tp.derive(case.network, tp.Kernels()).evaluate(case.data)
    for got, wanted, wrong in zip(found, case.right(), case.twin(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
        assert abs(wrong - wanted).max() > 0.01 * abs(wanted).max()


@pytest.mark.long
@pytest.mark.sampling
def test_networks_of_finite_width_accept_them_and_reject_the_twin(case: Case, seed):
    how = {"widths": (16, 32, 64), "draws": (900, 600, 400), "seed": seed, "level": 1e-3, "progress": False}
    right = check_kernels(case.network, case.data, None, *case.right(), **how)
    wrong = check_kernels(case.network, case.data, None, *case.twin(), **{**how, "draws": (450, 300, 200)})
    assert right.accepted, right
    assert not wrong.accepted, wrong
