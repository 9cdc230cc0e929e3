"""Networks that pool: offset by offset the compiled route gives what the interpreter gives, and reads nothing else."""

from __future__ import annotations

from functools import cache

import numpy as np
import pooled_networks as nets
import pytest

import tplimits as tp
from tplimits.numbers.loops import machine
from tplimits.regimes.kernels.numbers import evaluation, request
from tplimits.regimes.kernels.numbers.passes import functions, paired, plan, planning
from tplimits.regimes.kernels.numbers.passes.banded import Banded
from tplimits.regimes.kernels.numbers.passes.bands import Chain
from tplimits.regimes.kernels.numbers.passes.blocks import Blocks
from tplimits.regimes.kernels.numbers.passes.cells import Axis
from tplimits.regimes.kernels.numbers.passes.offsets import (
    Pool,
    additions,
    all_offsets,
    in_order,
    is_upper,
    pool,
    starts_of,
)
from tplimits.regimes.kernels.numbers.passes.sweeps import Sweeps

Array = np.ndarray
NETWORKS = nets.networks()
#: networks whose code LLVM makes fast, which takes most of the time: of others it makes what is written
FAST = {"two pools", "residual, stride"}
#: what has no bands yet: taps that come in on the other side, and places that several finer ones are read at
PLAIN = {"circular", "up"}


