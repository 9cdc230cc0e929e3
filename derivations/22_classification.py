"""Thm 2.8.19 of Yang & Littwin 2023: which parametrization of a perceptron has which limit.

    python derivations/22_classification.py [--full]

All inequalities between the exponents, for symbols; the known tables and five random ones, with the powers of n that
finite networks show (the coordinate check); and what is printed differently: Remark 2.2.7 (SP and sign updates at rate
1/n), r_{L+1} of the family UP_s, and r_{≤l}.  --full measures between widths 128 and 2048 instead of 64 and 512.
"""

from fractions import Fraction

import numpy as np
import sympy
from pictures import Pictures
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

pictures, work = Pictures(__doc__), Worked(__doc__)
WIDTHS = (128, 2048) if pictures.full else (64, 512)

print("\nThree layers of symbols: a = 0 in all of them, two hidden layers")
b1, c1, d1, b2, c2, d2, b3, c3, d3 = sympy.symbols("b1 c1 d1 b2 c2 d2 b3 c3 d3", real=True)
symbolic = tp.ABCD({"1": (0, b1, c1, d1), "2": (0, b2, c2, d2), "3": (0, b3, c3, d3)}, name="a, b, c, d")
general = tp.classify(2, symbolic, tp.Adam(eps=0.05))
print("", general, "", general.latex(), "", sep="\n")
print("By hand: r_1 = c_1, r_2 = c_2 − 1, r_3 = c_3 − 1, r = min(r_1, r_2), and features are learned where r = 0.")
r1, r2, r3 = c1, c2 - 1, c3 - 1


def by_hand(at):
    """Stable, faithful, nontrivial, and features, as printed in Thm 2.8.19 with r_{≤l} = min_{m≤l} r_m."""
    R = {k: Fraction(v) for k, v in at.items()}
    s1, s2, s3 = R[c1], R[c2] - 1, R[c3] - 1
    r, A = min(s1, s2), R[b3]
    stable = R[b1] == 0 and R[b2] * 2 == 1 and A * 2 >= 1
    stable &= min(s1, s2, s3) >= 0 and A + r >= 1 and R[b3] <= R[c3]
    faithful = R[d1] == A and R[d2] == A and R[d3] == 0
    nontrivial = s3 == 0 or A + r == 1
    if not stable:
        return "unstable"
    if not faithful:
        return "unfaithful"
    return "trivial" if not nontrivial else "feature" if r == 0 else "operator"


rng = np.random.default_rng(SEED)
quarters = lambda *numbers: Fraction(int(rng.choice(numbers)), 4)  # noqa: E731
met: dict[str, int] = {}
wrong = []
for _ in range(200):
    A, off = quarters(2, 3, 4, 4), quarters(0, 0, 0, 0, 1)
    at = dict(
        zip(
            (b1, c1, d1, b2, c2, d2, b3, c3, d3),
            (
                0,
                quarters(-1, 0, 0, 1, 2),
                A,
                Fraction(1, 2),
                1 + quarters(0, 0, 1, 2),
                A + off,
                A,
                1 + quarters(0, 1),
                0,
            ),
            strict=True,
        )
    )
    found = tp.classify(2, symbolic.substituted(at), tp.Adam(eps=0.05)).regime
    met[found] = met.get(found, 0) + 1
    if found != by_hand(at):
        wrong.append((at, found, by_hand(at)))
shown = ", ".join(f"{k} {v}" for k, v in sorted(met.items()))
work.holds(f"200 random exponents, classified as by hand: {shown}", not wrong and len(met) >= 4)

print("\nKnown tables and five random ones, by counted and by measured powers of n")


