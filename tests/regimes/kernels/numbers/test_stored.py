"""Gram matrices in files: the same numbers, and nothing half-written."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp


@tp.network
def ratio(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * x / tp.sqrt(tp.avg(x**2))


LIMIT = tp.derive(ratio, tp.Kernels())
X = np.random.default_rng(0).standard_normal((5, 3))


def test_files_hold_what_is_given(tmp_path):
    wanted = LIMIT.evaluate(X)
    found = LIMIT.evaluate(X, out=tmp_path / "gram")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gram.nngp.npy", "gram.ntk.npy"]
    for kernel in ("nngp", "ntk"):
        stored = np.load(tmp_path / f"gram.{kernel}.npy")
        np.testing.assert_array_equal(stored, getattr(wanted, kernel))
        assert isinstance(getattr(found, kernel), np.memmap)
        np.testing.assert_array_equal(getattr(found, kernel), stored)


def test_nothing_stays_of_what_fails(tmp_path, monkeypatch):
    """The last input is 0, which a layer norm divides by: tiles before it are complete."""
    monkeypatch.setattr("tplimits.regimes.kernels.numbers.evaluation._TILE", 4)
    bad = np.concatenate([X, np.zeros((1, 3))])
    LIMIT.evaluate(X, out=tmp_path / "gram")
    before = (tmp_path / "gram.nngp.npy").read_bytes()
    with pytest.raises(tp.EvaluationError, match=r"the NNGP of inputs . and 5 is not a finite number"):
        LIMIT.evaluate(bad, out=tmp_path / "gram")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gram.nngp.npy", "gram.ntk.npy"]
    assert (tmp_path / "gram.nngp.npy").read_bytes() == before


def test_where_files_cannot_be(tmp_path):
    with pytest.raises(tp.EvaluationError, match="there is no folder"):
        LIMIT.evaluate(X, out=tmp_path / "nowhere" / "gram")
    with pytest.raises(tp.EvaluationError, match='out=3: give the beginning of file names, as in out="gram"'):
        LIMIT.evaluate(X, out=3)
