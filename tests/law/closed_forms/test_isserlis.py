"""Isserlis' theorem: pairings that are counted, against those that are written out."""

from __future__ import annotations

from collections import Counter

import pytest
import sympy

from tplimits.law.closed_forms.isserlis import counted_pairings, pairings


@pytest.mark.parametrize("exponents", [(), (2,), (1, 1), (4, 2), (3, 3), (2, 1, 3), (1, 2, 2, 3), (3, 2)])
def test_pairings_are_counted_as_they_are_written_out(exponents):
    places = [v for v, power in enumerate(exponents) for _ in range(power)]
    written = Counter(
        tuple(sorted((places[i], places[j]) for i, j in one)) for one in pairings(tuple(range(len(places))))
    )
    if sum(exponents) % 2:
        assert not counted_pairings(exponents) and not written
    else:
        assert counted_pairings(exponents) == written


def test_high_powers_are_counted_at_once():
    """(2k − 1)!! in all; 17!! = 34459425 written out do not fit into memory."""
    found = counted_pairings((9, 9))
    assert sum(found.values()) == sympy.factorial2(17) and len(found) == 5
    assert len(counted_pairings((6, 6, 6, 6))) < 1000
