"""Ones and zeros in disguise, as scalars and as whole vectors, and domains that cancel where they are written out."""

from __future__ import annotations

from fuzz.draft import Draft, Value

#: scalars that tend to one: g an image of `of`, a the fresh argument, whose entries are N(0, 1)
_ONES = {
    "second moment": "tp.avg({a}**2)",
    "twice a half": "2*tp.avg(tp.step({g}))",
    "norms of an image and its source": "tp.avg({g}**2)/tp.avg({of}**2)",
    "fourth moment": "tp.avg({a}**4)/3",
    "Stein's quotient": "tp.avg({g}*tp.tanh({g}))/(tp.avg(1 - tp.tanh({g})**2)*tp.avg({g}**2))",
    "characteristic function": "tp.avg(tp.cos({g}))*tp.exp(tp.avg({g}**2)/2)",
    "relu and abs": "2*tp.avg(tp.relu({g}))/tp.avg(tp.abs({g}))",
}
#: functions of two such scalars {r}, {q} beside a vector {v}, by what stands there
_USES = {
    "harmless at zero": (
        *("{v}/({r} + {q})", "{v}/{r} - {v}*{q}", "tp.sqrt({r})*{v}", "tp.log({r}) + {v}", "{v}*(1 - {r})/(2 - {q})"),
        *("tp.where({r} + {q} - 1, {v}, 0)", "tp.tanh({v}/{r})", "{v}*({r} - {q})", "tp.relu({v}/{r} + 0.2)"),
        *("{v}/tp.sqrt({r}*{q})", "{v}*tp.log({r})/({r} - 1)", "{v}*({r}**2 - 1)/({r} - 1)", "{v}*tp.exp({r} - {q})"),
    ),
    "kink at zero": (
        *("tp.abs({r} - {q})*{v}", "tp.maximum({r}, {q})*{v}", "{v}/(tp.abs({r} - 1) + 0.5)", "{v}/tp.maximum({r}, 1)"),
        *("tp.relu({r}*{v} - {q}*{v})", "tp.minimum({r}*{v}, {v})", "{v}/(1 + tp.relu({r} - {q}))"),
        *("{v}*tp.abs(tp.abs({r}) - 1)", "{v}*tp.clip({r}, {q}, 2)", "tp.maximum({v}, {v}*{r})"),
    ),
    "jump at zero": ("tp.where({r} - {q}, {v}, 2)", "tp.step({r} - 1)*{v}", "tp.sign({r}*{v} - {v})*{v}"),
    "pole at zero": ("{v}/({r} - {q})", "{v}*tp.log({r} - 1)", "{v}*(1 - {r})/(1 - {q})", "{v}/tp.abs({r} - {q})"),
    "root at zero": ("{v}*tp.sqrt({r} - {q})", "{v}*tp.abs({r} - {q})**0.5"),
}
#: vectors that are zero, or one, in every entry, in floating point, too
_VECTORS = {
    "tp.relu({w}) - tp.relu(-{w}) - {w}": 0,
    "tp.tanh({w}) + tp.tanh(-{w})": 0,
    "tp.abs({w}) - tp.maximum({w}, -{w})": 0,
    "tp.step({w}) + tp.step(-{w}) - 1": 0,
    "tp.step({w})*tp.step(-{w})": 0,
    "tp.sign({w})**2 - 1": 0,
    "tp.relu(tp.abs({w})) - tp.abs({w})": 0,
    "tp.minimum(tp.abs({w}), -1) + 1": 0,
    "tp.step({w}) + tp.step(-{w})": 1,
    "tp.step(1 + {w}**2)": 1,
    "tp.maximum(tp.tanh({w}), 1)": 1,
    "tp.sign(tp.abs({w}))": 1,
}
#: what becomes of them beside a vector {v}
_OF_VECTORS = {
    0: (
        *("{v} + {z}", "tp.step({z} + 0.5)*{v}", "{v}*tp.abs({z}) + {v}", "{v}/(1 + {z})", "tp.maximum({z}, {v})"),
        *("tp.relu({z}) + {v}", "tp.sqrt(1 + {z})*{v}", "tp.where({z} - 0.5, 5, {v})", "tp.tanh({v} - {z})"),
    ),
    1: (
        *("{v}/{z}", "tp.abs({z})*{v}", "tp.log({z}) + {v}", "tp.maximum({z}, 0.5)*{v}", "{v}*tp.sqrt({z})"),
        *("tp.where({z} - 0.5, {v}, 5)", "tp.minimum({z}, {v})", "tp.relu({v}*{z})", "{v}**2/{z}"),
    ),
}
#: what a domain that is written out and cancels leaves, real everywhere or not
REAL = {
    "tp.exp(tp.log(tp.abs({})))": 1,
    "tp.log(tp.exp({}))": 1,
    "tp.sqrt({}**2)": 1,
    "tp.exp(0.5*tp.log({}**2))": 1,
    "{0}/tp.abs({0})": 0,
    "tp.abs({0})/{0}": 0,
    "tp.log({0}**2) - tp.log(tp.abs({0}))": 1,
    "tp.where({0}, tp.sqrt({0}), 0)": 1,
    "tp.where({0}, tp.log({0}), {0})": 1,
    "tp.where({0}, 1/{0}, 0)*{0}": 0,
    "tp.relu({})**0.5": 1,
    "tp.sqrt(tp.abs({0}))*tp.sqrt(tp.abs({0}))": 1,
    "{0}**2/{0}": 1,
    "{0}**3/{0}**2": 1,
    "tp.log(tp.relu({}) + 1)": 1,
    "tp.exp({0})*tp.exp(-{0})": 0,
    "tp.sqrt(1 - tp.tanh({})**2)": 0,
    "tp.log(1 + tp.sin({})**2)": 0,
    "tp.exp(tp.log(1 + {}**2)/2)": 1,
}
#: the trap of functions that are no number for half of the neurons
LEFT = "domain left"
#: the trap of functions with a slope that has no second moment, and what is written in them
STEEP = "slope of a root"
_STEEP = ("**0.5", "tp.sqrt(tp.abs", "tp.sqrt({0}), 0", "tp.log({0}), {0}", "tp.abs({0})**(1/3)")
UNREAL = (
    *("tp.sqrt({0})*tp.sqrt({0})", "tp.exp(tp.log({0}))", "tp.relu({0})/tp.relu({0})", "tp.sqrt({0})**2"),
    *(
        "tp.log({0}) - tp.log({0}/2)",
        "tp.tanh(tp.sqrt({0}))",
        "tp.step({0})/tp.step({0})",
        "tp.relu({0})**2/tp.relu({0})",
    ),
)