@tp.network
def perceptron(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.relu(h)


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    return v * (x + tp.relu(W @ x))


def a_random_table(k):
    """Exponents at least ¼ from every boundary but those that stability fixes."""
    more = np.random.default_rng([SEED, k])
    A = Fraction(int(more.choice([2, 3, 4])), 4)
    r_in, r_hidden = (Fraction(int(r), 4) for r in more.choice([-1, 1, 2], size=2))
    return tp.ABCD(
        {
            "vector": (0, 0, r_in, A),
            "matrix": (0, "1/2", 1 + r_hidden, A),
            "readout": (0, A, 1, 0),
        },
        name=f"random {k}",
    )


TABLES = {"SP": tp.SP, "NTP": tp.NTP, "μP": tp.MUP, "UP(¼)": tp.UP("1/4")} | {
    f"random {k}": a_random_table(k) for k in range(5)
}
seen = set()
for net in (perceptron, residual):
    for optimizer in (tp.SGD(), tp.SignSGD()):
        for name, table in TABLES.items():
            found = tp.classify(net, table, optimizer)
            check = found.check(WIDTHS, draws=4, seed=SEED)
            seen.add(found.regime)
            where = f"{net.name}, {type(optimizer).__name__}, {name}"
            work.holds(f"{where}: counted {found.regime}, measured {check.measured_regime}", check.agrees)
work.holds(f"regimes met: {', '.join(sorted(seen))}", {"feature", "operator", "unstable"} <= seen)
print("\nThe limit of each stable table (Rem. 2.8.21), and whether feature kernels evolve (Def. 2.8.18)")
HALF_SLOW = tp.ABCD({"hidden": (0, "1/2", "3/2", 1)}, base=tp.MUP)
for name, table in {**TABLES, "μP, r = ½ in W": HALF_SLOW}.items():
    found = tp.classify(perceptron, table, tp.SGD())
    if not found.stable:
        continue
    limit = found.limit()
    wanted = tp.MaximalLimit if found.regime == "feature" else tp.TangentLimit
    chosen = limit.regime.optimizer
    rest = [p for p, o in chosen.items() if o == tp.Frozen()] if isinstance(chosen, dict) else []
    kind = f"{wanted.__name__}, at rest: {', '.join(rest) or 'none'}; kernels evolve: {found.feature_kernels_evolve}"
    holds = isinstance(limit, wanted) and found.feature_kernels_evolve == (found.regime == "feature")
    work.holds(f"{name}: {kind}", holds)

print("\nMeans are derived: a sum of relu without a readout is of order n")


@tp.network
def unread(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    return tp.relu(W @ tp.tanh(tp.sum(U * ξ, over="d")))


found = tp.classify(unread, tp.NTP, tp.SGD())
start = next(row for row in found.check(WIDTHS, seed=SEED).rows if row.name == "f" and row.t == 0)
said = f"{found.breaks[0]}; measured n^{start.measured:+.2f} ± {start.error:.2f}, rejected 0"
work.holds(said, abs(start.measured - 0.5) < 0.1 and start.measured - start.error > 0.2)

twin = tp.classify(perceptron, tp.NTP, tp.SGD()).check(WIDTHS, seed=SEED)
row = next(row for row in twin.rows if row.t == 1 and row.name == "h")
work.holds(f"wrong: features move in NTP; {row.name} moves like n^{row.measured:.2f}", row.measured < -0.3)

print("\nRemark 2.2.7: in SP the largest stable rate of sign updates is said to be 1/n, with feature learning")


def same_rate(c):
    """SP at the rate n^(−c)."""
    return tp.ABCD({"input": (0, 0, c, 0), "hidden": (0, "1/2", c, 0), "output": (0, "1/2", c, 0)})


def power(net, table, name, only=None):
    """The power of n of the change of a value in one step of sign descent."""
    X = np.random.default_rng(SEED + 1).standard_normal((2, 3))
    sizes = []
    for n in (128, 1024):
        keep = () if name == "f" else (name,)
        signal = lambda f: np.ones_like(f) / len(f)  # noqa: E731
        run = train(net, table, tp.SignSGD(), X, signal, 0.5, 1, n, SEED + 6, draws=6 * 1024 // n, keep=keep, only=only)
        values = run.f if name == "f" else run.kept[name]
        sizes.append(np.sqrt(np.mean((values[:, 1] - values[:, 0]) ** 2)))
    return float(np.log(sizes[1] / sizes[0]) / np.log(8))


def measured(what, found, wanted, printed=None):
    """A power, beside the one derived and the one printed."""
    rejected = "" if printed is None else f", printed {printed:+.2f}"
    holds = abs(found - wanted) < 0.1 and (printed is None or abs(found - printed) > 0.3)
    work.holds(f"{what}: n^{found:+.2f}, derived {wanted:+.2f}{rejected}", holds)


c = sympy.Symbol("c")
rate = tp.classify(2, same_rate(c), tp.SignSGD())
print(f"  stable where {rate.stable}; operator regime where {rate.conditions['operator']}")
(symbol,) = rate.stable.free_symbols
sides = [bool(rate.stable.subs(symbol, at)) for at in (sympy.Rational(3, 2), sympy.Rational(7, 5))]
work.holds("the smallest stable c is 3/2", sides == [True, False])
net = tp.classify(2, tp.SP, tp.SignSGD()).program
measured("f at rate 1/n", power(net, same_rate(1), "f"), 0.5, printed=0.0)
measured("f at rate n^(−3/2)", power(net, same_rate("3/2"), "f"), 0.0)
measured("features at rate n^(−3/2)", power(net, same_rate("3/2"), "x2"), -0.5)

print("\nUP_s: r_{L+1} = 0, and 1 as printed freezes the readout")
for s in (0, "1/4"):
    table = tp.UP(s)
    r = table.readout
    frozen = tp.ABCD({"readout": (r.a, r.b, r.c + 1, r.d)}, base=table)
    measured(f"f by the readout of UP({s})", power(net, table, "f", ("W3",)), 0.0, printed=-1.0)
    measured("with r_{L+1} = 1", power(net, frozen, "f", ("W3",)), -1.0)

print("\nr_{≤l} = min_{m≤l} r_m: r_1 = 0 and r_2 = ½, and x² moves as x¹ does")
slow = tp.ABCD({"hidden": (0, "1/2", "3/2", 1)}, base=tp.MUP)
measured("x²", power(net, slow, "x2"), 0.0, printed=-0.5)
work.finish()
