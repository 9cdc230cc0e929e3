"""Random networks: their kernels, and their training in both regimes."""

from __future__ import annotations

import random
import re

import numpy as np

from fuzz import disguises, everyday, fluctuations, pieces, seams
from fuzz.draft import SIZES, Case, Draft, Value
from fuzz.programs import RATIOS, grow, on_other_width

PIECES = {
    pieces.image: 6,
    pieces.mapped: 4,
    pieces.combined: 3,
    pieces.averaged: 1.5,
    pieces.scaled: 1.5,
    pieces.normed: 1,
    pieces.paired: 0.4,
    pieces.attended: 1,
    pieces.tokens: 1,
    pieces.headed: 1,
    pieces.radial: 0.4,
    fluctuations.fluctuating: 0.4,
    fluctuations.quotient: 0.5,
    disguises.ones: 0.8,
    disguises.constant_vector: 0.5,
    disguises.domain: 0.8,
    seams.seam: 1.2,
    seams.at_value: 0.5,
    **everyday.PIECES,
}
#: in training every gradient is trained along, jumps have none, and each step costs
SMOOTHER = {
    **PIECES,
    pieces.paired: 0,
    pieces.radial: 0,
    everyday.weighted: 0,
    everyday.chained: 0,
    seams.seam: 0.7,
    pieces.normed: 0.5,
    fluctuations.fluctuating: 0.2,
    fluctuations.quotient: 0.1,
}


def begun(rng: random.Random) -> Draft:
    """A draft whose first vector is an embedding of the data; a bias and an axis of tokens now and then."""
    draft = Draft(rng)
    tokens = draft.chance(0.25)
    draft.argument("ξ", 'tp.Input["token", "d"]' if tokens else 'tp.Input["d"]')
    draft.argument("U", 'tp.Vector["d"]', "tp.init(mean=0.3, std=1)" if draft.chance(0.1) else None)
    first = draft.let('tp.sum(U*ξ, over="d")', Value("ξ", axes=("token",) if tokens else ()), image=True)
    if draft.chance(0.3):
        draft.keep(Value(draft.argument("b", "tp.Vector", draft.some(("tp.init(mean=0.5, std=1)", "1"))), degree=1))
    if draft.chance(0.2):
        draft.let(f"{first.text} + 0.5*{draft.argument('e', 'tp.Vector')}", first)
    if draft.chance(0.1):
        draft.keep(on_other_width(draft))
    return draft


def dependent(draft: Draft) -> Value:
    """A late vector without axes that depends on the data."""
    fitting = [v for v in draft.values if v.width and v.text[0] == "y" and v.degree <= 2]
    v = fitting[-1] if draft.chance(0.7) else draft.some(fitting)
    return v if not v.axes else draft.let(f"tp.mean({v.text}, over='token')", v, axes=())


def fresh(draft: Draft, v: Value, name: str = "v") -> str:
    """A readout vector of its own, over the right width."""
    return draft.argument(name, "tp.Vector" if v.width == "n" else 'tp.Vector["k"]')


