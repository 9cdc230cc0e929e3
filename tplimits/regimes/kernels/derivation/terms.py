"""Kets as sums of products: Σ over finite axes of (coefficient × random factors)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import sympy
from sympy import Expr, S, Symbol

from tplimits.program.nodes.bound_axes import with_bound_axes
from tplimits.program.nodes.entries import AxisSum, Kron, axis_symbol, free_indices
from tplimits.program.parts import found as parts
from tplimits.program.parts import linked, remembered
from tplimits.regimes.kernels.derivation.leaves import Given, Of, Slot

#: powers of sums up to this exponent are multiplied out
_HIGHEST_POWER = 8
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Term:
    """Σ over `bounds` of coefficient × Π factors; the coefficient is deterministic, every factor random."""

    coefficient: Expr
    bounds: tuple[tuple[Symbol, Symbol], ...]
    factors: tuple[Expr, ...]

    def times(self, other: Term) -> Term:
        """The product; bound indices are different by construction."""
        return Term(self.coefficient * other.coefficient, self.bounds + other.bounds, self.factors + other.factors)


ONE = Term(S.One, (), ())


@remembered(1 << 15)
def leaves(expr: Expr) -> frozenset[Of]:
    """The kets of an expression."""
    return frozenset(leaf for leaf in parts(expr, Of) if type(leaf) is Of)


def is_random(expr: Expr) -> bool:
    """Whether an expression depends on kets."""
    return bool(leaves(expr))


def fresh_index(bound: Symbol) -> Symbol:
    """A new running index for a sum."""
    base = bound.name.partition("′")[0]
    mark = "‴" if "‴" in bound.name and "‴" not in base else ""
    return axis_symbol(f"{base}{mark}′{next(_numbers)}")


def freshened(expr: Expr) -> Expr:
    """The same expression with new names for all bound indices, so that substitution captures nothing."""
    return with_bound_axes(expr, fresh_index)


def at(expr: Expr, places: Mapping[Expr, Expr]) -> Expr:
    """An expression with its free running indices put at places."""
    moved = {a: b for a, b in places.items() if a != b}
    return freshened(expr).xreplace(moved)


def terms(expr: Expr, powers: bool = True) -> list[Term]:
    """The expression as a sum of terms, with fresh bound indices; without `powers`, powers are functions."""
    if not is_random(expr):
        return [] if expr == 0 else [Term(expr, (), ())]
    if isinstance(expr, sympy.Add):
        shared = _shared_forms(expr)
        if shared:
            rest = sympy.Add(*(sympy.Mul(*(f for f in _operands(a) if f not in shared)) for a in expr.args))
            return products([*(terms(f, powers) for f in shared), terms(rest, powers)])
        return [Term(S.One, (), (expr,))] if powers and is_one_function(expr) else _addends(expr, powers)
    if isinstance(expr, sympy.Mul):
        if quotient := _quotient(expr):
            rest = [terms(a, powers) for a in expr.args if a not in quotient]
            return products([*rest, _with_places_in_front(quotient, powers)])
        return products([terms(a, powers) for a in expr.args])
    if isinstance(expr, AxisSum):
        new = fresh_index(expr.bound)
        summand = expr.summand.xreplace({expr.bound: new})
        return [Term(t.coefficient, ((new, expr.args[2]), *t.bounds), t.factors) for t in terms(summand, powers)]
    if powers and isinstance(expr, sympy.Pow) and expr.exp.is_Integer and 1 < expr.exp <= _HIGHEST_POWER:
        return products([terms(expr.base) for _ in range(int(expr.exp))])
    return [Term(S.One, (), (expr,))]


def gathered(expr: Expr) -> Expr:
    """A sum with what stands beside the same kets together: functions of logits cancel there beside a pole of them.

    Their products over two inputs are told to half as many digits term by term.
    """
    if not expr.is_Add or not expr.has(Given):
        return expr
    beside: dict[Expr, list[Expr]] = {}
    for addend in expr.args:
        kets = [f for f in _operands(addend) if is_random(f)]
        rest = sympy.Mul(*(f for f in _operands(addend) if f not in kets))
        beside.setdefault(sympy.Mul(*kets), []).append(rest)
    return sympy.Add(*(kets * sympy.Add(*rest) for kets, rest in beside.items()))


def _operands(addend: Expr) -> tuple[Expr, ...]:
    return tuple(sympy.Mul.make_args(addend))


def _shared_forms(expr: sympy.Add) -> list[Expr]:
    """Kets and sums of kets that multiply every addend: v in v/(1 + u²) − 2u²v/(1 + u²)²."""
    return [f for f in _operands(expr.args[0]) if _is_form(f) and all(f in _operands(a) for a in expr.args[1:])]


def _is_form(factor: Expr) -> bool:
    parts = factor.args if isinstance(factor, sympy.Add) else (factor,)
    return all(type(part.as_coeff_Mul()[1]) is Of for part in parts)


def _addends(expr: sympy.Add, powers: bool) -> list[Term]:
    if not powers or not any(map(may_be_polar, expr.args)):
        return [t for a in expr.args for t in terms(a, powers)]
    beside: dict[frozenset[Expr], list[Expr]] = {}  # poles of terms that stand beside the same kets may cancel
    for addend in expr.args:
        kets = frozenset(f for f in _operands(addend) if type(f) is Of) if may_be_polar(addend) else frozenset()
        beside.setdefault(kets, []).append(addend)
    # tangents that stand in sums that are divided: expectations take them out of all quotients together
    divided = [a for a in beside.get(frozenset(), ()) if a.is_Mul and _quotient(a)]
    found = [Term(S.One, (), (sympy.Add(*divided),))] if len(divided) > 1 else []
    if found:
        beside[frozenset()] = [a for a in beside[frozenset()] if a not in divided]
    for kets, addends in beside.items():
        rest = sympy.Add(*(sympy.Mul(*(f for f in _operands(a) if f not in kets)) for a in addends))
        if len(addends) > 1 and kets and isinstance(rest, sympy.Add) and is_one_function(rest):
            found.append(Term(S.One, (), (*sorted(kets, key=sympy.default_sort_key), rest)))
        else:
            found += [t for a in addends for t in terms(a)]
    return found


def _quotient(product: sympy.Mul) -> list[Expr]:
    """Sums that are divided by what may vanish, and that: poles of the terms of a sum may cancel."""
    poles = [f for f in product.args if isinstance(f, sympy.Pow) and may_be_polar(f)]
    divided = leaves(sympy.Mul(*poles)) if poles else frozenset()
    divided_sums = [f for f in product.args if f.is_Add and leaves(f) & divided]
    # multiplied out, a power of a sum would be one of other variables than the pole at a function of that sum
    powers = [f for f in product.args if f.is_Pow and f.base.is_Add and f.exp.is_Integer and f.exp > 1]
    divided_sums += [f for f in powers if any(pole.has(f.base) for pole in poles)]
    return [*divided_sums, *poles] if divided_sums else []


def _with_places_in_front(quotient: Sequence[Expr], powers: bool) -> list[Term]:
    """A quotient as one factor, but for the places of vectors that it is linear in: a mean is one beside them."""
    placed = next((f for f in quotient if f.is_Add and f.has(Slot)), S.Zero)
    others = sympy.Mul(*(f for f in quotient if f is not placed))
    beside: dict[Expr, list[Expr]] = {}
    for addend in sympy.Add.make_args(sympy.expand_mul(placed)):
        places = [f for f in _operands(addend) if isinstance(f, (Slot, Kron))]
        rest = sympy.Mul(*(f for f in _operands(addend) if f not in places))
        beside.setdefault(sympy.Mul(*places), []).append(rest)
    if set(beside) == {S.One}:
        return [Term(S.One, (), (sympy.Mul(*quotient),))]
    found = ((Term(place, (), ()), terms(sympy.Add(*rest) * others, powers)) for place, rest in beside.items())
    return [place.times(term) for place, inner in found for term in inner]


def may_be_polar(addend: Expr) -> bool:
    """Whether a term divides by what may vanish."""
    return any(p.exp.is_negative and is_random(p.base) and not p.base.is_positive for p in addend.atoms(sympy.Pow))


def is_one_function(expr: sympy.Add) -> bool:
    """Whether a sum is one nonlinear function of one set of kets, as the derivative of gelu: one moment, not nine."""
    random = [a for a in expr.args if is_random(a)]
    reads = {frozenset(x for x in a.atoms(Of) if type(x) is Of) for a in random}
    if len(reads) != 1 or expr.has(Slot):
        return False
    found = [t for a in random for t in terms(a, powers=False)]
    functions = [t for t in found if len(t.factors) != 1 or not isinstance(t.factors[0], Of)]
    return bool(functions) and not any(t.bounds for t in functions)


def products(lists: Iterable[list[Term]]) -> list[Term]:
    """All products of one term from each list."""
    found = [ONE]
    for one in lists:
        found = [a.times(b) for a in found for b in one]
    return found


def collapsed(value: Expr, bounds: Iterable[tuple[Symbol, Symbol]]) -> Expr:
    """Σ over bounds of a value, with sums over equal indices done: Σ_j δ_ij f_j = f_i."""
    from_outside = list(bounds)
    if not from_outside or not value.has(Kron):
        return summed(value, from_outside)
    return sympy.Add(*(_collapsed(v, from_outside) for v in sympy.Add.make_args(sympy.expand_mul(value, deep=False))))


def _collapsed(value: Expr, bounds: list[tuple[Symbol, Symbol]]) -> Expr:
    for kron in (f for f in sympy.Mul.make_args(value) if isinstance(f, Kron)):
        # either index may be the bound one
        for gone, kept in (kron.args[::-1], kron.args):
            rest = [b for b in bounds if b[0] != gone]
            # δ(j, f(f(j))) tells where the sum has terms, and has no index less
            if len(rest) < len(bounds) and gone not in free_indices(kept):
                return _collapsed(value.xreplace({gone: kept}), rest)
    return summed(value, bounds)


def summed(value: Expr, bounds: Iterable[tuple[Symbol, Symbol]]) -> Expr:
    """Σ over bounds of a value; an index the value does not have counts the size of its axis."""
    for index, axis in reversed(list(bounds)):
        value = axis_sum(value, index, axis)
    return value


def axis_sum(value: Expr, index: Symbol, axis: Symbol) -> Expr:
    """Σ over one axis, with what does not depend on the index in front."""
    outside: list[Expr] = []
    inside: list[Expr] = []
    for factor in sympy.Mul.make_args(value):
        (inside if index in free_indices(factor) else outside).append(factor)
    return sympy.Mul(*outside, AxisSum(sympy.Mul(*inside), index, axis))


def connected(pieces: list[Expr], covariance: dict) -> list[tuple[list[Expr], list[Symbol]]]:
    """Factors joined where they share variables or their variables are correlated."""
    variables = {z for z, _ in covariance}

    def dependent(mine: AbstractSet[Symbol], used: AbstractSet[Symbol]) -> bool:
        return any(a == b or covariance[a, b] != 0 for a in used for b in mine)

    groups = linked(((piece, piece.free_symbols & variables) for piece in pieces), dependent)
    return [(g, sorted(u, key=lambda s: int(s.name.lstrip("z′")))) for g, u in groups]
