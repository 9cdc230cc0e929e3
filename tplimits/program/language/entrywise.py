"""Functions that act entry by entry, and constants that are means over a standard normal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import TplimitsError
from tplimits.program.language.axes import IndexValue
from tplimits.program.language.quantities import Quantity, quantity
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.tracing import active, exact, fail, plain, stated
from tplimits.program.language.values import Value, apply
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import GaussMean, normal_symbol
from tplimits.program.nodes.normalise import normalise


def _plain(argument: Any, action: str) -> Expr:
    """A number or a SymPy expression as an exact expression."""
    argument = plain(argument)
    if isinstance(argument, Expr):
        return argument
    if isinstance(argument, IndexValue):
        argument.refuse_as_number(action)
    if isinstance(argument, Refusals):
        repair = (
            "read out the result: tp.readout(…); functions of outputs are a tp.Head"
            if argument.takes_scalars
            else "matrices only multiply vectors"
        )
        fail(f"{action} of {'a readout' if argument.takes_scalars else 'a matrix'}", repair)
    if isinstance(argument, (numpy.ndarray, list, tuple)):
        fail(f"{action} of a bare array", 'name its axes first: tp.constant(array, axes=("token",))')
    try:
        return exact(argument)
    except TypeError as error:
        fail(f"{action}: {error}", "it takes values of the program, numbers and SymPy expressions")


def _applied(head: Callable[..., Expr], args: tuple[Any, ...], action: str) -> Any:
    """The head on values of a program, or on plain numbers and expressions."""
    if any(isinstance(a, Value) for a in args):
        return apply(head, tuple(a if isinstance(a, Value) else _plain(a, action) for a in args))
    return quantity(head(*(_plain(a, action) for a in args)))


def _entrywise(head: Callable[..., Expr], name: str, doc: str) -> Callable[..., Any]:
    arity = head.nargs.args[0] if hasattr(head, "nargs") else 1

    def function(*args: Any) -> Any:
        if len(args) != arity:
            fail(f"tp.{name} of {len(args)} values", f"it takes {arity}")
        return _applied(head, args, f"tp.{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return stated(f"tp.{name}")(function)


relu = _entrywise(functions.relu, "relu", "x where x > 0, else 0; relu'(0) = 0.")
step = _entrywise(functions.step, "step", "1 where x > 0, else 0; step(0) = 0.")
abs = _entrywise(sympy.Abs, "abs", "The absolute value.")
sign = _entrywise(sympy.sign, "sign", "−1, 0 or 1; sign(0) = 0.")
tanh = _entrywise(sympy.tanh, "tanh", "The hyperbolic tangent.")
erf = _entrywise(sympy.erf, "erf", "The error function.")
gelu = _entrywise(functions.gelu, "gelu", "x Φ(x), the exact GELU.")
sigmoid = _entrywise(functions.sigmoid, "sigmoid", "1 / (1 + exp(−x)).")
softplus = _entrywise(functions.softplus, "softplus", "log(1 + exp(x)).")
exp = _entrywise(sympy.exp, "exp", "The exponential function.")
log = _entrywise(sympy.log, "log", "The natural logarithm.")
sqrt = _entrywise(sympy.sqrt, "sqrt", "The square root.")
sin = _entrywise(sympy.sin, "sin", "The sine.")
cos = _entrywise(sympy.cos, "cos", "The cosine.")
maximum = _entrywise(functions.maximum, "maximum", "The larger of two values, entry by entry.")
minimum = _entrywise(functions.minimum, "minimum", "The smaller of two values, entry by entry.")
where = _entrywise(functions.where, "where", "where(c, x, y) is x where c > 0 and y elsewhere.")
_stopped = _entrywise(functions.stop_gradient, "stop_gradient", "")
_leaky = _entrywise(functions.leaky_relu, "leaky_relu", "")


@stated("tp.leaky_relu")
def leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    """x where x > 0, slope·x elsewhere.

    >>> leaky_relu(-3, 0.5)
    -3/2
    """
    return _leaky(x, slope)


@stated("tp.stop_gradient")
def stop_gradient(x: Any) -> Any:
    """x itself; no gradient of training passes through it.

    >>> stop_gradient(3)
    3
    """
    return _stopped(x)


@stated("tp.clip")
def clip(x: Any, low: Any, high: Any) -> Any:
    """x kept between low and high.

    >>> clip(7, -1, 1)
    1
    """
    return minimum(maximum(x, low), high)


@stated("tp.elementwise")
def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Any SymPy expression as an entrywise function: `tp.elementwise(lambda u, v: u * sympy.sin(v))(x, y)`.

    `Max`, `Min`, `Heaviside` and `Piecewise` are rewritten in the heads of this package; a function
    without a numerical counterpart here is a ProgramError.

    >>> elementwise(lambda u, v: sympy.Max(u, v) ** 2)(2, 3)
    9
    """

    @stated("tp.elementwise(…)")
    def applied(*args: Any) -> Any:
        slots = [sympy.Dummy(f"x{i}", real=True) for i in range(len(args))]
        body = _written(function, slots, "tp.elementwise")
        trace = active()
        if trace is not None and any(isinstance(a, Value) for a in args):
            trace.refuse_strange_symbols(body, allowed=slots)
            if len(slots) == 1 and (name := _name_of(function, applied)):
                trace.functions.setdefault(name, (slots[0], normalise(body)))
        return _applied(lambda *exprs: body.xreplace(dict(zip(slots, exprs, strict=True))), args, "tp.elementwise")

    return applied


