"""Functions of scalars as factors, ∂^d f(R) |R|^p sgn(R)^s: their products, derivatives and normal moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Dummy, Expr, Rational, S

from tplimits.program.nodes.parity import parity
from tplimits.regimes.depth.algebra.means import LOCAL, U
from tplimits.regimes.depth.algebra.model import KinkLabel, kink_label

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.products import Factor


def label_of(kink: Factor) -> KinkLabel:
    """The label of a power of a scalar."""
    label = kink[0]
    assert isinstance(label, KinkLabel)
    return label


def scalar_of(kink: Factor) -> int:
    """The number of the scalar in the model."""
    return label_of(kink).scalar


def with_label(kink: Factor, label: KinkLabel) -> Factor:
    """Another power at the same place."""
    return label, kink[1], kink[2]


def tokens_of(kink: Factor, place: int) -> tuple[int, ...]:
    """Tokens of a definition for the indices of a factor, the `place`-th of a product."""
    return tuple(LOCAL + 10 * place + i for i in range(len(kink[1])))


def distinct_tokens(
    scalars: list[tuple[int, tuple[int, ...]]], which: tuple[int, ...]
) -> list[tuple[int, tuple[int, ...]]]:
    """One factor that stands several times has one set of tokens."""
    return [(scalars[k][0], scalars[which.index(i)][1]) for k, i in enumerate(which)]


def merged(kinks: Sequence[Factor]) -> list[Factor]:
    """Powers of one scalar at one place multiplied; sgn² is 1."""
    found: dict[tuple[int, tuple[int, ...]], Factor] = {}
    rest: list[Factor] = []
    for kink in kinks:
        label, key = label_of(kink), (scalar_of(kink), kink[1])
        if key in found and not label.derivatives and not label_of(found[key]).derivatives:
            other = label_of(found[key])
            power, function = label.power + other.power, label.function * other.function
            found[key] = with_label(kink, kink_label(label.scalar, power, label.sign != other.sign, 0, function))
        elif key in found:
            rest.append(kink)
        else:
            found[key] = kink
    # 1 is left out, not its derivatives, which are 0
    labels = [(f, label_of(f)) for f in found.values()]
    kept = [f for f, y in labels if y.power or y.sign or y.derivatives or y.function != 1]
    return [*kept, *rest]


def squared_signs(kinks: Sequence[Factor]) -> list[Factor]:
    """Those of which nothing is left when they are merged: sgn² is 1 on both sides, but 0 where the scalar is."""
    left = {(scalar_of(kink), kink[1]) for kink in merged(kinks)}
    return [kink for kink in kinks if (scalar_of(kink), kink[1]) not in left]


def differentiated(kink: Factor) -> Factor:
    """∂ of a factor by its scalar."""
    label = label_of(kink)
    if label.function != 1 and not (label.power or label.sign):
        return with_label(kink, kink_label(label.scalar, label.power, False, 0, label.function.diff(U)))
    moved = kink_label(label.scalar, label.power, label.sign, label.derivatives + 1, label.function)
    return with_label(kink, moved)


def without_derivatives(label: KinkLabel) -> tuple[Expr, KinkLabel]:
    """∂ |R|^p sgn^s = p |R|^(p − 1) sgn^(1 − s), as long as that is a function; others are left as they are."""
    number, power, sign, left = S.One, label.power, label.sign, label.derivatives
    while left and number != 0 and (power > 0 or not sign) and label.function == 1:
        number, power, sign, left = number * power, power - 1, not sign, left - 1
    return number, kink_label(label.scalar, power, sign, left, label.function)


def sign_of(label: KinkLabel) -> int:
    """1 for an even function of its scalar, −1 for an odd one, and 0 for others."""
    return (parity(label.function, U) or 0) * (-1) ** (label.sign + label.derivatives)


def as_function(label: KinkLabel) -> Expr:
    """The function of a label without derivatives, in `U`."""
    return label.function * abs(U) ** label.power * (sympy.sign(U) if label.sign else 1)


def normal_moment(power: Expr, sign: bool, derivatives: int) -> Expr:
    """E[He_d(z) |z|^p sgn(z)^s] of a standard normal."""
    if (derivatives + sign) % 2:
        return S.Zero
    z = Dummy("z")
    found = S.Zero
    hermite = sympy.Poly(2 ** (-Rational(derivatives, 2)) * sympy.hermite(derivatives, z / sympy.sqrt(2)), z)
    for (k,), c in hermite.terms():
        q = power + k
        found += c * 2 ** (q / 2) * sympy.gamma((q + 1) / 2) / sympy.sqrt(sympy.pi)
    return sympy.simplify(found)
