"""Stable parametrizations lead to derived limits, which networks trained in them reach; others are refused by name."""

import itertools
import warnings

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.classification.derivation.stable_point import stable_point
from tplimits.regimes.training.finite.networks import train

X = np.random.default_rng(0).standard_normal((3, 2))
ERROR = tp.squared_error([1.0, -1.0, 0.5])
RUN = {"error": ERROR, "lr": 1.0, "steps": 4}


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.tanh(h)


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar):
    return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d"))) + b


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], s: tp.Scalar, v: tp.Vector):
    return v * tp.tanh(s * tp.sum(U * ξ, over="d"))


@tp.network
def root_attention(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return tp.mean(v * tp.sum(A * x.rename(token="key"), over="key"), over="token")


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    return U.sel(d=0) * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))


@tp.network
def tied_both_ways(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    x = tp.sum(U * ξ, over="d")
    return U.sel(d=0) * tp.relu(W @ x) * tp.relu(W.T @ tp.tanh(x))


def slower(base, kind, by=1):
    """The table with a smaller rate of one kind."""
    e = base.kind(kind)
    return tp.ABCD({kind: (e.a, e.b, e.c + by, e.d), "out": base.a_out}, base=base)


#: for each table the regime, the parameters at rest, the readouts that start at 0, and whether f does
POINTS = {
    "NTP": (tp.NTP, "operator", (), (), False),
    "NTP, W at rest": (slower(tp.NTP, "matrix"), "operator", ("W",), (), False),
    "NTP, v at rest": (slower(tp.NTP, "readout"), "operator", ("v",), (), False),
    "UP(1/4)": (tp.UP("1/4"), "operator", (), (), True),
    "UP(1/4), U at rest": (slower(tp.UP("1/4"), "vector", sympy.S.Half), "operator", ("U",), (), True),
    "μP": (tp.MUP, "feature", (), (), False),
    "μP, r = ½ in W": (slower(tp.MUP, "matrix", sympy.S.Half), "feature", ("W",), (), False),
    "μP, U at rest": (slower(tp.MUP, "vector"), "feature", ("U",), (), False),
    "μP, v from 0": (tp.ABCD({"readout": (0, 1, 0, 1)}, base=tp.MUP), "feature", (), ("v",), False),
    "nothing moves": (
        slower(slower(slower(tp.NTP, "matrix"), "vector"), "readout"),
        "trivial",
        ("U", "W", "v"),
        (),
        False,
    ),
}


@pytest.mark.parametrize("name", POINTS)
def test_what_moves_and_what_starts_at_zero(name):
    table, regime, frozen, unread, at_zero = POINTS[name]
    found = tp.classify(net, table, tp.SGD())
    point = stable_point(found.verdict)
    assert found.regime == regime
    assert (point.frozen, point.small, point.at_zero) == (frozen, unread, at_zero)
    limit = found.limit()
    assert isinstance(limit, tp.MaximalLimit if regime == "feature" else tp.TangentLimit)
    assert found.feature_kernels_evolve is (regime == "feature")


def start_of(limit):
    """Outputs at the start: 0 in the operator regime, where networks are shifted to them."""
    return {"f0": 0} if isinstance(limit, tp.TangentLimit) else {}


def numbers(limit):
    return limit.evaluate(X, **RUN, particles=1024, replicates=4, **start_of(limit))


@pytest.mark.sampling
@pytest.mark.parametrize("name", [k for k in POINTS if k not in ("NTP", "μP")])
def test_networks_trained_there_reach_the_limit_and_not_that_of_everything_moving(name):
    """Width 256: the outputs after four steps, in standard errors of 32 networks."""
    table = POINTS[name][0]
    limit = tp.classify(net, table, tp.SGD()).limit()
    stated = numbers(limit)
    shifted = 0.0 if start_of(limit) else None
    run = train(net, table, tp.SGD(), X, ERROR, 1.0, 4, 256, seed=9, draws=32, start=shifted)
    mean = run.f[:, -1].mean(axis=0)
    error = np.sqrt(run.f[:, -1].var(axis=0, ddof=1) / len(run.f) + stated.stderr[-1] ** 2) + 0.004

    def distance(f):
        return float(np.max(np.abs(mean - f) / error))

    assert distance(stated.f[-1]) < 4
    if name != "UP(1/4)":
        wrong = numbers(tp.classify(net, tp.NTP if start_of(limit) else tp.MUP, tp.SGD()).limit())
        assert distance(wrong.f[-1]) > 6


@tp.network
def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], β: tp.Vector, v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ, over="d") + β)


