"""A covariance SDE as a table, and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr

from tplimits.program.nodes.stated import contents
from tplimits.regimes.depth import weighted
from tplimits.regimes.depth.algebra import folded, writing
from tplimits.regimes.depth.algebra.arrays import ARRAYS
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.means import LOCAL, Deviation, U, definition_of
from tplimits.regimes.depth.algebra.products import MATRIX, SYMMETRIC, VECTOR, Factor, Factors, free_index, renamed
from tplimits.regimes.depth.factoring import Factored, Piece, Sums, shortest
from tplimits.report import latex_names
from tplimits.report.latex_formulas import Formula, FormulaPrinter, constant, decimal
from tplimits.report.text import as_written

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.roots import Root
    from tplimits.report.letters import Letters

#: the noise of a covariance SDE
_NOISE = (
    r"\quad \mathrm{d}\langle M^{\alpha\beta}, M^{\delta\omega}\rangle = \Sigma^{\alpha\beta,\delta\omega}\,\mathrm{d}t"
)
#: the tokens of a covariance of two entries
_AT_FOUR = r"^{\alpha\beta,\delta\omega}"
#: free tokens of a sum that has a name
_LETTERS = "αβδω"


def rows(form: Form, arrays: Letters) -> list[str]:
    """The terms of a form, those with one coefficient together."""
    groups: dict[Expr, dict[Factors, Expr]] = {}
    for factors, coefficient in form.terms.items():
        groups.setdefault(coefficient, {})[factors] = coefficient
    return [writing.text(Form(terms), arrays) for terms in groups.values()] or ["0"]


def defined_as(symbol: str, form: Form, arrays: Letters) -> list[str]:
    """A symbol and what it is, line by line."""
    first, *rest = rows(form, arrays)
    others = (f"              {'-' if row.startswith('-') else '+'} {row.removeprefix('-')}" for row in rest)
    return [f"  {arrays.text(symbol):<9} = {first}", *others]


#: R by a matrix G or a vector g of independent normals
LAWS = {MATRIX: "{L}{G}{L}ᵀ", SYMMETRIC: "{L}({G} + {G}ᵀ){L}ᵀ/√2", VECTOR: "{L}{g}"}


def text(name: str, limit: BlockLimit, arrays: Letters) -> str:
    """Drift, diffusion, root and assumptions."""
    lines = [f"covariance {limit.verdict.kind} of {name}"]
    lines += [*defined_as("b[αβ]", limit.drift, arrays), *defined_as("Σ[αβ,δω]", limit.diffusion, arrays)]
    if limit.root is not None and limit.diffusion:
        lines.append(f"  noise     = {isotropic(limit.root, arrays)}, {arrays['V']} = {arrays['L'] * 2}ᵀ")
        for response in limit.root.responses:
            shown, weights = writing.text(response.form, arrays), ", ".join(response.matrices)
            law = LAWS[response.law].format_map(arrays)
            lines.append(f"            + {shown} with {arrays['R']} = {law}, from {weights}")
    if limit.rootless:
        lines.append(f"  noise     = no structured root of Σ: {limit.rootless}")
    if holds((limit.drift, limit.diffusion), "N"):
        lines.append(arrays.text(f"  N[αβ]     = {folded.TEXT}"))
    lines += [f"  {left:<9} = {right}" for left, right in writing.definitions(arrays)]
    if any("x̄" in line for line in lines):
        lines.append("  x̄         = a mean over the tokens")
    for label, shown in ((label, name) for label, name in arrays.items() if label in limit.arrays):
        lines.append(f"  {shown:<9} = the constant array {contents(limit.arrays[label])}")
    lines += weighted.text_lines(limit, arrays)
    lines += [f"  {'given' if i == 0 else '':<9}   {a}" for i, a in enumerate(limit.assumptions)]
    return "\n".join(lines)


def isotropic(root: Root, arrays: Letters) -> str:
    """The noise of products with the state, and how large it is."""
    law = LAWS[SYMMETRIC].removesuffix("/√2").format_map(arrays)
    return f"√({arrays['s']}/2) {law} with {arrays['s']} = {root.isotropic}"


def holds(forms: Iterable[Form], labels: str) -> bool:
    """Whether a factor with one of some labels of one letter stands in forms."""
    return any(f[0] in (*labels,) for form in forms for factors in form.terms for f in factors)


def formulas(limit: BlockLimit, arrays: Letters) -> list[Formula]:
    """Drift, diffusion, and what stands in them; the right-hand sides line by line."""
    rows: list[Formula] = [
        Formula(
            arrays.latex(r"\mathrm{d}V^{\alpha\beta}"),
            "=",
            (*map(arrays.latex, (r"b^{\alpha\beta}\,\mathrm{d}t", r"+ \mathrm{d}M^{\alpha\beta},", _NOISE)),),
        )
    ]
    sums, defined = Sums(), list[Formula]()
    for left, form in ((r"b^{\alpha\beta}", limit.drift), (r"\Sigma^{\alpha\beta,\delta\omega}", limit.diffusion)):
        right, extra = _bracketed(sums.factored(form), arrays)
        rows.append(Formula(arrays.latex(left), "=", tuple(right)))
        defined += extra
    rows += defined
    for number, (rank, form) in sums.definitions.items():
        letters = _LETTERS[:rank]
        rows.append(Formula(_sum_name(number, letters, arrays), "=", tuple(summed(form, arrays, letters))))
    if holds((limit.drift, limit.diffusion), "N"):
        rows.append(Formula(arrays.latex(r"N^{\alpha\beta}"), "=", (arrays.latex(folded.LATEX),)))
    rows += definitions([limit.drift, limit.diffusion], limit.arrays, arrays)
    rows += weighted.formulas(limit, arrays, lambda form: " ".join(summed(form, arrays)))
    return [*rows, *tokens(rows, arrays)]


def definitions(forms: Iterable[Form], known: Mapping[str, numpy.ndarray], arrays: Letters) -> list[Formula]:
    """What Gaussian means and constant arrays in some forms are."""
    printed = writing.array_names(forms)
    means = [_mean(label, arrays) for label in printed if definition_of(label)]
    return means + [constant(latex_names.name(arrays[label]), known[label]) for label in printed if label in known]


def tokens(rows: Sequence[Formula], arrays: Letters) -> Iterator[Formula]:
    """What the mean over tokens is, and their number, where they stand in the formulas."""
    shown, own = " ".join(map(str, rows)), arrays.latex
    if r"\bar{x}" in shown:
        both = r"V^{\bar{x}\bar{x}} = \frac{1}{m^{2}} \sum_{\nu,\kappa=1}^{m} V^{\nu\kappa}"
        first = r"\frac{1}{m} \sum_{\nu=1}^{m} V^{\alpha\nu},"
        yield Formula(own(r"V^{\alpha\bar{x}}"), "=", (own(first), r"\quad", own(both)))
    number = latex_names.name(arrays["m"])
    if r"\bar{x}" in shown or re.search(rf"(?<![A-Za-z\\]){re.escape(number)}(?![A-Za-z])", shown):
        yield Formula(number, "=", (r"\text{the number of tokens}",))


def _sum_name(number: int, letters: str, arrays: Letters) -> str:
    above = "".join(_index(arrays[c]) for c in letters)
    return _raised(f"{arrays.latex('S')}_{{{number}}}", above)


def _bracketed(form: Factored, arrays: Letters) -> tuple[list[str], list[Formula]]:
    """The terms of a factored form, each with its sign, and what 𝒜 is where it stands in them."""
    lines: list[str] = []
    defined: list[Formula] = []
    for number, pieces in form.groups:
        shown = [term for piece in pieces for term in _piece(piece, arrays)]
        if form.of_one_sum(pieces):
            left = rf"\mathcal{{A}}{'_' + str(len(defined) + 1) if defined else ''}{arrays.latex(_AT_FOUR)}"
            defined.append(Formula(left, "=", tuple(_signed(shown))))
            shown = [left]
        if number == 1 or (len(shown) == 1 and shown[0] == "1"):
            terms = shown if number == 1 else [_number(abs_of(number))]
        else:
            inside = " ".join(_signed(shown))
            body = rf"\left({inside}\right)" if len(shown) > 1 or shown[0].startswith("-") else inside
            terms = [f"{_number(abs_of(number))} {body}".removeprefix("1 ")]
        lines += _signed(terms, number.could_extract_minus_sign(), bool(lines))
    return lines or ["0"], defined


def abs_of(number: Expr) -> Expr:
    """A coefficient without its minus."""
    return -number if number.could_extract_minus_sign() else number


def _signed(terms: Sequence[str], minus: bool = False, after: bool = False) -> list[str]:
    """Terms with the signs they need behind others."""
    found: list[str] = []
    for term in terms:
        negative = term.startswith("-") != minus
        sign = "- " if negative else "+ " if found or after else ""
        found.append(sign + term.removeprefix("-").strip())
    return found


def _piece(piece: Piece, arrays: Letters) -> list[str]:
    """A product in front, times a sum."""
    front = summed(Form({piece.front: sympy.S.One}), arrays)[0] if piece.front else ""
    if piece.sum:
        return [f"{front} {_sum_name(piece.sum, ''.join(writing.FREE[i] for i in piece.at), arrays)}".strip()]
    if not piece.front:
        return [line.removeprefix("+ ") for line in summed(piece.inner, arrays)]
    (inner,) = summed(piece.inner, arrays)
    return [inner.replace("1", front, 1) if inner == "1" else f"{front} {inner}"]


def summed(form: Form, arrays: Letters, letters: str = "") -> list[str]:
    """The terms of a form, each with its sign."""
    lines: list[str] = []
    for i, (factors, coefficient) in enumerate(form.terms.items()):
        names, number, left = writing.named(factors, coefficient, arrays, letters)
        sign = "-" if number.could_extract_minus_sign() else "+" if i else ""
        total = rf"\sum_{{{','.join(map(_index, left))}}} " if left else ""
        random = " ".join(_factor(f, names, arrays) for f in factors if f[0][0] == "Y")
        body = " ".join(_factor(f, names, arrays) for f in factors if f[0][0] != "Y")
        body = rf"\operatorname{{E}}\left[{random}\right] {body}" if random else body
        number = -number if sign == "-" else number
        shown = "" if number == 1 and factors else _number(number)
        lines.append(" ".join(f"{sign} {shown} {total}{body}".split()))
    return lines or ["0"]


def _number(number: Expr) -> str:
    number = as_written(shortest(number))
    names = {s: decimal(s.name) or latex_names.name(s.name.strip("|")) for s in number.free_symbols}
    shown = sympy.latex(number, symbol_names=names)
    return rf"\left({shown}\right)" if number.is_Add else str(shown)


def _index(name: str) -> str:
    return r"\bar{x}" if name == "x̄" else latex_names.name(name)


def _factor(factor: Factor, names: Mapping[int, str], arrays: Letters) -> str:
    label, at, _ = factor
    inside = " ".join(_index(names[i]) for i in at)
    if label == "s":
        return rf"\sqrt{{{latex_names.name(arrays['V'])}^{{{inside} {inside}}}}}"
    if label == "I":
        return rf"1_{{{inside}}}"
    if label[0] in ARRAYS or label[0] == "Y":
        return _raised(latex_names.name(arrays[label]), rf"\,{inside}" if inside else "")
    return _raised(latex_names.name(arrays[label]), inside)


def _raised(name: str, indices: str) -> str:
    """A name with its indices above, if it has any."""
    return f"{name}^{{{indices}}}" if indices else name


def _mean(label: str, arrays: Letters) -> Formula:
    """What a Gaussian mean is."""
    definition = definition_of(label)
    assert definition is not None
    own = writing.DEFINED[: definition.rank]
    free = {free_index(i): c for i, c in enumerate(own)}
    change = {LOCAL + i: at for i, at in enumerate(free)}
    laws = [
        " ".join(summed(Form({renamed(f, change): c for f, c in terms}), arrays, letters=own))
        for terms in definition.covariances
    ]
    left = _raised(latex_names.name(arrays[label]), " ".join(_index(arrays[c]) for c in own))
    if isinstance(definition, Deviation):
        power = sympy.latex(definition.power / 2)
        return Formula(left, "=", (laws[0] if power == "1" else rf"\left({laws[0]}\right)^{{{power}}}",))
    names = [arrays.latex("u"), arrays.latex("u'")][: len(definition.functions)]
    functions = definition.functions
    shown = (FormulaPrinter({"symbol_names": {U: v}}).doprint(f) for f, v in zip(functions, names, strict=True))
    inner = r"\,".join(writing.side_by_side(functions, shown, r"\left({}\right)"))
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
    given = r",\ ".join(rf"\operatorname{{E}}\,{a} {b} = {c}" for (a, b), c in zip(pairs, laws, strict=True))
    return Formula(left, "=", (rf"\operatorname{{E}}\left[{inner}\right],\quad {given}",))
