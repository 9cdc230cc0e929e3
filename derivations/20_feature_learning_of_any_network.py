"""Thm 2.9.25 of Yang & Littwin 2023: the feature-learning limit of any network.

    python derivations/20_feature_learning_of_any_network.py [--full]

One matrix has one update, which sees all its uses at once: a network that applies W twice, one that applies W and Wᵀ,
and attention over two tokens, each against networks of finite width.  Wrong twins: one update a use ("bars of pairs"),
rejected for the first; a gradient without its transposed uses, as Eq. (2.45) has it, rejected for the second.
--full trains four times as many networks.
"""

import dataclasses

import numpy as np
from pictures import Pictures
from trained import EPS, ERROR, RATE, X, compare, networks, reject
from worked import SEED, Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
ADAM, STEPS = tp.Adam(eps=EPS), 2
COUNTS = {128: 512, 512: 160, 1024: 128} if pictures.full else {128: 128, 512: 40, 1024: 32}


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    y = tp.tanh(W @ x)
    return v * tp.tanh(W @ y)


@tp.network
def transposed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    y = tp.tanh(W @ x)
    return v * (x + W.T @ y)


@tp.network
def attention(ξ: tp.Input["token", "d"], E: tp.Vector["d"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, v: tp.Vector):
    x = tp.sum(E * ξ, over="d")
    q, k, u = WQ @ x, (WK @ x).rename(token="key"), (WV @ x).rename(token="key")
    A = tp.softmax(tp.avg(q * k), over="key")
    return v * tp.tanh(tp.mean(tp.sum(A * u, over="key"), over="token"))


def printed(network, optimizer):
    """The limit, shown."""
    limit = tp.derive(network, tp.MaximalUpdate(optimizer))
    print("", limit, "", sep="\n")
    return limit


def numbers(limit, data=X, lr=RATE, error=ERROR):
    """Outputs on 8 replicates."""
    return limit.evaluate(data, error=error, lr=lr, steps=STEPS, particles=4096, seed=SEED)


print("\nA network that applies W twice, Adam")
limit = printed(tied, ADAM)
finite = networks(tied, tp.MUP, ADAM, RATE, STEPS, COUNTS)
compare(work, "tied", finite, numbers(limit))

print("\nThe wrong twin: Q of each use by itself.  By hand, one step of a smoothed sign, Q = g/√(g² + ε²):")
print("  |W_1⟩ = |W_0| − η Q(|dh²⟩_χ⟨y| + |dh¹⟩_χ⟨x|), and not − η Q(|dh²⟩_χ⟨y|) − η Q(|dh¹⟩_χ⟨x|)")
SIGN, η, χ = tp.SignSGD(eps=0.1), 0.1, ERROR(np.zeros(len(X)))


def one_step(n, seed, inside):
    """f_1 − f_0 of one network in plain NumPy, all parameters moved."""
    rng = np.random.default_rng([seed, n])
    U, v = rng.standard_normal((n, X.shape[1])), rng.standard_normal(n)
    W = rng.standard_normal((n, n)) / np.sqrt(n)

    def forward(U, W, v):
        x = np.tanh(U @ X.T)
        y = np.tanh(W @ x)
        z = np.tanh(W @ y)
        return x, y, z, v @ z / n

    def q(g):
        return g / np.sqrt(g**2 + 0.1**2)

    x, y, z, f = forward(U, W, v)
    dh2 = (1 - z**2) * v[:, None] * χ
    dh1 = (1 - y**2) * (W.T @ dh2)
    du = (1 - x**2) * (W.T @ dh1)
    moved = q(dh2 @ y.T + dh1 @ x.T) if inside else q(dh2 @ y.T) + q(dh1 @ x.T)
    return forward(U - η * q(du @ X), W - η / n * moved, v - η * q(z @ χ))[3] - f


limit = tp.derive(tied, tp.MaximalUpdate(SIGN))
first = limit.evaluate(X, error=ERROR, lr=η, steps=1, particles=4096, seed=SEED)
for inside in (True, False):
    moves = np.array([one_step(1024, k, inside) for k in range(COUNTS[1024] + 16)])
    z = (moves.mean(axis=0) - first.f[1]) / np.hypot(moves.std(axis=0, ddof=1) / len(moves) ** 0.5, first.stderr[1])
    rms = float(np.sqrt((z**2).mean()))
    if inside:
        work.holds(f"all uses inside Q, width 1024: rms z = {rms:.2f} ≤ 1.5", rms <= 1.5)
    else:
        work.holds(f"bars of pairs, width 1024: rms z = {rms:.1f} > 5", rms > 5)

print("\nA network that applies W and Wᵀ, gradient descent")
limit = printed(transposed, tp.SGD())
finite = networks(transposed, tp.MUP, tp.SGD(), 0.5, STEPS, COUNTS)
compare(work, "W and Wᵀ", finite, numbers(limit, lr=0.5))
total = limit.recursion.total
left_out = {
    name: tuple(use for use in uses if use.operand is None or not use.transposed)
    for name, uses in total.backward.gradients.items()
}
total.__dict__["backward"] = dataclasses.replace(total.backward, gradients=left_out)
reject(work, "wrong: without the transposed uses, Eq. (2.45) as printed", finite, numbers(limit, lr=0.5))

print("\nAttention over two tokens, logits q·k/n, Adam")
tokens = np.random.default_rng(SEED + 2).standard_normal((3, 2, 2))
error = tp.squared_error([1.0, -0.8, 0.5])
limit = printed(attention, ADAM)
finite = networks(attention, tp.MUP, ADAM, RATE, STEPS, COUNTS, data=(tokens, error))
compare(work, "attention", finite, numbers(limit, tokens, RATE, error))
work.finish()
