"""Sums over axes of infinitely many independent members: powers of their number are counted.

Σ_{h1,…,hr} f(h1, …, hr) = Σ_partitions |H|(|H| − 1)⋯ E f with the indices of a block equal, others different
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import sympy
from sympy import Expr, S, Symbol
from sympy.utilities.iterables import multiset_partitions

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import Kron, size_symbol
from tplimits.regimes.kernels.derivation.leaves import SECOND, Moment, plain_axis
from tplimits.regimes.kernels.derivation.terms import Term, connected


def with_infinite_axes(
    term: Term, infinite: frozenset[str], expect: Callable[[Sequence[Expr]], Expr]
) -> Iterator[tuple[Term, Expr]]:
    """The term without its sums over infinite axes, as (term, mean of its factors)."""
    many = [(i, a) for i, a in term.bounds if plain_axis(a.name) in infinite]
    if not many:
        yield term, expect(term.factors)
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
        coefficient = term.coefficient.xreplace({size_symbol(axis + SECOND): size}).xreplace(merge)
        coefficient = different(coefficient, [indices[block[0]] for block in partition])
        if value == 0 or coefficient == 0:
            continue
        # |H|(|H| − 1)⋯ is |H|^blocks to leading order, all that is left of an infinite axis
        yield Term(leading(coefficient * size ** len(partition), size, axis, value), rest, term.factors), value


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
        names = {z: Symbol(f"z{i}", real=True) for i, z in enumerate(used, start=1)}
        integrand = sympy.Mul(*factors)
        if integrand.xreplace({z: -z for z in used}) == -integrand:
            return S.Zero
        pairs = itertools.combinations_with_replacement(used, 2)
        result *= Moment(integrand.xreplace(names), tuple(names.values()), tuple(law[p] for p in pairs))
    return result


def leading(coefficient: Expr, size: Symbol, axis: str, value: Expr) -> Expr:
    """The limit of a coefficient as the size goes to infinity."""
    powered = sympy.powsimp(sympy.expand(coefficient))
    free, power = powered.as_independent(size)
    if power == 1:
        return free
    base, exponent = power.as_base_exp()
    if base != size or not exponent.is_Rational:
        raise NoLimitError(f"the power of |{axis}| in {sympy.sstr(coefficient)} is not clear.")
    if exponent < 0:
        return S.Zero
    # for reading: a mean as E of what is averaged
    means = {m: Symbol(f"E[{sympy.sstr(m.integrand)}]") for m in value.atoms(Moment)}
    raise NoLimitError(
        f"a sum over infinitely many members of `{axis}` grows like |{axis}|^{exponent} times "
        f"{sympy.sstr(value.xreplace(means)):.120}; divide by tp.sqrt(tp.size({axis!r})) for independent members, by "
        "tp.size for averages."
    )
