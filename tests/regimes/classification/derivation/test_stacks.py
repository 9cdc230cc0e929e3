"""Sizes of stacks of blocks, counted with multiplicity: sums written out, and their powers of the depth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.classification.derivation.branches import branches, damped, with_ends_apart
from tplimits.regimes.classification.derivation.stacks import leading_power, orders, power_of, stacked

HALF = Fraction(1, 2)
DEPTHS = (2, 4, 8)


def stack(depth, φ, weight):
    """x + Σ W_l φ(x), with the weight of each block that `weight` says."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "block"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for b in range(depth):
            x = x + W.sel(block=weight(b)) @ φ(x)
        return v * x

    return net.bind(block=depth)


def perceptrons(depth):
    """x + Σ W_l relu(V_l x)."""

    @tp.network
    def net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        V: tp.Matrix["n", "n", "block"],
        W: tp.Matrix["n", "n", "block"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        for b in range(depth):
            x = x + W.sel(block=b) @ tp.relu(V.sel(block=b) @ x)
        return v * x

    return net.bind(block=depth)


def own(block):
    return block


def shared(block):
    return 0


def counted(net, factor):
    return stacked(damped(net, {b.end for b in branches(net)}), factor)


def start_of(φ, weight, α):
    return power_of("the sum", [counted(stack(d, φ, weight), d**-α).start for d in DEPTHS])


@pytest.mark.parametrize("c", (0.5, 1.0, 3.0))
def test_sums_of_two_blocks(c):
    """Terms of one weight add up, those of different ones in squares; tanh is 1 at most, relu its argument."""

    def size(φ, weight):
        return counted(stack(2, φ, weight), c).start

    assert size(tp.tanh, own) == pytest.approx((1 + 2 * c**2) ** 0.5)
    assert size(tp.tanh, shared) == pytest.approx((1 + (2 * c) ** 2) ** 0.5)
    assert size(tp.relu, own) == pytest.approx(1 + c**2)
    assert size(tp.relu, shared) == pytest.approx((1 + (c + c * (1 + c**2) ** 0.5) ** 2) ** 0.5)


@pytest.mark.parametrize(
    ("weight", "α", "start"),
    [(own, 0, HALF), (own, 0.5, 0), (own, 1, 0), (shared, 0, 1), (shared, 0.5, HALF), (shared, 1, 0)],
)
def test_powers_of_the_depth(weight, α, start):
    assert start_of(tp.tanh, weight, α) == start


@pytest.mark.parametrize("α", (HALF, Fraction(1)))
def test_gradients_of_stacks_that_neither_grow_nor_vanish(α):
    """L blocks whose gradients are L^(−α) each; the first and the last weight see what is added up."""
    found = [counted(perceptrons(d), d ** -float(α)) for d in DEPTHS]
    powers = {name: power_of(name, [f.gradients[name] for f in found]) for name in "UVWv"}
    assert powers == {"U": 0, "V": 1 - α, "W": 1 - α, "v": 0}
    assert power_of("the sum", [f.start for f in found]) == 0


@pytest.mark.parametrize("c", (0.5, 2.0))
def test_gradients_of_one_block(c):
    """∂v = x + c W relu(V x), ∂W = c v relu(V x), ∂V = c Wᵀv x, ∂U = v + c Vᵀ Wᵀ v."""
    sum_ = pytest.approx((1 + c**2) ** 0.5)
    assert counted(perceptrons(1), c).gradients == {"U": sum_, "V": c, "W": c, "v": sum_}


def bilinear(depth, beside):
    """x + s_l W_l x, s_l = √n avg(q_l x), read by the readout or by a sum beside a readout of the first x alone."""

    @tp.network
    def net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        q: tp.Vector["block"],
        W: tp.Matrix["n", "n", "block"],
        v: tp.Vector,
        c: tp.Vector,
    ):
        x = h = tp.sum(U * ξ, over="d")
        for b in range(depth):
            x = x + tp.sqrt(tp.n) * tp.avg(q.sel(block=b) * x) * (W.sel(block=b) @ x)
        return tp.readout(v * h) + tp.n * tp.avg(c * x) if beside else tp.readout(c * x + v * h)

    return with_ends_apart(net.bind(block=depth))


