"""Entries that are written out one by one: as many as there are, and a refusal where nobody could wait for them."""

from __future__ import annotations

import pytest

import tplimits as tp


@tp.program
def one_entry(x: tp.Vector["token"], W: tp.Matrix):
    return tp.avg((W @ x.sel(token=0)) ** 2)


@tp.program
def all_entries(x: tp.Vector["token", "key"], W: tp.Matrix):
    return tp.sum(tp.avg((W @ x) ** 2), over=("token", "key"))


@pytest.mark.parametrize("regime", [tp.Width(), tp.FiniteWidth()], ids=["width", "finite width"])
def test_sizes_beyond_what_can_be_written_out_are_refused(regime):
    """10⁹ entries ran for hours, 10¹² ended in a MemoryError."""
    for count in (10**9, 10**12, 10**30):
        with pytest.raises(tp.ProgramError, match=rf"with token={count} there are {count} of one value"):
            tp.derive(one_entry.bind(token=count), regime)
    with pytest.raises(tp.ProgramError, match="with token=2000, key=1000 there are 2000000"):
        tp.derive(all_entries.bind(token=2000, key=1000), regime)


def test_axes_of_a_thousand_entries_are_written_out():
    assert tp.derive(one_entry.bind(token=2000)).scalar("return") == 1
    assert tp.derive(all_entries.bind(token=7, key=13)).scalar("return") == 7 * 13
