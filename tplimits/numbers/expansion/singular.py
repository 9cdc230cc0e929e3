"""Functions of vectors that an expansion to order 1/n does not reach: poles and roots, and what no power bounds.

    b and C are means of second derivatives and of squares: f polynomially bounded with its derivatives, or of scalars

A pole of a vector's function has moments at most up to some order, and its derivatives fewer; an exponential of a
vector has them all in the limit, but E exp(Avg(e^x)) is infinite at every width.  So a pole has to stay away from what
is divided by, and an exponential needs an argument that is bounded from above, or a place in a function that keeps it
below a power together with its derivatives, as the branch of an ELU does.
"""

from __future__ import annotations

from collections.abc import Callable

from sympy import DiracDelta, Dummy, Expr, S, Symbol, cancel

from tplimits.errors import NoLimitError
from tplimits.law.gaussians import Gaussians, independent
from tplimits.law.hypotheses.absolutes import over_moduli
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.tails import Growth
from tplimits.law.hypotheses.vanishing import FORM, function_of, vanishing
from tplimits.numbers import near_zero
from tplimits.program.nodes.domains import ends_of_domains, singular_places
from tplimits.program.nodes.entries import Entry, entries, reads_vectors
from tplimits.program.nodes.hidden_jumps import derivative
from tplimits.program.nodes.log_sums import without_overflow
from tplimits.program.nodes.properties import EXPONENTIAL, FADING
from tplimits.program.nodes.series import near
from tplimits.program.parts import found, remembered

#: what grows faster than any power, and the sign with which an argument has to be bounded from above
_FAST = {head: (1,) if head in FADING else (1, -1) for head in EXPONENTIAL}


@remembered(1 << 10)
def continued(body: Expr) -> Expr:
    """A body whose removable poles at vectors are read off power series in functions of one variable."""
    if not any(reads_vectors(argument) for _, argument in singular_places(body)):
        return body
    body = over_moduli(body)
    names = {e: Dummy(real=True) for e in entries(body)}
    law = independent(names.values())
    whole = near_zero.beside_poles(body.xreplace(names), tuple(names.values()))
    # by the variable of their series: derivatives of functions of one variable are read
    alone = {
        one: near(one.args[0], function, *one.args[2:]) for one in found(whole, near) if (function := _alone(one, law))
    }
    return whole.xreplace(alone).xreplace({name: e for e, name in names.items()})


def _alone(one: near, law: Gaussians) -> Expr | None:
    return function_of(one.args[1], one.args[0], law)


def written(body: Expr) -> Expr:
    """A body with functions in the place of their series."""
    return body.xreplace({one: one.definition().xreplace({FORM: one.args[0]}) for one in found(body, near)})


def refuse_growth(body: Expr, inside: Callable[[Entry], Expr | None], shown: Callable[[Expr], str], where: str) -> None:
    """NoLimitError where an exponential of vectors makes a body, or a derivative of it, larger than any power."""
    stable = without_overflow(body)
    for node in found(stable, *_FAST):
        if reads_vectors(node):
            low, high = bounds(opened(node.args[0], inside))
            # E exp(Avg eˣ) is infinite at every width, whatever the limit says
            if any((high if sign > 0 else -low) is S.Infinity for sign in _FAST[type(node)]):
                if _is_within_powers(opened(body, inside)):
                    return
                raise NoLimitError(
                    f"{where}: `{shown(node)}` grows faster than any power of its argument, a vector: moments to the "
                    "order that 1/n needs are not established (hypothesis: functions of vectors are bounded by "
                    "polynomials, with two derivatives). Bound the argument, or take an exponential of averages."
                )


@remembered(1 << 8)
def _is_within_powers(body: Expr) -> bool:
    """Whether a function of vectors and its derivatives up to the second are bounded by powers, off its kinks.

    >>> from sympy import exp
    >>> from tplimits.program.nodes.functions import where
    >>> x = Symbol("x", real=True)
    >>> [_is_within_powers(f) for f in (where(x, x, exp(x) - 1), where(x, exp(x), x), exp(x), exp(-exp(x)))]
    [True, False, False, False]
    """
    variables = sorted(body.free_symbols, key=str)
    law = independent(variables)
    whole = [body]
    for _ in range(2):
        whole += [derivative(f, v).replace(DiracDelta, lambda *_: S.Zero) for f in whole for v in variables]
    tails = (tail(f, law) for f in dict.fromkeys(whole))
    return all(t.kind in (Growth.BOUNDED, Growth.POLYNOMIAL) and t.power is S.Infinity for t in tails)


def refuse_singular(
    body: Expr,
    inside: Callable[[Entry], Expr | None],
    shown: Callable[[Expr], str],
    where: str,
    still: Callable[[tuple[Expr, Expr]], bool],
) -> None:
    """NoLimitError where a body has a pole or a root that vectors reach.

    `inside` gives the body of a vector that is a function of others, and the number of a scalar; None for others.
    `still` says whether a pole or root that vectors reach, (part, argument), is one at which nothing moves.
    """
    for node, argument in reached(body, inside):
        if not still((node, argument)):
            raise NoLimitError(
                f"{where}: `{shown(node)}` has a pole or a root where `{shown(argument)}`, a vector, comes near 0: "
                "there functions are expanded of what does not move with averages of the program alone, as multiples "
                "of W x (hypothesis: functions of vectors are bounded by polynomials, with two derivatives). Keep it "
                "away from zero, as x² + 1 is."
            )


def reached(body: Expr, inside: Callable[[Entry], Expr | None]) -> list[tuple[Expr, Expr]]:
    """The poles and roots of a body that vectors reach, and their arguments."""
    found = []
    for node, argument in _places(body):
        if reads_vectors(argument):
            low, high = bounds(opened(argument, inside))
            if not (low > 0 or high < 0):
                found.append((node, argument))
    return found


def _places(body: Expr) -> list[tuple[Expr, Expr]]:
    """What may be singular where an argument is zero, but for poles that a series stands for: (part, argument)."""
    series = {one: Dummy(real=True) for one in found(body, near)}
    bare = body.xreplace(series)
    places = [*singular_places(bare), *ends_of_domains(bare)]
    for one in series:
        t, function = one.args[:2]
        if not function.has(FORM):
            # of several variables, by its series where t = 0
            places += [(node, a) for node, a in _places(function) if not cancel(a / t).is_number]
            continue
        law = independent([FORM])
        for node, argument in _places(function):
            zeros = vanishing(argument, law)
            only = zeros is not None and all(f in (FORM, -FORM) for f, _ in (*zeros.forms, *zeros.others))
            places += [] if only else [(node.xreplace({FORM: t}), argument.xreplace({FORM: t}))]
        places += _places(t)
    return places


def opened(expr: Expr, inside: Callable[[Entry], Expr | None]) -> Expr:
    """With functions of vectors written out, numbers for scalars, and symbols for what is left."""
    swap: dict[Expr, Expr] = {}
    for e in entries(expr):
        body = inside(e)
        swap[e] = Symbol(f"x {e}", real=True) if body is None else opened(body, inside)
    return expr.xreplace(swap)
