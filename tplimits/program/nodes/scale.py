"""Powers of the width: exponents are exact rationals, and an expression's order in n is decided.

>>> x = sympy.Symbol("x", real=True)
>>> str(irrational_power(N ** sympy.sqrt(2) * x))
'n**(sqrt(2))'
>>> at_infinity(3 + x / sympy.sqrt(N))
3
>>> at_infinity(1 / sympy.sqrt(x + 1 / sympy.sqrt(N)))
1/sqrt(x)
>>> at_infinity((sympy.sqrt(N) * x - sympy.sqrt(N)) / (x**2 + 1) ** 2 / sympy.sqrt(N)).subs(x, 2)
1/25
>>> highest_power(N * x - N * x + x / N), highest_power(x / N ** Rational(1, 3) + N ** Rational(-1, 2))
(-1, -1/3)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sympy
from sympy import Expr, Rational, Symbol

from tplimits.program.nodes.entries import AxisSum, Entry, Leaf, N
from tplimits.program.parts import found, longer

_ROOT = Symbol("n^(-1/q)", positive=True)
#: expressions with more nodes are asked whether n comes out of them before they are multiplied out
_LONG = 400


def irrational_power(expr: Expr, widths: Iterable[Symbol] = (N,)) -> Expr | None:
    """A power of a width whose exponent is not a rational number, or None.

    exp of a width is such a power; exp of what stays bounded as widths grow, as in the mean of exp(g/√n), is not, nor
    is exp of a scaled entry, as in a softmax of fluctuations.
    """
    symbols = expr.free_symbols.intersection(widths)
    if not symbols:
        return None
    for power in expr.atoms(sympy.Pow):
        if power.exp.free_symbols & symbols and not (power.base.is_Rational and _bounded(power.exp, symbols)):
            return power
        if not power.exp.is_Rational and power.base.free_symbols & symbols:
            return power
    own = [e for e in expr.atoms(sympy.exp) if e.free_symbols & symbols and not e.has(Entry)]
    return next((e for e in own if not _bounded(e.args[0], symbols)), None)


def _bounded(expr: Expr, widths: Iterable[Symbol]) -> bool:
    """Whether an expression is a sum of non-positive powers of widths, with coefficients that do not depend on them."""
    try:
        power = highest_power(expr.xreplace(dict.fromkeys(widths, N)))
    except ValueError:
        return False
    return power is None or power <= 0


def _denominator(expr: Expr) -> int:
    """A q such that expr holds only powers of n^(1/q)."""
    q = 1
    for power in expr.atoms(sympy.Pow):
        # of (x + 1/√n)^y the power within counts
        if power.base.has(N) and power.exp.is_Rational:
            q = sympy.ilcm(q, Rational(power.exp).q)
    return int(q) * (2 if q % 2 else 1)


def in_root(expr: Expr) -> tuple[Expr, Symbol, int]:
    """The expression in ε = n^(−1/q): (expression, ε, q)."""
    q = _denominator(expr)
    small = expr.xreplace({N: _ROOT ** (-q)})
    led_out = {p: led for p in small.atoms(sympy.Pow) if p.base.is_Add and (led := _led_out(p)) != p}
    return small.xreplace(led_out), _ROOT, q


def _led_out(power: sympy.Pow) -> Expr:
    """A root of a sum, or what it divides, with the highest power of n before it: √(n/(n − 1)) is 1/√(1 − 1/n)."""
    split = [term.as_coeff_exponent(_ROOT) for term in power.base.args]
    least = min(k for _, k in split)
    leading = sympy.Add(*(c for c, k in split if k == least))
    # what may vanish leads nothing
    known = leading.is_zero is False and not any(c.has(_ROOT) for c, _ in split)
    if least >= 0 or not known or not power.exp.is_Rational or (power.exp.is_Integer and power.exp > 0):
        return power
    rest = sympy.Add(*(c * _ROOT ** (k - least) for c, k in split))
    return _ROOT ** (least * power.exp) * rest**power.exp


def highest_power(expr: Expr) -> Rational | None:
    """The leading exponent of n in a sum of powers of n, or None for zero.

    Raises ValueError when n stands inside a function, where no single power leads.
    """
    series, root, q = in_root(sympy.expand(expr))
    series = sympy.expand(series)
    if series == 0:
        return None
    exponents = []
    for term in sympy.Add.make_args(series):
        coefficient, power = term.as_independent(root)
        if power.has(sympy.Function) or coefficient.has(root):
            raise ValueError(f"n stands inside a function in {term}")
        base, exponent = power.as_base_exp()
        if power != 1 and base != root:
            raise ValueError(f"n stands inside a function in {term}")
        exponents.append(-Rational(0 if power == 1 else exponent, q))
    return max(exponents)


def beside_power(expr: Expr) -> tuple[Expr, Symbol, int, int]:
    """(g, ε, p, q) of ε^(−p) g, ε = n^(−1/q): what multiplies the highest power of n in a sum, n in functions too.

    >>> x = sympy.Symbol("x", real=True)
    >>> beside_power(sympy.sqrt(N) * (sympy.tanh(x + 1 / sympy.sqrt(N)) - sympy.tanh(x)))
    (-tanh(x) + tanh(n^(-1/q) + x), n^(-1/q), 1, 2)
    """
    small, root, q = in_root(expr)
    # named, so that nothing is multiplied into what is divided by
    inside = {f for f in found(small, sympy.Function, sympy.Pow) if f.as_base_exp()[0] != root}
    inside |= {leaf for leaf in found(small, Leaf) if leaf.has(root) and not isinstance(leaf, AxisSum)}
    apart: dict[Expr, Expr] = {f: sympy.Dummy() for f in inside}
    split = _split(small.xreplace(apart), root)
    most = max((-power for _, power in split), default=0)
    whole = sympy.Add(*(c * root ** (most + power) for c, power in split))
    return whole.xreplace({name: f for f, name in apart.items()}), root, most, q


def _split(expr: Expr, root: Symbol) -> list[tuple[Expr, int]]:
    """The terms of a sum of powers of a root: what each power multiplies, and its exponent; out of sums over axes too.

    >>> i, ε, x = Symbol("i"), _ROOT, Symbol("x", real=True)
    >>> _split(AxisSum(x + ε * i, i, Symbol("token")) / ε, ε)
    [(AxisSum(x, i, token), -1), (AxisSum(i, i, token), 0)]
    """
    sums = {s for s in found(expr, AxisSum) if s.has(root)}
    named = {s: sympy.Add(*(AxisSum(c, *s.args[1:]) * root**k for c, k in _split(s.summand, root))) for s in sums}
    terms = (t.as_independent(root, as_Add=False) for t in sympy.Add.make_args(sympy.expand(expr.xreplace(named))))
    return [(c, int(power.as_base_exp()[1]) if power != 1 else 0) for c, power in terms]


def powers_of_n(expr: Expr) -> list[Expr]:
    """The powers of n in the terms of a sum; none where n stands inside a function."""
    found = []
    for term in sympy.Add.make_args(expr):
        power, rest = sympy.S.Zero, []
        for factor in sympy.Mul.make_args(term):
            base, exponent = factor.as_base_exp()
            if base == N:
                power += exponent
            else:
                rest.append(factor)
        # an n inside a function has no single power: taking out one of the others would leave the head with ∞ or 0
        # inside
        if term == 0 or any(f.has(N) for f in rest) or not power.is_Rational:
            return []
        found.append(power)
    return found


def multiplied_out(expr: Expr) -> Expr:
    """A sum of terms whose `powers_of_n` can be told; a long expression that has none is left as it is.

    To multiply it out takes minutes, and n stays inside of the functions and sums over axes that it stands in.

    >>> x = sympy.Symbol("x", real=True)
    >>> multiplied_out((x + 1 / N) * N)
    n*x + 1
    """
    return expr if longer(expr, _LONG) and _is_closed(expr) else sympy.expand(expr)


def _is_closed(expr: Expr) -> bool:
    """Whether n stands inside of something that is no sum, product or power of whole order.

    >>> x = sympy.Symbol("x", real=True)
    >>> _is_closed(x + sympy.sin(x / N)), _is_closed((x + 1 / N) ** 2)
    (True, False)
    """
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if node.is_Add or node.is_Mul or (node.is_Pow and (node.base == N or (node.exp.is_Integer and node.exp > 0))):
            waiting += node.args
        elif node != N and N in found(node, Symbol):
            return True
    return False


def outgrown(expr: Expr) -> list[Expr]:
    """What may vanish before the highest power of n in denominators that grow with n: they divide by it at n = ∞.

    Where it vanishes, as s² in 1 + n s², `at_infinity` is no limit: n s²/(1 + n s²) is 1 there and 0 at s = 0.

    >>> x = sympy.Symbol("x", real=True)
    >>> outgrown(N * x**2 / (1 + N * x**2)), outgrown(1 / (x + 1 / N)), outgrown(x * N / (N - 1))
    ([x**2], [], [])
    """
    found = (led_by(p.base) for p in expr.atoms(sympy.Pow) if p.exp.is_negative and p.base.is_Add and p.base.has(N))
    return [left for power, left in found if power > 0 and left.is_zero is not False]


def led(expr: Expr) -> tuple[Expr, Expr] | None:
    """The exponent of the highest power of n in a sum, and the sum over that power; None: n stands inside a function.

    >>> x = sympy.Symbol("x", real=True)
    >>> led(N * x + 1 / N), led(sympy.sin(N * x))
    ((1, x + n**(-2)), None)
    """
    expanded = multiplied_out(expr)
    powers = powers_of_n(expanded)
    return (max(powers), sympy.expand(expanded * N ** -max(powers))) if powers else None


def led_by(expr: Expr) -> tuple[Expr, Expr]:
    """The highest power of n in a sum, and what it multiplies; (0, the sum) where n stands inside a function."""
    found = led(expr)
    return (found[0], at_infinity(found[1])) if found else (sympy.S.Zero, expr)


def at_infinity(expr: Expr) -> Expr:
    """The limit n → ∞ of an expression that holds only non-positive powers of n, where nothing `outgrown` vanishes.

    Raises ValueError, with the offending term, when a positive power does not cancel or a function is infinite.
    """
    if not expr.has(N):
        return expr
    whole, root, q = in_root(expr)
    small, offending = whole, _positive_powers(whole, root)
    if offending:
        # divisors that do not vanish stay as they are: SymPy would multiply powers of n into them
        divisors = {p for p in whole.atoms(sympy.Pow) if p.exp.is_negative and p.base.is_Add} - set(offending)
        for kept in (divisors, {p for p in divisors if not p.has(root)}):
            names = {p: sympy.Dummy() for p in kept}
            small = sympy.expand(whole.xreplace(names)).xreplace({name: p for p, name in names.items()})
            offending = _positive_powers(small, root)
            if not offending:
                break
    found = small.xreplace({root: sympy.S.Zero})
    # log(1/√n) holds no positive power and diverges all the same
    if offending or is_infinite(found):
        raise ValueError((offending or [small])[0].xreplace({root: N ** Rational(-1, q)}))
    return found


def _positive_powers(expr: Expr, root: Symbol) -> list[Expr]:
    """The powers of n with a positive exponent, written in the root; 1/(c + 1/√n) is none for c ≠ 0."""
    found = [p for p in expr.atoms(sympy.Pow) if p.base.has(root) and p.exp.is_negative]
    return [p for p in found if _vanishes(p.base.xreplace({root: sympy.S.Zero}))]


def _vanishes(base: Expr) -> bool:
    return base == 0 or is_infinite(base)


def is_infinite(limit: Expr) -> bool:
    """Whether something in a limit is infinite, or no number."""
    return bool(limit.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo))


def without_factor(argument: Expr, widths: Collection[Expr] = (N,)) -> Expr:
    """The argument of a jump without the powers of n that multiply all of it."""
    return sympy.Mul(*(f for f in sympy.Mul.make_args(argument) if f.as_base_exp()[0] not in widths))
