"""Norms of updates and of weights at infinite width (Yang & Littwin, Sec. 2.10.2, Defs 2.10.4 to 2.10.9).

‖Q_t‖ and ‖w_t‖ grow like n^e and n^(e−b) with e = 1, ½, 0 for matrices, vectors, scalars and n the width that is read
out.  Divided by these powers they tend to

    matrices   |Q|² = (rows · columns/n²) E E□ Q²,        |w|² = (1 − λ)^(2t) rows/n,
    vectors    |Q|² = (width/n) Σ_axes E Q²,              |w|² = (width/n) Σ_axes E w_t²,
    scalars    |Q|² = Σ_axes Q²,                          |w|² = Σ_axes w_t²,

by the law of large numbers for what updates are averages of.  Updates of a matrix are smaller than W_0 by a power of
n in this norm, so that W_0 alone counts.  The square of the norm of a whole gradient is the sum of those of all
parameters, with G_t in the place of Q.  Hypothesis: the norm does not vanish in the limit, unless it does at finite
width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import width_symbol
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True)
class Norm:
    """The norm by which updates of a parameter are divided: of the "update" or of the "weight".

    |z|² = `widths` Σ_axes E z²; for the weights of a matrix `widths` times (1 − λ)^(2t) is all of it.
    """

    optimizer: Optimizer
    of: str
    axes: tuple[str, ...]
    widths: Expr
    is_of_start: bool


@dataclass(frozen=True)
class WholeNorm:
    """The norm of the gradient of several parameters that are clipped together: |G|² = Σ of theirs."""

    optimizer: Optimizer
    parts: Mapping[str, Norm]


def whole_norms(network: Program, optimizers: Mapping[str, Optimizer]) -> tuple[WholeNorm, ...]:
    """The norms of gradients that divide before update functions see them."""
    found: dict[object, dict[str, Norm]] = {}
    for name, optimizer in optimizers.items():
        if optimizer.clips_gradient is not None:
            found.setdefault(optimizer.clips_gradient, {})[name] = _norm(network, name, optimizer, "update")
    return tuple(WholeNorm(optimizers[next(iter(parts))], parts) for parts in found.values())


def norm_of(network: Program, name: str, optimizer: Optimizer) -> Norm | None:
    """The norm that divides the updates of a parameter, or None."""
    return None if optimizer.divides_by is None else _norm(network, name, optimizer, optimizer.divides_by)


def _norm(network: Program, name: str, optimizer: Optimizer, of: str) -> Norm:
    s = network[network.initial_names[name]]
    n = width_symbol(network.output_width)
    if isinstance(s, InitialMatrix):
        rows, columns = width_symbol(s.rows), width_symbol(s.columns)
        widths = rows / n if of == "weight" else rows * columns / n**2
        return Norm(optimizer, of, (), widths, of == "weight")
    assert isinstance(s, (InitialVector, InitialScalar))
    widths = width_symbol(s.over) / n if isinstance(s, InitialVector) else sympy.S.One
    return Norm(optimizer, of, s.axes, widths, False)
