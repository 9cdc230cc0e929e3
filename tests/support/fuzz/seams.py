"""Zeros in disguise, and what a function does where its argument tends to one: kinks, jumps, poles, roots."""

from __future__ import annotations

from fuzz.draft import Draft, Value

#: scalars that tend to zero by an identity: g an image of `of`, w an image of a vector independent of `of`, a the
#: fresh argument, whose entries are N(0, 1)
_ZEROS = {
    "avg of a centred product": "tp.avg({a}*tp.tanh({g}))",
    "avg of an odd function": "tp.avg(tp.sin({g}))",
    "Stein tanh": "tp.avg({g}*tp.tanh({g})) - tp.avg(1 - tp.tanh({g})**2)*tp.avg({g}*{g})",
    "Stein sin": "tp.avg({g}*tp.sin({g})) - tp.avg(tp.cos({g}))*tp.avg({g}**2)",
    "norm of an image": "tp.avg({g}**2) - tp.avg({of}**2)",
    "half of the entries": "tp.avg(tp.step({g})) - 1/2",
    "half of an absolute value": "tp.avg(tp.relu({g})) - tp.avg(tp.abs({g}))/2",
    "fourth moment": "tp.avg({a}**4)/9 - tp.avg({a}**2)**2/3",
    "second moment": "tp.avg({a}**2) - 1",
    "characteristic function": "tp.avg(tp.cos({g})) - tp.exp(-tp.avg({g}**2)/2)",
    "dot part": "tp.avg({of}*({matrix}.T @ tp.tanh({g}))) - tp.avg(1 - tp.tanh({g})**2)*tp.avg({of}**2)",
}
#: functions of such a scalar s beside a vector v, by what stands there
HARMLESS = (
    *("{v}*(1 + {s})", "{v} + {s}", "{v}*tp.exp({s})", "tp.tanh({v} + {s})", "{v}/(1 + {s})", "{v}*tp.cos({s})"),
    *("{v}*tp.step({s} + 0.5)", "{v}*tp.sign({s} - 1)", "{v}*tp.log(1 + {s}**2)", "{v}*tp.softplus({s})"),
    *("{v}*tp.gelu({s})", "{v}*tp.where({s} - 1, {v}, 2)", "{v}/tp.sqrt(0.5 + {s})", "{v}*tp.sigmoid({s})"),
)
KINKS = (
    *("{v}*tp.relu({s})", "{v}*tp.abs({s})", "{v}*(1 + tp.relu({s}))", "{v} + tp.maximum({s}, 0)"),
    *("{v}*tp.clip({s}, 0, 1)", "{v}*tp.sqrt({s}**2)", "{v}*tp.minimum(0, {s})", "{v}*tp.leaky_relu({s} , 0.1)"),
    *("tp.relu({v}*{s})", "tp.abs({s}*{v})", "tp.relu({W} @ ({s}*{v}))"),
)
JUMPS = (
    *("{v}*tp.step({s})", "{v}*tp.sign({s})", "tp.step({s})*{v}**2", "tp.where({s}, {v}, -{v})", "tp.step({s}*{v})"),
    *(
        "tp.sign({W} @ ({s}*{v}))*{v}",
        "tp.step({W}.T @ ({v}*{s}))",
        "tp.sign({s}*{v})*{v}",
        "tp.step({v} - (1 + {s})*{v})*{v}",
        "tp.step(-{s})*{v}",
        "tp.sign({s}**3)*{v}",
    ),
)
POLES = (
    *("{v}/{s}", "{v}*tp.log({s})", "tp.tanh({v}/{s})", "{v}/{s}**2", "{v}/tp.abs({s})", "{v}*tp.log(tp.abs({s}))"),
    *("{v}*tp.avg({v})/{s}", "0*{v}/{s} + {v}", "{v}*tp.exp(1/{s})", "{v}*{s}/tp.sqrt({s}**2)"),
)
ROOTS = ("{v}*tp.sqrt({s})", "{v}*({s})**0.5", "tp.sqrt({s}*{v}**2)", "{v}*({s})**1.5")
#: kinds, and how often
KINDS = {
    "harmless at zero": (HARMLESS, 3),
    "kink at zero": (KINKS, 3),
    "jump at zero": (JUMPS, 2),
    "pole at zero": (POLES, 1),
    "root at zero": (ROOTS, 1),
}
#: traps at which there need be no limit, so that a refusal is right where it names them
NO_LIMIT = frozenset({"jump at zero", "pole at zero", "root at zero"})
#: scalars with a limit that is no zero, and the limit as one writes it
_VALUES = {
    "tp.avg({a}**2)": "1",
    "tp.avg(tp.step({g}))": "0.5",
    "tp.avg({a}**4)": "3",
    "tp.avg(tp.sigmoid({g}))": "1/2",
}
#: functions that are singular where such a scalar has its value, by what stands there
_AT_VALUES = {
    "kink at zero": (
        *("{v}*tp.clip({s}, 0, {c})", "{v}*tp.maximum({s}, {c})", "tp.minimum({c}*{v}, {s}*{v})"),
        *("tp.relu({v}*{s} - {c}*{v})", "{v}*tp.abs({s} - {c})", "{v}*tp.leaky_relu({c} - {s}, 0.1)"),
    ),
    "jump at zero": ("{v}*tp.step({s} - {c})", "tp.where({s} - {c}, {v}, 2)", "tp.sign({s}*{v} - {c}*{v})"),
    "pole at zero": ("{v}/({s} - {c})", "{v}*tp.log({s} - {c})"),
    "root at zero": ("{v}*tp.sqrt({s} - {c})",),
}


