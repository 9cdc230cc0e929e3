"""Arrays that constants and sizes make, tabulated."""

import numpy as np
import pytest

import tplimits as tp


@pytest.mark.parametrize("picked", [0, 1])
@pytest.mark.parametrize("by", ["sel", "take"])
def test_entries_of_constant_arrays_are_picked(by, picked):
    """A row c of C A is read behind heads of their own: the drift is |c|² V, by a number or by a table of indices."""
    A, C = np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[0.3, -0.7], [1.1, 0.4]])

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix["n", "n", "head"]):
        a = tp.constant(A, axes=("key", "head"))
        b = tp.constant(C, axes=("row", "key"))
        rows = tp.sum(b * tp.sum(a * (W @ x), over="head"), over="key")
        if by == "sel":
            return x + rows.sel(row=picked) / tp.sqrt(tp.n)
        return x + rows.take(row=[picked], axes=("one",)).sel(one=0) / tp.sqrt(tp.n)

    V = np.array([[1.0, 0.3], [0.3, 0.8]])
    drift = tp.derive(block.bind(head=2, key=2, row=2), tp.Proportional()).drift_at(V)
    np.testing.assert_allclose(drift, ((C @ A)[picked] ** 2).sum() * V, rtol=1e-12)
