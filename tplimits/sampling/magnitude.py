"""How large the things are that a scalar averages: the yardstick of a zero limit.

    Avg of x          mean of x_α²
    ⟨x|y⟩             mean of (x_α y_α)²
    f(θ₁, θ₂, ...)    f² or Σ (∂f/∂θ_j)² · magnitude of θ_j over computed θ_j, whichever is larger
    f holding n       f²: √n · Avg is of size 1 already

Each is the mean square over entries in one draw; `Draws.scale` is the root of its mean over draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import DiracDelta, Expr, Symbol

from tplimits.arrays import Array
from tplimits.law.kets import Key, key_of
from tplimits.law.observables import BracketObservable, Observable
from tplimits.law.unroll import Unroller
from tplimits.program.nodes.entries import Entry, entries, width_symbol
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.kinds import Avg, InitialScalar, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class OfVector:
    """The mean square of a vector's entries."""

    vector: Key


@dataclass(frozen=True)
class OfFunction:
    """The square of a scalar, or what its derivatives make of the magnitudes of its arguments.

    `derivatives` pairs the key of an argument with ∂f/∂(that argument), in the symbols of `arguments`.
    """

    scalar: Key
    arguments: tuple[tuple[Symbol, Key], ...] = ()
    derivatives: tuple[tuple[Key, Expr], ...] = ()


Magnitude = OfVector | OfFunction
#: magnitudes of scalars, arguments before functions
Magnitudes = dict[Key, Magnitude]


def magnitudes(program: Program, observables: Iterable[Observable]) -> Magnitudes:
    """The magnitudes that the scalars among some observables need."""
    found: Magnitudes = {}
    for observable in observables:
        if not isinstance(observable, BracketObservable):
            _add(program, Unroller(program), observable.key, found)
    return found


def _add(program: Program, unroller: Unroller, start: Key, found: Magnitudes) -> None:
    waiting = [start]
    while waiting:
        # a stack in place of recursion: programs chain scalars deeper than Python's limit
        key = waiting[-1]
        magnitude = found.get(key) or _magnitude(program, unroller, key)
        missing = [k for k, _ in magnitude.derivatives if k not in found] if isinstance(magnitude, OfFunction) else []
        # stays on the stack until its arguments are found: `_of_function` reads them in the order of `found`
        if missing:
            waiting.extend(missing)
            continue
        found.setdefault(key, magnitude)
        waiting.pop()


def _magnitude(program: Program, unroller: Unroller, key: Key) -> Magnitude:
    position, index = key
    instruction = program[position]
    if isinstance(instruction, Avg):
        entry = unroller.at(instruction.operand, instruction.axes, index)
        return OfVector(key_of(entry)) if isinstance(entry, Entry) else OfFunction(key)
    if not isinstance(instruction, ScalarNonlin):
        return OfFunction(key)
    body = unroller.at(instruction.body, instruction.axes, index)
    if body.has(*map(width_symbol, program.widths)):
        return OfFunction(key)
    symbols = {e: Symbol(f"θ{i}", real=True) for i, e in enumerate(entries(body))}
    body = body.xreplace(symbols)
    random = {e: s for e, s in symbols.items() if not isinstance(program[e.source], InitialScalar)}
    derivatives = tuple((key_of(e), _regular(body.diff(s))) for e, s in random.items())
    return OfFunction(key, tuple((s, key_of(e)) for e, s in symbols.items()), derivatives)


def _regular(slope: Expr) -> Expr:
    """A derivative without the parts that live on a single point."""
    singular = slope.atoms(DiracDelta, sympy.Derivative, sympy.Subs)
    return slope.xreplace(dict.fromkeys(singular, sympy.S.Zero))


def read(execution: Execution, key: Key) -> Array:
    """One entry of a family in every draw: (draws,) for a scalar, (draws, n) for a vector."""
    position, index = key
    everywhere: tuple[slice | int, ...] = (slice(None), *index)
    return execution.arrays[position][everywhere]


def mean_squares(execution: Execution, wanted: Magnitudes) -> dict[Key, Array]:
    """The magnitude of each scalar in each draw."""
    found: dict[Key, Array] = {}
    for key, magnitude in wanted.items():
        if isinstance(magnitude, OfVector):
            found[key] = _mean_square(read(execution, magnitude.vector))
        elif isinstance(magnitude, OfFunction):
            found[key] = _of_function(execution, magnitude, found)
    return found


def product_mean_square(execution: Execution, observable: BracketObservable) -> Array:
    """The magnitude of ⟨x|y⟩ in each draw."""
    return _mean_square(read(execution, observable.left) * read(execution, observable.right))


def _mean_square(x: Array) -> Array:
    return numpy.einsum("...i,...i->...", x, x) / x.shape[-1]


def _of_function(execution: Execution, magnitude: OfFunction, found: dict[Key, Array]) -> Array:
    own = read(execution, magnitude.scalar) ** 2
    known = {**execution.leaves, **{s: read(execution, k) for s, k in magnitude.arguments}}
    spread = numpy.zeros_like(own)
    for key, slope in magnitude.derivatives:
        spread = spread + evaluate(slope, known) ** 2 * found[key]
    # a slope may be infinite where the value is not, as that of a root at zero
    return numpy.maximum(own, numpy.where(numpy.isfinite(spread), spread, 0.0))
