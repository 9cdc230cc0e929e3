"""U-nets: down by strides or pools, up by repeated places, joined on the way; against a recursion over places."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import place_recursion as places
import pytest

import tplimits as tp
from tplimits import layers
from tplimits.numbers.loops import machine
from tplimits.regimes.kernels.numbers import request
from tplimits.regimes.kernels.numbers.passes import planning
from tplimits.regimes.kernels.numbers.passes.lanes import Lanes

Array = np.ndarray
SIZE = 8


class UNet:
    """A network of a seed, on a line or on an image: as a program, and as a recursion over places."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.image, self.levels, self.mean = draw.random() < 0.3, draw.choice((1, 2)), draw.random() < 0.7
        self.size = 4 if self.image else SIZE
        self.strided = [draw.random() < 0.5 for _ in range(self.levels)]

    def grid(self, level: int) -> Any:
        side = self.size >> level
        return {f"p{level}": (side, side) if self.image else side}

    @property
    def program(self) -> tp.Program:
        taps = {"tap": (3, 3) if self.image else 3}

        def conv(x: Any, weights: Any, level: int, **options: Any) -> Any:
            made = layers.conv2d if self.image else layers.conv1d
            return made(x, weights, over=self.grid(level), taps=taps, **options)

        def body(ξ: Any, U: Any, W: Any) -> Any:
            number = iter(range(3 * self.levels))
            x, kept = tp.relu(conv(ξ, U, 0)), []
            for level, strided in enumerate(self.strided):
                kept.append(x)
                weights, to = W.sel(layer=next(number)), f"p{level + 1}"
                if strided:
                    x = tp.relu(conv(x, weights, level, stride=2, to=to))
                else:
                    x = tp.relu(conv(layers.avg_pool(x, over=self.grid(level), window=2, to=to), weights, level + 1))
            for level in reversed(range(self.levels)):
                up = layers.upsample(x, over=self.grid(level + 1), factor=2, to=f"p{level}")
                both = [W.sel(layer=next(number)) for _ in range(2)]
                x = tp.relu(conv(up, both[0], level) + conv(kept[level], both[1], level))
            return x

        @tp.network
        def each(
            ξ: tp.Input["d", "p0"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector["p0"]
        ):
            return tp.sum(v * body(ξ, U, W), over="p0")

        @tp.network
        def mean(
            ξ: tp.Input["d", "p0"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector
        ):
            return v * layers.global_pool(body(ξ, U, W), over="p0")

        return (mean if self.mean else each).bind(p0=self.places(0), layer=3 * self.levels)

    def places(self, level: int) -> int:
        return (self.size >> level) ** (2 if self.image else 1)

    def along(self, line: places.Reads, size: int) -> places.Reads:
        return places.square(line, size) if self.image else line

    def by_hand(self, X: Array) -> tuple[Array, Array]:
        def conv(side: int, **options: int) -> places.Reads:
            return self.along(places.taps(side, -(-side // options.get("stride", 1)), **options), side)

        x, kept = places.data(X).through(conv(self.size, before=1), 1).relu(), []
        for level, strided in enumerate(self.strided):
            kept.append(x)
            side = self.size >> level
            if strided:  # three taps and an even side: nothing before, one place behind
                x = x.through(conv(side, stride=2), 1).relu()
            else:
                pairs = self.along([[(0, 2 * a), (0, 2 * a + 1)] for a in range(side // 2)], side)
                x = x.summed(pairs, 0.25 if self.image else 0.5).through(conv(side // 2, before=1), 1).relu()
        for level in reversed(range(self.levels)):
            side = self.size >> level
            up = x.summed(self.along([[(0, a // 2)] for a in range(side)], side // 2))
            taps, many = conv(side, before=1), self.places(level)
            reads = [[(("up", t), p) for t, p in of] + [(("kept", t), many + p) for t, p in of] for of in taps]
            x = places.beside(up, kept[level]).through(reads, 1).relu()
        every = self.places(0)
        return x.read_out_sum(np.full((len(X), every), 1 / every)) if self.mean else x.read_out(1)


@pytest.mark.parametrize("seed", (0, 3, 5, 9))
def test_u_nets(seed, monkeypatch):
    """By hand, by arrays, and compiled as it stands: up-sampling and the taps behind it are one table of places."""
    monkeypatch.setattr(machine, "_SPEED", 0)
    monkeypatch.setattr(Lanes, "rewritten", False)
    net = UNet(seed)
    X = np.random.default_rng(seed).standard_normal((3, 2, net.places(0)))
    limit = tp.derive(net.program, tp.Kernels())
    arrays = limit.evaluate(X)
    for found, wanted in zip(arrays, net.by_hand(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-7)  # by hand, an arccosine at equal places
    asked = request.request(limit.derivation, X, None, {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    pairs = [x for x in made.functions[0].labels if {"input 1", "input 2"} <= set(x)]
    assert not [x for x in pairs if any(i.startswith("tap") for i in x)], "no array of taps × places × places"
    made.is_compiled, made.calls = True, 1  # as at a second call, which compiles what is done once for inputs too
    assert made.has_form
    for found, wanted in zip(limit.evaluate(X), arrays, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_u_nets_of_nearly_equal_inputs_keep_their_digits(monkeypatch):
    """Gaps go through up-sampling: copies to the bit, neighbours continuously, and nothing is done in many digits."""
    net = UNet(1)
    x, e = np.random.default_rng(3).standard_normal((2, 2, net.places(0)))
    limit = tp.derive(net.program, tp.Kernels())
    monkeypatch.setattr("tplimits.regimes.kernels.numbers.evaluation.wide", None)
    found = limit.evaluate(x[None], np.stack([x, x + 1e-7 * e, x + 2e-7 * e, x.copy()])).ntk[0]
    assert found[3] == found[0]
    assert found[2] - found[0] == pytest.approx(2 * (found[1] - found[0]), rel=1e-5)
