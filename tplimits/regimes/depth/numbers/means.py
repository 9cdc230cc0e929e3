"""Source of the Gaussian means of one covariance SDE: each a scalar function of its covariances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.numbers.moments.function import MomentFunction, closed_code
from tplimits.regimes.depth.algebra.means import LOCAL, Definition, Deviation, GaussianMean, U, definition_of
from tplimits.regimes.depth.algebra.products import renamed
from tplimits.regimes.depth.numbers.covariance import mean_function

if TYPE_CHECKING:
    from tplimits.regimes.depth.numbers.contraction import ContractionPlan, Product

#: tokens of the means that are compiled
MOST_TOKENS = 2
_ARGUMENTS = ("c11", "c12", "c22", "det")


@dataclass(frozen=True)
class Mean:
    """One Gaussian mean in generated code: its array, its covariances as planned products, its tables if it has any."""

    name: str
    definition: Definition
    covariances: tuple[tuple[Product, ...], ...]
    coefficients: tuple[Expr, ...]
    tables: int

    @property
    def rank(self) -> int:
        """Tokens."""
        return self.definition.rank

    @property
    def table_names(self) -> tuple[str, ...]:
        """What the tables are called."""
        return tuple(f"T{self.name}{i}" for i in range(self.tables))

    def moment(self, values: Mapping[Expr, float]) -> MomentFunction:
        """The mean at given constants."""
        assert isinstance(self.definition, GaussianMean)
        return mean_function(self.definition, values)


def planned(labels: Sequence[str], plan: ContractionPlan, names: Mapping[str, str]) -> list[Mean]:
    """The means with these labels; their covariances become products of a plan.

    Raises EvaluationError for means at more than two tokens.
    """
    found: list[Mean] = []
    for label in labels:
        definition = definition_of(label)
        assert definition is not None
        if definition.rank > MOST_TOKENS:
            raise EvaluationError(
                "a term of the drift or the noise is a Gaussian mean at more than two tokens at once, for which there "
                "are no compiled steps; method='dense' computes it, slowly."
            )
        change = {LOCAL: -4, LOCAL + 1: -3}
        products = tuple(
            tuple(plan.product(renamed(factors, change), names) for factors, _ in terms)
            for terms in definition.covariances
        )
        numbers = tuple(c for terms in definition.covariances for _, c in terms)
        found.append(Mean(names[label], definition, products, numbers, _tables(definition)))
    return found


def _tables(definition: Definition) -> int:
    """How many tables a mean reads: none where it has a closed form without constants in it."""
    if isinstance(definition, Deviation):
        return 0
    constants = {s for f in definition.functions for s in f.free_symbols} - {U}
    moment = mean_function(definition, dict.fromkeys(constants, 0.7))
    if moment.route == "closed" and not constants:
        return 0
    return len(moment.factors) * len(definition.functions)


def function_source(mean: Mean) -> str:
    """The mean as a compiled function of its covariances, without fast arithmetic: angles rely on the sign of zero."""
    head = '@njit(nogil=True, error_model="numpy")\n'
    tables = "".join(f", {t}" for t in mean.table_names)
    if isinstance(mean.definition, Deviation):
        power = float(mean.definition.power / 2)
        return f"{head}def mean_{mean.name}(c11):\n    return max(c11, 0.0) ** {power!r}\n"
    two = len(mean.definition.functions) == 2
    if mean.tables:
        names, read = mean.table_names, "tabulated.pair" if two else "tabulated.single"
        each = [names[i : i + 1 + two] for i in range(0, len(names), 1 + two)]
        arguments = "c11, c12, c22" if two else "c11"
        total = " + ".join(f"{read}({', '.join(t)}, {arguments})" for t in each)
        return f"{head}def mean_{mean.name}({arguments}{tables}):\n    return {total}\n"
    code = closed_code([mean.moment({})], _ARGUMENTS, scalar=True)
    if not two:
        return head + code.function_text(f"mean_{mean.name}", ("c11",))
    body = code.function_text("", _ARGUMENTS).split("\n", 1)[1]
    return (
        f"{head}def mean_{mean.name}(c11, c12, c22):\n    bound = math.sqrt(c11) * math.sqrt(c22)\n"
        f"    c12 = min(max(c12, -bound), bound)\n    det = c11 * c22 - c12 * c12\n"
        f"    if det < 2e-14 * c11 * c22:\n        det = 0.0\n{body}"
    )
