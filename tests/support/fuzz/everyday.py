"""What people write every day: one function in several spellings, gates, deep chains, statistics of averages, weights
by exponentials of neurons, polynomials, layers of networks with biases, residual branches and slices along tokens.
"""

from __future__ import annotations

from fuzz.disguises import look_for_slopes
from fuzz.draft import Draft, Value

#: one function of one vector in the words of different people: text, growth
SPELLINGS = {
    "tp.maximum({0}, 0) + 0.2*tp.minimum({0}, 0)": 1,
    "tp.where({0}, {0}, 0.1*{0})": 1,
    "({0} + tp.abs({0}))/2": 1,
    "{0}*tp.step({0})": 1,
    "{0}*tp.sigmoid({0})": 1,
    "{0}*tp.tanh(tp.softplus({0}))": 1,
    "tp.where({0}, {0}, tp.exp({0}) - 1)": 1,
    "tp.where({0}, {0}, tp.exp(tp.minimum({0}, 0)) - 1)": 1,
    "tp.maximum({0}, 0) - tp.maximum(-{0}, 0)": 1,
    "tp.where(-{0}, -{0}, {0})": 1,
    "tp.clip({0}, -1, 1)*tp.sign({0})": 0,
    "tp.minimum(tp.maximum({0} + 0.5, 0), 1)": 0,
    "(tp.exp({0}) - tp.exp(-{0}))/(tp.exp({0}) + tp.exp(-{0}))": 0,
    "tp.exp({0})/(1 + tp.exp({0}))": 0,
    "tp.log(tp.exp({0}) + tp.exp(-{0}))": 1,
    "0.5*{0}*(1 + tp.tanh(0.8*({0} + 0.044715*{0}**3)))": 1,
    "tp.relu({0})**1.5": 2,
    "tp.abs({0})**0.7": 1,
    "(1 + {0}**2)**(1/3)": 1,
    "tp.abs({0})**(1/3)*tp.sign({0})": 1,
}
#: polynomials, by coefficients that keep them small
POLYNOMIALS = (
    *("0.2*({0}**4 - 6*{0}**2 + 3)", "0.1*({0}**3 - 3*{0})", "0.05*({0}**5 - 10*{0}**3 + 15*{0})"),
    *("(1 + 0.3*{0})**4 - 1", "0.02*{0}**6", "0.1*({0} - 1)**2*({0} + 1)**2", "({0} - 0.5)*({0} + 0.5)*{0}*0.3"),
)
#: functions of two vectors: text, growth
PAIRS = {
    "tp.log(tp.exp({0}) + tp.exp({1}))": 1,
    "tp.log(1 + tp.exp({0}) + tp.exp({1}))": 1,
    "tp.exp({0})/(tp.exp({0}) + tp.exp({1}))": 0,
    "{0}*tp.sigmoid({1})": 1,
    "{0}*tp.sigmoid({0} - {1})": 1,
    "{0}*tp.gelu(tp.tanh({1}))": 1,
    "tp.sqrt({0}**2 + {1}**2)": 1,
    "tp.sqrt({0}**2 + {1}**2 + 0.1)": 1,
    "tp.maximum(tp.maximum({0}, {1}), 0)": 1,
    "tp.where({0} - {1}, {0}, {1})": 1,
    "tp.minimum(tp.abs({0}), tp.abs({1}))": 1,
    "tp.abs({0} + {1}) - tp.abs({0} - {1})": 1,
    "tp.relu({0})*tp.step({1})": 1,
    "(1 - tp.sigmoid({1}))*{0} + tp.sigmoid({1})*tp.tanh({0})": 1,
    "({0} + {1})**2 - ({0} - {1})**2": 2,
}
#: scalars of scalars, and quotients of averages, of vectors {a}, {b}
STATISTICS = (
    *("tp.avg({a}*{b})/tp.avg(1 + {a}**2)", "tp.sqrt(tp.avg({a}**2) + 0.1)", "tp.avg({a}**2) - tp.avg({a})**2"),
    *("tp.avg({a}*{b})/tp.sqrt((tp.avg({a}**2) + 0.1)*(tp.avg({b}**2) + 0.1))", "(1 + tp.avg({a}**2))**(-1/3)"),
    *("tp.avg(tp.tanh({a} - tp.avg({b})))", "tp.avg(tp.relu({a} - tp.avg(tp.relu({b}))))", "tp.avg({a}**2)**1.5"),
    *("tp.exp(-tp.avg({a}**2)/2)", "tp.tanh(tp.avg({a}*tp.avg({b}**2)*{b}))", "tp.log(1 + tp.avg(tp.abs({a})))"),
    *("tp.avg(tp.abs({a}))/tp.sqrt(tp.avg({a}**2) + 0.2)", "tp.maximum(tp.avg({a}), 0.3)", "1/(1 + tp.avg({b}**2))"),
    "tp.avg(tp.tanh({a})*tp.avg(tp.tanh({b} + tp.avg({a}))))",
)


