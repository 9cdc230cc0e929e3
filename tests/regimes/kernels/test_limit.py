"""What a kernel limit says of itself: table, steps, assumptions, citations."""

from __future__ import annotations

import pickle
import sys

import kernel_networks
import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program import parts


def test_a_small_network_prints_its_recursion():
    assert repr(kernel_networks.limit("mlp")) == (
        "kernels of mlp: NNGP K, tangent kernel Θ of U, W, v\n"
        "  K_h1(ξ,ξ′) = Σ_{i∈d}(ξ[i]*ξ′[i])\n"
        "  K_x1(ξ,ξ′) = κ_relu(K_h1(ξ,ξ), K_h1(ξ,ξ′), K_h1(ξ′,ξ′))\n"
        "  Θ_x1(ξ,ξ′) = κ_relu′(K_h1(ξ,ξ), K_h1(ξ,ξ′), K_h1(ξ′,ξ′))*K_h1(ξ,ξ′)\n"
        "  Θ_h2(ξ,ξ′) = K_x1(ξ,ξ′) + Θ_x1(ξ,ξ′)\n"
        "  K(ξ,ξ′) = κ_relu(K_x1(ξ,ξ), K_x1(ξ,ξ′), K_x1(ξ′,ξ′))\n"
        "  Θ(ξ,ξ′) = κ_relu(K_x1(ξ,ξ), K_x1(ξ,ξ′), K_x1(ξ′,ξ′))"
        " + κ_relu′(K_x1(ξ,ξ), K_x1(ξ,ξ′), K_x1(ξ′,ξ′))*Θ_h2(ξ,ξ′)\n"
        "where\n"
        "  κ_relu(c11, c12, c22) = E[relu(z1)*relu(z2)], (z1, z2) ~ N(0, [c11 c12; c12 c22])\n"
        "        = (2*c12*asin(c12/(sqrt(c11)*sqrt(c22))) + pi*c12 + 2*sqrt(c11*c22 - c12**2))/(4*pi)\n"
        "  κ_relu′(c11, c12, c22) = E[step(z1)*step(z2)], (z1, z2) ~ N(0, [c11 c12; c12 c22])\n"
        "        = asin(c12/(sqrt(c11)*sqrt(c22)))/(2*pi) + 1/4"
    )


def calls(depth: int) -> int:
    """Calls of Python functions that it takes to derive and print a transformer: what no busy machine changes."""
    network, found = kernel_networks.transformer(depth), [0]

    def counted(frame: object, event: str, argument: object) -> None:
        found[0] += event == "call"

    # what other tests have left is thrown out at some moment, and worked out again
    sympy.core.cache.clear_cache()
    parts.forget()
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        limit = tp.derive(network, tp.Kernels())
        repr(limit), limit.latex()
    finally:
        sys.setprofile(before)
    return found[0]


@pytest.mark.long
def test_a_block_of_a_transformer_takes_as_long_as_the_one_before():
    """A million calls take less than half a second: 24 blocks are derived and printed in five."""
    calls(2)  # what is loaded at first use
    few, some, many = calls(3), calls(5), calls(9)
    assert many - some < 1.15 * 2 * (some - few)
    assert few + 21 * (some - few) / 2 < 8_000_000


@pytest.mark.long
def test_a_deep_transformer_is_printed_with_its_block_once():
    limit = tp.derive(kernel_networks.transformer(24), tp.Kernels())
    text, typeset = repr(limit), limit.latex()
    assert text.count("for ℓ = 1, …, 24:") == 2 and typeset.count(r"1, \ldots, 24") == 2
    assert len(text.splitlines()) < 35 and "blk.2" not in text
    assert len(limit.steps) < 25
    short = repr(tp.derive(kernel_networks.transformer(5), tp.Kernels()))
    assert [line.replace("⁵", "²⁴") for line in short.splitlines()[2:] if "ℓ =" not in line] == [
        line for line in text.splitlines()[2:] if "ℓ =" not in line
    ]


def test_random_logits_are_told_with_their_covariance():
    text = repr(kernel_networks.limit("attention"))
    assert "E[…] over √n ⟨q*k⟩ ~ N(0, C), C(ξ,ξ′)[a,b,a′,b′] = K_h(ξ,ξ′)[a,a′]*K_h(ξ,ξ′)[b,b′]" in text
    assert "indices: a over token, b over key" in text
    said = " ".join(kernel_networks.limit("attention").assumptions)
    assert "infinitely many independent members along head" in said and "the logits √n ⟨q*k⟩ are random" in said


