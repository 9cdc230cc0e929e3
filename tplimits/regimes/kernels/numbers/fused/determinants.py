"""Which determinant rule goes with which part of a recursion.

A law (K11, K12, K22) keeps an accurate determinant where K12 is a Gram matrix of data, a table that has one, aK + b, a
sum of such, a K divided by a function of each input, or the mean of a piecewise linear function.  All of these are
kernels: the covariance of two vectors, as of h and its norm in h − h/|h|, is none, and parts of it are no determinants.
Everything else falls back on K11 K22 − K12².
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.numbers.moments.determinants import Kernel, piecewise_linear, shifted, summed
from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import Data, Moment, TableEntry
from tplimits.regimes.kernels.numbers.tables.own import is_own, one_sided
from tplimits.regimes.kernels.numbers.tables.slopes import slopes

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.fused.statements import Text


class Determinants:
    """Names of determinants for expressions of pairs."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.reads: list[str] = []
        self.known: dict[Expr, str | None] = {}

    def of_law(self, law: tuple[Expr, ...], entries: tuple[str, str, str], kinked: bool) -> str:
        """The determinant of a law, by a rule where there is one."""
        kernel = self._kernel(law[1], law[0], law[2]) if is_own(law) else None
        det = kernel.det if kernel is not None else self._plain(*entries, kinked)
        return self.text.let("det", self.text.writer.select(f"{det} > 0.0", det, "0.0"))

    def _plain(self, c11: str, c12: str, c22: str, kinked: bool) -> str:
        size = self.text.let("size", f"{c11}*{c22}")
        raw = self.text.let("raw", f"{size} - {c12}*{c12}")
        if kinked:
            # no rule: below this share cancellation has left too few digits for an angle, and many digits are asked for
            self.text.let("near", f"{raw} - 1e-9*{size}")
        return self.text.let("snap", self.text.writer.select(f"{raw} > 2e-14*{c11}*{c22}", raw, "0.0"))

    def _kernel(self, cross: Expr, first: Expr | None = None, second: Expr | None = None) -> Kernel | None:
        """The expression with its variances and its determinant; None without a rule."""
        first = first if first is not None else on_side(cross, 1)
        second = second if second is not None else on_side(cross, 2)
        if cross not in self.known:
            self.known[cross] = self._rule(cross)
        det = self.known[cross]
        if det is None:
            return None
        names = [self.text.value(e) for e in (first, cross, second)]
        return Kernel(names[0], names[1], names[2], det)

    def _rule(self, cross: Expr) -> str | None:
        if isinstance(cross, TableEntry) and cross.sides[0] != cross.sides[1]:
            table = self.text.derivation.tables[cross.table]
            return self._rule(table.definition) if len(set(table.nodes)) == 1 else None
        if isinstance(cross, AxisSum):
            return self._gram(cross)
        if isinstance(cross, Moment):
            return self._moment(cross)
        if isinstance(cross, sympy.Mul):
            return self._scaled(cross)
        if isinstance(cross, sympy.Add):
            return self._added(cross)
        return None

    def _gram(self, cross: AxisSum) -> str | None:
        """Determinants of data are computed before the loop, next to their Gram matrix."""
        if len({d.source for d in cross.atoms(Data)}) > 1:
            return None
        name = self.text.value(cross)
        place = list(self.text.grams.values()).index(name) if name in self.text.grams.values() else None
        if place is None:
            return "0.0"
        read = f"d{place} = D[{place}]"
        if read not in self.reads:
            self.reads.append(read)
        return f"d{place}"

    def _moment(self, moment: Moment) -> str | None:
        found = slopes(moment)
        if found is None or len(moment.covariances) != 3 or not is_own(moment.covariances):
            return None
        kernel = self._kernel(moment.covariances[1], moment.covariances[0], moment.covariances[2])
        if kernel is None:
            return None
        return self._written(lambda w: piecewise_linear(w, kernel, *found))

    def _scaled(self, cross: sympy.Mul) -> str | None:
        """A product of one kernel with functions of one input each, or with numbers."""
        pairs = [a for a in cross.args if _of_pair(a)]  # the rest: numbers and functions of one input each
        if len(pairs) != 1:
            return None
        others = [a for a in cross.args if a is not pairs[0]]
        inner, beside = self._kernel(pairs[0]), one_sided(others)
        # −K is no kernel
        if inner is None or beside is None or not self._is_nonnegative(beside[0]):
            return None
        factor = self.text.value(sympy.Mul(*others))
        # (f f′)²(K11 K22 − K12²): factors of one input each come out of the determinant
        return self.text.let("scaled", f"{factor}*{factor}*{inner.det}")

    def _added(self, cross: sympy.Add) -> str | None:
        constant = sympy.Add(*(a for a in cross.args if not _of_pair(a)))
        if constant.has(TableEntry, Data):
            return None
        total: Kernel | None = None
        for addend in (a for a in cross.args if _of_pair(a)):
            kernel = self._kernel(addend)
            if kernel is None:
                return None
            total = kernel if total is None else self._sum(total, kernel)
        if total is None or constant == 0:
            return total.det if total else None
        shift = self._number(constant)
        if shift is None or shift < 0:
            return None
        kernel = total
        return self._written(lambda w: shifted(w, kernel, shift))

    def _sum(self, a: Kernel, b: Kernel) -> Kernel:
        det = self._written(lambda w: summed(w, a, b))
        entries = [
            self.text.let("sum", f"{x} + {y}")
            for x, y in ((a.first, b.first), (a.cross, b.cross), (a.second, b.second))
        ]
        return Kernel(entries[0], entries[1], entries[2], det)

    def _is_nonnegative(self, factor: Expr) -> bool:
        """Whether a factor of all pairs is not negative: a number, or a size of data."""
        return bool(self._at_constants(factor).is_nonnegative)

    def _at_constants(self, expr: Expr) -> Expr:
        return sympy.sympify(expr.xreplace(dict(self.text.constants)))  # a constant alone becomes a float

    def _number(self, expr: Expr) -> float | None:
        value = self._at_constants(expr)
        return float(value) if value.is_number else None

    def _written(self, write) -> str:
        result: str = write(self.text.writer)
        self.text.flush()
        return result


def _of_pair(expr: Expr) -> bool:
    return any(t.sides[0] != t.sides[1] for t in expr.atoms(TableEntry)) or len({d.side for d in expr.atoms(Data)}) == 2


def on_side(expr: Expr, side: int) -> Expr:
    """The expression between an input and itself."""
    both = sympy.Integer(side)
    swap = {t: TableEntry(t.args[0], both, both, *t.indices) for t in expr.atoms(TableEntry)}
    swap |= {d: Data(d.args[0], both, *d.indices) for d in expr.atoms(Data)}
    return expr.xreplace(swap)
