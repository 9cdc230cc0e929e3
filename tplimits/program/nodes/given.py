"""What users give beside a program: seeds, counts, numbers by name, executors; refused where they come in."""

from __future__ import annotations

import inspect
import itertools
import math
import numbers
import operator
import pickle
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Expr, S

from tplimits.errors import EvaluationError, ProgramError, TplimitsError, shown
from tplimits.program.language.tracing import alone, exact

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: more than so many names, widths, seeds or views are a mistake, and range(10**12) would fill the memory
_SEVERAL = 1 << 20
#: nobody waits for so many of anything that is counted
_MANY = 1 << 40


def whole_number(value: Any, below: int | None = _MANY) -> int | None:
    """The value as an int, or None when it is not a whole number, or more than anyone counts to.

    >>> whole_number(3), whole_number(3.5), whole_number(True), whole_number(10**400)
    (3, None, None, None)
    """
    try:
        # True is an int of Python, and was meant as no number
        number = None if isinstance(value, bool) else int(operator.index(value))
    except Exception:  # the code of users
        return None
    return number if number is None or below is None or abs(number) < below else None


def real_number(value: Any) -> float | None:
    """The value as a float, infinite ones too; None for what is no real number, for NaN, and beyond 1e308.

    >>> real_number(3), real_number("3"), real_number(10**400), real_number(math.nan)
    (3.0, None, None, None)
    """
    value = alone(value)
    try:
        number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except Exception:  # among others the code of users
        return None
    return None if math.isnan(number) else number


def whole_from(name: str, value: Any, least: int, error: type[TplimitsError]) -> int:
    """A whole number that is not below `least`, nor more than anyone counts to."""
    number = whole_number(value)
    if number is None or number < least:
        far = (whole_number(value, None) or 0) >= _MANY
        raise error(f"{name}={shown(value)}: give a whole number, at least {least}{' and below 2^40' if far else ''}.")
    return number


def exact_number(name: str, value: Any, error: type[TplimitsError]) -> Expr:
    """A finite real number as an exact expression; anything else is refused (text is never read as a formula).

    >>> exact_number("c", 0.75, EvaluationError)
    3/4
    """
    value = alone(value)
    try:
        number = None if isinstance(value, (bool, numpy.bool_)) else value if isinstance(value, Expr) else exact(value)
    except (TypeError, ValueError, OverflowError, ProgramError):
        number = None
    if number is None or number.free_symbols or not number.is_finite or not number.is_real or _is_beyond(number):
        raise error(f"{name}={shown(value)}: give a finite number.")
    return number


def _is_beyond(number: Expr) -> bool:
    """Whether no float is near: exact numbers come without an end."""
    return bool(number.is_Rational and abs(number) > sys.float_info.max)


def finite_number(name: str, value: Any, error: type[TplimitsError]) -> float:
    """A finite real number as a float."""
    number = float(exact_number(name, value, error))
    if not math.isfinite(number):
        raise error(f"{name}={shown(value)}: give a finite number, below 1e308.")
    return number


def positive_number(name: str, value: Any, error: type[TplimitsError]) -> float:
    """A finite number above zero as a float."""
    try:
        number = finite_number(name, value, error)
    except error:
        number = 0.0
    if not number > 0:
        raise error(f"{name}={shown(value)}: give a positive, finite number.")
    return number


def width_ratios(
    program: Program, ratios: Any, error: type[TplimitsError], fixed: Collection[str] = ()
) -> dict[str, Expr]:
    """The ratio to n of each of a program's widths that is not `fixed`, as given or 1; only positive ones are taken."""
    widths = [w for w in program.other_widths if w not in fixed]
    found: dict[str, Expr] = dict.fromkeys(widths, S.One)
    for name, value in by_name(ratios, "ratios", error).items():
        if name not in found:
            known = ", ".join(widths) or "none"
            raise error(f"ratios={{{shown(name)}: …}}: the widths of `{program.name}` besides n are {known}.")
        try:
            found[name] = exact_number(name, value, error)
        except error:
            found[name] = S.Zero
        if not found[name].is_positive:
            raise error(f"ratios={{{shown(name)}: {shown(value)}}}: a ratio of widths is a positive number.")
    return found


