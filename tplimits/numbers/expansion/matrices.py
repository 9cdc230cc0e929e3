"""A matrix by what it was applied to, exactly in law at every width (Bolthausen's conditioning).

With orthonormal q_i, W q_i = z_i and p_j, Wᵀ p_j = y_j known, both by averages at finite width, a product W x is

    c_i = Avg(q_i x),   N = Avg(x²) − Σ c_i²,   q = (x − Σ c_i q_i)/√N
    z = g − Σ_j p_j Avg(p_j g) + (n_in/n_out) Σ_j p_j Avg(y_j q),   W x = Σ c_i z_i + √N z

with g fresh and normal: of variance 1 for W, n_out/n_in for Wᵀ, whose factor is n_out/n_in.  In the limit
Avg(p_j g) is 0 and norms are numbers; here both are averages like others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

J = TypeVar("J")


class Algebra(Protocol[J]):
    """What averages of one kind can do; `ratios` are widths relative to n."""

    @property
    def ratios(self) -> Mapping[str, float]: ...
    def average(self, x: J, axis: str, label: str) -> J: ...
    def product(self, u: J, w: J) -> J: ...
    def sum(self, *jets: J) -> J: ...
    def scaled(self, x: J, factor: float) -> J: ...
    def power(self, x: J, power: float) -> J: ...
    def normal(self, axis: str, variance: float) -> J: ...


class _Side(Generic[J]):
    """One orientation: orthonormal vectors it was applied to, and their images."""

    def __init__(self) -> None:
        self.inputs: list[J] = []
        self.images: list[J] = []


class Matrix(Generic[J]):
    """W of rows × columns, entries of variance 1/columns, with what is known of it; `name` is for labels."""

    def __init__(self, name: str, rows: str, columns: str) -> None:
        self.name, self.rows, self.columns = name, rows, columns
        self.sides: dict[bool, _Side[J]] = {False: _Side(), True: _Side()}

    def apply(self, averages: Algebra[J], x: J, transposed: bool, name: str, is_new: Callable[[J, J], bool]) -> J:
        """W x, or Wᵀ x; `is_new(N, ⟨x|x⟩)` tells whether x has a part beyond the vectors before."""
        target, source = (self.columns, self.rows) if transposed else (self.rows, self.columns)
        side, label = self.sides[transposed], self.name + ("ᵀ" if transposed else "")
        minus = [averages.average(averages.product(q, x), source, f"⟨·|{name}⟩ in {label}") for q in side.inputs]
        square = averages.average(averages.product(x, x), source, f"⟨{name}|{name}⟩ in {label}")
        rest = averages.sum(square, *(averages.scaled(averages.product(c, c), -1.0) for c in minus))
        known = [averages.product(c, z) for c, z in zip(minus, side.images, strict=True)]
        # no direction beyond the known ones: √N at N = 0 has no derivative, and W adds nothing
        if not is_new(rest, square):
            return averages.sum(*known) if known else averages.scaled(x, 0)
        length = averages.power(rest, 0.5)
        beside = averages.sum(
            x, *(averages.scaled(averages.product(c, q), -1.0) for c, q in zip(minus, side.inputs, strict=True))
        )
        q = averages.product(averages.power(rest, -0.5), beside)
        z = self._image(averages, q, transposed, (source, target), name)
        side.inputs.append(q)
        side.images.append(z)
        return averages.sum(*known, averages.product(length, z))

    def _image(self, averages: Algebra[J], q: J, transposed: bool, axes: tuple[str, str], name: str) -> J:
        """W q for a new direction."""
        source, target = axes
        other, label = self.sides[not transposed], self.name + ("ᵀ" if transposed else "")
        ratio = averages.ratios[source] / averages.ratios[target]
        variance = averages.ratios[self.rows] / averages.ratios[self.columns] if transposed else 1
        total = fresh = averages.normal(target, variance)
        for p, y in zip(other.inputs, other.images, strict=True):
            seen = averages.average(averages.product(p, fresh), target, f"fresh part of {label}{name}")
            back = averages.average(averages.product(y, q), source, f"{label} back on {name}")
            total = averages.sum(
                total,
                # given Wᵀp_j = y_j the part of W q along p_j is known, and what the fresh normal has there is taken
                # away
                averages.scaled(averages.product(p, seen), -1.0),
                averages.scaled(averages.product(p, back), ratio),
            )
        return total
