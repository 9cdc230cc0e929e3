"""Forms that a definition holds, with their tokens called LOCAL, LOCAL + 1, …, and as they are called elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sympy import Expr

from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.means import LOCAL, Terms
from tplimits.regimes.depth.algebra.products import Factor, Factors, renamed


def freed(form: Form) -> Form:
    """A form in tokens of a definition, in α, β, …"""
    return Form({renamed(f, {LOCAL + k: k - 4 for k in range(4)}): c for f, c in form.terms.items()})


def on_tokens(forms: Sequence[Form], place: dict[int, int]) -> tuple[list[Terms], tuple[int, ...]]:
    """Forms with their tokens called LOCAL, LOCAL + 1, …, and the indices these are."""
    held = sorted({i for form in forms for factors in form.terms for _, at, _ in factors for i in at if i < 0})
    tokens = tuple(dict.fromkeys(place[i] for i in held))
    change = {i: LOCAL + tokens.index(place[i]) for i in held}
    found = []
    for form in forms:
        terms = collected((renamed(f, change), c) for f, c in form.terms.items()).terms
        found.append(tuple(terms.items()))
    return found, tokens


def simple_power(variance: Terms, power: Expr) -> tuple[Expr, Factors] | None:
    """A power of a product of variances of tokens as one; None for other variances."""
    if len(variance) != 1 or not (power.is_Integer and power >= 0):
        return None
    ((factors, coefficient),) = variance
    if any(n != "V" or at[0] != at[1] for n, at, _ in factors):
        return None
    roots = Counter(at[0] for _, at, _ in factors for _ in range(int(power)))
    found: list[Factor] = []
    for token, count in roots.items():
        found += [("V", (token, token), 0)] * (count // 2) + [("s", (token,), 0)] * (count % 2)
    return coefficient ** (power / 2), tuple(found)
