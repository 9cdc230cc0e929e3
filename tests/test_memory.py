"""What a process holds after its results are gone: nothing that leans on itself through a table of the package."""

import functools
import gc
import weakref

import numpy as np
from sympy.core.cache import clear_cache

import tplimits as tp


def test_kernels_go_with_the_last_who_holds_them():
    """Tables keyed weakly by a derivation must not hold plans that hold the derivation."""

    def gone() -> weakref.ref:
        @tp.network
        def own(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            return v * tp.tanh(1.37 * (W @ tp.relu(tp.sum(U * ξ, over="d"))))

        limit = tp.derive(own, tp.Kernels())
        limit.evaluate(np.eye(3))
        return weakref.ref(limit.derivation)

    held = gone()
    for found in gc.get_objects():  # caches of so many entries let go in time: here at once
        # by type: isinstance would ask a weak proxy of another test, whose object is gone, for its class
        if type(found) is functools._lru_cache_wrapper and (found.__module__ or "").startswith("tplimits"):
            found.cache_clear()
    clear_cache()
    gc.collect()
    assert held() is None
