"""Laws of initial entries: images of a standard normal variable, mean + std·ζ(g) with E ζ = 0 and E ζ² = 1.

    normal        ζ = g
    uniform       ζ = √3 erf(g/√2)
    signs         ζ = sign(g): ±1 with probability ½ each
    orthogonal    of square matrices alone: √n times a uniformly distributed orthogonal matrix, whose entries depend on
                  one another
    truncated     ζ = T(g)/s, T(g) = √2 erfinv(erf(c/√2) erf(g/√2)), s² = 1 − 2c φ(c)/(2Φ(c) − 1)
    grid          places of neurons, (j + ½)/n for neuron j: the image of a uniform variable in limits, ζ = √3 erf(g/√2)
    given         no law: numbers along a width that come with the program's weights, such as sines of positions

T(g) is a standard normal variable given that it lies within ±c.  Whatever asks for second moments alone reads `mean`
and `std`; what samples, or takes functions, reads the `image`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy
from sympy import Expr, S

from tplimits.program.nodes.functions import truncated

#: of entries that are given whenever the program runs; nothing is said of them, so that no limit is derived
GIVEN = "given"
#: of square matrices, drawn as wholes
ORTHOGONAL = "orthogonal"
#: of entries (j + ½)/n, the places of neurons, which no draw changes
GRID = "grid"
SHAPES = ("normal", "uniform", "truncated", "signs", ORTHOGONAL, GRID, GIVEN)


@dataclass(frozen=True)
class Law:
    """The law of the entries of initial data: mean and standard deviation, 0 for a constant, and the shape.

    `cut` is the bound c of a truncated law, in standard deviations of the normal law that is truncated.
    """

    mean: Expr = S.Zero
    std: Expr = S.One
    shape: str = "normal"
    cut: Expr | None = None

    def image(self, g: Expr) -> Expr:
        """An entry as a function of a standard normal variable."""
        return self.mean + self.std * self.shaped(g)

    def shaped(self, g: Expr) -> Expr:
        """ζ: the entry without mean and standard deviation."""
        if self.shape in ("uniform", GRID):
            return sympy.sqrt(3) * sympy.erf(g / sympy.sqrt(2))
        if self.cut is not None:
            return truncated(g, self.cut) / _spread(self.cut)
        return sympy.sign(g) if self.shape == "signs" else g

    def changed(self, change: Callable[[Expr], Expr]) -> Law:
        """The law with something done to its numbers."""
        return Law(change(self.mean), change(self.std), self.shape, None if self.cut is None else change(self.cut))

    @property
    def ends(self) -> tuple[Expr, Expr]:
        """The interval of a uniform law."""
        half = sympy.sqrt(3) * self.std
        return sympy.expand(self.mean - half), sympy.expand(self.mean + half)

    @property
    def bound(self) -> tuple[Expr, Expr] | None:
        """The standard deviation of the normal law that is truncated, and where; None for other laws."""
        if self.cut is None:
            return None
        std = self.std / _spread(self.cut)
        return std, self.cut * std

    def described(self, write: Callable[[Expr], str] = str) -> str:
        """The law in words; `write` prints numbers.

        >>> uniform(S(-1), S(1)).described(), truncated_normal(S(2), S(4)).described(), Law().described()
        ('uniform in [-1, 1]', 'N(0, 4) within ±4', 'N(0, 1)')
        """
        if self.std == 0:
            return write(self.mean)
        if self.shape == GIVEN:
            return "given numbers"
        if self.shape == "uniform":
            return "uniform in [{}, {}]".format(*map(write, self.ends))
        if self.shape == GRID:
            return "(j + 1/2)/n, j the number of the neuron"
        if self.shape == "signs":
            return f"{write(self.mean)} ± {write(self.std)}" if self.mean else f"±{write(self.std)}"
        if self.bound is not None:
            std, end = self.bound
            return f"N({write(self.mean)}, {write(std**2)}) within ±{write(end)}"
        return f"N({write(self.mean)}, {write(self.std**2)})"


#: what entries have unless told otherwise
NORMAL = Law()


#: the places of neurons
PLACES = Law(sympy.Rational(1, 2), 1 / sympy.sqrt(12), GRID)


def uniform(low: Expr, high: Expr) -> Law:
    """The uniform law on [low, high]."""
    return Law((low + high) / 2, sympy.sqrt(3) * (high - low) / 6, "uniform")


def truncated_normal(std: Expr, at: Expr) -> Law:
    """N(0, std²), given that an entry lies within ±at."""
    cut = at / std
    return Law(S.Zero, std * _spread(cut), "truncated", cut)


def of_columns(law: Law, columns: str, write: Callable[[Expr], str] = str) -> str:
    """In words the law of entries ζ/√columns of a matrix, ζ of a law with mean 0 and variance 1.

    >>> of_columns(NORMAL, "n"), of_columns(Law(shape="uniform"), "n")
    ('N(0, 1/n)', 'uniform, of variance 1/n')
    """
    if law.shape == "signs":
        return f"±1/sqrt({columns})"
    if law.shape == ORTHOGONAL:
        return "of a uniformly distributed orthogonal matrix"
    if law.cut is not None:
        return f"normal within ±{write(law.cut)} deviations, of variance 1/{columns}"
    return f"N(0, 1/{columns})" if law == NORMAL else f"{law.shape}, of variance 1/{columns}"


def _spread(c: Expr) -> Expr:
    """The standard deviation of a standard normal variable within ±c."""
    density = sympy.exp(-(c**2) / 2) / sympy.sqrt(2 * sympy.pi)
    return sympy.sqrt(1 - 2 * c * density / sympy.erf(c / sympy.sqrt(2)))