#: what may be zero in a share of the neurons, where quotients have no number
_FLAT = ("step", "relu", "sign", "clip", "where", "minimum", "maximum")


def ones(draft: Draft) -> Value | None:
    """A function of two scalars that tend to one."""
    of, v = draft.vector("n", ()), draft.vector()
    if of is None or v is None or max(of.degree, v.degree) > 1:
        return None
    matrix, fresh = draft.argument(draft.some("WV"), "tp.Matrix"), draft.argument("a", "tp.Vector")
    g = draft.let(f"{matrix} @ {of.text}", of, image=True, degree=1)
    names = draft.rng.sample(sorted(_ONES), 2)
    r, q = (
        draft.let(_ONES[name].format(a=fresh, g=g.text, of=of.text), of, width=None, axes=(), degree=0)
        for name in names
    )
    draft.values.remove(q)
    kind = draft.rng.choices(list(_USES), [5, 4, 1, 1, 1])[0]
    draft.trap(f"ones by {names[0]}, {names[1]}")
    draft.trap(kind)
    return draft.let(draft.some(_USES[kind]).format(v=v.text, r=r.text, q=q.text), v, degree=1)


def constant_vector(draft: Draft) -> Value | None:
    """A vector of zeros or ones in disguise, and a function of it."""
    v = draft.vector()
    w = draft.vector(v.width, v.axes) if v else None
    if v is None or w is None or v.degree > 1:
        return None
    text, number = draft.some(sorted(_VECTORS.items()))
    draft.trap(f"{number} by {text}")
    z = draft.let(text.format(w=w.text), w, degree=0)
    draft.values.remove(z)
    return draft.let(draft.some(_OF_VECTORS[number]).format(v=v.text, z=z.text), v, degree=1)


def look_for_slopes(draft: Draft, text: str) -> None:
    """The trap of a function of one vector, if its slope has no second moment."""
    if any(part in text for part in _STEEP):
        draft.trap(STEEP)


def domain(draft: Draft) -> Value | None:
    """A function whose domain cancels, or is that of real numbers only as one reads it."""
    v = draft.vector()
    if v is None or v.degree > 1:
        return None
    if draft.chance(0.1):
        draft.trap(LEFT)
        return draft.let(draft.some(UNREAL).format(v.text), v, degree=1)
    text = draft.some(sorted(REAL))
    if "/{0}" in text and any(head in line for head in _FLAT for line in draft.lines):
        draft.trap(LEFT)
    draft.trap(f"domain {text}")
    look_for_slopes(draft, text)
    return draft.let(text.format(v.text), v, degree=REAL[text] * v.degree)
