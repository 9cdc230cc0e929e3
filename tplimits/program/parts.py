"""Long bodies part by part: what is looked for or put in is done once for all bodies that share a part.

The T² weights of a softmax over T tokens share T denominators of T terms each.  SymPy walks through all of a body at
every question, T³ nodes; here the answer of a part is remembered.  Most of what one derivation asks no other one will,
because running indices are numbered through all of them, and tables would fill with what is never read again: once in
so many derivations all of them forget.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

import sympy
from sympy import Expr

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Read = TypeVar("Read")
#: as SymPy sorts factors
_IN_ORDER = functools.cmp_to_key(sympy.Basic.compare)
#: answers that are remembered
_MOST = 1 << 14
#: derivations between two times of forgetting: what some in a row share is worked out once more in so many
_TURN = 32
_TABLES: list[functools._lru_cache_wrapper[object]] = []
_DERIVATIONS = itertools.count(1)
#: odd heads that would ask SymPy's assumptions for the sign of their argument, which take long and know nothing of sums
_ODD = (sympy.tanh, sympy.erf, sympy.atan, sympy.asinh)
#: heads that have nothing to simplify over one of `_PLAIN`
_PERIODIC = (sympy.sin, sympy.cos)
_PLAIN = (sympy.tanh, sympy.erf, sympy.sin, sympy.cos)
#: what they rewrite inside a sum: multiples of iπ, and numbers
_SPECIAL = (type(sympy.I), sympy.Float, *(type(x) for x in (sympy.oo, -sympy.oo, sympy.zoo, sympy.nan)))


def remembered(most: int) -> Callable[[Callable[..., Answer]], functools._lru_cache_wrapper[Answer]]:
    """`functools.lru_cache` whose answers, about expressions, are forgotten in turn.

    >>> @remembered(8)
    ... def double(x):
    ...     return 2 * x
    >>> double(2), double(2), double.cache_info().hits
    (4, 4, 1)
    """

    def table(function: Callable[..., Answer]) -> functools._lru_cache_wrapper[Answer]:
        made = functools.lru_cache(most)(function)
        _TABLES.append(made)
        return made

    return table


def derivation_begins() -> None:
    """Count a derivation, and forget everything if it is its turn; one in another thread that runs is only slower."""
    if next(_DERIVATIONS) % _TURN == 0:
        forget()


def forget() -> None:
    """Forget all answers."""
    for table in _TABLES:
        table.cache_clear()


def found(expr: Expr, *kinds: type) -> frozenset[Expr]:
    """All parts of these kinds, as `atoms` finds them."""
    return _found(expr, *kinds) if holds(expr, *kinds) else frozenset()


@remembered(_MOST)
def _found(expr: Expr, *kinds: type) -> frozenset[Expr]:
    mine = [a for a in (expr, *(a for a in expr.args if not a.args)) if isinstance(a, kinds)]
    inside = [part for a in expr.args if a.args and (part := _found(a, *kinds))]
    if not mine and len(inside) == 1:
        return inside[0]
    return frozenset(mine).union(*inside)


@remembered(_MOST)
def heads(expr: Expr) -> frozenset[type]:
    """The classes of all parts.

    >>> x = sympy.Symbol("x")
    >>> sorted(head.__name__ for head in heads(sympy.exp(x) + 2 * x))
    ['Add', 'Integer', 'Mul', 'Symbol', 'exp']
    """
    inside = [heads(a) for a in expr.args if a.args]
    return frozenset((type(expr), *(type(a) for a in expr.args if not a.args))).union(*inside)


def holds(expr: Expr, *kinds: type) -> bool:
    """Whether some part is of one of these kinds, as `has` says it of classes."""
    if not expr.args:
        return isinstance(expr, kinds)
    return not _lines(heads(expr)).isdisjoint(kinds)


@functools.lru_cache(_MOST)
def _lines(classes: frozenset[type]) -> frozenset[type]:
    """Some classes and all that they are made from."""
    return frozenset(line for c in classes for line in c.__mro__)


@remembered(_MOST)
def symbols(expr: Expr) -> frozenset[sympy.Symbol]:
    """Its free symbols."""
    if not expr.args or type(expr).free_symbols is not sympy.Basic.free_symbols:  # what binds some tells the others
        return frozenset(expr.free_symbols)
    inside = {symbols(a) for a in expr.args}
    return inside.pop() if len(inside) == 1 else frozenset().union(*inside)


def put_for(expr: Expr, whole: Expr, symbol: Expr) -> Expr:
    """A symbol for a function, also where a sum has taken in its terms.

    >>> u, v, t = sympy.symbols("u v t", real=True)
    >>> put_for(2 * u + 2 * v - sympy.tanh(u + v), u + v, t)
    2*t - tanh(t)
    """
    swap, mine = {whole: symbol}, whole.as_coefficients_dict()
    for node in found(expr, sympy.Add) if whole.is_Add else ():
        its = node.as_coefficients_dict()
        times = {its[term] / number for term, number in mine.items()}
        if node != whole and len(times) == 1 and sympy.S.Zero not in times:
            number = times.pop()
            swap[node] = number * symbol + put_for(node - number * whole, whole, symbol)
    return expr.xreplace(swap)


def put_in(expr: Expr, values: Mapping[Expr, Expr], done: dict[Expr, Expr]) -> Expr:
    """The expression with values put in, as `xreplace` does it; `done` remembers parts, for the same values."""
    return _put_in(expr, values, done) if values else expr


def _put_in(expr: Expr, values: Mapping[Expr, Expr], done: dict[Expr, Expr]) -> Expr:
    value = values.get(expr)
    if value is not None:
        return value
    if not expr.args:
        return expr
    value = done.get(expr)
    if value is None:
        # most parts are leaves
        args = [_put_in(a, values, done) if a.args else values.get(a, a) for a in expr.args]
        changed = any(a is not b for a, b in zip(args, expr.args, strict=True))
        value = done[expr] = rebuilt(expr, args) if changed else expr
    return value


def rebuilt(expr: Expr, args: Sequence[Expr]) -> Expr:
    """The head of an expression over other arguments; an odd head of real terms is f(x) or −f(−x)."""
    if isinstance(expr, _ODD) and _is_plain(inner := args[0]):
        turned = inner.could_extract_minus_sign()
        value = type(expr)(-inner if turned else inner, evaluate=False)
        return -value if turned else value
    if isinstance(expr, _PERIODIC) and isinstance(args[0], _PLAIN):  # SymPy would ask whether tanh(…) is real, by gcds
        return type(expr)(args[0], evaluate=False)
    if expr.is_Mul:
        return _beside_one_another(expr, args) or product(*args)
    if isinstance(expr, sympy.exp) and not (
        args[0].is_Add or args[0].is_number or holds(args[0], sympy.log, *_SPECIAL)
    ):
        return sympy.exp(args[0], evaluate=False)
    return expr.func(*args)


def _is_plain(expr: Expr) -> bool:
    """Whether an odd head rewrites nothing in it but its sign: no inverse function, and no number."""
    return not (expr.is_Function or expr.is_number or found(expr, *_SPECIAL))


def addends(expr: Expr) -> Iterator[Expr]:
    """The terms of a sum with products multiplied out, those inside of functions left alone.

    >>> a, b, x = sympy.symbols("a b x")
    >>> sorted(addends((a + b) * sympy.exp(x) + b), key=str)
    [a*exp(x), b, b*exp(x)]
    """
    for term in sympy.Add.make_args(expr):
        expanded = sympy.expand(term, deep=False)  # asked of a sum, SymPy expands none of its terms
        yield from addends(expanded) if expanded.is_Add else (expanded,)


def by_products(total: Expr, read: Iterable[Expr] | None = None) -> dict[Expr, list[Expr]]:
    """The products in a sum that hold some of `read`, or are no numbers, with what stands in front of each.

    >>> x, y = sympy.symbols("x y")
    >>> by_products(2 * x + x * y / 3 + 1), by_products(2 * x + x * y / 3, [y])
    ({1: [1], x: [2], x*y: [1/3]}, {1: [2*x], y: [x/3]})
    """
    found: dict[Expr, list[Expr]] = {}
    for term in sympy.Add.make_args(total):
        # leaves of kernels have no symbols, and are no numbers
        names = [f for f in sympy.Mul.make_args(term) if not f.is_number] if read is None else read
        number, rest = term.as_independent(*names, as_Add=False)
        found.setdefault(rest, []).append(number)
    return found


def apart(expr: Expr, read: Callable[[Expr], set[Read]]) -> tuple[Expr, list[tuple[Expr, set[Read]]]]:
    """A product as its constant factor and factors of which no two read the same, each with all that it reads.

    >>> x, y, z = sympy.symbols("x y z")
    >>> apart(2 * sympy.sin(z) * x * sympy.cos(x * y), lambda factor: factor.free_symbols)[0]
    2
    """
    factors = [(factor, read(factor)) for factor in sympy.Mul.make_args(expr)]
    constant = sympy.Mul(*(factor for factor, mine in factors if not mine))
    groups = linked((factor, mine) for factor, mine in factors if mine)
    return constant, [(sympy.Mul(*group), set(mine)) for group, mine in groups]


def linked(
    items: Iterable[tuple[Item, Iterable[Read]]],
    touch: Callable[[AbstractSet[Read], AbstractSet[Read]], bool] = lambda a, b: not a.isdisjoint(b),
) -> list[tuple[list[Item], list[Read]]]:
    """Items of which what they read has something in common, or may `touch`, in one group, and all that it reads.

    So are those that others lead to; groups stand where their last item does.

    >>> linked([("x", "a"), ("y", "b"), ("z", "c"), ("w", "ab")])
    [(['z'], ['c']), (['x', 'y', 'w'], ['a', 'b'])]
    """
    groups: list[tuple[list[Item], dict[Read, None]]] = []
    for item, reads in items:
        mine, joined, rest = dict.fromkeys(reads), groups[:0], groups[:0]
        for group in groups:
            (joined if touch(mine.keys(), group[1].keys()) else rest).append(group)
        members = [*(one for group, _ in joined for one in group), item]
        groups = [*rest, (members, dict.fromkeys([*(r for _, used in joined for r in used), *mine]))]
    return [(group, list(used)) for group, used in groups]


@remembered(_MOST)
def product(*factors: Expr) -> Expr:
    """Their product; of two bare factors with different bases there is nothing to simplify, but SymPy looks for it.

    >>> x, y = sympy.symbols("x y")
    >>> product(y, x) == x * y, product(x, 1 / x), product(sympy.S(2), x + y)
    (True, 1, 2*x + 2*y)
    """
    if len(factors) == 2 and all(map(_is_bare, factors)) and len(set(map(_base, factors))) == 2:
        return sympy.Mul._from_args(tuple(sorted(factors, key=_IN_ORDER)))
    # factor by factor: of two SymPy asks whether the first is zero, which takes long and is never known
    return sympy.Mul(*itertools.chain.from_iterable(map(sympy.Mul.make_args, factors)))


def _beside_one_another(expr: sympy.Mul, args: Sequence[Expr]) -> Expr | None:
    """A product over other factors, where the new ones have nothing to do with one another or with the rest."""
    new = [a for a, b in zip(args, expr.args, strict=True) if a is not b]
    bases = {_base(a) for a, b in zip(args, expr.args, strict=True) if a is b}
    known = len(bases | set(map(_base, new))) == len(bases) + len(new)
    # a number in front of a sum is multiplied into it
    if not known or not all(map(_is_bare, new)) or (len(args) == 2 and args[0].is_Number and args[1].is_Add):
        return None
    first = int(args[0].is_Number)
    return sympy.Mul._from_args((*args[:first], *sorted(args[first:], key=_IN_ORDER)))


def _base(factor: Expr) -> Expr:
    return factor.as_base_exp()[0]


def _is_bare(factor: Expr) -> bool:
    if factor.is_Symbol:
        return True
    return not (factor.is_Mul or factor.is_number or (factor.is_Pow and factor.base.is_number))


def longer(expr: Expr, most: int) -> bool:
    """Whether an expression tree has more nodes than `most`."""
    count, stack = 0, [expr]
    while stack and count <= most:
        node = stack.pop()
        count += 1
        stack.extend(node.args)
    return count > most
