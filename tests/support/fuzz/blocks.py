"""Random blocks of deep networks, for the limit of depth in proportion to width."""

from __future__ import annotations

import random
import re

import numpy as np

from fuzz.draft import Case, Draft

#: what is added to √(1 − γ²) x, of order 1 and with the variance of x: text, names of matrices
LINEAR = ("W1 @ x", "W2 @ (W1 @ x)", "(W1 @ x + W2 @ x)/tp.sqrt(2)")
#: functions of a logit of order n^(-1/2): smooth, kinked, jumping, with a pole
LOGIT_MAPS = (
    *("tp.softmax", "Y", "tp.tanh(Y)", "tp.exp(Y)", "tp.sin(Y)", "tp.exp(2*Y) - 1", "tp.sigmoid(Y)", "Y**2", "Y**3"),
    *(
        "tp.relu(Y)",
        "tp.abs(Y)",
        "tp.relu(Y)**2",
        "tp.sqrt(Y**2)",
        "tp.gelu(Y)",
        "tp.softplus(Y)",
        "tp.leaky_relu(Y, 0.1)",
    ),
    *(
        "tp.relu(0.5 + Y)",
        "tp.maximum(Y, 0)",
        "tp.relu(Y)/tp.sqrt(tp.n)",
        "tp.sign(Y)/tp.sqrt(tp.n)",
        "tp.step(Y)/tp.sqrt(tp.n)",
    ),
    *("tp.sqrt(Y**2)/tp.sqrt(tp.n)", "tp.sign(1 + Y)*Y", "tp.step(Y - 1)", "tp.tanh(tp.sqrt(tp.n)*Y)/tp.sqrt(tp.n)"),
    *("tp.relu(p + Y) - tp.relu(p)", "tp.abs(p + Y) - tp.abs(p)", "tp.tanh(p + Y) - tp.tanh(p)", "p*tp.relu(Y)"),
    *("tp.sin(Y)*tp.relu(Y)", "Y*tp.abs(Y)", "tp.tanh(Y)**2", "tp.abs(Y)**1.5/tp.n**(1/4)", "tp.sigmoid(20*(Y - 1))"),
    *("tp.gelu(tp.sqrt(tp.n)*Y)/tp.n", "tp.relu(tp.sqrt(tp.n)*Y - 0.3)/tp.n", "tp.sign(Y)*Y**2*tp.sqrt(tp.n)"),
    *("tp.maximum(Y, 2*Y)", "tp.relu(p + 0.3*Y) - tp.relu(p)", "p*tp.sign(Y)/tp.sqrt(tp.n)", "tp.sqrt(1 + Y**2) - 1"),
    *("tp.exp(Y + Z) - 1", "tp.exp(Y)*tp.tanh(Z)", "tp.relu(Y)*Z", "tp.maximum(Y, Z)", "Y*Z", "Y*Z**2 + Y**2 - Z"),
    *("tp.exp(Y)/(1 + Z) - 1", "tp.relu(Y + p)*tp.exp(Z) - tp.relu(p)", "tp.abs(Y - Z)", "Y + Y**2/2 + Y**3/6"),
    # of two logits that differ in their variance at n^(-1/2)
    *("tp.relu(Y) - tp.relu(Z)", "tp.abs(Y) - tp.abs(Z)", "tp.relu(Y) + tp.relu(-Z) - tp.abs(Z)"),
    *("1/(1 + Y)", "tp.log(1 + Y)", "Y/(1 + Y**2)", "tp.sqrt(1 + Y) - 1", "tp.clip(Y, -1, 0)", "1/Y/tp.n"),
)
#: the state as keys
KEYS = "x.rename(token='key')"
#: activations of a branch of order n^(-1/2), or shaped ones
BRANCHES = (
    *("g/tp.sqrt(tp.n)*(W2 @ tp.relu(W1 @ x))", "g/tp.sqrt(tp.n)*(W2 @ tp.erf(W1 @ x))"),
    *("g/tp.sqrt(tp.n)*(W2 @ tp.tanh(W1 @ x))", "g/tp.sqrt(tp.n)*(W2 @ tp.gelu(W1 @ x))"),
    *("g/tp.sqrt(tp.n)*tp.relu(W1 @ x)", "g/tp.sqrt(tp.n)*tp.tanh(W1 @ x)", "g/tp.sqrt(tp.n)*(W2 @ tp.sign(W1 @ x))"),
    *("g/tp.sqrt(tp.n)*(W2 @ tp.sin(W1 @ x))", "g/tp.sqrt(tp.n)*(W1.T @ tp.relu(W1 @ x))"),
    *("g/tp.sqrt(tp.n)*(W2 @ ((W1 @ x)*tp.sigmoid(W3 @ x)))", "g/tp.sqrt(tp.n)*(W2 @ tp.relu(x))", "g/tp.n*tp.relu(x)"),
    *("g/tp.sqrt(tp.n)*(W2 @ (x/tp.sqrt(tp.avg(x*x))))", "g/tp.sqrt(tp.n)*(W1 @ x)*tp.avg(x*x)"),
    *("g/tp.sqrt(tp.n)*(W1 @ x)*tp.avg((W2 @ x)**2)", "g/tp.n*x*tp.tanh(tp.avg(x*x))", "g*(W1 @ x)*tp.avg(x*(W2 @ x))"),
    *("g/tp.sqrt(tp.n)*(W2 @ tp.gelu(8*(W1 @ x) - 6))", "g/tp.sqrt(tp.n)*(W2 @ tp.maximum(W1 @ x, W3 @ x))"),
    *("g/tp.sqrt(tp.n)*(W2 @ (tp.tanh(W1 @ x)*tp.relu(W3 @ x)))", "g/tp.sqrt(tp.n)*(W2 @ tp.step((W1 @ x) - 0.4))"),
    *("g/tp.n*x*tp.avg(tp.relu(W1 @ x))", "g/tp.n*x*tp.relu(tp.avg(x*(W1 @ x)))", "g*x*tp.avg((W1 @ x)*(W2 @ x))"),
)
#: branches that are polynomials of the state
POLYNOMIALS = (
    *("g/tp.sqrt(tp.n)*(W2 @ (W1 @ x)**2)", "g/tp.sqrt(tp.n)*(W2 @ (W1 @ x)**3)", "g/tp.sqrt(tp.n)*(W1 @ x)*(W3 @ x)"),
    *("g/tp.n*x*tp.avg(x*x)**2", "g/tp.sqrt(tp.n)*(W1 @ x)*(1 + tp.avg(x*x)**2)", "g/tp.n*x*(1 - tp.avg(x*x))"),
    *("g/tp.sqrt(tp.n)*(W2 @ ((W1 @ x)**3 - 3*tp.avg(x*x)*(W1 @ x)))", "g*x*tp.avg(x*(W1 @ x))*tp.avg(x*x)"),
    *(f"g/tp.n*tp.sum(tp.avg(x*{KEYS}){power}*{KEYS}, over='key')" for power in ("", "**2", "**3")),
    f"g/tp.sqrt(tp.n)*tp.sum(tp.avg(x*{KEYS})*(W1 @ {KEYS}), over='key')",
    f"g*tp.sum(tp.avg((W1 @ x)*(W2 @ {KEYS}))*{KEYS}, over='key')",
    f"g*tp.sum(tp.avg((W1 @ x)*(W2 @ {KEYS}))*(W3 @ {KEYS}), over='key')",
    f"g/tp.n*(x*tp.avg(x*x) - 0.5*tp.sum(tp.avg(x*{KEYS})*{KEYS}, over='key'))",
    "g/tp.n*x*tp.avg((W1 @ x)**4)",
    "g/tp.sqrt(tp.n)*(W1 @ x)*tp.avg((W2 @ x)**2*(W3 @ x)**2)",
)
#: functions of logits of order 1 on a branch of order n^(-1/2): one logit, and two
ORDER_ONE = (
    *("tp.softmax(Y, over='key')", "tp.sigmoid(Y)", "tp.relu(Y)", "tp.tanh(Y)", "tp.step(Y)", "tp.exp(0.5*Y)"),
    *("tp.exp(-Y**2)", "tp.exp(Y - 1)", "Y**2", "Y + Y**2/2", "tp.exp(0.3*Y) - 1", "tp.tanh(20*Y)", "tp.gelu(Y)"),
    *("tp.exp(0.3*Y)*tp.tanh(Z)", "tp.softmax(Y + Z, over='key')", "tp.sigmoid(Y)*tp.exp(0.3*Z)", "Y*Z"),
    *("tp.exp(0.4*Y + 0.3*Z)", "tp.maximum(Y, Z)", "tp.exp(0.5*Y)/(1 + tp.exp(0.5*Z))", "Y**2*tp.exp(-Z**2)"),
    *(
        "tp.log(1 + tp.exp(Y) + tp.exp(Z))",
        "Y/(1 + Z**2)",
        "tp.exp(0.5*tp.tanh(Y) - 0.2*Z)",
        "tp.step(Y)*tp.exp(0.3*Z)",
    ),
    *("tp.softmax(Y, over='key')*tp.exp(0.3*Z)", "tp.softmax(Y, over='key')*tp.sigmoid(Z)"),
)