@pytest.mark.parametrize("beside", [False, True])
def test_scores_that_only_a_sum_beside_the_readout_is_made_of_are_aligned(beside):
    """A block is linear in q_l and in W_l, so that q_l·∂q_l = W_l·∂W_l (Euler): ∂q had been 0 beside the readout."""
    found = [counted(bilinear(d, beside), 1 / d).gradients for d in DEPTHS]
    assert [f["q"] for f in found] == pytest.approx([f["W"] for f in found])
    assert {name: power_of(name, [f[name] for f in found]) for name in "qW"} == {"q": 0, "W": 0}
    assert min(f["q"] for f in found) > 1


def test_what_doubles_with_every_block_goes_by_no_power():
    with pytest.raises(
        tp.NoLimitError, match=r"the sum goes like L\^1\.\d, then like L\^\d\.\d as the depth L doubles"
    ):
        start_of(tp.relu, own, 0)


@pytest.mark.parametrize("power", (-1.0, -0.5, 0.0, 0.5, 1.5))
def test_powers_are_read_off_ratios(power):
    """Also where something smaller stands beside; what is 0 somewhere has none."""
    assert power_of("it", [7 * d**power for d in DEPTHS]) == Fraction(power)
    assert power_of("it", [7 * d**power * (1 + 1 / d) for d in (16, 32, 64)]) == Fraction(power)
    assert power_of("it", [0.0, 1.0, 2.0]) == power_of("it", [1.0, 0.0, 2.0]) == 0


def test_branches_end_where_they_are_added():
    net = stack(3, tp.relu, own)
    found = branches(net)
    assert [net[b.end].matrix_indices for b in found] == [(0,), (1,), (2,)]
    assert len({b.stream for b in found}) == 3 and all(b.stream < b.end for b in found)


def rms_normed(x):
    return x / tp.sqrt(tp.avg(x**2))


