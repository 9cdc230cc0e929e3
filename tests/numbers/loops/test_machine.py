"""Compiled functions live as long as they are held, and no longer; none takes what another needs with it."""

import ctypes
import gc
import weakref

import numpy
import pytest

from tplimits.numbers.loops import machine

TEXT = "define i64 @added_{0}(i64 %x) {{\n %y = add i64 %x, {0}\n ret i64 %y\n}}\n"


@pytest.mark.long
def test_more_functions_than_are_remembered_are_compiled_and_freed():
    """Engines own what they are made with: shared between two it was used after the first was freed."""
    for i in range(machine._compiled.cache_parameters()["maxsize"] + 50):
        function = machine.compiled(TEXT.format(i), 0).function(f"added_{i}", 1)
        assert function(1) == i + 1


@pytest.mark.long
def test_a_function_holds_its_instructions():
    code = machine._compiled.__wrapped__(TEXT.format(7), 0)
    freed, function = weakref.ref(code), code.function("added_7", 1)
    del code
    gc.collect()
    assert freed() is not None
    assert function(5) == 12
    del function
    gc.collect()
    assert freed() is None


def test_modules_that_call_the_product_of_matrices_find_it(monkeypatch):
    """Its address is told before such a module is compiled, and only then: C = A B of two matrices by columns."""
    told = []
    monkeypatch.setattr(machine.llvm, "add_symbol", lambda *symbol: told.append(symbol))
    machine._compiled.__wrapped__(TEXT.format(8), 0)
    assert not told
    machine._compiled.__wrapped__(TEXT.format(9) + f"declare void @{machine.PRODUCT}(i64*)\n", 0)
    ((name, address),) = told
    kinds, sizes = [ctypes.byref(ctypes.c_char(b"N"))] * 2, [ctypes.byref(ctypes.c_int(2))] * 3
    A, B, C = (numpy.array(x, dtype=float, order="F") for x in ([[1, 2], [3, 4]], [[0, 1], [5, -1]], [[0, 0], [0, 0]]))
    one, zero, pitch = ctypes.byref(ctypes.c_double(1)), ctypes.byref(ctypes.c_double(0)), sizes[0]
    a, b, c = (x.ctypes.data_as(ctypes.c_void_p) for x in (A, B, C))
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)(*kinds, *sizes, one, a, pitch, b, pitch, zero, c, pitch)
    assert name == machine.PRODUCT and (C == A @ B).all()
