"""What fluctuates around a value as a scalar of size 1 of the model, Gaussian in the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.regimes.depth.algebra.forms import together
from tplimits.regimes.depth.algebra.means import LOCAL
from tplimits.regimes.depth.algebra.model import Scalar
from tplimits.regimes.depth.algebra.products import OPEN, SPAN, Poly, ProductTerm, indices, lowest, times
from tplimits.regimes.depth.algebra.vanishing import vanishes
from tplimits.regimes.depth.algebra.writing import defined
from tplimits.regimes.depth.derivation.cumulants import times as times_form
from tplimits.regimes.depth.derivation.laws import Laws
from tplimits.regimes.depth.derivation.not_covered import EntangledError
from tplimits.regimes.depth.derivation.placing import freed
from tplimits.regimes.depth.derivation.scalars.limits import NotSmall
from tplimits.regimes.depth.derivation.scalars.scalars import size

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering


def scalar_of(
    lowering: Lowering, small: Poly, env: Mapping[Expr, int], shown: Expr
) -> tuple[int, tuple[int, ...], int]:
    """What fluctuates as a scalar of size 1 of the model, where it stands, and the order it had.

    NoLimitError where it is not Gaussian in the limit, or has a mean of the size of its fluctuations.
    """
    at = tuple(i for i in dict.fromkeys(env.values()) if i in indices(f for t in small.terms for f in t.factors))
    opened = merged_terms(small, at)
    inner = [f for t in opened for f in t.factors if f[0][0] == "G"]
    if inner:
        raise EntangledError(
            f"{lowering.where}: not covered: a kink inside of a kink, in the argument of `{shown}`.",
            Laws(lowering.model, lowering.arrays).matrices(inner),
        )
    local = tuple(LOCAL + k for k in range(len(at)))
    known = lowering.arrays.values
    # its size is the first order at which its variance does not vanish, which cancellations may put above its terms
    for order in range(lowest(small), lowering.limit + 1):
        terms = tuple(t._replace(powers=times(t.powers, 0, order), pert=max(0, t.pert - order)) for t in opened)
        # of size 1 by this power of n, if its variance then has a part of order 1
        candidate = Scalar(Poly(terms), tuple(i // SPAN for i in at))
        # a model of its own: a scalar that turns out to be of another size must leave no trace
        laws = Laws(replace(lowering.model, scalars=[candidate]), lowering.arrays)
        try:
            mean, spread = laws.moment([(0, local)]), laws.covariance(0, local, 0, local)
        except NoLimitError as error:
            lowering.fail(str(error))
        large = [f for o, f in mean.forms.items() if o <= 0 and not vanishes(f, known)]
        if large:
            form, where_ = defined(freed(large[0]), known)
            raise NotSmall(  # a function of Gaussian scalars all the same, where it is small enough
                f"{lowering.where}: the argument y of `{shown}` has the mean {form} of order {size(order)}{where_}, "
                "at least as large as its fluctuations, so that the kink is passed at random, or where V decides; "
                "subtract the mean of the argument, as in tp.avg(h * h) - tp.avg(x * x), use a smooth function, or let "
                "the function itself be of size 1/n."
            )
        if 0 in spread.forms and not vanishes(spread[0], known):
            _insist_on_gaussian(lowering, laws, local, shown)
            # the same scalar read twice is one: functions of it are multiplied before their mean is taken
            if candidate not in lowering.model.scalars:
                lowering.model.scalars.append(candidate)
            return lowering.model.scalars.index(candidate), at, order
    lowering.fail(
        f"the argument y of `{shown}` is zero to every order that is kept, and the function has a kink, jump or pole "
        "there; leave it out, or do not divide its argument by that power of n."
    )


def _insist_on_gaussian(lowering: Lowering, laws: Laws, local: tuple[int, ...], shown: Expr) -> None:
    """Refuse a scalar whose fourth cumulant does not vanish: for such averages that tells (Nualart, Peccati)."""
    # one average over neurons that are alike, given the rest: the central limit theorem
    if all(_is_average(lowering, t) for t in laws.model.scalars[0].poly.terms if t.pert < 1):
        return
    second = laws.moment([(0, local)] * 2)[0]
    fourth = laws.moment([(0, local)] * 4)[0] - times_form(second, second).scaled(sympy.Integer(3))
    if not vanishes(fourth, lowering.arrays.values):
        raise NotSmall(
            f"{lowering.where}: the argument y of `{shown}` is not Gaussian in the limit, and only Gaussian ones have "
            "means here: it averages over a width that stays fixed, or is a product of averages that both fluctuate. "
            "Let the width grow with n, or use a smooth function."
        )


def _is_average(lowering: Lowering, term: ProductTerm) -> bool:
    """Whether what is random in a term is one average over a width that grows, of neurons that are alike."""
    neurons = {at[-1] for label, at, _ in term.factors if label[0] == "F"}
    dimensions = [lowering.model.dimensions[i // SPAN] for i in neurons if i >= 0]
    return len(neurons) == len(dimensions) <= 1 and all(d.width and d.grows for d in dimensions)


def merged_terms(poly: Poly, at: tuple[int, ...]) -> list[ProductTerm]:
    """A template with equal products merged, so that what cancels is gone."""
    change = {i: OPEN - k for k, i in enumerate(at)}
    return [t._replace(factors=factors) for factors, t in together(poly.terms, change)]
