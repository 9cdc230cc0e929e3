"""Partial derivatives of a body with respect to the entries it reads.

An entry inside a sum over a finite axis is a family of variables, one for each index of the sum: its derivative
carries that index as a free one.

>>> from tplimits.program.nodes.entries import NO_NEURON, axis_symbol
>>> i, j = axis_symbol("i′1"), axis_symbol("i")
>>> c = lambda index: Entry(sympy.Integer(0), NO_NEURON, index)
>>> weights = sympy.exp(c(j)) / AxisSum(sympy.exp(c(i)), i, Symbol("i"))
>>> for partial in partials(weights, lambda axis: axis_symbol(f"{axis}′7")):
...     print(partial.entry, partial.bound)
Entry(0, ·, i′7) ((i′7, 'i'),)
Entry(0, ·, i) ()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import sympy
from sympy import DiracDelta, Dummy, Expr, Function, Symbol

from tplimits.program.nodes.entries import AxisSum, Entry, GaussMean
from tplimits.program.nodes.functions import JUMPS, relu, step, where
from tplimits.program.nodes.hidden_jumps import derivative, hidden_delta, hidden_jumps

Fresh = Callable[[str], Symbol]


@dataclass(frozen=True)
class Partial:
    """∂body/∂entry = `value`; `bound` holds the indices of sums around the entry, now free, with their axes."""

    entry: Entry
    value: Expr
    bound: tuple[tuple[Symbol, str], ...] = ()


def partials(body: Expr, fresh: Fresh) -> list[Partial]:
    """The derivatives of a body with respect to each entry it reads; `fresh` makes a new running index of an axis.

    Hypothesis: functions are differentiated where they are differentiable, kinks by the conventions of
    `tplimits.program.nodes.functions` (relu'(0) = 0).  A jump leaves a DiracDelta, unless its height vanishes.
    """
    variables = {node: Dummy(real=True) for node in _outermost(body)}
    back = {variable: node for node, variable in variables.items()}
    named = body.xreplace(variables)
    found: list[Partial] = []
    for node, variable in variables.items():
        smooth = without_continuous_jumps(derivative(named, variable))
        slope = (smooth + hidden_delta(named, variable)).xreplace(back)
        if slope == 0:
            continue
        if isinstance(node, Entry):
            found.append(Partial(node, slope))
        else:
            assert isinstance(node, AxisSum)
            found += _inside(node, slope, fresh)
    return found


def almost_everywhere(body: Expr) -> Expr:
    """A body without the derivatives of its jumps: what a gradient is where the network is differentiable.

    Networks of finite width never stand on a jump, and automatic differentiation gives the same zero.

    >>> x = Symbol("x", real=True)
    >>> almost_everywhere(x + 2 * DiracDelta(x))
    x
    """
    return body.xreplace(dict.fromkeys(body.atoms(DiracDelta), sympy.S.Zero))


def _inside(total: AxisSum, slope: Expr, fresh: Fresh) -> Iterator[Partial]:
    """The derivatives with respect to what a sum over a finite axis reads."""
    index = fresh(total.axis)
    for inner in partials(total.summand.xreplace({total.bound: index}), fresh):
        if index in inner.entry.free_symbols:
            yield Partial(inner.entry, slope * inner.value, ((index, total.axis), *inner.bound))
        else:  # the same entry in every summand
            yield Partial(inner.entry, slope * AxisSum(inner.value, index, Symbol(total.axis)), inner.bound)


def _outermost(body: Expr) -> list[Expr]:
    """The entries of a body, and its sums over finite axes, that stand in no other sum; each once, in a fixed order."""
    found: dict[Expr, None] = {}

    def walk(node: Expr) -> None:
        if isinstance(node, (Entry, AxisSum)):
            found.setdefault(node)
        elif node.has(Entry):
            for argument in node.args:
                walk(argument)

    walk(body)
    return sorted(found, key=sympy.default_sort_key)


def without_continuous_jumps(slope: Expr) -> Expr:
    """The derivative without h·δ(c) where h = 0 on c = 0: the function is continuous there.

    And without poles on the flat side of relu: relu(c)^(−p) step(c), the slope of a root of relu, is 0 there, not ∞·0.

    >>> x = Symbol("x", real=True)
    >>> without_continuous_jumps(x * DiracDelta(x) + (1 + x) * DiracDelta(x - 1))
    (x + 1)*DiracDelta(x - 1)
    """
    for delta in sorted(slope.atoms(DiracDelta), key=sympy.default_sort_key):
        mark = Dummy(real=True)
        height = slope.xreplace({delta: mark}).diff(mark)
        if _vanishes_on(height, delta.args[0]):
            slope = slope.xreplace({delta: sympy.S.Zero})
    poles = [p for p in slope.atoms(sympy.Pow) if isinstance(p.base, relu) and p.exp.is_negative]
    return slope.replace(lambda e: e.is_Mul, _on_one_side) if poles else slope


def without_continuous_jumps_of(slope: Expr) -> Expr:
    """The same of a derivative in entries, and in sums over axes, each of which is a variable."""
    if not slope.has(DiracDelta, relu) or slope.has(GaussMean):
        return slope
    names = {node: Dummy(real=True) for node in _outermost(slope)}
    found = without_continuous_jumps(slope.xreplace(names))
    return found.xreplace({name: node for node, name in names.items()})


def _on_one_side(product: Expr) -> Expr:
    """|c|^(−p) step(c) for relu(c)^(−p) step(c)."""
    sides = {factor.args[0] for factor in product.args if isinstance(factor, step)}
    return product.func(
        *(
            sympy.Abs(f.base.args[0]) ** f.exp
            if isinstance(f, sympy.Pow) and isinstance(f.base, relu) and f.exp.is_negative and f.base.args[0] in sides
            else f
            for f in product.args
        )
    )


def crossed(body: Expr) -> frozenset[Expr]:
    """The arguments at whose zeros a jump of a body has no height: x − c in where(x − c, x, c).

    >>> from tplimits.program.nodes.functions import step
    >>> from tplimits.program.nodes.entries import NO_NEURON
    >>> a, b = (Entry(sympy.Integer(k), NO_NEURON) for k in (0, 1))
    >>> found = crossed(where(a - b, sympy.sin(a), sympy.sin(b)) + (a**2 - 1) * step(a - 1) + step(b))
    >>> found == {a - b, a - 1}
    True
    """
    return frozenset(place for place, height in _jumps(body) if height is None)


def jumps(body: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """The arguments at whose zeros a body jumps, and the heights of jumps as far as heads tell them; 1 of hidden ones.

    >>> from tplimits.program.nodes.entries import NO_NEURON
    >>> a, b = (Entry(sympy.Integer(k), NO_NEURON) for k in (0, 1))
    >>> jumps(b * sympy.sign(a) + a * step(a)) == ((a, b),)
    True
    """
    found = [(place, height) for place, height in _jumps(body) if height is not None]
    for total in (node for node in _outermost(body) if isinstance(node, AxisSum)):
        inside = jumps(total.summand)
        slope = derivative(body.xreplace({total: (mark := Dummy(real=True))}), mark) if inside else sympy.S.Zero
        found += [(place, height * slope.xreplace({mark: total})) for place, height in inside]
    return (*found, *((place, sympy.S.One) for place in hidden_jumps(body)))


def _jumps(body: Expr) -> Iterator[tuple[Expr, Expr | None]]:
    """The arguments of jumps, and the derivatives by what jumps there, None where that vanishes with the argument."""
    names = {node: Dummy(real=True) for node in _outermost(body)}
    back, named = {name: node for node, name in names.items()}, body.xreplace(names)
    for jump in sorted(named.atoms(*JUMPS), key=sympy.default_sort_key):
        mark = Dummy(real=True)
        branches = jump.args[1] - jump.args[2] if isinstance(jump, where) else sympy.S.One
        height = named.xreplace({jump: mark}).diff(mark) * branches
        open_ = None if _vanishes_on(height, jump.args[0]) else height.xreplace({mark: jump}).xreplace(back)
        yield jump.args[0].xreplace(back), open_


def _vanishes_on(height: Expr, surface: Expr) -> bool:
    """Whether an expression is zero where another one is, which is linear in some variable, or a factor of it."""
    if _beside(height, {surface: sympy.S.Zero}) == 0:
        return True
    for variable in sorted(surface.free_symbols, key=lambda s: (s.name, s.sort_key())):
        slope = surface.diff(variable)
        if slope.is_nonzero and not slope.has(variable):  # also √n, of √n s
            on_it = _beside(height, {variable: sympy.expand(variable - surface / slope)})
            return bool(on_it == 0 or sympy.expand(on_it) == 0)
    return False


def _beside(expr: Expr, on_it: Mapping[Expr, Expr]) -> Expr:
    """An expression where a surface is crossed: jumps that are there, too, have any value.

    step(x) sign(x) jumps by 1 at 0, although sign(x) δ(x) and step(x) δ(x) are products with what SymPy has 0 there.
    """
    if expr in on_it or not expr.has(*JUMPS):  # what jumps is itself 0 where where(a, b, c) is
        return expr.xreplace(on_it)
    arguments = [_beside(argument, on_it) for argument in expr.args]
    if isinstance(expr, JUMPS) and (arguments[0].has(_either) or sympy.expand(arguments[0]) == 0):
        return sympy.Add(*(_either(Dummy()) * branch for branch in arguments[1:] or [sympy.S.One]))
    return expr.func(*arguments)


class _either(Function):
    """The value of a jump where it jumps."""

    nargs = 1
