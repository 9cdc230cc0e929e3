"""What moves with the step of training: learning rates, decays, and constants such as a temperature: c_0, c_1, …

Step t is one of the network with c_t: outputs f_t = f(W_t; c_t), error signals χ_t = ε_t(f_t), gradients ∂f/∂W at c_t.
The function that gives constants is asked for t = 0, …, steps, for outputs after the last step are those with the last
value.  Initial laws and initial values that a constant stands in are those of c_0, and stay.

Such a constant becomes a scalar that is given at every step and never trained: what trains networks, and what trains
limits, knows of scalars already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr, Integer, Symbol

from tplimits.errors import EvaluationError, TplimitsError, shown
from tplimits.program.language.names import free_name
from tplimits.program.nodes.bind import resolved
from tplimits.program.nodes.entries import NO_NEURON, Entry, constant_symbol
from tplimits.program.nodes.given import can_be_called, exact_number, finite_number
from tplimits.program.nodes.kinds import InitialScalar, InitialVector, Instruction, moved
from tplimits.program.nodes.spec import verify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True, eq=False)
class Schedule:
    """A number of every step t = 0, 1, …, as a function of it."""

    label: str
    value: Callable[[int], Any]

    def __call__(self, t: int) -> float:
        """The number of step t; EvaluationError for what is none."""
        return finite_number(f"{self.label}({t})", self.value(t), EvaluationError)

    def exact(self, t: int) -> Expr:
        """The same, exact."""
        return exact_number(f"{self.label}({t})", self.value(t), EvaluationError)


def parted(network: Program, given: Mapping[str, Any]) -> tuple[dict[str, Schedule], dict[str, Any]]:
    """The schedules among what is given by name, and the rest.

    Raises EvaluationError for names that the network does not have, and where nothing may move.

    >>> import tplimits as tp
    >>> @tp.network
    ... def warm(ξ: tp.Input, v: tp.Vector, *, c):
    ...     return v * tp.tanh(c * ξ)
    >>> schedules, rest = parted(warm, {"c": lambda t: 1 + t / 2, "v": [1.0]})
    >>> schedules["c"](3), rest
    (2.5, {'v': [1.0]})
    """
    found: dict[str, Schedule] = {}
    for name, value in given.items():
        if name not in network.constants and name not in network.all_axes and name not in network.initial_names:
            places = dict.fromkeys(p for p in network.initial_names.values() if p not in network.inputs)
            has = ", ".join((*network.constants, *(network[p].name for p in places), *network.all_axes))
            raise EvaluationError(
                f"{name!s:.60}=…: `{network.name}` has no constant, parameter or axis of this name; it has {has}."
            )
        if isinstance(value, Schedule):  # checked before
            found[name] = value
        elif callable(value) and not isinstance(value, Expr):
            if name not in network.constants:
                has = ", ".join(network.constants) or "none"
                raise EvaluationError(
                    f"{name}=…: constants and rates alone are functions of the step; `{name!s:.60}` is no constant of "
                    f"`{network.name}`, which has {has}."
                )
            if not can_be_called(value, 0):
                raise EvaluationError(
                    f"{name}= is called as {name}(t): give a number, or a function of the step t = 0, …, steps."
                )
            found[name] = Schedule(name, value)
    return found, {name: value for name, value in given.items() if name not in found}


def at_step(given: Mapping[str, Any], t: int) -> dict[str, Any]:
    """What is given at one step: schedules by their numbers, everything else as it is."""
    return {name: value(t) if isinstance(value, Schedule) else value for name, value in given.items()}


def along(given: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """What is given at all steps: schedules as arrays (steps + 1), everything else as it is."""
    return {name: path(v, steps) if isinstance(v, Schedule) else v for name, v in given.items()}


def path(schedule: Schedule, steps: int) -> NDArray[numpy.float64]:
    """c_0, …, c_steps."""
    return numpy.array([schedule(t) for t in range(steps + 1)])


def moving(network: Program, given: Mapping[str, Any]) -> tuple[Program, dict[str, Any]]:
    """The network with each scheduled constant as a scalar that is no parameter, and what is given by its names.

    Scalars that are scheduled stand first and start at their values of step 0; one whose name a value of the program
    has gets a stroke.  Constants that are stated in terms of scheduled ones move along.
    """
    schedules, rest = parted(network, given)
    known = {s.name for s in network if isinstance(s, InitialScalar) and s.scheduled}
    fresh = {name: schedule for name, schedule in schedules.items() if name not in known}
    if not fresh:
        return network, dict(given)
    # before they become scalars: a constant that is stated by one of them moves along
    network = _along(network, fresh, rest)
    taken, names = {*network.names, *(s.name for s in network)}, dict[str, str]()
    for name in fresh:
        names[name] = free_name(name, taken)
        taken.add(names[name])
    found = _Moved(network, {names[name]: (constant_symbol(name), s.exact(0)) for name, s in fresh.items()}).program
    return found, {**rest, **{names.get(name, name): schedule for name, schedule in schedules.items()}}


def _along(network: Program, schedules: Collection[str], given: Collection[str]) -> Program:
    """The network with the constants that are stated in terms of scheduled ones written out."""
    stated = {constant_symbol(n): v for n, v in network.constants.items() if v is not None}
    stated = {s: v for s, v in stated.items() if s.name not in schedules and s.name not in given}
    own = set(map(constant_symbol, schedules))
    tied = {s.name: v for s, v in resolved(stated).items() if v.free_symbols & own}
    return network.bind(**tied) if tied else network


class _Moved:
    """Instructions moved on, behind the scalars that the constants become."""

    def __init__(self, network: Program, starts: Mapping[str, tuple[Symbol, Expr]]) -> None:
        self.more = len(starts)
        self.first = dict(starts.values())
        self.entries = {symbol: Entry(Integer(k), NO_NEURON) for k, symbol in enumerate(self.first)}
        scalars = [InitialScalar(name, (), value=value, scheduled=True) for name, (_, value) in starts.items()]
        # in front of everything, so that whatever reads them comes after
        own = range(self.more)
        behind = network.rearranged((*scalars, *map(self._written, network)), self._place)
        self.program = behind.replace(
            names={**dict(zip(starts, own, strict=True)), **behind.names},
            constants={
                name: None if v is None else v.xreplace(self.first)
                for name, v in network.constants.items()
                if constant_symbol(name) not in self.first
            },
            arguments=(*own, *behind.arguments),
        )
        verify(self.program)

    def _place(self, position: int) -> int:
        return position + self.more

    def _written(self, s: Instruction) -> Instruction:
        s = moved(s, self._place).changed(lambda expr: expr.xreplace(self.entries))
        if isinstance(s, (InitialVector, InitialScalar)):
            s = replace(s, law=s.law.changed(lambda v: v.xreplace(self.first)))
        if isinstance(s, InitialScalar) and s.value is not None:
            return replace(s, value=s.value.xreplace(self.first))
        return s


def scheduled(network: Program) -> dict[str, int]:
    """The scalars of a network that move with the step, and where they stand."""
    return {s.name: p for p, s in enumerate(network) if isinstance(s, InitialScalar) and s.scheduled}


def as_data(network: Program) -> Program:
    """The network with its scheduled scalars as data, one number an input: inputs may then stand at several steps."""
    places = scheduled(network)
    found = network.replace(
        instructions=tuple(
            replace(s, value=None, scheduled=False) if isinstance(s, InitialScalar) and s.scheduled else s
            for s in network
        ),
        inputs=(*places.values(), *network.inputs),
    )
    verify(found)
    return found


@dataclass(frozen=True)
class Rate:
    """A learning rate or a decay at every step: a number, or a function of the step t = 0, 1, …

    It is 0 or more, and below `below`: a decay below 1.
    """

    label: str = field(compare=False)
    value: float | Callable[[int], Any]
    below: float = math.inf

    def __call__(self, t: int) -> float:
        """The number of step t; EvaluationError for what is none, or out of bounds."""
        if not callable(self.value):
            return self.value
        try:
            found = self.value(t)
        except Exception as problem:  # the code of users
            raise EvaluationError(f"{self.label}({t}) failed: {type(problem).__name__}: {problem}") from problem
        return _bounded(f"{self.label}({t})", found, self.below)

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 at every step, which a function of the user's is not known to be."""
        return not callable(self.value) and self.value == 0

    def along(self, steps: int) -> Any:
        """The number, or those of the steps 0, …, steps − 1: two that agree here do the same."""
        return [self(t) for t in range(steps)] if callable(self.value) else self.value


