"""One layer of a deep network by the expansion in 1/n: n E[V′ − V] and n Cov(V′), a route of its own to the SDE."""

from __future__ import annotations

import numpy as np

from tplimits.numbers.expansion.averages import Averages, Jet
from tplimits.numbers.expansion.matrices import _root
from tplimits.numbers.expansion.nodes import Frame, Moved, Rough, Split
from tplimits.numbers.expansion.programs import Pass
from tplimits.numbers.expansion.resolutions import drawn
from tplimits.numbers.expansion.tables import numbers_of


class Layer(Pass):
    """The state is x_a = Σ_b L_ab q_b with V = L Lᵀ and q_b exactly orthonormal at width n."""

    root: np.ndarray

    def initial_vector(self, s, key):
        if key[0] != self.program.state:
            return super().initial_vector(s, key)
        if not hasattr(self, "basis"):
            self.basis = []
            for _ in range(len(self.root)):
                self.basis.append(self._direction())
        parts = [self.averages.scaled(q, float(c)) for q, c in zip(self.basis, self.root[key[1][0]], strict=True)]
        self.jets[key] = self.averages.sum(*parts)
        return None

    def _direction(self):
        do, g = self.averages, Jet(self.frame.normal("n"))
        minus = [do.average(do.product(q, g), "n", "start") for q in self.basis]
        square = do.average(do.product(g, g), "n", "start")
        rest = do.sum(square, *(do.scaled(do.product(c, c), -1.0) for c in minus))
        left = do.sum(g, *(do.scaled(do.product(c, q), -1.0) for c, q in zip(minus, self.basis, strict=True)))
        return do.product(_root(do, rest, -0.5), left)


def drift_and_diffusion(block, V, step=0.34, ratios=None, **constants):
    """b (m, m), C over pairs a ≤ b, and the coefficient of √n, which has to vanish."""
    program, numbers = numbers_of(block.bind(token=len(V)), constants, ratios or {})
    seen = drawn(program, numbers)
    splits, rough = {}, frozenset()
    while True:
        averages = Averages(Frame(step, rough, splits), numbers.ratios)
        run = Layer(program, numbers, averages, dict(seen.exist))
        run.root = np.linalg.cholesky(V)
        try:
            run.run()
            break
        except Rough as found:
            rough |= found.numbers
        except Split as split:
            splits = {**splits, split.number: [*splits.get(split.number, []), split.place]}
        except Moved as moved:
            places = list(splits[moved.number])
            places[moved.mark] = moved.place
            splits = {**splits, moved.number: places}
    m, out = len(V), program.returns[0]
    pairs = [(a, b) for a in range(m) for b in range(a, m)]
    x = [run.jets[out, (a,)] for a in range(m)]
    jets = [averages.average(averages.product(x[a], x[b]), "n", "V") for a, b in pairs]
    rows = np.zeros((len(pairs), len(averages.known)))
    for row, jet in zip(rows, jets, strict=True):
        for i, d in jet.slopes.items():
            row[i] = float(d.values)
    drift = np.zeros((m, m))
    for (a, b), jet in zip(pairs, jets, strict=True):
        drift[a, b] = drift[b, a] = float(jet.shift.values)
    limit = np.array([float(jet.value.values) - V[p] for jet, p in zip(jets, pairs, strict=True)])
    roots = np.array([sum(float(d.values) * averages.root(i) for i, d in jet.slopes.items()) for jet in jets])
    return drift, rows @ averages.covariance @ rows.T, np.concatenate([limit, roots])
