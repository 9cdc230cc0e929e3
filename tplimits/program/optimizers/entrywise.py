"""Update functions of the user's own, and whether they are some that the limit theorems speak of.

These ask for a pseudo-Lipschitz function: |Q(g) − Q(g′)| ≤ C |g − g′| (1 + |g|^k + |g′|^k).  Q_0 is looked at near 0,
where functions of users fail it most often, and at gradients up to 10^4; what it does between is not seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError, shown
from tplimits.program.language.tracing import exact, plain
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.given import by_name
from tplimits.program.optimizers.recursion import Optimizer, OptimizerState, exact_of, state_symbol, warn_of_lost
from tplimits.program.optimizers.stepping import TIME, G


@dataclass(frozen=True)
class Entrywise(Optimizer):
    """An update function of your own, written with SymPy or tp functions of the arguments g, t and states by name.

    Q: a function of `g`, `t` and the updated states, any of them.  states: for each state a function of `g`, `t` and
    the states before the step.  initial: their values before the first step, 0 if left out.

    >>> import tplimits as tp
    >>> Entrywise(lambda g: tp.tanh(g)).output
    tanh(g)
    >>> adam = Entrywise(  # without bias correction
    ...     lambda m, v: m / sympy.sqrt(v + 1),
    ...     states={"m": lambda g, m: m / 2 + g / 2, "v": lambda g, v: v / 2 + g**2 / 2},
    ... )
    >>> adam.update([G])
    g/(2*sqrt(g**2/2 + 1))

    Raises ProgramError for arguments with other names, for what is no expression of them, and for updates that are not
    real; warns of Q_0 that is not pseudo-Lipschitz, as far as its values near 0 and up to 10^4 tell.
    """

    Q: Callable[..., Any]
    states_by: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)
    initial: Mapping[str, Any] = field(default_factory=dict, hash=False)
    _text: tuple[tuple[OptimizerState, ...], Expr] = field(init=False, repr=False)

    def __init__(
        self,
        Q: Callable[..., Any],
        states: Mapping[str, Callable[..., Any]] | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        names, starts = (
            by_name(x, f"Entrywise(): {o}", ProgramError) for o, x in (("states", states), ("initial", initial))
        )
        for name in names:
            if not isinstance(name, str) or not name.isidentifier() or name in ("g", "t"):
                raise ProgramError(f"Entrywise(states={{{name!r}: …}}): name states by words other than g and t.")
        for name in starts:
            if name not in names:
                raise ProgramError(f"Entrywise(initial={{{shown(name)}: …}}): there is no such state.")
        known = {"g": G, "t": TIME, **{name: state_symbol(name) for name in names}}
        text = tuple(
            OptimizerState(name, exact_of(starts.get(name, 0)), _expression(update, known, f"the update of {name}"))
            for name, update in names.items()
        )
        output = _expression(Q, known, "Q")
        for key, value in (("Q", Q), ("states_by", FrozenDict(names)), ("initial", FrozenDict(starts))):
            object.__setattr__(self, key, value)
        object.__setattr__(self, "_text", (text, output))
        wrong = not_real_at(self._first, G)
        if wrong is not None:
            raise ProgramError(f"Entrywise: Q is no real number at g = {wrong}, in the first step; updates are real.")
        warn_of_lost(self, stacklevel=3)

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        return self._text

    @cached_property
    def _first(self) -> Expr:
        """Q_0, in g."""
        return self.update([G])

    @cached_property
    def has_pole(self) -> bool:
        return has_pole(self._first, G)

    @cached_property
    def lost_hypothesis(self) -> str | None:
        lost = lost_by(self._first, G)
        return lost and f"{lost}; the limit theorems ask for a pseudo-Lipschitz update function."

    @cached_property
    def hyperparameters(self) -> dict[Symbol, Expr]:
        return {}

    def __repr__(self) -> str:
        inner = "".join(f", {s.name} ← {s.update}" for s in self.states)
        starts = "".join(f", {s.name} = {s.initial} at the start" for s in self.states if s.initial != 0)
        return f"Entrywise(Q = {self.output}{inner}{starts})"

    __str__ = __repr__


def _expression(function: Callable[..., Any], known: Mapping[str, Symbol], what: str) -> Expr:
    """A function of named symbols as an expression of them."""
    if not callable(function):
        raise ProgramError(f"Entrywise: {what} is {shown(function)}; give a function of {', '.join(known)}.")
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = ["g"]
    for name in names:
        if name not in known:
            raise ProgramError(f"Entrywise: {what} has the argument `{name}`; its arguments are {', '.join(known)}.")
    try:
        result = plain(function(*(known[name] for name in names)))
    except (TypeError, AttributeError, ValueError) as problem:
        raise ProgramError(
            f"Entrywise: {what} cannot be written with symbols ({problem}). Use elementwise functions of tp or SymPy, "
            "such as tp.tanh in place of numpy.tanh, and tp.where in place of if."
        ) from problem
    try:
        found = result if isinstance(result, Expr) else exact(result)
    except (TypeError, ValueError, OverflowError, ProgramError):
        raise ProgramError(f"Entrywise: {what} gives {result!r}; give an expression of {', '.join(known)}.") from None
    strange = found.free_symbols - set(known.values())
    if strange:
        raise ProgramError(f"Entrywise: {what} contains {min(map(str, strange))}, which has no value.")
    return found.xreplace({x: sympy.Rational(x) for x in found.atoms(sympy.Float)})


#: digits of values, more than those that differences near 0 lose
_DIGITS = 120
#: gradients near 0, and large ones, each with both signs
_NEAR, _FAR = (sympy.Rational(10) ** -20, sympy.Rational(10) ** -40), (1, 10**2, 10**3, 10**4)
#: no power of a polynomial gains as much, and no bound in a root is as small
_STEEPEST, _MUCH = 10**20, 1000


def value_at(first: Expr, g: Symbol, at: Expr) -> Expr | None:
    """Q_0 at a gradient: a real number, NaN for what is none, None where SymPy does not tell."""
    try:
        found = sympy.N(first.subs(g, at), _DIGITS)
    except ZeroDivisionError:  # a denominator that is zero to so many digits
        return None
    if found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return sympy.nan
    real, imaginary = found.as_real_imag()
    if not (real.is_comparable and imaginary.is_comparable):
        return None
    return real if abs(imaginary) <= sympy.Float(10, _DIGITS) ** (-_DIGITS // 2) * abs(real) else sympy.nan


def not_real_at(first: Expr, g: Symbol) -> Expr | None:
    """A gradient at which Q_0 is no real number, None if none is found."""
    points = [sign * sympy.Rational(5, 7) * size for size, sign in product((*_FAR, *_NEAR), (1, -1))]
    return next((p for p in points if value_at(first, g, p) is sympy.nan), None)


def has_pole(first: Expr, g: Symbol) -> bool:
    """Whether Q_0 is not bounded, like a power of 1/g, as g goes to 0."""
    return any(_grows([value_at(first, g, sign * size) for size in _NEAR]) for sign in (1, -1))


def lost_by(first: Expr, g: Symbol) -> str | None:
    """Why Q_0 is not pseudo-Lipschitz, or None if nothing speaks against it."""
    if has_pole(first, g):
        return "the update is not bounded where gradients vanish"
    if any(_grows([_slope(first, g, a * size, b * size) for size in _NEAR]) for a, b in ((1, -1), (1, 2), (-1, -2))):
        return "the update jumps, or has no bounded slope, where gradients vanish"
    far_out = ([value_at(first, g, sign * size) for size in _FAR[-2:]] for sign in (1, -1))
    if any(_grows(values, _STEEPEST, _STEEPEST) for values in far_out):
        return "the update grows faster than any polynomial"
    return None


def _slope(first: Expr, g: Symbol, a: Expr, b: Expr) -> Expr | None:
    values = value_at(first, g, a), value_at(first, g, b)
    return None if values[0] is None or values[1] is None else (values[0] - values[1]) / (a - b)


def _grows(values: Sequence[Expr | None], much: int = _MUCH, more: int = 1) -> bool:
    first, last = values
    # what is no real number on a side is told by `not_real_at`, and grows nowhere
    if first is None or last is None or sympy.nan in values:
        return False
    return bool(abs(last) > much * abs(first) + more)
