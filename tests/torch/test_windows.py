"""Windows of two-dimensional convolutions: a table for rows and one for columns, and kernels beside NumPy by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tplimits as tp
from tplimits.torch.tensors import _separate


def convolutions(n, **window):
    return nn.Sequential(
        nn.Conv2d(1, n, 3, bias=False, **window),
        nn.ReLU(),
        nn.Conv2d(n, n, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(n, 2, bias=False),
    )


def of_relu(K):
    """E[relu u relu v] for all pairs of rows."""
    size = np.sqrt(np.maximum(np.diag(K), 1e-300))
    outer = np.outer(size, size)
    angle = np.arccos(np.clip(K / outer, -1, 1))
    return outer * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)


def convolved(K, many, size, padding, stride):
    """The covariance of Σ_t W_t x_{s + t} from that of x; entries have variance 1/27 a channel."""
    P = np.pad(K.reshape(many, size, size, many, size, size), [(0, 0), *[(padding, padding)] * 2] * 2)
    to = (size + 2 * padding - 3) // stride + 1
    cut = [slice(i, i + stride * (to - 1) + 1, stride) for i in range(3)]
    found = sum(P[:, i, j, :, i, j] for i in cut for j in cut)
    return found.reshape(many * to * to, -1) / 27, to


@pytest.mark.parametrize("window", [{"padding": 1}, {"padding": 1, "stride": 2}, {}], ids=str)
def test_kernels_of_images(window):
    x = torch.randn(2, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    net = tp.from_torch(lambda n: convolutions(n, **window), x, widths=(16, 32, 64))
    many = len(x)
    pixels = x.double().numpy().reshape(-1)
    K, size = convolved(np.outer(pixels, pixels), many, 5, window.get("padding", 0), window.get("stride", 1))
    K, size = convolved(of_relu(K), many, size, 1, 1)
    pooled = of_relu(K).reshape(many, size**2, many, size**2).mean(axis=(1, 3)) / 3
    found = tp.derive(net.gaussian(), tp.Kernels()).evaluate(net.data(x))
    np.testing.assert_allclose(found.nngp, pooled, rtol=1e-9)


def test_tables_are_of_rows_and_of_columns():
    rows, columns = np.array([-1, 0, 1]), np.array([0, 1, -1])
    outside = (rows[:, None] < 0) | (columns[None] < 0)
    tables = {"a": np.where(outside, -1, rows[:, None]), "b": np.broadcast_to(columns[None], (3, 3))}
    found = _separate(tables)
    assert {axis: t.shape for axis, t in found.items()} == {"a": (3, 1), "b": (1, 3)}
    np.testing.assert_array_equal(found["a"][:, 0], rows)
    holed = tables | {"b": np.where(np.eye(3, dtype=bool), -1, tables["b"])}  # holes that are no rows and columns stay
    again = _separate(holed)
    inside = np.all([np.broadcast_to(t, (3, 3)) >= 0 for t in again.values()], axis=0)
    np.testing.assert_array_equal(inside, (holed["a"] >= 0) & (holed["b"] >= 0))
