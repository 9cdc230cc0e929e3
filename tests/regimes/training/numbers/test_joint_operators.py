"""Updates that look at a whole matrix, on particles: equal to those of the matrix that the particles are."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.optimizers.stepping import Whole
from tplimits.regimes.training.numbers.updates import BlockUpdate, FactoredUpdate, LowRankUpdate, update_of

ROWS, COLUMNS, UNIT, STEPS, DECAY = 64, 32, 64, 4, 0.9


def gradients():
    rng = np.random.default_rng(3)
    return [(rng.standard_normal((3, ROWS)), rng.standard_normal((3, COLUMNS))) for _ in range(STEPS)]


def whole_matrix(optimizer, blocks=1):
    """ΔW·columns by the finite optimizer: w in units in which ‖w_0‖² is rows · n₀, and norms over n₀."""
    stepper, found = optimizer.stepper(), np.zeros((ROWS, COLUMNS))
    states = stepper.start((1, ROWS, COLUMNS))
    kept = np.full((1, ROWS, COLUMNS), np.sqrt(UNIT / COLUMNS))
    for t, (left, right) in enumerate(gradients()):
        states, q = stepper.step(t, states, (left.T @ right)[None], Whole("matrix", UNIT, kept))
        found = DECAY * found - 0.1 * q[0] * (UNIT if optimizer.divides_by else 1)
        kept = DECAY * kept
    return found


def on_particles(optimizer, blocks):
    update = update_of(ROWS, COLUMNS, blocks, optimizer, UNIT)
    for t, (left, right) in enumerate(gradients()):
        if t == 2:  # through a checkpoint
            again = update_of(ROWS, COLUMNS, blocks, optimizer, UNIT)
            again.restore({k: np.asarray(v) if not isinstance(v, dict) else v for k, v in update.state().items()})
            update = again
        update.step(t, left, right, 0.1, DECAY)
    return update


@pytest.mark.parametrize(
    "optimizer, kind",
    [
        (tp.Normalized(tp.SGD()), LowRankUpdate),
        (tp.Normalized(tp.SGD(momentum=0.5)), LowRankUpdate),
        (tp.Clipped(tp.SGD(momentum=0.5), 1.5), LowRankUpdate),
        (tp.Normalized(tp.SGD(), by="weight"), LowRankUpdate),
        (tp.Normalized(tp.Adam(eps=0.1)), BlockUpdate),
        (tp.Clipped(tp.Adam(eps=0.1), 0.6, reading="printed"), BlockUpdate),
        (tp.Normalized(tp.Adam(eps=0.1), by="weight"), BlockUpdate),
        (tp.Adafactor(decay=0.8, eps=0.1), FactoredUpdate),
    ],
    ids=str,
)
def test_one_block_is_the_whole_matrix(optimizer, kind):
    update, expected = on_particles(optimizer, 1), whole_matrix(optimizer)
    assert isinstance(update, kind)
    np.testing.assert_allclose(update.apply(np.eye(COLUMNS), False).T * COLUMNS, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(update.apply(np.eye(ROWS), True) * COLUMNS, expected, rtol=1e-9, atol=1e-9)


def test_blocks_of_adafactor_are_those_of_the_whole_matrix():
    """Means over rows and columns are over all particles: no block has a bias of its own."""
    optimizer = tp.Adafactor(decay=0.8, eps=0.1)
    update, expected = on_particles(optimizer, 4), whole_matrix(optimizer)
    for block in range(4):
        rows, columns = (slice(block * size // 4, (block + 1) * size // 4) for size in (ROWS, COLUMNS))
        np.testing.assert_allclose(update.sum[block], expected[rows, columns], rtol=1e-9)


def test_nothing_moves_where_there_is_no_gradient():
    for optimizer in (tp.Normalized(tp.SGD()), tp.Normalized(tp.Adam(eps=0.1)), tp.Adafactor(eps=0.1)):
        update = update_of(ROWS, COLUMNS, 2, optimizer, UNIT)
        update.step(0, np.zeros((1, ROWS)), np.ones((1, COLUMNS)), 0.1, 1.0)
        assert not update.apply(np.ones((1, COLUMNS)), False).any()