def test_steps_begin_with_the_tangent_and_name_their_references():
    steps = kernel_networks.limit("mlp").steps
    assert [s.rule for s in steps] == [
        *("tangent kernel", "bracket", "bracket", "product rule", "images under W and δW"),
        *("covariance of the output", "covariance of the tangent"),
    ]
    assert steps[2].premises == ("K_h1",) and steps[2].remarks == ("κ_relu in closed form (orthant)",)
    assert "(2.18)" in steps[4].reference.text
    assert steps[4].conclusion == "Θ_h2(ξ,ξ′) = K_x1(ξ,ξ′) + Θ_x1(ξ,ξ′)"


def test_a_tied_network_has_a_dot_step_and_says_that_independence_fails():
    limit = kernel_networks.limit("tied")
    (dot,) = [s for s in limit.steps if s.rule == "dot part"]
    assert dot.conclusion.startswith("Wᵀ x2 = μ_tanh′(K_x1(ξ,ξ))*x1(ξ) + (Wᵀ x2)^(ξ)")
    assert "(2.19)" in dot.reference.text
    assert "independent backward weights (GIA) fails" in limit.assumptions[2]
    assert "Simple GIA" in kernel_networks.limit("mlp").assumptions[2]
    assert "dot part" not in {s.rule for s in kernel_networks.limit("mlp").steps}


@pytest.mark.long
@pytest.mark.parametrize("name", ["mlp", "tied", "attention", "transformer"])
def test_citations_are_those_of_the_steps_and_closed_forms(name):
    limit = kernel_networks.limit(name)
    entries = limit.citation()
    assert {s.reference.citation for s in limit.steps} <= set(entries.replace("{", ",").split(","))
    assert ("hron2020infinite" in entries) == (name == "attention")
    assert "cho2009kernel" in entries


def test_frozen_parameters_are_told():
    said = tp.derive(kernel_networks.mlp, tp.Kernels(train=("v",))).assumptions
    assert "Θ is that of training v; U, W stay as drawn" in said
    nothing = tp.derive(kernel_networks.mlp, tp.Kernels(train=()))
    assert "nothing is trained: Θ = 0" in nothing.assumptions and "Θ(ξ,ξ′) = 0" in repr(nothing)


