"""The trainable parameters of a network, and the laws that scalars among them may have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tplimits.errors import NoLimitError
from tplimits.program.language.render import number_text
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector
from tplimits.program.nodes.laws import NORMAL

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def refuse_laws_of_biases(network: Program, where: Iterable[int]) -> None:
    """NoLimitError unless the scalars that are added to an output and drawn have entries N(0, 1).

    The output is a Gaussian process with them alone.
    """
    for position in where:
        s = network[position]
        if isinstance(s, InitialScalar) and s.law != NORMAL:
            raise NoLimitError(
                f"{network.where(position)}: `{s.name}` is drawn, {s.law.described(number_text)}, and added to the "
                "output: here outputs at the start are a Gaussian process with kernel K (hypothesis: scalars added to "
                f"the output are N(0, 1)). Write a multiple of it, 0.1 * {s.name}, without a law, or give it a value."
            )


def parameter_places(program: Program) -> dict[int, str]:
    """The trainable parameters of a network, by position: initial data that are no inputs and move by no schedule."""
    kinds = (InitialMatrix, InitialVector, InitialScalar)
    return {
        p: s.name
        for p, s in enumerate(program)
        if isinstance(s, kinds) and p not in program.inputs and not (isinstance(s, InitialScalar) and s.scheduled)
    }


def parameters(program: Program) -> tuple[str, ...]:
    """Their names, in order."""
    return tuple(parameter_places(program).values())