def read_out(draft: Draft, adversarial: bool = True) -> str:
    """What is returned: a fresh readout of late vectors, several outputs, an output bias, or one that is not fresh."""
    x = dependent(draft)
    kind = draft.rng.choices(
        [
            *("plain", "two terms", "image", "bias", "outputs"),
            *("tied", "tied by a name", "tied and not", "one twice", "not fresh"),
        ],
        [6, 2, 1, 1, 1, *(weight * adversarial for weight in (1, 0.7, 0.5, 0.7, 1.2))],
    )[0]
    v = fresh(draft, x)
    if kind == "two terms":
        y = dependent(draft)
        return f"{v}*{x.text} + 0.6*{fresh(draft, y, 'w')}*{y.text}" if y.width == x.width else f"{v}*{x.text}"
    if kind == "one twice":  # two layers read out by one vector
        y = dependent(draft)
        draft.trap("one readout twice")
        return f"{v}*({x.text} - 0.5*{y.text})" if y.width == x.width else f"{v}*{x.text}"
    if kind == "image" and x.width == "n":
        draft.arguments.pop(v)
        return f"{draft.argument('O', 'tp.Matrix')} @ {x.text}"
    if kind == "bias":
        return f"tp.readout({v}*{x.text}) + 0.4*{draft.argument('o', 'tp.Scalar')}"
    if kind == "outputs":
        draft.arguments[v] = 'tp.Vector["out"]' if x.width == "n" else 'tp.Vector["k", "out"]'
        return f"{v}*{x.text}"
    if kind.startswith("tied") and x.width == "n":
        draft.trap(f"{kind} output")
        tied = f"U.rename(d='out')*({draft.argument('Q', 'tp.Matrix')} @ {x.text})"
        if kind == "tied and not":
            return f"{tied} + 0.7*{v}*{x.text}"
        draft.arguments.pop(v)
        if kind == "tied":
            return tied
        draft.lines.append("E = U.rename(d='out')")
        return tied.replace("U.rename(d='out')", "E")
    if kind == "not fresh":
        draft.arguments.pop(v)
        draft.trap("not a fresh readout")
        return x.text
    return f"{v}*{x.text}"


def data(rng: random.Random, draft: Draft, count: int) -> np.ndarray:
    """So many inputs of two entries a token."""
    shape = (count, 2, 2) if "token" in draft.arguments["ξ"] else (count, 2)
    return np.round(np.random.default_rng(rng.randrange(2**32)).uniform(-1.2, 1.2, shape), 1)


def sizes(source: str) -> dict[str, int]:
    """Sizes that data does not fix."""
    found = {axis: size for axis, size in SIZES.items() if f'"{axis}"' in source}
    if '"out"' in source:
        found["out"] = 2
    return found


def trained(rng: random.Random, parameters: list[str]) -> str:
    """One parameter, several, or rates for some."""
    some = sorted(rng.sample(parameters, rng.choice((1, 1, 2, 2, len(parameters))) if len(parameters) > 1 else 1))
    return str(tuple(some) if rng.random() < 0.75 else {name: rng.choice((0.5, 2, 3)) for name in some})


def kernel_case(seed: int) -> Case:
    """A random network and some of its parameters trained."""
    rng = random.Random(seed)
    draft = begun(rng)
    grow(draft, rng.randint(2, 6), PIECES)
    source = draft.source("network", read_out(draft))
    parameters = [p for p in (*draft.arguments, *draft.defaults) if p not in ("ξ", "o")]
    bound = sizes(source)
    named = [f"train={trained(rng, parameters)}"] if rng.random() < 0.6 else []
    if "over='head')" in source and rng.random() < 0.5:
        named.append("infinite=('head',)")
        source = source.replace("over='head')", "over='head')/tp.sqrt(tp.size('head'))")
        del bound["head"]
    limit = f"tp.Kernels({', '.join(named)})"
    options = {"limit": limit, "bind": bound, "X1": data(rng, draft, 2)}
    if '"k"' in source:
        options["ratios"] = {"k": rng.choice(RATIOS)}
    return Case(seed, "kernels", source, options, tuple(draft.traps))


