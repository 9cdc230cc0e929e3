"""Tiles of pairs: what inputs are made of, features or pixels, makes no tile smaller; their means share rows."""

from __future__ import annotations

import numpy as np

import tplimits as tp
from tplimits.numbers.moments import hermite


@tp.network
def two_layers(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))))


def test_features_do_not_make_tiles_smaller_nor_rows_more(monkeypatch):
    """Rows of 130 inputs: three tiles a side, four functions of two variances, whatever tiles they meet in."""
    limit, made, tiles = tp.derive(two_layers, tp.Kernels()), [], []
    rows = hermite.hermite_rows

    def counted(f, variances, orders=hermite.ORDERS):
        made.append(len(variances))
        return rows(f, variances, orders)

    monkeypatch.setattr(hermite, "hermite_rows", counted)
    X = np.random.default_rng(5).standard_normal((130, 784))
    hermite.forget_rows()
    nngp, ntk = limit.evaluate(X, progress=lambda done, total, text: tiles.append(total))
    assert max(tiles) == 6  # of three tiles a side those on and above the diagonal
    assert len(made) <= 3 * 4 and sum(made) <= 4 * 130
    few, several = limit.evaluate(X[100:104], progress=False)
    np.testing.assert_allclose(np.asarray(nngp)[100:104, 100:104], few, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(ntk)[100:104, 100:104], several, rtol=1e-12)
    hermite.forget_rows()