#: what open constants are given
CONSTANTS = {"γ": 0.6, "τ0": 0.8, "g": 0.9}


def logit(draft: Draft, apart: bool = False) -> str:
    """q·k/√n over τ0 √n, keys and queries of their own matrices, now and then of one, of the state, over another width,
    or off its size at n^(-1/2), always if it is compared with another one.
    """
    kind = "off its size"
    if not apart:
        kind = draft.rng.choices(["own", "one", "narrow", "state", "biased", kind], [5, 1, 1, 1, 1, 1])[0]
    scale = "tp.sqrt(tp.n)/(τ0*tp.sqrt(tp.n))"
    if kind == "narrow":
        draft.argument("WQ", 'tp.Matrix["k", "n"]')
        draft.argument("WK", 'tp.Matrix["k", "n"]')
        scale = "tp.sqrt(tp.width('k'))/(τ0*tp.sqrt(tp.n))"
    else:
        draft.argument("WQ", "tp.Matrix")
        if kind in ("own", "biased", "off its size"):
            draft.argument("WK", "tp.Matrix")
    key = {"one": "(WQ.T @ x)", "state": "x"}.get(kind, "(WK @ x)")
    if kind != "own":
        draft.trap(f"logits: {kind}")
    text = f"tp.avg((WQ @ x)*{key}.rename(token='key'))*{scale}"
    if kind == "off its size":  # its variance has a term in n^(-1/2)
        text = f"(1 + 0.8/tp.sqrt(tp.n))*{text}"
    return (
        text
        if kind != "biased"
        else f"{text} + tp.constant([[0.3, -0.2], [0.1, 0.4]], axes=('token', 'key'))/tp.sqrt(tp.n)"
    )


