"""A dictionary that stays as it was made."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict without the methods that change it; equal to a dict with the same items."""

    __slots__ = ()

    def _frozen(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("programs are frozen; .bind(…) and .replace(…) make another one")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _frozen

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)
