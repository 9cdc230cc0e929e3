"""Entrywise optimizers as recursions (Yang & Littwin, Sec. 2.2).

A parameter moves by −η n^(−c) Q_t(n^d g_0, …, n^d g_t), entry by entry.  Q_t is written as a recursion: with the states
s before step t and the gradient g of step t (the first step is t = 0)

    s ← update_s(g, t, s)   for all states at once,        Q_t = output(g, t, updated s).

Everything is a SymPy expression, so that one text serves formulas, compiled kernels and arrays.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError, shown
from tplimits.program.language.tracing import alone
from tplimits.program.nodes.degrees import ZERO, common, degree
from tplimits.program.nodes.entries import variable
from tplimits.program.nodes.given import exact_number, finite_number, several, whole_from, whole_number
from tplimits.program.optimizers.stepping import TIME, G, Stepper

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.program.parametrization.exponents import Exponents


#: sizes of gradients, nearer to each other than by that: clip(g, −100, 100) is g at all that are small
_SIZES = tuple(float(10 ** (k / 3.5)) for k in range(-88, 89))

#: squares of hyperparameters are numbers of arrays
_LARGEST = sympy.Integer(10) ** 150


def state_symbol(name: str) -> Symbol:
    """A state of an optimizer as it stands in updates and outputs."""
    return variable(name)


@dataclass(frozen=True)
class OptimizerState:
    """What an optimizer remembers of one entry: its value before the first step, and how a step changes it."""

    name: str
    initial: Expr
    update: Expr

    @property
    def symbol(self) -> Symbol:
        """The state inside expressions."""
        return state_symbol(self.name)


@dataclass(frozen=True)
class Optimizer:
    """An entrywise update function Q_t; subclasses give the recursion in the symbols of their hyperparameters."""

    #: fields that are hyperparameters, and the symbols that stand for them in `formula`
    symbols_of: ClassVar[dict[str, str]] = {}

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        """States and output with hyperparameters as symbols; `hyperparameters` has their values."""
        raise ProgramError(f"{type(self).__name__} is no entrywise optimizer with a recursion.")

    @property
    def lost_hypothesis(self) -> str | None:
        """Which hypothesis of the theorems on training limits Q_t fails, or None."""
        return None

    @property
    def has_pole(self) -> bool:
        """Whether Q_t is not bounded where gradients vanish; moments of updates may then not exist."""
        return False

    @property
    def is_entrywise(self) -> bool:
        """Whether every entry moves by its own gradients alone."""
        return True

    def entry_by_entry(self, kind: str) -> Optimizer | None:
        """The update function of single entries of a "matrix", "vector" or "scalar", before a norm divides; or None."""
        return self

    @property
    def divides_by(self) -> str | None:
        """Whose norm updates are divided by, "update" or "weight"; None if by none."""
        return None

    @property
    def clips_at(self) -> tuple[str, Expr] | None:
        """ "max" or "min", and θ_0, where updates are divided by max(θ, norm) or min(θ, norm)."""
        return None

    @property
    def clips_gradient(self) -> tuple[str, Expr] | None:
        """The same, where the gradients of all parameters that clip alike are divided together, before Q sees them."""
        return None

    @property
    def may_vanish(self) -> bool:
        """Whether something is divided by a number that may be 0."""
        return self.divides_by is not None or (self.clips_gradient or ("max",))[0] == "min"

    def divisor(self, norm: Any, unit: float = 1.0) -> Any:
        """What updates are divided by, given that norm; `unit` is n^e, 1 for norms at infinite width."""
        return unit

    @property
    def open_symbols(self) -> set[Symbol]:
        """Symbols among the hyperparameters, which have no value."""
        own = {G, TIME, *(s.symbol for s in self.states)}
        held = [e for s in self.states for e in (s.initial, s.update)]
        return set().union(*(e.free_symbols for e in (self.output, *held))) - own

    def extra_power(self, kind: str, exponents: Exponents) -> Expr:
        """The power of 1/n that a step has beyond n^(−c), for a "matrix", a "vector", a "scalar" or a "readout"."""
        return sympy.S.Zero

    @property
    def name(self) -> str:
        """The name of the optimizer."""
        return type(self).__name__

    @cached_property
    def hyperparameters(self) -> dict[Symbol, Expr]:
        """The exact values of the symbols in `formula`."""
        return {Symbol(s, real=True): exact_of(getattr(self, f)) for f, s in self.symbols_of.items()}

    @cached_property
    def states(self) -> tuple[OptimizerState, ...]:
        """The states, with numbers for the hyperparameters."""
        return tuple(
            OptimizerState(s.name, s.initial, s.update.xreplace(self.hyperparameters)) for s in self.formula[0]
        )

    @cached_property
    def output(self) -> Expr:
        """Q_t in g, t and the updated states, with numbers for the hyperparameters."""
        return self.formula[1].xreplace(self.hyperparameters)

    def update(self, gradients: Sequence[Expr]) -> Expr:
        """Q_t(g_0, …, g_t), t + 1 = len(gradients), by unrolling the recursion.

        >>> g = sympy.symbols("g0:2", real=True)
        >>> from tplimits.program.optimizers.linear import SGD
        >>> SGD(momentum=0.5).update(g)
        g0/2 + g1
        """
        steps = [g if isinstance(g, Expr) else _as_number(g) for g in several(gradients) or ()]
        if not steps:
            raise ProgramError(f"update({shown(gradients)}): give the gradients of at least one step, as a list.")
        held = {s.symbol: s.initial for s in self.states}
        for t, g in enumerate(steps):
            known = {**held, G: g, TIME: sympy.Integer(t)}
            held = {s.symbol: s.update.subs(known, simultaneous=True) for s in self.states}
        return self.output.subs({**held, G: known[G], TIME: known[TIME]}, simultaneous=True)

    @property
    def is_still(self) -> bool:
        """Whether it never moves anything."""
        return self.is_entrywise and self.output == 0

    @property
    def is_memoryless(self) -> bool:
        """Whether Q_t depends on the last gradient alone."""
        return not self.states

    @cached_property
    def is_linear(self) -> bool:
        """Whether Q_t is a linear combination of the gradients."""
        variables = [G, *(s.symbol for s in self.states)]
        held = all(s.initial == 0 for s in self.states)
        return held and all(_is_linear_form(e, variables) for e in (self.output, *(s.update for s in self.states)))

    def coefficients(self, t: int) -> tuple[Expr, ...]:
        """c_0, …, c_t of a linear update Q_t = Σ_s c_s g_s.

        >>> from tplimits.program.optimizers.linear import SGD
        >>> SGD(momentum=0.5).coefficients(2)
        (1/4, 1/2, 1)

        Raises ProgramError if the update is not linear.
        """
        if not self.is_linear:
            raise ProgramError(f"{self!r} is not linear in the gradients; it has no coefficients.")
        t = whole_from("t", t, 0, ProgramError)
        symbols = [s.symbol for s in self.states]
        last = {TIME: sympy.Integer(t)}
        readout = [self.output.coeff(x).subs(last) for x in symbols]
        direct = self.output.coeff(G).subs(last)
        found: list[Expr] = []
        # backwards: the readout of the states is pulled through one step after another
        for step in range(t, -1, -1):
            at = {TIME: sympy.Integer(step)}
            fresh = sum(
                (r * s.update.coeff(G).subs(at) for r, s in zip(readout, self.states, strict=True)), sympy.S.Zero
            )
            found.append(fresh + (direct if step == t else 0))
            readout = [
                sum((r * s.update.coeff(x).subs(at) for r, s in zip(readout, self.states, strict=True)), sympy.S.Zero)
                for x in symbols
            ]
        return tuple(reversed(found))

    @cached_property
    def degree(self) -> int | None:
        """k if Q_t(λ g_0, …, λ g_t) = λ^k Q_t(g_0, …, g_t) for all λ > 0: 1 for SGD, 0 for a pure sign; else None.

        Told by how states and output are written, of all steps at once.  What is no power of the gradients at sight has
        none: multipliers of networks are right for it, too.
        """
        found = {s.symbol: ZERO if s.initial == 0 else sympy.S.Zero for s in self.states}
        # a state has one degree at all steps: each of these passes tells that of one more, or that one has none
        for _ in range(len(found) + 1):
            known = {G: sympy.S.One, **found}
            updated = {s.symbol: degree(s.update, known) for s in self.states}
            after = {x: None if d is None else common((found[x], d)) for x, d in updated.items()}
            if None in after.values():
                return None
            found = {x: d for x, d in after.items() if d is not None}
        told = degree(self.output, {G: sympy.S.One, **found})
        return {ZERO: 0, sympy.S.Zero: 0, sympy.S.One: 1}.get(told)

    @cached_property
    def sign_preserving(self) -> bool:
        """Whether Q_0(g) has the sign of g, judged at gradients of all sizes and of both signs."""
        signed = self._first_at(1.0) * numpy.array([[1.0], [-1.0]])
        # log(1 + |g|) is 0 in doubles where g is 10⁻²⁵
        lost = [
            (sign, sympy.Rational(_SIZES[k]))
            for i, sign in enumerate((1, -1))
            for k in numpy.flatnonzero(signed[i] == 0)
        ]
        return bool((signed >= 0).all() and all(s * sympy.N(self.update([s * g]), 60) > 0 for s, g in lost))

    def _first_at(self, scale: float) -> NDArray[numpy.float64]:
        """Q_0 at gradients of all sizes times a number, with both signs: (2, sizes)."""
        g = scale * numpy.array([_SIZES, numpy.negative(_SIZES)])
        stepper = Stepper(self)
        return stepper.step(0, stepper.start(g.shape), g)[1]

    @cached_property
    def is_bounded(self) -> bool:
        """Whether Q_0 stays bounded as the gradient grows, judged between 10^20 and 10^160: a logarithm grows there."""
        first = self.update([G])
        sizes = [abs(sympy.N(first.subs(G, sympy.Integer(10) ** k), 200)) for k in (20, 40, 80, 160)]
        return not all(far > near * sympy.Rational(101, 100) for near, far in itertools.pairwise(sizes))

    def stepper(self) -> Any:
        """The recursion on arrays: `.start(shape)` gives states, `.step(t, states, g)` new states and Q_t."""
        return Stepper(self)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={_told(value)}' for name, value in self.shown.items())})"

    @property
    def shown(self) -> dict[str, Any]:
        """The fields that are printed."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _told(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # the code of users
        return shown(value)


