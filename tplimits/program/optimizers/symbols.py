"""The symbols in which update functions are written."""

from __future__ import annotations

from sympy import Symbol

#: the gradient of a step, and the number of the step, 0 for the first
G = Symbol("g", real=True)
TIME = Symbol("t", integer=True, nonnegative=True)
