"""Names of the indices that sums over finite axes bind: none may be what another index is called where it is put."""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import AxisSum, bound_axis_symbol, free_indices
from tplimits.program.parts import found


def canonical_bound_axes(expr: Expr) -> Expr:
    """The expression with its bound indices named by nesting depth, so that equal sums are equal.

    >>> from tplimits.program.nodes.entries import axis_symbol
    >>> i, j = axis_symbol("i′1"), axis_symbol("i′4")
    >>> f = sympy.Function("f")
    >>> canonical_bound_axes(AxisSum(AxisSum(f(j, i), j, Symbol("i")), i, Symbol("i")))
    AxisSum(AxisSum(f(i′1, i′2), i′1, i), i′2, i)
    """

    def walk(node: Expr) -> tuple[Expr, int]:
        if not node.args or not node.has(AxisSum):
            return node, 0
        # inside out: a bound index takes its number from the sums below it, whatever stands around
        parts = [walk(a) for a in node.args]
        depth = max(d for _, d in parts)
        changed = any(a is not b for (a, _), b in zip(parts, node.args, strict=True))
        rebuilt = node.func(*(a for a, _ in parts)) if changed else node
        if isinstance(rebuilt, AxisSum):
            depth += 1
            # an index of this name that is not bound here is another one
            while (bound := bound_axis_symbol(rebuilt.axis, depth)) in free_indices(rebuilt):
                depth += 1
            if bound == rebuilt.bound:
                return rebuilt, depth
            summand = rebuilt.summand.xreplace({rebuilt.bound: bound})
            return AxisSum(summand, bound, rebuilt.args[2]), depth
        return rebuilt, depth

    # in a sum that holds another one the name of one index may be what the other is called now
    return walk(with_bound_axes(expr, _own) if _is_nested(expr) else expr)[0]


def _is_nested(expr: Expr) -> bool:
    return any(total.summand.has(AxisSum) for total in found(expr, AxisSum))


def with_bound_axes(expr: Expr, named: Callable[[Symbol], Symbol]) -> Expr:
    """The expression with the name that is `named` for every bound index, inside out."""
    if not expr.args or not expr.has(AxisSum):
        return expr
    rebuilt = expr.func(*(with_bound_axes(a, named) for a in expr.args))
    if not isinstance(rebuilt, AxisSum):
        return rebuilt
    new = named(rebuilt.bound)
    return AxisSum(rebuilt.summand.xreplace({rebuilt.bound: new}), new, rebuilt.args[2])


def _own(index: Symbol) -> Symbol:
    return sympy.Dummy(index.name, integer=True, nonnegative=True)
