"""Formulas written once, as Python text for scalars (`math`, for compiled kernels) or for arrays (NumPy).

A `Writer` collects assignments, one a line, each of a name that is never assigned again; equal right-hand sides share a
name, so that several formulas of the same arguments share their roots and angles.

>>> writer = Writer(scalar=True, prefix="m")
>>> writer.let(writer.call("sqrt", "det")), writer.let(writer.call("sqrt", "det"))
('m0', 'm0')
>>> writer.assignments
[('m0', 'math.sqrt(det)')]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tplimits.numbers.generated import functions

_NAMES = re.compile(r"[^\W\d]\w*")
_ARRAY_NAMES = {"atan2": "arctan2", "fabs": "abs"}


@dataclass(frozen=True)
class Code:
    """Assignments (name, expression) in order, and the expressions that hold the results."""

    assignments: tuple[tuple[str, str], ...]
    results: tuple[str, ...]

    def function_text(self, name: str, arguments: Sequence[str]) -> str:
        """A Python function of the arguments that returns the results, a tuple where there are several."""
        lines = [f"def {name}({', '.join(arguments)}):"]
        lines += [f"    {target} = {text}" for target, text in self.assignments]
        return "\n".join([*lines, f"    return {', '.join(self.results)}", ""])


class Writer:
    """Writes formulas for scalars or arrays; names begin with `prefix`.

    Without `series` the formulas for small angles are left out: the caller keeps away from them.
    """

    def __init__(self, scalar: bool, prefix: str = "t", series: bool = True) -> None:
        self.scalar, self.prefix, self.series = scalar, prefix, series
        self.assignments: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}

    def let(self, text: str) -> str:
        """A name for an expression; a name or a number is returned as it is."""
        if text.isidentifier() or is_number(text):
            return text
        # a name is never assigned again, so that equal texts are equal values
        if text not in self._names:
            self._names[text] = f"{self.prefix}{len(self.assignments)}"
            self.assignments.append((self._names[text], text))
        return self._names[text]

    def known(self, text: str) -> str:
        """The name of an expression that has one, the expression itself where it has none."""
        return self._names.get(text, text)

    def know(self, text: str, name: str) -> None:
        """An expression that the caller has computed in another way."""
        self._names[text] = name

    def call(self, function: str, *arguments: str) -> str:
        """A function of `math`, or its NumPy twin."""
        prefix = "math." if self.scalar else "numpy."
        name = function if self.scalar else _ARRAY_NAMES.get(function, function)
        return f"{prefix}{name}({', '.join(arguments)})"

    def select(self, condition: str, yes: str, no: str) -> str:
        """`yes` where the condition holds; of scalars only the chosen side is evaluated."""
        return f"(({yes}) if {condition} else ({no}))" if self.scalar else f"numpy.where({condition}, {yes}, {no})"

    @property
    def no_number(self) -> str:
        """What stands where a mean is infinite."""
        return "math.nan" if self.scalar else "numpy.nan"

    def code(self, *results: str) -> Code:
        """What has been written for these results, and they."""
        needed, kept = {n for text in results for n in _NAMES.findall(text)}, []
        for name, text in reversed(self.assignments):
            if name in needed:
                needed.update(_NAMES.findall(text))
                kept.append((name, text))
        return Code(tuple(reversed(kept)), results)


def is_number(text: str) -> bool:
    """Whether a text is a literal number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number(value: float) -> str:
    """A number as text, in parentheses when it is negative."""
    if value == math.inf:  # its own text is a name; what comes of it is asked for again in many digits
        return "1e999"
    return repr(float(value)) if value >= 0 else f"({float(value)!r})"


def polynomial(coefficients: Sequence[float], x: str) -> str:
    """Σ c_k x^k by Horner's rule.

    >>> polynomial([1.0, 0.0, 2.0], "x")
    '(1.0 + x*(x*(2.0)))'
    """
    text = ""
    for c in reversed(coefficients):
        head = number(c) if c != 0 or (not text and c == 0) else ""
        text = f"({head}{' + ' if head and text else ''}{f'{x}*{text}' if text else ''})"
    return text or "0.0"


def product(coefficient: float, *factors: str) -> str:
    """coefficient · factors, without what is 1."""
    kept = [f for f in factors if f != "1.0"]
    if coefficient != 1 or not kept:
        kept.insert(0, number(coefficient))
    return "*".join(kept)


def power(base: str, exponent: int) -> list[str]:
    """base^exponent as factors."""
    return [base] * exponent


def total(terms: Sequence[str]) -> str:
    """The sum of terms."""
    return " + ".join(terms) if terms else "0.0"


def function(code: Code, name: str, arguments: Sequence[str], scalar: bool) -> Callable[..., Any]:
    """The written function: plain Python on floats, or NumPy on arrays."""
    heading = f'"""Generated: {name}."""\n\nimport {"math" if scalar else "numpy"}\n\n\n'
    return functions(heading + code.function_text(name, arguments), "moment")[name]
