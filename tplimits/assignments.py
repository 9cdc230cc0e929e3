"""Numbers on the command line: NAME=VALUE pairs and lists of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from typer.exceptions import TyperException


def assigned(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is a number, a fraction, or several with commas between."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (name and equals):
            raise TyperException(f"{option} {text}: write {option} NAME=VALUE.")
        if name in found:
            raise TyperException(f"{option} {text}: `{name}` is given twice.")
        numbers = [_number(option, text, part) for part in value.split(",")]
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def _number(option: str, text: str, part: str) -> int | float | Fraction:
    kinds: tuple[type[int], type[float], type[Fraction]] = (int, float, Fraction)
    for kind in kinds:
        try:
            number = kind(part)
        except (ValueError, ZeroDivisionError):
            continue
        if math.isfinite(number):
            return number
    raise TyperException(f"{option} {text}: {part!r} is not a number, such as 3, 0.5 or 1/3.")


def wholes(option: str, text: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between, or None where nothing was written."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TyperException(f"{option} {text}: write whole numbers with commas between.") from None
