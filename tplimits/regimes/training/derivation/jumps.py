"""Jumps of vectors in front of parameters that are trained: no limit of training is proved for them.

A function is read through the names in it, and through those who read it: x step(x) does not jump, whatever has a name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy import DiracDelta, Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.zero import positive
from tplimits.program.network.differentiate import partials
from tplimits.program.network.zeros import behind_jumps
from tplimits.program.nodes.entries import NO_NEURON, AxisSum, Entry, Lookup, axis_symbol, entries, with_names
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.hidden_jumps import hidden_jumps
from tplimits.program.nodes.kinds import Nonlin, OuterNonlin, made_of, through_names
from tplimits.program.optimizers.linear import Frozen
from tplimits.regimes.kernels.derivation.deltas import without_vanishing_deltas

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer

#: a function of so many operations is read with the names in it
_LONG = 400


def held_behind(
    network: Program, optimizers: Mapping[str, Optimizer], decays: Mapping[str, Any]
) -> dict[str, Optimizer]:
    """The optimizers, with rest for what no gradient of networks reaches: v sign(x) moves v alone.

    What decays moves without gradients.
    """
    rest = {name: Frozen() for name in behind_jumps(network) if name in optimizers and not decays[name]}
    return {**optimizers, **rest}


def refuse_jumps(network: Program, moving: tuple[str, ...], theorem: str) -> None:
    """NoLimitError where a gradient has to pass a jump that some neurons stand close to at any width.

    Jumps of scalars are passed at their limits, where their derivative is zero or the limit lands on them.
    """
    moved = {network.initial_names[name] for name in moving}
    for position in sorted(network.read):
        s = network[position]
        if not (isinstance(s, Nonlin) and (s.body.has(*JUMPS) or _hides_a_jump(s.body))):
            continue
        found = _crossed(network, _written_out(network, position), moved)
        if found is not None and not _is_continuous_beyond(network, position, moved):
            told = (
                _crossed(network, made_of(s), moved) or found
            )  # with the names of its own line, if it jumps by itself
            crossing = with_names(told, lambda entry: network[entry.source].name, indexed=False)
            raise NoLimitError(
                f"{network.where(position)} jumps where `{crossing}` crosses 0, at neurons "
                "of which some are close to it at any width: its derivative is a delta, which gradients of "
                "networks leave out, and outputs move by what crosses it (hypothesis of "
                f"Thm {theorem}: activations with derivatives that are pseudo-Lipschitz). Use a continuous "
                "function, such as tanh in place of sign, or leave what it is of untrained (tp.Frozen)."
            )


def _hides_a_jump(body: Expr) -> bool:
    """Whether a function jumps where no head does, or a term of a sum over an axis."""
    return any(map(hidden_jumps, (body, *(total.summand for total in body.atoms(AxisSum)))))


def _crossed(network: Program, body: Expr, moved: set[int]) -> Expr | None:
    """What crosses 0 at a jump of a function that parameters move; None where there is none."""
    axes = map("jump{}".format, itertools.count())
    for partial in partials(body, lambda axis: axis_symbol(next(axes))):
        slope = partial.value
        if not slope.has(DiracDelta):
            continue
        # sums over axes are variables, but for those that jumps stand in
        names = {total: sympy.Dummy(real=True) for total in slope.atoms(AxisSum) if not total.has(DiracDelta)}
        slope = slope.xreplace(names)
        vectors = [e for e in entries(slope) if e.neuron != NO_NEURON]
        slope = without_vanishing_deltas(slope, [*vectors, *names.values()])
        for delta in sorted(slope.atoms(DiracDelta), key=str):
            argument = delta.args[0].xreplace({name: total for total, name in names.items()})
            read = [int(e.source) for e in entries(argument) if e.neuron != NO_NEURON]
            # a jump of data, or of vectors that no parameter reaches, has no gradient to pass
            if moved & network.behind(read) and not _keeps_its_sign(argument):
                return argument
    return None


def _keeps_its_sign(argument: Expr) -> bool:
    """Whether a function is never 0, whatever it reads."""
    low, high = bounds(argument.xreplace({e: sympy.Dummy(real=True) for e in entries(argument)}))
    return bool(low > 0 or high < 0 or positive(argument) or positive(-argument))


def _is_continuous_beyond(network: Program, position: int, moved: set[int]) -> bool:
    """Whether all that read a vector are continuous functions of what it is made of."""
    readers = set(network.graph.successors(position)) & network.read
    if position in network.returns or not readers:
        return False
    for p in readers:
        s = network[p]
        if not isinstance(s, OuterNonlin) or s.slots:
            return False
        body = _written_out(network, p)
        if any(e.source == position for e in entries(body)):
            return False
        if _crossed(network, body, moved) is not None and not _is_continuous_beyond(network, p, moved):
            return False
    return True


def _written_out(network: Program, position: int) -> Expr:
    """A body in which functions of vectors stand themselves where they were read by a name, but for those in sums."""

    def opens(body: Expr) -> list[Entry]:
        inside = {e for total in body.atoms(AxisSum) for e in entries(total.summand)}
        apart = ((e, network[e.source]) for e in entries(body) if e not in inside)
        # an entry whose look-up says −1 is 0, whatever the function is
        return [e for e, s in apart if isinstance(s, OuterNonlin) and not s.slots and not e.has(Lookup)]

    return through_names(network.__getitem__, made_of(network[position]), opens, _LONG)
