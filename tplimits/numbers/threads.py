"""One thread of linear algebra, the same numbers on every machine."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import threadpoolctl


def one_thread() -> AbstractContextManager[Any]:
    """For the duration of some work."""
    return _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _libraries(scipy_too: bool) -> Any:
    """What is loaded; looking for it takes milliseconds.  SciPy brings a library of its own."""
    return threadpoolctl.ThreadpoolController()
