"""L, b and C of a program by weights alone: no derivative rule, no random number that matters.

With weight ε moved onto one neuron s of a small weighted set, P_ε = (1 − ε) P + ε δ_s,

    ψ(s) = dL/dε,   C = Σ_s w_s ψ(s)²,   b = ½ Σ_s w_s d²L/dε²   (each divided by the width's ratio, axis by axis)

where L is the limit of the matrix-free program under these weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tplimits.law.observables import observables
from tplimits.numbers.expansion.averages import Averages
from tplimits.numbers.expansion.kinks import Kinks
from tplimits.numbers.expansion.programs import Pass
from tplimits.numbers.expansion.resolutions import drawn
from tplimits.numbers.expansion.samples import Samples
from tplimits.numbers.expansion.tables import numbers_of


class Few(Samples):
    """A small weighted set of neurons, the same at every call; nothing on it is too small to be told from 0."""

    tolerance = 1e-13

    def __init__(self, sizes, seed, weights=None):
        super().__init__(sizes, np.random.default_rng(seed))
        rng = np.random.default_rng(seed + 1)
        for i, v in self.variables.items():
            even = rng.uniform(0.5, 1.5, len(v.nodes))
            w = even / even.sum() if weights is None else weights[v.axis]
            self.variables[i] = replace(v, weights=w)

    def weights_of(self):
        return {v.axis: v.weights for v in self.variables.values()}


class Prepared:
    """A program on few neurons."""

    def __init__(self, program, size=40, seed=0, ratios=None, given=None):
        self.program, self.numbers = numbers_of(program, given or {}, ratios or {})
        self.seen = drawn(self.program, self.numbers)
        self.sizes = {w: max(12, round(size * r)) for w, r in self.numbers.ratios.items()}
        self.seed = seed
        self.observables = observables(self.program)

    def run(self, weights=None, values_only=True):
        frame = Few(self.sizes, self.seed, weights)
        averages = Averages(frame, self.numbers.ratios, values_only=values_only)
        run = Pass(self.program, self.numbers, averages, self.seen.exist).run()
        return frame, averages, [run.observed(o) for o in self.observables]

    def limits(self, weights):
        return np.array([float(x.value.values) for x in self.run(weights)[2]])


def by_weights(prepared, step=1e-3):
    """(L, b, C) by fourth-order differences."""
    frame, _, start = prepared.run()
    weights = frame.weights_of()
    centre = np.array([float(x.value.values) for x in start])
    bias, covariance = 0.0, 0.0
    for axis, w in weights.items():
        rho = prepared.numbers.ratios[axis]
        for s in range(len(w)):
            moved = np.zeros(len(w))
            moved[s] = 1.0
            near = {k: prepared.limits({**weights, axis: w + k * step * (moved - w)}) for k in (-2, -1, 1, 2)}
            first = (8 * (near[1] - near[-1]) - near[2] + near[-2]) / (12 * step)
            second = (16 * (near[1] + near[-1]) - near[2] - near[-2] - 30 * centre) / (12 * step**2)
            bias = bias + w[s] * second / 2 / rho
            covariance = covariance + w[s] * np.outer(first, first) / rho
    return centre, bias, covariance


def by_calculus(prepared, monkeypatch):
    """The same by the rules; a kink at which no neuron stands has no delta."""
    monkeypatch.setattr(Kinks, "delta", lambda self, x: None)
    _, averages, jets = prepared.run(values_only=False)
    limit = np.array([float(x.value.values) for x in jets])
    bias = np.array([0.0 if x.shift is None else float(x.shift.values) for x in jets])
    rows = np.zeros((len(jets), len(averages.known)))
    for row, x in zip(rows, jets, strict=True):
        for i, d in x.slopes.items():
            row[i] = float(d.values)
    return limit, bias, rows @ averages.covariance @ rows.T
