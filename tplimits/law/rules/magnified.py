"""What fluctuates like n^(−1/2) about its limit, beside powers of n that bring it to order 1.

√n (s − lim s) is a Gaussian of its own, whatever stands around it: tanh(√n s) has no series in s → 0, and a pole of
√n s is not met at the limit of s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import sympy
from sympy import DiracDelta, Expr, S, Symbol

from tplimits.law.hypotheses.zero import cancelled
from tplimits.law.rules.small import led_in_powers_of_n
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import Entry, N, entries
from tplimits.program.nodes.functions import step
from tplimits.program.nodes.scale import powers_of_n
from tplimits.program.parts import found, put_in

#: powers of widths that stand apart are counted together up to this one
_MOST = 6


def brought_up(body: Expr, tends: Callable[[Entry], Expr | None]) -> Expr:
    """A body with √n (s − lim s) for scalars beside a power of n in a pole: s/√(s² + 1/n) is S/√(S² + 1), S = √n s.

    A jump takes no notice of a factor: beside √n s, sign(s) is sign S too.
    """
    if N not in found(body, Symbol):
        return body
    # δ(√n s) beside √n is 0 where s does not tend to 0, as it is in networks
    tending = {d: [(e, tends(e)) for e in entries(d)] for d in found(body, DiracDelta)}
    known = {d: dict(read) for d, read in tending.items() if all(limit is not None for _, limit in read)}
    body = body.xreplace({d: S.Zero for d, limits in known.items() if _keeps_off_zero(d.args[0], limits)})
    # of scalars, written as steps: of sign(√n s) SymPy keeps sign(s)
    signs = [f for f in body.atoms(sympy.sign) if all(tends(e) is not None for e in entries(f))]
    body = body.xreplace({f: step(f.args[0]) - step(-f.args[0]) for f in signs})
    steps = {f.args[0]: f for f in found(body, step)}
    for argument in dict.fromkeys([*(a for _, a in singular_places(body) if a.has(N)), *steps]):
        limits = {e: tends(e) for e in entries(argument)}
        if not limits or None in limits.values():
            continue
        moved = {e: sympy.Dummy(str(e), real=True) for e in limits}
        whole = argument.xreplace({e: limits[e] + moved[e] / sympy.sqrt(N) for e in limits})
        beside = brought_out([put_in(body, {argument: sympy.Dummy()}, {})], (N,))
        near = sympy.expand(series := led_in_powers_of_n(whole, beside))
        scale = max(powers_of_n(near), default=S.Zero)
        if scale < 0 or series != whole:
            back = {moved[e]: sympy.sqrt(N) * (e - limits[e]) for e in limits}
            raised = sympy.expand(near / N**scale).xreplace(back)
            node = steps.get(argument)
            swap = {argument: N**scale * raised} if node is None else {node: step(raised)}
            body = put_in(body, swap, {})
    return body


def _keeps_off_zero(argument: Expr, limits: Mapping[Expr, Expr]) -> bool:
    """Whether an argument of scalars, with their fluctuations n^(−1/2), is not 0 in leading order: √n s − 1 may be.

    >>> s = Entry(S.Zero, S.Zero)
    >>> [_keeps_off_zero(argument, {s: S.Zero}) for argument in (s - 1, sympy.sqrt(N) * s - 1, N * s - sympy.sqrt(N))]
    [True, False, False]
    """
    moved = {e: limit + sympy.Dummy(real=True) / sympy.sqrt(N) for e, limit in limits.items()}
    terms = [t.as_coeff_exponent(N) for t in sympy.Add.make_args(sympy.expand(argument.xreplace(moved)))]
    most = max(power for _, power in terms)
    return bool(sympy.Add(*(c for c, power in terms if power == most)).is_nonzero)


def brought_out(bodies: Iterable[Expr], widths: Collection[Symbol]) -> int:
    """To which order in a scalar beside its limit powers of widths may bring out what it does, within reason."""
    powers = (p.as_base_exp() for body in bodies for p in found(body, sympy.Pow, Symbol))
    halves = [int(sympy.ceiling(2 * power)) for base, power in powers if base in widths and power.is_positive]
    return min(sum(halves), max(_MOST, *halves)) if halves else 0


def fluctuations_named(body: Expr, tends: Callable[[Entry], Expr | None]) -> tuple[Expr, dict[Expr, Expr]]:
    """A body with names for √n (s − lim s) in the arguments of functions, and what they stand for.

    They are of order 1: tanh(√n s) has no series in s, and sin(√n s)/(√n s) is no removable pole but a function of a
    Gaussian.
    """
    names: dict[Expr, Expr] = {}

    def named(product: Expr) -> Expr:
        """A product with a name for a positive power of n and the functions of scalars that absorb it."""
        power = product.as_powers_dict().get(N, S.Zero)
        mine = [f for f in product.args if f.as_base_exp()[0] == N or _of_limits(f, tends)] if power > 0 else []
        if len(mine) < 2:
            return product
        name = names.setdefault(sympy.Mul(*mine), sympy.Dummy(real=True))
        return sympy.Mul(name, *(f for f in product.args if f not in mine))

    def within(function: Expr) -> Expr:
        products = {p: other for p in found(function, sympy.Mul) if p.has(N) and (other := named(p)) is not p}
        return function.func(*(put_in(a, products, {}) for a in function.args))

    body = put_in(body, {f: within(f) for f in functions_of_n(body)}, {})
    return body, {name: product for product, name in names.items()}


def functions_of_n(body: Expr) -> list[Expr]:
    """Functions, roots and poles in a body whose arguments hold powers of n, where they are not inside of others."""
    if N not in found(body, Symbol):
        return []
    base, power = body.as_base_exp()
    is_product = power.is_Integer and power.is_nonnegative
    if isinstance(body, sympy.Function) or (body.is_Pow and base != N and not is_product):
        return [body]
    return list(dict.fromkeys(f for part in body.args for f in functions_of_n(part)))


def _of_limits(factor: Expr, tends: Callable[[Entry], Expr | None]) -> bool:
    """Whether a factor reads scalars that have limits, and no others."""
    read = entries(factor)
    return bool(read) and all(tends(e) is not None for e in read)


def divides_fluctuations(body: Expr, tends: Callable[[Entry], Expr | None]) -> bool:
    """Whether a product has a negative power of n beside a pole at the limit of scalars, as 1/(√n s) with s → 0 has."""
    for product in found(body, sympy.Mul) if N in found(body, Symbol) else ():
        below = [f.base for f in product.args if f.is_Pow and f.exp.could_extract_minus_sign()]
        if N in below and any(_vanishes(base, tends) for base in below if base != N):
            return True
    return False


def is_magnified(body: Expr, tends: Callable[[Entry], Expr | None]) -> bool:
    """Whether a power of n stands in a pole at the limit of scalars: (√n s + √n t)/|√n s + √n t| is read at √n s."""
    return any(node.is_Pow and a.has(N) and _vanishes(a, tends) for node, a in singular_places(body))


def _vanishes(base: Expr, tends: Callable[[Entry], Expr | None]) -> bool:
    limits = {e: tends(e) for e in entries(base)}
    return bool(limits) and None not in limits.values() and cancelled(sympy.expand(base.xreplace(limits))) == 0
