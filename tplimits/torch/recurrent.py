"""Recurrent cells as the operations they are made of.

torch.export keeps cells and sequences whole; their gates are pieces of one matrix, which the rules of `linear`,
`chunk` and of entrywise functions already know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.nn.functional import linear

_ATEN = torch.ops.aten


def _lstm_cell(x: Any, state: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> tuple[Any, Any]:
    h, c = state
    i, f, g, o = (linear(x, w_x, b_x) + linear(h, w_h, b_h)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_cell(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
    r_x, z_x, n_x = linear(x, w_x, b_x).chunk(3, 1)
    r_h, z_h, n_h = linear(h, w_h, b_h).chunk(3, 1)
    new = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    z = (z_x + z_h).sigmoid()
    return (h - new) * z + new


def _rnn_cell(act: Callable[[Any], Any]) -> Callable[..., Any]:
    def cell(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
        return act(linear(x, w_x, b_x) + linear(h, w_h, b_h))

    return cell


CELLS = {
    _ATEN.lstm_cell.default: _lstm_cell,
    _ATEN.gru_cell.default: _gru_cell,
    _ATEN.rnn_tanh_cell.default: _rnn_cell(torch.tanh),
    _ATEN.rnn_relu_cell.default: _rnn_cell(torch.relu),
}
SEQUENCES = {
    op: decomposition_table[op]
    for op in (_ATEN.lstm.input, _ATEN.gru.input, _ATEN.rnn_tanh.input, _ATEN.rnn_relu.input)
}


def unrolled(program: Any) -> Any:
    """The same exported program, with cells and sequences written out."""
    table = {**CELLS, **SEQUENCES}
    if any(node.target in table for node in program.graph.nodes):
        return program.run_decompositions(dict(table))
    return program