def second_logit(draft: Draft) -> str:
    """A logit of order 1 of matrices of its own, or of the same queries."""
    query = draft.some(("WR", "WQ"))
    if draft.arguments.get(query, "tp.Matrix") != "tp.Matrix":  # narrow ones have no n queries
        query = "WR"
    queries, keys = (f"({draft.argument(name, 'tp.Matrix')} @ x)" for name in (query, "WS"))
    return f"tp.sqrt(tp.n)*tp.avg({queries}*{keys}.rename(token='key'))"


def attention(draft: Draft) -> list[str]:
    """Lines that end in `out`: values summed with centred functions of logits."""
    draft.argument("WV", "tp.Matrix")
    F = draft.some(LOGIT_MAPS)
    lines = [f"Y = {logit(draft, ' - ' in F and 'Z' in F)}", "v = WV @ x", "keys = v.rename(token='key')"]
    draft.trap(f"F = {F}")
    if "/Y" in F:
        draft.trap("pole at zero")
    if "Z" in F:
        lines.append(f"Z = {second_logit(draft)}/(τ0*tp.sqrt(tp.n))")
    if F == "tp.softmax":
        weights = "tp.softmax(Y, over='key')"
        if draft.chance(0.3):
            draft.trap("mask")
            lines.append("mask = tp.constant([[1, 0], [1, 1]], axes=('token', 'key'))")
            weights = "mask*tp.exp(Y)/tp.sum(mask*tp.exp(Y), over='key') - mask/tp.sum(mask, over='key')"
            return [*lines, f"A = {weights}", "out = γ*(v + tp.sum(A*keys, over='key'))"]
        return [*lines, f"A = {weights}", "out = γ*(v + tp.sum(A*keys, over='key') - tp.mean(keys, over='key'))"]
    if "p" in re.findall(r"\w+", F):
        lines.append("p = tp.constant([[0.5, -0.3], [0, 0.4]], axes=('token', 'key'))")
    if "1 + Y" in F or "exp(Y)" in F or "sigmoid" in F or "0.5 + Y" in F:
        centre = {"1/(1 + Y)": "1", "tp.exp(Y)": "1", "tp.sigmoid(Y)": "1/2", "tp.relu(0.5 + Y)": "1/2"}.get(F, "0")
        F = f"{F} - {centre}"
    return [*lines, f"A = {F}", "out = γ*(v + tp.sum(A*keys, over='key'))"]


