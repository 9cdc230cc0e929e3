"""Spikes that are made on purpose are attributed to what made them."""

import clustering_heads as by_hand
import numpy as np
import pytest

from tplimits.zoo.clustering_heads import spikes, start

X = by_hand.every_sequence(2, 12)[::37]
Y = by_hand.target(X, 2, 5)


def fitted():
    """An exact head with a perceptron that classifies its clusters."""
    θ = {**by_hand.exact_head(32)}
    rng = np.random.default_rng(0)
    θ |= {"w": rng.uniform(-6, 6, (32, 2)), "b": rng.uniform(-3, 3, 32)}
    run = by_hand.forward(θ, X)
    θ["u"] = np.linalg.lstsq(run.act, 6 * θ["E"][Y] - run.ξ, rcond=1e-9)[0]
    return θ


def spike(before, after):
    return spikes.attributed(before, after, lambda θ: by_hand.forward(θ, X).loss(Y), lambda θ: by_hand.forward(θ, X).ξ)


def test_a_spike_is_found_where_the_loss_jumps():
    assert spikes.spikes([1, 0.1, 0.2, 0.1, 0.11, 3.0]) == [2, 5]
    assert spikes.spikes([1, 0.1, 0.2, 0.1, 0.11, 3.0], above=1.0) == [5]


def test_moved_weights_of_the_perceptron_are_its_own():
    θ = fitted()
    found = spike(θ, {**θ, "u": θ["u"] * np.where(np.arange(32) < 16, 1.5, 0.5)[:, None]})
    assert found.kind == "perceptron"
    assert found.shares["perceptron"] == pytest.approx(found.rise)
    assert found.rise > 0.1 and found.turn_of_sequences == 0


def test_moved_values_are_those_of_the_attention():
    θ = fitted()
    found = spike(θ, {**θ, "V": θ["V"] @ np.array([[1.0, 0.4], [0.0, 1.0]])})
    assert found.kind == "attention" and found.turn_of_tokens == 0
    assert sum(found.shares.values()) == pytest.approx(found.rise) and found.rise > 0.1


def test_a_token_that_crosses_the_origin_is_normalisation():
    θ = fitted()
    near, beyond = θ["P"].copy(), θ["P"].copy()
    near[2] = [-1.0, 0.02]  # E(1) + P(3) is a hundredth of the others
    beyond[2] = [-1.0, -0.02]
    found = spike({**θ, "P": near}, {**θ, "P": beyond})
    assert found.kind == "normalisation" and found.turn_of_tokens == pytest.approx(np.pi)
    assert abs(near - beyond).max() < 0.05


def test_shares_do_not_depend_on_the_order_of_the_groups():
    scalars = start.scalars(3, vocab=2)
    rng = np.random.default_rng(1)
    θ = {**scalars, **{name: value.T for name, value in start.neurons(8, 3).items()}}
    moved = {name: value + 0.3 * rng.standard_normal(value.shape) for name, value in θ.items()}
    forth, back = spike(θ, moved), spike(moved, θ)
    assert forth.rise == pytest.approx(-back.rise)
    assert all(forth.shares[g] == pytest.approx(-back.shares[g]) for g in forth.shares)