def rates(lr: Any, optimizers: Mapping[str, Optimizer], known: Collection[str] | None = None) -> dict[str, Rate]:
    """The rate of each parameter: one for all, or a mapping, which may leave out those that never move.

    A mapping may name any of the parameters `known` besides.  Raises EvaluationError for what is no rate.

    >>> import tplimits as tp
    >>> rate = rates({"W": lambda t: 1 / (1 + t)}, {"W": tp.SGD(), "v": tp.Frozen()})
    >>> rate["W"](3), rate["v"].is_zero
    (0.25, True)
    """
    if not isinstance(lr, Mapping):
        return dict.fromkeys(optimizers, _rate("lr", lr, math.inf))
    named = of_each("lr", "rate", lr, optimizers, known)
    return {name: _rate(f"lr[{name!r}]", value, math.inf) for name, value in named.items()}


def decays(
    weight_decay: Any, optimizers: Mapping[str, Optimizer], known: Collection[str] | None = None
) -> dict[str, Rate]:
    """The decay of each parameter, by the same rule.

    >>> import tplimits as tp
    >>> decay = decays({"W": lambda t: 0.1 / (1 + t)}, {"W": tp.SGD(), "v": tp.Frozen()})
    >>> decay["W"](1), decay["v"].is_zero
    (0.05, True)
    """
    if not isinstance(weight_decay, Mapping):
        return dict.fromkeys(optimizers, _rate("weight_decay", weight_decay, 1.0))
    named = of_each("weight_decay", "decay", weight_decay, optimizers, known)
    return {name: _rate(f"weight_decay[{name!r}]", value, 1.0) for name, value in named.items()}