def spelled(draft: Draft) -> Value | None:
    """A function in one of its spellings, or a polynomial."""
    v = draft.vector()
    if v is None or v.degree > 1:
        return None
    if draft.chance(0.2):
        text = draft.some(POLYNOMIALS)
        draft.trap("polynomial")
        return draft.let(text.format(v.text), v, degree=4)
    text = draft.some(sorted(SPELLINGS))
    look_for_slopes(draft, text)
    return draft.let(text.format(v.text), v, degree=SPELLINGS[text] * v.degree)


def gated(draft: Draft) -> Value | None:
    """A gate, a sum of exponentials, a maximum of several."""
    x = draft.vector()
    y = draft.vector(x.width, x.axes) if x else None
    if x is None or y is None or x == y or max(x.degree, y.degree) > 1:
        return None
    text = draft.some(sorted(PAIRS))
    return draft.let(text.format(x.text, y.text), x, degree=PAIRS[text] * max(x.degree, y.degree))


def statistic(draft: Draft) -> Value | None:
    """A scalar of scalars."""
    x = draft.vector(axes=())
    y = draft.vector(x.width, ()) if x else None
    if x is None or y is None or max(x.degree, y.degree) > 1:
        return None
    text = draft.some(STATISTICS)
    return draft.let(text.format(a=x.text, b=y.text), x, width=None, axes=(), degree=0)


def chained(draft: Draft) -> Value | None:
    """Four to six layers of few matrices, transposes among them, in one statement each."""
    v = draft.vector("n", ())
    if v is None or v.degree > 1:
        return None
    names = draft.some((("W",), ("W", "W.T"), ("W", "V"), ("W", "V", "W.T")))
    for name in names:
        draft.argument(name[0], "tp.Matrix")
    draft.trap("chain")
    f = draft.some(("tp.tanh", "tp.relu", "tp.erf", "tp.sin", "tp.sigmoid"))
    for _ in range(draft.rng.randint(3, 5)):
        v = draft.let(f"{f}({draft.some(names)} @ {v.text})", v, degree=1)
    return v


def weighted(draft: Draft) -> Value | None:
    """Attention of neurons to neurons: a softmax over infinitely many keys."""
    x, y = draft.vector("n", ()), draft.vector("n", ())
    if x is None or y is None or max(x.degree, y.degree) > 1:
        return None
    if (declared := 'β = tp.neuron("β")') not in draft.lines:
        draft.lines.append(declared)
    draft.trap("softmax over neurons")
    weight = f"tp.exp({draft.number(0.2, 0.6)}*tp.tanh({x.text})*tp.tanh({y.text}[β]))"
    return draft.let(f"tp.avg({weight}*{y.text}[β], over=β)/tp.avg({weight}, over=β)", x, axes=(), degree=1)


def over_tokens(draft: Draft) -> Value | None:
    """A softmax of the entries of a vector over its tokens, a slice with its neighbour, differences of tokens."""
    v = draft.vector(axes=("token",))
    if v is None or v.degree > 1:
        return None
    forms = (
        f"tp.sum(tp.softmax({v.text}, over='token')*{v.text}, over='token')",
        f"{v.text}.sel(token=0)*tp.sigmoid({v.text}.sel(token=1))",
        f"tp.maximum({v.text}.sel(token=0), {v.text}.sel(token=1))",
        f"0.6*{v.text}.sel(token=0) - 0.8*{v.text}.sel(token=1)",
        f"{v.text} - tp.mean({v.text}, over='token')",
        f"tp.relu({v.text} + 0.5*{v.text}.take(token=[1, -1], axes=('token',)))",
    )
    text = draft.some(forms)
    return draft.let(text, v, axes=v.axes if text in forms[4:] else ())


