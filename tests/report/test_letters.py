"""Letters of formulas beside constants that a user named like them: each stands for one thing, in text and in LaTeX."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.report.latex_names import name

TILDE = "\u0303"
BLOCK = """
def subject(x: tp.State["token"], W: tp.Matrix, K: tp.Matrix, *, {0}, {1}, {2}, {3}, {4}, {5}, {6}):
    w = W @ x
    logits = {2} * tp.avg((K @ x) * x.rename(token="key"))
    small = {1} * x - {3} * {4} * tp.mean(x, over="token")
    mixed = tp.sum(tp.tanh({5} * logits) * w.rename(token="key"), over="key")
    return tp.sqrt(1 - {0}**2) * x + {0} * w + small / tp.width("n") + {6} * mixed
"""
NETWORK = """
def subject(ξ: tp.Input, U: tp.Vector, W: tp.Matrix, v: tp.Vector, c0: tp.Scalar, *, {0}, {1}, {2}, {3}, {4}, {5}, {6}):
    h = U * ξ
    z = {0} * tp.tanh({1} * (W @ h)) + {2} * h
    return tp.readout({3} * v * tp.tanh({4} * z + {5} * h + {6})) + c0
"""
DEPTH = (tp.Proportional(), tp.Proportional(tangent=True))
TRAINED = (
    tp.MaximalUpdate(tp.SGD()),
    tp.MaximalUpdate(tp.Adam(), weight_decay=0.1),
    tp.MaximalUpdate(tp.Adafactor()),
    tp.NeuralTangent(tp.SGD(), weight_decay=0.1),
    tp.NeuralTangent(tp.Clipped(tp.Adam(), 0.5, of="gradient")),
    tp.NeuralTangent(tp.Normalized(tp.SGD())),
)
#: constants named like letters of the formulas, and the same by names that no letter has
NAMED = {"depth": ("m", "α", "nu", "κ", "C", "V", "s"), "training": ("η", "chi", "f", "Q", "ν", "λ", "m")}
UNLIKE = tuple(f"c{i}" for i in range(1, 8))
OWN = {"nu": "ν", "chi": "χ"}


def derived(regime, names):
    """A limit of the block or the network with constants of these names."""
    kind, source = ("block", BLOCK) if regime in DEPTH else ("network", NETWORK)
    space = {"tp": tp}
    exec(source.format(*names), space)
    return tp.derive(getattr(tp, kind)(space["subject"]), regime)


def times(shown, letter):
    """How often a letter stands alone in text."""
    return len(re.findall(rf"(?<![A-Za-z]){re.escape(letter)}(?![A-Za-z{TILDE}])", shown))


def times_in_latex(shown, letter):
    """How often a letter, a command or an indexed letter is a token of LaTeX, without an accent."""
    words = r"\\(?:operatorname|mathrm|text|mathcal|tilde|begin|end)(?:\{[^{}]*\}| \w)"
    return re.findall(rf"{words}|c_\{{\d\}}|\\[A-Za-z]+|[A-Za-z]", shown).count(letter)


@pytest.mark.parametrize("regime", (*DEPTH, *TRAINED), ids=str)
def test_a_letter_is_a_constant_or_one_of_the_formulas(regime):
    """What is printed is what stands there for constants of other names; with one letter for both, counts add up."""
    names = NAMED["depth" if regime in DEPTH else "training"]
    limit, plain = derived(regime, names), derived(regime, UNLIKE)
    text, unmarked = (str(found).partition("  given")[0] for found in (limit, plain))  # what follows is prose
    assert TILDE in text and TILDE not in unmarked
    for spelled, unlike in zip(names, UNLIKE, strict=True):
        own = OWN.get(spelled, spelled)
        assert times(text, spelled) == times(unmarked, unlike)
        assert times(text, own + TILDE) == times(unmarked, own)
        latex, other = limit.latex(), plain.latex()
        assert times_in_latex(latex, name(spelled)) == times_in_latex(other, name(unlike))
        assert times_in_latex(latex, name(own[0] + TILDE)) == times_in_latex(other, name(own))


VALUES = dict(zip(NAMED["depth"], (0.6, 0.3, 0.5, 0.4, 1.1, 0.9, 0.7), strict=True))
V = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])


def drift(given):
    """Of the block: 2α√(1 − m²) V − κC√(1 − m²)(V_αx̄ + V_βx̄) + s²ν²·(tanh′(0) V)² V Σ V_νκ²."""
    m, α, ν, κ, C, slope, s = given.values()
    means, kept = V.mean(1), np.sqrt(1 - m**2)
    small = 2 * α * kept * V - κ * C * kept * (means[:, None] + means)
    return small + (s * ν * slope) ** 2 * V * (V**2).sum()


def evaluated(printed, given):
    """b at the first two of three tokens, from the text of a SymPy expression and numbers by the names in it."""
    symbols = dict.fromkeys(re.findall(rf"[^\W\d]\w*{TILDE}?\w*", printed))
    space = {n: sympy.Symbol(n, integer=True) for n in symbols} | {"Sum": sympy.Sum, "sqrt": sympy.sqrt}
    tokens = "m" + TILDE if "m" + TILDE in symbols else "m"
    covariance = "V" + TILDE if "V" + TILDE in symbols else "V"
    space |= {tokens: sympy.Integer(3), covariance: sympy.IndexedBase("entries")} | given
    marked = {n: f"v{i}" for i, n in enumerate(space)}  # names that Python reads one by one
    source = re.sub(rf"[^\W\d]\w*{TILDE}?\w*", lambda found: marked[found[0]], printed)
    shown = eval(source, {marked[n]: value for n, value in space.items()}).doit()
    free = [s for s in ("α" + TILDE, "α", "β") if s in symbols and s not in given]
    shown = shown.subs({space[s]: i + 1 for i, s in enumerate(free)})
    return float(shown.replace(sympy.Indexed, lambda _, i, j: sympy.Float(V[int(i) - 1, int(j) - 1])))


def test_a_drift_evaluated_from_its_own_text_is_the_drift():
    limit = derived(DEPTH[0], NAMED["depth"])
    truth = drift(VALUES)[0, 1]
    np.testing.assert_allclose(limit.drift_at(V, constants=VALUES), drift(VALUES), rtol=1e-12)
    assert evaluated(str(limit.drift), VALUES) == pytest.approx(truth, rel=1e-12)
    for wrong in ("α", "κ", "C", "s"):  # a constant read elsewhere than it stands
        assert evaluated(str(limit.drift), VALUES | {wrong: 2.0}) != pytest.approx(truth, rel=1e-3)


def step(printed, start, given):
    """v after one step of SGD from the text of the recursion, kets as vectors of a few neurons."""
    space = {"tanh": np.tanh, "mean": np.mean, **given}
    space |= {f"ket_{n}": x for n, x in start.items() if n in "UvW"} | {"ξ": start["ξ"], "c0": 0.0}

    def read(text):
        text = re.sub(r"⟨1\|(\w+)_t⟩", r"mean(ket_\1)", text)
        text = re.sub(r"\|W_t(ᵀ?) (\w+)_t⟩", lambda f: f"(ket_W{'.T' * bool(f[1])} @ ket_{f[2]} / 4)", text)
        text = (
            re.sub(r"\|(\w+)_t⟩", r"ket_\1", text)
            .replace("_t", "")
            .translate(dict(zip(map(ord, "−·ᵀ"), "-*T", strict=True)))
        )
        text = re.sub(r"- (\S+) (\S+)\(", r"- \1 * \2(", text)
        return re.sub(rf"[^\W\d](?:\w|{TILDE})*", lambda f: f[0].replace(TILDE, "_own"), text)

    space = {read(n): x for n, x in space.items()}
    for line in printed.splitlines():
        left, equals, right = (part.strip() for part in line.partition("= "))
        if left == "|v_{t+1}⟩":
            return eval(read(right), space)
        if equals and "shift" not in left and "{t+1}" not in left:
            space[read(left)] = eval(read(right), space)
    raise AssertionError


def test_a_step_evaluated_from_its_own_text_is_that_of_the_gradient():
    rng = np.random.default_rng(0)
    start = {"U": rng.standard_normal(4), "v": rng.standard_normal(4), "W": rng.standard_normal((4, 4)), "ξ": 0.7}
    given = dict(zip(NAMED["training"], (0.7, 1.2, 0.5, 1.3, 0.8, -0.4, 0.3), strict=True))
    rate = 0.25

    def output(v):
        η, χ, f, Q, ν, λ, m = given.values()
        h = start["U"] * start["ξ"]
        z = η * np.tanh(χ * start["W"] @ h / 4) + f * h
        return np.mean(Q * v * np.tanh(ν * z + λ * h + m))

    gradient = np.array([4 * (output(start["v"] + e) - output(start["v"])) for e in np.eye(4)])  # linear in v
    truth = start["v"] - rate * (output(start["v"]) - 1) * gradient
    of_formulas = {"η" + TILDE: rate, "Q" + TILDE: lambda g: g, "ε": lambda f: f - 1}
    printed = str(derived(TRAINED[0], NAMED["training"]))
    np.testing.assert_allclose(step(printed, start, given | of_formulas), truth, rtol=1e-12)
    other = step(printed, start, given | of_formulas | {"η" + TILDE: given["η"]})  # the constant in its place
    assert np.abs(other - truth).max() > 0.1
