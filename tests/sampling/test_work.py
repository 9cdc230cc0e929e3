"""The work of a draw, batches, and the widths a program can afford."""

from __future__ import annotations

import pytest

import tplimits as tp
from tplimits.sampling.work import CAP_ENTRIES, affordable, batch_size, width_cap, work


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
    assert affordable(programs.tied, (64, 4096)) == (64, 4096)
