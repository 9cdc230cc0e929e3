"""A limit as a table a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Symbol
from sympy.printing.printer import Printer
from sympy.printing.str import StrPrinter

from tplimits.law.means import BoxMean, Expectation
from tplimits.program.language.render import decimal, right_hand_side, was_float
from tplimits.program.nodes.kinds import InitialMatrix, Instruction, MatMul
from tplimits.program.parts import found
from tplimits.report.rolled import SCREEN, table, together

if TYPE_CHECKING:
    from tplimits.law.kets import Ket
    from tplimits.law.state import Derivation
    from tplimits.program.nodes.program import Program

#: a mean with more nodes than this is written by its name
MOST_NODES = 250
#: so many definitions are given at the end
MOST_DEFINITIONS = 60


class Writer:
    """Writes expressions out and remembers the names it left standing."""

    def __init__(self, state: Derivation) -> None:
        self._state = state
        self._left: dict[Symbol, None] = {}

    def __call__(self, expr: Expr) -> Expr:
        """The expression with its short means written out."""
        written = self._state.engine.written_out(expr, MOST_NODES)
        known = (s for s in written.atoms(Symbol) if s in self._state.engine.moments or s in self._state.gaussians.long)
        self._left.update(dict.fromkeys(sorted(known, key=lambda s: s.name)))
        return written

    def definitions(self) -> Iterator[tuple[Symbol, Expr]]:
        """What the names stand for, those met on the way included."""
        done: set[Symbol] = set()
        while (following := next((s for s in self._left if s not in done), None)) is not None:
            if len(done) == MOST_DEFINITIONS:
                return
            done.add(following)
            long = self._state.gaussians.long.get(following)
            yield following, self(self._state.engine.definition(following) if long is None else long.definition)

    @property
    def left_out(self) -> int:
        """How many names `definitions` did not come to."""
        return max(len(self._left) - MOST_DEFINITIONS, 0)


#: expressions larger than this are not simplified for show
_SIMPLIFY_UP_TO = 90
#: entries of one family, and terms of one ket, that are written out
_FAMILY_UP_TO = 6
_TEXT_UP_TO = 160


def shortest(expr: Expr) -> Expr:
    """The shortest of a few equal forms; long expressions and open means are left alone."""
    if expr.is_Atom or expr.has(Expectation) or sympy.count_ops(expr) > _SIMPLIFY_UP_TO:
        return expr
    candidates = [expr, sympy.factor_terms(expr)]
    if not expr.has(sympy.erf, sympy.exp) or expr.is_number:
        candidates.append(sympy.simplify(expr))
    return min(candidates, key=lambda e: (sympy.count_ops(e), len(str(e))))


def positive_first(terms: Sequence[Expr]) -> list[Expr]:
    """The terms of a sum with one that is not negative in front: 3π − 2 rather than −2 + 3π."""
    first = next((i for i, t in enumerate(terms) if not t.could_extract_minus_sign()), 0)
    return [terms[first], *terms[:first], *terms[first + 1 :]]


class _Decimal(sympy.Symbol):
    """A number as it was written; it stands where a number stands in a product."""

    __slots__ = ()

    def sort_key(self, order: str | None = None) -> tuple[Any, ...]:
        return (1, 0, self.name), (1, (self.name,)), sympy.S.One.sort_key(), sympy.S.One


def as_written(expr: Expr) -> Expr:
    """The expression with long binary fractions, which come from floats, as symbols named by the float.

    >>> as_written(sympy.Rational(0.1) * sympy.pi - sympy.Rational(0.3))
    0.1*pi - 0.3
    """
    long = {r for r in found(expr, sympy.Rational) if was_float(r)}
    return expr.xreplace({r: sympy.sign(r) * _Decimal(decimal(abs(r)), positive=True) for r in long}) if long else expr


def shown(expr: Expr) -> Expr:
    """The form of an expression that a report prints."""
    return shortest(as_written(expr))


class AsWritten(Printer):
    """What SymPy's printers of text and of LaTeX do otherwise here: floats as written, a term without a minus first."""

    def doprint(self, expr: Expr) -> str:
        return str(super().doprint(as_written(expr)))

    def _as_ordered_terms(self, expr: Expr, order: str | None = None) -> list[Expr]:
        return positive_first(super()._as_ordered_terms(expr, order))

    def addends(self, expr: Expr) -> tuple[str, ...]:
        """A sum term by term, each with its sign; any other expression whole."""
        if not isinstance(expr, sympy.Add):
            return (self.doprint(expr),)
        first, *others = (self.doprint(t) for t in self._as_ordered_terms(as_written(expr)))
        return (first, *(f"- {t[1:].strip()}" if t.startswith("-") else f"+ {t}" for t in others))