def of_each(
    option: str,
    what: str,
    given: Mapping[str, Any],
    optimizers: Mapping[str, Optimizer],
    known: Collection[str] | None = None,
    refusal: type[TplimitsError] = EvaluationError,
) -> dict[str, Any]:
    """What a mapping gives each parameter, 0 where it leaves out one that never moves; it may name others `known`.

    Raises a `refusal` for what is no parameter, and for parameters that are trained and left out.
    """
    unknown = [name for name in given if name not in (optimizers if known is None else known)]
    if unknown:
        raise refusal(
            f"{option}={{…}}: `{unknown[0]!s:.60}` is no trained parameter; the parameters are {', '.join(optimizers)}."
        )
    missing = [name for name, one in optimizers.items() if name not in given and not one.is_still]
    if missing:
        raise refusal(
            f"{option}={{…}} has no {what} for `{'`, `'.join(missing)}`, trained by {optimizers[missing[0]]}. Add one, "
            f"0 for none; parameters of tp.Frozen() alone are left out."
        )
    return {name: given.get(name, 0.0) for name in optimizers}


def _rate(label: str, value: Any, below: float) -> Rate:
    if isinstance(value, Rate):  # checked before, and a number stays one
        return value
    if callable(value) and not can_be_called(value, 0):
        raise EvaluationError(f"{label}= is called as {label}(t): give a number, or a function of the step t.")
    return Rate(label, value if callable(value) else _bounded(label, value, below), below)


def _bounded(label: str, value: Any, below: float) -> float:
    number = finite_number(label, value, EvaluationError)
    if 0 <= number < below:
        return number
    if below == math.inf:
        raise EvaluationError(f"{label}={shown(value)}: a learning rate is 0 or more; a negative one climbs the loss.")
    raise EvaluationError(f"{label}={shown(value)}: give a number, 0 or more and below 1.")