def from_small(base, network, name="β"):
    """The table with a start of n^(−1/2) for a vector."""
    e = base.of(network)[name]
    return tp.ABCD({name: (e.a, e.b + sympy.S.Half, e.c, e.d)}, base=base)


@pytest.mark.sampling
@pytest.mark.parametrize("base", [tp.NTP, tp.MUP], ids=["NTP", "μP"])
def test_a_bias_that_starts_smaller_than_what_it_is_added_to_starts_at_zero(base):
    """Networks of width 4096 have the limit with β = 0 at the start, and not that of β ~ N(0, 1)."""
    table = from_small(base, shifted)
    found, wrong = tp.classify(shifted, table, tp.SGD()), tp.classify(shifted, base, tp.SGD())
    assert found.regime == wrong.regime and stable_point(found.verdict).small == ("β",)
    stated, twin = numbers(found.limit()), numbers(wrong.limit())
    start = 0.0 if start_of(found.limit()) else None
    run = train(shifted, table, tp.SGD(), X, ERROR, 1.0, 4, 4096, seed=9, draws=32, start=start)
    mean = run.f[:, -1].mean(axis=0)
    error = np.sqrt(run.f[:, -1].var(axis=0, ddof=1) / len(run.f) + stated.stderr[-1] ** 2) + 5e-4
    assert (abs(mean - stated.f[-1]) < 4 * error).all() and (abs(mean - twin.f[-1]) > 6 * error).any()


def test_inequalities_between_symbols_let_the_same_vectors_start_small():
    """β beside U ξ in one sum: either may be small, not both; γ beside a matrix may, and g, which multiplies, not."""

    @tp.network
    def network(
        ξ: tp.Input["d"], U: tp.Vector["d"], β: tp.Vector, g: tp.Vector, W: tp.Matrix, γ: tp.Vector, v: tp.Vector
    ):
        return v * tp.tanh(W @ (g * tp.tanh(tp.sum(U * ξ, over="d") + β)) + γ)

    names, half = "UβgγW", sympy.S.Half
    symbols = sympy.symbols("s:5")

    def table(starts):
        own = {k: tp.MUP.of(network)[k] for k in names}
        return tp.ABCD(
            {k: (e.a, e.b + s, e.c, e.d) for (k, e), s in zip(own.items(), starts, strict=True)}, base=tp.MUP
        )

    conditions = tp.classify(network, table(symbols), tp.SGD()).conditions
    stable = set()
    pairs = itertools.combinations_with_replacement(range(5), 2)
    cases = [*((half, pair) for pair in pairs), *((-half, (i,)) for i in range(5)), (0, ())]
    for by, places in cases:
        starts = [by if i in places else sympy.S.Zero for i in range(5)]
        given = dict(zip(symbols, starts, strict=True))
        regime = tp.classify(network, table(starts), tp.SGD()).regime
        told = {name: bool(_at(condition, given)) for name, condition in conditions.items()}
        assert [name for name, holds in told.items() if holds] == [regime], starts
        if regime != "unstable":
            assert min(starts) >= 0
            stable.add("".join(k for k, s in zip(names, starts, strict=True) if s))
    assert stable == {"", "U", "β", "γ", "Uγ", "βγ"}


def _at(condition, values):
    """A condition at numbers: its symbols are real twins of those given."""
    return sympy.sympify(condition).subs({s: values[sympy.Symbol(s.name)] for s in condition.free_symbols})


@tp.network
def offset(ξ: tp.Input["d"], U: tp.Vector["d"], s: tp.Scalar, v: tp.Vector, b: tp.Scalar):
    return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d") + s)) + b


@pytest.mark.sampling
def test_scalars_that_start_smaller_than_what_they_are_added_to_start_at_zero():
    """Networks of width 4096 have the limit with s = b = 0 at the start, and neither that of 1 for s nor for b."""
    table = tp.ABCD(dict.fromkeys("sb", (0, "1/2", 0, 0)), base=tp.MUP)
    found = tp.classify(offset, table, tp.SGD())
    assert found.regime == "feature" and stable_point(found.verdict).small == ("s", "b")
    stated = numbers(found.limit())
    run = train(offset, table, tp.SGD(), X, ERROR, 1.0, 4, 4096, seed=9, draws=32)
    mean = run.f[:, -1].mean(axis=0)
    error = np.sqrt(run.f[:, -1].var(axis=0, ddof=1) / len(run.f) + stated.stderr[-1] ** 2) + 5e-4
    assert (abs(mean - stated.f[-1]) < 4 * error).all()
    for name in "sb":
        twin = tp.classify(offset, tp.MUP, tp.SGD()).limit()
        other = twin.evaluate(X, **RUN, particles=1024, replicates=4, **{"s": 0, "b": 0, name: 1})
        assert (abs(mean - other.f[-1]) > 6 * error).any()