def order_one(draft: Draft) -> list[str]:
    """Logits of order 1 on a branch of order n^(-1/2): ordinary attention with 1/√depth residuals."""
    for name in ("WQ", "WK", "WV"):
        draft.argument(name, "tp.Matrix")
    F = draft.some(ORDER_ONE)
    draft.trap(f"logits of order 1: {F}")
    lines = ["Y = tp.sqrt(tp.n)*tp.avg((WQ @ x)*(WK @ x).rename(token='key'))"]
    if "Z" in F:
        lines.append(f"Z = {second_logit(draft)}")
    return [*lines, f"A = {F}", "out = g/tp.sqrt(tp.n)*tp.sum(A*(WV @ x).rename(token='key'), over='key')"]


def shaped(draft: Draft) -> list[str]:
    """A shaped activation between two matrices, divided by its second moment."""
    draft.argument("W1", "tp.Matrix")
    draft.argument("W2", "tp.Matrix")
    kind = draft.some(("relu", "leaky", "smooth", "abs", "split"))
    draft.trap(f"shaped {kind}")
    s = {
        "relu": "(1 + 0.5/tp.sqrt(tp.n))*tp.relu(h) - (1 - 0.4/tp.sqrt(tp.n))*tp.relu(-h)",
        "leaky": "tp.leaky_relu(h, 1 - 0.8/tp.sqrt(tp.n))",
        "smooth": "tp.sqrt(tp.n)*tp.tanh(h/tp.sqrt(tp.n))",
        "abs": "h + 0.6*tp.abs(h)/tp.sqrt(tp.n)",
        "split": "h + (tp.relu(h)*0.7 - tp.relu(-h)*0.2)/tp.sqrt(tp.n)",
    }[kind]
    if draft.chance(0.4):  # divided by its second moment
        return [f"f = lambda h: {s}", "out = γ*(W2 @ f(W1 @ x))/tp.sqrt(tp.expect(lambda u: f(u)**2))"]
    return ["h = W1 @ x", f"s = {s}", "out = γ*(W2 @ s)"]


