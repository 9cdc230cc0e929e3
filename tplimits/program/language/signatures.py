"""Calls with the wrong arguments, told as every other mistake in a program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tplimits.program.language.tracing import fail

P = ParamSpec("P")
R = TypeVar("R")


def stated(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose calls with missing or unknown arguments are ProgramErrors; messages call it `name`.

    >>> stated("tp.clip")(lambda x, low, high: x)(1, low=2, high=3)
    1
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        shown = signature.replace(
            parameters=[p for p in bare if p.name != "self"], return_annotation=inspect.Signature.empty
        )

        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            wrong = None
            try:
                signature.bind(*args, **keywords)
            except TypeError as error:
                wrong = str(error)
            if wrong:
                fail(f"{name}: {wrong}", f"call it as {name}{shown}")
            return function(*args, **keywords)

        return call

    return decorate
