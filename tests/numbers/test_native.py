"""Functions behind addresses: compiled apart, called by loops that know nothing of them, kept between processes."""

from __future__ import annotations

import numpy as np
import pytest

from tplimits.numbers import kept
from tplimits.numbers.jit import njit
from tplimits.numbers.native import called, native

OPTIONS = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}


@native(**OPTIONS)
def squares(m, table):
    given, found = table[0], table[1]
    for i in range(m):
        found[i] = given[i] * given[i]
    return 0


@native(**OPTIONS)
def sums(m, table):
    given, found = table[0], table[1]
    total = 0.0
    for i in range(m):
        total += given[i]
        found[i] = total
    return 0


@njit(nogil=True)
def repeatedly(address, m, times, table):
    for _ in range(times):
        called(address, m, table.ctypes.data)


@pytest.mark.parametrize(
    ("function", "wanted"), [(squares, lambda given: given**2), (sums, np.cumsum)], ids=["squares", "sums"]
)
def test_one_loop_calls_every_function(function, wanted):
    """From a loop that was compiled once, from Python, and as Python."""
    given, found = np.array([1.5, -2.0, 0.25]), np.zeros((3, 3))
    tables = [np.array([given.ctypes.data, row.ctypes.data]) for row in found]
    repeatedly(function.address, 3, 2, tables[0])
    function(3, tables[1])
    function.function(3, [given, found[2]])
    assert (found == wanted(given)).all()
    assert len(repeatedly.signatures) == 1


def test_machine_code_is_kept_and_is_that_of_the_function(tmp_path, monkeypatch):
    """A function of the same name that does something else, or is compiled otherwise, is another one."""

    def made(by, **options):
        @native(**options)
        def scaled(m, table):
            table[1][0] = by * table[0][0]
            return 0

        return scaled

    monkeypatch.setattr(kept, "trusted_folder", lambda: tmp_path)
    given, found = np.array([3.0]), np.zeros(1)
    table = np.array([given.ctypes.data, found.ctypes.data])
    counts = []
    for by, options in ((2.0, {}), (2.0, {}), (5.0, {}), (5.0, OPTIONS)):
        made(by, **options)(1, table)
        assert found[0] == by * 3
        counts.append(len(list(tmp_path.iterdir())))
    assert counts == [1, 1, 2, 3]
