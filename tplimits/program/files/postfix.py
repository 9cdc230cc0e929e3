"""Bodies as flat postfix lists of words, and back.

A word is a number (`-3`, `7/4`), a named number (`pi`), a leaf (`constant γ`, `width n`, `size token`,
`index token`, `normal g′1`), a reader of earlier instructions and arrays with its number of indices
(`entry 4 own 1`, `array 0 2`, `lookup 0 1`, `data 2 1`), a comparison of two indices (`same`), a binder
(`sum token token′1`, `mean g′1`) or a head of `functions.HEADS` (`add 3`, `tanh`).

Reading evaluates nothing, neither text nor SymPy expressions: a body comes back exactly as it was
written.  Whoever uses it later lets SymPy simplify it, so what could make SymPy compute for long is
refused here: deep nesting, long numbers, large exponents, and constants that are not finite real
numbers or whose sign would need more than 40 digits.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import mpmath
import sympy
from sympy import Expr, Integer, Rational, Symbol

from tplimits.errors import ProgramError
from tplimits.program.language.constants import constant
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    DataIndex,
    Entry,
    GaussMean,
    Kron,
    Lookup,
    N,
    axis_symbol,
    constant_symbol,
    size_symbol,
    slot_symbol,
    width_symbol,
)
from tplimits.program.nodes.functions import HEADS
from tplimits.program.nodes.normalise import NUMBERS

#: limits of a body: words, levels of nesting, bits of its numbers together, absolute value of an exponent
MAX_WORDS, MAX_DEPTH, MAX_BITS, MAX_EXPONENT = 20_000, 100, 1 << 15, 10_000

_NAMES = {head: name for name, (head, _) in HEADS.items()}
_NUMBER_NAMES = {number: name for name, number in NUMBERS.items()}
_SYMBOLS: dict[str, Callable[[str], Symbol]] = {
    "constant": constant_symbol,
    "normal": constant_symbol,  # a real variable, like a constant
    "width": width_symbol,
    "size": size_symbol,
    "index": axis_symbol,
}
#: readers of arrays and data, which have no neuron
_READERS: dict[str, type[Expr]] = {"array": ArrayEntry, "lookup": Lookup, "data": DataIndex}
_RATIONAL = re.compile(r"-?(0|[1-9][0-9]*)(/[1-9][0-9]*)?")
_COUNT = re.compile(r"0|[1-9][0-9]{0,8}")


class Budget:
    """How many words may still be read from a file."""

    def __init__(self, words: int = 200_000) -> None:
        self.words = self.left = words

    def spend(self, words: int) -> None:
        """ProgramError when nothing is left."""
        self.left -= words
        if self.left < 0:
            _refuse(f"the bodies of this file have more than {self.words} words", "split the program")


def _refuse(found: str, repair: str) -> NoReturn:
    raise ProgramError(f"{found}; {repair}.")


def shown(value: object) -> str:
    """A piece of a file as it may stand in a message: escaped and short."""
    text = repr(value[:80]) if isinstance(value, str) else reprlib.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def words(body: Expr, slots: Sequence[Symbol] = ()) -> list[str]:
    """A body as a postfix list of words."""
    neurons = {OWN: "own", NO_NEURON: "none", **{s: str(i + 1) for i, s in enumerate(slots)}}
    found: list[str] = []
    for word in _words(body, neurons):
        found.append(word)
        if len(found) > MAX_WORDS:
            raise ProgramError(
                f"a body of more than {MAX_WORDS} words cannot be written; give intermediate values names in the "
                "traced function, so that they become instructions."
            )
    return found


def _words(node: Expr, neurons: dict[Symbol, str]) -> Iterator[str]:
    if isinstance(node, Rational):
        if max(node.p.bit_length(), node.q.bit_length()) > 13_000:
            raise ProgramError("a number of about 4000 digits or more cannot be written; round it.")
        yield str(node)
    elif node in _NUMBER_NAMES:
        yield _NUMBER_NAMES[node]
    elif isinstance(node, Symbol):
        yield _symbol_word(node)
    elif isinstance(node, Kron):
        for index in node.indices:
            yield from _words(index, neurons)
        yield "same"
    elif isinstance(node, (Entry, ArrayEntry, Lookup, DataIndex)):
        for index in node.indices:
            yield from _words(index, neurons)
        kind = next((word for word, leaf in _READERS.items() if isinstance(node, leaf)), "entry")
        neuron = f" {neurons.get(node.neuron, shown(node.neuron.name))}" if isinstance(node, Entry) else ""
        yield f"{kind} {node.args[0]}{neuron} {len(node.indices)}"
    elif isinstance(node, AxisSum):
        yield from _words(node.summand, neurons)
        yield f"sum {node.axis} {node.bound.name}"
    elif isinstance(node, GaussMean):
        yield from _words(node.args[0], neurons)
        yield f"mean {node.args[1].name}"
    elif type(node) in _NAMES:
        for argument in node.args:
            yield from _words(argument, neurons)
        name = _NAMES[type(node)]
        yield name + (f" {len(node.args)}" if HEADS[name][1] is None else "")
    else:
        raise ProgramError(f"`{node}` ({type(node).__name__}) has no form in a file; its heads are {', '.join(HEADS)}.")


def _symbol_word(symbol: Symbol) -> str:
    if symbol == N:
        return "width n"
    name = symbol.name
    for kind, make in _SYMBOLS.items():
        inner = name[1:-1] if kind == "size" else name
        if make(inner) == symbol and (kind != "constant" or name.isidentifier()):
            return f"{kind} {inner}"
    raise ProgramError(f"the symbol `{name}` has no form in a file; use constants, widths and sizes of the program.")


@dataclass(frozen=True)
class _Part:
    """A finished part of a body: how deep it is, the bits of its coefficients, its value if it is a number."""

    expr: Expr
    depth: int = 1
    bits: int = 0
    number: mpmath.mpf | None = None


def expression(found: Sequence[object], slots: int = 0, budget: Budget | None = None) -> Expr:
    """The body that a postfix list of words stands for.

    ProgramError says which word is wrong; nothing in the list is evaluated as code.
    """
    if len(found) > MAX_WORDS:
        raise ProgramError(f"it has {len(found)} words; split the body: at most {MAX_WORDS} are read.")
    (budget or Budget()).spend(len(found))
    reader = _Reader(slots)
    with mpmath.workdps(50):
        for place, word in enumerate(found, start=1):
            if not isinstance(word, str):
                raise ProgramError(f"word {place} is {shown(word)}; words are strings.")
            try:
                reader.read(word)
            except ProgramError as error:
                raise ProgramError(f"word {place}, {shown(word)}: {error}") from None
    if len(reader.stack) != 1:
        raise ProgramError(f"it leaves {len(reader.stack)} expressions; a postfix list leaves exactly one.")
    return reader.stack[0].expr


class _Reader:
    """The stack on which a postfix list is put together."""

    def __init__(self, slots: int) -> None:
        self.stack: list[_Part] = []
        self.neurons = {"own": OWN, "none": NO_NEURON, **{str(i + 1): slot_symbol(i + 1) for i in range(slots)}}

    def read(self, word: str) -> None:
        """Put one word on the stack."""
        if _RATIONAL.fullmatch(word):
            self.stack.append(_rational(word))
            return
        kind, *rest = word.split(" ")
        if kind in NUMBERS and not rest:
            self.stack.append(_Part(NUMBERS[kind], number=mpmath.mpf(NUMBERS[kind].evalf(60))))
        elif kind in _SYMBOLS and len(rest) == 1 and rest[0]:
            self.stack.append(_Part(_SYMBOLS[kind](rest[0])))
        elif kind == "entry" and len(rest) == 3 and rest[1] in self.neurons:
            indices = self._indices(rest[2])
            self.stack.append(_Part(Entry(Integer(_count(rest[0])), self.neurons[rest[1]], *indices), depth=2))
        elif kind in _READERS and len(rest) == 2:
            self.stack.append(_Part(_READERS[kind](Integer(_count(rest[0])), *self._indices(rest[1])), depth=2))
        elif kind == "same" and not rest:
            self.stack.append(_Part(Kron(*self._indices("2")), depth=2))
        elif kind in ("sum", "mean") and len(rest) == (2 if kind == "sum" else 1):
            self._binder(rest)
        else:
            self._head(kind, rest)

    def _pop(self, count: int) -> list[_Part]:
        if count > len(self.stack):
            _refuse(f"it takes {count} expressions, but {len(self.stack)} stand before it", "write operands first")
        parts = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return parts

    def _indices(self, count: str) -> list[Expr]:
        indices = [part.expr for part in self._pop(_count(count))]
        for index in indices:
            if not isinstance(index, (Integer, Symbol, Lookup, DataIndex)):
                _refuse(
                    f"{shown(str(index))} is not an index", "indices are numbers, `index …`, `lookup …` and `data …`"
                )
        return indices

    def _binder(self, names: list[str]) -> None:
        (inner,) = self._pop(1)
        if len(names) == 2:
            expr: Expr = AxisSum(inner.expr, axis_symbol(names[1]), Symbol(names[0]))
        else:
            expr = GaussMean(inner.expr, constant_symbol(names[0]))
        self._push(_Part(expr, inner.depth + 1))

    def _head(self, name: str, rest: list[str]) -> None:
        if name not in HEADS:
            _refuse("there is no such word", f"use a number, a leaf or one of the heads {', '.join(HEADS)}")
        head, arity = HEADS[name]
        if len(rest) != (arity is None):
            _refuse("it has the wrong number of parts", "write `add 3` and `mul 3` with a count, other heads alone")
        parts = self._pop(_count(rest[0]) if arity is None else arity)
        if not parts:
            _refuse("a sum or product of nothing", "write 0 or 1")
        bits = _power_bits(name, parts) if name in ("pow", "exp") else sum(p.bits for p in parts)
        if bits > MAX_BITS:
            _refuse(f"multiplied out, its numbers would have {bits} bits", f"round them: at most {MAX_BITS} are read")
        number = None
        if all(p.number is not None for p in parts):
            number = constant(name, [p.number for p in parts], all(p.expr.is_Rational for p in parts))
        expr = head(*(p.expr for p in parts), evaluate=False)
        if name not in ("add", "mul", "pow", "exp", "log"):
            bits = 0  # numbers inside a function stay there
        self._push(_Part(expr, 1 + max(p.depth for p in parts), bits, number))

    def _push(self, part: _Part) -> None:
        if part.depth > MAX_DEPTH:
            _refuse(f"more than {MAX_DEPTH} levels of nesting", "split the body into instructions")
        self.stack.append(part)


def _count(word: str) -> int:
    if not _COUNT.fullmatch(word):
        _refuse(f"{shown(word)} is not a count", "write a whole number such as 0 or 12")
    return int(word)


def _rational(word: str) -> _Part:
    if len(word) > 8000 or max(map(len, word.split("/"))) > 4000:  # Python itself reads at most 4300 digits
        _refuse("a number of more than 4000 digits", "round it")
    number = Rational(*map(int, word.split("/")))
    return _Part(number, bits=number.p.bit_length() + number.q.bit_length(), number=mpmath.mpf(number.p) / number.q)


def _power_bits(name: str, parts: list[_Part]) -> int:
    """The bits of numbers once a power is multiplied out; exp(c log x) is a power too."""
    base = parts[0]
    if name == "pow":
        exponents = {parts[1].expr} if parts[1].expr.is_Rational else set()
    elif base.expr.has(sympy.log):
        exponents = base.expr.atoms(Rational)
    else:
        return 0
    largest = max((abs(e) for e in exponents), default=0)
    if largest > MAX_EXPONENT:
        _refuse(f"the exponent {shown(str(largest))}", f"use one of at most {MAX_EXPONENT}")
    return base.bits * max(1, int(sympy.ceiling(largest)))
