"""Memory of arrays that come and go: kept by the process from one array pass to the next.

The C library of Linux gives the pages of a freed array of 128 KB and more back to the system at once, and every array
pass over a tile gets zeroed pages anew, which takes five times as long as its arithmetic.  It stops doing so for
arrays smaller than the largest that it has seen freed: one that is never written to, and takes no memory, will do.
"""

from __future__ import annotations

from functools import lru_cache

import numpy

#: bytes up to which arrays are kept; twice as many may stay with the process
_KEPT = 1 << 23


@lru_cache(maxsize=1)
def keep_pages() -> None:
    """Free one large array, once in a process."""
    numpy.empty(_KEPT, dtype=numpy.uint8)
