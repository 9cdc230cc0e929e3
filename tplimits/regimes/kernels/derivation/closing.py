"""Closed forms of the Gaussian means of a kernel derivation, as functions of covariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, S, Symbol

from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians, HatSource
from tplimits.program.nodes.entries import axis_symbol, variable
from tplimits.program.parts import remembered
from tplimits.regimes.kernels.derivation.leaves import Moment, TableEntry, sided
from tplimits.regimes.kernels.derivation.terms import at

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.nodes import KernelTable

#: means over more variables are left as they are
_MOST_VARIABLES = 3


@dataclass(frozen=True)
class MeanFunction:
    """A mean E F(z; p), z ~ N(0, C), as a function of the covariances that do not vanish and of parameters."""

    integrand: Expr
    variables: tuple[Symbol, ...]
    covariances: tuple[Expr, ...]
    parameters: tuple[Symbol, ...]

    @property
    def arguments(self) -> tuple[Symbol, ...]:
        """Symbols of the covariances, then the parameters."""
        symbols = (c for c in self.covariances if isinstance(c, Symbol))
        return (*dict.fromkeys(symbols), *self.parameters)

    def covariance(self, i: int, j: int) -> Expr:
        """C between two of the variables."""
        a, b = min(i, j), max(i, j)
        return self.covariances[a * len(self.variables) - a * (a - 1) // 2 + b - a]


def mean_function(moment: Moment) -> tuple[MeanFunction, tuple[Expr, ...]]:
    """The function that a moment is a value of, and its arguments there."""
    variables, places = moment.variables, []
    upper = iter(moment.covariances)
    given: list[Expr] = []
    for i in range(1, len(variables) + 1):
        for j in range(i, len(variables) + 1):
            value = next(upper)
            if value == 0:
                places.append(S.Zero)
            else:
                # a variance, or a covariance
                places.append(Symbol(f"c{i}{j}", positive=True) if i == j else variable(f"c{i}{j}"))
                given.append(value)
    function = MeanFunction(moment.integrand, variables, tuple(places), moment.parameters)
    return function, (*given, *moment.values)


def with_closed_means(tables: Sequence[KernelTable], expr: Expr) -> Expr:
    """An expression with its scalars and their means in closed form, where they have one: algebra sees their zeros."""
    while single := [e for e in expr.atoms(TableEntry) if tables[e.table].single]:
        swap = {}
        for entry in single:
            table = tables[entry.table]
            places = dict(zip(map(axis_symbol, table.left), entry.indices, strict=True))
            swap[entry] = at(sided(table.definition, *entry.sides), places)
        expr = expr.xreplace(swap)
    for moment in expr.atoms(Moment):
        function, arguments = mean_function(moment)
        known = closed_form(function)
        if known is not None:
            expr = expr.xreplace({moment: known[0].xreplace(dict(zip(function.arguments, arguments, strict=True)))})
    return expr


@remembered(1 << 10)
def closed_form(function: MeanFunction) -> tuple[Expr, tuple[str, ...]] | None:
    """The mean in closed form with the rows of the table that were used; None where the table does not close it.

    >>> from sympy import Symbol
    >>> z, c = Symbol("z1", real=True), Symbol("c11", positive=True)
    >>> closed_form(MeanFunction(z**2, (z,), (c,), ()))[0]
    c11
    """
    if len(function.variables) > _MOST_VARIABLES:
        return None
    gaussians = Gaussians()
    # as images of one matrix: the width engine takes covariances of such hats from whoever knows them
    names = {z: gaussians.add(z.name, HatSource((0, (), False), i)) for i, z in enumerate(function.variables)}
    gaussians.hat_covariance = lambda a, b: function.covariance(a.use, b.use)
    engine = Expectations(gaussians)
    value = engine.mean(function.integrand.xreplace(names))
    if engine.moments:
        return None
    return value, tuple(engine.used_rows)
