"""How many nodes are asked for is known before they are made."""

from __future__ import annotations

import pytest

from tplimits.numbers import cut_grid
from tplimits.numbers.budget import TooManyAtOnce
from tplimits.numbers.cuts import Cutting, Planes

SMOOTH = Cutting(Planes((), ()), 2, cut_grid.RADIUS[2])
CUT = Cutting(Planes(((1.0, 0.0), (1.0, 1.0)), (0.0, 0.0)), 2, cut_grid.RADIUS[2])


@pytest.mark.parametrize(
    "make",
    [
        lambda: cut_grid._cut(SMOOTH, 0, 3, 2),
        lambda: cut_grid._cut(CUT, 0, 3, 2),
        lambda: cut_grid._cut(SMOOTH, 0, 3, 2, (1, 0)),
        lambda: cut_grid.grid(SMOOTH, 0, 3),
    ],
)
def test_as_many_nodes_as_there_is_room_for(make, monkeypatch):
    nodes, weights = make()
    monkeypatch.setattr(cut_grid, "MAX_NODES", weights.size)
    assert make()[0].shape == nodes.shape
    monkeypatch.setattr(cut_grid, "MAX_NODES", weights.size - 1)
    with pytest.raises(TooManyAtOnce, match=f"{weights.size} quadrature nodes in 2 dimensions"):
        make()
    total = weights.sum(axis=1)
    assert total == pytest.approx([1, 1, 1], rel=1e-12)
    assert (weights[..., None] * nodes**2).sum(axis=1) == pytest.approx(1 + 0 * nodes[:, 0], rel=1e-9)