class _Printer(AsWritten, StrPrinter):
    """SymPy's text with box means in the notation of the paper."""

    def parenthesize(self, item: Expr, level: int, strict: bool = False) -> str:
        if isinstance(item, sympy.Symbol) and "·" in item.name:  # a fluctuation scalar √n·Avg
            return f"({item.name})"
        return str(super().parenthesize(item, level, strict))

    def _print_BoxMean(self, expr: BoxMean) -> str:
        return f"E□[{self._print(expr.integrand)}]"


def formula(expr: Expr) -> str:
    """An expression as text, shortened in the middle when it is very long."""
    written = _Printer().doprint(expr)
    if len(written) > _TEXT_UP_TO:
        return f"{written[: _TEXT_UP_TO // 2]} … ({sympy.count_ops(expr)} operations)"
    return written


def _ket_line(written: Writer, ket: Ket) -> str:
    if ket.hat is None or not ket.dot:
        return formula(written(ket.expr))
    dots = " + ".join(f"({formula(written(t.coefficient))})·|{t.partner}⟩" for t in ket.dot if t.coefficient != 0)
    return f"{formula(ket.hat)} + {dots}" if dots else formula(ket.hat)


def width_limit(program: Program, state: Derivation, full: bool = False) -> str:
    """Kets with hat and dot parts, then scalars; repeated layers once, and large families in part, unless `full`.

    Where kets written out are longer than a screen, those that are functions of others say of which.
    """
    end = [f"  {line}" for line in _doubts(state)]
    lines = _table(program, state, full, by_names=False)
    if not full and len(lines) + len(end) >= SCREEN:
        named = _table(program, state, full, by_names=True)
        lines = named if len(named) + len(end) < SCREEN else together(named)
    return "\n".join([f"width limit of {program.name}", *lines, *end])


def _table(program: Program, state: Derivation, full: bool, by_names: bool) -> list[str]:
    written = Writer(state)
    rows: list[tuple[str, str]] = []
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, InitialMatrix):
            continue
        keys = sorted(k for k in (*state.kets, *state.scalars) if k[0] == position)
        if by_names and _is_named(instruction, [state.kets[k] for k in keys if k in state.kets]):
            axes = f"[{', '.join(instruction.axes)}]" if instruction.axes else ""
            hat = "hat of " if isinstance(instruction, MatMul) else ""
            rows.append((f"|{instruction.name}{axes}⟩", f"= {hat}{right_hand_side(program, instruction)[0]}"))
            continue
        some = len(keys) if full else _FAMILY_UP_TO
        for key in keys[:some]:
            if key in state.kets:
                rows.append((f"|{state.label(key)}⟩", f"= {_ket_line(written, state.kets[key])}"))
            else:
                limit = shown(written(state.scalars[key]))
                rows.append((state.label(key), f"→ {formula(limit)}"))
        if len(keys) > some:
            rows.append(("", f"… {len(keys) - some} more entries of {instruction.name}"))
    for pair, value in state.covariances.items():
        if pair[0] == pair[1]:
            rows.append((f"Var {pair[0]}", f"→ {formula(shown(written(value)))}"))
    rows += [(f"  {name}", f"= {formula(value)}") for name, value in written.definitions()]
    if written.left_out:
        rows.append(("", f"… {written.left_out} more constants"))
    return list(table(rows, 0 if by_names else max((len(r[0]) for r in rows), default=0), full))


def _is_named(instruction: Instruction, kets: Sequence[Ket]) -> bool:
    """Whether vectors are what they are made of, with nothing that only their kets say."""
    if isinstance(instruction, MatMul):
        return bool(kets) and all(k.hat == k.expr for k in kets)
    return instruction.width is not None


def _doubts(state: Derivation) -> Iterator[str]:
    doubts = {doubt.name for _, doubt in state.doubts}
    for name in state.doubtful():
        kind = "assumed" if name in state.assumed else "not established" if name in doubts else "left to evaluate()"
        yield f"{kind}: {name}"
