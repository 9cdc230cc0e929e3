"""What a traced value is not: a number, a condition, an array, a sequence.

Every misuse that Python lets us see is a ProgramError naming the function of `tp` to use instead.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from tplimits.program.tracing import fail, user_line

#: the functions of `tp` that act entry by entry
ENTRYWISE = frozenset(
    {
        *("relu", "leaky_relu", "abs", "step", "sign", "tanh", "erf", "gelu", "sigmoid", "softplus", "exp", "log"),
        *("sqrt", "sin", "cos", "maximum", "minimum", "where", "clip"),
    }
)
#: what to write for functions of NumPy, SciPy and `math` that `tp` calls otherwise
_OTHER_NAMES = {
    **{"absolute": "tp.abs", "fabs": "tp.abs", "expit": "tp.sigmoid", "heaviside": "tp.step", "negative": "-x"},
    **{"power": "x ** 2", "pow": "x ** 2", "square": "x ** 2", "reciprocal": "1 / x", "fmax": "tp.maximum"},
    **{"fmin": "tp.minimum", "matmul": "W @ x with W: tp.Matrix", "dot": "tp.avg(x * y)", "vdot": "tp.avg(x * y)"},
    **{"inner": "tp.avg(x * y)", "max": "tp.maximum(x, y)", "min": "tp.minimum(x, y)", "einsum": "tp.sum and tp.avg"},
    **{"sum": 'tp.sum(x, over="axis") or tp.avg(x)', "mean": 'tp.avg(x) or tp.mean(x, over="axis")'},
}


def replacement(function: str) -> str:
    """What to write in a program instead of a function of NumPy or `math`.

    >>> replacement("tanh"), replacement("square")
    ('use tp.tanh', 'use x ** 2')
    """
    if function in ENTRYWISE:
        return f"use tp.{function}"
    if function in _OTHER_NAMES:
        return f"use {_OTHER_NAMES[function]}"
    return f"use a function of tp, or tp.elementwise(sympy.{function}) if SymPy has it"


class Refusals:
    """The operations that a value under construction refuses."""

    __slots__ = ()

    def describe(self) -> str:
        """What this value is, for messages."""
        raise TypeError(f"{type(self).__name__} does not describe itself")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        fail("a traced value used as an array", "the program has no numbers yet: use tp functions")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        fail(f"np.{function.__name__} on a traced value", replacement(function.__name__))

    def __bool__(self) -> NoReturn:
        fail("a traced value used as a condition (`if`, `and`, `while`)", "use tp.where, tp.maximum or tp.step")

    def _no_order(self, _: Any) -> NoReturn:
        fail(
            "a comparison of traced values (`<`, `max()`, `min()`, `sorted()`)",
            "use tp.maximum, tp.minimum, tp.where, or tp.step(x - y)",
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        fail("`==` or `!=` on a traced value", "the program has no numbers yet: use tp.where")

    __hash__ = object.__hash__

    def _no_number(self) -> NoReturn:
        called = re.search(r"\b(math|sympy)\.(\w+)", user_line().text)
        if called:
            fail(f"{called[0]} of a traced value", replacement(called[2]))
        fail(
            "a traced value used as a number (`float`, `int`, `math.…`)",
            "the program has no numbers yet: use the function of the same name in tp, such as tp.tanh or tp.sqrt",
        )

    __float__ = __int__ = __index__ = __complex__ = _no_number

    def __len__(self) -> NoReturn:
        fail("len() of a traced value", 'use tp.size("token") for a finite axis and tp.n for the width')

    def __iter__(self) -> NoReturn:
        fail("iteration over a traced value", "loops run over numbers: for i in range(3): x.sel(token=i)")

    def __contains__(self, _: Any) -> NoReturn:
        fail("`in` on a traced value", "the program has no numbers yet: use tp.where")

    def __matmul__(self, other: Any) -> NoReturn:
        fail(
            f"`@` on {self.describe()}",
            "an inner product is tp.avg(x * y), a sum over a finite axis tp.sum(x * y, over=…)",
        )

    def __rmatmul__(self, other: Any) -> NoReturn:
        fail(f"`@` on {self.describe()}", "only a Matrix multiplies with @")

    def _no_rounding(self, *_: Any) -> NoReturn:
        fail("//, % or rounding of a traced value", "use / or a function of tp")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __round__ = _no_rounding
    __floor__ = __ceil__ = __trunc__ = _no_rounding

    def __setitem__(self, *_: Any) -> NoReturn:
        fail("an assignment to entries of a traced value", "values never change: use tp.where, or make a new value")

    def __format__(self, specification: str) -> str:
        if specification:
            fail("a traced value formatted as a number", "the program has no numbers yet: leave the format out")
        return repr(self)

    @property
    def T(self) -> NoReturn:
        fail(f".T of {self.describe()}", "only a Matrix has a transpose")
