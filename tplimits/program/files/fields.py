"""JSON text read with suspicion: limits before parsing, then every field once and in its type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sized
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from sympy import Expr

from tplimits.errors import ProgramError
from tplimits.program.files.postfix import Budget, expression, shown
from tplimits.program.nodes.entries import Entry

#: limits of a file: characters, strings, levels of nesting
MAX_CHARACTERS, MAX_STRINGS, MAX_LEVELS = 1 << 25, 1_000_000, 8
#: digits of a whole number that stands without quotes
MAX_DIGITS = 18
#: widths, constants or axes of a program; axes or averaged indices of one instruction (arrays have so many dimensions)
MAX_NAMES, MAX_AXES = 10_000, 32


def text_in(path: Path) -> str:
    """The text of a file; ProgramError for one that is too large or no UTF-8, OSError where it cannot be read."""
    with open(path, "rb") as file:
        content = file.read(4 * MAX_CHARACTERS + 1)
    if len(content) > 4 * MAX_CHARACTERS:
        refuse("the file", f"more than {4 * MAX_CHARACTERS} bytes", "it is too large to hold a program")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ProgramError("the file is not UTF-8 text.") from None


def parse(text: str, numbers: bool = False, digits: int = MAX_DIGITS) -> Fields:
    """The object that a JSON text holds.

    ProgramError for text that is too large or too deep, is not JSON, repeats a key, or has bare numbers; with
    `numbers` these may stand where `Fields.plain` reads, if they are finite, and whole ones of so many digits.
    """
    _scan(text)
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=partial(_short_integer, digits) if numbers else _bare_number,
            parse_float=_finite_float if numbers else _bare_number,
            parse_constant=_bare_number,
        )
    except json.JSONDecodeError as error:
        raise ProgramError(f"the file is not JSON: line {error.lineno}, column {error.colno}: {error.msg}.") from None
    return Fields(document, "the file", Budget())


def refuse(where: str, found: str, repair: str) -> NoReturn:
    """Raise the ProgramError of a place in the file."""
    raise ProgramError(f"{where}: {found}; {repair}.")


def _scan(text: str) -> None:
    """Refuse what is too large or too deep, before anything is built from it."""
    if len(text) > MAX_CHARACTERS:
        refuse("the file", f"{len(text)} characters", f"at most {MAX_CHARACTERS} are read")
    if text.count('"') > 2 * MAX_STRINGS or text.count(",") > MAX_STRINGS:
        refuse("the file", f"more than {MAX_STRINGS} entries", "give large arrays at run time instead")
    depth = 0
    # a string runs to its closing quote or to the end of the text, so no character is looked at twice
    for mark in re.sub(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[^"\[{\]}]++', "", text, flags=re.DOTALL):
        depth += 1 if mark in "[{" else -1
        if depth > MAX_LEVELS:
            refuse("the file", f"more than {MAX_LEVELS} levels of nesting", "a program file is flat")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            refuse("the file", f"the key {shown(key)} stands twice in one object", "keep one of the two")
        found[key] = value
    return found


def _bare_number(word: str) -> NoReturn:
    refuse("the file", f"the bare number {shown(word)}", "integers are strings, floats hexadecimal strings")


def _short_integer(digits: int, word: str) -> int:
    if len(word) > digits:
        refuse("the file", f"a whole number of {len(word)} digits", f"give at most {digits}")
    return int(word)


def _finite_float(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        refuse("the file", f"the number {shown(word)}", "numbers are finite")
    return number


class Fields:
    """One JSON object of a file; `where` names it in messages."""

    def __init__(self, value: Any, where: str, budget: Budget) -> None:
        if not isinstance(value, dict):
            refuse(where, f"it is {shown(value)}", "it must be an object")
        self._left, self.where, self._budget = dict(value), where, budget

    def _take(self, key: str, kind: type, what: str) -> Any:
        if key not in self._left:
            refuse(self.where, f"the field {key!r} is missing", f"it holds {what}")
        return self._checked(self._left.pop(key), self._at(key), kind, what)

    def _at(self, key: str | int) -> str:
        return f"{self.where}, {key if isinstance(key, int) or key.isprintable() else shown(key)}"

    def _checked(self, value: Any, where: str, kind: type, what: str) -> Any:
        if not isinstance(value, kind):
            refuse(where, f"it is {shown(value)}", f"it must be {what}")
        return value

    def finish(self) -> None:
        """Refuse fields that nothing has asked for."""
        if self._left:
            refuse(self.where, f"the unknown field {shown(min(self._left))}", "remove it")

    def text(self, key: str) -> str:
        """A name: printable and short."""
        return name(self._take(key, str, "a name"), self._at(key))

    def has(self, key: str) -> bool:
        """Whether a field is given."""
        return key in self._left

    def one_of(self, key: str, choices: tuple[str, ...]) -> str:
        """One of some words."""
        found = self._take(key, str, "a word")
        if found not in choices:
            refuse(self._at(key), f"it is {shown(found)}", f"this version reads {', '.join(map(repr, choices))}")
        return str(found)

    def flag(self, key: str) -> bool:
        """True or false."""
        return bool(self._take(key, bool, "true or false"))

    def count(self, key: str) -> int:
        """A whole number."""
        return whole(self._take(key, str, "a whole number in quotes"), self._at(key))

    def body(self, key: str, slots: int = 0) -> Expr:
        """An expression as a postfix list of words."""
        return self._body(self._take(key, list, "a list of words"), self._at(key), slots)

    def entry(self, key: str) -> Entry:
        """An expression that is a single entry."""
        found = self.body(key)
        if not isinstance(found, Entry):
            refuse(self._at(key), f"it is {shown(str(found))}", "it must be one entry of an instruction")
        return found

    def _body(self, value: Any, where: str, slots: int = 0) -> Expr:
        try:
            return expression(self._checked(value, where, list, "a list of words"), slots, self._budget)
        except ProgramError as error:
            raise ProgramError(f"{where}: {error}") from None

    def plain(self, key: str) -> Any:
        """A JSON value as it stands: text, numbers, lists and objects of these."""
        return self._take(key, object, "a value")

    def long_text(self, key: str) -> str:
        """Any text, such as another file."""
        return str(self._take(key, str, "text"))

    def is_null(self, key: str) -> bool:
        """Whether the field is null, which reads it."""
        if self._left.get(key, "") is None:
            self._left.pop(key)
            return True
        return False

    def each(self, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
        """A list, its members read one by one with their place."""
        where = self._at(key)
        return tuple(read(v, where) for v in self._take(key, list, "a list"))

    def texts(self, key: str, most: int = MAX_AXES) -> tuple[str, ...]:
        """A list of names."""
        found = self.each(key, name)
        few(found, self._at(key), most)
        return found

    def counts(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        return self.each(key, whole)

    def bodies(self, key: str) -> tuple[Expr, ...]:
        """A list of expressions."""
        return self.each(key, self._body)

    def objects(self, key: str, what: str, most: int) -> list[Fields]:
        """A list of objects, to be called `what` 1, 2, ... in messages."""
        found = self._take(key, list, "a list of objects")
        few(found, self._at(key), most)
        return [Fields(v, f"{what} {i}", self._budget) for i, v in enumerate(found, start=1)]

    def mapping(self, key: str, read: Callable[[Any, str], Any], most: int = MAX_NAMES) -> dict[str, Any]:
        """An object whose keys are names, its values read one by one with their place."""
        where = self._at(key)
        found = self._take(key, dict, "an object")
        few(found, where, most)
        return {name(k, where): read(v, f"{where}, {k}") for k, v in found.items()}

    def expressions(self, key: str) -> dict[str, Expr | None]:
        """An object of expressions or nulls."""
        return self.mapping(key, lambda v, where: None if v is None else self._body(v, where))


def few(found: Sized, where: str, most: int) -> None:
    """Refuse a list or an object with too many members."""
    if len(found) > most:
        refuse(where, f"it has {len(found)} members", f"at most {most} are read")


def name(value: Any, where: str) -> str:
    """A printable name."""
    if not isinstance(value, str) or not value or len(value) > 200 or not value.isprintable():
        refuse(where, f"{shown(value)} is not a name", "names are printable strings of at most 200 characters")
    return value


def whole(value: Any, where: str) -> int:
    """A whole number in quotes."""
    if not isinstance(value, str) or not re.fullmatch(r"-1|0|[1-9][0-9]{0,17}", value):
        refuse(where, f"{shown(value)} is not a whole number", 'write it as a string, such as "12"')
    return int(value)


def rational(value: Any, where: str) -> Fraction:
    """A fraction as `str` writes it."""
    if not isinstance(value, str) or not re.fullmatch(r"-?[0-9]{1,9}(/[1-9][0-9]{0,8})?", value):
        refuse(where, f"{shown(value)} is no fraction", 'write it as a string, such as "1/2"')
    return Fraction(value)


def hexadecimal(value: Any, where: str) -> float:
    """A float as `float.hex` writes it."""
    if not isinstance(value, str) or not re.fullmatch(r"-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}", value):
        refuse(where, f"{shown(value)} is not a hexadecimal float", "write it as float.hex does: 0x1.8000000000000p+0")
    try:
        return float.fromhex(value)
    except OverflowError:
        refuse(where, f"{shown(value)} is beyond double precision", "constants must be finite numbers")
