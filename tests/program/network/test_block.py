"""Blocks and stacks: what a block is, how it runs, binds and goes to a file."""

from __future__ import annotations

import numpy as np
import pytest
import shaped

import tplimits as tp


@tp.block
def scaled(x: tp.State["token"], W: tp.Matrix, *, γ):
    return x + γ * (W @ x)


def test_a_block_runs_with_a_state_given_or_drawn():
    x = np.arange(6.0).reshape(3, 2)
    given = scaled.run(n=2, x=x, W=np.eye(2), γ=2)["return"]
    assert np.array_equal(given, 3 * x)
    drawn = scaled.run(n=400, token=3, γ=0)["return"]
    assert drawn.shape == (3, 400)
    assert np.abs(drawn @ drawn.T / 400 - np.eye(3)).max() < 0.3


def test_sizes_of_axes_are_checked():
    with pytest.raises(tp.EvaluationError, match="give a whole number, at least 1"):
        scaled.run(n=2, token=0, γ=1)
    with pytest.raises(tp.EvaluationError, match="of `scaled` has size 3"):
        scaled.bind(token=3).run(n=2, token=2, γ=1)
    with pytest.raises(tp.EvaluationError):
        scaled.run(n=2, token=2, x=np.ones((3, 2)), γ=1)


def test_attention_at_finite_width_is_the_formula():
    rng = np.random.default_rng(0)
    n, k, m, γ, τ0 = 6, 4, 3, 0.3, 0.7
    x = rng.standard_normal((m, n))
    WQ, WK, WV = rng.standard_normal((k, n)), rng.standard_normal((k, n)), rng.standard_normal((n, n))
    found = shaped.shaped_attention.run(n=n, ratios={"k": k / n}, x=x, WQ=WQ, WK=WK, WV=WV, γ=γ, τ0=τ0)["return"]
    Y = x @ WQ.T @ WK @ x.T / (τ0 * np.sqrt(n * k))
    softmax = np.exp(Y) / np.exp(Y).sum(axis=1, keepdims=True)
    wanted = np.sqrt(1 - γ**2) * x + γ * (np.eye(m) + softmax - 1 / m) @ x @ WV.T
    assert np.abs(found - wanted).max() < 1e-12


def test_a_stack_is_one_block_after_the_other():
    x, W = np.ones((1, 2)), np.eye(2)
    twice = tp.stack(scaled, scaled)
    assert [p.name for p in twice.parts] == ["scaled", "scaled"]
    names = {"scaled.1.W": W, "scaled.2.W": 3 * W}
    assert np.array_equal(twice.run(n=2, x=x, γ=2, constants=names)["return"], 21 * x)
    assert twice.bind(γ=2).parts[1].constants == {}
    assert tp.stack(twice, scaled).parts == (scaled,) * 3


def test_what_is_no_block():
    def no_state(x: tp.Vector["token"]):
        return x

    def two_states(x: tp.State["token"], y: tp.State["token"]):
        return x + y

    def other_axes(x: tp.State["token"], W: tp.Matrix):
        return tp.sum(W @ x, over="token")

    def scalar(x: tp.State["token"]):
        return tp.avg(x)

    def pair(x: tp.State["token"]):
        return x, x

    def another_width(x: tp.State["k", "token"], W: tp.Matrix["n", "k"]):
        return W @ x

    def with_default(x: tp.State["token"] = 1):
        return x

    for function, message in (
        (no_state, "a block takes one state; annotate an argument"),
        (two_states, "takes 2 states; a block takes one"),
        (other_axes, r"returns a vector over `n` with axes \(\); the next state is a vector over `n`"),
        (scalar, "returns a scalar with axes"),
        (pair, "returns 2 values; a block returns the next state alone"),
        (another_width, "a state lives on the width n"),
        (with_default, "a default for the state `x`"),
    ):
        with pytest.raises(tp.ProgramError, match=message):
            tp.block(function)


def test_a_program_takes_no_state():
    with pytest.raises(tp.ProgramError, match=r"takes a tp\.State; decorate it by @tp\.block"):

        @tp.program
        def plain(x: tp.State["token"]):
            return x


def test_what_cannot_be_stacked():
    @tp.program
    def plain(x: tp.Vector):
        return x

    with pytest.raises(tp.ProgramError, match="argument 2 is the program `plain`; it takes blocks"):
        tp.stack(scaled, plain)
    with pytest.raises(tp.ProgramError, match="give it at least one"):
        tp.stack()


def test_files():
    assert tp.from_json(tp.to_json(scaled)) == scaled
    assert tp.from_json(tp.to_json(scaled)).state == scaled.state
    with pytest.raises(tp.ProgramError, match="is a stack of blocks; write each of them"):
        tp.to_json(tp.stack(scaled, scaled))
    with pytest.raises(tp.ProgramError, match="a block takes a state over n"):
        tp.from_json(tp.to_json(scaled).replace('"state": "0"', '"state": "1"'))


def test_values_of_a_stack_reach_the_blocks_that_have_a_place_for_them():
    @tp.block
    def shifted(x: tp.State["token"], *, δ):
        return x + δ

    both = tp.stack(scaled, shifted).bind(δ=2, token=3)
    assert [part.size("token") for part in both.parts] == [3, 3]
    assert [sorted(part.constants) for part in both.parts] == [["γ"], []]
