"""Scalars √n ⟨a|x⟩ that stay random: in the class whose covariance is known and outside, and functions of them."""

from __future__ import annotations

from fuzz.draft import Draft, Value

#: functions of one or two such scalars {s}, {r} beside a vector {y}
_FORMS = (
    *("{y}*{s}", "{y}*tp.tanh({s})", "tp.tanh({y} + {s})", "{y}*tp.step({s})", "{y}*tp.exp(-{s}**2)"),
    *("tp.relu({y}*{s})", "{y}*tp.maximum({s}, 0.5)", "{y}*tp.abs({s})", "{y}*tp.step({s} - 0.4)"),
)
#: quotients, written as one does without names for what is divided
QUOTIENTS = (
    *("{y}*tp.sin({s})/{s}", "{y}*tp.sin(3*{s})/{s}", "{y}*tp.tanh({s})/{s}", "{y}*tp.tanh(1/{s})"),
    *("{y}*tp.relu({s})/{s}", "{y}*{s}**2/(1 + {s}**2)", "{y}*{s}/(1 + tp.abs({s}))", "{y}*{s}/tp.abs({s})"),
    *("{y}*{s}/tp.sqrt(1 + {s}**2)", "{y}*({s} + {r})/(1 + {s}**2 + {r}**2)", "{y}*tp.sin({s}*{r})/{s}"),
    *("{y}*tp.log(1 + {s}**2)/{s}", "{y}*(1 - tp.exp(-{s}**2))/{s}", "{y}*(1 - tp.cos({s}))/{s}**2"),
    *("{y}*{s}**2/({s}**2 + {r}**2)", "{y}*tp.tanh({s}/{r})", "{y}*tp.maximum({s}, {r})/(1 + {r}**2)"),
    *("tp.tanh({y}*{s})/{s}", "tp.sin({y} + {s})*{s}/(1 + {s}**2)", "{y}*tp.tanh({s})**2/{s}"),
)


def _scalars(draft: Draft, v: Value, w: Value) -> dict[str, str]:
    """Averages that vanish, by what is known of √n times them."""
    draft.argument("W", "tp.Matrix")
    fresh = draft.argument("a", "tp.Vector")
    logit = f"({draft.argument('Q', 'tp.Matrix')} @ {v.text})*({draft.argument('P', 'tp.Matrix')} @ {w.text})"
    return {
        "fluctuation of a fresh factor": f"{fresh}*{w.text}",
        "fluctuation of a logit": logit,
        "fluctuation of a logit of one matrix": f"(W @ {v.text})*(W @ {w.text})",
        "fluctuation of a logit of a transpose": f"(W @ {v.text})*(W.T @ {w.text})",
        "fluctuation that is not fresh": f"(W @ {v.text})*{w.text}",
        "fluctuation of a square": f"(W @ {v.text})**2 - {v.text}**2",
    }


def fluctuating(draft: Draft) -> Value | None:
    """√n times an average that vanishes, and a function of it."""
    v, w = draft.vector("n", ()), draft.vector("n", ())
    if v is None or w is None or max(v.degree, w.degree) > 1:
        return None
    kinds = _scalars(draft, v, w)
    kind = draft.some(sorted(kinds))
    draft.trap(kind)
    s = draft.let(f"tp.sqrt(tp.n)*tp.avg({kinds[kind]})", v, width=None, degree=0)
    draft.values.remove(s)
    y = draft.vector("n")
    return draft.let(draft.some(_FORMS).format(y=y.text, s=s.text), y, degree=max(1, y.degree))


def quotient(draft: Draft) -> Value | None:
    """A quotient of such scalars in the class that is known, √n written beside each, a mean named or not."""
    v, w, y = draft.vector("n", ()), draft.vector("n", ()), draft.vector("n")
    if v is None or w is None or y is None or max(v.degree, w.degree, y.degree) > 1:
        return None
    means = [f"tp.avg({draft.argument(a, 'tp.Vector')}*{u.text})" for a, u in zip("ae", (v, w), strict=True)]
    if draft.chance(0.5):
        named = [draft.let(m, v, width=None, axes=(), degree=0) for m in means]
        for s in named:
            draft.values.remove(s)
        means = [s.text for s in named]
    s, r = (f"(tp.sqrt(tp.n)*{m})" for m in means)
    text = draft.some(QUOTIENTS)
    draft.trap(f"quotient {text}")
    return draft.let(text.format(y=y.text, s=s, r=r), y, degree=1)
