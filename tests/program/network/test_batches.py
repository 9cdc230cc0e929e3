"""Schedules of batches: every input once an epoch, the same for everyone, whatever was asked before."""

import numpy as np
import pytest

import tplimits as tp


def test_an_epoch_holds_every_input_once_in_a_new_order():
    found = tp.batches(4, seed=3)
    first, second = ([found.indices(t, 12).tolist() for t in range(e, e + 3)] for e in (0, 3))
    assert sorted(np.ravel(first)) == sorted(np.ravel(second)) == list(range(12)) and first != second
    assert found.indices(1, 12).tolist() == first[1] == tp.batches(4, seed=3).indices(1, 12).tolist()
    assert first != [tp.batches(4, seed=4).indices(t, 12).tolist() for t in range(3)]


def test_what_fills_no_batch_is_left_out():
    found = tp.batches(5)
    assert all(len(set(found.indices(t, 12).tolist())) == 5 for t in range(6))
    assert not set(found.indices(0, 12)) & set(found.indices(1, 12)), "one epoch: two batches"


def test_draws_are_with_replacement_and_uniform():
    found = tp.batches(6, seed=1, sampler="draws")
    drawn = np.concatenate([found.indices(t, 4) for t in range(500)])
    counts = np.bincount(drawn, minlength=4)
    assert len(found.indices(0, 4)) == 6 and (abs(counts - 750) < 5 * np.sqrt(750)).all()
    assert not np.array_equal(found.indices(0, 4), found.indices(1, 4))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: tp.batches(0), "size=0: give a whole number, at least 1"),
        (lambda: tp.batches(2.5), "size=2.5: give a whole number"),
        (lambda: tp.batches(2, seed=-1), "a seed is a whole number"),
        (lambda: tp.batches(2, sampler="shuffle"), "give one of the words 'epochs', 'draws'"),
        (lambda: tp.batches(5).indices(0, 4), "there are 4 training inputs"),
        (lambda: tp.batches(2).indices(-1, 4), "t=-1: give a whole number, at least 0"),
        (lambda: tp.batches(2, sampler="draws").indices(0, "many"), "inputs='many': give a whole number, at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, what):
    with pytest.raises(tp.EvaluationError, match=what):
        make()


@pytest.mark.parametrize("found", [tp.batches(5, seed=2), tp.batches(3, seed=1, sampler="draws"), tp.batches(12)])
@pytest.mark.parametrize(("t", "steps"), [(0, 1), (0, 7), (3, 4), (1, 11)])
def test_many_steps_at_once_are_those_one_by_one(found, t, steps):
    assert np.array_equal(found.of_steps(t, steps, 12), [found.indices(s, 12) for s in range(t, t + steps)])
