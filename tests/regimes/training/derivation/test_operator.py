"""Hypotheses of the operator regime: what is refused, and with which reason."""

import pytest

import tplimits as tp
from tplimits.regimes.training.derivation.operator import derive_tangent
from tplimits.zoo.networks.attention import many_heads


@tp.network
def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.sum(U * ξ, over="d"))


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Scalar):
    return v * tp.tanh(c * tp.sum(U * ξ, over="d"))


@tp.network
def held(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Scalar = 2):
    return v * tp.tanh(c * tp.sum(U * ξ, over="d"))


@tp.network
def stale(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    return (W @ tp.sum(U * ξ, over="d")) ** 2 - 1


SHIFTED = tp.init(mean=1, std=1)


@tp.network
def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector = SHIFTED):
    return v * tp.tanh(tp.sum(U * ξ, over="d")) ** 2


def refused(network, message, optimizer=None, **options):
    with pytest.raises(tp.NoLimitError, match=message):
        derive_tangent(network, optimizer or tp.SGD(), **options)


def test_scalar_parameters_inside_the_network():
    refused(
        gated, "`c` stands inside the network.*hypothesis: scalar parameters are output biases alone.*tp.Scalar = 1"
    )
    operator = derive_tangent(held, tp.SGD())
    assert operator.held == ("c",) and operator.trained == ("U", "v")
    assert "c stands inside the network and is held" in " ".join(
        tp.derive(held, tp.NeuralTangent(tp.SGD())).assumptions
    )


def test_a_readout_without_fresh_vectors():
    refused(stale, "fresh readout vectors")
    refused(shifted, "fresh readout vectors")  # its mean does not vanish


def test_random_logits():
    refused(many_heads.bind(head=2), "hypothesis: no fluctuation inside the forward pass")
    refused(many_heads, "linear in the gradients", tp.Adam(eps=0.1), infinite=("head",))
    assert derive_tangent(many_heads, tp.SGD(), infinite=("head",)).infinite == ("head",)


def test_updates_that_see_more_than_one_entry():
    refused(many_heads, "linear in the gradients", tp.Normalized(tp.SGD()), infinite=("head",))
    for optimizer, by_kernel in (
        (tp.Normalized(tp.SGD()), True),
        (tp.Clipped(tp.SGD(momentum=0.5), 1.0), True),
        (tp.Clipped(tp.Adam(eps=0.1)), False),
        (tp.Adafactor(eps=0.1), False),
    ):
        operator = derive_tangent(plain, optimizer)
        assert operator.is_by_kernel == by_kernel and not operator.is_linear


def test_the_regime_is_checked():
    for regime, message in (
        (tp.NeuralTangent("adam"), "give an optimizer"),
        (tp.NeuralTangent(tp.SGD(), weight_decay=1), "below 1"),
        (tp.NeuralTangent(tp.SGD(), weight_decay=-0.1), "0 or more"),
        (tp.NeuralTangent(tp.SGD(), infinite=("head",)), "`head` is no finite axis of `plain`"),
        (tp.NeuralTangent(tp.SGD(), infinite=3), "give names"),
    ):
        with pytest.raises(tp.ProgramError, match=message):
            tp.derive(plain, regime)

    @tp.program
    def no_network(x: tp.Vector):
        return tp.avg(x)

    with pytest.raises(tp.ProgramError, match=r"is no network: tp\.NeuralTangent\(\) takes"):
        tp.derive(no_network, tp.NeuralTangent(tp.SGD()))


def test_images_with_a_dot_part_are_found():
    @tp.network
    def twice(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.tanh(W.T @ (W @ x))

    operator = derive_tangent(twice, tp.SGD())
    program = operator.backward.program
    images = {
        program[p].name: operator.has_dot_part(p) for p in range(len(twice)) if "MatMul" in type(program[p]).__name__
    }
    assert sorted(images.values()) == [False, True]
