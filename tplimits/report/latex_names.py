r"""The names of a program in LaTeX: `h#2` → h^{(2)}, `x[token=0]` → x_{\mathrm{token}=0}, `γ` → \gamma.

Any printable name gives math that compiles with amsmath: characters that mean something to TeX are
escaped, several sub- or superscripts are joined into one, and letters LaTeX does not know appear by number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tplimits.program.nodes.functions import leaky_relu, stop_gradient

GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρςστυφχψωΓΔΘΛΞΠΣΥΦΨΩ",
        (
            *("alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
            *("nu", "xi", "pi", "rho", "varsigma", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega", "Gamma"),
            *("Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"),
        ),
        strict=True,
    )
)
#: Greek letters without a command of their own look like Latin ones
_LATIN = dict(zip("οΑΒΕΖΗΙΚΜΝΟΡΤΧ", "oABEZHIKMNOPTX", strict=True))
_ACCENTS = {
    "\u0300": "grave",
    "\u0301": "acute",
    "\u0302": "hat",
    "\u0303": "tilde",
    "\u0304": "bar",
    "\u0307": "dot",
    "\u0308": "ddot",
    "\u030c": "check",
    "\u20d7": "vec",
}
#: a letter with its accents
_LETTER = rf"\w[{''.join(_ACCENTS)}]*"
#: what stands at a name for one side of zero: c_minus is c₋
_SIGNS = {"minus": "-", "plus": "+"}
_ESCAPED = {
    "\\": r"\backslash ",
    "{": r"\{",
    "}": r"\}",
    "^": r"\wedge ",
    "~": r"\sim ",
    "|": r"\vert ",
    "<": "{<}",
    ">": "{>}",
    "-": "{-}",
    "′": r"\prime ",
    " ": r"\;",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    **{c: "\\" + c for c in "_%$#&"},
}


#: names that another name of the program is written like: s_1 beside s1
_APART: ContextVar[frozenset[str]] = ContextVar("apart", default=frozenset())


@contextmanager
def apart(names: Iterable[str]) -> Iterator[None]:
    r"""Inside, two of the names that would be one in LaTeX are two: the longer one is spelled out.

    >>> with apart(["s_1", "s1", "γ"]):
    ...     name("s1"), name("s_1[0]"), name("γ")
    ('s_{1}', '\\mathrm{s\\_1}_{0}', '\\gamma')
    """
    stems = sorted({re.split(r"[\[#]", n)[0] for n in names} - {""}, key=lambda n: (len(n), n))
    first: dict[str, str] = {r"\pi": "π"}  # the number
    twice = frozenset(n for n in stems if first.setdefault(name(n), n) != n)
    token = _APART.set(twice)
    try:
        yield
    finally:
        _APART.reset(token)


def name(text: str) -> str:
    r"""A program's name as LaTeX."""
    ratio = re.fullmatch(r"\((\w+)/(\w+)\)", text)
    if ratio:
        return rf"\tfrac{{{name(ratio[1])}}}{{{name(ratio[2])}}}"
    stem, lower = re.fullmatch(r"(.+?)((?:\[[^\[\]]*\])*)", text).groups()  # type: ignore[union-attr]  # never None
    below = [_index(part) for part in re.findall(r"\[([^\[\]]*)\]", lower)]
    anonymous = re.fullmatch(r"_(\d+)", stem)
    if anonymous:
        return "x" + _script("_", [f"({anonymous[1]})", *below])
    stem, counts = re.fullmatch(r"(.+?)((?:#\d+)*)", stem).groups()  # type: ignore[union-attr]  # never None
    count = ",".join(counts.split("#")[1:])
    stem, _, power = stem.partition("^") if re.fullmatch(r"[^^]+\^[^^]+", stem) else (stem, "", "")
    above = ([_letters(power, upright=False)] if power else []) + ([f"({count})"] if count else [])
    parts = re.fullmatch(r"([^\W\d_]+)(\d+)|([^_]+)_([^_].*)", stem)
    if stem in _APART.get():
        spelled = "".join(_ESCAPED.get(c) or _plain(c) for c in stem)
        return rf"\mathrm{{{spelled}}}" + _script("_", below) + _script("^", above)
    if parts:
        stem, sub = parts[1] or parts[3], parts[2] or parts[4]
        below.insert(0, _SIGNS.get(sub) or _letters(sub))
    return _letters(stem) + _script("_", below) + _script("^", above)


#: signs in sentences
_IN_TEXT = {"−": "$-$", "·": r"$\cdot$", "≥": r"$\ge$", "≤": r"$\le$", "-": "-", **{c: "\\" + c for c in "_%$#&{}"}}


