"""Compiled passes and the interpreter give the same kernels on a hundred networks written at random."""

from __future__ import annotations

from collections import Counter

import drawn_networks
import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.loops import machine
from tplimits.regimes.kernels.numbers import evaluation, request
from tplimits.regimes.kernels.numbers.passes import plan, planning
from tplimits.regimes.kernels.numbers.passes.banded import Banded
from tplimits.regimes.kernels.numbers.passes.lanes import Lanes
from tplimits.regimes.kernels.numbers.tables import tape

GROUPS, SIZE = 20, 5
#: groups in `make test`
FIRST = 4
#: inputs of the first side
MANY = 3


def compiled(limit: tp.KernelLimit, *X: dict[str, np.ndarray]) -> tp.KernelPair:
    """Both kernels by compiled functions, which have to have a form for pairs and for inputs alone."""
    asked = request.request(limit.derivation, *X, *([None] * (2 - len(X))), {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    made.is_compiled, made.calls = True, 1  # as at a second call, which compiles what is done once for inputs too
    assert made.has_form
    assert all(made.own_nested(side) is not None for side in (1, 2))
    return limit.evaluate(*X)


def poisoned(shape, dtype=float, *rest, made=np.empty, **how):
    """An array as NumPy's `empty` gives it, full of what must never be read."""
    array = made(shape, dtype, *rest, **how)
    numbers = array.view(np.float64) if array.dtype == np.uint8 and array.size % 8 == 0 else array
    if numbers.dtype.kind == "f":
        numbers[...] = 1e30
    return array


@pytest.mark.parametrize(
    "group", [*range(FIRST), *(pytest.param(g, marks=pytest.mark.long) for g in range(FIRST, GROUPS))]
)
def test_compiled_is_interpreted(group, monkeypatch):
    """1e-12 of the largest entry in double precision; 1e-5 in single precision, for one network of each five.

    What LLVM does for speed would take most of the time, and is done for that one alone.
    """
    for seed in range(SIZE * group, SIZE * (group + 1)):
        monkeypatch.setattr(machine, "_SPEED", 0 if seed % SIZE else 3)
        for lanes in (Lanes, Banded):
            monkeypatch.setattr(lanes, "rewritten", seed % SIZE == 0)
        drawn = drawn_networks.drawn(seed)
        X = (drawn.data(MANY),) if seed % 2 else (drawn.data(MANY), drawn.data(2, offset=1))
        limit = tp.derive(drawn.network, tp.Kernels())
        expected = limit.evaluate(*X)
        assert not any(p.is_compiled for p in limit.derivation.remembered["plans"].values())
        with monkeypatch.context() as patch:
            patch.setattr(np, "empty", poisoned)
            found = compiled(limit, *X)
        for one, other in zip(found, expected, strict=True):
            assert np.abs(one - other).max() <= 1e-12 * np.abs(other).max(), drawn.source
        if seed % SIZE == 0:
            with monkeypatch.context() as patch:
                patch.setattr(evaluation, "_PAIRS", 0)
                patch.setattr(evaluation, "_SINGLE", 0)
                single = limit.evaluate(*({k: v.astype(np.float32) for k, v in x.items()} for x in X))
            assert single.nngp.dtype == np.float32
            for one, other in zip(single, expected, strict=True):
                assert np.abs(one - other).max() <= 1e-5 * np.abs(other).max(), drawn.source


@pytest.mark.parametrize("seed", range(0, GROUPS * SIZE, 9))
def test_pairs_beside_each_other_in_memory_are_the_same_pairs(seed, monkeypatch):
    drawn = drawn_networks.drawn(seed)
    limit, found = tp.derive(drawn.network, tp.Kernels()), []
    for least in (1, 1 << 30):
        monkeypatch.setattr(plan, "_BESIDE", least)
        found.append(limit.evaluate(drawn.data(MANY), drawn.data(2, offset=1)))
    for one, other in zip(*found, strict=True):
        assert np.abs(one - other).max() <= 1e-14 * np.abs(other).max(), drawn.source


def test_every_piece_is_drawn_often():
    found = Counter(p for seed in range(GROUPS * SIZE) for p in drawn_networks.drawn(seed).pieces)
    assert min(found.values()) >= 5, found
    assert set(found) == {
        *("1-d", "2-d", "SAME", "VALID", "CIRCULAR", "stride", "dilation", "pool", "upsample", "shared", "residual"),
        *("norm", "attention", "causal", "padding", "flat", "mean", "places"),
    }


@tp.network
def two_blocks(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    Q: tp.Matrix["n", "n", "block"],
    V: tp.Matrix["n", "n", "block"],
    W: tp.Matrix["n", "n", "block"],
    v: tp.Vector,
):
    x = tp.layers.linear(ξ, U)
    for b in range(2):
        y = tp.layers.layer_norm(x)
        q = tp.layers.linear(y, Q.sel(block=b))
        x = x + tp.layers.attention(q, q, tp.layers.linear(y, V.sel(block=b)))
        x = x + tp.relu(tp.layers.linear(tp.layers.layer_norm(x), W.sel(block=b)))
    return v * tp.layers.global_pool(x, over="token")


@tp.network
def many_heads(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    E: tp.Vector["position"],
    Q: tp.Matrix["k", "n", "head"],
    K: tp.Matrix["k", "n", "head"],
    V: tp.Matrix["k", "n", "head"],
    O: tp.Matrix["n", "k", "head"],  # noqa: E741
    v: tp.Vector,
):
    # a constant table is added to one of pairs, and sums over keys are of three tables
    places = tp.constant(np.tri(4), axes=("token", "position"))
    x = tp.relu(tp.sum(U * ξ, over="d")) + tp.sum(places * E, over="position")
    q, k, u = Q @ x, (K @ x).rename(token="key"), (V @ x).rename(token="key")
    weights = tp.relu(tp.avg(q * k) * tp.sqrt(tp.width("k")))
    y = tp.sum(O @ tp.sum(weights * u, over="key"), over="head") / tp.sqrt(tp.size("head"))
    return v * tp.layers.global_pool(y, over="token")


TOKENS = {"ξ": np.random.default_rng(0).standard_normal((3, 2, 4))}


def test_no_sum_and_no_law_is_computed_twice():
    limit = tp.derive(two_blocks.bind(token=4, block=2), tp.Kernels())
    compiled(limit, TOKENS)
    (made,) = limit.derivation.remembered["plans"].values()
    passes = made.nested(False, 8).passes.passes
    sums = [tuple(n for n, _ in r.factors) for p in passes for r in p.reductions.values()]
    assert len(sums) == len(set(sums)) == 3 * 2 + 2  # sandwiches of K, of K and Θ; means of both over tokens
    angles = [t for p in passes for _, t in p.assignments if "atan2" in t or "arc(" in t]
    assert len(angles) == 2


def test_places_with_themselves_are_no_reason_to_interpret(monkeypatch):
    """The law of a token with itself is singular, and exact."""
    limit = tp.derive(two_blocks.bind(token=4, block=2), tp.Kernels())
    expected = limit.evaluate(TOKENS)
    compiled(limit, TOKENS)
    monkeypatch.setattr(tape.TapeSchedule, "run", lambda *_: pytest.fail("interpreted"))
    for one, other in zip(limit.evaluate(TOKENS), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_norms_of_residual_streams_are_judged_once():
    """A sum with an independent part has a variance whatever the data: nothing is left to ask at each call."""
    assert not tp.derive(two_blocks.bind(token=4, block=2), tp.Kernels()).derivation.recursion.judged.pending


def test_sums_of_three_tables_and_constant_ones_are_compiled():
    limit = tp.derive(many_heads.bind(token=4, position=4), tp.Kernels(infinite=("head",)))
    expected = limit.evaluate(TOKENS)
    (made,) = limit.derivation.remembered["plans"].values()
    assert made.has_form and not made.is_compiled
    for one, other in zip(compiled(limit, TOKENS), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
