"""Forms for people: text and SymPy expressions, with averages over tokens written as x̄ as in the literature."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, IndexedBase, S, Sum, Symbol

from tplimits.program.language.render import NumberPrinter
from tplimits.program.nodes.stated import contents
from tplimits.regimes.depth.algebra import folded
from tplimits.regimes.depth.algebra.arrays import ARRAYS
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.means import LOCAL, Deviation, U, definition_of, held_labels
from tplimits.regimes.depth.algebra.products import SPAN, Factors, free_index, renamed
from tplimits.report.letters import Letters, bare_names

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: names of free token indices and of summed ones
FREE = {-4: "α", -3: "β", -2: "δ", -1: "ω", -5: "σ", -6: "τ", -7: "υ", -8: "ψ", -9: "χ", -10: "ϑ"}
SUMMED = "νκμξηζθφ"
#: names of the tokens of a Gaussian mean where it is defined
DEFINED = "αβδωνκμξ"
#: names of summed indices of other axes, such as heads: h, h1, h2, …
OTHERS = "h"
M = Symbol("m", integer=True, positive=True)
#: covariances of tokens and of tangents
_COVARIANCES = frozenset("VCD")


def named(
    factors: Factors, coefficient: Expr, names: Letters, letters: str = ""
) -> tuple[dict[int, str], Expr, list[str]]:
    """Names of the indices, the coefficient left, and the indices left to be summed.

    A summed index that stands once, in a V, is an average over tokens (x̄) and takes one factor 1/m.  `letters` are
    those of the free indices, α, β, δ, ω unless given.
    """
    shown = {free_index(i): c for i, c in enumerate(letters)} or dict(FREE)
    count: dict[int, int] = {}
    for _, at, _ in factors:
        for i in at:
            if i >= 0:
                count[i] = count.get(i, 0) + 1
    available = -int(_power_of_m(coefficient))
    left: list[str] = []
    fresh = (c for c in numbered(SUMMED) if c not in letters)
    others = numbered(OTHERS)
    inside_v = {i for label, at, _ in factors if label in _COVARIANCES for i in at}
    for i in sorted(count):
        if count[i] == 1 and i in inside_v and available > 0:
            shown[i] = "x̄"
            available -= 1
            coefficient = coefficient * M
        else:
            shown[i] = next(others if i >= SPAN else fresh)
            left.append(shown[i])
    return {i: names[c] for i, c in shown.items()}, _told_apart(coefficient, names), [names[c] for c in left]


def _told_apart(expr: Expr, names: Letters) -> Expr:
    """The number of tokens by another letter where a constant has its own."""
    return expr.xreplace({M: Symbol(names["m"], integer=True, positive=True)})


def numbered(letters: str) -> Iterator[str]:
    """The letters, then with numbers.

    >>> list(itertools.islice(numbered("νκ"), 4))
    ['ν', 'κ', 'ν1', 'κ1']
    """
    return (letter + (str(k) if k else "") for k in itertools.count() for letter in letters)


def _power_of_m(coefficient: Expr) -> Expr:
    """p where the coefficient is m^p times something without m."""
    rest, power = sympy.factor_terms(coefficient).as_independent(M, as_Add=False)
    base, exponent = power.as_base_exp()
    return exponent if base == M and not rest.has(M) and exponent.is_Integer else S.Zero


def text(form: Form, arrays: Letters | None = None, most: int = 40, letters: str = "") -> str:
    """A form as one line; letters are told apart from the constants in it where it has no names yet.

    >>> V = lambda a, b: ("V", (a, b), 0)
    >>> text(Form({(V(-4, -3),): -S.One, (V(0, 1),): M**-2}))
    '-V[αβ] + V[x̄x̄]'
    >>> text(Form({(): S.One, (V(-4, -3),): -S.Half}))
    '1 - 1/2·V[αβ]'
    """
    arrays = Letters(_constants([form])) if arrays is None else arrays
    pieces = []
    for factors, coefficient in list(form.terms.items())[:most]:
        names, number, left = named(factors, coefficient, arrays, letters)
        sign = "-" if number.could_extract_minus_sign() else "+"
        number = -number if sign == "-" else number
        total = f"Σ_{''.join(left)} " if left else ""
        product = total + " ".join(_with_mean([(f[0], _factor(f, names, arrays)) for f in factors]))
        shown = _bracketed(NumberPrinter().doprint(number))
        pieces.append(f"{sign} {shown if not product else product if number == 1 else f'{shown}·{product}'}")
    if len(form.terms) > most:
        pieces.append(f"+ … ({len(form.terms) - most} more terms)")
    line = " ".join(pieces) or "0"
    return line[2:] if line.startswith("+ ") else line.replace("- ", "-", 1) if line.startswith("- ") else line


def _with_mean(factors: Sequence[tuple[str, str]]) -> list[str]:
    """Factors as they are shown, those that are random under one mean."""
    weights = [shown for label, shown in factors if label[0] == "Y"]
    return [*([f"E[{' '.join(weights)}]"] if weights else []), *(shown for label, shown in factors if label[0] != "Y")]


def _bracketed(shown: str) -> str:
    return f"({shown})" if " " in shown else shown


def _factor(factor: tuple, names: Mapping[int, str], arrays: Letters) -> str:
    label, at, _ = factor
    inside = "".join(names[i] for i in at)
    if label == "s":
        return f"√{arrays['V']}[{inside * 2}]"
    known = "p" if label[0] in ARRAYS else "φ" if label[0] == "Y" else "κ" if definition_of(label) else label
    return indexed(arrays.get(label) or arrays[known], inside)


def indexed(name: str, indices: str) -> str:
    """A name at its indices; what has none, as the mean of a scalar without tokens, is a number with a name."""
    return f"{name}[{indices}]" if indices else name


def array_names(forms: Iterable[Form], program: Program | None = None) -> Letters:
    """What constant arrays, Gaussian means and weights of order 1 are called: p, then p2, …; κ, κ2, …; φ, φ2, …

    Means without tokens are numbers, κ0, which no summed token is called.  Nothing that stands in the formulas of the
    program by its name is written like these, or like another letter of theirs.
    """
    read = list(forms)
    held = [f for form in read for factors in form.terms for f in factors]
    names = Letters({*_constants(read), *(bare_names(program) if program is not None else ())})
    inside = sorted(label for f in held for label in held_labels([f]) if label[0] in ARRAYS)
    for letter, labels in (
        ("p", dict.fromkeys([f[0] for f in held if f[0][0] in ARRAYS] + inside)),
        ("κ", dict.fromkeys(f[0] for f in held if definition_of(f[0]) and f[1])),
        ("κ0", dict.fromkeys(f[0] for f in held if definition_of(f[0]) and not f[1])),
        ("φ", dict.fromkeys(f[0] for f in held if f[0][0] == "Y")),
    ):
        names.update(zip(labels, names.numbered(letter), strict=False))
    return names


def _constants(forms: Iterable[Form]) -> set[str]:
    """The names of all symbols in coefficients but for the number of tokens."""
    return {s.name.strip("|") for f in forms for c in f.terms.values() for s in c.free_symbols - {M}}


def definitions(names: Letters) -> list[tuple[str, str]]:
    """What the Gaussian means among some named labels are: (κ[αβ], E[…] with its covariances), a line each.

    >>> from tplimits.regimes.depth.algebra.means import of_columns
    >>> label = of_columns((sympy.tanh(U), sympy.tanh(U)), (-4, -3))[0]
    >>> definitions(Letters(known={label: "κ"}))
    [('κ[αβ]', 'E[tanh(u) tanh(u′)], C(u) = V[αα], C(u, u′) = V[αβ], C(u′) = V[ββ]')]
    """
    lines = []
    for label, name in names.items():
        definition = definition_of(label)
        if definition is None:
            continue
        own = DEFINED[: definition.rank]
        arguments = {LOCAL + i: free_index(i) for i in range(definition.rank)}
        shown = [text(_renamed_form(c, arguments), names, letters=own) for c in definition.covariances]
        left = indexed(name, names.text(own))
        if isinstance(definition, Deviation):
            lines.append((left, shown[0] if definition.power == 2 else f"({shown[0]})^({definition.power / 2})"))
            continue
        variables = [names["u"], names["u"] + "′"][: len(definition.functions)]
        shown_functions = (
            sympy.sstr(f.xreplace({U: Symbol(v, real=True)}))
            for f, v in zip(definition.functions, variables, strict=True)
        )
        product = " ".join(side_by_side(definition.functions, shown_functions))
        pairs = [
            f"{names['C']}({', '.join(dict.fromkeys((a, b)))})" for i, a in enumerate(variables) for b in variables[i:]
        ]
        laws = ", ".join(f"{p} = {c}" for p, c in zip(pairs, shown, strict=True))
        lines.append((left, f"E[{product}], {laws}"))
    return lines


def side_by_side(functions: Sequence[Expr], shown: Iterable[str], bracket: str = "({})") -> list[str]:
    """Functions as they are written in a product: (1 − u²) (−u′), where 1 − u² −u′ would be a sum.

    >>> side_by_side([1 - U**2, -U], ["1 - u**2", "-u′"]), side_by_side([1 - U**2], ["1 - u**2"])
    (['(1 - u**2)', '(-u′)'], ['1 - u**2'])
    """
    several = len(functions) > 1
    return [
        bracket.format(s) if several and (f.is_Add or s.startswith("-")) else s
        for f, s in zip(functions, shown, strict=True)
    ]


def _renamed_form(terms: Iterable[tuple[Factors, Expr]], change: Mapping[int, int]) -> Form:
    return Form({renamed(factors, change): c for factors, c in terms})


def defined(form: Form, known: Mapping[str, numpy.ndarray]) -> tuple[str, str]:
    """A form as one line, and what its constant arrays are: (line, ", where p = …" or nothing)."""
    names = array_names([form])
    known_arrays = [f"{name} = {contents(known[label])}" for label, name in names.items() if label[0] in ARRAYS]
    where = " and ".join([*known_arrays, *(f"{left} = {right}" for left, right in definitions(names))])
    return text(form, names), f", where {where}" if where else ""


def expression(
    form: Form,
    arrays: Letters | None = None,
    tokens: Expr = M,
    known: Mapping[str, numpy.ndarray] | None = None,
    at: Sequence[Symbol] = (),
    used: frozenset[str] = frozenset(),
) -> Expr:
    """A form as a SymPy expression in V[α, β], sums over tokens from 1 to m, over other axes to the size of an array.

    Inside of another term its tokens are `at`, and its sums have names that are not `used` around it.

    >>> expression(Form({(("V", (-4, 0), 0),): 1 / M}))
    Sum(V[α, ν], (ν, 1, m))/m
    """
    arrays = Letters(_constants([form])) if arrays is None else arrays
    base = {letter: IndexedBase(arrays[letter], real=True) for letter in (*_COVARIANCES, "R")}
    V, found = base["V"], S.Zero
    for factors, coefficient in form.terms.items():
        dummies = sorted({i for _, at, _ in factors for i in at if i >= 0})
        names = {i: Symbol(arrays[n], integer=True) for i, n in FREE.items()}
        names |= {-4 - i: s for i, s in enumerate(at)}
        others = [i for i in dummies if i >= SPAN]
        summed = itertools.islice(numbered(SUMMED), len(at), None)
        for letters, own in ((summed, [i for i in dummies if i < SPAN]), (numbered(OTHERS), others)):
            left = (name for name in map(arrays.__getitem__, letters) if name not in used)
            names |= {i: Symbol(n, integer=True) for n, i in zip(left, own, strict=False)}
        around = used.union(s.name for s in (*at, *(names[i] for i in dummies)))
        sizes = _sizes(factors, known or {})
        product, random = S.One, S.One
        for label, places, _ in factors:
            inside = [names[i] for i in places]
            if label[0] == "Y":
                name = arrays.get(label) or arrays["φ"]
                random *= IndexedBase(name, real=True)[tuple(inside)] if inside else Symbol(name, real=True)
            elif label in base:
                product *= base[label][tuple(inside)]
            elif label == "s":
                product *= sympy.sqrt(V[inside[0], inside[0]])
            elif label == "N":
                product *= folded.expression(*(V[a, b] for a, b in (inside, [inside[0]] * 2, [inside[1]] * 2)))
            elif label in ("A", "B"):
                product *= folded.moved_expression(label, *(base[x] for x in "VCD"), *inside)
            elif label == "r":
                product /= sympy.sqrt(V[inside[0], inside[0]])
            elif label == "I":
                product *= sympy.KroneckerDelta(*inside)
            elif definition_of(label) is not None:
                product *= _mean(label, inside, arrays, tokens, known, around)
            else:
                product *= IndexedBase(arrays.get(label) or arrays["p"], real=True)[tuple(inside)]
        product = product if random == 1 else product * sympy.Function("E")(random)
        for i in dummies:
            product = Sum(product, (names[i], 1, sizes[i] if i in others else tokens))
        found += coefficient * product
    return _told_apart(found, arrays)


def _mean(
    label: str,
    inside: list[Symbol],
    arrays: Letters,
    tokens: Expr,
    known: Mapping[str, numpy.ndarray] | None,
    used: frozenset[str],
) -> Expr:
    """A Gaussian mean as a function of its covariances, a power of a variance as one."""
    definition = definition_of(label)
    assert definition is not None
    change = {LOCAL + i: -4 - i for i in range(definition.rank)}
    at = [expression(_renamed_form(c, change), arrays, tokens, known, inside, used) for c in definition.covariances]
    if isinstance(definition, Deviation):
        return at[0] ** (definition.power / 2)
    return sympy.Function(arrays.get(label) or arrays["κ"], real=True)(*at)


def _sizes(factors: Factors, known: Mapping[str, numpy.ndarray]) -> dict[int, int]:
    """The sizes of the indices that constant arrays have, those in definitions too."""
    found: dict[int, int] = {}
    for label, at, _ in factors:
        if label in known:
            found |= dict(zip(at, known[label].shape, strict=True))
        definition = definition_of(label)
        for terms in definition.covariances if definition else ():
            for inner, _ in terms:
                found |= {at[i - LOCAL]: n for i, n in _sizes(inner, known).items() if LOCAL <= i < 0}
    return found
