"""Limits that networks of widths that can be run are not near, and come to all the same as far as is seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import tplimits as tp
from fuzz.answers import Effort, asked, derived, made
from fuzz.draft import Case
from fuzz.measuring import WIDTHS, roots_of_some, sizes_of_vectors, spreads_of_scalars

#: so many spreads from zero nearly all networks have a scalar's sign
_SURE = 3
#: outputs move by less than so many times what targets are moved by, if no update jumps
_FAR = 3
#: optimizers whose updates jump
_JUMPING = re.compile(r"SignSGD\(\)|sympy\.sign")
#: a part of the spread of a scalar, and by how much less results move within it if they do not jump
_SMALL, _FALLING = 2.0**-12, 8
#: a look at the spread of outputs
_LOOK = Effort((128,), (40,))

#: whether networks come to what is told of a case, its limit
Agrees = Callable[[Case, Any], bool]


def below_its_spread(case: Case, agrees: Agrees) -> dict[str, Any] | None:
    """What is said where networks have roots of negative values only because a scalar, whose limit is positive and that
    networks come to, is smaller than its spread among them; None where it is not so.
    """
    for name, spread in roots_of_some(made(case), case.options).items():
        alone = returning(case, name, name)
        limit = derived(alone)
        value = limit.evaluate()["return"].value
        if 0 < value < _SURE * spread and agrees(alone, limit):
            width = WIDTHS[1] * (_SURE * spread / value) ** 2
            detail = (
                f"{name} → {value:.3g}, in networks of width {WIDTHS[1]} ± {spread:.2g}: width {width:.0g} is needed"
            )
            return {"kind": "unchecked", "reason": "roots of negative values at this width", "detail": detail}
    return None


def returning(case: Case, name: str, result: str) -> Case:
    """The case up to a statement, with a result of its own."""
    return replace(case, source=re.sub(rf"(\n *)({name} = .*)(?s:.*)", rf"\1\2\1return {result}\n", case.source))


def not_reached(case: Case, limit: Any, agrees: Agrees) -> str:
    """Why networks that are rejected are not near the limit; "" where nothing is known."""
    if case.regime in ("width", "kernels") and small_vector(case, agrees):
        return "a vector below its spread"
    if case.regime == "kernels" and sign_of_scalar(case, limit, agrees):
        return "the sign of a scalar below its spread"
    if case.regime == "width" and steep_scalar(case, limit, agrees):
        return "steep within the spread of a scalar"
    if case.regime == "training" and _JUMPING.search(case.options["limit"]) and jumps_within(case, limit):
        return "updates jump within the spread of outputs"
    return ""


def steep_scalar(case: Case, limit: Any, agrees: Agrees) -> str | None:
    """A scalar that networks come to, with which held at its limit they come to the rest; or None.

    The limit moves with it within its spread, and not at a jump: at a small part of the spread it hardly does.
    """
    numbers = limit.evaluate(**asked(case, _LOOK))
    for name, spread in spreads_of_scalars(made(case), case.options).items():
        if name not in numbers or f"\n    {name} = " not in case.source:
            continue
        value = numbers[name].value
        far, near = (
            max(_moved(case, limit, name, value + sign * spread * part) for sign in (1, -1)) for part in (1, _SMALL)
        )
        kept, alone = _holding(case, name, value), returning(case, name, name)
        if near < far / _FALLING and agrees(alone, derived(alone)) and agrees(kept, derived(kept)):
            return name
    return None


def _holding(case: Case, name: str, value: float) -> Case:
    """The case with a scalar held at a number."""
    return replace(case, source=re.sub(rf"(\n *{name} = ).*", rf"\g<1>{value!r}", case.source))


def _moved(case: Case, limit: Any, name: str, value: float) -> float:
    """How far results of the limit move with a scalar held at a number."""
    given = asked(case, _LOOK)
    moved, numbers = derived(_holding(case, name, value)).evaluate(**given), limit.evaluate(**given)
    return max(abs(moved[label].value - x.value) for label, x in numbers.items() if "return" in label)


def small_vector(case: Case, agrees: Agrees) -> str | None:
    """A vector whose ⟨v|v⟩ is less than half of what wide networks have, and is what they come to; or None."""
    for name, size in sizes_of_vectors(made(case), case.options).items():
        if f"\n    {name} = " not in case.source:
            continue
        alone = _square_of(case, name)
        try:
            limit = derived(alone)
            told = _told_square(alone, limit)
        except tp.TplimitsError:
            continue
        if 2 * told < size and agrees(alone, limit):
            return name
    return None


def sign_of_scalar(case: Case, limit: Any, agrees: Agrees) -> str | None:
    """A scalar of which the sign alone counts, and whose limit is within its spread among networks, or None.

    The limit is the same with it held at a number, and that is what networks with it held there come to.
    """
    for name, spread in spreads_of_scalars(made(case), case.options).items():
        if f"\n    {name} = " not in case.source:
            continue
        alone = _square_of(case, name)
        try:
            told = _told_square(alone, squared := derived(alone)) ** 0.5
            if not 0 < told < _SURE * spread or not agrees(alone, squared):
                continue
            for kept in (_holding(case, name, told), _holding(case, name, -told)):
                held = derived(kept)
                if np.allclose(_told(kept, held), _told(case, limit), rtol=1e-9) and agrees(kept, held):
                    return name
        except tp.TplimitsError:
            continue
    return None


def _told(case: Case, limit: Any) -> np.ndarray:
    """K of a network."""
    given = asked(case, _LOOK)
    return np.asarray(limit.evaluate(given.pop("X1"), **given).nngp)


def _square_of(case: Case, name: str) -> Case:
    """The case up to a vector, with its square as the result; of a network read out by another vector."""
    if case.regime == "width":
        return returning(case, name, f"tp.avg({name}*{name})")
    alone = returning(case, name, f"last*{name}")
    return replace(alone, source=alone.source.replace("def subject(", "def subject(last: tp.Vector, "))


def _told_square(alone: Case, limit: Any) -> float:
    if alone.regime == "width":
        return float(limit.evaluate()["return"].value)
    return float(np.ravel(_told(alone, limit))[0])


def jumps_within(case: Case, limit: Any) -> bool:
    """Whether the limit itself, at targets moved by the spread of outputs after a step, is another by far more."""
    given = asked(case, _LOOK)
    f = limit.evaluate(**given).f
    runs = tp.check(limit, progress=False, **given, widths=(64, 128, 256), draws=(40, 40, 40), seed=case.seed)
    spread = max(float(r.moments.variances[-1]) ** 0.5 for r in runs.rows if r.claim.name.startswith("f[1,"))
    targets = given["error"].targets
    for place in np.ndindex(targets.shape):
        for shift in (spread, -spread):
            moved = np.array(targets)
            moved[place] += shift
            there = limit.evaluate(**{**given, "error": tp.squared_error(moved)}).f
            if abs(there - f).max() > _FAR * spread:
                return True
    return False
