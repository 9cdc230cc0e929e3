"""Advice for functions that are not of the language."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.language.refusals import ENTRYWISE, Refusals, replacement


def test_replacements():
    assert replacement("tanh") == "use tp.tanh" and replacement("absolute") == "use tp.abs"
    assert replacement("max") == "use tp.maximum(x, y)"
    assert replacement("sinh") == "use tp.elementwise(sympy.sinh)"
    assert replacement("arcsin") == "use tp.elementwise(sympy.asin)"
    for other in ("gamma", "log1p", "mul", "dirac"):
        assert replacement(other).startswith("write it with functions of tp"), other
    assert "finite axis" in replacement("stack") and "tp.where" in replacement("less")


def test_every_entrywise_name_is_public():
    assert all(callable(getattr(tp, name)) for name in ENTRYWISE)


def test_numpy_functions_with_a_counterpart_are_told_apart():
    for name in ENTRYWISE - {"relu", "leaky_relu", "step", "erf", "gelu", "sigmoid", "softplus"}:
        assert hasattr(np, name)


def test_what_refuses_has_to_describe_itself():
    with pytest.raises(TypeError, match="Refusals does not describe itself"):
        Refusals().describe()
