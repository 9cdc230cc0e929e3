"""Functions of scalars with a kink, jump or root where the scalar settles: relu(Y)², sign(Y)/√n, |Y|^(3/2).

The scalar is s + y, s fixed and y = n^(−a/2) R with R Gaussian in the limit (`laws`).  The function is a sum of powers
|y|^p sgn(y)^q around s (`expansions`), each n^(−ap/2) |R|^p sgn(R)^q: a factor of terms, whose mean is taken once all
weights but those of R are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy
from sympy import Dummy, Expr

from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry
from tplimits.program.nodes.functions import BENT, elementary, leaky_relu, maximum, minimum, relu, step, where
from tplimits.regimes.depth.algebra.expansions import ARGUMENT
from tplimits.regimes.depth.algebra.products import Poly, lowest
from tplimits.regimes.depth.derivation.scalars.scalars import insist_on_small, parts

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering

_SCALARS = (Entry, ArrayEntry, AxisSum)
#: powers beyond this are those of one Gaussian, and not written out
_MOST_PAIRED = 4


def bent(lowering: Lowering, expr: Expr, env: Mapping[Expr, int]) -> Poly | None:
    """A function of scalars that holds a kink, a jump or a root; None where it is for others to lower."""
    if not isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow, sympy.Function)):
        return None
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > _MOST_PAIRED:
        return lowering.around(ARGUMENT**expr.exp, expr.base, env, {}).high_power(int(expr.exp))
    written = lowering.reading.inlined(expr).replace(maximum, _greater).replace(minimum, lambda x, y: -_greater(-x, -y))
    if not _has_kink(written) or not lowering.reading.is_scalar(written):
        return None
    # relu of a constant is a number: no kink that the state could meet
    constants = {c: Dummy(real=True) for c in written.atoms(*BENT) if not c.has(*_SCALARS)}
    written = written.xreplace(constants).replace(_is_even_root, lambda p: abs(p.base.base) ** (p.base.exp * p.exp))
    back = {d: c for c, d in constants.items()}
    body = elementary(written)
    forms = [(written, a) for a in _heads(written)] + [(body, a) for a in _arguments(body)]
    # both as written and in steps: one of the forms may show that all of it is a function of one scalar
    functions = [(f, a) for form, a in forms for f in [_function_of(form, a)] if f is not None]
    choices = [(lowering.around(f, a.xreplace(back), env, back), a) for f, a in functions]
    # a scalar whose widths stand before the function rather than inside has the simpler series
    for found, argument in sorted(choices, key=lambda choice: choice[0].mixes_sizes):
        if body.has(step):
            return found.lowered() if found.settles_at_kink() else None
        if _settles_at_root(lowering, body, argument, env):
            return found.lowered()
    return None


def _function_of(form: Expr, argument: Expr) -> Expr | None:
    """A body as a function of one scalar in it; None where there are others."""
    number, core = argument.as_independent(*_SCALARS, as_Add=False)
    change = {sympy.expand(-argument): -ARGUMENT, argument: ARGUMENT}
    found = form.xreplace(change).xreplace({core: ARGUMENT / number})
    return None if found.has(*_SCALARS) else found


def _heads(written: Expr) -> list[Expr]:
    """The scalars whose sign a head asks for, written as they are, the shortest first: it may stand in the others."""
    found = [h.args[0] for h in written.atoms(sympy.Abs, sympy.sign, step, relu, leaky_relu, where)]
    cores = {_core(a) for a in found}
    # SymPy takes sizes out of signs: sign(√k y) is sign(y), and the scalar is √k y where it stands so elsewhere
    found += [p for p in written.atoms(sympy.Mul) if p.has(Entry) and _core(p) in cores]
    return sorted(dict.fromkeys(a for a in found if a.has(Entry)), key=_by_length)


def _core(argument: Expr) -> Expr:
    return argument.as_independent(*_SCALARS, as_Add=False)[1]


def _by_length(argument: Expr) -> tuple:
    return sympy.count_ops(argument), sympy.default_sort_key(argument)


def _settles_at_root(lowering: Lowering, body: Expr, argument: Expr, env: Mapping[Expr, int]) -> bool:
    """False for roots and quotients of what has a fixed part: these have a Taylor series."""
    fixed, small = parts(lowering, lowering.lower(argument, env))
    if fixed.terms:
        return False
    if small.terms and lowest(small) <= 0:
        power = next(p for p in body.atoms(sympy.Pow) if p.base == argument)
        insist_on_small(lowering, power, small, env)
    return True


def _greater(x: Expr, y: Expr) -> Expr:
    """max(x, y) by the one sign it asks for, with what is no scalar of the state outside."""
    x, y = (y, x) if y.has(Entry) and not x.has(Entry) else (x, y)
    return y + relu(x - y)


def _has_kink(expr: Expr) -> bool:
    if any(h.has(Entry) for h in expr.atoms(*BENT)):
        return True
    return any(_is_root(p) for p in expr.atoms(sympy.Pow))


def _is_root(power: Expr) -> bool:
    """A power of scalars that is none of a polynomial."""
    if not (power.is_Pow and power.base.has(Entry) and power.exp.is_number):
        return False
    return not (power.exp.is_Integer and power.exp.is_nonnegative)


def _is_even_root(power: Expr) -> bool:
    """(y²)^(1/2): |y|."""
    return bool(
        power.is_Pow
        and power.exp.is_Rational
        and not power.exp.is_Integer
        and power.base.is_Pow
        and power.base.exp.is_Integer
        and power.base.exp % 2 == 0
    )


def _arguments(body: Expr) -> list[Expr]:
    """The scalars at whose value the function may have a kink, the shortest first."""
    found = [j.args[0] for j in body.atoms(step)] + [p.base for p in body.atoms(sympy.Pow) if _is_root(p)]
    every = dict.fromkeys(a for a in found if a.has(Entry))
    return sorted(every, key=_by_length)
