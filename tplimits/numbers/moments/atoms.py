"""Functions of one variable as sums of atoms whose Gaussian moments are closed.

    Power   x^a e^(−p x²/2), where p may be negative: an exponential that grows
    Gate    [f₊ x^a H(x) + f₋ (−x)^a H(−x)] e^(−p x²/2),   H(x) = Φ(x/√v), a step for v = 0
    Wave    sin λx, cos λx, exp λx
    Point   1 at x = 0, 0 elsewhere: what a formula says at zero variance, where almost everywhere is not enough

ReLU is a gate with (f₊, f₋) = (1, 0), |x| one with (1, 1), sign one of degree zero with (1, −1); erf αx is a gate with
v = 1/(2α²), the exact GELU x Φ(x) a gate with v = 1.  A function is written with two halves rather than as a
polynomial plus a gate, so that nothing cancels where one of the halves carries the whole mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes import functions

#: higher powers lose digits in the sums that close them
MOST_DEGREE = 4
#: sums of leading terms that count as none, relative to the terms
_CANCELLED = 1e-9
#: coefficients of exponentials beyond stand in the exponent: e^(x − 1000) may be large where e^(−1000) has no double
_LARGE = 1e100


@dataclass(frozen=True)
class Power:
    """coefficient · x^degree e^(−tilt x²/2)."""

    coefficient: float
    degree: int
    tilt: float = 0.0


@dataclass(frozen=True)
class Gate:
    """[positive · x^degree H(x) + negative · (−x)^degree H(−x)] e^(−tilt x²/2), H(x) = Φ(x/√softness)."""

    positive: float
    negative: float
    degree: int
    softness: float
    tilt: float = 0.0


@dataclass(frozen=True)
class Wave:
    """coefficient · kind(rate x), kind one of sin, cos, exp; of exp coefficient · e^(rate x + offset)."""

    coefficient: float
    kind: str
    rate: float
    offset: float = 0.0


@dataclass(frozen=True)
class Point:
    """coefficient where x = 0, else zero."""

    coefficient: float


Atom = Power | Gate | Wave | Point

#: functions that are read as atoms, of polynomials
_HEADS = (functions.step, sympy.erf, sympy.sin, sympy.cos, sympy.exp)


class NoAtoms(Exception):
    """The function is not a sum of atoms."""


def atoms(function: Expr, x: Symbol) -> tuple[Atom, ...] | None:
    """The atoms of a function of x, None where it is not a sum of atoms."""
    try:
        return _Collected(function, x).atoms()
    except NoAtoms:
        return None


def _may_be_atoms(function: Expr, x: Symbol) -> bool:
    """Whether it is made of sums, products and powers of heads of atoms; others would be multiplied out for minutes."""
    for node in sympy.preorder_traversal(function):
        if node.is_Pow and x in node.base.free_symbols and not (node.exp.is_Integer and node.exp > 0):
            return False
        is_head = isinstance(node, _HEADS) and node.args[0].is_polynomial(x)
        if isinstance(node, sympy.Function) and x in node.free_symbols and not is_head:
            return False
    return True


class _Collected:
    """The terms of one function, by kind."""

    def __init__(self, function: Expr, x: Symbol) -> None:
        self.x = x
        self.powers: dict[tuple[int, float], float] = defaultdict(float)
        self.gates: dict[tuple[int, float, float], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.waves: dict[tuple[str, float], Expr] = defaultdict(lambda: sympy.S.Zero)
        # kinks as steps times polynomials, so that terms of one kind add up under one key
        whole = functions.elementary(function)
        if not _may_be_atoms(whole, x):
            raise NoAtoms
        for term in sympy.Add.make_args(sympy.expand(whole)):
            self._collect(term)

    def _collect(self, term: Expr) -> None:
        coefficient, degree, tilt = sympy.S.One, 0, 0.0
        gate: tuple[str, Expr] | None = None
        wave: tuple[str, float] | None = None
        for factor in sympy.Mul.make_args(term):
            base, exponent = (factor, sympy.S.One) if isinstance(factor, sympy.exp) else factor.as_base_exp()
            if self.x not in factor.free_symbols:
                coefficient *= factor
            elif base == self.x and exponent.is_Integer and exponent > 0:
                degree += int(exponent)
            elif isinstance(base, functions.step) and exponent.is_Integer and exponent > 0:
                found = ("step", sympy.sign(self._slope(base.args[0])))
                # step(x)·step(−x) is 0 almost everywhere, but a formula has a value at 0 as well
                if gate is not None and gate != found:
                    raise NoAtoms
                gate = found
            elif isinstance(base, sympy.erf) and exponent == 1 and gate is None:
                gate = ("erf", self._slope(base.args[0]))
            elif isinstance(factor, sympy.exp) and self._curvature(factor.args[0]) is not None:
                tilt += self._curvature(factor.args[0]) or 0.0
            elif isinstance(base, (sympy.sin, sympy.cos, sympy.exp)) and exponent == 1 and wave is None:
                wave = (type(base).__name__, float(self._slope(base.args[0])))
            else:
                raise NoAtoms
        self._file(coefficient, degree, tilt, gate, wave)

    def _file(
        self, number: Expr, degree: int, tilt: float, gate: tuple[str, Expr] | None, wave: tuple[str, float] | None
    ) -> None:
        if degree > MOST_DEGREE:
            raise NoAtoms
        if wave is not None:
            if degree or tilt or gate is not None:
                raise NoAtoms
            self.waves[wave] += number
            return
        coefficient = _real(number)
        if gate is None:
            self.powers[degree, tilt] += coefficient
        elif gate[0] == "step":
            side = self.gates[degree, 0.0, tilt]
            # x^a step(−x) is (−1)^a (−x)^a on the other half
            side[int(float(gate[1]) < 0)] += coefficient * int(gate[1]) ** degree
        else:
            sign = 1.0 if float(gate[1]) > 0 else -1.0
            side = self.gates[degree, float(1 / (2 * gate[1] ** 2)), tilt]
            # erf(αx) = H(x) − H(−x) with H(x) = Φ(x/√v), v = 1/(2α²)
            side[0] += sign * coefficient
            side[1] -= sign * coefficient * (-1) ** degree

    def _slope(self, argument: Expr) -> Expr:
        """The slope of a linear argument without constant."""
        slope = sympy.expand(argument).coeff(self.x, 1)
        if sympy.expand(argument - slope * self.x) != 0 or slope.free_symbols or _real(slope) == 0:
            raise NoAtoms
        return slope

    def _curvature(self, argument: Expr) -> float | None:
        """p of an argument −p x²/2, None when it is another."""
        half = sympy.expand(argument).coeff(self.x, 2)
        if half == 0 or sympy.expand(argument - half * self.x**2) != 0 or half.free_symbols:
            return None
        return -2 * _real(half)

    def atoms(self) -> tuple[Atom, ...]:
        found: list[Atom] = []
        for (degree, softness, tilt), (positive, negative) in self.gates.items():
            # a polynomial beside a gate goes into its two halves, H(x) + H(−x) = 1; with several gates it is not told
            # into which
            same = [key for key in self.gates if (key[0], key[2]) == (degree, tilt)]
            moved = self.powers.pop((degree, tilt), 0.0) if len(same) == 1 else 0.0
            hard = softness == 0 and degree == 0
            # a step is 0 at x = 0, both halves are, and the constant moved into them would be lost there
            if moved and hard:
                found.append(Point(moved))
            positive, negative = positive + moved, negative + moved * (-1) ** degree
            if negative == positive * (-1) ** degree:
                self.powers[degree, tilt] += positive  # the two halves make a polynomial
                if hard and positive:
                    found.append(Point(-positive))
            else:
                found.append(Gate(positive, negative, degree, softness, tilt))
        found += [Power(c, degree, tilt) for (degree, tilt), c in self.powers.items() if c != 0]
        found += [_wave(kind, rate, c) for (kind, rate), c in self.waves.items() if c != 0]
        uneven = any(isinstance(a, Wave) and a.kind != "sin" for a in found)
        if uneven and any(isinstance(a, Power) and a.degree % 2 == 0 for a in found):
            raise NoAtoms  # cos x − 1 and the like: the terms cancel at small variance
        # leave it to the expansion, whose coefficients are integrals of the whole function
        if _cancel_at_zero(found):
            raise NoAtoms
        # cos x − cos 2x cancels at small variance in the same way
        if sum(isinstance(a, Wave) for a in found) > 1 or (uneven and len(found) > 1):
            raise NoAtoms
        return tuple(found)


def _cancel_at_zero(found: Sequence[Atom]) -> bool:
    """Whether the leading terms cancel at x = 0, as in e^(−x²) − 1: at small variance closed means lose digits."""
    leading = [_leading(atom) for atom in found if not isinstance(atom, Point)]
    least = min((order for order, *_ in leading), default=0)
    sides = zip(*(sides for order, *sides in leading if order == least), strict=True)
    return bool(leading) and all(abs(sum(side)) <= _CANCELLED * sum(map(abs, side)) for side in sides)


def _leading(atom: Power | Gate | Wave) -> tuple[int, float, float]:
    """(order, coefficients for x > 0 and for x < 0) of the first term of the series at x = 0."""
    if isinstance(atom, Gate) and atom.softness == 0:
        return atom.degree, atom.positive, atom.negative * (-1) ** atom.degree
    order, first = _leading_of_smooth(atom)
    return order, first, first


def _leading_of_smooth(atom: Power | Gate | Wave) -> tuple[int, float]:
    if isinstance(atom, Power):
        return atom.degree, atom.coefficient
    if isinstance(atom, Wave):
        return (1, atom.coefficient * atom.rate) if atom.kind == "sin" else (0, atom.coefficient)
    right, left = atom.positive, atom.negative * (-1) ** atom.degree
    if abs(right + left) > _CANCELLED * (abs(right) + abs(left)):  # H(x) = ½ + x/√(2πv) + …
        return atom.degree, (right + left) / 2
    return atom.degree + 1, (right - left) / math.sqrt(2 * math.pi * atom.softness)


def _wave(kind: str, rate: float, number: Expr) -> Wave:
    size = abs(number)
    if kind != "exp" or not size.is_comparable or 1 / _LARGE < size < _LARGE:
        return Wave(_real(number), kind, rate)
    return Wave(1.0 if number > 0 else -1.0, kind, rate, _real(sympy.log(size)))


def _real(expr: Expr) -> float:
    try:
        value = float(expr)
    except (TypeError, OverflowError):
        raise NoAtoms from None
    if value == 0 != expr or not math.isfinite(value):
        raise NoAtoms
    return value
