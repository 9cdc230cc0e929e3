"""How functions of scalars of order 1 are told, and the law of the scalars Y that they read, in text and in LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sympy import Expr, Function, Symbol

from tplimits.program.language import render
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, entries
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector
from tplimits.program.nodes.stated import contents
from tplimits.regimes.depth.algebra import writing
from tplimits.regimes.depth.algebra.products import axis_of, free_index
from tplimits.regimes.depth.derivation.scalars.written import read_axes
from tplimits.report import latex_names
from tplimits.report.latex_formulas import Formula, FormulaPrinter, constant

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import IndexTable
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.scalars.limits import Weight
    from tplimits.report.letters import Letters

#: how many tokens a sum of one number runs over
_SIZE = Function("size")
#: Y, Y2, … by the program and the position of the average that they are √n times
Names = Mapping[tuple[str, int], str]


class _Printer(FormulaPrinter):
    """Formulas with sums over tokens."""

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return self.summed(latex_names.name(expr.bound.name), expr.summand)

    def _print_ArrayEntry(self, expr: ArrayEntry) -> str:
        return self.array(expr.array, [latex_names.name(i.name) for i in expr.indices])


def text_lines(limit: BlockLimit, arrays: Letters) -> Iterator[str]:
    """φ as a function of Y, and the law of Y."""
    names = _names(limit, arrays)
    for label, weight in limit.weights.items():
        left = writing.indexed(arrays[label], ", ".join(_axes(weight)))
        shown = render.body_text(
            weight.program, _told(weight, names, arrays, lambda s, at: Symbol(writing.indexed(s, at)))
        )
        yield f"  {left:<9} = {shown}"
    programs = {w.program.name: w.program for w in limit.weights.values()}
    parts = {(w.program.name, p) for w in limit.weights.values() for p in w.parts}
    for (program, position), name in names.items():
        what = _scalar(programs[program], position)
        told = f"{what}, less its mean and the scalars that multiply it" if (program, position) in parts else what
        yield f"  {name:<9} = {told}, Gaussian given {arrays['V']}"
    for first, second, form in _laws(limit, names, arrays):
        pair = ", ".join(writing.indexed(name, "".join(at)) for name, at in (first, second))
        yield f"              Cov({pair}) = {writing.text(form, arrays)}"
    for number, array in _arrays(limit).items():
        yield f"  array{number:<4} = the constant array {contents(array.values)}"


def _arrays(limit: BlockLimit) -> dict[int, IndexTable]:
    """The constant arrays in the functions, by number."""
    known = {e.array: w.program.arrays[e.array] for w in limit.weights.values() for e in w.function.atoms(ArrayEntry)}
    return dict(sorted(known.items()))


def _scalar(program: Program, position: int) -> str:
    """What a weight reads, in words."""
    read = program[position]
    if isinstance(read, InitialMatrix):
        return f"an entry of `{read.name}` times the state"
    if isinstance(read, InitialVector):
        return f"an entry of `{read.name}`"
    return f"√n times {'an average' if read.name.startswith('_') else f'`{read.name}`'}"


def formulas(limit: BlockLimit, arrays: Letters, shown: Callable[[Form], str]) -> Iterator[Formula]:
    """The same in LaTeX, where `shown` writes a form."""
    names = _names(limit, arrays)
    for label, weight in limit.weights.items():
        written: dict[Symbol, str] = {}

        def symbol(name: str, at: str, written: dict[Symbol, str] = written) -> Symbol:
            found = Symbol(f"{name}[{at}]")
            written[found] = _raised(name, at.split(", ") if at else [])
            return found

        told = _told(weight, names, arrays, symbol)
        written |= {s: latex_names.name(s.name.strip("|")) for s in told.free_symbols - set(written)}
        right = _Printer({"symbol_names": written}).doprint(told)
        yield Formula(_raised(arrays[label], _axes(weight)), "=", (right,))
    for first, second, form in _laws(limit, names, arrays):
        pair = ", ".join(_raised(name, at) for name, at in (first, second))
        yield Formula(rf"\operatorname{{Cov}}\left({pair}\right)", "=", (shown(form),))
    for number, array in _arrays(limit).items():
        yield constant(_Printer().array(number, [latex_names.name(a) for a in array.axes]), array.values)


def _names(limit: BlockLimit, arrays: Letters) -> Names:
    read = dict.fromkeys((w.program.name, p) for w in limit.weights.values() for p in w.read if p != w.program.state)
    return dict(zip(read, arrays.numbered("Y"), strict=False))


def _axes(weight: Weight) -> list[str]:
    return list(map(axis_of, weight.axes))


def _told(weight: Weight, names: Names, arrays: Letters, symbol: Callable[[str, str], Symbol]) -> Expr:
    """The function of a weight with Y at its indices in the place of averages."""
    bound = dict.fromkeys(s.bound for s in weight.function.atoms(AxisSum))
    change: dict[Expr, Expr] = {a: Symbol(axis_of(a), integer=True) for a in weight.axes}
    for b in bound:  # key″0 is key′, and one more prime for each further sum over the same axis
        axis = b.name.split("″")[0]
        change[b] = Symbol(axis + "′" * (1 + sum(c.name.startswith(f"{axis}′") for c in change.values())), integer=True)
    plain = weight.function.replace(lambda e: isinstance(e, AxisSum) and not e.summand.has(e.bound), _counted).xreplace(
        change
    )
    swap = {
        e: symbol(names.get((weight.program.name, e.source), arrays["V"]), ", ".join(map(str, e.indices)))
        for e in entries(plain)
    }
    return plain.xreplace(swap)


def _counted(total: AxisSum) -> Expr:
    return total.summand * _SIZE(Symbol(total.axis))


def _laws(
    limit: BlockLimit, names: Names, arrays: Letters
) -> Iterator[tuple[tuple[str, list[str]], tuple[str, list[str]], Form]]:
    """Pairs of Y at letters, and their covariance."""
    programs = {w.program.name: w.program for w in limit.weights.values()}
    for program, law in limit.laws.items():
        for (one, two), form in law.items():
            if one <= two and form:
                sizes = [len(read_axes(programs[program], p)) for p in (one, two)]
                letters = [arrays[writing.FREE.get(free_index(i), f"i{i}")] for i in range(sum(sizes))]
                yield (names[program, one], letters[: sizes[0]]), (names[program, two], letters[sizes[0] :]), form


def _raised(name: str, indices: list[str]) -> str:
    above = r"\,".join(map(latex_names.name, indices))
    return f"{latex_names.name(name)}^{{{above}}}" if above else latex_names.name(name)
