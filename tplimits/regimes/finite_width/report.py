"""What a person reads of an expansion in 1/n."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tplimits.errors import TplimitsError
from tplimits.law.kets import Reference, Step
from tplimits.pages.report import with_error
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.regimes.finite_width.results import HIGH, Expansion, Share
from tplimits.report.latex_formulas import Formula

if TYPE_CHECKING:
    from tplimits.numbers.number import Number
    from tplimits.regimes.finite_width.limit import FiniteWidthLimit

CONDITIONING = Reference("a matrix given some of its images; Bolthausen 2014", "bolthausen2014iterative")
EXPANDED = Reference("second-order expansion of statistical functionals; von Mises 1947", "vonmises1947asymptotic")
ASSUMPTIONS = (
    "entries of matrices are independent and normal",
    "functions of vectors are bounded by polynomials, and continuous; kinks are passed by normal entries",
    "scalars enter by functions with two continuous derivatives at their limits",
)
#: so many averages are named behind a bias
_MOST_PARTS = 6
#: digits of numbers in texts
_DIGITS = 8
#: an error above this share of a number is shown beside it
_DOUBTFUL = 1e-4
#: a coefficient below this is rounding
_NOTHING = 1e-9


def answer(limit: FiniteWidthLimit) -> str:
    """One sentence."""
    name = limit.program.name
    if not limit.is_given:
        return f"Means of `{name}` to order 1/n, and covariances, for constants that are given by name."
    found, lacking = in_print(limit)
    if lacking:
        return f"Means of `{name}` to order 1/n: {lacking}"
    first, e = next(iter(found.items()))
    if e.limit.variance:
        return f"At width n {first} has variance {_shown(e.limit.variance)} in the limit."
    return f"At width n {first} is {sentence(e)} on average, with variance {_shown(e.variance)}/n."


def sentence(e: Expansion) -> str:
    """L + b/n."""
    parts = [_shown(e.limit)]
    for number, power in ((e.root, "/√n"), (e.bias, "/n")):
        if abs(float(number)) > 10 * number.error and abs(float(number)) > _NOTHING:
            parts.append(f"{'-' if float(number) < 0 else '+'} {_size(number)}{power}")
    return " ".join(parts)


def _shown(number: Number | float) -> str:
    """The digits that an error leaves, with the error where it leaves few."""
    value, error = float(number), 0.0 if isinstance(number, float) else number.error
    if max(abs(value), error) < 1e-11:
        return "0"
    if error > _DOUBTFUL * abs(value):
        return with_error(value, error)
    digits = _DIGITS if error == 0 else min(_DIGITS, math.ceil(math.log10(abs(value) / error)) + 1)
    return f"{value:.{digits}g}"


def _size(number: Number) -> str:
    """The absolute value of a number, beside its sign."""
    return _shown(abs(number) if isinstance(number, float) else replace(number, value=abs(float(number))))


def in_print(limit: FiniteWidthLimit) -> tuple[dict[str, Expansion], str]:
    """The expansions, or why a print-out has none of them."""
    if not limit.is_given:
        return {}, "constants or scalars have no values: .evaluate(…) takes them by name"
    try:
        return limit.evaluate(), ""
    except TplimitsError as error:
        return {}, f"no numbers: {error}"


def text(limit: FiniteWidthLimit) -> str:
    """The table that is printed."""
    lines = [f"{limit.program.name} to order 1/n: E θ = L + b/n, Cov(θ, θ′) = C/n"]
    found, lacking = in_print(limit)
    if lacking:
        return "\n".join([*lines, f"  {lacking}"])
    wide = max(map(len, found))
    for name, e in found.items():
        row = f"  {name:<{wide}}  L = {_shown(e.limit):<12}  b = {_shown(e.bias):<13} C = {_shown(e.variance)}"
        if e.limit.variance:
            row = f"  {name:<{wide}}  random in the limit, variance {_shown(e.limit.variance)}"
        if abs(float(e.root)) > _NOTHING:
            row += f"  and {_shown(e.root)}/√n"
        lines.append(row.rstrip())
    for name, e in found.items():
        if not e.limit.variance and (parts := _parts(limit.breakdown(name))):
            lines += [f"  b of {name}", *parts]
    if limit.order_of_moments > HIGH:
        order = limit.order_of_moments
        lines.append(f"  C holds moments of order {order} of normal entries: L + b/n is near E θ at large widths only")
    return "\n".join(lines)


def _parts(shares: Mapping[str, Share]) -> list[str]:
    """The largest contributions."""
    order = sorted(shares.items(), key=lambda item: -abs(item[1].bias))
    named = [(label, s) for label, s in order if abs(s.bias) > 1e-11]
    lines = [f"    {_shown(s.bias):>14}  {label}" for label, s in named[:_MOST_PARTS]]
    if len(named) > _MOST_PARTS:
        rest = sum(s.bias for _, s in named[_MOST_PARTS:])
        lines.append(f"    {_shown(rest):>14}  {len(named) - _MOST_PARTS} more averages")
    return lines


def rows(numbers: Mapping[str, Expansion]) -> tuple[tuple[str, ...], ...]:
    """The table of a terminal."""
    found = []
    for name, e in numbers.items():
        numbered = (e.limit, e.bias, e.variance)
        limit = f"variance {_shown(e.limit.variance)}" if e.limit.variance else with_error(*_pair(e.limit))
        found.append((name, limit, *(with_error(*_pair(n)) for n in numbered[1:]), e.bias.method))
    return tuple(found)


def _pair(number: Number) -> tuple[float, float]:
    """Value and error; 0 for what is rounding."""
    return (0.0, 0.0) if abs(float(number)) < 1e-11 else (float(number), number.error)


def plain(e: Expansion) -> dict[str, Any]:
    """Numbers as JSON holds them."""
    told = {"limit": e.limit, "bias": e.bias, "variance": e.variance, "root": e.root}
    found: dict[str, Any] = {k: {"value": float(n), "error": n.error} for k, n in told.items()}
    return found | {"method": e.bias.method, "variance in the limit": e.limit.variance}


def document(limit: FiniteWidthLimit) -> dict[str, Any]:
    """All scalars, with what their averages contribute."""
    return {
        name: plain(e)
        | {"breakdown": {k: {"bias": s.bias, "variance": s.variance} for k, s in limit.breakdown(name).items()}}
        for name, e in in_print(limit)[0].items()
    }


def steps(limit: FiniteWidthLimit) -> tuple[Step, ...]:
    """The steps of the limit, then those of the expansion."""
    matrices = tuple(s.name for s in limit.program if isinstance(s, InitialMatrix))
    found = list(limit.state.steps)
    if matrices:
        exact = "with orthonormal q and p: W x = Σ ⟨q|x⟩ Wq + √N (g − Σ p ⟨p|g⟩ + Σ p ⟨Wᵀp|q⟩), averages at width n"
        found.append(Step("conditioning at width n", matrices, lambda: exact, CONDITIONING))
    found.append(
        Step(
            "expansion in the empirical measure",
            limit.labels,
            lambda: "ψ_j = f_j − a_j + Σ D_ji ψ_i, C = E ψψ′, b from Ito's rule and E[∂f ψ]",
            EXPANDED,
        )
    )
    for name, e in in_print(limit)[0].items():
        told = f"E {name} = {sentence(e)} + …, variance {_shown(e.variance)}/n"
        if e.limit.variance:
            told = f"{name} → N(0, {_shown(e.limit.variance)})"
        found.append(Step("order 1/n", (name,), lambda told=told: told, EXPANDED))  # type: ignore[misc]
    return tuple(found)


def formulas(limit: FiniteWidthLimit) -> list[Formula]:
    """E θ and Var θ, scalar by scalar."""
    known, lacking = in_print(limit)
    if lacking:
        return [Formula(r"\operatorname{E}\theta_n", "=", (r"L + b/n + O(n^{-2})",))]
    found = []
    for name, e in known.items():
        left = as_text(name)
        if e.limit.variance:
            found.append(Formula(left, r"\to", (rf"N(0, {_shown(e.limit.variance)})",)))
            continue
        mean, rest = [_latex(_shown(e.limit))], f"+ {remainder(abs(float(e.root)) > _NOTHING)}"
        for number, power in ((e.root, r"\sqrt n"), (e.bias, "n")):
            if abs(float(number)) > _NOTHING:
                sign = "-" if float(number) < 0 else "+"
                mean.append(rf"{sign} \frac{{{_latex(_size(number))}}}{{{power}}}")
        found.append(Formula(rf"\operatorname{{E}}{left}", "=", (*mean, rest)))
        found.append(
            Formula(rf"\operatorname{{Var}}{left}", "=", (rf"\frac{{{_latex(_shown(e.variance))}}}{{n}} {rest}",))
        )
    return found


def _latex(shown: str) -> str:
    """A number with its error, in a formula."""
    return shown.replace("±", r"\pm")


def remainder(has_root: bool) -> str:
    """What is left out behind 1/n: odd powers of √n come together."""
    return "O(n^{-3/2})" if has_root else "O(n^{-2})"


def as_text(name: str) -> str:
    """A name in a formula."""
    marks = {"⟨": r"$\langle$", "⟩": r"$\rangle$", "|": r"$|$", "_": r"\_", "#": r"\#", "{": r"\{", "}": r"\}"}
    marks |= {"%": r"\%", "&": r"\&", "$": r"\$", "~": r"\~{}", "^": r"\^{}", "\\": r"\textbackslash{}"}
    return r"\text{" + "".join(marks.get(c, c) for c in name) + "}"
