"""Normal variables recovered from the matrices of drawn networks: independent ones, whatever they were made of."""

from __future__ import annotations

import itertools
import math

import pytest

import tplimits as tp
from tplimits.law.observables import observables
from tplimits.numbers.expansion import tables
from tplimits.numbers.expansion.coupled import Networks, _Measured, _Recovering
from tplimits.sampling.sample import Sampler

WIDTH, DRAWS = 48, 600


@tp.program
def back_and_forth(W: tp.Matrix["k", "n"], x: tp.Vector):
    y = tp.tanh(W @ x)
    z = tp.tanh(W.T @ y)
    return tp.avg((W @ z) ** 2), tp.avg((W.T @ tp.sin(W @ z)) ** 2)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_recovered_variables_are_normal_and_independent(ratio):
    """Of every pair √n·avg(g h) has mean 0 and variance 1 over draws, of one with itself n avg(g² − 1)² is 2."""
    ratios = {"k": ratio}
    table = tables.expanded(back_and_forth, {}, ratios)
    sampler = Sampler(back_and_forth, observables(back_and_forth), 1, ratios)
    sampler.prepare()
    execution = sampler.executed(WIDTH, 0, DRAWS)
    frame = Networks(execution.width)
    measured = _Measured(frame, table.numbers.ratios, values_only=True)
    recovering = _Recovering(table.program, table.numbers, measured, table.seen.exist, WIDTH)
    recovering.execution = execution
    recovering.run()
    columns = {axis: [c.values for c in frame.columns if frame.of[axis] in c.dims] for axis in ("n", "k")}
    columns["n"].append(execution.arrays[back_and_forth.position("x")])
    assert [len(c) for c in columns.values()] == [3, 2]
    for axis, found in columns.items():
        size = execution.width[axis]
        for g, h in itertools.combinations_with_replacement(found, 2):
            products = (g * h).mean(axis=1) - (g is h)
            scaled = size**0.5 * products / (2**0.5 if g is h else 1)
            assert abs(scaled.mean()) < 5 / DRAWS**0.5
            assert scaled.var() == pytest.approx(1, abs=6 * (2 / DRAWS) ** 0.5)


def test_functions_with_jumps_are_read_on_drawn_networks():
    """E avg 1(x > ½) x is that of one neuron at every width, and its C is the variance of one neuron."""

    @tp.program
    def cut(x: tp.Vector):
        return tp.avg(tp.where(x - 0.5, x, 0 * x))

    found = tp.derive(cut, tp.FiniteWidth())
    mean = math.exp(-1 / 8) / math.sqrt(2 * math.pi)
    square = mean / 2 + math.erfc(1 / 8**0.5) / 2
    asked = {"widths": (16, 32, 64), "draws": 400, "seed": 0, "progress": False}
    assert tp.check(found, claims={"b(return)": 0.0, "C(return)": square - mean**2}, **asked).accepted
    assert not tp.check(found, claims={"C(return)": square}, **asked).accepted