def heads(draft: Draft) -> list[str]:
    """Two heads, with keys shared or not."""
    shared = draft.chance(0.5)
    draft.argument("WQ", 'tp.Matrix["n", "n", "head"]')
    draft.argument("WK", "tp.Matrix" if shared else 'tp.Matrix["n", "n", "head"]')
    draft.argument("WV", 'tp.Matrix["n", "n", "head"]')
    draft.trap("heads with shared keys" if shared else "heads")
    lines = [
        "Y = tp.avg((WQ @ x)*(WK @ x).rename(token='key'))*tp.sqrt(tp.n)/(τ0*tp.sqrt(tp.n))",
        "v = WV @ x",
        "keys = v.rename(token='key')",
    ]
    if draft.chance(0.4):
        draft.trap("slopes of heads")
        lines[0] = f"Y = tp.constant([0.5, 1.5], axes=('head',))*({lines[0][4:]})"
    if draft.chance(0.3):
        draft.trap("talking heads")
        lines.insert(1, "mixed = tp.constant([[1, 0.2], [-0.3, 0.8]], axes=('head', 'other'))")
        lines.insert(2, "Y = tp.sum(mixed*Y, over='head').rename(other='head')")
    A = "tp.softmax(Y, over='key')"
    centred = f"v + tp.sum({A}*keys, over='key') - tp.mean(keys, over='key')"
    return [*lines, f"out = γ*tp.sum({centred}, over='head')/tp.sqrt(2)"]


def small(draft: Draft) -> list[str]:
    """A branch of order n^(-1/2) or smaller on the state itself."""
    text = draft.some(BRANCHES if draft.chance(0.65) else POLYNOMIALS)
    draft.trap(f"branch {text}")
    for name in ("W1", "W2", "W3"):
        if name in text:
            draft.argument(name, "tp.Matrix")
    return [f"out = {text}"]


def mixing(draft: Draft) -> list[str]:
    """Values mixed by a constant array of order n^(-1/2), or by one that depends on a scalar of the state."""
    draft.argument("WV", "tp.Matrix")
    draft.trap("mixing")
    lines = ["p = tp.constant([[0.2, -0.3], [0.4, 0.1]], axes=('token', 'key'))", "v = WV @ x"]
    return [*lines, "out = γ*tp.sum(p*v.rename(token='key'), over='key')/tp.sqrt(tp.n)"]


def gated(draft: Draft) -> list[str]:
    """A linear branch times a function of a scalar that tends to a number, or to zero."""
    for name in ("W1", "W2", "W3"):
        draft.argument(name, "tp.Matrix")
    s = draft.some(("tp.avg((W2 @ x)*(W3 @ x))", "tp.avg(x*(W2 @ x))", "tp.avg((W2 @ x)**2) - tp.avg(x*x)"))
    f = draft.some(
        ("tp.exp({})", "1 + tp.relu({})", "1 + tp.abs({})", "tp.cos({})", "1 + tp.sign({})/tp.sqrt(tp.n)", "1/(1 + {})")
    )
    draft.trap(f"gate {f.format('s')}")
    return [f"s = {s}", f"out = γ*(W1 @ x)*({f.format('s')})"]


def block_case(seed: int) -> Case:
    """A random block with two tokens, its constants given."""
    rng = random.Random(seed)
    draft = Draft(rng)
    make = rng.choices([attention, shaped, heads, small, mixing, gated, order_one], [6, 2, 1.5, 4.5, 1, 2, 2.5])[0]
    lines = make(draft)
    residual = "x + out" if make in (small, mixing, order_one) else "tp.sqrt(1 - γ**2)*x + out"
    if draft.chance(0.3):  # two branches, which may share a matrix
        lines += [line.replace("out =", "more =") for line in small(draft)]
        residual += " + more"
    words = set(re.findall(r"\w+", "\n".join((*lines, residual))))
    values = {name: value for name, value in CONSTANTS.items() if name in words}
    draft.lines += lines
    source = draft.source("block", residual, tuple(values), first='x: tp.State["token"]')
    V0 = np.array([[1.0, rng.choice((-0.4, 0.3, 0.7))], [0, rng.choice((0.6, 1.0, 1.4))]])
    V0[1, 0] = V0[0, 1]
    options = {"limit": "tp.Proportional()", "V0": V0, **values}
    if '"head"' in source:
        options["bind"] = {"head": 2}
    if '"k"' in source:
        options["ratios"] = {"k": rng.choice((0.5, 2))}
    return Case(seed, "depth", source, options, tuple(draft.traps))
