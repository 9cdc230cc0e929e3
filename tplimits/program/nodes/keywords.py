"""Constants by keyword that are called what arguments are: `drift_at(V, V=2.0)` gives the covariance and a constant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import named_once
from tplimits.program.room import with_room

P = ParamSpec("P")
R = TypeVar("R")


def constants_apart(method: Callable[P, R]) -> Callable[P, R]:
    """A method that takes a keyword for a constant where its argument of that name stands at its place already.

    >>> @constants_apart
    ... def scaled(V, constants=None, **named):
    ...     return V, constants, named
    >>> scaled(1, V=2, γ=3), scaled(V=1, γ=3)
    ((1, {'V': 2}, {'γ': 3}), (1, None, {'γ': 3}))
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p.name for p in inspect.signature(method).parameters.values() if p.kind in kinds]

    @with_room
    @functools.wraps(method)
    def call(*args: Any, **keywords: Any) -> Any:
        taken = places[: len(args)]
        twice = {name: keywords.pop(name) for name in taken if name in keywords and name != "constants"}
        if not twice:
            return method(*args, **keywords)
        if "constants" not in taken:
            listed = named_once(keywords.pop("constants", None), twice, method.__name__, EvaluationError)
            return method(*args, **{**keywords, "constants": listed})
        at = taken.index("constants")
        listed = named_once(args[at], twice, method.__name__, EvaluationError)
        return method(*args[:at], listed, *args[at + 1 :], **keywords)  # type: ignore[arg-type]

    return call