@pytest.mark.parametrize(
    "of",
    [
        lambda h, β: h * β,
        lambda h, β: h + tp.sign(β),
        lambda h, β: h + tp.tanh(β),
        lambda h, β: h + β / tp.sqrt(tp.avg(β * β)),
        lambda h, β: h + β / tp.sqrt(β * β),
    ],
    ids=["factor", "sign", "tanh", "norm", "one by one"],
)
def test_a_small_start_of_what_does_not_only_add_is_unstable(of):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], β: tp.Vector, v: tp.Vector):
        return v * of(tp.sum(U * ξ, over="d"), β)

    assert tp.classify(network, from_small(tp.MUP, network), tp.SGD()).regime == "unstable"


def test_outputs_of_a_family_member_start_at_zero_and_those_of_the_tangent_limit_are_drawn():
    limit = tp.classify(net, tp.UP("1/4"), tp.SGD()).limit()
    assert np.all(limit.evaluate(X, **RUN).f[0] == 0)
    assert "f_0 = 0" in repr(limit) and "f_0 ~ N(0, K)" not in repr(limit)
    assert not any("Gaussian with covariance" in line for line in limit.assumptions)
    drawn = tp.classify(net, tp.NTP, tp.SGD()).limit()
    assert np.all(drawn.evaluate(X, **RUN).f[0] != 0)
    assert "f_0 ~ N(0, K)" in repr(drawn)
    with pytest.raises(tp.ProgramError, match="None or 0"):
        tp.derive(net, tp.NeuralTangent(tp.SGD(), f0=1))


def held(value):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, s: tp.Scalar = value):
        return v * tp.tanh(W @ tp.sum(U * ξ, over="d")) * (1 + tp.relu(s))

    return net


