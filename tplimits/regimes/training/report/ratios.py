"""Ratios of widths in print: a transpose between two widths has one, and so has what another width adds to outputs.

With entries of variance 1/columns, |W x⟩ has the covariance ⟨x|x′⟩, and |Wᵀ y⟩ rows/columns times ⟨y|y′⟩; so have their
other parts, and the updates Q/columns of W.  A parameter adds to the outputs in proportion to the width it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.language.render import number_text
from tplimits.program.nodes.entries import width_symbol
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, MatMul

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def of_image(program: Program, image: MatMul) -> Expr:
    """What an image by a transpose has more than one by the matrix, rows/columns; 1 for the matrix itself."""
    matrix = program[image.matrix]
    assert isinstance(matrix, InitialMatrix)
    return width_symbol(matrix.rows) / width_symbol(matrix.columns) if image.transposed else sympy.S.One


def of_parameter(program: Program, name: str, readout: str) -> Expr:
    """The rows of a matrix, or the width of a vector, over the width of the readout."""
    s = program[program.initial_names[name]]
    if isinstance(s, InitialMatrix):
        return width_symbol(s.rows) / width_symbol(readout)
    return width_symbol(s.over) / width_symbol(readout) if isinstance(s, InitialVector) else sympy.S.One


def text_factor(ratio: Expr) -> str:
    """A factor in front of a formula, nothing for 1.

    >>> text_factor(sympy.Symbol("k") / 2), text_factor(sympy.S.One)
    ('(k/2) ', '')
    """
    return "" if ratio == 1 else f"({number_text(ratio)}) "
