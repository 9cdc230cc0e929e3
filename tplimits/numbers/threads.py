"""One thread of linear algebra, the same numbers on every machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import threadpoolctl


def one_thread() -> AbstractContextManager[Any]:
    """For the duration of some work."""
    found: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return found


@lru_cache(maxsize=1)
def _libraries() -> Any:
    """What is loaded; looking for it takes milliseconds."""
    return threadpoolctl.ThreadpoolController()
