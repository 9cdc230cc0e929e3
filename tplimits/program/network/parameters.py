"""The trainable parameters of a network, the laws that scalars among them may have, and what users name of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError, NoLimitError, ProgramError, TplimitsError
from tplimits.program.language.render import number_text
from tplimits.program.nodes.given import exact_number, names_of
from tplimits.program.nodes.kinds import Initial, InitialScalar, InitialVector
from tplimits.program.nodes.laws import GRID

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def refuse_laws_of_biases(network: Program, where: Iterable[int]) -> None:
    """NoLimitError unless the scalars that are added to an output and drawn are normal, of mean 0.

    The output is a Gaussian process with them alone.
    """
    for position in where:
        s = network[position]
        if isinstance(s, InitialScalar) and s.value is None and (s.law.shape != "normal" or s.law.mean != 0):
            raise NoLimitError(
                f"{network.where(position)}: `{s.name}` is drawn, {s.law.described(number_text)}, and added to the "
                "output: here outputs at the start are a Gaussian process with kernel K (hypothesis: scalars added to "
                f"the output are normal, of mean 0). Take a normal law of its variance, or give it a value."
            )


def started(network: Program, starts: Mapping[str, Any]) -> Program:
    """The network with the numbers that scalar parameters start at; EvaluationError for what is no number."""
    return network.replace(
        instructions=tuple(
            replace(s, value=exact_number(s.name, starts[s.name], EvaluationError))
            if isinstance(s, InitialScalar) and s.name in starts
            else s
            for s in network
        )
    )


def places_of_neurons(network: Program) -> tuple[str, ...]:
    """Vectors that hold the places of neurons, which are not drawn."""
    return tuple(s.name for s in network if isinstance(s, InitialVector) and s.law.shape == GRID)


def at_rest(network: Program) -> tuple[str, ...]:
    """Parameters that are never trained: the places of neurons, and what the program says is frozen."""
    return (*places_of_neurons(network), *network.frozen)


def refuse_moved(network: Program, names: Iterable[str], where: str) -> None:
    """ProgramError where something that is never trained is asked to be."""
    places = places_of_neurons(network)
    for name in names:
        if name in places:
            raise ProgramError(f"{where}: `{name}` holds places of neurons, which are not trained.")
        if name in network.frozen:
            raise ProgramError(f"{where}: `{network.name}` does not train `{name}`; leave it out.")


def scalars_unlike_normal(network: Program) -> tuple[str, ...]:
    """Scalars with a law that is not normal: with one of them added, outputs at the start are no Gaussian process."""
    return tuple(s.name for s in network if isinstance(s, InitialScalar) and s.law.shape != "normal")


def parameter_places(program: Program) -> dict[int, str]:
    """The trainable parameters of a network, by position: initial data that are no inputs and move by no schedule."""
    kinds = Initial
    return {
        p: s.name
        for p, s in enumerate(program)
        if isinstance(s, kinds) and p not in program.inputs and not (isinstance(s, InitialScalar) and s.scheduled)
    }


def parameters(program: Program) -> tuple[str, ...]:
    """Their names, in order."""
    return tuple(parameter_places(program).values())


def refuse_others(network: Program, names: Iterable[Any], where: str, error: type[TplimitsError]) -> None:
    """Raise an `error` that begins with `where` for a name that no parameter has."""
    known = parameters(network)
    for name in names:
        if name not in known:
            raise error(f"{where}: `{name!s:.60}` is no parameter of `{network.name}`; it has {', '.join(known)}.")


def infinite_axes(network: Program, given: Any) -> tuple[str, ...]:
    """The axes that are to have infinitely many members, as a user names them; ProgramError for what is none."""
    found = tuple(dict.fromkeys(names_of("infinite", given, ProgramError)))
    for axis in found:
        if axis not in network.all_axes:
            has = ", ".join(network.all_axes) or "none"
            raise ProgramError(f"infinite=…: `{axis}` is no finite axis of `{network.name}`; it has {has}.")
    return found
