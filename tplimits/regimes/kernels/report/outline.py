"""The recursion of a kernel limit as a report shows it: equations, repeated layers once, means by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Function, Symbol

from tplimits.program.nodes.entries import AxisSum, Entry, axis_symbol, is_index, size_symbol
from tplimits.regimes.kernels.derivation.closing import MeanFunction, mean_function
from tplimits.regimes.kernels.derivation.leaves import (
    SECOND,
    Data,
    Datum,
    DrawMean,
    Moment,
    Of,
    TableEntry,
    plain_axis,
    second,
    side_of,
)
from tplimits.regimes.kernels.report.labels import Title, Titles
from tplimits.regimes.kernels.report.mean_names import NamedMean, function_name, named_mean, of_user
from tplimits.regimes.kernels.report.repetition import Repetitions, Run
from tplimits.regimes.kernels.report.softmaxes import Softmax, with_softmax
from tplimits.report.letters import Letters

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.derivation.nodes import KernelTable

_FREE, _BOUND = "abcefgh", "ijklmpqrs"


@dataclass(frozen=True)
class Equation:
    """Title(inputs)[indices] = right; `inputs` 1 or 2, `nodes` those whose bracket or mean it is."""

    title: Title
    inputs: int
    indices: tuple[Symbol, ...]
    right: Expr
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layers:
    """Equations for layers ℓ = first … last, with what stands for the layer before."""

    first: int
    last: int
    before: tuple[tuple[Title, Title], ...]
    equations: tuple[Equation, ...]


@dataclass(frozen=True)
class Logit:
    """A vector of random logits: centred Gaussian with a covariance."""

    name: str
    indices: tuple[Symbol, ...]
    covariance: Expr


def _unused(letters: str, more: str, taken: Iterable[str]) -> Iterator[str]:
    """Letters, and numbered ones behind them, but for those that are taken."""
    return Letters(taken).unused(itertools.chain(letters, (f"{more}{i}" for i in itertools.count(1))))


def index_letters(axes: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """A letter for the index of each finite axis, none of them the name of another thing.

    >>> index_letters(("token", "b"), "a")
    {'token': 'c', 'b': 'e'}
    """
    axes = tuple(axes)
    free = _unused(_FREE, "a", (*others, *axes))
    return {axis: next(free) for axis in axes}


class Outline:
    """Everything a report of a kernel limit shows, in order."""

    def __init__(self, derivation: KernelTables) -> None:
        self.derivation = derivation
        self.repetitions = Repetitions(derivation.tables, derivation.needed)
        self.titles = Titles(derivation, self.repetitions)
        self.means: dict[MeanFunction, str] = {}
        self._integrands: dict[MeanFunction, Expr] = {}
        inputs = [derivation.network[p].name for p in derivation.network.inputs]
        self.input = inputs[0] if len(inputs) == 1 else "ξ"
        axes = dict.fromkeys(a for t in derivation.tables for a in (*t.left, *t.right)) | dict.fromkeys(derivation.axes)
        others = (*derivation.network.constants, *inputs)  # what else stands in formulas by its name
        self.letters = index_letters(axes, others)
        self._bound = tuple(itertools.islice(_unused(_BOUND, "i", others), len(_BOUND)))

    @cached_property
    def items(self) -> tuple[Equation | Layers, ...]:
        """Tables in order of evaluation, then the two kernels; the NNGP alone where the tangent kernel has no limit."""
        found: list[Equation | Layers] = []
        layers = {t: run for run in reversed(self.repetitions.runs) for t in run.places()}
        done: set[int] = set()
        final = self._written_last(layers)
        for table in self.derivation.needed:
            run = layers.get(table.number)
            if run is None:
                if table.number not in final:
                    found.append(self.equation(table))
            elif run.number not in done and table.number in _own(run, layers):
                done.add(run.number)
                found.append(self._layers(run))
        kernels = ("K",) if self.derivation.no_ntk else ("K", "Θ")
        return (*found, *(self._kernel(kind, final) for kind in kernels))

    def _written_last(self, layers: dict[int, Run]) -> set[int]:
        """Tables that are one of the two kernels and nothing else."""
        kernels = (self.derivation.nngp, self.derivation.ntk)
        ends = {k.table for k in kernels if isinstance(k, TableEntry)}
        readers = [
            *(t.definition for t in self.derivation.needed),
            *(k for k in kernels if not isinstance(k, TableEntry)),
        ]
        used = [e.table for reader in readers for e in reader.atoms(TableEntry)]
        both = self.derivation.nngp == self.derivation.ntk
        return set() if both else {t for t in ends if t not in used and t not in layers}

    def equation(self, table: KernelTable) -> Equation:
        """The definition of one table."""
        return self._equation(self.titles[table.number], table, table.definition)

    def _equation(self, title: Title, table: KernelTable, definition: Expr) -> Equation:
        places = (*map(axis_symbol, table.left), *(second(axis_symbol(a)) for a in table.right))
        return Equation(
            title, 1 if table.single else 2, tuple(map(self._index, places)), self.displayed(definition), table.nodes
        )

    def is_single(self, number: int) -> bool:
        """Whether a table, or the tables that a mark stands for, are of one input."""
        mark = self.repetitions.marks.get(number)
        if mark is not None:
            number = self.repetitions.runs[mark.run].layers[-1][mark.slot]
        return self.derivation.tables[number].single

    def _layers(self, run: Run) -> Layers:
        tables = [self.derivation.tables[t] for t in run.layers[-1]]
        rows = [
            self._equation(self.titles.of_slot(run.number, k), table, pattern)
            for k, (table, pattern) in enumerate(zip(tables, run.pattern, strict=True))
        ]
        starts = [
            (self.titles.of_slot(run.number, k, str(run.first - 1)), self.titles[t]) for k, t in run.before.items()
        ]
        return Layers(run.first, run.last, tuple(s for s in starts if s[0] != s[1]), tuple(rows))

    def _kernel(self, kind: str, final: set[int]) -> Equation:
        value = self.derivation.nngp if kind == "K" else self.derivation.ntk
        axes = self.derivation.axes
        places = tuple(map(self._index, (*map(axis_symbol, axes), *(second(axis_symbol(a)) for a in axes))))
        if isinstance(value, TableEntry) and value.table in final:
            value = self.derivation.tables[value.table].definition
        return Equation(Title(kind, ""), 2, places, self.displayed(value))

    @cached_property
    def logits(self) -> tuple[Logit, ...]:
        """The random logits that draws are made of."""
        state = self.derivation.recursion
        draws = {d for t in self.derivation.needed for d in t.definition.atoms(DrawMean)}
        nodes = sorted({leaf.node for d in draws for leaf in d.product.atoms(Of)})
        found = []
        for p in nodes:
            axes = [a for a in state.nodes[p].axes if a not in self.derivation.infinite]
            places = (*map(axis_symbol, axes), *(second(axis_symbol(a)) for a in axes))
            merged = {second(axis_symbol(a)): axis_symbol(a) for a in self.derivation.infinite}
            value = state.table(p, p).xreplace(merged)
            late = [e for e in value.atoms(TableEntry) if e.table >= len(self.derivation.tables)]
            covariance = self.displayed(value.xreplace({e: state.tables[e.table].definition for e in late}))
            found.append(Logit(self.titles.labels.of_node(p), tuple(map(self._index, places)), covariance))
        return tuple(found)

    def _index(self, index: Expr) -> Symbol:
        name = str(index)
        axis = plain_axis(name)
        return axis_symbol(self.letters.get(axis, axis) + ("′" if side_of(name) == 2 else ""))

    def displayed(self, expr: Expr) -> Expr:
        """A definition with letters for indices and names for means."""
        expr = self._lettered(expr.xreplace(self._all_named(expr)), {}, (0, 0))
        sizes = {
            s: size_symbol(s.name[1:-1].replace(SECOND, "′")) for s in expr.atoms(Symbol) if s.name.startswith("|")
        }
        return with_softmax(expr.xreplace(sizes))

    def _all_named(self, expr: Expr) -> dict[Expr, Expr]:
        """Names for the means of an expression, in the order in which they stand there."""
        return {m: self._named(m) for m in sympy.preorder_traversal(expr) if isinstance(m, Moment)}

    def _named(self, moment: Moment) -> Expr:
        function, arguments = mean_function(moment)
        if function not in self.means:
            self.means[function] = self._mean_name(function)
        inner = [a.xreplace(self._all_named(a)) for a in arguments]
        return Function(self.means[function], real=True)(*inner)

    def _lettered(self, expr: Expr, bound: dict[Expr, Expr], depths: tuple[int, int]) -> Expr:
        if is_index(expr):
            return bound.get(expr) or self._index(expr)
        if isinstance(expr, AxisSum):
            side = side_of(str(expr.args[2]))
            letter = axis_symbol(self._bound[depths[side - 1] % len(_BOUND)] + ("′" if side == 2 else ""))
            inside = (depths[0] + (side == 1), depths[1] + (side == 2))
            summand = self._lettered(expr.summand, bound | {expr.bound: letter}, inside)
            return AxisSum(summand, letter, Symbol(expr.axis.replace(SECOND, "′")))
        if not expr.args or (not expr.free_symbols and not expr.has(AxisSum, TableEntry, Of, Entry)):
            return expr
        if isinstance(expr, Of):
            infinite = self.derivation.infinite
            axes = self.derivation.recursion.nodes[expr.node].axes
            kept = [i for a, i in zip(axes, expr.indices, strict=True) if a not in infinite]
            return Of(*expr.args[:2], *(self._lettered(i, bound, depths) for i in kept))
        return expr.func(*(self._lettered(a, bound, depths) for a in expr.args))

    @cached_property
    def _heads(self) -> list[type]:
        bodies = (getattr(s, "body", None) for s in self.derivation.network)
        heads = {f.func for b in bodies if b is not None for f in b.atoms(Function) if len(f.args) == 1}
        return sorted(heads - {AxisSum}, key=lambda f: f.__name__)

    def _mean_name(self, function: MeanFunction) -> str:
        own = of_user(self.derivation.network.functions, function)
        if own is not None and own[0] not in self.means.values():
            self._integrands[function] = own[1]
            return own[0]
        pieces = sympy.Mul.make_args(function.integrand)
        names = {function_name(self._heads, p) for p in pieces}
        taken = set(self.means.values())
        if len(names) == 1 and None not in names and len(pieces) == len(function.variables) <= 2:
            letter = "κ" if len(pieces) == 2 else "μ"
            name = f"{letter}_{names.pop()}"
            if name not in taken:
                return name
        return next(name for i in range(1, 10**6) if (name := f"φ{i}") not in taken)

    @property
    def functions(self) -> Iterator[tuple[str, Symbol, Expr]]:
        """The functions that the user named, as far as they stand in the means: name, argument, body."""
        _ = self.named_means
        heads = {f.func.__name__.rstrip("′") for e in self._integrands.values() for f in e.atoms(Function)}
        for name, (slot, body) in self.derivation.network.functions.items():
            if name in heads:
                x = Symbol("x", real=True)
                yield name, x, body.xreplace({slot: x})

    @cached_property
    def named_means(self) -> tuple[NamedMean, ...]:
        """The means that the equations refer to."""
        _ = self.items, self.logits
        found = (named_mean(name, f) for f, name in self.means.items())
        return tuple(replace(m, integrand=self._integrands.get(m.function, m.function.integrand)) for m in found)

    def legend(self) -> list[int]:
        """The anonymous instructions whose names are shown."""
        return self.titles.labels.legend([e.title.vectors for e in self.equations()] + [x.name for x in self.logits])

    @property
    def has_softmax(self) -> bool:
        """Whether one stands in the formulas, which then say what it is."""
        return any(e.right.has(Softmax) for e in self.equations())

    def equations(self) -> Iterator[Equation]:
        """All of them in order, those of repeated layers once."""
        for item in self.items:
            yield from item.equations if isinstance(item, Layers) else [item]

    def rows_used(self) -> Sequence[str]:
        """Rows of the table of closed forms behind the named means."""
        return list(dict.fromkeys(r for m in self.named_means for r in m.rows))


class Named:
    """Entries of tables, vectors and data in the names of the program: the same in every printer of an outline.

    A printer gives `title` of a table, `ket` of a vector's name, `at` for a quantity at inputs and indices, and writes
    data.
    """

    _outline: Outline
    title: Callable[[Title], str]
    ket: Callable[[str], str]
    at: Callable[[str, tuple[int, ...], tuple[Expr, ...]], str]
    _print_Data: Callable[[Data | Datum], str]

    def _print_TableEntry(self, expr: TableEntry) -> str:
        sides = expr.sides[:1] if self._outline.is_single(expr.table) else expr.sides
        return self.at(self.title(self._outline.titles[expr.table]), sides, expr.indices)

    def _of(self, node: int, expr: Of | Data) -> str:
        return self.at(self.ket(self._outline.titles.labels.of_node(node)), (expr.side,), expr.indices)

    def _print_Of(self, expr: Of) -> str:
        return self._of(expr.node, expr)

    def _print_Given(self, expr: Data) -> str:
        return self._of(expr.source, expr)

    def _print_Datum(self, expr: Datum) -> str:
        return self._print_Data(expr)


def _own(run: Run, layers: dict[int, Run]) -> set[int]:
    return {t for layer in run.layers for t in layer if layers.get(t) is run}
