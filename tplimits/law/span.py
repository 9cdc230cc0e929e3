"""Linear dependence among kets, decided symbolically: what makes W(a + b) add no new direction.

A ket is a vector over its random monomials; the vectors seen so far are kept in echelon form, each
with its expression in the original ones.
"""

from __future__ import annotations

from sympy import Expr, S

from tplimits.law.closed_forms.integrand import NotClosed, tidy

Vector = dict[Expr, Expr]


def negligible(value: Expr, tolerance: float) -> bool:
    """Whether a number is zero, or as good as zero where constants are data."""
    if value == 0:
        return True
    return bool(tolerance and value.is_number and abs(value.evalf(20)) <= tolerance)


class Span:
    """The span of the vectors added so far.

    `tolerance` is positive where array constants (data, known to rounding) decide what is dependent;
    `judged` tells whether it was needed.
    """

    def __init__(self, tolerance: float = 0.0) -> None:
        self.tolerance, self.judged = tolerance, False
        self._rows: list[tuple[Expr, Vector, dict[int, Expr]]] = []  # (pivot, row, row in the originals)
        self._seen: set[Expr] = set()

    def add(self, vector: Vector, name: int) -> dict[int, Expr] | None:
        """Add a vector called `name`; if it is a combination of earlier ones, return that instead.

        A vector whose coefficients are too long to compare counts as new, and later ones are not compared with it.
        """
        try:
            return self._add(vector, name)
        except NotClosed:
            return None

    def _add(self, vector: Vector, name: int) -> dict[int, Expr] | None:
        # a monomial that no earlier vector has settles independence without any arithmetic: the common case
        fresh = [a for a in vector if a not in self._seen]
        left, combination = dict(vector), {name: S.One}
        if not fresh:
            # newest first: no older row holds a newer pivot
            for pivot, row, originals in reversed(self._rows):
                if pivot in left:
                    factor = left[pivot] / row[pivot]
                    left = self._reduced(left, factor, row)
                    combination = _difference(combination, factor, originals)
        if not left:
            del combination[name]
            return {o: -c for o, c in combination.items() if c != 0}
        # a fresh pivot stands in no older row, so that none has to be reduced by the new one
        pivot = fresh[0] if fresh else next(iter(left))
        rows = self._rows
        if not fresh:
            rows = []
            for other, row, originals in self._rows:
                if pivot in row:
                    factor = row[pivot] / left[pivot]
                    row, originals = self._reduced(row, factor, left), _difference(originals, factor, combination)
                rows.append((other, row, originals))
        self._rows = [*rows, (pivot, left, combination)]
        self._seen.update(left)
        return None

    def _reduced(self, target: Vector, factor: Expr, row: Vector) -> Vector:
        result = dict(target)
        for atom, c in row.items():
            # NotClosed in here gives the question up: a zero that is not seen would become a pivot
            value = tidy(target.get(atom, S.Zero) - factor * c)
            if negligible(value, self.tolerance):
                self.judged |= value != 0
                result.pop(atom, None)
            else:
                result[atom] = value
        return result


def _difference(left: dict[int, Expr], factor: Expr, right: dict[int, Expr]) -> dict[int, Expr]:
    """left − factor · right, for combinations of the original vectors."""
    return {**left, **{name: tidy(left.get(name, S.Zero) - factor * c) for name, c in right.items()}}