@pytest.mark.parametrize(
    ("value", "optimizer"), [(0, tp.SGD()), (2, {**dict.fromkeys("UWv", tp.SGD()), "s": tp.Frozen()})]
)
def test_scalars_at_rest_are_held_at_their_values(value, optimizer):
    """Where training does not move s, at a kink or because it is frozen, the limit has a number in its place."""

    @tp.network
    def written(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(W @ tp.sum(U * ξ, over="d")) * (1 + value)

    found = tp.classify(held(value), tp.NTP, optimizer)
    stated, wanted = (
        limit.evaluate(X, **RUN, f0=0).f for limit in (found.limit(), tp.derive(written, tp.NeuralTangent(tp.SGD())))
    )
    assert found.regime == "operator"
    assert np.allclose(stated, wanted, rtol=1e-9)
    other = tp.classify(held(3), tp.NTP, {**dict.fromkeys("UWv", tp.SGD()), "s": tp.Frozen()}).limit()
    assert not np.allclose(other.evaluate(X, **RUN, f0=0).f, wanted, rtol=1e-2)
    with pytest.raises(tp.ProgramError, match="`s` is no parameter"):
        tp.derive(held(value), tp.NeuralTangent(dict.fromkeys("UWvs", tp.SGD())))


def test_another_optimizer_is_classified_first():
    """SGD sees c − d alone, Adam needs the d that fits: the same table is unfaithful to it."""
    found = tp.classify(net, tp.ABCD({"matrix": (0, "1/2", "1/2", "1/2")}, base=tp.MUP), tp.SGD())
    assert isinstance(found.limit(), tp.MaximalLimit)
    with pytest.raises(tp.NoLimitError, match=r"is unstable|is unfaithful"):
        found.limit(tp.Adam(eps=0.1))


REFUSED = {
    "unstable": (net, tp.SP, tp.SGD(), "is unstable: .*Thm 2.8.12"),
    "unfaithful": (
        net,
        tp.ABCD({"matrix": (0, "1/2", 1, 0)}, base=tp.MUP),
        tp.Adam(eps=0.1),
        "unfaithful: W has scaled",
    ),
    "symbols": (net, tp.UP(sympy.Symbol("s")), tp.SGD(), "exponents with symbols"),
    "logits": (root_attention.bind(token=3), tp.NTP, tp.SGD(), "`A` moves by order 1 while .* f_0 stays random"),
    "scalars": (gated, tp.NTP, tp.SGD(), "moves by order 1 while .* f_0 stays random"),
    "no fresh readout": (tied_both_ways, tp.NTP, tp.SGD(), "fresh readout vectors"),
    "bias alone": (biased, tp.UP("1/4"), tp.SGD(), "f_0 is the bias b alone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_no_theorem_gives_the_limit_it_is_said_which_is_missing(name):
    network, table, optimizer, message = REFUSED[name]
    with pytest.raises(tp.NoLimitError, match=message):
        tp.classify(network, table, optimizer).limit()


def test_every_update_function_keeps_its_limit():
    for optimizer in (tp.SignSGD(eps=0.1), tp.Adam(eps=0.1), tp.SGD(momentum=0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            limit = tp.classify(net, POINTS["NTP, W at rest"][0], optimizer).limit()
        assert limit.operator.optimizers == {"U": optimizer, "W": tp.Frozen(), "v": optimizer}


@pytest.mark.sampling
@pytest.mark.parametrize("name", ["NTP", "UP(1/4)", "μP", "μP, U at rest"])
def test_feature_kernels_of_finite_networks_evolve_where_the_verdict_says_so(name):
    """|x_t x_tᵀ − x_0 x_0ᵀ|/n of the last features is of order n^0, or falls like n^(−¼) and faster (Def. 2.8.18)."""
    table = POINTS[name][0]
    logs, widths = [], (32, 64, 128, 256)
    for n in widths:
        run = train(net, table, tp.SGD(), X, ERROR, 1.0, 3, n, seed=n, draws=24, keep=("h",))
        x = np.tanh(run.kept["h"])
        grams = np.einsum("ktan,ktbn->ktab", x, x) / n
        moved = grams[:, -1] - grams[:, 0]
        logs.append(0.5 * np.log(np.mean(moved**2, axis=(1, 2))))
    at = np.log(widths) - np.mean(np.log(widths))
    power = float(at @ [y.mean() for y in logs] / (at @ at))
    error = float(np.sqrt(sum(y.var(ddof=1) / 24 * a * a for y, a in zip(logs, at, strict=True)))) / (at @ at)
    evolves = tp.classify(net, table, tp.SGD()).feature_kernels_evolve
    assert (power - 4 * error > -0.25) if evolves else (power + 4 * error < -0.25)


@tp.network
def shrunk(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu(W @ tp.sum(U * ξ, over="d")) / tp.sqrt(tp.n)


@tp.network
def weighed(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, w: tp.Vector):
    return v * tp.avg(w * tp.relu(tp.sum(U * ξ, over="d")))


@pytest.mark.parametrize(("network", "regime"), [(shrunk, "feature"), (weighed, "operator")])
def test_what_rates_make_up_for_is_no_limit_of_the_maximal_update_or_of_the_operator(network, regime):
    """f = 0 at all steps had been derived, where networks of both kinds move f by .3 in three steps."""
    found = tp.classify(network, tp.SP, tp.SGD())
    assert found.regime == regime
    with pytest.raises(tp.NoLimitError, match="make up for what is small in it"):
        found.limit()


def test_a_power_of_the_width_in_the_parametrization_has_its_limit():
    """v/√n with v ~ N(0, 1/n): the networks of `shrunk` in SP, trained here by hand, against the limit."""

    @tp.network
    def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.relu(W @ tp.sum(U * ξ, over="d"))

    # SP of `shrunk`: v = n^(−½) (n^(−½) z), a_out = 0
    same = tp.ABCD({"v": ("1/2", "1/2", 0, 0)}, base=tp.SP)
    X, y = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0])
    limit = tp.classify(plain, same, tp.SGD()).limit()
    run = limit.evaluate(X, error=tp.squared_error(y), lr=0.5, steps=2, particles=1024, replicates=4)
    rng, n, ends = np.random.default_rng(3), 400, []
    for _ in range(24):
        U, W = rng.standard_normal((2, n)), rng.standard_normal((n, n)) / n**0.5
        v, first = rng.standard_normal(n) / n**0.5, None
        for _ in range(3):
            x = X @ U
            h = x @ W.T
            f = np.maximum(h, 0) @ v / n**0.5
            first = f if first is None else first
            χ = (f - first - y) / 2
            dh = χ[:, None] * v * (h > 0) / n**0.5
            v, W, U = v - 0.5 * χ @ np.maximum(h, 0) / n**0.5, W - 0.5 * dh.T @ x, U - 0.5 * X.T @ (dh @ W)
        ends.append(f - first)
    mean, error = np.mean(ends, axis=0), np.std(ends, axis=0) / len(ends) ** 0.5
    assert np.all(abs(run.f[2] - mean) < 4.5 * np.hypot(error, run.stderr[2]) + 0.01)
    assert np.all(abs(mean) > 20 * 0.005)
