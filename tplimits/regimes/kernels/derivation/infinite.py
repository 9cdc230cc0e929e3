"""Sums over axes of infinitely many independent members: powers of their number are counted.

Σ_{h1,…,hr} f(h1, …, hr) = Σ_partitions |H|(|H| − 1)⋯ E f with the indices of a block equal, others different
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol
from sympy.utilities.iterables import multiset_partitions

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import AxisSum, Kron, N, free_indices, size_symbol, variable
from tplimits.program.nodes.scale import at_infinity, led
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import SECOND, Moment, plain_axis
from tplimits.regimes.kernels.derivation.terms import Term, connected

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.expectations import Expectations


def with_infinite_axes(
    term: Term,
    infinite: frozenset[str],
    expect: Callable[[Sequence[Expr]], Expr],
    shown: Callable[[Expr], str],
) -> Iterator[tuple[Term, Expr]]:
    """The term without its sums over infinite axes, as (term, mean of its factors); `shown` is a mean as text."""
    many = [(i, a) for i, a in term.bounds if plain_axis(a.name) in infinite]
    if not many:
        coefficient, value = term.coefficient, expect(term.factors)
        for size in sizes(coefficient, infinite):
            coefficient = leading(_on_one_side(coefficient, size), size, value, shown)
        yield Term(coefficient, term.bounds, term.factors), value
        return
    if len({plain_axis(a.name) for _, a in many}) > 1:
        raise NoLimitError("sums over two different infinite axes in one product are not offered.")
    axis = plain_axis(many[0][1].name)
    size, rest = size_symbol(axis), tuple(b for b in term.bounds if b not in many)
    indices = [i for i, _ in many]
    # equal indices are one member, different ones independent: each partition has its own mean
    for partition in multiset_partitions(list(range(len(indices)))):
        merge = {indices[j]: indices[block[0]] for block in partition for j in block[1:]}
        factors = tuple(f.xreplace(merge) for f in term.factors)
        value = different(expect(factors), [indices[block[0]] for block in partition])
        coefficient = _on_one_side(term.coefficient, size).xreplace(merge)
        coefficient = different(coefficient, [indices[block[0]] for block in partition])
        if value == 0 or coefficient == 0:
            continue
        # |H|(|H| − 1)⋯ is |H|^blocks to leading order, all that is left of an infinite axis
        yield Term(leading(coefficient * size ** len(partition), size, value, shown), rest, term.factors), value


def members_summed(expr: Expr, infinite: Collection[str]) -> frozenset[str]:
    """The infinite axes that an expression sums over."""
    return frozenset(plain_axis(x.axis) for x in found(expr, AxisSum)).intersection(infinite)


def unfinished(expr: Expr, infinite: Collection[str]) -> list[Symbol]:
    """The sizes of infinite axes whose sums are finite only together with a power that stands where they are read."""
    alone = (size_symbol(axis) for axis in sorted(members_summed(expr, infinite)))
    return [*(size for size in alone if size not in expr.free_symbols), *grown(expr, infinite)]


def grown(expr: Expr, infinite: Collection[str]) -> list[Symbol]:
    """The sizes of infinite axes that stand with a positive power in an expression."""
    if not (known := sizes(expr, infinite)):
        return []
    fallen = {p for p in found(expr, sympy.Pow) if p.base in known and p.exp.is_negative}
    left = expr.xreplace(dict.fromkeys(fallen, S.One))
    return [size for size in known if size in left.free_symbols]


def counted(expr: Expr, infinite: Collection[str]) -> Expr:
    """Sums over infinite axes of what is the same for every member as their number times that."""
    sums = [x for x in found(expr, AxisSum) if plain_axis(x.axis) in infinite] if infinite else []
    same = [x for x in sums if x.bound not in free_indices(x.summand)]
    return expr.xreplace({x: size_symbol(plain_axis(x.axis)) * counted(x.summand, infinite) for x in same})


def sizes(expr: Expr, infinite: Collection[str]) -> list[Symbol]:
    """The sizes of infinite axes in an expression."""
    if not infinite:
        return []
    names = {s.name.strip("|") for s in expr.free_symbols if s.name.startswith("|")}
    return [size_symbol(axis) for axis in sorted({plain_axis(name) for name in names}.intersection(infinite))]


def _on_one_side(coefficient: Expr, size: Symbol) -> Expr:
    """The size of an infinite axis is one for both inputs."""
    return coefficient.xreplace({size_symbol(size.name.strip("|") + SECOND): size})


def different(expr: Expr, indices: Sequence[Symbol]) -> Expr:
    """Members with different indices are different."""
    swap = {k: S.Zero for k in expr.atoms(Kron) if k.args[0] != k.args[1] and set(k.args) <= set(indices)}
    if not swap:
        return expr
    found = expr.xreplace(swap)
    return found.xreplace({moment: independent(moment) for moment in found.atoms(Moment)})


def independent(moment: Moment) -> Expr:
    """A mean of a product as a product of means, where covariances vanish.

    >>> z1, z2 = sympy.symbols("z1 z2", real=True)
    >>> independent(Moment(sympy.sin(z1) * sympy.cos(z2), (z1, z2), (S(1), S(0), S(1))))
    0
    """
    law = dict(zip(itertools.combinations_with_replacement(moment.variables, 2), moment.covariances, strict=True))
    law |= {(b, a): c for (a, b), c in law.items()}
    groups = connected(list(sympy.Mul.make_args(moment.integrand)), law)
    if len(groups) < 2 or moment.parameters:
        return moment
    result = S.One
    for factors, used in groups:
        names = {z: variable(f"z{i}") for i, z in enumerate(used, start=1)}
        integrand = sympy.Mul(*factors)
        if integrand.xreplace({z: -z for z in used}) == -integrand:
            return S.Zero
        pairs = itertools.combinations_with_replacement(used, 2)
        result *= Moment(integrand.xreplace(names), tuple(names.values()), tuple(law[p] for p in pairs))
    return result


def at_many(expr: Expr, size: Symbol) -> Expr:
    """An expression at infinitely many members; ValueError, with the term, where it grows with their number.

    >>> H = size_symbol("head")
    >>> at_many(H * (1 / sympy.sqrt(H) + 2 / H) ** 2, H)
    1
    """
    width = sympy.Dummy(positive=True)
    return at_infinity(expr.xreplace({N: width, size: N})).xreplace({width: N})


def leading(coefficient: Expr, size: Symbol, value: Expr, shown: Callable[[Expr], str]) -> Expr:
    """The limit of the coefficient of a mean as the size goes to infinity."""
    try:
        return at_many(coefficient, size)
    except ValueError:
        power = led(coefficient.xreplace({size: N}))
    if power is None:
        raise NoLimitError(f"the power of {size} in {shown(coefficient)} is not clear.")
    axis, grown = size.name.strip("|"), str(size ** power[0]).replace("**", "^")
    # a mean that is 0 at its own order may have been more at lower ones
    times = f"times {shown(value):.120}" if value != 0 else "times a mean that vanishes only to leading order"
    raise NoLimitError(
        f"a sum over infinitely many members of `{axis}` grows like {grown} {times}; divide by "
        f"tp.sqrt(tp.size({axis!r})) for independent members, by tp.size for averages."
    )


def is_of_members(state: Expectations, expr: Expr) -> bool:
    """Whether an expression reads draws of infinite families alone: its members are independent."""
    return drawn_by_members(state, expr) == {True}


def drawn_by_members(state: Expectations, expr: Expr) -> set[bool]:
    """Whether draws that an expression reads are those of infinite families, for all of them."""
    sources = {x for leaf in state.leaves(expr) for x in state.nodes[leaf.node].sources}
    return {kind == "√n" or not state.infinite.isdisjoint(state.program[p].axes) for kind, p, _ in sources}


def limit_of_sum(state: Expectations, term: Term, index: Symbol, centred: bool = False) -> Term | None:
    """A term without its sum over the members `index` of an infinite family; None where it is not `centred`."""
    axis = next(plain_axis(a.name) for i, a in term.bounds if i == index)
    members = [f for f in term.factors if index in free_indices(f)]
    size, member, bounds = size_symbol(axis), sympy.Mul(*members), tuple(b for b in term.bounds if b[0] != index)
    # sums inside of a member, and members of two sums that stand in one function, are no sums of independent ones
    known = index not in free_indices(term.coefficient) and is_of_members(state, member)
    known = known and not any(i in free_indices(member) for i, _ in bounds)
    mean = state.expect(members) if known else S.NaN
    if centred and mean != 0:
        return None
    if mean is S.NaN or (mean == 0 and all(kind == "√n" for kind in _kinds(state, member))):
        raise NoLimitError(
            f"functions of the sum of {state.shown(member):.120} over infinitely many members of `{axis}` are not "
            "offered: these share what they are made of, or are scalars, whose sum stays random. Put a matrix of each "
            "member between, and leave what is shared outside of the sum."
        )
    outside = tuple(f for f in term.factors if f not in members)
    if mean != 0:
        return Term(term.coefficient * size * mean, bounds, outside)
    side = int(next(iter(state.leaves(member))).side)
    total = AxisSum(state.form(member, side, False), index, Symbol(axis)) / sympy.sqrt(size)
    return Term(term.coefficient * sympy.sqrt(size), bounds, (*outside, state.form(total, side)))


def _kinds(state: Expectations, expr: Expr) -> set[str]:
    return {kind for leaf in state.leaves(expr) for kind, *_ in state.nodes[leaf.node].sources}