def test_a_tangent_kernel_without_limit_is_not_printed_as_zero():
    @tp.network
    def signs(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.sign(tp.sum(U * ξ, over="d"))

    limit = tp.derive(signs, tp.Kernels())
    assert "no tangent kernel Θ of U, v" in repr(limit) and "Θ(ξ,ξ′) = " not in repr(limit)
    assert r"\Theta" not in limit.latex()
    assert any("two jumps" in a for a in limit.assumptions)
    behind = tp.derive(signs, tp.Kernels(train=("v",)))
    assert "Θ(ξ,ξ′) = K_return(ξ,ξ′)" in repr(behind) and "no tangent kernel" not in repr(behind)


def gated(value):
    @tp.network
    def gate(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Scalar, s: tp.Scalar = value):
        return tp.readout(v * tp.relu(s * tp.sum(U * ξ, over="d"))) + c

    return gate


def test_scalars_inside_a_network_are_held_and_said_to_be():
    gate = gated(2)
    limit = tp.derive(gate, tp.Kernels())
    assert limit.trained == ("U", "v", "c")
    assert any(a.startswith("s: scalars inside the network") for a in limit.assumptions)
    assert "Θ is that of training v; U, c stay as drawn" in tp.derive(gate, tp.Kernels(train="v")).assumptions
    assert not any("held" in a for a in kernel_networks.limit("mlp").assumptions)
    # 2 relu(u) at s = 2: conditional on the value, not averaged over it; c adds 1 to both
    nngp, ntk = limit.evaluate([[1.0]])
    assert (nngp.item(), ntk.item()) == (3.0, 5.0)
    with pytest.raises(tp.EvaluationError, match="`s` is no constant"):
        limit.evaluate([[1.0]], s=3.0)
    with pytest.raises(tp.NoLimitError, match="`s` cannot be trained"):
        tp.derive(gate, tp.Kernels(train=("s",)))


def test_scalars_inside_a_network_need_a_value():
    @tp.network
    def gate(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, s: tp.Scalar):
        return v * tp.relu(s * tp.sum(U * ξ, over="d"))

    with pytest.raises(tp.NoLimitError, match="Give it a value"):
        tp.derive(gate, tp.Kernels())


def test_outputs_that_are_alike_need_no_size():
    @tp.network
    def many(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["out"]):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    wanted = tp.derive(many.bind(out=3), tp.Kernels()).evaluate(np.eye(2))
    for regime in (tp.Kernels(), tp.Kernels(infinite=("out",))):
        found = tp.derive(many, regime).evaluate(np.eye(2))
        assert (found.nngp == wanted.nngp).all() and (found.ntk == wanted.ntk).all()


@pytest.mark.parametrize("many", (5, 200))
def test_float32_data_gives_float32_kernels(many):
    X = np.random.default_rng(0).standard_normal((many, 3)).astype(np.float32)
    limit = kernel_networks.limit("mlp")
    found, wanted = limit.evaluate(X), limit.evaluate(X.astype(np.float64))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == np.float32 and other.dtype == np.float64
        assert np.abs(one / other - 1).max() < 1e-7  # computed in double precision
    assert limit.evaluate(X, X.astype(np.float64)).nngp.dtype == np.float64
    posterior = limit.posterior(X[:4], np.ones(4, np.float32), X[:1], noise=0.1)
    assert posterior.mean.dtype == np.float64


def test_slopes_of_user_functions_stand_outside_the_means_of_tangents():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        f = tp.elementwise(lambda u: u / (1 + u**2))
        return v * f(W @ f(tp.sum(U * ξ, over="d")))

    limit = tp.derive(net, tp.Kernels())
    assert "z3" not in repr(limit)  # two variables, not four
    assert limit.evaluate(np.eye(2)).ntk_error < 1e-10


def test_large_logits_of_a_softmax():
    @tp.network
    def attention(ξ: tp.Input["d", "token"], U: tp.Vector["d"], V: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        A = tp.softmax(1000 * tp.avg(x * x.rename(token="key")), over="key")
        return v * tp.sum(A * (V @ x).rename(token="key"), over="key")

    X = np.array([[[2.0, 1.0]]])  # logits 4000, 2000; 2000, 1000: each token attends to the first
    nngp = tp.derive(attention, tp.Kernels()).evaluate(X).nngp
    np.testing.assert_allclose(nngp, np.full((1, 1, 2, 2), 4.0), rtol=1e-12)


def test_closed_forms_go_by_their_printed_name():
    limit = kernel_networks.limit("mlp")
    found = limit.closed_form("κ_relu")
    at_independent = found.xreplace({s: sympy.Integer(0 if s.name == "c12" else 1) for s in found.free_symbols})
    assert at_independent == 1 / (2 * sympy.pi)  # (E relu z)²
    assert kernel_networks.limit("tied").closed_form("κ_tanh") is None
    with pytest.raises(tp.ProgramError, match="κ_relu, κ_relu′"):
        limit.closed_form("κ_erf")


def test_two_derivations_print_alike_and_limits_travel():
    again = tp.derive(kernel_networks.tied, tp.Kernels())
    assert repr(again) == repr(kernel_networks.limit("tied"))
    assert repr(pickle.loads(pickle.dumps(again))) == repr(again)


def first_layer(body, **parameters):
    """A network of one hidden layer with this function of its preactivation."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * body(tp.sum(U * ξ, over="d"))

    return net


@pytest.mark.parametrize(
    ("written", "plainly"),
    [
        (lambda h: tp.where(h, h, 0), tp.relu),
        (lambda h: h * tp.step(h), tp.relu),
        (lambda h: tp.abs(h) * tp.sign(h), lambda h: h),
        (lambda h: tp.where(h, h, tp.exp(h) - 1), lambda h: tp.relu(h) + tp.exp(tp.minimum(h, 0)) - 1),
    ],
    ids=("where", "step", "sign", "elu"),
)
def test_functions_that_do_not_jump_have_a_tangent_kernel(written, plainly):
    """z δ(z) = 0."""
    X = np.array([[1.0, 0.5], [0.25, -1.0]])
    found, wanted = (tp.derive(first_layer(f), tp.Kernels()).evaluate(X) for f in (written, plainly))
    np.testing.assert_allclose(found.nngp, wanted.nngp, rtol=1e-9)
    np.testing.assert_allclose(found.ntk, wanted.ntk, rtol=1e-9)
    jumping = first_layer(lambda h: tp.where(h, h + 1, 0))
    with pytest.raises(tp.NoLimitError, match="two jumps"):
        tp.derive(jumping, tp.Kernels()).evaluate(X).ntk  # noqa: B018


@pytest.mark.long
@pytest.mark.parametrize(
    "branches",
    [
        lambda x, b: tp.where(x - b, x**2 - b**2, (x - b) / 2),
        lambda x, b: (x**2 - b**2) * tp.step(x - b) + tp.minimum(x - b, 0) / 2,
    ],
    ids=("where", "step"),
)
def test_branches_that_meet_are_continuous_and_exact_however_they_are_written(branches):
    """A name for (x − b)/2 would hide that branches meet; x − b beside x and b is no variable of its own."""

    def network(function):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector):
            return v * function(tp.sum(U * ξ, over="d"), b)

        return net

    X = np.array([[1.0, 0.5], [0.25, -1.0]])
    plainly = network(lambda x, b: tp.relu(x - b) * (x + b) + tp.minimum(x - b, 0) / 2)
    found, wanted = (tp.derive(f, tp.Kernels()).evaluate(X) for f in (network(branches), plainly))
    np.testing.assert_allclose(found.nngp, wanted.nngp, rtol=1e-8)
    np.testing.assert_allclose(found.ntk, wanted.ntk, rtol=1e-8)


def test_a_mean_of_the_output_is_said_and_predictions_want_none():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, a: tp.Scalar = 2):
        return tp.readout(v * tp.relu(tp.sum(U * ξ, over="d"))) + a

    limit = tp.derive(net, tp.Kernels())
    assert "the output has the mean 2; K is its covariance" in limit.assumptions
    assert limit.evaluate([[1.0]]).nngp.item() == 0.5
    for call in (limit.posterior, limit.train):
        with pytest.raises(tp.EvaluationError, match="has the mean 2"):
            call([[1.0]], [5.0], [[1.0]], noise=1.0, **({"time": 0} if call == limit.train else {}))


@pytest.mark.parametrize("scale", (1e-81, 1e-100, 1e-155, 1e80))
def test_kernels_out_of_range_are_refused(scale):
    for limit in (kernel_networks.limit("mlp"), tp.derive(first_layer(tp.erf), tp.Kernels())):
        with pytest.raises(tp.EvaluationError, match="Scale the inputs or weights"):
            limit.evaluate(np.array([[1.0, 0.5, 0.25], [0.25, -1.0, 1.0]]) * scale)


@pytest.mark.long
def test_normalised_vectors_before_random_logits():
    """Root mean squares of a linear first layer are those of the inputs."""

    def net(normal):
        @tp.network
        def attention(
            ξ: tp.Input["d", "token"],
            U: tp.Vector["d"],
            Q: tp.Matrix["n", "n", "head"],
            K: tp.Matrix["n", "n", "head"],
            V: tp.Matrix["n", "n", "head"],
            v: tp.Vector["head"],
        ):
            x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
            if normal:
                x = x / tp.sqrt(tp.avg(x**2))
            A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
            y = tp.sum(A * (V @ x).rename(token="key"), over="key")
            return tp.sum(v * tp.mean(y, over="token"), over="head") / tp.sqrt(tp.size("head"))

        return tp.derive(attention, tp.Kernels(infinite=("head",)))

    X = np.random.default_rng(1).standard_normal((2, 3, 2))
    found = net(True).evaluate(X, draws=16384, replicates=64)
    wanted = net(False).evaluate(X / np.sqrt((X**2).mean(axis=1, keepdims=True)), draws=16384, replicates=64)
    error = np.hypot(found.nngp_error, wanted.nngp_error)
    assert (abs(found.nngp - wanted.nngp) < 5 * error).all() and (error < 0.02 * wanted.nngp[0, 0]).all()
    plain = net(False).evaluate(X, draws=16384, replicates=64)
    assert (abs(plain.nngp - wanted.nngp) > 5 * error).any()


def test_axes_that_no_data_has_count():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "head"], v: tp.Vector):
        return v * tp.sum(W @ tp.sum(U * ξ, over="d"), over="head")

    found = tp.derive(net.bind(head=3), tp.Kernels()).evaluate(np.eye(2))
    np.testing.assert_allclose(found.nngp, 3 * np.eye(2))
    with pytest.raises(tp.NoLimitError, match="has the size 3"):
        tp.derive(net.bind(head=3), tp.Kernels(infinite=("head",)))


@pytest.mark.parametrize("asked", [{"draws": "many"}, {"draws": 0}, {"replicates": 1.5}, {"seed": -1}, {"seed": None}])
def test_draws_and_seeds_are_numbers_where_nothing_is_drawn(asked):
    @tp.network
    def subject(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    limit, data = tp.derive(subject, tp.Kernels()), np.eye(2)
    for ask in (lambda: limit.evaluate(data, **asked), lambda: limit.posterior(data, [1.0, 2.0], data, **asked)):
        with pytest.raises(tp.EvaluationError, match=f"{next(iter(asked))}="):
            ask()
