"""Everything that is derived of the tangents of a block, or of a stack of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
import sympy

from tplimits.errors import NoLimitError
from tplimits.program.nodes.centred import with_centred_vectors
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.derivation.block import BlockLimit, derive_block
from tplimits.regimes.depth.derivation.copies import in_sequences
from tplimits.regimes.depth.derivation.derivation import OneLayer, lowered
from tplimits.regimes.depth.derivation.multiplied import with_arrays_multiplied
from tplimits.regimes.depth.tangent.forms import TangentForms, tangent_forms
from tplimits.regimes.depth.tangent.parameters import Start, start

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class DerivedTangents:
    """The joint SDE of tokens and tangents, and where the tangents of parameters start."""

    program: Program
    fixed: tuple[str, ...]
    sequences: BlockLimit = field(repr=False)
    forms: TangentForms = field(repr=False)

    @property
    def parts(self) -> tuple[Program, ...]:
        """The blocks of a stack, or the block."""
        return tuple(self.program.parts) or (self.program,)

    @cached_property
    def _layers(self) -> tuple[OneLayer, ...]:
        released = (with_arrays_multiplied(with_centred_vectors(p.released)) for p in self.parts)
        return tuple(in_sequences(lowered(p, tuple(w for w in self.fixed if w in p.widths))) for p in released)

    @cached_property
    def parameters(self) -> Mapping[str, tuple[int, int]]:
        """The matrices by name, with the number of their block and their own; of a stack's, names with its block."""
        found: dict[str, tuple[int, int]] = {}
        held = [name for layer in self._layers for name in (layer.model.names[m] for m in layer.model.depth)]
        for k, (part, layer) in enumerate(zip(self.parts, self._layers, strict=True)):
            for matrix in sorted(layer.model.depth):
                name = layer.model.names[matrix]
                known = name if held.count(name) == 1 else f"{part.name}.{name}"
                found[known if known not in found else f"{known}, block {k + 1}"] = (k, matrix)
        return found

    @cached_property
    def _starts(self) -> dict[str, Start]:
        return {}

    def start(self, parameter: str) -> Start:
        """Where the tangent of a parameter starts; NoLimitError where it is not derived."""
        if parameter not in self._starts:
            block, matrix = self.parameters[parameter]
            self._starts[parameter] = start(self._layers[block], matrix).scaled(*self._scales(block))
        return self._starts[parameter]

    def _scales(self, block: int) -> tuple[sympy.Expr, sympy.Expr]:
        """What the blocks before one multiply V by, and those behind it."""
        scales = self.sequences.scales or (sympy.S.One,) * len(self.parts)
        return sympy.Mul(*scales[:block]), sympy.Mul(*scales[block + 1 :])

    @cached_property
    def source(self) -> tuple[Form, int]:
        """What all weights of a layer add to D, times a power of n: those whose gradients are largest.

        Where they are random, their mean: n layers are added.  NoLimitError where one of them is not derived.
        """
        every = [self.start(name) for name in self.parameters]
        order = min(s.order for s in every)
        largest = [s for s in every if s.order == order]
        total = Form({})
        for each in largest:
            total = total + each.form
        return total, order

    @cached_property
    def source_or_none(self) -> Form:
        """The same form, empty where it is not derived."""
        try:
            return self.source[0]
        except NoLimitError:
            return Form({})

    @property
    def rootless(self) -> str:
        """Why there are no paths."""
        return self.sequences.rootless

    @property
    def arrays(self) -> Mapping[str, numpy.ndarray]:
        """The constant arrays in its forms."""
        own = {label: values for layer in self._layers for label, values in layer.arrays.values.items()}
        return {**own, **self.sequences.arrays}


def derive_tangent(program: Program, fixed: tuple[str, ...]) -> DerivedTangents:
    """The joint SDE of a block or a stack; NoLimitError where the tangent has none."""
    limit = derive_block(program.released, fixed, sequences=True)
    return DerivedTangents(program, fixed, limit, tangent_forms(limit))
