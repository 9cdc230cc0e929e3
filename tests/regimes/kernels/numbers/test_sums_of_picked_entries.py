"""Kernels of sums of entries that several tables pick in one instruction, as imported models hold them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tplimits as tp

#: three taps, each read by a table of its own as a stack of slices is; −1 reads zero
TAPS = [[[i if tap == at else -1 for tap in range(3)] for i in range(at, at + 4)] for at in range(3)]
#: two tables without a place outside
SHIFTS = [[[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]], [[2, 2, 2], [3, 3, 3], [4, 4, 4], [5, 5, 5]]]


@tp.network
def convolved(x: tp.Input["c", "at"], U: tp.Vector["c"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
    h = tp.relu(tp.sum(U * x, over="c")).named("h")
    y = h.take(at=np.array(TAPS[0]), axes=("to", "tap")).named("y")
    z = tp.sum(W @ y, over="tap")
    return v * tp.mean(tp.relu(z), over="to")


def in_one_instruction(tables):
    """`convolved` of the sum of the entries that the tables pick, which the language writes as several instructions."""
    document = json.loads(tp.to_json(convolved))
    (template,) = document["tables"]
    (gathering,) = (s for s in document["instructions"] if any(p.startswith("lookup ") for p in s.get("body", ())))
    one = gathering["body"]
    assert one.count("lookup 0 2") == 1
    document["tables"] = [template | {"values": [str(k) for k in np.ravel(t)]} for t in tables]
    gathering["body"] = [p.replace("lookup 0", f"lookup {k}") for k in range(len(tables)) for p in one]
    gathering["body"].append(f"add {len(tables)}")
    return tp.from_json(json.dumps(document))


def relu_kernel(c):
    """E relu(u) relu(u′) of every pair, from its closed form."""
    size = np.sqrt(np.outer(np.diag(c), np.diag(c)))
    angle = np.arccos(np.clip(c / size, -1, 1))
    return size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)


def by_hand(X, tables):
    """K of the outputs, by sums over the places that are read."""
    many = len(X)
    flat = X.transpose(0, 2, 1).reshape(-1, X.shape[1])
    K = relu_kernel(flat @ flat.T)
    z = 0
    for tap in range(3):
        reads = sum(np.array([[float(row[tap] == at) for at in range(6)] for row in t]) for t in tables)
        reads = np.kron(np.eye(many), reads)
        z = z + reads @ K @ reads.T
    return relu_kernel(z).reshape(many, 4, many, 4).mean(axis=(1, 3))


@pytest.mark.parametrize("many", [3, 40])
@pytest.mark.parametrize("tables", [TAPS, SHIFTS], ids=["taps", "shifts"])
def test_distances_between_two_tables_are_none_of_their_sum(tables, many):
    X = np.random.default_rng(0).standard_normal((many, 2, 6))
    found = tp.derive(in_one_instruction(tables), tp.Kernels()).evaluate(X).nngp
    expected = by_hand(X, tables)
    assert np.allclose(found, expected, rtol=0, atol=1e-12)
    twin = by_hand(X, tables[:1])  # as if the others were not read
    assert not np.allclose(twin, expected, rtol=0.2)