def zero(draft: Draft) -> Value | None:
    """A scalar that tends to zero, in disguise."""
    of = draft.vector("n", ())
    if of is None or of.degree > 1:
        return None
    matrix = draft.argument(draft.some("WV"), "tp.Matrix")
    fresh = draft.argument("a", "tp.Vector")
    g = draft.let(f"{matrix} @ {of.text}", of, image=True, degree=1)
    name = draft.some(sorted(_ZEROS))
    draft.trap(f"zero by {name}")
    s = _ZEROS[name].format(a=fresh, g=g.text, of=of.text, matrix=matrix)
    return draft.let(s, of, width=None, axes=(), degree=0)


def seam(draft: Draft) -> Value | None:
    """A function of a zero in disguise, singular there or nearly."""
    s, v = zero(draft), draft.vector()
    if s is None or v is None or v.degree > 1:
        return None
    draft.values.remove(s)
    kind = draft.rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])[0]
    draft.trap(kind)
    text = draft.some([t for t in KINDS[kind][0] if v.width == "n" or "{W}" not in t])
    if "{W}" in text:
        draft.argument("W", "tp.Matrix")
    return draft.let(text.format(v=v.text, s=s.text, W="W"), v, degree=1)


def at_value(draft: Draft) -> Value | None:
    """A function with a kink, a jump, a pole or a root at the value that a scalar tends to."""
    of, v = draft.vector("n", ()), draft.vector()
    if of is None or v is None or max(of.degree, v.degree) > 1:
        return None
    g = draft.let(f"{draft.argument('W', 'tp.Matrix')} @ {of.text}", of, image=True, degree=1)
    text, limit = draft.some(sorted(_VALUES.items()))
    s = draft.let(text.format(a=draft.argument("a", "tp.Vector"), g=g.text), of, width=None, axes=(), degree=0)
    draft.values.remove(s)
    kind = draft.rng.choices(list(_AT_VALUES), [4, 2, 1, 1])[0]
    draft.trap(kind)
    draft.trap("at a scalar's value")
    return draft.let(draft.some(_AT_VALUES[kind]).format(v=v.text, s=s.text, c=limit), v, degree=1)
