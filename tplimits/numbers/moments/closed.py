"""Closed moments of two atoms, written as text from (c11, c12, c22, det).

For gates H(x) = Φ(x/√v) = P(x + √v z > 0) the pair (u, u') = (x + √v z, x' + √w z') has covariance S = C + diag(v, w)
and determinant det S = det + v c22 + w c11 + vw, a sum of what is never negative.  Given (u, u'),

    x = M u + r,   M = C S⁻¹,   Cov r = C − C S⁻¹ C,
    M11 = (det + w c11)/det S,  M12 = v c12/det S,  M21 = w c12/det S,  M22 = (det + v c22)/det S,
    Cov r = (v M11, v w c12/det S, w M22),

so a monomial times two gates is a sum of quadrant moments of (u, u').  A factor e^(−px²/2 − qx'²/2) changes the law to
C' = (I + C diag(p, q))⁻¹ C with the weight det(I + C diag(p, q))^(−1/2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy

from tplimits.law.closed_forms.isserlis import gaussian_polynomial
from tplimits.numbers.moments.atoms import Atom, Gate, Point, Power, Wave
from tplimits.numbers.moments.quadrant import TINY, Angle
from tplimits.numbers.moments.sectors import radial
from tplimits.numbers.moments.writing import Writer, number, power, product, total

#: numbers of atoms beyond this, or below one part of it, leave the doubles in formulas
_FAR = 1e150
# residuals r, r′ given (u, u′); R11, R12, R22 their covariances
_R = sympy.symbols("r r'", real=True)
_COVARIANCE = {(_R[i], _R[j]): sympy.Symbol(f"R{min(i, j) + 1}{max(i, j) + 1}") for i in (0, 1) for j in (0, 1)}


@dataclass(frozen=True)
class Pair:
    """Names of a covariance and its determinant."""

    first: str
    cross: str
    second: str
    det: str

    def turned(self) -> Pair:
        """The variables in the other order."""
        return Pair(self.second, self.cross, self.first, self.det)


def terms(writer: Writer, f: Sequence[Atom], h: Sequence[Atom], law: Pair) -> list[str]:
    """E f(x) h(x') as a sum of terms, whose absolute values bound the rounding."""
    return [text for a in f for b in h for text in _pair(writer, a, b, law)]


def can_close(f: Sequence[Atom], h: Sequence[Atom]) -> bool:
    """Whether every pair of atoms has a closed moment."""
    return all(_closes(a, b) for a in f for b in h)


def _closes(a: Atom, b: Atom) -> bool:
    if isinstance(a, Point) or isinstance(b, Point):
        return True
    if isinstance(a, Wave) and isinstance(b, Wave):
        return a.kind == b.kind or {a.kind, b.kind} == {"sin", "cos"}
    # an imaginary shift of a gate is no quadrant moment, of a tilted power a complex one
    if isinstance(a, Wave) or isinstance(b, Wave):
        other = b if isinstance(a, Wave) else a
        return isinstance(other, Power) and other.tilt == 0
    return _tame(a) and _tame(b)


def _tame(atom: Atom) -> bool:
    """Whether products of two of its numbers are doubles."""
    numbers = (n for n in vars(atom).values() if isinstance(n, float) and n)
    return all(1 / _FAR < abs(n) < _FAR for n in numbers)


def _pair(writer: Writer, a: Atom, b: Atom, law: Pair) -> list[str]:
    if isinstance(a, Point):
        return _at_zero(writer, a, b, law)
    if isinstance(b, Point):
        return _at_zero(writer, b, a, law.turned())
    if isinstance(a, Wave) and isinstance(b, Wave):
        return _waves(writer, a, b, law)
    if isinstance(a, Wave):
        assert isinstance(b, Power)
        return _power_wave(writer, b, a, law.turned())
    if isinstance(b, Wave):
        assert isinstance(a, Power)
        return _power_wave(writer, a, b, law)
    weight, law = _tilted(writer, a.tilt, b.tilt, law)
    if isinstance(a, Gate) and isinstance(b, Gate):
        found = _gates(writer, a, b, law)
    elif isinstance(a, Gate):
        assert isinstance(b, Power)
        found = _power_gate(writer, b, a, law.turned())
    elif isinstance(b, Gate):
        found = _power_gate(writer, a, b, law)
    else:
        found = _powers(a, b, law)
    return [product(1.0, weight, term) for term in found]


def _tilted(writer: Writer, p: float, q: float, law: Pair) -> tuple[str, Pair]:
    """The weight and the law after e^(−px²/2 − qx'²/2)."""
    if p == q == 0:
        return "1.0", law
    parts = ["1.0", *([f"{p!r}*{law.first}"] if p else []), *([f"{q!r}*{law.second}"] if q else [])]
    # det(I + C diag(p, q)) = 1 + p c11 + q c22 + pq det
    d = writer.let(total([*parts, *([f"{p * q!r}*{law.det}"] if p and q else [])]))
    # a growing exponential has no mean beyond: the formula's finite number there is replaced by none
    if min(p, q) < 0:  # both eigenvalues are positive where their product d and their sum are
        within = writer.let(writer.select(f"1.0 + {total(parts)} > 0.0", d, writer.no_number))
        d = writer.let(writer.select(f"{within} > 0.0", within, writer.no_number))
    first = f"({law.first} + {q!r}*{law.det})/{d}" if q else f"{law.first}/{d}"
    second = f"({law.second} + {p!r}*{law.det})/{d}" if p else f"{law.second}/{d}"
    texts = (first, f"{law.cross}/{d}", second, f"{law.det}/{d}")
    return writer.let(f"1.0/{writer.call('sqrt', d)}"), Pair(*(writer.let(t) for t in texts))


def _gates(writer: Writer, a: Gate, b: Gate, law: Pair) -> list[str]:
    """Both halves of both: same = f₊h₊ + f₋h₋ times the quadrant, crossed = f₊h₋ + f₋h₊ times the other one."""
    same = a.positive * b.positive + a.negative * b.negative
    crossed = a.positive * b.negative + a.negative * b.positive
    angle, expansion = _conditioned(writer, a, b, law)
    found: list[str] = []
    for (i, j), factors, c, flips in expansion:
        turned = -1 if flips else 1  # of what the reflection x' → −x' changes the sign
        c *= radial(i + j)
        minus, plus = same * c, crossed * c * turned
        # same · I(φ) + crossed · I(π − φ), written so that nothing cancels
        # functions of one parity: their sum in ψ keeps the digits at small correlation
        if minus == plus:
            found.append(product(minus, *factors, angle.even(i, j)))
        # two terms of one sign do not cancel
        elif minus * plus >= 0:
            found += [product(minus, *factors, angle.half(i, j))] if minus else []
            found += [product(plus, *factors, angle.other(i, j))] if plus else []
        elif abs(minus) >= abs(plus):
            found += [product(minus + plus, *factors, angle.half(i, j))] if minus + plus else []
            found.append(product(-plus, *factors, angle.odd(i, j)))
        else:
            found.append(product(minus + plus, *factors, angle.other(i, j)))
            found.append(product(minus, *factors, angle.odd(i, j)))
    return found


Expansion = list[tuple[tuple[int, int], tuple[str, ...], float, bool]]


def _conditioned(writer: Writer, a: Gate, b: Gate, law: Pair) -> tuple[Angle, Expansion]:
    """(u, u'), and x^a x'^b given them: ((i, j), factors, coefficient, odd in c12) of u^i u'^j."""
    v, w = a.softness, b.softness
    if v == w == 0:
        return Angle(writer, law.first, law.cross, law.second, law.det), [((a.degree, b.degree), (), 1.0, False)]
    first = writer.let(f"{law.first} + {v!r}") if v else law.first
    second = writer.let(f"{law.second} + {w!r}") if w else law.second
    inner = [law.det, *([f"{v!r}*{law.second}"] if v else []), *([f"{w!r}*{law.first}"] if w else [])]
    d = writer.let(total([*inner, repr(v * w)] if v and w else inner))
    angle = Angle(writer, first, law.cross, second, d)
    if a.degree == b.degree == 0:
        return angle, [((0, 0), (), 1.0, False)]
    # two soft gates keep det S ≥ vw > 0
    over = writer.let(f"1.0/{d}" if v and w else f"1.0/({d} + {TINY})")
    m11 = writer.let(f"({law.det} + {w!r}*{law.first})*{over}") if v else "1.0"
    m22 = writer.let(f"({law.det} + {v!r}*{law.second})*{over}") if w else "1.0"
    slant = writer.let(f"{law.cross}*{over}")
    found: Expansion = []
    for i in range(a.degree + 1):
        for j in range(b.degree + 1):
            for c, r11, r12, r22 in _noise_terms(a.degree - i, b.degree - j):
                c *= math.comb(a.degree, i) * math.comb(b.degree, j)
                # Cov r = (v M11, v w c12/det S, w M22): its v and w are constants of the formula
                c *= v ** (r11 + r12) * w ** (r12 + r22)
                if c:
                    noise = [*power(m11, r11), *power(slant, r12), *power(m22, r22)]
                    found += _mixed(i, j, v, w, c, noise, r12, (m11, slant, m22))
    return angle, found


def _mixed(
    i: int, j: int, v: float, w: float, c: float, noise: list[str], odd: int, names: tuple[str, str, str]
) -> Expansion:
    """(M11 u + M12 u')^i (M21 u + M22 u')^j with M12 = v·slant, M21 = w·slant."""
    m11, slant, m22 = names
    found: Expansion = []
    for k in range(i + 1):
        for m in range(j + 1):
            weight = c * math.comb(i, k) * math.comb(j, m) * v ** (i - k) * w**m
            if weight:
                factors = [*noise, *power(m11, k), *power(slant, i - k + m), *power(m22, j - m)]
                found.append(((k + m, i + j - k - m), tuple(factors), weight, (odd + i - k + m) % 2 == 1))
    return found


@lru_cache(maxsize=256)
def _noise_terms(a: int, b: int) -> tuple[tuple[float, int, int, int], ...]:
    """E r^a r'^b = Σ c · R11^k · R12^m · R22^n as (c, k, m, n), by powers of R12: the rule of polynomials on names."""
    mean = gaussian_polynomial(_R[0] ** a * _R[1] ** b, _R, _COVARIANCE)
    assert mean is not None, (a, b)
    terms = sympy.Poly(mean, *dict.fromkeys(_COVARIANCE.values())).terms() if mean != 0 else []
    return tuple(sorted(((float(c), k, m, n) for (k, m, n), c in terms), key=lambda term: term[2]))


def _half_moment(k: int) -> float:
    """E[t^k; t > 0] of a standard normal t."""
    return 2 ** (k / 2) * math.gamma((k + 1) / 2) / (2 * math.sqrt(math.pi))


def _power_gate(writer: Writer, a: Power, b: Gate, law: Pair) -> list[str]:
    """E x^a (gate of x'): given t = u'/√Var u', x = slope·t + r, x' = slope'·t + r'."""
    halves = a.coefficient * (b.positive + (-1) ** a.degree * b.negative)
    if halves == 0:
        return []
    w = b.softness
    spread = writer.let(f"{law.second} + {w!r}") if w else law.second
    deviation = writer.let(writer.call("sqrt", spread))
    # at variance zero a hard gate is 0 on both halves
    inverse = writer.let(f"1.0/{deviation}" if w else writer.select(f"{spread} > 0.0", f"1.0/{deviation}", "0.0"))
    present = "1.0" if w else writer.let(writer.select(f"{spread} > 0.0", "1.0", "0.0"))
    slope = writer.let(f"{law.cross}*{inverse}")
    other = writer.let(f"{law.second}*{inverse}") if w else deviation
    left = f"{law.det} + {w!r}*{law.first}" if w else law.det
    residual = writer.let(f"({left})*{inverse}*{inverse}")
    found = []
    for i in range(a.degree + 1):
        for j in range(b.degree + 1):
            for c, r11, r12, r22 in _noise_terms(a.degree - i, b.degree - j):
                c *= math.comb(a.degree, i) * math.comb(b.degree, j) * halves * _half_moment(i + j)
                c *= w ** (r12 + r22)
                noise = [*power(residual, r11), *power(slope, r12), *power(other, r22), *power(inverse, r12 + r22)]
                if c:
                    found.append(product(c, *noise, *power(slope, i), *power(other, j), present))
    return found


def _powers(a: Power, b: Power, law: Pair) -> list[str]:
    names = (law.first, law.cross, law.second)
    return [
        product(c * a.coefficient * b.coefficient, *(f for n, m in zip(names, k, strict=True) for f in power(n, m)))
        for c, *k in _noise_terms(a.degree, b.degree)
    ]


def _at_zero(writer: Writer, point: Point, b: Atom, law: Pair) -> list[str]:
    """The mean of an atom of x' where x has variance zero."""
    if isinstance(b, Point):
        inner = [writer.select(f"{law.second} == 0.0", number(b.coefficient), "0.0")]
    else:
        inner = _pair(writer, Power(1.0, 0), b, Pair("0.0", "0.0", law.second, "0.0"))
    mean = writer.let(total(inner))
    return [writer.select(f"{law.first} == 0.0", product(point.coefficient, mean), "0.0")]


def _power_wave(writer: Writer, a: Power, b: Wave, law: Pair) -> list[str]:
    """E x^a wave(λx') by the shift x → x + λc12 (exp) or x + iλc12 (sine and cosine)."""
    # x^a sin is odd for even a, x^a cos for odd a
    if b.kind != "exp" and a.degree % 2 != (b.kind == "sin"):
        return []
    sign = "0.5" if b.kind == "exp" else "(-0.5)"
    damping = writer.let(writer.call("exp", _offset(f"{sign}*{b.rate**2!r}*{law.second}", b.offset)))
    shift = writer.let(f"{b.rate!r}*{law.cross}")
    found = []
    for k in range(a.degree % 2, a.degree + 1, 2) if b.kind != "exp" else range(a.degree + 1):
        # E (g + shift)^a: binomials times (2m − 1)!! for the even powers of the centred g
        if (a.degree - k) % 2 == 0:
            left = (a.degree - k) // 2
            c = a.coefficient * b.coefficient * math.comb(a.degree, k) * math.prod(range(1, 2 * left, 2))
            c *= 1 if b.kind == "exp" else (-1) ** (k // 2)
            found.append(product(c, damping, *power(law.first, left), *power(shift, k)))
    return found


def _offset(exponent: str, offset: float) -> str:
    return f"{exponent} + {number(offset)}" if offset else exponent


def _waves(writer: Writer, a: Wave, b: Wave, law: Pair) -> list[str]:
    """Exponents without cancellation: (αs)² + (βs')² − 2|αβ c12| = (|α|s − |β|s')² + 2|αβ|(ss' − |c12|)."""
    if a.kind != b.kind:
        return []
    both, c = a.rate * b.rate, a.coefficient * b.coefficient
    if a.kind == "exp":
        exponent = f"{a.rate**2 / 2!r}*{law.first} + {b.rate**2 / 2!r}*{law.second} + {number(both)}*{law.cross}"
        return [product(c, writer.let(writer.call("exp", _offset(exponent, a.offset + b.offset))))]
    size = writer.let(writer.call("sqrt", f"{law.first}*{law.second}"))
    distance = writer.let(writer.call("fabs", law.cross))
    deviations = [writer.let(writer.call("sqrt", s)) for s in (law.first, law.second)]
    # (|α|s)² − (|β|s')² over the sum of the roots: the difference of the roots without their rounding
    squares = f"{a.rate**2!r}*{law.first} - {b.rate**2!r}*{law.second}"
    sums = f"{abs(a.rate)!r}*{deviations[0]} + {abs(b.rate)!r}*{deviations[1]} + {TINY}"
    gap = writer.let(f"({squares})/({sums})")
    # ss' − |c12| = det/(ss' + |c12|)
    near = writer.let(f"{2 * abs(both)!r}*{law.det}/({size} + {distance} + {TINY})")
    damping = writer.let(writer.call("exp", f"-0.5*({gap}*{gap} + {near})"))
    twice = f"-{2 * abs(both)!r}*{distance}"
    if a.kind == "cos":
        return [product(c / 2, damping, writer.let(f"1.0 + {writer.call('exp', twice)}"))]
    grown = writer.let(f"0.0 - {writer.call('expm1', twice)}")
    return [product(c / 2 * math.copysign(1.0, both), damping, writer.let(writer.call("copysign", grown, law.cross)))]