def crossed(draft: Draft) -> Value | None:
    """Attention whose queries and keys are of different functions of the tokens, by one matrix or none."""
    v = draft.vector("n", ("token",))
    if v is None or v.degree > 1:
        return None
    q, k = (text.format(v.text) for text in draft.some(_RELATED))
    if draft.chance(0.6):
        M = draft.argument(draft.some("WV"), "tp.Matrix")
        q, k = f"({M} @ {q})", f"({M} @ {k})"
    draft.trap("queries and keys of different functions")
    logit = f"tp.avg(({q})*({k}).rename(token='key'))"
    weight = f"tp.softmax(2*{logit}, over='key')" if draft.chance(0.6) else f"tp.tanh({logit})"
    return draft.let(f"tp.sum({weight}*{v.text}.rename(token='key'), over='key')", v)


def layer(draft: Draft) -> Value | None:
    """A layer with a bias, a residual branch, a normalised one, one with a gate; its matrix may come again."""
    v = draft.vector("n")
    if v is None or v.degree > 1:
        return None
    M = draft.argument(draft.some("WVM"), "tp.Matrix")
    f = draft.some(("tp.relu", "tp.tanh", "tp.gelu"))
    b = draft.argument(draft.some("fgl"), "tp.Vector") if "ξ" in draft.arguments else "0.3"
    forms = [
        f"{f}({M} @ {v.text} + 0.5*{b})",
        f"{v.text} + 0.7*{f}({M} @ {v.text})",
        f"{v.text} + 0.5*({M} @ {f}({v.text}))",
        f"{M} @ ({v.text}/tp.sqrt(tp.avg({v.text}**2) + 0.1))",
        f"({M} @ {v.text})*tp.sigmoid({M}.T @ {v.text})",
        f"tp.sqrt(0.5)*({v.text} + {f}({M} @ {v.text}))",
    ]
    return draft.let(draft.some(forms), v, degree=1)


def twice(draft: Draft) -> Value | None:
    """Two images of one matrix of vectors that are not independent, and what they have in common."""
    v = draft.vector("n", ())
    if v is None or v.degree > 1:
        return None
    M = draft.argument(draft.some("WVQ"), "tp.Matrix")
    t = ".T" if draft.chance(0.3) else ""
    x, y = (f"({M}{t} @ {text.format(v.text)})" for text in draft.some(_RELATED))
    draft.trap("two images of one matrix")
    if draft.chance(0.5):
        y = draft.some(("{}", "tp.tanh({})", "tp.relu({})")).format(y)
        return draft.let(f"tp.avg({x}*{y})", v, width=None, degree=0)
    return draft.let(draft.some(("tp.tanh({0} + {1})", "{0}*tp.sigmoid({1})", "tp.maximum({0}, {1})")).format(x, y), v)


#: two functions of one vector
_RELATED = (
    *(("{}", "tp.tanh({})"), ("tp.relu({})", "{}"), ("tp.cos({})", "tp.relu({})"), ("{0}", "tp.sign({0})*0.5 + {0}")),
    *(("tp.relu({})", "tp.relu(-{})"), ("tp.sigmoid({})", "tp.abs({})")),
)


def bottleneck(draft: Draft) -> Value | None:
    """Through another width and back, by one matrix or two."""
    v = draft.vector("n", ())
    if v is None or v.degree > 1:
        return None
    R = draft.argument("R", 'tp.Matrix["k", "n"]')
    back = f"{R}.T" if draft.chance(0.7) else draft.argument("Z", 'tp.Matrix["n", "k"]')
    f = draft.some(("tp.tanh", "tp.relu", "tp.gelu", ""))
    draft.trap("another width and back")
    return draft.let(f"{back} @ {f}({R} @ {v.text})", v, image=True, degree=1)


#: weights of the pieces beside those of a regime
PIECES = {
    twice: 1,
    bottleneck: 0.7,
    spelled: 1.5,
    gated: 1.5,
    statistic: 1,
    chained: 0.3,
    weighted: 0.3,
    over_tokens: 0.7,
    layer: 1.5,
    crossed: 1,
}
