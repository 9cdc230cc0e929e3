"""Updates that look at all entries at once: Sec. 2.10.2 and 2.10.3 of Yang & Littwin 2023.

    python derivations/23_normalised_updates.py

Normalised updates Q/|Q|, updates clipped at a threshold in both readings, updates divided by the norm of the
weights, and Adafactor, in the operator regime and with features that move.  Gradient descent in NTP is done by hand:
the square of the norm of a parameter's update is that of the error signals in its own tangent kernel.  Networks of
finite width, in the parametrization with c − e, judge every limit and what is printed in its place.
"""

import numpy as np
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

work = Worked(__doc__)


@tp.network
def smooth(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.tanh(h)


@tp.network
def below(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ, over="d"))


rng = np.random.default_rng(SEED)
X, y = rng.standard_normal((4, 3)), rng.standard_normal(4)
error, zero, STEPS = tp.squared_error(y), np.zeros(4), 3

print("\nNormalised gradient descent in NTP: f moves by −η Σ_w Θ_w χ/ν_w, ν_w² = χ·Θ_w χ")
normalised = tp.Normalized(tp.SGD())
descent = tp.derive(smooth, tp.NeuralTangent(normalised))
print("", descent, "", descent.latex(), "", sep="\n")
Θ = {w: tp.derive(smooth, tp.Kernels(train=(w,))).evaluate(X).ntk for w in ("U", "W", "v")}
K = tp.derive(below, tp.Kernels(train=())).evaluate(X).nngp  # ⟨x|x′⟩, and the covariance of h
inner = X @ X.T


def by_hand(norms, lr=0.1, divide=lambda ν: ν):
    """f_0, …, f_STEPS with ν_w² = χ·norms_w χ."""
    f = [zero]
    for _ in range(STEPS):
        χ = error(f[-1])
        f.append(f[-1] - lr * sum(Θ[w] @ χ / divide(np.sqrt(χ @ norms[w] @ χ)) for w in Θ))
    return np.array(f)


def in_ntp(optimizer, lr=0.1):
    """The limit from f_0 = 0."""
    limit = tp.derive(smooth, tp.NeuralTangent(optimizer))
    return limit.evaluate(X, error=error, lr=lr, steps=STEPS, f0=zero, particles=2048, replicates=8, seed=SEED)


def in_mup(optimizer, lr=0.1, decay=0, **settings):
    """The limit with features that move."""
    limit = tp.derive(smooth, tp.MaximalUpdate(optimizer, weight_decay=decay))
    settings = {"particles": 2048, "replicates": 8, "seed": SEED, **settings}
    return limit.evaluate(X, error=error, lr=lr, steps=STEPS, **settings)


exact = in_ntp(normalised).f
work.matrices("outputs of three steps", exact, by_hand(Θ))
clipped = by_hand(Θ, divide=lambda ν: max(0.33, ν))
work.matrices("clipped at 0.33, max(θ, |Q|)", in_ntp(tp.Clipped(tp.SGD(), 0.33)).f, clipped)
amplified = by_hand(Θ, divide=lambda ν: min(0.33, ν))
work.matrices("as printed, min(θ, |Q|)", in_ntp(tp.Clipped(tp.SGD(), 0.33, reading="printed")).f, amplified)
#: Def. 2.10.7 as printed: |h⟩⟨x| in the place of |dh⟩⟨x|
printed = by_hand({"U": inner * inner, "W": K * K, "v": Θ["v"]})

print("\nNetworks of finite width")
WIDTHS = {tp.NTP: (256, 48), tp.MUP: (512, 24)}


def networks(table, optimizer, lr=0.1, decay=0.0):
    """Means over trained networks of what was learned, and their errors."""
    n, count = WIDTHS[table]
    setting = smooth, table.adjusted(smooth, optimizer), optimizer, X, error, lr, STEPS, n, SEED
    f = train(*setting, draws=count, weight_decay=decay, start=0 if table is tp.NTP else None).f
    moved = (f - f[:, :1])[:, 1:]
    return moved.mean(axis=0), moved.std(axis=0, ddof=1) / np.sqrt(count)


def judged(what, found, f, stderr=0.0, accepted=True):
    """Whether networks agree with a limit, as it is asked."""
    z = (found[0] - (f - f[0])[1:]) / np.hypot(found[1], np.broadcast_to(stderr, f.shape)[1:])
    rms = float(np.sqrt((z**2).mean()))
    work.holds(f"{what}: rms z = {rms:.2f} {'≤ 2' if accepted else '> 5'}", rms <= 2 if accepted else rms > 5)


found = networks(tp.NTP, normalised)
judged("normalised descent, NTP", found, exact)
judged("the norm of |h⟩⟨x|, as printed", found, printed, accepted=False)
judged("without a norm", found, by_hand(Θ, divide=lambda ν: 1.0), accepted=False)
ADAM = tp.Adam(eps=0.05)
for table, evaluate in ((tp.NTP, in_ntp), (tp.MUP, in_mup)):
    name = table.name
    run, found = evaluate(tp.Normalized(ADAM)), networks(table, tp.Normalized(ADAM))
    judged(f"normalised Adam, {name}", found, run.f, run.stderr)
    run, found = evaluate(tp.Clipped(ADAM, 0.9)), networks(table, tp.Clipped(ADAM, 0.9))
    judged(f"clipped Adam, {name}", found, run.f, run.stderr)
    run = evaluate(tp.Clipped(ADAM, 0.9, reading="printed"))
    judged("min(θ, |Q|) in the place of max(θ, |Q|)", found, run.f, run.stderr, accepted=False)
    run, found = evaluate(tp.Adafactor(0.9, 0.05)), networks(table, tp.Adafactor(0.9, 0.05))
    judged(f"Adafactor, {name}", found, run.f, run.stderr)
decayed = tp.Normalized(ADAM, by="weight")
run, found = in_mup(decayed, decay=0.1), networks(tp.MUP, decayed, decay=0.1)
judged("by the norm of the weights, with decay 0.1, MUP", found, run.f, run.stderr)
small = np.linalg.norm(exact[1] - exact[0]), np.linalg.norm(by_hand(Θ, 0.1, lambda ν: 1.0)[1])
work.holds(f"the first step is {small[0]:.3f} long, {small[1]:.3f} without a norm", small[0] > 2 * small[1])

print("\nBlocks of K particles against 2K")
for what, optimizer in (("normalised Adam", tp.Normalized(ADAM)), ("Adafactor", tp.Adafactor(0.9, 0.05))):
    runs = {K: in_mup(optimizer, block=K) for K in (64, 128, 256, 512)}
    off, stderr = {K: runs[K].f - runs[2 * K].f for K in (64, 128, 256)}, runs[256].stderr.max()
    shown = ", ".join(f"{np.abs(d).max():.5f} (K = {K})" for K, d in off.items())
    work.holds(f"{what}: {shown}; standard error {stderr:.5f}", np.abs(off[128]).max() < 3 * stderr)
work.finish()