def true_or_false(name: str, value: Any, error: type[TplimitsError]) -> bool:
    """True or False, of Python or NumPy; other things have a truth that nobody meant.

    >>> true_or_false("covariance", True, EvaluationError)
    True
    """
    if not isinstance(value, (bool, numpy.bool_)):
        raise error(f"{name}={shown(value)}: give True or False.")
    return bool(value)


def seed_number(seed: Any, error: type[TplimitsError]) -> int:
    """A seed: a whole number, 0 or more."""
    value = whole_number(seed, below=None)  # generators take any, as those of numpy.random.SeedSequence().entropy
    if value is None or value < 0:
        raise error(f"seed={shown(seed)}: a seed is a whole number, 0 or more.")
    return value


def several(value: Any) -> tuple[Any, ...] | None:
    """What a list, an array or another iterable holds; None for text, mappings, what is one thing or has no end.

    >>> several([1, 2]), several("ab"), several(3)
    ((1, 2), None, None)
    """
    if isinstance(value, (str, bytes, Mapping)):
        return None
    try:
        found = tuple(itertools.islice(value, _SEVERAL + 1))
    except Exception:  # arrays without dimensions have the method, and no entries; others run the code of users
        return None
    return found if len(found) <= _SEVERAL else None


def word_of(name: str, value: Any, words: Sequence[str], error: type[TplimitsError]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in words:
        raise error(f"{name}={shown(value)}: give one of the words {', '.join(map(repr, words))}.")
    return value


def names_of(name: str, value: Any, error: type[TplimitsError]) -> tuple[str, ...]:
    """A name, or several."""
    found = (value,) if isinstance(value, str) else several(value)
    if found is None or not all(isinstance(one, str) for one in found):
        raise error(f'{name}={shown(value)}: give names, as in {name}=("x", "y").')
    return found


def by_name(value: Any, option: str, error: type[TplimitsError]) -> dict[str, Any]:
    """What an option gives by name; None gives nothing."""
    if value is None:
        return {}
    found = entries_of(value)
    if found is None:
        raise error(f'{option}={shown(value)}: give names and numbers as in {option}={{"k": 2}}.')
    for name in found:
        if not isinstance(name, str):
            raise error(
                f'{option}={shown(value)}: {shown(name)} is not a name; give names and numbers as in {{"k": 2}}.'
            )
    return found


def entries_of(value: Any) -> dict[Any, Any] | None:
    """What a mapping holds; None for what is no mapping, or does not say."""
    try:
        return {key: value[key] for key in value} if isinstance(value, Mapping) else None
    except Exception:  # the code of users
        return None


def named_once(option: Any, named: Mapping[str, Any], call: str, error: type[TplimitsError]) -> dict[str, Any]:
    """Constants and data given through `constants=` and by keyword, together."""
    listed = by_name(option, "constants", error)
    twice = sorted(set(listed) & set(named))
    if twice:
        raise error(f"{call}: `{twice[0]}` is given twice; give it by keyword or in constants=.")
    return {**listed, **named}


def working_executor(executor: Any, error: type[TplimitsError]) -> None:
    """Refuse an executor that cannot take work."""
    if executor is not None and not (hasattr(executor, "submit") and hasattr(executor, "map")):
        raise error(
            f"executor={shown(executor)}: give an executor of concurrent.futures, as ProcessPoolExecutor(), or None."
        )


def sent_to(executor: Any, values: Mapping[str, Any], error: type[TplimitsError]) -> None:
    """Refuse functions that an executor cannot send to its processes."""
    if not any(kind.__module__ == "concurrent.futures.process" for kind in type(executor).__mro__):
        return
    for name, value in values.items():
        try:
            pickle.dumps(value)
        except Exception as problem:  # pickling runs the code of users
            raise error(
                f"{name}= cannot be sent to the processes of the executor ({type(problem).__name__}): define the "
                "function at the top of a module, not as a lambda, or give a ThreadPoolExecutor, or none."
            ) from None


def can_be_called(function: Any, *arguments: Any) -> bool:
    """Whether a function takes these arguments; of built-in functions without a signature, whether it is one.

    >>> can_be_called(lambda t: t, 0), can_be_called(lambda: 1, 0), can_be_called(lambda f, t=0: f, None, 0)
    (True, False, True)
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # built-in functions without a signature take one argument
        return len(arguments) == 1
    except Exception:  # the code of users
        return False
    return True


def index_array(name: str, value: Any, of: str, size: int | None) -> NDArray[numpy.int64]:
    """An array of indices of an axis, given for `name`: whole numbers from 0 on, below its size where that is known.

    >>> index_array("x", [[0, 2]], "vocab", 3).tolist()
    [[0, 2]]
    """
    array, size = real_array(name, value), None if size is None else int(size)  # SymPy's would be slow
    # indices that came through a float array are whole numbers all the same
    wrong = array != numpy.floor(array)
    if wrong.any():
        raise EvaluationError(
            f"`{name}` holds {array[wrong][0]:g}; it takes indices of `{of}`, whole numbers from 0 on."
        )
    # an exact number as the bound would compare entry by entry
    outside = array < 0 if size is None else (array < 0) | (array >= int(size))
    if outside.any():
        last = "whole numbers from 0 on" if size is None else f"which has {size} entries, from 0 to {size - 1}"
        raise EvaluationError(f"`{name}` holds {array[outside][0]:g}; it takes indices of `{of}`, {last}.")
    return array.astype(numpy.int64)


def real_array(
    name: str, value: Any, finite: bool = True, shape: tuple[int, ...] | None = None
) -> NDArray[numpy.float64]:
    """An array of real numbers of this shape, given for `name`; NaN and infinite ones too if not to be `finite`."""
    try:
        found = array_of(value)
        if numpy.iscomplexobj(found):
            raise EvaluationError(f"`{name}` is given complex numbers; programs are real: give the real part.")
        # text that spells a number is text
        spelled = found.dtype == object and any(isinstance(one, (str, bytes)) for one in found.flat)
        number = found.dtype.kind in "biufO" and value is not None and not spelled
        # rows in order of memory: sums over them round alike, however the caller laid them out
        array = numpy.array(found, dtype=numpy.float64, order="C") if number else None
    except EvaluationError:
        raise
    except UnfitNumbers as problem:
        raise EvaluationError(f"`{name}` is given {problem}.") from None
    except Exception:  # conversion to arrays runs the code of users
        array = None
    if array is None:
        kind = isinstance(value, numpy.ndarray) and f"an array of dtype {value.dtype}"
        what = kind or f"a value of type {type(value).__name__}"
        raise EvaluationError(f"`{name}` is given {what}; it takes an array of numbers.")
    if finite and not numpy.isfinite(array).all():
        raise EvaluationError(f"`{name}` has NaN or infinite entries.")
    if shape not in (None, array.shape):
        raise EvaluationError(f"`{name}` has shape {array.shape}; it needs {shape}.")
    return array


#: more than so many numbers are an array, or a mistake: one by one they take 30 bytes each
_ENTRIES = 1 << 24
#: NumPy has no more dimensions; a list may hold itself
_DEEPEST = 64


class UnfitNumbers(ValueError):
    """Numbers that are not taken as they are: one by one, and more of them than anyone writes; under a mask."""


def array_of(value: Any, dtype: Any = None) -> NDArray[Any]:
    """`numpy.asarray`, which would write out range(10**9), and drop masks: UnfitNumbers for these."""
    if _entries(value) > _ENTRIES:
        raise UnfitNumbers(f"more than {_ENTRIES} numbers one by one: give an array of NumPy")
    return numpy.asarray(value, dtype)


def _entries(value: Any, depth: int = 0) -> int:
    """How many numbers lists of lists hold, none of them written out; counted until they are too many."""
    if isinstance(value, numpy.ma.MaskedArray) and numpy.ma.is_masked(value):
        raise UnfitNumbers("a masked array, whose mask would be lost: fill it, and give a mask as data")
    if depth > _DEEPEST or not isinstance(value, (list, tuple, range)):  # or an array, and what is one in memory
        return 1
    many = len(value)
    if many <= _ENTRIES and not isinstance(value, range):
        for inner in value:
            if isinstance(inner, (list, tuple, range, numpy.ma.MaskedArray)):
                many += _entries(inner, depth + 1)
            if many > _ENTRIES:
                break
    return many