def many(depth, block, *names):
    """x + Σ block(x, weights of it), with the weights `names` and one number g for each block."""

    @tp.network
    def net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        A: tp.Matrix["n", "n", "block"],
        B: tp.Matrix["n", "n", "block"],
        C: tp.Matrix["n", "n", "block"],
        g: tp.Scalar["block"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        weights = {"A": A, "B": B, "C": C, "g": g}
        for b in range(depth):
            x = x + block(x, *(weights[name].sel(block=b) for name in names))
        return v * x

    return net.bind(block=depth, d=1)


def gated(x, A, B, C):
    y = rms_normed(x)
    a = A @ y
    return C @ (a * tp.sigmoid(a) * (B @ y))


def scored(x, A, B, C):
    """One score, of the values of a single token: what matters is that it is a scalar."""
    y = rms_normed(x)
    return C @ (y * tp.tanh(tp.avg((A @ y) * (B @ y))))


def without_mean(x, C):
    """MS(relu(C x)) of depth-muP."""
    r = tp.relu(C @ x)
    return r - tp.avg(r)


def normed(x, C):
    z = without_mean(x, C)
    return z / tp.sqrt(tp.avg(z * z) + 0.01)


def of_two(x, A, B):
    r = tp.relu(A @ x) * tp.relu(B @ x)
    return r - tp.avg(r)


def beyond_mean(x, C):
    r = tp.relu(C @ x)
    return r - 2 * tp.avg(r)


BLOCKS = {
    "gated": (gated, "ABC"),
    "scored": (scored, "ABC"),
    "a number of its own": (lambda x, C, g: g * (C @ tp.tanh(x)), "Cg"),
    "tanh": (lambda x, C: tp.tanh(C @ x), "C"),
    "relu": (lambda x, C: tp.relu(C @ x), "C"),
    "relu without its mean": (without_mean, "C"),
    "in one line": (lambda x, C: tp.relu(C @ x) - tp.avg(tp.relu(C @ x)), "C"),
    "normed": (normed, "C"),
    "two without a mean": (of_two, "AB"),
    "twice the mean taken": (beyond_mean, "C"),
    "a product": (lambda x, A, B: tp.tanh(A @ x) * tp.tanh(B @ x), "AB"),
}


def of_depth(name, α):
    block, names = BLOCKS[name]
    nets = {d: with_ends_apart(many(d, block, *names)) for d in DEPTHS}
    found = [orders(damped(net, {b.end for b in branches(net)}), d ** -float(α)) for d, net in nets.items()]
    start = leading_power("the sum", [f.still.start for f in found], [f.first.start for f in found])
    powers = {}
    for w in ("U", *names):
        still, first = [f.still.gradients[w] for f in found], [f.first.gradients[w] for f in found]
        powers[w] = leading_power(w, still, first)
    return start, powers


@pytest.mark.parametrize("α", (HALF, Fraction(1)))
@pytest.mark.parametrize("name", ("gated", "scored", "a number of its own", "tanh"))
def test_what_all_blocks_do_together_whatever_stands_in_them(name, α):
    """Gradients of order L^(−α) each, L of them aligned: L^(1 − α); the stream before them sees order 1."""
    start, powers = of_depth(name, α)
    assert start == 0 and powers == {"U": 0, **dict.fromkeys(BLOCKS[name][1], 1 - α)}


CENTRED = ("relu without its mean", "in one line", "normed", "two without a mean")


@pytest.mark.parametrize("name", CENTRED)
def test_ends_whose_mean_is_taken_away_add_up_in_squares(name):
    """The stream of 64 blocks with L^(−½) is as large as that of 4; with twice the mean taken away it is not."""
    assert of_depth(name, HALF) == (0, {"U": 0, **dict.fromkeys(BLOCKS[name][1], HALF)})
    assert of_depth("twice the mean taken", HALF)[0] == HALF
    rng = np.random.default_rng(7)

    def size(share, depth, n=100):
        x = rng.standard_normal(n)
        for _ in range(depth):
            r = np.maximum(rng.standard_normal((n, n)) @ x / n**0.5, 0)
            x = x + (r - share * r.mean()) / depth**0.5
        return np.sqrt((x**2).mean())

    grown = [size(share, 64) / size(share, 4) for share in (1, 2)]
    assert grown[0] < 1.4 and grown[1] > 2


def test_ends_whose_mean_is_not_zero_add_up():
    """L^(−½) Σ relu(W_l x) is √L times a mean, and that of tanh is a sum of random vectors; with 1/L both settle."""
    assert [of_depth("relu", α)[0] for α in (HALF, 1)] == [HALF, 0]
    rng = np.random.default_rng(3)

    def mean(φ, depth, n=100):
        x = rng.standard_normal(n)
        return abs(np.mean(sum(φ(rng.standard_normal((n, n)) @ x / n**0.5) for _ in range(depth)) / depth**0.5))

    assert mean(lambda h: np.maximum(h, 0), 64) / mean(lambda h: np.maximum(h, 0), 4) > 3.5
    assert mean(np.tanh, 64) < 0.3


def stream(depth, α, seed, n=64):
    """x_L of gated blocks as a function of x_0, an x_0, and random numbers."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, depth, n, n)) / n**0.5

    def run(x):
        for a, b, c in zip(A, B, C, strict=True):
            y = x / np.sqrt((x**2).mean())
            h = a @ y
            x = x + depth**-α * (c @ (h / (1 + np.exp(-h)) * (b @ y)))
        return x

    return run, rng.standard_normal(n), rng


def test_gradients_of_gated_blocks_do_not_grow_in_networks():
    """Counted as growing like L at depths 2, 4, 8, where blocks of several factors count as many times the stream."""

    def gain(depth):
        found = []
        for seed in range(5):
            run, x, rng = stream(depth, 0.5, seed)
            dx = 1e-5 * rng.standard_normal(len(x))
            found.append(np.log(np.linalg.norm(run(x + dx) - run(x)) / np.linalg.norm(dx)))
        return np.mean(found)

    assert abs(gain(32) - gain(8)) / np.log(4) < 0.15


def test_a_step_of_adam_in_the_numbers_of_blocks_moves_outputs_by_the_root_of_their_number():
    """Δf = Σ_l L^(−½) |⟨v C_l tanh x⟩|, each number by its sign: √L, and the numbers take L^(−½)."""
    rng, n = np.random.default_rng(5), 64

    def moved(depth):
        x, v = rng.standard_normal((2, n))
        return sum(abs(v @ rng.standard_normal((n, n)) @ np.tanh(x)) / n for _ in range(depth)) / depth**0.5

    slope = np.log(np.mean([moved(64) for _ in range(8)]) / np.mean([moved(4) for _ in range(8)])) / np.log(16)
    assert abs(slope - 0.5) < 0.15


def test_the_last_stream_counts_where_what_reads_it_holds_the_sum():
    """Four blocks of one weight, the last sum with a name and without: 1 + 4 c in either."""

    @tp.network
    def named(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for _ in range(4):
            x = x + W @ tp.tanh(x)
        return v * x

    @tp.network
    def inlined(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for _ in range(3):
            x = x + W @ tp.tanh(x)
        return v * (x + W @ tp.tanh(x))

    assert inlined.returns[0] < named.returns[0]
    for net in (named, inlined):
        assert orders(damped(net, {b.end for b in branches(net)}), 1.0).first.start == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("α", (HALF, Fraction(1)))
def test_norms_after_the_sum_hand_gradients_on(α):
    """A norm takes away what is aligned with it: none of L norms doubles a gradient."""

    def net(depth):
        @tp.network
        def normed(ξ: tp.Input["d"], U: tp.Vector["d"], C: tp.Matrix["n", "n", "block"], v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            for b in range(depth):
                x = x + C.sel(block=b) @ tp.tanh(x)
                x = rms_normed(x - tp.avg(x))
            return v * x

        return with_ends_apart(normed.bind(block=depth))

    found = [orders(damped(p, {b.end for b in branches(p)}), d ** -float(α)) for d in DEPTHS for p in (net(d),)]
    powers = {
        w: leading_power(w, [f.still.gradients[w] for f in found], [f.first.gradients[w] for f in found]) for w in "UC"
    }
    assert powers == {"U": 0, "C": 1 - α}


@pytest.mark.parametrize("name", ("tanh", "relu", "a product"))
def test_a_branch_that_ends_with_a_function_is_one(name):
    block, names = BLOCKS[name]
    net = many(3, block, *names)
    apart = with_ends_apart(net)
    assert len(branches(apart)) == 3 and not branches(net)
    one, other = (net.run(n=6, seed=0, ξ=[0.7])["return"] for net in (net, apart))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_branch_that_is_added_inside_of_a_sum_over_an_axis_is_one():
    """Σ_token relu(relu(x + W φ) + W φ): the last two blocks are in no instruction but what is returned."""

    @tp.network
    def pooled(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "block"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        first = W.sel(block=0) @ tp.tanh(x)
        second = W.sel(block=1) @ tp.relu(x + first)
        return v * tp.mean(tp.relu(tp.relu(x + first) + second), over="token")

    net = pooled.bind(d=2, token=3, block=2)
    apart = with_ends_apart(net)
    assert [apart[b.end].matrix_indices for b in branches(apart)] == [(0,), (1,)]
    one, other = (p.run(n=6, seed=0, ξ=np.arange(6.0).reshape(2, 3) / 5 - 0.4)["return"] for p in (net, apart))
    np.testing.assert_allclose(one, other, rtol=1e-12)