OPTIMIZERS = (
    *("tp.SGD()", "tp.SGD()", "tp.SGD(momentum=0.5)", "tp.SGD(momentum=0.9)"),
    *("tp.Adam(eps=0.1)", "tp.Adam(eps=0.1)", "tp.SignSGD(eps=0.1)"),
    *("tp.RMSProp(eps=0.1)", "tp.Adagrad(eps=0.1)", "tp.NAdam(eps=0.1)", "tp.Adafactor(eps=0.1)"),
    *("tp.Normalized(tp.SGD())", "tp.Normalized(tp.SGD(), by='weight')", "tp.Clipped(tp.SGD(), threshold=0.5)"),
    *("tp.Clipped(tp.Adam(eps=0.1), threshold=1)", "tp.Entrywise(lambda g: sympy.tanh(g))"),
    "tp.Entrywise(lambda m: m, states={'m': lambda g, m: 0.5*m + g})",
    # bends away from 0, momenta of other kinds, and what is nearly a sign
    "tp.Entrywise(lambda g: sympy.Max(g - 0.05, 0) - sympy.Max(-g - 0.05, 0))",
    "tp.Entrywise(lambda g: sympy.Min(sympy.Max(g, -0.3), 0.4))",
    "tp.Entrywise(lambda g: sympy.Abs(g - 0.1) - 0.1)",
    "tp.Entrywise(lambda m: m/sympy.sqrt(m**2 + 0.01), states={'m': lambda g, m: 0.9*m + 0.1*g})",
    "tp.Entrywise(lambda g, m: sympy.tanh(5*(m + 0.3*g)), states={'m': lambda g, m: 0.6*m + 0.4*g})",
    "tp.Entrywise(lambda g, s: g/sympy.sqrt(s + 0.01), states={'s': lambda g, s: sympy.Max(0.9*s, g**2)})",
    "tp.Entrywise(lambda g, t: g/(1 + t))",
    "tp.Entrywise(lambda g: g**3/(1 + g**2))",
    "tp.Entrywise(lambda g: sympy.sign(g))",
    "tp.SignSGD()",
    "tp.Adam(eps=0.1, convention='torch')",
)


def by_parameter(rng: random.Random, parameters: list[str]) -> str:
    """An optimizer for every parameter, some at rest."""
    chosen = {p: rng.choice((*OPTIMIZERS, "tp.Frozen()")) for p in parameters}
    return "{" + ", ".join(f"'{p}': {o}" for p, o in chosen.items()) + "}"


def shrinking(rng: random.Random, parameters: list[str]) -> dict[str, float]:
    """A decay for every parameter."""
    return {p: rng.choice((0, 0.1, 0.3)) for p in parameters}


def training_case(seed: int) -> Case:
    """A random network trained for a step or two on two inputs, in one of the two regimes."""
    rng = random.Random(seed)
    draft = begun(rng)
    draft.gentle = True
    grow(draft, rng.randint(1, 4), SMOOTHER)
    source = draft.source("network", read_out(draft))
    optimizer = rng.choice(OPTIMIZERS)
    parameters = [p for p in (*draft.arguments, *draft.defaults) if p != "ξ"]
    if rng.random() < 0.2:
        optimizer = by_parameter(rng, parameters)
    decay = rng.choice(("", "", ", weight_decay=0.1", f", weight_decay={shrinking(rng, parameters)}"))
    kind = rng.choice(("MaximalUpdate", "NeuralTangent"))
    steps, outputs = rng.randint(1, 2), '"out"' in source or "'out'" in source
    options = {
        "limit": f"tp.{kind}({optimizer}{decay})",
        "bind": sizes(source),
        "X": data(rng, draft, 2),
        "error": f"tp.squared_error({[[1.0, -0.5], [-0.8, 0.6]] if outputs else [1.0, -0.8]})",
        "lr": 0.1 if "SGD" not in optimizer else 0.3,
        "steps": steps,
    }
    if kind == "NeuralTangent":
        f0 = [[0.2, -0.1], [0.1, 0.3]] if outputs else [0.2, -0.1]
        options["f0"] = [f0] * (steps + 1) if re.search("[1-9]", decay) else f0  # of a decay of 0 there is none
    if kind == "MaximalUpdate" and "o: tp.Scalar" in source:
        options["o"] = 0.3
    if '"k"' in source:
        options["ratios"] = {"k": rng.choice(RATIOS)}
    draft.trap(f"{kind} {optimizer.removeprefix('tp.')}")
    return Case(seed, "training", source, options, tuple(draft.traps))