def prose(text: str) -> str:
    r"""Words with names in them, for \text{…}: what is no plain ASCII stands in mathematics.

    >>> print(prose("reads Ω_1 − b, 50 % of it"))
    reads $\Omega$\_1 $-$ b, 50 \% of it
    """
    shown = []
    for cluster in _clusters(text):
        is_plain = cluster == " " or (cluster.isascii() and cluster.isprintable() and cluster not in _ESCAPED)
        shown.append(_IN_TEXT.get(cluster) or (cluster if is_plain else f"${_character(cluster)}$"))
    return "".join(shown)


#: signs in the name of a vector that is an expression
_OF_EXPRESSIONS = {
    "ᵀ": r"^{\top}",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "·": r"\cdot ",
    "*": r"\,",
    " ": r"\,",
    "′": "'",
}
#: functions whose names are no letter with a subscript
_FUNCTIONS = frozenset(f.__name__ for f in (leaky_relu, stop_gradient))
_TOKENS = re.compile(
    r"\*\*(?:\((?P<power>[^()]*)\)|(?P<exponent>[\w.]+))|Σ_(?P<axis>[^\W₀-₉]+)|(?P<below>[₀-₉]+)|(?P<number>\d+(?:\.\d+)?(?![\w.]))"
    rf"| ?(?P<sign>[+-]) ?|(?P<word>(?:(?![₀-₉ᵀΣ]){_LETTER})+(?:[.#^](?:(?![₀-₉ᵀ]){_LETTER})+)*)|(?P<other>.)"
)


def label(text: str) -> str:
    r"""The name of a vector, which may be an expression in names."""
    if text.startswith("(") and text.endswith(")^"):
        return rf"\widehat{{{label(text[1:-2])}}}"
    root = re.match(r"√(\w+) ", text)
    if root:
        return rf"\sqrt{{{name(root[1])}}}\,{label(text[root.end() :])}"
    if re.fullmatch(rf"(?:(?![₀-₉ᵀΣ]){_LETTER})+(?:[.#^](?:{_LETTER})+)*", text):
        return name(text)
    shown: list[str] = []
    for found in _TOKENS.finditer(text):
        if found.lastgroup in ("power", "exponent") and shown and "^" in shown[-1]:
            shown[-1] = f"{{{shown[-1]}}}"  # x^{(2)} has one superscript already
        shown.append(_token(found))
    return "".join(shown)


def _token(found: re.Match[str]) -> str:
    kind, shown = found.lastgroup, found[found.lastgroup or 0]
    if kind in ("power", "exponent"):
        return f"^{{{label(shown)}}}"
    if kind == "axis":
        return rf"\sum_{{{name(shown)}}}"
    if kind == "below":
        return "{}_{" + "".join(chr(ord(c) - ord("₀") + ord("0")) for c in shown) + "}"
    if kind in ("number", "sign"):
        return shown
    if kind == "word":
        return rf"\mathrm{{{prose(shown)}}}" if shown in _FUNCTIONS else name(shown)
    return _OF_EXPRESSIONS.get(shown) or (shown if shown in "()/,=[]" else name(shown))


def _script(mark: str, parts: list[str]) -> str:
    return f"{mark}{{{','.join(parts)}}}" if parts else ""


def _index(inside: str) -> str:
    """`token=0,key=1` or `3` as a subscript."""
    shown = []
    for part in inside.split(","):
        axis, equals, value = part.partition("=")
        shown.append(_letters(axis) + (f"={_letters(value)}" if equals else ""))
    return ",".join(shown)


def _letters(text: str, upright: bool = True) -> str:
    """A word: one letter in italics, Greek by its command, several letters upright."""
    text = unicodedata.normalize("NFKC", text)
    if text in GREEK.values():
        return "\\" + text
    marks = [_character(c) for c in _clusters(text)]
    if len(marks) == 1 or text.isdigit() or not upright:
        return "".join(marks)
    return r"\mathrm{" + "".join(m + " " if re.search(r"\\[A-Za-z]+$", m) else m for m in marks).rstrip() + "}"


def _clusters(text: str) -> list[str]:
    """Characters with the accents that follow them."""
    return re.findall("[^" + "".join(_ACCENTS) + "][" + "".join(_ACCENTS) + "]*|.", unicodedata.normalize("NFD", text))


def _character(cluster: str) -> str:
    letter, accents = cluster[0], cluster[1:]
    shown = _plain(letter)
    for accent in accents:
        shown = rf"\{_ACCENTS[accent]}{{{shown}}}"
    return shown


def _plain(letter: str) -> str:
    if letter in _ESCAPED:
        return _ESCAPED[letter]
    if letter in GREEK:
        return "\\" + GREEK[letter]
    if letter in _LATIN:
        return _LATIN[letter]
    if letter.isascii() and letter.isprintable():
        return letter
    return rf"\mathtt{{U{{+}}{ord(letter):04X}}}"