def _name_of(function: Callable[..., Any], applied: Callable[..., Any]) -> str | None:
    """What a user calls a function: its own name, of a lambda that of the variable that holds it; None without one."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        held = getattr(function, "__globals__", {}).items()
        name = next((k for k, v in held if v is applied), "")
    return name if name.isidentifier() and name not in functions.HEADS and not hasattr(sympy, name) else None


def _written(function: Callable[..., Any], variables: list[Symbol], action: str) -> Expr:
    """What a user's function makes of symbols, in the heads of this package."""
    try:
        body = function(*map(Quantity, variables))
    except TplimitsError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        fail(f"{action} cannot call this function on symbols ({what})", "write it with tp or SymPy functions")
    if isinstance(body, Refusals):
        fail(f"a value of the program inside the function of {action}", "pass it as an argument instead")
    if isinstance(body, (list, tuple, numpy.ndarray)):
        what = f"a value of type {type(body).__name__}"
        fail(f"the function of {action} returns {what}", "return one expression; make a call for each of several")
    try:
        return normalise(_plain(body, action))
    except ValueError as error:
        known = ", ".join(sorted(functions.HEADS.keys() - {"dirac"}))
        fail(
            f"{action} cannot use {error}", f"write the function in SymPy with {known}, Max, Min, Heaviside, Piecewise"
        )


@stated("tp.expect")
def expect(function: Callable[[Any], Any]) -> Any:
    """The mean of a SymPy function over a standard normal, as a constant.

    `tp.expect(lambda g: tp.relu(g)**2)` is 1/2 in the limit and at every width.

    >>> expect(lambda g: 3)
    3
    """
    dummy = sympy.Dummy("g", real=True)
    body = _written(function, [dummy], "tp.expect")
    if dummy not in body.free_symbols:
        return quantity(body)
    variable = normal_symbol(1 + _mean_depth(body))
    return quantity(GaussMean(body.xreplace({dummy: variable}), variable))


def _mean_depth(expr: Expr) -> int:
    """How many means over normal variables are nested in an expression."""
    inside = max((_mean_depth(a) for a in expr.args), default=0) if expr.has(GaussMean) else 0
    return inside + isinstance(expr, GaussMean)
