"""Jumps of vectors in front of parameters that are trained: no limit of training is proved for them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Symbol

from tplimits.errors import NoLimitError
from tplimits.program.network.differentiate import partials
from tplimits.program.nodes.entries import NO_NEURON, axis_symbol, entries
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.hidden_jumps import hidden_jumps
from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def refuse_jumps(network: Program, moving: tuple[str, ...], theorem: str) -> None:
    """NoLimitError where a gradient has to pass a jump that some neurons stand close to at any width.

    Jumps of scalars are passed at their limits, where their derivative is zero or the limit lands on them.
    """
    axes, moved = map("jump{}".format, itertools.count()), {network.initial_names[name] for name in moving}
    for position in sorted(network.read):
        s = network[position]
        if not (isinstance(s, (OuterNonlin, ScalarNonlin)) and (s.body.has(*JUMPS) or hidden_jumps(s.body))):
            continue
        for partial in partials(s.body, lambda axis: axis_symbol(next(axes))):
            for delta in sorted(partial.value.atoms(sympy.DiracDelta), key=str):
                read = [int(e.source) for e in entries(delta) if e.neuron != NO_NEURON]
                # a jump of data, or of vectors that no parameter reaches, has no gradient to pass
                if any(moved & (networkx.ancestors(network.graph, p) | {p}) for p in read):
                    crossing = delta.args[0].xreplace({e: Symbol(network[e.source].name) for e in entries(delta)})
                    raise NoLimitError(
                        f"{network.where(position)} jumps where `{crossing}` crosses 0, at neurons "
                        "of which some are close to it at any width: its derivative is a delta, which gradients of "
                        "networks leave out, and outputs move by what crosses it (hypothesis of "
                        f"Thm {theorem}: activations with derivatives that are pseudo-Lipschitz). Use a continuous "
                        "function, such as tanh in place of sign, or leave what it is of untrained (tp.Frozen)."
                    )
