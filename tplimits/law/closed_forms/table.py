"""The one table of closed forms: name, statement, hypothesis, reference, and the rule.

Rows are tried from the top; each removes one kind of factor and hands the rest on, so a product of
a polynomial, steps, exponentials and error functions closes without a row of its own.

>>> [row.name for row in CLOSED_FORMS]
['gaussian-tilt', 'waves', 'error-function', 'delta', 'orthant', 'isserlis']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import sympy
from sympy import Expr, Symbol

from tplimits.law.closed_forms.generic import closed_by_shape
from tplimits.law.closed_forms.integrand import Integrand, Law, NotClosed, Rule, recognise, tidy
from tplimits.law.closed_forms.isserlis import GaussianMoments, delta_mean
from tplimits.law.closed_forms.lifting import lift_error_function
from tplimits.law.closed_forms.orthant import orthant_probability
from tplimits.law.closed_forms.tilting import Rest, tilt, waves
from tplimits.program.parts import remembered


@dataclass(frozen=True)
class ClosedForm:
    """One row: where the integrand has factors of kind `applies`, `rule` gives the mean."""

    name: str
    statement: str
    hypothesis: str
    reference: str
    citation: str
    applies: str
    rule: Rule


def _deltas(law: Law, integrand: Integrand, rest: Rest) -> Expr:
    if len(integrand.deltas) > 1:
        raise NotClosed
    (form,) = integrand.deltas
    _, conditional = law.given(form)
    # given the delta's form such a step is a constant, 0, 1 or just at its jump
    if any(conditional.inner(step.slope, step.slope) == 0 for step in integrand.steps):
        raise NotClosed  # a delta on a jump: the product is ambiguous
    parts = (c * delta_mean(law, e, form, integrand.steps, orthant_probability) for e, c in integrand.polynomial)
    return tidy(sympy.Add(*parts))


def _orthants(law: Law, integrand: Integrand, rest: Rest) -> Expr:
    return GaussianMoments(law, orthant_probability).polynomial(integrand.polynomial, integrand.steps)


CLOSED_FORMS: tuple[ClosedForm, ...] = (
    ClosedForm(
        "gaussian-tilt",
        r"E e^{-\frac12 g^\top A g+b^\top g}F(g)=\det(I+CA)^{-1/2}e^{\frac12 b^\top C'b}\,E F(g'+C'b)",
        "I + C^½ A C^½ positive definite, C' = (I + CA)⁻¹ C",
        "Cameron & Martin 1944; Williams 1998 for Gaussian bumps",
        "cameron1944transformations",
        "exponents",
        tilt,
    ),
    ClosedForm(
        "waves",
        r"E e^{i a^\top g}P(g)=e^{-\frac12 a^\top C a}\,E P(g+iCa)",
        "P a polynomial",
        "characteristic function of a Gaussian; Rahimi & Recht 2007 for the cosine kernel",
        "rahimi2007random",
        "waves",
        waves,
    ),
    ClosedForm(
        "error-function",
        r"\mathrm{erf}(u)=E_g[2\,\mathrm{step}(\sqrt2u+g)-1]",
        "g standard normal, independent",
        "Williams 1996 (the arcsine kernel is its consequence)",
        "williams1996computing",
        "errors",
        lift_error_function,
    ),
    ClosedForm(
        "delta",
        r"E\,\delta(\ell+c)F=\varphi_s(c)\,E[F\mid\ell=-c]",
        "s² = Var ℓ > 0, one delta",
        "Stein 1981, Lemma 1, applied to a step",
        "stein1981estimation",
        "deltas",
        _deltas,
    ),
    ClosedForm(
        "orthant",
        r"E\,P(g)\prod_k\mathrm{step}(\ell_k)\ \text{by parts down to}\ \tfrac14+\tfrac1{2\pi}\arcsin\rho",
        "at most three correlated forms without offset, or one with",
        "Sheppard 1899; Cho & Saul 2009 (arc-cosine kernels)",
        "cho2009kernel",
        "steps",
        _orthants,
    ),
    ClosedForm(
        "isserlis",
        r"E g_iP(g)=\sum_jC_{ij}E\,\partial_jP(g)",
        "P a polynomial",
        "Isserlis 1918",
        "isserlis1918formula",
        "polynomial",
        _orthants,
    ),
)


def close(
    factors: Sequence[Expr],
    variables: Sequence[Symbol],
    law: Callable[[], Law],
    table: Sequence[ClosedForm] = CLOSED_FORMS,
) -> tuple[Expr, tuple[str, ...]]:
    """The mean of a product of elementary factors, and the names of the rows used.

    `law` is asked for only once the factors are recognised: its covariances may be costly.  Raises
    NotClosed when a factor or combination is outside the table.

    >>> from tplimits.program.nodes import functions
    >>> g = Symbol("g", real=True)
    >>> close([g**2, functions.step(g)], [g], lambda: Law(((sympy.Integer(3),),)))
    (3/2, ('orthant',))
    """
    integrand = recognise(factors, variables)
    return closed_by_shape(partial(_remembered, tuple(table)), law(), integrand)


def _remembered(table: tuple[ClosedForm, ...], law: Law, integrand: Integrand) -> tuple[Expr, tuple[str, ...]]:
    # also a failure is remembered: it is asked for again as often as a success
    found = _applied(table, law, integrand)
    if found is None:
        raise NotClosed
    return found


@remembered(5000)
def _applied(table: tuple[ClosedForm, ...], law: Law, integrand: Integrand) -> tuple[Expr, tuple[str, ...]] | None:
    """Rows applied from the top until nothing is left; None where no row applies or one gives up."""
    used: dict[str, None] = {}

    def continue_with(current: Law, left: Integrand) -> Expr:
        for row in table:
            if getattr(left, row.applies):
                # names in the order of use, each once: steps and pages cite them
                used.setdefault(row.name)
                return row.rule(current, left, continue_with)
        raise NotClosed

    try:
        return continue_with(law, integrand), tuple(used)
    except NotClosed:
        return None
