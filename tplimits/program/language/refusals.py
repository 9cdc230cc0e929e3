"""What a traced value is not: a number, a condition, an array, a sequence.

Every misuse that Python lets us see is a ProgramError naming the function of `tp` to use instead.
"""

from __future__ import annotations

import dis
import itertools
from collections import ChainMap
from types import FrameType, ModuleType
from typing import Any, ClassVar, NoReturn

import sympy

from tplimits.program.language.tracing import fail, user_frame
from tplimits.program.nodes.functions import HEADS

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
    **dict.fromkeys(("norm", "std", "var"), "tp.sqrt(tp.avg(x ** 2)), which has a limit"),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal"), "tp.where, tp.maximum or tp.step(x - y)"),
    **dict.fromkeys(("equal", "not_equal"), "tp.where"),
    **dict.fromkeys(("stack", "concatenate", "vstack", "hstack"), 'a finite axis instead: x: tp.Vector["token"]'),
}
#: what sees values of a program as numbers, and would need them
_NUMERICAL = ("math", "cmath", "sympy")


def replacement(function: str) -> str:
    """What to write in a program instead of a function of NumPy or `math`."""
    if function in ENTRYWISE:
        return f"use tp.{function}"
    if function in _OTHER_NAMES:
        return f"use {_OTHER_NAMES[function]}"
    head = f"a{function.removeprefix('arc')}" if function.startswith("arc") else function
    if head in HEADS and hasattr(sympy, head):
        return f"use tp.elementwise(sympy.{head})"
    return "write it with functions of tp, or entry by entry as tp.elementwise of a SymPy expression"


def numpy_name(function: Any) -> str:
    """How users call a function of NumPy."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{function.__name__}".replace("numpy", "np", 1)


def called_function() -> str | None:
    """The function of `math` or `sympy` that the user's current line is calling, as in "math.tanh".

    Read from the running code, so that it is known without a source file and under any name of the module.
    """
    frame = user_frame()
    if frame is None:
        return None
    steps = [s for s in dis.get_instructions(frame.f_code) if _on_current_line(s, frame)]
    known = ChainMap(frame.f_locals, frame.f_globals)
    # from the end: the call in progress is the last function that was loaded
    for before, step in reversed(list(itertools.pairwise([None, *steps]))):
        assert step is not None
        module = known.get(before.argval) if before is not None and before.opname.startswith("LOAD") else None
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(module, ModuleType):
            found = getattr(module, str(step.argval), None)
        else:
            found = known.get(step.argval) if step.opname.startswith("LOAD") and step.opname != "LOAD_CONST" else None
        home = str(getattr(found, "__module__", None)).partition(".")[0]
        if callable(found) and home in _NUMERICAL:
            return f"{home}.{found.__name__}"
    return None


def _on_current_line(step: dis.Instruction, frame: FrameType) -> bool:
    return step.offset <= frame.f_lasti and step.positions is not None and step.positions.lineno == frame.f_lineno


class Refusals:
    """The operations that a value under construction refuses."""

    __slots__ = ()

    def describe(self) -> str:
        """What this value is, for messages."""
        raise TypeError(f"{type(self).__name__} does not describe itself")

    def __repr__(self) -> str:
        return f"<{self.describe()} under construction>"

    #: whether scalars may be added to it from the left
    takes_scalars: ClassVar[bool] = False

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        fail(f"arithmetic with {self.describe()}", "use values of the program")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        fail("a traced value used as an array", "the program has no numbers yet: use tp functions")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        fail(f"{numpy_name(function)} on a traced value", replacement(function.__name__))

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
        function = called_function()
        if function:
            fail(f"{function} of a traced value", replacement(function.partition(".")[2]))
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

    def _no_bits(self, *_: Any) -> NoReturn:
        fail(
            "`|`, `&`, `^`, `~`, `<<` or `>>` on a traced value",
            "conditions are numbers here: tp.where(c, x, y) is x where c > 0, and products combine conditions",
        )

    __or__ = __ror__ = __and__ = __rand__ = __xor__ = __rxor__ = __invert__ = _no_bits
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _no_bits

    def __setitem__(self, *_: Any) -> NoReturn:
        fail("an assignment to entries of a traced value", "values never change: use tp.where, or make a new value")

    __delitem__ = __setitem__

    def __format__(self, specification: str) -> str:
        if specification:
            fail("a traced value formatted as a number", "the program has no numbers yet: leave the format out")
        return repr(self)

    @property
    def T(self) -> NoReturn:
        fail(f".T of {self.describe()}", "only a Matrix has a transpose")


class NoNumber(Refusals):
    """What is no number and no vector, so that it refuses entrywise arithmetic."""

    __slots__ = ()

    def _refused(self, *_: Any) -> NoReturn:
        self._no_arithmetic()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _refused

    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        self._no_arithmetic()
