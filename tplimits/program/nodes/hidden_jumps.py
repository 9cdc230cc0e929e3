"""Jumps that no head of a function shows: x/|x|, relu(x)/x, sin|x|/x, tanh(1/x), where a pole and a kink meet.

Algebra differentiates such a function where it is smooth, and leaves out the delta of its jump.  Here the jump is found
by numbers: a function is taken to both sides of where what it divides by is zero, at two distances.  It jumps where it
has one value on each side, and another one on the other; roots and logarithms have values that move, poles larger ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import mpmath
import sympy
from sympy import DiracDelta, Dummy, Expr, Function, S, Symbol

from tplimits.program.nodes import functions
from tplimits.program.nodes.functions import HEADS, JUMPS, KINKS
from tplimits.program.parts import found, holds, remembered

#: digits, and the two distances from a zero
_DIGITS, _NEAR = 60, (mpmath.mpf("1e-8"), mpmath.mpf("1e-16"))
#: a height that counts, and the part of it by which a side may move between the two
_HEIGHT, _SAME = 1e-6, 1e-3
#: so many points of the other variables are tried: a function may be 0 on one side of them, or no number
_POINTS = 4
#: different parts of a function that is looked at; of a longer one every place where it may jump is taken for a jump
_LONG = 2000
#: beyond it exponentials are 0 or infinite: digits of them would take the memory of all others
_FAR = 1e15
#: intervals between whole numbers in which zeros are looked for, and what keeps their ends off simple numbers
_GRID, _OFF = 8, mpmath.mpf("0.0123")
#: stand for what does not jump
_NUMBERS = tuple(Dummy(f"c{k}", real=True) for k in range(8))
Numeric = Callable[..., Any]
_KNOWN: tuple[type, ...] = tuple({head for head, _ in HEADS.values()} - {DiracDelta})


def slope(expr: Expr, variable: Expr) -> Expr:
    """∂expr/∂variable, with step(ℓ) δ(ℓ) where a jump is hidden at ℓ = 0: a delta of which no height is told.

    A delta beside a jump at its place is what rules take for no function, and do without.

    >>> x = Symbol("x", real=True)
    >>> slope(sympy.sin(x) / x, x), slope(x / sympy.Abs(x), x).has(DiracDelta)
    (cos(x)/x - sin(x)/x**2, True)
    """
    return derivative(expr, variable) + hidden_delta(expr, variable)


@remembered(1 << 13)
def derivative(expr: Expr, variable: Expr) -> Expr:
    """∂expr/∂variable of what is real, also where SymPy cannot tell: it leaves that of sign(x − y/z) as it is."""
    for head, own in _OF_REALS.items() if holds(expr, *_OF_REALS) else ():
        expr = expr.replace(head, own)
    slope = _of_part(expr, variable)
    for head, own in _OF_REALS.items() if holds(slope, *_OF_REALS.values()) else ():
        slope = slope.replace(own, head)
    return slope


def _of_part(expr: Expr, variable: Expr) -> Expr:
    """By the usual rules: SymPy prepares each part of an expression anew for what it may hold."""
    if expr == variable or variable not in found(expr, type(variable)):
        return S.One if expr == variable else S.Zero
    if expr.is_Add:
        return sympy.Add(*(_of_part(a, variable) for a in expr.args))
    if expr.is_Mul:
        slopes = [_of_part(a, variable) for a in expr.args]
        return sympy.Add(*(sympy.Mul(*expr.args[:i], d, *expr.args[i + 1 :]) for i, d in enumerate(slopes) if d != 0))
    if expr.is_Pow and variable not in found(expr.exp, type(variable)):
        return expr * (_of_part(expr.base, variable) * expr.exp / expr.base)
    if isinstance(expr, Function) and type(expr)._eval_derivative is Function._eval_derivative:
        slopes = [_of_part(a, variable) for a in expr.args]
        return sympy.Add(*(expr.fdiff(i) * d for i, d in enumerate(slopes, start=1) if d != 0))
    return expr.diff(variable)


class _absolute(Function):
    nargs = 1
    is_real = True

    def fdiff(self, argindex: int = 1) -> Expr:
        return _sign(self.args[0])


class _sign(Function):
    nargs = 1
    is_real = True

    def fdiff(self, argindex: int = 1) -> Expr:
        return 2 * DiracDelta(self.args[0])


_OF_REALS = {sympy.Abs: _absolute, sympy.sign: _sign}


def hidden_delta(expr: Expr, variable: Expr) -> Expr:
    """What hidden jumps add to a derivative; 0 where there are none."""
    if not (_may_hide(expr) and any(base.has(variable) for base in divisors(expr))):
        return S.Zero
    slopes = ((place, place.diff(variable)) for place in hidden_jumps(expr))
    return sympy.Add(*(s * ambiguous_delta(place) for place, s in slopes if s != 0))


def ambiguous_delta(place: Expr) -> Expr:
    """A delta beside a jump, and without the parity of sign(ℓ) δ(ℓ), whose mean would be 0."""
    return functions.step(place) * DiracDelta(place)


@remembered(1 << 12)
def hidden_jumps(expr: Expr) -> tuple[Expr, ...]:
    """The ℓ at whose zeros a function jumps although none of its heads does."""
    if not _may_hide(expr):
        return ()
    names: dict[Expr, Symbol] = {}
    flat = _flat(expr, names)
    back = {name: node for node, name in names.items()}
    candidates: dict[Expr, list[Expr]] = {}
    for base in divisors(flat):
        for place in _places(base):
            candidates.setdefault(place, []).append(base)
    return tuple(place.xreplace(back) for place in (candidates if _is_long(flat) else _jumping(flat, candidates)))


def _near(expr: Expr, place: Expr, bases: Collection[Expr], depth: int = 0) -> Expr:
    """What may jump of a function where some of what it divides by vanishes, beside one number for all that does not.

    >>> x, y, z = sympy.symbols("x y z", real=True)
    >>> _near(y * sympy.tanh(sympy.Abs(x) / x + sympy.sin(y) * z), x, [x])
    _c0*tanh(_c2 + Abs(x)/x)
    """
    if expr.is_Add:  # what is not divided by anything that vanishes does not jump
        kept = [a for a in expr.args if any(b.free_symbols <= a.free_symbols and a.has(b) for b in bases)]
    elif expr.is_Mul:  # what does not move along a variable of the place is as good as a number
        kept = [a for a in expr.args if a.free_symbols & place.free_symbols]
    else:
        kept = list(expr.args) if isinstance(expr, Function) else []
    if depth == len(_NUMBERS) or not kept:
        return expr
    number = _NUMBERS[depth : depth + (len(kept) < len(expr.args))]
    return expr.func(*([_near(kept[0], place, bases, depth + 1)] if len(kept) == 1 else kept), *number)


def _is_long(expr: Expr) -> bool:
    """Whether its numbers would take minutes."""
    parts, left = {expr}, [expr]
    while left and len(parts) <= _LONG:
        new = set(left.pop().args) - parts
        parts |= new
        left.extend(new)
    return len(parts) > _LONG


@remembered(1 << 14)
def _may_hide(expr: Expr) -> bool:
    """Whether something is divided by beside a kink or a root, or inside of a function."""
    bases = divisors(expr)
    if not bases or expr.has(DiracDelta, sympy.Derivative):
        return False
    roots = (p for p in found(expr, sympy.Pow) if not p.exp.is_Integer and not p.base.is_number)
    inside = (f for f in found(expr, *_KNOWN) if not isinstance(f, (sympy.Add, sympy.Mul, sympy.Pow)) and divisors(f))
    return holds(expr, *KINKS) or any(True for _ in roots) or any(True for _ in inside)


def divisors(expr: Expr) -> list[Expr]:
    """What is divided by, may be zero, and depends on something."""
    bases = {p.base for p in found(expr, sympy.Pow) if p.exp.could_extract_minus_sign() and not p.base.is_number}
    return sorted((b for b in bases if not b.is_positive), key=sympy.default_sort_key)


def _flat(expr: Expr, names: dict[Expr, Symbol]) -> Expr:
    """With symbols for what is no function of numbers, and for jumps that their heads tell."""
    if expr.is_Symbol or expr.is_number:
        return expr
    if expr.func in JUMPS or expr.func not in _KNOWN:
        return names.setdefault(expr, Dummy(real=True))
    return expr.func(*(_flat(a, names) for a in expr.args))


def _places(expr: Expr) -> Iterator[Expr]:
    """Parts that a base may vanish with: the largest that are linear in some variable, and sums that are not."""
    if _leading(expr) is not None:
        place = expr.as_coeff_Mul()[1]  # that of 2h is that of h
        yield -place if place.could_extract_minus_sign() else place
        return
    if expr.is_Add:
        yield expr
    for argument in expr.args:
        yield from _places(argument)


def _leading(place: Expr) -> Symbol | None:
    """A variable that a form is linear in, with a number before it."""
    if isinstance(place, (sympy.Add, sympy.Mul, sympy.Symbol)):
        for variable in _in_order(place):
            rate = place.diff(variable)
            if rate.is_number and rate != 0:
                return variable
    return None


def _in_order(expr: Expr) -> tuple[Symbol, ...]:
    return tuple(sorted(expr.free_symbols, key=lambda s: (s.name, s.sort_key())))


def _jumping(flat: Expr, places: Mapping[Expr, Collection[Expr]]) -> Iterator[Expr]:
    """The places where a function has other values before a zero than behind it."""
    with mpmath.workdps(_DIGITS):
        for place, bases in places.items():
            zeros = [base for base in bases if _leading(place) is None or _vanishes(base, place)]
            if zeros and _jumps(_near(flat, place, zeros), place):
                yield place


def _vanishes(base: Expr, place: Expr) -> bool:
    """Whether something is 0 at the zeros of a linear form in it, as x² + y² is not where x is."""
    for at, moving, value in _lines(base, place):
        root = _root(_along(at, moving, _numeric(_in_order(base), place, "mpmath")))
        try:
            here, beside = value(root), value(root + _NEAR[0])
            if not abs(here) > abs(beside) / 2:
                return True
        except (TypeError, ValueError, ArithmeticError):  # no real number here, but perhaps at another point
            return True
    return False


def _jumps(part: Expr, place: Expr) -> bool:
    leading, order = _leading(place), _in_order(part)
    zero, quick = (_numeric(order, place, library) for library in _LIBRARIES)
    try:
        for at, moving, value in _lines(part, place):
            roots = (
                [_root(_along(at, moving, zero))]
                if leading is not None
                else _roots(_along(at, moving, zero), _along(at, moving, quick))
            )
            if any(_height(value, root) for root in roots):
                return True
    except (TypeError, ValueError, ArithmeticError, NameError, AttributeError):  # no function of numbers
        pass
    return False


def _lines(expr: Expr, place: Expr) -> Iterator[tuple[list[mpmath.mpf], int, Numeric]]:
    """An expression along a variable of a place, at some points of all others."""
    order = _in_order(expr)
    try:
        value = _numeric(order, expr, "mpmath")
    except (TypeError, ValueError, KeyError, NameError, AttributeError):  # no function of numbers
        return
    moving = order.index(_leading(place) or _in_order(place)[0])
    for at in (_point(k, len(order)) for k in range(_POINTS)):
        yield at, moving, _along(at, moving, value)


def _along(at: list[mpmath.mpf], moving: int, function: Numeric) -> Numeric:
    """A function of one of its variables, the others where they are."""
    return lambda x: function(*at[:moving], x, *at[moving + 1 :])


@remembered(1 << 8)
def _numeric(order: tuple[Symbol, ...], expr: Expr, library: str) -> Numeric:
    return sympy.lambdify(order, functions.elementary(expr), _LIBRARIES[library], cse=True)


def _root(form: Numeric) -> mpmath.mpf:
    """Where a linear form vanishes."""
    start = form(mpmath.mpf(0))
    return -start / (form(mpmath.mpf(1)) - start)


def _roots(zero: Numeric, quick: Numeric) -> Iterator[mpmath.mpf]:
    """Where the sign of a function changes, looked for with few digits."""
    ends = [mpmath.mpf(k) / _GRID + _OFF for k in range(-4 * _GRID, 4 * _GRID)]
    for (low, before), (high, behind) in itertools.pairwise((end, quick(end)) for end in ends):
        if before * behind < 0:
            yield mpmath.findroot(zero, (low, high), solver="anderson", verify=False)


def _point(number: int, many: int) -> list[mpmath.mpf]:
    """Values of either sign, in no relation to each other."""
    roots = (mpmath.sqrt(number * many + i + 2) for i in range(many))
    return [(r - mpmath.floor(r) + mpmath.mpf("0.3")) * (-1) ** ((number >> i % 2) & 1) for i, r in enumerate(roots)]


def _height(value: Numeric, zero: mpmath.mpf) -> bool:
    try:
        (above, below), (over, under) = ((value(zero + ε), value(zero - ε)) for ε in _NEAR)
        height = abs(over - under)
        return bool(height > _HEIGHT and max(abs(over - above), abs(under - below)) < _SAME * height < mpmath.inf)
    except (TypeError, ArithmeticError, ValueError):  # no real number here, but perhaps at another point
        return False


def _bounded(function: str) -> Numeric:
    def value(x: mpmath.mpf) -> mpmath.mpf:
        far = x if abs(x) < _FAR else mpmath.inf if x > 0 else -mpmath.inf
        return getattr(mpmath, function)(far)

    return value


_FUNCTIONS = {
    **{name: _bounded(name) for name in ("exp", "tanh", "sinh", "cosh", "erf", "erfc", "sin", "cos")},
    "step": lambda x: mpmath.mpf(int(x > 0)),
    "softplus": lambda x: mpmath.log1p(_bounded("exp")(x)),
}
#: what functions are in 60 digits, and in as many as processors have
_LIBRARIES = {
    "mpmath": [_FUNCTIONS, "mpmath"],
    "math": [{name: _FUNCTIONS[name] for name in ("step", "softplus")}, "math"],
}
