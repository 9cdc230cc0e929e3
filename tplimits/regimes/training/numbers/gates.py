"""Jumps of scalars on the way of a training run: the hypothesis of the limit, judged by replicates.

Vectors and scalars enter functions and their derivatives by their limits (Yang & Littwin, Def. 2.6.5 with Thm 2.6.10),
which needs both continuous there.  A scalar that vanishes has either sign at finite width, and a step, a sign, or the
derivative of a ReLU at it takes either value.  Where the outputs depend on which, training goes one way or the other
however wide the network is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import standard_error
from tplimits.program.network.parameters import parameter_places
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.entries import BOUND, NO_NEURON, ArrayEntry, axis_symbol, entries, free_axes, with_names
from tplimits.program.nodes.functions import JUMPS, maximum, minimum, relu
from tplimits.program.nodes.kinds import Nonlin, ScalarNonlin
from tplimits.program.nodes.stated import IndexTable
from tplimits.regimes.training.numbers.replicates import ERRORS, ROUNDED, Seen, particles_missing
from tplimits.regimes.training.numbers.rounding import ROUNDING, terms_of

if TYPE_CHECKING:
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program

#: what has one side where a scalar passes zero, so that a jump of it does not pass
_ONE_SIDED = (relu, maximum, minimum)


@dataclass(frozen=True)
class Gate:
    """A jump of a scalar in bodies of a total program, or a kink inside of one; it is read where it stands first."""

    positions: tuple[int, ...]
    node: Expr

    @property
    def turns(self) -> int:
        """Which of its arguments is moved: of a maximum one that is no constant; jumps have one that crosses zero."""
        return int(isinstance(self.node, (maximum, minimum)) and not entries(self.node.args[0]))

    @property
    def factors(self) -> tuple[Expr, Expr]:
        """What is moved, and vectors that it is multiplied by: sign(s x) jumps with s at every neuron."""
        whole: Expr = self.node.args[self.turns]
        vectors = [f for f in sympy.Mul.make_args(whole) if any(e.neuron != NO_NEURON for e in entries(f))]
        scalars = [f for f in sympy.Mul.make_args(whole) if f not in vectors]
        return (sympy.Mul(*scalars), sympy.Mul(*vectors)) if isinstance(self.node, JUMPS) else (whole, sympy.S.One)

    @property
    def argument(self) -> Expr:
        """What crosses zero."""
        crossed, _ = self.factors
        return crossed - self.node.args[1 - self.turns] if isinstance(self.node, (maximum, minimum)) else crossed

    @property
    def axes(self) -> tuple[str, ...]:
        """Where it differs: bodies that hold the jump may have more axes, or others."""
        return tuple(sorted(a.name for a in free_axes(self.argument)))


def gates(program: Program) -> tuple[Gate, ...]:
    """The jumps of scalars that depend on a parameter; indices of sums over finite axes are axes of theirs."""
    moving: list[bool] = []
    places = parameter_places(program)
    for position, s in enumerate(program):
        moving.append(position in places or any(moving[p] for p in s.operands))
    found: dict[Expr, list[int]] = {}
    for position, s in enumerate(program):
        if isinstance(s, Nonlin):
            # sets of expressions come in another order in every process, and gates are numbered
            jumps = s.body.atoms(*JUMPS)
            # sign(relu(s)) is 0 in half of the networks, and so it may be in all replicates
            inside = {kink for jump in jumps for kink in jump.args[0].atoms(*_ONE_SIDED)}
            for node in sorted(jumps | inside, key=str):
                read = entries(Gate((), node).argument)
                if all(e.neuron == NO_NEURON for e in read) and any(moving[int(e.source)] for e in read):
                    found.setdefault(node, []).append(position)
    return tuple(Gate(tuple(positions), node) for node, positions in found.items())


def seen(found: Sequence[Gate], run: Execution, count: int) -> dict[str, Array]:
    """The arguments of the gates among the first `count` instructions, by the number of the gate."""
    values = {}
    for number, gate in enumerate(found):
        if gate.positions[0] < count:
            s, name = run.program[gate.positions[0]], str(number)
            body = gate.argument
            rounding = ROUNDING * terms_of(run.program, body)
            values[name], values[ROUNDED.format(name)] = (
                run.scalar(ScalarNonlin("", gate.axes, s.line, body=b)) for b in (body, rounding)
            )
    return values


@dataclass(frozen=True)
class Shifted(TotalProgram):
    """A total program in which the argument of one jump is moved, by an array over its axes."""

    gate: Gate = Gate((), sympy.S.Zero)
    by: IndexTable | None = None

    @cached_property
    def program(self) -> Program:
        """Everything, on many inputs, with the jump moved."""
        program, node = super().program, self.gate.node
        assert self.by is not None
        place = ArrayEntry(sympy.Integer(len(program.arrays)), *map(axis_symbol, self.gate.axes))
        crossed, vectors = self.gate.factors
        shifted = (crossed + place) * vectors
        moved = node.func(*(shifted if k == self.gate.turns else a for k, a in enumerate(node.args)))
        instructions = list(program)
        for position in self.gate.positions:
            s = program[position]
            assert isinstance(s, Nonlin)
            instructions[position] = replace(s, body=s.body.xreplace({node: moved}))
        return program.replace(instructions=tuple(instructions), arrays=(*program.arrays, self.by))


def judge(
    total: TotalProgram, runs: Seen, again: Callable[[TotalProgram], Array], plain: Callable[[], Mapping[str, Array]]
) -> None:
    """EvaluationError where a scalar is zero within its error over replicates, and outputs depend on its sign.

    `runs` holds for each replicate the arguments of every gate at every time, `again` the outputs of all replicates
    with another total program, `plain` the arguments on particles that are drawn one by one: on paired ones a scalar
    may be 0 that is not 0 in networks.
    """
    for number, gate in enumerate(gates(total.program)):
        values, near = runs.vanishing(str(number))
        # exactly 0 in all replicates is zero in networks too, unless the pairing of particles has made it so
        open_ = near & (values != 0).any(axis=0)
        # asked only then: it takes a run of its own
        if (near & ~open_).any():  # what is 0 in every network has no sign
            open_ = near & (plain()[str(number)] != 0)
        if not open_.any():
            continue
        # enough to put the jump on one side in every replicate
        rounding = runs.values(ROUNDED.format(number))
        by = 2 * float((abs(values) + rounding)[:, open_].max()) or ROUNDING
        shape, axes = values.shape[values.ndim - len(gate.axes) :], tuple(a.partition(BOUND)[0] for a in gate.axes)
        above, *others = (
            again(Shifted(total.network, total.train, gate, IndexTable(by * signs, axes))) for signs in _patterns(shape)
        )
        for other in others:
            apart = above - other
            # replicate by replicate: both runs have the same particles, so that their noise drops out of the difference
            if (abs(apart.mean(axis=0)) > ERRORS * standard_error(apart) + ROUNDING * abs(above).max()).any():
                place = tuple(numpy.argwhere(open_)[0])
                raise EvaluationError(
                    _landed(total, gate, place[0], values[(slice(None), *place)], float(rounding[(0, *place)]))
                )


def _patterns(shape: tuple[int, ...]) -> list[Array]:
    """Signs that a scalar may have at its places: all of them alike, and mixed, since products of two may count."""
    alike = numpy.ones(shape)
    # one place has no mixed signs
    if alike.size < 2:
        return [alike, -alike]
    mixed = numpy.where(numpy.arange(alike.size) % 2 == 0, 1.0, -1.0).reshape(shape)
    return [alike, -alike, mixed, -mixed]


def _landed(total: TotalProgram, gate: Gate, t: int, values: Array, rounding: float) -> str:
    mean, error = values.mean(), float(standard_error(values))
    program = total.program
    argument = with_names(gate.argument, lambda entry: program[entry.source].name, indexed=False)
    passed = "" if gate.positions[0] < len(total.network) else "the derivative of "
    # a mean below its own error, or of rounding alone, says nothing of how large it is
    seen = abs(mean) > error + rounding
    told = f" ({particles_missing(values):.0f} times as many, if it is as large as that)" if seen else ""
    return (
        f"no number: training lands on a jump of {passed}a function of scalars ({program[gate.positions[0]].line}), or "
        f"so near that it is not told from one: `{argument}` at step {t} is {mean:.2g} ± {error:.1g}, "
        "and the outputs depend on its sign; at 0 networks go either way at any width (hypothesis of Def. 2.6.5: ψ and "
        "its derivatives continuous at the limits of scalars). Use a function with a continuous derivative, take fewer "
        f"steps, or, if the scalar is small and not 0, more particles{told}."
    )
