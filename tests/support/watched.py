"""Small networks and data that recordings are made of in tests."""

from __future__ import annotations

import numpy as np

import tplimits as tp


@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar):
    h = tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(v * h) + 0.1 * b


@tp.network
def deep(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["label"]):
    h = tp.tanh(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
    g = tp.tanh(W @ h)
    return v * g


deep = deep.bind(label=3)


def inputs(count: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, d))


X = inputs(8, 3)
#: the last two inputs are held out
LOSS = tp.squared_error(np.sin(X[:, 0]), train=range(6))
HOW = {"error": LOSS, "optimizer": tp.Adam(), "lr": 0.05, "steps": 6}


def watched(path=None, **other):
    """A recording of `shallow`: two seeds of width 8, and of the limit."""
    how = {**HOW, "widths": (8, tp.inf), "seeds": 2, "particles": 64, **other}
    return tp.watch(shallow, X, path=path, **how)


def same(one: tp.Recording, other: tp.Recording) -> bool:
    """Whether two recordings hold the same bits."""

    def arrays(rec):
        found = [rec.steps, *rec.probes.values(), *([] if rec.labels is None else [rec.labels])]
        for run in rec.runs:
            found += [*run.parameters.values(), *run.curves.values(), *run.values.values()]
            found += [] if run.outputs is None else [run.outputs]
        return found

    pairs = list(zip(arrays(one), arrays(other), strict=True))
    names = [[(r.width, r.seed, *r.parameters, *r.curves, *r.values) for r in rec.runs] for rec in (one, other)]
    bits = all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)
    return bits and names[0] == names[1] and one.program == other.program and one.settings == other.settings
