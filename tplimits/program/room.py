"""Room for what functions call, in one piece of memory.

CPython keeps the variables of running functions in pieces of 16 kB.  Where one is full it takes another from the
system, and gives it back as soon as the call that needed it returns.  A loop over a long formula that happens to stand
at the end of a piece asks the system for memory at every call, and takes up to five times as long; whether it does
depends on nothing but how deep its caller stands.  A function that asks for more than half of a large piece leaves the
rest of it to all that it calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: values that a function with room may hold: 1.1 MB, more than half of the 2 MB that are taken then, of which the
#: system gives what is written to
_VALUES = 140_000


def with_room(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose calls and theirs find place in one piece of memory.

    >>> with_room(max)(1, 2)
    2
    """

    def roomy(*args: P.args, **keywords: P.kwargs) -> R:
        return function(*args, **keywords)

    roomy.__code__ = roomy.__code__.replace(co_stacksize=_VALUES)
    return functools.wraps(function)(roomy)
