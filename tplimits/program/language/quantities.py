"""Symbolic constants, widths, sizes and the arguments of tp.elementwise: SymPy expressions that are no conditions.

A SymPy symbol is true, and equal to nothing but itself, so that `if γ` and `γ == 0` would silently take one
branch.  While a program is traced a `Quantity` refuses both, and whatever else needs a number; outside it
behaves like the expression it stands for.

>>> import sympy
>>> k = Quantity(sympy.Symbol("k", positive=True))
>>> k, 2 * k + 1, k == sympy.Symbol("k", positive=True)
(k, 2*k + 1, True)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from sympy import Expr

from tplimits.program.language.refusals import Refusals, called_function, replacement
from tplimits.program.language.tracing import active, exact, fail, plain, user_compares
from tplimits.program.nodes.entries import GaussMean

_NO_VALUE = "it has no value while the program is traced"


def _binary(operation: Callable[[Any, Any], Any], swapped: bool = False) -> Callable[[Quantity, Any], Any]:
    def method(self: Quantity, other: Any) -> Any:
        if isinstance(other, Refusals):
            return NotImplemented
        other = self._operand(other)
        if other is NotImplemented:
            return NotImplemented
        return quantity(operation(other, self._expr) if swapped else operation(self._expr, other))

    return method


class Quantity:
    """A symbolic constant, a width, a size, an argument of tp.elementwise, or an expression in them."""

    __slots__ = ("_expr",)
    _op_priority = 2000.0  # SymPy hands mixed operations to us instead of converting us

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _sympy_(self) -> Expr:
        return self._expr

    def _operand(self, other: Any) -> Any:
        """What stands beside it in an operation, for SymPy; NotImplemented for what is no number."""
        other = plain(other)
        if active() is None or isinstance(other, Expr):
            return other
        try:
            return exact(other)
        except TypeError:
            return NotImplemented

    __add__, __radd__ = _binary(operator.add), _binary(operator.add, swapped=True)
    __sub__, __rsub__ = _binary(operator.sub), _binary(operator.sub, swapped=True)
    __mul__, __rmul__ = _binary(operator.mul), _binary(operator.mul, swapped=True)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _binary(operator.truediv, swapped=True)
    __pow__, __rpow__ = _binary(operator.pow), _binary(operator.pow, swapped=True)
    # inequalities may be conditions of a Piecewise inside tp.elementwise; `if` refuses them
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)

    def __neg__(self) -> Any:
        return quantity(-self._expr)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return quantity(abs(self._expr))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if user_compares():  # SymPy compares what it has cached
            fail(
                f"`==` or `!=` on `{self}`",
                f"{_NO_VALUE}: use tp.where, or make it a plain Python number of the traced function",
            )
        return bool(self._expr == plain(other))

    def __hash__(self) -> int:
        return hash(self._expr)

    def __bool__(self) -> bool:
        if active() is not None:
            fail(
                f"`{self}` used as a condition (`if`, `and`, `not`, `while`)",
                f"{_NO_VALUE}: use tp.where, or make it a plain Python number of the traced function",
            )
        return True

    def _no_number(self, *_: Any) -> NoReturn:
        function = called_function()
        if function:
            fail(f"{function} of `{self}`", replacement(function.partition(".")[2]))
        if active() is None:
            raise TypeError(f"{self} is a symbol, not a number")
        fail(
            f"`{self}` used as a number (`float`, `int`, `range`, an index, `math.…`)",
            f"{_NO_VALUE}: use functions of tp such as tp.sqrt, and plain Python numbers for loops and indices",
        )

    __float__ = __int__ = __index__ = __complex__ = _no_number
    __round__ = __floor__ = __ceil__ = __trunc__ = _no_number

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Operations that NumPy numbers start come here; every other function of NumPy is refused."""
        operation = _NUMPY.get(ufunc.__name__)
        if active() is None and operation is not None:
            return getattr(ufunc, method)(*map(plain, inputs), **options)
        if method == "__call__" and operation is not None and len(inputs) == 2 and not options:
            if any(getattr(i, "ndim", 0) for i in inputs):
                fail("a bare array", 'name its axes: tp.constant(array, axes=("token",))')
            first, second = (self._operand(i.item() if hasattr(i, "item") else i) for i in inputs)
            return quantity(operation(first, second))
        fail(f"np.{ufunc.__name__} of `{self}`", replacement(ufunc.__name__))

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        fail(f"np.{function.__name__} of `{self}`", replacement(function.__name__))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self._expr, name):
            raise AttributeError(f"'Quantity' object has no attribute {name!r}")
        return getattr(self._expr, name)

    def __format__(self, specification: str) -> str:
        if specification and active() is not None:
            fail(f"`{self}` formatted as a number", f"{_NO_VALUE}: leave the format out")
        return format(str(self), specification)

    def __repr__(self) -> str:
        return str(self._expr)


#: operations that NumPy numbers start
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def quantity(expr: Any) -> Any:
    """The expression as a Quantity while a program is traced; numbers stay as they are.

    >>> import sympy
    >>> quantity(sympy.Symbol("n")), quantity(2)
    (n, 2)
    """
    if active() is None or not isinstance(expr, Expr):
        return expr
    return Quantity(expr) if expr.free_symbols or expr.has(GaussMean) else expr
