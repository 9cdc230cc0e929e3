"""Statements that any regime may hold: products, maps, averages, pairs of neurons, tokens, heads, normalisation."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.draft import SIZES, Draft, Value

Piece = Callable[[Draft], Value | None]

#: maps of one vector: text, growth of the result (None: that of the argument)
SMOOTH = {
    "tp.tanh({})": 0,
    "tp.erf({})": 0,
    "tp.sin({})": 0,
    "tp.cos({})": 0,
    "tp.sigmoid({})": 0,
    "tp.exp(-{}**2)": 0,
    "{0}/(1 + {0}**2)": 0,
    "{0}/tp.sqrt(1 + {0}**2)": 0,
    "tp.elementwise(lambda u: u*sympy.exp(-u**2/2))({})": 0,
    "tp.gelu({})": 1,
    "tp.softplus({})": 1,
    "tp.log(1 + {}**2)": 1,
    "tp.sqrt(1 + {}**2)": 1,
    "tp.tanh({})**3": 0,
    "tp.gelu(8*{} - 6)": 1,
    "tp.sigmoid(20*({} - 1))": 0,
    "tp.exp(tp.sin({}))": 0,
    "1/(2 + tp.cos({}))": 0,
    "tp.exp(-4*({} - 1)**2)": 0,
    "tp.elementwise(lambda u: sympy.log(sympy.cosh(u)))({})": 1,
    "tp.elementwise(lambda u: sympy.asinh(u))({})": 1,
    "tp.elementwise(lambda u: sympy.erfc(2*u - 1))({})": 0,
}
KINKED = {
    "tp.relu({})": 1,
    "tp.abs({})": 1,
    "tp.leaky_relu({}, 0.2)": 1,
    "tp.relu({} - 0.3)": 1,
    "tp.clip({}, -1, 0.5)": 0,
    "tp.minimum(tp.relu({}), 2.5)": 0,
    "tp.exp(-tp.abs({}))": 0,
    "{0}/(1 + tp.abs({0}))": 0,
    "tp.abs({})**1.5": 2,
    "tp.abs(tp.sin({}))": 0,
    "tp.relu(tp.tanh({}) - 0.2)": 0,
    "tp.relu({0})*tp.relu(1 - {0})": 2,
    "tp.relu({0})**2/(1 + {0}**2)": 0,
    "tp.where({0} - 0.3, tp.exp(-tp.abs({0})), 0.7)": 0,
}
JUMPING = {
    "tp.step({})": 0,
    "tp.sign({})": 0,
    "tp.step({} - 0.4)": 0,
    "tp.step({0} + 0.2)*{0}": 1,
    "tp.step(tp.sin(2*{}))": 0,
}
#: nearly jumps, and differences of what saturates
STEEP = {
    "tp.tanh(30*{})": 0,
    "tp.tanh(30*{0})*{0}": 1,
    "tp.exp(1 - tp.tanh(30*{}))": 0,
    "tp.exp(-5*(1 - tp.tanh(30*{})))": 0,
    "tp.exp(tp.erf(20*({0} + 1)) - tp.erf(20*({0} - 1)))": 0,
    "tp.sigmoid(40*({0} - 1)) - tp.sigmoid(40*({0} - 1.2))": 0,
    "tp.step(tp.erf(20*({0} + 1)) - tp.erf(20*({0} - 1)) - 1)": 0,
    "tp.where(tp.tanh(25*{0}) - 0.5, {0}, 0.2)": 1,
    "tp.maximum(tp.tanh(30*{0}), {0})": 1,
    "tp.softplus(20*{})/20": 1,
    "tp.gelu(30*{})/30": 1,
    "tp.exp(-30*tp.abs({}))": 0,
    "tp.exp(-200*({} - 0.5)**2)": 0,
    "tp.abs(tp.tanh(30*{}))": 0,
    "tp.tanh(30*tp.tanh(30*{}))": 0,
    "10*tp.relu(tp.erf(20*{}) - 0.9)": 0,
    "1/(1 + tp.exp(50*({} - 0.5)))": 0,
}
GROWING = {"{}**2": 2, "{}**3": 3, "tp.exp(0.3*{})": 2, "tp.relu({})**2": 2}
#: removable and radial poles of two vectors
POLES = {
    "tp.tanh({0})/{0}": 0,
    "tp.sin({0})/{0}": 0,
    "{0}/tp.sqrt({0}**2 + {1}**2)": 0,
    "{0}**2/({0}**2 + {1}**2)": 0,
    "({0}**2 + {1}**2)**(-1/4)": 0,
    "{0}*{1}/tp.sqrt({0}**2 + {1}**2)": 1,
    "{0}*tp.log({0}**2 + {1}**2)": 1,
    "tp.sqrt(tp.abs({0}))*tp.sign({0})": 1,
    "(1 - tp.cos({0}))/{0}": 0,
    "tp.tanh({0})**2/{0}": 0,
    "tp.sin({0}*{1})/{0}": 1,
    "{0}**3/({0}**2 + {1}**2)": 1,
}
LOW = 4


def joined(*values: Value) -> tuple[str, ...]:
    """The axes of what is made of several values."""
    return tuple(dict.fromkeys(a for v in values for a in v.axes))


def tamed(draft: Draft, value: Value, degree: int) -> str:
    """Its text, kept bounded where it grows too fast."""
    return value.text if value.degree <= degree else f"tp.tanh({value.text})"


def image(draft: Draft) -> Value | None:
    """A product with a matrix or its transpose; few matrices, so that they meet again."""
    v = draft.vector()
    if v is None or v.degree > 2:
        return None
    shapes = {"W": ("n", "n"), "V": ("n", "n"), "R": ("k", "n"), "S": ("k", "k")}
    usable = [
        (name, transposed)
        for name, (rows, columns) in shapes.items()
        for transposed in (False, True)
        if v.width == (rows if transposed else columns)
    ]
    name, transposed = draft.some(usable)
    rows, columns = shapes[name]
    draft.argument(name, "tp.Matrix" if rows == columns == "n" else f'tp.Matrix["{rows}", "{columns}"]')
    return draft.let(
        f"{name}{'.T' if transposed else ''} @ {v.text}",
        v,
        width=columns if transposed else rows,
        degree=1,
        image=True,
    )


def table(draft: Draft) -> dict[str, int]:
    """Maps, jumps and growth among them now and then."""
    u = draft.rng.random()
    for chosen, bound in ((SMOOTH, 0.45), (KINKED, 0.72), (STEEP, 0.82), (JUMPING, 0.91)):
        if u < bound and not (draft.gentle and chosen is STEEP):
            return chosen
    return GROWING


def mapped(draft: Draft) -> Value | None:
    """A function of one vector."""
    v, chosen = draft.vector(), table(draft)
    if v is None or (chosen is GROWING and v.degree > 1):
        return None
    text = draft.some(sorted(chosen))
    if chosen is JUMPING:
        draft.trap("jump of a vector")
    return draft.let(text.format(v.text), v, degree=min(chosen[text], 1) * v.degree if chosen is not GROWING else 3)


def combined(draft: Draft) -> Value | None:
    """A function of two vectors, one vector twice among them."""
    x = draft.vector()
    y = draft.vector(x.width) if x else None
    if x is None or y is None:
        return None
    if x == y:
        return draft.let(f"{x.text}*tp.tanh({x.text})", x)
    forms = {
        f"{draft.number()}*{x.text} + {draft.number()}*{y.text}": max(x.degree, y.degree),
        f"{x.text} - {y.text}": max(x.degree, y.degree),
        f"{x.text}*tp.tanh({y.text})": x.degree,
        f"tp.maximum({x.text}, {y.text})": max(x.degree, y.degree),
        f"tp.where({x.text}, {y.text}, 0.5)": y.degree,
        f"{x.text}/(1 + {y.text}**2)": x.degree,
        f"tp.tanh({x.text} + {draft.number()}*tp.relu({y.text}))": 0,
        f"tp.sign({x.text})*{y.text}": y.degree,
    }
    if x.degree + y.degree <= 3:
        forms[f"{x.text}*{y.text}"] = x.degree + y.degree
    text = draft.some(sorted(forms))
    return draft.let(text, x, axes=joined(x, y), degree=forms[text])


def radial(draft: Draft) -> Value | None:
    """A pole that is removable, or that a Gaussian variable in the plane does not see."""
    x = draft.vector()
    y = draft.vector(x.width) if x else None
    if x is None or y is None or x == y:
        return None
    draft.trap("removable pole")
    text = draft.some(sorted(POLES))
    both = "{1}" in text
    degree = POLES[text] * max(x.degree, y.degree if both else 0)
    return draft.let(text.format(x.text, y.text), x, axes=joined(x, y) if both else x.axes, degree=degree)


def averaged(draft: Draft) -> Value | None:
    """A scalar: the mean of a product or of a function."""
    x = draft.vector()
    y = draft.vector(x.width) if x else None
    if x is None or y is None:
        return None
    if draft.chance(0.6):
        text, axes = f"{tamed(draft, x, 2)}*{tamed(draft, y, 2)}", joined(x, y)
    else:
        text, axes = draft.some(sorted({**SMOOTH, **KINKED})).format(tamed(draft, x, 2)), x.axes
    return draft.let(f"tp.avg({text})", x, width=None, axes=axes, degree=0)


def scaled(draft: Draft) -> Value | None:
    """A vector and a scalar together, smoothly."""
    v, s = draft.vector(), draft.scalar()
    if v is None or s is None:
        return None
    forms = {
        f"{v.text}*{s.text}": v.degree,
        f"{v.text} - {s.text}": v.degree,
        f"tp.tanh({v.text} + {s.text})": 0,
        f"{v.text}/(1 + {s.text}**2)": v.degree,
        f"{v.text}*tp.exp(-{s.text}**2)": v.degree,
        f"tp.erf({v.text}*{s.text})": 0,
        f"tp.relu({v.text} - {s.text})": v.degree,
        f"{v.text}*tp.cos({s.text})": v.degree,
        f"{v.text}*tp.softplus({s.text})": v.degree,
        f"{v.text}*tp.gelu({s.text})": v.degree,
    }
    text = draft.some(sorted(forms))
    return draft.let(text, v, degree=forms[text])


def normed(draft: Draft) -> Value | None:
    """Layer normalisation, or a root mean square."""
    v = draft.vector()
    if v is None or v.degree > 1:
        return None
    if draft.chance(0.5):
        return draft.let(f"{v.text}/tp.sqrt(tp.avg({v.text}**2) + 0.1)", v)
    m = draft.let(f"tp.avg({v.text})", v, width=None, degree=0)
    return draft.let(f"({v.text} - {m.text})/tp.sqrt(tp.avg(({v.text} - {m.text})**2) + 0.2)", v)


def paired(draft: Draft) -> Value | None:
    """An average over a second neuron of a function that mixes both."""
    x, y = draft.vector(axes=()), draft.vector(axes=())
    if x is None or y is None or max(x.degree, y.degree) > 1:
        return None
    other = {"n": "β", "k": "κ"}[y.width or "n"]
    a, b = x.text, f"{y.text}[{other}]"
    forms = (
        f"tp.tanh({a}*{b})*{b}",
        f"tp.sign({a}*{b})*{b}",
        f"tp.relu({a} + {b})",
        f"tp.abs({a} - {b})",
        f"tp.sin({a} + {b})*{b}",
        f"tp.step({a} + {b})*{b}",
        f"tp.maximum({a}, {b})",
        f"{a}*{b}/(1 + ({a}*{b})**2)",
    )
    if (declared := f'{other} = tp.neuron("{other}")') not in draft.lines:
        draft.lines.append(declared)
    draft.trap("two neurons")
    return draft.let(f"tp.avg({draft.some(forms)}, over={other})", x, degree=1)


def attended(draft: Draft) -> Value | None:
    """Attention over tokens with logits of averages, with one matrix for queries and keys or two, and masks."""
    v = draft.vector("n", ("token",))
    if v is None or v.degree > 1:
        return None
    for name in "WV":
        draft.argument(name, "tp.Matrix")
    q, k = draft.some((("W", "W"), ("W", "V"), ("W", "W.T")))
    query = draft.let(f"{q} @ {v.text}", v, image=True, degree=1)
    key = f"({k} @ {v.text}).rename(token='key')"
    scale = "tp.sqrt(tp.n)*" if draft.chance(0.25) else ""
    if scale:
        draft.trap("logits over the root of n")
    logit = f"{scale}tp.avg({query.text}*{key})"
    weights = f"tp.softmax({logit}, over='key')"
    if draft.chance(0.3):
        draft.lines.append("mask = tp.constant([[1, 0], [1, 1]], axes=('token', 'key'))")
        e = draft.let(f"mask*tp.exp({logit})", query, width=None, axes=("token", "key"), degree=0)
        draft.values.remove(e)
        weights = f"{e.text}/tp.sum({e.text}, over='key')"
    return draft.let(f"tp.sum({weights}*{v.text}.rename(token='key'), over='key')", v)


def tokens(draft: Draft) -> Value | None:
    """Entries, sums and permutations along the axis of tokens."""
    v = draft.vector(axes=("token",))
    if v is None:
        return None
    kind = draft.some(("sel", "mean", "sum", "take"))
    if kind == "sel":
        return draft.let(f"{v.text}.sel(token={draft.rng.randrange(SIZES['token'])})", v, axes=(), image=v.image)
    if kind == "take":
        picked = draft.some(("[1, 0]", "[1, -1]", "[0, 0]"))
        return draft.let(f"{v.text}.take(token={picked}, axes=('token',))", v)
    return draft.let(f"tp.{kind}({v.text}, over='token')", v, axes=())


def headed(draft: Draft) -> Value | None:
    """One matrix a head, summed over heads; the same family again is a shared one."""
    v = draft.vector("n", ())
    if v is None or v.degree > 1:
        return None
    draft.argument("H", 'tp.Matrix["n", "n", "head"]')
    t = ".T" if draft.chance(0.3) else ""
    if draft.chance(0.25):  # attention of heads to two vectors: their scores stay random or tend to numbers
        w = draft.vector("n", ())
        if w.degree > 1:
            return None
        draft.argument("J", 'tp.Matrix["n", "n", "head"]')
        scale = draft.some(("tp.sqrt(tp.n)*", ""))
        if scale:
            draft.trap("logits over the root of n")
        score = f"{scale}tp.avg((H @ {v.text})*(J @ {w.text}))"
        return draft.let(f"tp.sum(tp.sigmoid({score})*(H @ {w.text}), over='head')", v, degree=1)
    h = f"H{t} @ {v.text}"
    if draft.chance(0.4):
        return draft.let(f"tp.sum({draft.some(sorted(SMOOTH)).format(f'({h})')}, over='head')", v)
    i, j = draft.rng.randrange(2), draft.rng.randrange(2)
    first, second = (f"(H{t}.sel(head={k}) @ {v.text})" for k in (i, j))
    return draft.let(f"{first}*tp.tanh({second})", v, degree=1)
