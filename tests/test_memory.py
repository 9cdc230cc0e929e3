"""What a process holds after its results are gone: nothing that leans on itself through a table of the package."""

import functools
import gc
import weakref

import numpy as np
import pytest
from sympy.core.cache import clear_cache

import tplimits as tp
from tplimits.program import parts


@pytest.mark.long
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


def scaled(by: float) -> tp.Program:
    @tp.network
    def own(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(by * tp.sum(U * ξ, over="d"))

    return own


def test_tables_hold_what_a_few_derivations_asked(monkeypatch):
    """Most answers are about running indices of one derivation: tables that never forget grow with each."""

    def sizes(turn: int) -> list[int]:
        monkeypatch.setattr(parts, "_TURN", turn)
        monkeypatch.setattr(parts, "_DERIVATIONS", iter(range(1, 100)))
        for table in parts._TABLES:
            table.cache_clear()
        found = []
        for number in range(12):
            tp.derive(scaled((2 + number) / 7), tp.Kernels())
            found.append(sum(table.cache_info().currsize for table in parts._TABLES))
        return found

    bounded, open_ended = sizes(4), sizes(100)
    assert max(bounded[7:]) <= 1.1 * max(bounded[3:7])
    assert max(open_ended[7:]) > 1.5 * max(open_ended[3:7])
