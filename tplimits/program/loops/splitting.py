"""A program in small steps: every sum over a finite axis and every function is an instruction of its own.

What several bodies need is then computed once, at the axes that it depends on and no more, and the chain rule finds
forward values where it needs them.  A factor that does not depend on the index of a sum is taken out of it, and a sum
of terms that depend on less each than together, Σ_d E_vd (ξ_sd + u_dn g_sn) = Σ_d E_vd ξ_sd + g_sn Σ_d E_vd u_dn, is a
sum of sums.

e^a/Σ e^a along finite axes becomes y/Σ y with y = e^(a − m), which does not overflow: m is the maximum of a, an
instruction of data as far as the program knows, and filled by whoever runs it.  The quotient does not depend on m, so
that gradients, which take m for a constant, are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.network.growing import Growing
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    DataIndex,
    Entry,
    GaussMean,
    Kron,
    axis_symbol,
    entries,
    free_axes,
    reads_vectors,
)
from tplimits.program.nodes.kinds import InitialScalar, Instruction, Line, Nonlin, OuterNonlin, moved

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


_LEAVES = (Entry, ArrayEntry, GaussMean, DataIndex, Kron)
#: stands for the input among what an expression depends on
_INPUT = Symbol("input")


@dataclass(frozen=True)
class Split:
    """A program in small steps; `places` are the new positions of its instructions.

    `maxima` gives, for the instruction of each maximum, the body and the axes that it is taken over.
    """

    program: Program
    places: tuple[int, ...]
    maxima: Mapping[int, tuple[Expr, tuple[tuple[Symbol, str], ...]]] = field(hash=False)


def split(program: Program) -> Split:
    """A program in small steps.

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.tanh(tp.sum(U * ξ, over="d"))
    >>> [str(s.body) for s in split(net).program if hasattr(s, "body")]
    ['AxisSum(Entry(0, ·, d′1)*Entry(1, α, d′1), d′1, d)', 'tanh(Entry(3, α))', 'Entry(2, α)*Entry(4, α)']
    """
    return _Splitting(program).split()


class _Splitting:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.growing = Growing(program.replace(instructions=(), names={}, returns=(), inputs=()))
        self.places: list[int] = []
        self.maxima: dict[int, tuple[Expr, tuple[tuple[Symbol, str], ...]]] = {}
        self.known: dict[tuple[Expr, tuple[str, ...], str | None], int] = {}
        self.alike: dict[str, list[str]] = {}
        self.running: dict[Symbol, str] = {}
        self.widths: dict[Expr, str] = {}
        self.hint = ""
        self._dependent: dict[int, bool] = {}

    def split(self) -> Split:
        for s in self.program:
            self.places.append(self._instruction(s))
        data = (*(self.places[p] for p in self.program.inputs), *self.maxima)
        self.growing.program = self.growing.program.replace(
            returns=tuple(self.places[p] for p in self.program.returns),
            arguments=(*(self.places[p] for p in self.program.arguments), *self.maxima),
            inputs=data,
        )
        self.growing.names |= {name: self.places[p] for name, p in self.program.names.items()}
        return Split(self.growing.finished(), tuple(self.places), self.maxima)

    def _add(self, s: Instruction) -> int:
        self.growing.instructions.append(s)
        return len(self.growing.instructions) - 1

    def _instruction(self, s: Instruction) -> int:
        self.hint = s.name
        s = moved(s, self.places.__getitem__)
        if not isinstance(s, Nonlin):
            return self._add(s)
        self.running = {axis_symbol(a): a for a in s.axes}
        self.widths = (
            {OWN: s.over, **dict(zip(s.slots, s.slot_widths, strict=True))} if isinstance(s, OuterNonlin) else {}
        )
        body = self._whole(s.body)
        if isinstance(s, OuterNonlin) and s.slots:
            return self._add(replace(s, body=body))
        key = (body, s.axes, s.width)
        position = self._add(replace(s, body=body))
        self.known.setdefault(key, position)
        return position

    def _whole(self, body: Expr) -> Expr:
        """A body whose parts are instructions, itself left as it is."""
        if isinstance(body, AxisSum):
            return self._sum(body)
        return self._rebuilt(body)

    def _parts(self, expr: Expr) -> Expr:
        """An expression with all that is worth it as entries of instructions."""
        if not expr.args or isinstance(expr, _LEAVES):
            return expr
        return self._stepwise(self._sum(expr) if isinstance(expr, AxisSum) else self._rebuilt(expr))

    def _stepwise(self, rebuilt: Expr) -> Expr:
        """An expression, or the factors of one, as entries where they are worth it."""
        if isinstance(rebuilt, sympy.Mul):  # a factor that was taken out of a sum
            return rebuilt.func(*(self._value(a) if _is_step(a) else a for a in rebuilt.args))
        return self._value(rebuilt) if _is_step(rebuilt) else rebuilt

    def _rebuilt(self, expr: Expr) -> Expr:
        if not expr.args or isinstance(expr, _LEAVES):
            return expr
        if isinstance(expr, sympy.Mul):
            expr = self._quotients(expr)
        if isinstance(expr, sympy.Function):
            return expr.func(*map(self._argument, expr.args))
        return expr.func(*map(self._parts, expr.args)) if expr.args else expr

    def _argument(self, expr: Expr) -> Expr:
        """What a function is applied to: a sum of entries is an instruction, whose gradient all of them share."""
        if not isinstance(expr, sympy.Add) or sum(a.has(Entry) for a in expr.args) < 2:
            return self._parts(expr)
        terms = [self._sum(a) if isinstance(a, AxisSum) else self._parts(a) for a in expr.args]
        return self._value(sympy.Add(*terms))

    def _sum(self, total: AxisSum) -> Expr:
        """A sum without the factors that do not depend on its index, or several."""
        self.running[total.bound] = total.axis
        summand = self._rebuilt(total.summand) if not isinstance(total.summand, AxisSum) else self._parts(total.summand)
        terms = self._apart(summand, total.bound)
        if len(terms) == 1:
            return self._factored(summand, total)
        found = [self._factored(term, total) for term in terms]
        return sympy.Add(*(self._stepwise(term) for term in found))

    def _factored(self, summand: Expr, total: AxisSum) -> Expr:
        """The sum of one summand, the factors that do not depend on the index before it."""
        outside, inside = _parted(summand, total.bound)
        if not inside:
            return sympy.Mul(*outside, self.growing.size(total.axis))
        return sympy.Mul(*outside, AxisSum(sympy.Mul(*inside), total.bound, Symbol(total.axis)))

    def _apart(self, summand: Expr, bound: Symbol) -> list[Expr]:
        """The terms of a summand where each of their sums depends on less than the whole; itself where one does not.

        Terms that depend on different things do not cancel everywhere, so that no more digits are lost than in each.
        """
        factors = sympy.Mul.make_args(summand)
        sums = [f for f in factors if isinstance(f, sympy.Add) and bound in free_axes(f)]
        if len(sums) != 1:
            return [summand]
        rest = sympy.Mul(*(f for f in factors if f is not sums[0]))
        whole = self._depends(summand) - {bound}
        terms = [rest * term for term in sums[0].args]
        inner = [sympy.Mul(*_parted(term, bound)[1]) for term in terms]
        return terms if all(self._depends(term) - {bound} < whole for term in inner) else [summand]

    def _depends(self, expr: Expr) -> frozenset[Expr]:
        """The running indices, neurons and, as a symbol of its own, the input that an expression depends on."""
        found: set[Expr] = {*free_axes(expr), *(e.neuron for e in entries(expr))} - {NO_NEURON}
        on_data = any(self._on_data(e.source) for e in entries(expr)) or expr.has(DataIndex)
        return frozenset({*found, _INPUT} if on_data else found)

    def _on_data(self, position: int) -> bool:
        """Whether an instruction of the new program depends on the input."""
        if position not in self._dependent:
            inputs = {*(self.places[p] for p in self.program.inputs if p < len(self.places)), *self.maxima}
            own = position in inputs
            self._dependent[position] = own or any(map(self._on_data, self.growing.instructions[position].operands))
        return self._dependent[position]

    def _value(self, expr: Expr) -> Expr:
        """An expression as an entry of an instruction; as it is where it depends on two neurons."""
        neurons = {e.neuron for e in entries(expr)} - {NO_NEURON}
        if len(neurons) > 1 or not expr.has(Entry, ArrayEntry, Kron):
            return expr
        symbols = free_axes(expr)
        axes = self._axes(symbols)
        swap: dict[Expr, Expr] = {s: axis_symbol(a) for s, a in zip(symbols, axes, strict=True)}
        neuron = next(iter(neurons), NO_NEURON)
        width = self.widths[neuron] if neurons else None
        if neurons:
            swap[neuron] = OWN
        body = canonical_bound_axes(expr.xreplace(swap))
        position = self.known.get((body, axes, width))
        if position is None:
            position = self.growing.body(body, axes, width, self._line(), f"{self.hint} part").source
            self.known[body, axes, width] = position
        return Entry(sympy.Integer(position), neuron, *symbols)

    def _line(self) -> Line:
        return self.program[len(self.places)].line

    def _axes(self, symbols: tuple[Symbol, ...]) -> tuple[str, ...]:
        """Different axes for running indices; those that run over one axis get others as long as it."""
        used: list[str] = []
        for symbol in symbols:
            axis = self.running[symbol]
            alike = self.alike.setdefault(axis, [axis])
            free = [a for a in alike if a not in used]
            if not free:
                alike.append(self.growing.axis_like(axis, f"{axis}_too"))
                free = alike[-1:]
            used.append(free[0])
        return tuple(used)

    def _quotients(self, product: Expr) -> Expr:
        """A product with every e^a/Σ e^a made of e^(a − m), m the maximum of a over the sum."""
        factors = list(product.args)
        for total in [f for f in factors if f.is_Pow and f.exp == -1 and isinstance(f.base, AxisSum)]:
            for weight in [f for f in factors if isinstance(f, sympy.exp)]:
                found = self._quotient(weight.exp, total.base)
                if found is not None:
                    factors = [f for f in factors if f not in (weight, total)] + [found]
                    break
        return sympy.Mul(*factors)

    def _quotient(self, argument: Expr, total: Expr) -> Expr | None:
        """e^argument/total with the maximum subtracted; None if total is no sum of this over finite axes."""
        bound: list[tuple[Symbol, str]] = []
        while isinstance(total, AxisSum):
            bound.append((total.bound, total.axis))
            total = total.summand
        if not isinstance(total, sympy.exp) or reads_vectors(argument):
            return None
        self.running |= dict(bound)
        inside, own = self._entry(total.exp), self._entry(argument)
        # the same function at another index: only then is the quotient one of a softmax
        if inside is None or own is None or inside.source != own.source:
            return None
        largest = self._largest(inside, tuple(bound))
        summed: Expr = self._value(sympy.exp(inside - largest))
        for index, axis in bound:
            summed = AxisSum(summed, index, Symbol(axis))
        return self._value(sympy.exp(own - largest)) * self._value(1 / self._parts(summed))

    def _entry(self, expr: Expr) -> Entry | None:
        """An expression as an entry of an instruction of its own."""
        found = self._parts(expr)
        found = found if isinstance(found, Entry) else self._value(found)
        return found if isinstance(found, Entry) else None

    def _largest(self, inside: Entry, bound: tuple[tuple[Symbol, str], ...]) -> Entry:
        """The maximum of an entry over some of its indices, as data."""
        free = tuple(s for s in free_axes(inside) if s not in dict(bound))
        axes = self._axes(free)
        swap = {s: axis_symbol(a) for s, a in zip(free, axes, strict=True)}
        asked = (inside.xreplace(swap), bound)
        for position, held in self.maxima.items():
            if held == asked:
                return Entry(sympy.Integer(position), NO_NEURON, *free)
        position = self._add(InitialScalar(f"max {self.hint} {len(self.maxima) + 1}", axes, self._line()))
        self.maxima[position] = asked
        return Entry(sympy.Integer(position), NO_NEURON, *free)


def _parted(summand: Expr, bound: Symbol) -> tuple[list[Expr], list[Expr]]:
    """The factors that do not depend on an index, and those that do."""
    outside, inside = list[Expr](), list[Expr]()
    for factor in sympy.Mul.make_args(summand):
        (inside if bound in free_axes(factor) else outside).append(factor)
    return outside, inside


def _is_step(expr: Expr) -> bool:
    """Whether an expression is worth an instruction: a sum, a function, a root or a quotient."""
    if isinstance(expr, (AxisSum, sympy.Function)):
        return not isinstance(expr, GaussMean)
    return bool(expr.is_Pow and not (expr.exp.is_Integer and expr.exp.is_positive))
