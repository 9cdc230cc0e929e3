"""Compiled functions live as long as they are held, and no longer; none takes what another needs with it."""

import gc
import weakref

from tplimits.numbers.loops import machine

TEXT = "define i64 @added_{0}(i64 %x) {{\n %y = add i64 %x, {0}\n ret i64 %y\n}}\n"


def test_more_functions_than_are_remembered_are_compiled_and_freed():
    """Engines own what they are made with: shared between two it was used after the first was freed."""
    for i in range(machine._compiled.cache_parameters()["maxsize"] + 50):
        function = machine.compiled(TEXT.format(i), 0).function(f"added_{i}", 1)
        assert function(1) == i + 1


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
