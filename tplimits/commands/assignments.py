"""What is written on the command line: NAME=VALUE pairs, whole numbers, optimizers and parametrizations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

from typer.exceptions import TyperException

from tplimits.program.optimizers.adaptive import Adagrad, Adam, NAdam, RMSProp
from tplimits.program.optimizers.joint import Adafactor
from tplimits.program.optimizers.linear import SGD, SignSGD
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.table import ABCD, MUP, NTP, SP, UP, Parametrization

OPTIMIZERS: dict[str, type[Optimizer]] = {
    kind.__name__.lower(): kind for kind in (SGD, SignSGD, Adam, NAdam, RMSProp, Adagrad, Adafactor)
}
PARAMETRIZATIONS = {"sp": SP, "ntp": NTP, "mup": MUP, "μp": MUP}
#: how names with Greek letters may be written
_PLAIN = {"beta1": "β1", "beta2": "β2"}


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
            if math.isfinite(number):
                return number
        except (ValueError, ZeroDivisionError, OverflowError):  # the last beyond doubles
            continue
    raise TyperException(f"{option} {text}: {part!r} is not a number, such as 3, 0.5 or 1/3.")


def wholes(option: str, text: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between, or None where nothing was written."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TyperException(f"{option} {text}: write whole numbers with commas between.") from None


def widths_named(text: str) -> tuple[float, ...]:
    """Whole numbers and inf, with commas between.

    >>> widths_named("32,128,inf")
    (32, 128, inf)
    """
    listed = text.replace("∞", "inf").split(",")
    try:
        return tuple(math.inf if part.strip() == "inf" else int(part) for part in listed)
    except ValueError:
        raise TyperException(
            f"--widths {text}: write whole numbers, and inf for the limit, with commas between."
        ) from None


def optimizer_named(text: str) -> Optimizer:
    """NAME or NAME:KEY=VALUE,KEY=VALUE.

    >>> str(optimizer_named("adam:eps=0.5,beta1=3/4"))
    'Adam(β1=3/4, β2=0.999, eps=0.5)'
    """
    name, _, written = text.partition(":")
    kind = OPTIMIZERS.get(name.lower())
    if kind is None:
        raise TyperException(f"--optimizer {text}: the optimizers are {', '.join(OPTIMIZERS)}.")
    parts = written.split(",") if written else []
    named = [p for p in parts if p.startswith("convention=")]
    given = assigned("--optimizer", [p for p in parts if p not in named])
    given |= {key: text for key, _, text in (p.partition("=") for p in named)}
    given = {_PLAIN.get(key, key): value for key, value in given.items()}
    known = [f.name for f in fields(kind) if f.init]
    for key in given:
        if key not in known:
            raise TyperException(f"--optimizer {text}: `{key}` is none of {name}'s {', '.join(known)}.")
    return kind(**given)


def parametrization_named(text: str, changed: Mapping[str, Any]) -> Parametrization:
    """sp, ntp, mup or up:S, with other exponents for some kinds or parameters.

    >>> parametrization_named("up:1/4", {}).name
    'UP(1/4)'
    """
    name, _, s = text.lower().partition(":")
    if name == "up" and s:
        base = UP(s)
    elif text.lower() in PARAMETRIZATIONS:
        base = PARAMETRIZATIONS[text.lower()]
    else:
        raise TyperException(f"--parametrization {text}: it is one of sp, ntp, mup and up:S with S such as 1/4.")
    return ABCD(changed, base, f"{base.name} with other exponents") if changed else base
