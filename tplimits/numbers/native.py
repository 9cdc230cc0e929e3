"""Functions behind an address: compiled loops call any of them, and are not compiled anew for each.

Numba would take a function into the loop that calls it, and compile the loop and all that it calls once more for every
function: seconds each.  Here both are compiled apart, and the loop is given an address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy
from llvmlite import ir
from numba.core import types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic
from numpy.typing import NDArray

from tplimits.numbers.jit import Kept

#: a size and a table of addresses of float64; what is given back is nothing
_SIGNATURE = (types.int64, types.CPointer(types.CPointer(types.float64))), types.int64


class Native:
    """A function of a size and of a table of arrays, which it reads and fills entry by entry as they lie in memory.

    `function` is what it is made from; called as it stands, the table is a sequence of flat arrays.
    """

    def __init__(self, function: Callable[..., int], **options: Any) -> None:
        self.function, self._options = function, options

    @cached_property
    def _made(self) -> Any:
        made: Any = CFunc(self.function, _SIGNATURE, {}, self._options)
        made._cache = Kept((sorted(self._options.items(), key=str), self.function), self.function)
        made.compile()
        return made

    @property
    def address(self) -> int:
        """Where its machine code is, compiled at the first call and kept; valid as long as this object lives."""
        address: int = self._made.address
        return address

    def __call__(self, size: int, table: NDArray[numpy.int64]) -> None:
        """Run the machine code."""
        ctypes.CFUNCTYPE(*[ctypes.c_int64] * 3)(self.address)(size, table.ctypes.data)


def native(**options: Any) -> Callable[[Callable[..., int]], Native]:
    """A decorator; the options are those of `numba.cfunc`."""
    return lambda function: Native(function, **options)


def _called(typing: Any, address: Any, size: Any, table: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word])
        return builder.call(builder.inttoptr(given[0], kind.as_pointer()), given[1:])

    return types.int64(types.int64, types.int64, types.int64), generate


#: called(address, size, table) in compiled code: run a `Native`; the table is given by where it lies
called: Any = intrinsic(_called)
