"""Quadrant moments of a Gaussian pair, written as text.

An `Angle` is the pair (u, u') by its covariance and an accurate determinant; `half(i, j)` is
s^i s'^j I_ij(φ), the moment E[u^i u'^j; u > 0, u' > 0] without its radial factor; `other` the same of (u, −u'), `even`
and `odd` their sum and difference.  See `sectors` for the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

from tplimits.numbers.moments.sectors import SERIES_BELOW, Polynomial, parity, sector
from tplimits.numbers.moments.writing import Writer, number, polynomial, power, product

#: keeps a quotient by zero variances finite; its numerator is zero there
TINY = "1e-300"


@dataclass(frozen=True)
class Angle:
    """A Gaussian pair by the names of Var u, Cov(u, u'), Var u' and the determinant."""

    writer: Writer
    first: str
    cross: str
    second: str
    det: str

    @property
    def is_one(self) -> bool:
        """Whether u' is u: φ = π and θ = 0 then, whatever the variance."""
        return self.det == "0.0" and self.cross == self.first

    @property
    def root(self) -> str:
        """√det = s s' sin φ."""
        if self.is_one:
            return "0.0"
        return self.writer.let(self.writer.call("sqrt", self.det))

    @property
    def size(self) -> str:
        """s s'."""
        return self.writer.let(self.writer.call("sqrt", f"{self.first}*{self.second}"))

    @property
    def phi(self) -> str:
        """π − θ, zero for a pair of zero variance (a difference from 0.0 is never −0.0 there)."""
        if self.is_one:  # what is no number stays none
            return self.writer.let(self.writer.select(f"{self.first} > 0.0", "3.141592653589793", self.first))
        return self.writer.let(self.writer.call("atan2", self.root, f"0.0 - {self.cross}"))

    @property
    def theta(self) -> str:
        """θ, zero for a pair of zero variance."""
        if self.is_one:
            return "0.0"
        return self.writer.let(self.writer.call("atan2", self.root, f"{self.cross} + 0.0"))

    @property
    def psi(self) -> str:
        """φ − π/2 = arcsin of the correlation."""
        if self.is_one:
            return self.writer.let(f"0.5*{self.phi}")
        return self.writer.let(self.writer.call("atan2", self.cross, self.root))

    @property
    def sine(self) -> str:
        """sin φ = sin θ = cos ψ."""
        return self.writer.let(f"{self.root}/({self.size} + {TINY})")

    @property
    def cosine(self) -> str:
        """cos θ = sin ψ = −cos φ."""
        return self.writer.let(f"{self.cross}/({self.size} + {TINY})")

    def half(self, i: int, j: int) -> str:
        """s^i s'^j I_ij(φ)."""
        if i == j == 0:
            return self.phi
        return self._half(i, j, self.phi, -1)

    def other(self, i: int, j: int) -> str:
        """s^i s'^j I_ij(π − φ): the same of (u, −u')."""
        if i == j == 0:
            return self.theta
        return self._half(i, j, self.theta, 1)

    def _half(self, i: int, j: int, angle: str, sign: int) -> str:
        """`sign` · correlation is the cosine of the angle."""
        if angle == "0.0":
            return angle
        found = sector(i, j)
        if i == j == 1:
            closed = f"0.5*({self.root} {'+' if sign < 0 else '-'} {angle}*{self.cross})"
        else:
            parts = (found.angle, found.plain, found.sine)
            turned = [tuple(c * sign**k for k, c in enumerate(part)) for part in parts]
            closed = f"{self._scale(i, j)}*{self._assembled(turned, angle)}"
        if self.writer.series and not self.is_one:
            square = self.writer.let(f"{angle}*{angle}")
            lead = "*".join([*power(square, (i + j + 1) // 2), *power(angle, (i + j + 1) % 2)])
            series = f"{self._scale(i, j)}*{lead}*{self.writer.known(polynomial(found.series, square))}"
            closed = self.writer.select(f"{angle} < {SERIES_BELOW}", series, closed)
        return self.writer.let(closed)

    def even(self, i: int, j: int) -> str:
        """s^i s'^j (I_ij(φ) + I_ij(π − φ))."""
        return self._parity(i, j, odd=False)

    def odd(self, i: int, j: int) -> str:
        """s^i s'^j (I_ij(φ) − I_ij(π − φ))."""
        return self._parity(i, j, odd=True)

    def _parity(self, i: int, j: int, odd: bool) -> str:
        if i == j == 1:
            text = f"1.5707963267948966*{self.cross}" if odd else f"{self.root} + {self.psi}*{self.cross}"
            return self.writer.let(text)
        found = sector(i, j)
        # φ = π/2 + ψ and π − φ = π/2 − ψ: constants of φ add up to π in one of the two, ψ doubles in the other
        half_turn, doubled = (-3.141592653589793, 2.0) if odd else (3.141592653589793, -2.0)
        constant, slope = (_times(half_turn, parity(found.angle, odd)), _times(doubled, parity(found.angle, not odd)))
        plain, sine = (_times(-2.0 if odd else 2.0, parity(part, odd)) for part in (found.plain, found.sine))
        text = self._assembled([slope, _sum(constant, plain), sine], self.psi)
        return self.writer.let(f"{self._scale(i, j)}*{text}")

    def _scale(self, i: int, j: int) -> str:
        """s^i s'^j."""
        factors = power(self.size, min(i, j))
        larger, extra = (self.first, i - j) if i > j else (self.second, j - i)
        factors += power(larger, extra // 2)
        if extra % 2:
            factors.append(self.writer.let(self.writer.call("sqrt", larger)))
        return product(1.0, *factors)

    def _assembled(self, parts: list[Polynomial], angle: str) -> str:
        """angle·p0 + p1 + sin·p2, polynomials in the correlation."""
        beside = ((angle,), (), (self.sine,))
        terms = ["*".join([*f, self._polynomial(p)]) for f, p in zip(beside, parts, strict=True) if any(p)]
        return f"({' + '.join(terms) or '0.0'})"

    def _polynomial(self, coefficients: Polynomial) -> str:
        if not any(coefficients[1:]):
            return number(coefficients[0])
        return polynomial(coefficients, self.cosine)


def _times(factor: float, coefficients: Polynomial) -> Polynomial:
    return tuple(factor * c if c else 0.0 for c in coefficients)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    size = max(len(a), len(b))
    return tuple(x + y for x, y in zip((*a, *[0.0] * (size - len(a))), (*b, *[0.0] * (size - len(b))), strict=True))
