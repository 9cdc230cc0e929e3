"""The maximal update parametrization that changes least of what is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import NoLimitError
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import roles
from tplimits.program.parametrization.table import MUP, Parametrization
from tplimits.regimes.classification.derivation.scaling import scaling_of
from tplimits.regimes.classification.derivation.verdict import verdict_on

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


def nearest_maximal_update(network: Program, parametrization: Parametrization, optimizer: Any) -> Parametrization:
    """μP with the a and a_out that are given, and with the d that is given where the optimizer lets it be.

    By the symmetry (a, b, c, d) → (a + θ, b − θ, c − θ, d + θ) every a will do; then b, c, d are those of μP:

        matrices b = ½ − a, c = 1 − a, d = 1 + a;    vectors b = c = −a, d = 1 + a;
        readouts b = c = 1 − a_out − a, d = a_out + a;    scalars b = c = −a, d = a,

    with powers of n in the program as part of a.  An optimizer of degree 1 sees c − d alone, one of degree 0 no d at
    all: then d stays as given.  Where a term of the output has no readout, a_out is 1.  What is returned has been
    classified: it is the first that learns features of this, of the same with a_out = 1, and of μP itself.

    Raises NoLimitError where none of them does.
    """
    reason = ""
    for found in _candidates(network, parametrization, optimizer):
        verdict = verdict_on(network, found, optimizer)
        if verdict.regime == "feature":
            return found.renamed(f"μP nearest to {parametrization.name}")
        reason = f"is {verdict.regime or 'undecided'}" + (f" ({verdict.breaks[0]})" if verdict.breaks else "")
    raise NoLimitError(
        f"no maximal update parametrization of `{network.name}` near {parametrization!r} was found: μP itself {reason}."
    )


def _candidates(network: Program, parametrization: Parametrization, optimizer: Any) -> Iterator[Parametrization]:
    if roles(network).read_out_everywhere:
        yield _with_rates(network, parametrization, optimizer)
    yield _with_rates(network, replace(parametrization, a_out=sympy.S.One), optimizer)
    yield _with_rates(network, MUP, optimizer)


def _with_rates(network: Program, parametrization: Parametrization, optimizer: Any) -> Parametrization:
    """The b, c, d of μP for the a and a_out that are given."""
    kinds, shifts = roles(network).kinds, scaling_of(network).parameters
    found = {}
    for name, e in parametrization.of(network).items():
        chosen: Optimizer = optimizer[name] if isinstance(optimizer, Mapping) else optimizer
        b, c, d = _maximal(kinds[name], e.a + shifts[name], parametrization.a_out)
        c = c - chosen.extra_power(kinds[name], Exponents(e.a, b, c, d))
        if chosen.degree == 1:
            c, d = c - d + e.d, e.d
        elif chosen.degree == 0:
            d = e.d
        found[name] = Exponents(e.a, b, c, d)
    return parametrization.with_names(found)


def _maximal(kind: str, a: sympy.Expr, a_out: sympy.Expr) -> tuple[sympy.Expr, ...]:
    if kind == "matrix":
        return sympy.S.Half - a, 1 - a, 1 + a
    if kind == "vector":
        return -a, -a, 1 + a
    if kind == "scalar":
        return -a, -a, a
    total = a_out + a
    return 1 - total, 1 - total, total
