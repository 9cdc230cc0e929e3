"""The work of a draw, batches, and the widths a program can afford."""

from __future__ import annotations

import pytest

import tplimits as tp
from tplimits.sampling.work import (
    CAP_ENTRIES,
    MOST_ENTRIES,
    affordable,
    batch_size,
    expansion_work,
    fitting_width,
    layer_batch,
    layer_work,
    member_count,
    update_work,
    width_cap,
    work,
)


def test_work_of_matrices_grows_as_their_entries(programs):
    assert work(programs.tied, 512) == pytest.approx(4 * work(programs.tied, 256), rel=0.02)
    assert work(programs.two_widths, 100, {"k": 3}) == pytest.approx(3 * work(programs.two_widths, 100), rel=0.1)


def test_work_of_tuples_of_neurons_grows_with_their_order(programs):
    assert work(programs.pairs, 400) == pytest.approx(4 * work(programs.pairs, 200), rel=0.02)
    assert work(programs.triples, 400) == pytest.approx(8 * work(programs.triples, 200), rel=0.02)


def test_families_of_matrices_count_each_member():
    @tp.program
    def heads(W: tp.Matrix["n", "n", "head"], x: tp.Vector):
        return tp.sum(W @ x, over="head")

    assert work(heads.bind(head=6), 200) == pytest.approx(2 * work(heads.bind(head=3), 200), rel=0.02)


def test_batches_hold_a_bounded_number_of_entries(programs):
    assert batch_size(programs.tied, 64) > batch_size(programs.tied, 512) >= 1
    assert batch_size(programs.tied, 64) * work(programs.tied, 64) < 2**21
    assert batch_size(programs.tied, 4096) == 1


def test_order_three_is_capped_and_lower_orders_are_not(programs):
    assert width_cap(programs.triples) == 128 and CAP_ENTRIES == 128**3
    assert width_cap(programs.pairs) is None and width_cap(programs.tied) is None
    assert affordable(programs.triples, (64, 128, 256, 512)) == (16, 32, 64, 128)
    assert affordable(programs.triples, (20, 100)) == (20, 100)
    assert affordable(programs.triples, (1, 3, 400)) == (1, 1, 128)
    assert affordable(programs.tied, (64, 4096)) == (64, 4096)


@tp.block
def heads(x: tp.State["token"], W: tp.Matrix["k", "n", "head"], R: tp.Matrix["n", "k", "head"], c: tp.Scalar):
    y = tp.sum(R @ tp.tanh(W @ x), over="head")
    return x + c * tp.avg(y * y)


T, H, N, K = 3, 2, 40, 80
RATIOS = {"k": K / N}
PAIRS = T * H
#: entries of the arrays of one draw: state, matrices, scalar; images and functions of them; sums, squares, averages
ARRAYS = (T * N, 2 * H * N * K, 1, *(PAIRS * K,) * 2, PAIRS * N, *(T * N,) * 2, T, *(T * N,))
#: operations on entries, one more for writing each: tanh, the sum over heads, squares, averages, c·s + x
FUNCTIONS = 0.2 * (2 * PAIRS * K + T * N * (H + 2 + 1 + 3))


def test_the_work_of_a_draw_is_that_of_its_arrays():
    """By the shapes: normals as they are, multiplications of products at a tenth, operations on entries at a fifth."""
    program = heads.bind(token=T, head=H)
    normals, products = T * N + 2 * H * N * K + 1, 0.1 * 2 * PAIRS * N * K
    assert work(program, N, RATIOS) == pytest.approx(normals + products + FUNCTIONS)
    assert batch_size(program, N, RATIOS) == 2**20 // int(normals + products + FUNCTIONS)
    assert batch_size(heads.bind(token=1, head=1), 1) == 4096


def test_the_work_of_a_layer_by_products_has_no_matrices():
    """Products drawn as normals: each entry once, and times a root over all of them, forth and back."""
    program = heads.bind(token=T, head=H)
    rows = T + 2 * PAIRS
    controls, images = 0.1 * N * rows**2, PAIRS * (K + N)
    drawn = 4 * (controls + T * N + 1 + images * (1 + 0.2 * PAIRS) + FUNCTIONS)
    assert layer_work(program, N, RATIOS, True) == pytest.approx(drawn)
    assert layer_work(program, N, RATIOS, False) == pytest.approx(4 * (controls + work(program, N, RATIOS)))
    assert layer_batch(program, N, RATIOS, False) == 2**20 // sum(ARRAYS)
    assert layer_batch(program, N, RATIOS, True) == 2**20 // (sum(ARRAYS) - 2 * H * N * K)
    assert layer_batch(program, 10**6, RATIOS, True) == 1


def test_the_work_of_an_expansion_is_that_of_pairs_of_averages():
    """Averages: written ones, one a token, and those of each two uses of one matrix family."""
    averages = T + 2 * PAIRS**2
    assert expansion_work(heads.bind(token=T, head=H)) == pytest.approx(3e4 * averages**2)


def test_one_draw_is_no_larger_than_memory():
    program = heads.bind(token=T, head=H)
    widest = fitting_width(program, 10**6, RATIOS)

    def held(n):
        return sum(ARRAYS[:1]) // N * n + 2 * H * n * 2 * n + 1 + 2 * PAIRS * 2 * n + PAIRS * n + 3 * T * n + T

    assert held(widest) <= MOST_ENTRIES < held(widest + 1)
    assert [fitting_width(program, n, RATIOS) for n in (0, 1, 100)] == [0, 1, 100]
    for n in range(widest - 2, widest + 12):
        assert fitting_width(program, n, RATIOS) == min(n, widest)


def test_updates_and_members():
    @tp.network
    def net(x: tp.Input, W: tp.Matrix, u: tp.Vector, v: tp.Vector):
        return v * tp.tanh(W @ (x * u))

    assert update_work(net, "W", 5, 30) == pytest.approx(900 * (0.2 * 5 + 2 * 0.1))
    assert [member_count(n) for n in (8, 32, 47, 48, 160)] == [2, 2, 2, 3, 10]
