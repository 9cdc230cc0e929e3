"""Thm 2.7.1 of Yang & Littwin 2023: the feature-learning limit of multilayer perceptrons.

    python derivations/19_deep_feature_learning.py [--full]

A deep linear network by hand, where the dot-ket of |W_0 x_1⟩ makes a third of the output.  Then Adam, SGD and Adam with
decay in networks with two and three hidden layers, against networks of widths 128, 512 and 2048 trained with their
true matrices: their mean and its intercept are the limit, and one of them is off it by n^(−1/2).  --full trains more
networks, for ten steps instead of three, and takes all optimizers for three layers, too.
"""

import sympy
from pictures import Pictures
from trained import ERROR, SETTINGS, X, compare, fall, networks, reject, three, two, uncorrected
from worked import SEED, Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    u = tp.sum(U * ξ, over="d")
    h = W @ u
    return v * h


print("\nA deep linear network, ξ = y = 1, η = ½.  χ_0 = −1, so that")
print("  u_1 = u + Wᵀv/2,   v_1 = v + Wu/2,   W_1 = W + |v⟩⟨u|/2")
print("  |W u_1⟩ = |Wu⟩ + |WWᵀv⟩/2, whose dot part is |v⟩/2;   |v⟩⟨u|u_1⟩/2 = |v⟩/2")
print("  f_1 = ⟨v_1|W_1 u_1⟩ = ½⟨Wu|Wu⟩ + ½⟨v|v⟩ + ½⟨v|v⟩ = 3/2")
hand = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
print("", hand, "", hand.latex(), "", sep="\n")
asked = {"error": tp.squared_error([1.0]), "lr": 0.5}
work.same("f_1", hand.exact([[1.0]], **asked, steps=1)[1, 0], sympy.Rational(3, 2))
unrolled = tp.derive(hand.unrolled([[1.0]], **asked, steps=1))
work.accepts(unrolled)
work.rejects(unrolled, {"return[1][sample=0]": 1.0}, "without dot-kets f_1 = 1")

STEPS = 10 if pictures.full else 3
COUNTS = {128: 384, 512: 96, 2048: 32} if pictures.full else {128: 96, 512: 24, 2048: 6}


def limit_of(net, optimizer, lr, decay=0.0, steps=STEPS):
    """The limit on 8 replicates."""
    derived = tp.derive(net, tp.MaximalUpdate(optimizer, weight_decay=decay))
    return derived.evaluate(X, error=ERROR, lr=lr, steps=steps, particles=4096, seed=SEED)


for layers, net in ((2, two), (3, three)):
    for name, (optimizer, lr, decay) in SETTINGS.items():
        if net is three and name != "Adam" and not pictures.full:
            continue
        print(f"\n{name}: {layers} hidden layers, {STEPS} steps on six inputs in R^4")
        finite = networks(net, tp.MUP, optimizer, lr, STEPS, COUNTS, decay)
        compare(work, name, finite, limit_of(net, optimizer, lr, decay))
        if name == "Adam":
            reject(work, "wrong: no bias correction", finite, limit_of(net, uncorrected(), lr))

print("\nOne network of width n")
adam, lr, _ = SETTINGS["Adam"]
one = networks(two, tp.MUP, adam, lr, 10, {64: 256, 256: 64, 1024: 16}, start=None)
fall(work, one, limit_of(two, adam, lr, steps=10))
work.finish()