def exact_of(value: Any) -> Expr:
    """A hyperparameter as an exact number; a SymPy expression with symbols is kept."""
    return value if isinstance(value, Expr) and value.free_symbols else exact_number("value", value, ProgramError)


def need_range(owner: Optimizer, name: str, below: int | None = None) -> None:
    """Refuse a hyperparameter that is negative, or not below a bound; symbols pass, arrays become their number."""
    value = alone(getattr(owner, name))
    object.__setattr__(owner, name, value)
    number = value if isinstance(value, Expr) and value.free_symbols else exact_number(name, value, ProgramError)
    if number.is_negative or (below is not None and (number >= below) == sympy.true):
        allowed = "0 or more" if below is None else f"0 or more and below {below}"
        raise ProgramError(f"{owner.name}({name}={shown(value)}): give a number, {allowed}.")
    if number.is_number and number > _LARGEST:
        raise ProgramError(f"{owner.name}({name}={shown(value)}): its square is more than arrays can hold.")


def warn_of_lost(optimizer: Optimizer, stacklevel: int = 4) -> None:
    """Say which hypothesis an optimizer loses, such as one without ε."""
    if optimizer.lost_hypothesis:
        warnings.warn(f"{optimizer}: {optimizer.lost_hypothesis}", UserWarning, stacklevel=stacklevel)


def _is_linear_form(expr: Expr, variables: Sequence[Symbol]) -> bool:
    """Whether an expression is a combination of the variables with coefficients free of them."""
    slopes = [sympy.diff(expr, x) for x in variables]
    if any(slope.has(*variables) for slope in slopes):
        return False
    return _vanishes(expr - sum((s * x for s, x in zip(slopes, variables, strict=True)), sympy.S.Zero))


def _vanishes(expr: Expr) -> bool:
    """Whether an expression is zero, after simplification."""
    return bool(sympy.simplify(sympy.expand(expr)) == 0)


def _as_number(gradient: Any) -> Expr:
    whole = whole_number(gradient, None)
    return sympy.sympify(finite_number("gradient", gradient, ProgramError) if whole is None else whole)