@pytest.fixture(autouse=True)
def as_written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little optimisation but for a few networks."""
    called = getattr(request.node, "callspec", None)
    if called is None or called.params.get("name") not in FAST:
        monkeypatch.setattr(machine, "_SPEED", 0)
        monkeypatch.setattr(Banded, "rewritten", False)


@cache
def limit_of(name: str) -> tp.KernelLimit:
    """Derived once, and compiled once."""
    return tp.derive(NETWORKS[name][0], tp.Kernels())


def compiled(limit: tp.KernelLimit, *X: Array) -> tuple[tp.KernelPair, plan.KernelPlan]:
    """The kernels by compiled functions, with their plan."""
    asked = request.request(limit.derivation, *X, *([None] * (2 - len(X))), {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    made.is_compiled, made.calls = True, 1  # as at a second call, which compiles what is done once for inputs too
    return limit.evaluate(*X), made


def oracle(network: tp.Program, monkeypatch: pytest.MonkeyPatch, *X: Array) -> tp.KernelPair:
    """The interpreter, on a tape without steps for bands."""
    with monkeypatch.context() as patch:
        patch.setattr(planning, "take_bands", lambda functions: False)
        return tp.derive(network, tp.Kernels()).evaluate(*X)


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.long] * (i % 3 > 0)) for i, k in enumerate(NETWORKS)]
)
def test_bands_are_the_interpreter(name, monkeypatch):
    network, places = NETWORKS[name]
    X, Y = nets.data(5, places), nets.data(3, places, seed=1)
    limit = limit_of(name)
    for batches in ((X,), (X, Y), (X[:2],))[: 3 if name == "pool" else 2]:  # fewer lanes where there are few inputs
        found, made = compiled(limit, *batches)
        assert made.functions[0].banded == (name not in PLAIN)
        for one, two in zip(found, oracle(network, monkeypatch, *batches), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


def test_a_second_call_is_compiled(monkeypatch):
    """One call alone is not worth it, nor are many of little work."""
    network, places = NETWORKS["pool"]
    limit = tp.derive(network, tp.Kernels())
    plans = limit.derivation.remembered["plans"]
    monkeypatch.setattr(plan, "_FEW", 0)
    for least, wanted in ((1 << 40, [False, False]), (1, [False, True])):
        monkeypatch.setattr(plan, "_REPEATED", least)
        plans.clear()
        found = []
        for _ in range(2):
            pair = limit.evaluate(nets.data(4, places))
            (made,) = plans.values()
            found.append((made.is_compiled, pair))
        assert [done for done, _ in found] == wanted
        for one, two in zip(found[0][1], found[1][1], strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


def test_few_inputs_are_compiled_at_the_second_call(monkeypatch):
    """At the first call one function is made, for pairs; the other would cost more than its few inputs.

    Where a request is settled (files in a folder), calls before it change nothing: it has the bits of the second call.
    """
    network, places = NETWORKS["pool"]
    limit, X = tp.derive(network, tp.Kernels()), nets.data(4, places)
    asked = request.request(limit.derivation, X, None, {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    compiles, own = [], plan.KernelPlan.own_nested
    monkeypatch.setattr(plan.KernelPlan, "own_nested", lambda *given: compiles.append(given[1]) or own(*given))
    monkeypatch.setattr(plan, "_BETWEEN", 0)
    monkeypatch.setattr(plan, "_FEW", 0)
    first = limit.evaluate(X)
    assert made.is_compiled and made.calls == 1 and not compiles
    settled = made.settled(16).own(1, asked.one, 4)
    assert compiles == [1]
    second = limit.evaluate(X)
    assert made.calls == 2 and compiles == [1, 1]
    again = made.settled(16).own(1, asked.one, 4)
    assert [a.array.tobytes() for a in settled.rows] == [a.array.tobytes() for a in again.rows]
    for one, two in zip(first, second, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - PLAIN))
def test_nothing_else_is_read(name, monkeypatch):
    """Rooms full of NaN, but for the borders of arrays of single inputs, which are zero from the beginning."""
    limit, X = limit_of(name), nets.data(5, NETWORKS[name][1])
    expected, _ = compiled(limit, X)
    room, laid_out, made = paired.Paired._room, paired.Paired._laid_out, np.empty

    def poisoned(self: paired.Paired) -> int:
        start = room(self)
        code = self.lanes
        assert isinstance(code, Sweeps)
        offset = (start - self.rooms.memory.ctypes.data) // 8
        values = self.rooms.memory[: self.rooms.memory.nbytes // 8 * 8].view(np.float64)[offset:]
        bad = np.ones(code.room * code.count, bool)
        for n, kept in code.kept.items():
            if not code.bands.is_pair(n):
                size = int(np.prod(kept.extents, dtype=int)) * code.count
                bad[kept.start * code.count :][:size] = False
        values[: len(bad)][bad] = np.nan
        return start

    def padded(self: paired.Paired, value: object, n: int) -> Blocks:
        found: Blocks = laid_out(self, value, n)
        if found.array.ndim == 3 and found.array.shape[2] == self.lanes.count and len(X) < self.lanes.count:
            found.array[-1, :, len(X) % self.lanes.count :] = np.nan  # lanes behind the last input
        return found

    def empty(shape: tuple[int, ...], dtype: type = float) -> Array:
        """What memory for results is like before the code writes there."""
        found = made(shape, dtype)
        found.view(np.uint8)[...] = 255  # NaN
        return found

    monkeypatch.setattr(np, "empty", empty)
    monkeypatch.setattr(paired.Paired, "_room", poisoned)
    monkeypatch.setattr(paired.Paired, "_laid_out", padded)
    for _ in range(2):  # the second call finds what the first has left, and NaN over it
        found, _ = compiled(limit, X)
        np.testing.assert_array_equal(found.nngp, expected.nngp)
        np.testing.assert_array_equal(found.ntk, expected.ntk)


def test_one_of_two_opposite_offsets_is_enough_for_an_input_with_itself():
    _, made = compiled(limit_of("two pools"), nets.data(5, NETWORKS["two pools"][1]))
    assert made.functions[1].of(False, 5).is_half


def test_halves_that_are_no_mirror_images_are_refused():
    network, places = NETWORKS["pool"]
    limit = tp.derive(network, tp.Kernels())
    _, made = compiled(limit, nets.data(5, places))
    (own,) = made.functions[1].known.values()
    tables = [t.copy() for t in own.lanes.half]
    tables[-1][1] = 7  # an offset that the mean over everything counts seven times
    own.halves = [t.ctypes.data for t in tables]
    asked = request.request(limit.derivation, nets.data(5, places), None, {}, None)
    own.settle(plan.partial(plan.data_of, made.tables[0], asked.one.like()), 5)
    assert not own.is_half


def test_single_precision(monkeypatch):
    monkeypatch.setattr(evaluation, "_PAIRS", 0)
    monkeypatch.setattr(evaluation, "_SINGLE", 1)
    limit, X = limit_of("two pools"), nets.data(9, NETWORKS["two pools"][1])
    exact = limit.evaluate(X)
    found, _ = compiled(limit, X.astype(np.float32))
    for one, two in zip(found, exact, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, two, rtol=1e-5)
    assert 0 < found.ntk_error < 1e-4


def close_images(x: Array, e: Array) -> dict[str, Array]:
    """Images beside x: not near, nearly equal in several ways, equal."""
    pixel = x.copy()
    pixel.flat[5] += 1e-3
    near = {f"{d:.0e}": x + d * e for d in (1e-2, 1e-3, 1e-5, 1e-7)}
    return {"apart": e, **near, "pixel": pixel, "longer": 1.001 * x, "copy": x.copy()}


def extended(limit: tp.KernelLimit, X: Array) -> list[Array]:
    """The interpreter in extended precision."""
    asked = request.request(limit.derivation, X, X.copy(), {}, None)
    return [np.squeeze(v) for v in evaluation.wide(asked, ("nngp", "ntk"))[0]]


@pytest.mark.parametrize("name", ["two pools", "pool"])
def test_close_images_keep_their_digits_behind_pools(name):
    """Pools take gaps from gaps; of copies, whose gap would be nothing but rounding, kernels are those of one image."""
    x, e = nets.data(2, NETWORKS[name][1])
    X = np.stack([x, *close_images(x, e).values()])
    found, _ = compiled(limit_of(name), X)
    for one, two in zip(found, extended(limit_of(name), X), strict=True):
        apart = [k for k, case in enumerate(close_images(x, e), 1) if case not in ("1e-07", "longer")]
        np.testing.assert_allclose(one[0, apart], two[0, apart], rtol=1e-10)
        # 1e-7 apart: 1.7e-10 in these small images; 1.001 times as long: 1e-11, at worst 3e-9, as rounding falls
        np.testing.assert_allclose(one, two, rtol=3e-9)
        assert one[0, -1] == one[0, 0]
    other = limit_of(name).evaluate(X[:2], X)
    for one, two in zip(other, found, strict=True):
        assert one[0, -1] == one[0, 0] == two[0, 0]


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_close_images_in_single_precision(share, monkeypatch):
    """Pair by pair where few are near, all of them where many are: not by what √(6e-8) leaves of an angle."""
    monkeypatch.setattr(evaluation, "_PAIRS", 0)
    monkeypatch.setattr(evaluation, "_SINGLE", 1)
    monkeypatch.setattr(evaluation, "_FEW_ALIKE", share)
    x, *rest = nets.data(6, NETWORKS["two pools"][1])
    X = np.stack([x, *close_images(x, rest[0]).values(), *rest]).astype(np.float32)
    found, _ = compiled(limit_of("two pools"), X)
    for one, two in zip(found, extended(limit_of("two pools"), X.astype(float)), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, two, rtol=5e-6)


def test_tables_too_large_are_not_kept(monkeypatch):
    monkeypatch.setattr(functions, "_MOST_KEPT", 10)
    network, places = NETWORKS["pool"]
    _, made = compiled(tp.derive(network, tp.Kernels()), nets.data(3, places))
    assert not made.functions[0].banded


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("strides", "taps", "fine", "coarse"),
    [
        ((2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)], (4, 6), (2, 3)),
        ((1, 1), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], (5, 4), (3, 3)),
        ((2, 1), [(-1, 0), (0, 0), (1, 0)], (6, 3), (3, 3)),
    ],
)
def test_pools_put_every_entry_where_it_belongs(half, strides, taps, fine, coarse):
    """Sums over pools of a table, by rectangles of offsets and by their definition."""
    taps = tuple(taps)
    rng, (h, w), (a, b) = np.random.default_rng(0), fine, coarse
    table = rng.standard_normal((h * w, h * w))
    table = table + table.T
    reads = np.full((len(taps), a * b), -1)
    for t, (y, x) in enumerate(taps):
        for i, j in np.ndindex(a, b):
            p, q = strides[0] * i + y, strides[1] * j + x
            if 0 <= p < h and 0 <= q < w:
                reads[t, i * b + j] = p * w + q
    made = pool(reads, fine, coarse)
    assert made == Pool(strides, taps)
    pick = np.zeros((a * b, h * w))
    for t in range(len(taps)):
        for i in np.flatnonzero(reads[t] >= 0):
            pick[i, reads[t, i]] += 1
    expected = pick @ table @ pick.T
    axis, target = Axis(h * w, fine, (1, 1)), Axis(a * b, coarse)
    starts = starts_of(target, all_offsets(coarse), half)
    offsets = in_order(o for o in all_offsets(fine) if not half or is_upper(o))
    rectangles, many = additions((made, made), (axis, target), starts, half, offsets)
    kept, whose = np.zeros(a * b * a * b), np.repeat(np.arange(len(offsets)), many)
    assert len(whose) == len(rectangles)
    for number, (cell, rows, columns, to, pitch) in zip(whose, rectangles, strict=True):
        for y, x in np.ndindex(rows, columns):
            v, u = divmod(cell + strides[0] * y * axis.width + strides[1] * x, axis.width)
            p = (v - 1) * w + u - 1
            kept[to + y * pitch + x] += table[p, p + offsets[number][0] * w + offsets[number][1]]
    for (dy, dx), start in starts.items():
        top, side = max(0, -dy), max(0, -dx)
        for y, x in np.ndindex(a - abs(dy), b - abs(dx)):
            i = (y + top) * b + x + side
            np.testing.assert_allclose(kept[start + y * (b - abs(dx)) + x], expected[i, i + dy * b + dx], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("every place", ["at some p whose offset is at most 1"] * 3 + ["at equal q"] * 3),
        ("stride", ["at some p whose offset is at most 4"] * 3 + ["at all q"]),
        ("pool", ["at all p"] * 3 + ["at all q"] * 3),
    ],
)
def test_offsets_are_printed(name, asked):
    found = limit_of(name).demand
    assert sorted(line[line.index(" at ") + 1 :] for line in found) == sorted(asked)


@pytest.mark.parametrize("name", ["every place", "stride", "stride, pool", "two pools", "rectangle"])
def test_printed_offsets_are_those_that_are_computed(name):
    limit, places = limit_of(name), NETWORKS[name][1]
    _, made = compiled(limit, nets.data(5, places))
    bands = made.functions[0].of(False, 8).lanes.bands
    chain = next(p for p in bands.phases if isinstance(p, Chain))
    far = tuple(max(abs(o[k]) for o in chain.wanted) for k in range(2))
    shape = bands.axes[places].shape
    (words,) = {line[line.index(" at ") + 1 :] for line in limit.demand if line.endswith((" p", "most 1", "most 4"))}
    assert words == "at all p" if far == (shape[0] - 1, shape[1] - 1) else words.endswith(f"at most {far[0]}")
