"""Arguments of functions as instructions: φ(σ W x + b) as h = σ W x + b, then φ(h); sums over axes in products too.

A derivative of φ multiplies its argument out, and a sum of nine means is left of one; a product g Σ U ξ is multiplied
out likewise.  Named, the argument or the sum stays one Gaussian variable.

A sum of normal entries is normal, and one variable.  A sum of uniform ones is not: functions of it are means over as
many variables as the axis is long, which have to be told apart, and such sums are written out term by term.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer

from tplimits.program.language.names import free_name
from tplimits.program.network.differentiate import crossed
from tplimits.program.nodes.entries import OWN, ArrayEntry, AxisSum, Entry, GaussMean, axis_symbol, entries, free_axes
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.hidden_jumps import divisors
from tplimits.program.nodes.kinds import InitialVector, Instruction, OuterNonlin, moved
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def with_preactivations(program: Program, infinite: Container[str] = ()) -> Program:
    """The same program with linear arguments of functions as instructions of their own.

    Sums over the axes `infinite` stay where they are: they are finite only together with the power of the size that
    stands beside them.

    >>> import tplimits as tp
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.gelu(tp.sum(U * ξ, over="d"))
    >>> [s.name for s in with_preactivations(shallow)][3:]
    ['return argument', 'return']
    """
    places: dict[int, int] = {}
    instructions: list[Instruction] = []
    known: dict[tuple[Expr, str], int] = {}
    for position, s in enumerate(program):
        s = moved(s, places.__getitem__)
        if isinstance(s, OuterNonlin):
            named = _arguments(s, instructions, infinite)
            if named and s.body.has(*JUMPS):
                named = _where_jumps_stay_crossed(s.body, named)
            for argument in named:
                axes = tuple(a for a in s.axes if axis_symbol(a) in free_axes(argument))
                if (argument, s.over) not in known:
                    known[argument, s.over] = len(instructions)
                    name = free_name(f"{s.name} argument", {other.name for other in (*program, *instructions)})
                    instructions.append(OuterNonlin(name, axes, s.line, body=argument, over=s.over))
            swap = {
                a: Entry(Integer(known[a, s.over]), OWN, *(axis_symbol(x) for x in instructions[known[a, s.over]].axes))
                for a in named
            }
            s = replace(s, body=_with_names(s.body, swap)) if swap else s
        places[position] = len(instructions)
        instructions.append(s)
    return program.rearranged(instructions, places.__getitem__)


def _where_jumps_stay_crossed(body: Expr, arguments: list[Expr]) -> list[Expr]:
    """Without the argument x − c of where(x − c, x, c): beside a name of it nobody sees that this does not jump."""
    unnamed = len(crossed(body))
    kept: dict[Expr, Entry] = {}
    for number, argument in enumerate(arguments, start=1):
        names = {**kept, argument: Entry(Integer(-number), OWN)}
        if len(crossed(_with_names(body, names))) == unnamed:
            kept = names
    return list(kept)


def _with_names(body: Expr, swap: dict[Expr, Entry]) -> Expr:
    """The body with arguments by name, also where a sum has swallowed one: h + relu(h)."""
    for argument, entry in swap.items():
        # of |a − b| SymPy keeps one sign, beside it the other may stand
        body = body.xreplace({argument: entry, sympy.expand(-argument): -entry})
        # SymPy flattens h + relu(h) with h = a + b: the addends of h stand among others and are found one by one
        if isinstance(argument, sympy.Add):
            body = _without_addends(body, argument, entry)
    return body


def _without_addends(expr: Expr, argument: sympy.Add, entry: Entry) -> Expr:
    if not expr.args or isinstance(expr, (Entry, ArrayEntry, GaussMean)):
        return expr
    rebuilt = expr.func(*(_without_addends(a, argument, entry) for a in expr.args))
    if not isinstance(rebuilt, sympy.Add):
        return rebuilt
    # of 2h SymPy keeps 2a + 2b
    number, first = argument.args[-1].as_coeff_Mul()
    for share in (c / number for c, term in (a.as_coeff_Mul() for a in rebuilt.args) if term == first):
        addends = {share * a for a in argument.args}
        if addends <= set(rebuilt.args):
            return sympy.Add(share * entry, *(a for a in rebuilt.args if a not in addends))
    return rebuilt


def _arguments(s: OuterNonlin, before: list[Instruction], infinite: Container[str]) -> list[Expr]:
    """Linear arguments of functions, and linear sums that are multiplied, in a body: longest first, no entries."""
    linear = [a for node in _functions(s.body) for a in node.args if _is_linear(a, before)]
    others = [a for node in _functions(s.body) for a in node.args if not _is_linear(a, before)]
    linear += [a for of in (*others, *_denominators(s.body)) for a in _only_variable(of, before)]
    linear = [a for a in linear if not _is_affine_beside(a, s.body)]
    sums = (a for a in _multiplied_sums(s.body, before) if a.axis not in infinite)
    linear += [a for a in sums if _is_linear(a, before)]
    inside = {axis_symbol(a) for a in s.axes}
    # under a sum over another axis the argument has an index that an instruction here would not have
    kept = [a for a in dict.fromkeys(linear) if set(free_axes(a)) <= inside]
    kept = [a for a in kept if not _is_divided_beside(a, s.body, before)]
    return sorted(kept, key=lambda a: (-a.count_ops(), sympy.default_sort_key(a))) if len(kept) > 1 else kept


def _functions(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, (Entry, ArrayEntry, GaussMean)):
        return
    if isinstance(expr, sympy.Function):
        yield expr
    for argument in expr.args:
        yield from _functions(argument)


def _is_affine_beside(argument: Expr, body: Expr) -> bool:
    """Whether an argument is affine in one entry that stands elsewhere too: x σ(x/10 − 1) has one variable, not two."""
    inside = entries(argument)
    if len(inside) != 1 or not (argument.is_Mul or argument.xreplace({inside[0]: sympy.S.One}).is_number):
        return False
    return inside[0] in entries(body.xreplace({argument: sympy.S.One}))


def _is_divided_beside(argument: Expr, body: Expr, before: list[Instruction]) -> bool:
    """Whether a scalar of an argument is divided by elsewhere: tanh(s x)/s has a limit, s → 0, as one function of s.

    So have sign(s x) sign(s) and s tanh(x/s).  Or the argument is divided by, beside what it is made of:
    (tanh x − tanh y)/(x − y) has none as a function of three variables.
    """
    rest = body.xreplace({argument: sympy.S.One})
    if argument in _denominators(body) and not set(entries(argument)).isdisjoint(entries(rest)):
        return True
    elsewhere = (*divisors(rest), *(f.args[0] for f in found(rest, sympy.sign, sympy.Abs)))
    below = {e for base in elsewhere for e in entries(base)}
    below |= {e for base in divisors(argument) for e in entries(base)}.intersection(entries(rest))
    return any(before[e.source].width is None for e in below.intersection(entries(argument)))


def _denominators(expr: Expr) -> Iterator[Expr]:
    """What stands under a root or in a denominator: what is done to it is a function, no polynomial."""
    if isinstance(expr, (Entry, ArrayEntry, GaussMean)):
        return
    if isinstance(expr, sympy.Pow) and not (expr.exp.is_Integer and expr.exp > 0):
        yield expr.base
        return
    for argument in expr.args:
        yield from _denominators(argument)


def _only_variable(expr: Expr, before: list[Instruction]) -> list[Expr]:
    """The linear sum that an expression is a function of, if it is one of one such sum and of nothing else random."""
    sums = list(dict.fromkeys(_linear_parts(expr, before)))
    return sums if len(sums) == 1 and not _has_vectors(expr.xreplace({sums[0]: sympy.S.One}), before) else []


def _linear_parts(expr: Expr, before: list[Instruction]) -> Iterator[Expr]:
    """The longest linear sums in an expression."""
    if isinstance(expr, (sympy.Add, AxisSum)) and _is_linear(expr, before):
        yield expr
    elif not isinstance(expr, (Entry, ArrayEntry, GaussMean, AxisSum)):
        for argument in expr.args:
            if isinstance(argument, Expr):
                yield from _linear_parts(argument, before)


def _multiplied_sums(expr: Expr, before: list[Instruction]) -> Iterator[AxisSum]:
    """Sums over axes that stand beside another factor with vectors, or under a power."""
    if isinstance(expr, (Entry, ArrayEntry, GaussMean)):
        return
    random = [a for a in expr.args if isinstance(a, Expr) and _has_vectors(a, before)]
    if isinstance(expr, sympy.Pow) or (isinstance(expr, sympy.Mul) and len(random) > 1):
        yield from (a for a in random if isinstance(a, AxisSum))
    for argument in random:
        yield from _multiplied_sums(argument, before)


def _has_vectors(expr: Expr, before: list[Instruction]) -> bool:
    return any(before[e.source].width is not None for e in entries(expr))


def _is_linear(expr: Expr, before: list[Instruction]) -> bool:
    """Whether an expression is a sum of coefficients times vector entries at the own neuron, and of scalars."""
    if isinstance(expr, Entry):
        return False
    vectors = [e for e in entries(expr) if before[e.source].width is not None]
    return _has_vectors(expr, before) and all(e.neuron == OWN for e in vectors) and _degree(expr, set(vectors)) == 1


def _degree(expr: Expr, vectors: set[Expr]) -> float:
    if expr in vectors:
        return 1
    if isinstance(expr, (Entry, ArrayEntry)) or not expr.args:
        return 0
    if isinstance(expr, sympy.Add):
        return max(_degree(a, vectors) for a in expr.args)
    if isinstance(expr, sympy.Mul):
        return sum(_degree(a, vectors) for a in expr.args)
    if isinstance(expr, AxisSum):
        return _degree(expr.summand, vectors)
    return 0 if all(_degree(a, vectors) == 0 for a in expr.args if isinstance(a, Expr)) else float("inf")


#: so long may an axis be
MOST = 12


def written_out(program: Program) -> Program:
    """The same program with such sums term by term, where the size of the axis is known and small."""
    other = {p for p, s in enumerate(program) if isinstance(s, InitialVector) and s.axes and s.law.shape != "normal"}
    if not other:
        return program

    def terms(total: AxisSum) -> Expr:
        size = program.size(total.axis)
        if size is None or size > MOST or not any(e.source in other for e in entries(total.summand)):
            return total
        return sympy.Add(*(total.summand.xreplace({total.bound: Integer(i)}) for i in range(int(size))))

    def body(expr: Expr) -> Expr:
        if not expr.has(AxisSum):
            return expr
        rebuilt = expr.func(*map(body, expr.args))
        return terms(rebuilt) if isinstance(rebuilt, AxisSum) else rebuilt

    return program.changed(body)
