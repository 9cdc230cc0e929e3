"""What the text of a widening says of powers that are given, line by line."""

from fractions import Fraction as F
from types import SimpleNamespace

import sympy

from tplimits.regimes.classification import report


def found(**changed):
    """Powers of a network with two values of its own names, h which starts like n^(1/2), and one without."""
    given = {
        "sentence": "it says so.",
        "growing_starts": {"h": F(1, 2)},
        "vanishing_starts": {"b": F(-1, 2), "c": F(0)},
        "saturated": "",
        "averages": False,
        "layers": {"h": F(1), "z": F(-1), "_3": F(5), "y": F(0)},
        "scales": {"h": F(1, 2), "z": F(-1)},
        "by_parameter": {"U": F(1), "W": F(0), "v": F(1)},
        "f": (F(1), F(0)),
        "largest_rate": F(3, 2),
        "at_largest_rate": {"f": F(0), "h": F(1, 2), "z": F(-3, 2), "_3": F(9), "y": F(-1)},
        "nearest": None,
        **changed,
    }
    return SimpleNamespace(**given, first_change=lambda name: (given["layers"][name], 2 if name == "z" else 1))


LINES = """it says so.

at the start
  h starts like n^(1/2): it grows
  b starts like n^(-1/2): harmless, where it is added to what is larger
in training, at a rate that does not depend on n
  h moves like n from step 1 on: grows
  z moves like n^(-1) from step 2 on: stays of order 1
  y moves like 1 from step 1 on: stays of order 1
  f moves like n by the updates of U, v
  f moves like 1 by the updates of W
the largest rate at which nothing grows: of order n^(-3/2), for all parameters alike
  there f moves
  features that move: h
  features that stay as they start: z, y
no table of rates and initial entries that learns features was found"""


def test_every_line():
    assert report.widening_text(found()) == LINES


def test_what_is_a_bound_is_said_to_be_one():
    for bound in ({"saturated": "tanh"}, {"averages": True}):
        text = report.widening_text(found(**bound))
        assert "  at most" in text and "of order n^(-3/2) or larger, for all" in text
    assert "or larger" not in LINES and "at most" not in LINES


def test_what_does_not_happen_is_not_told():
    quiet = {
        "growing_starts": {},
        "vanishing_starts": {"c": F(0)},
        "at_largest_rate": {"f": F(-1, 2), "h": F(0), "z": F(-1)},
    }
    lines = report.widening_text(found(**quiet)).splitlines()
    assert lines[3] == "  everything is of order 1" and "  there f does not move" in lines
    assert "  features that move: z" in lines and "  features that stay as they start: h" in lines
    only = report.widening_text(found(at_largest_rate={"f": F(0), "h": F(1)})).splitlines()
    assert "  features that move: h" in only and not any("stay as they start" in line for line in only)
    vanishing = found(layers={"y": F(-1, 2)}, at_largest_rate={"f": F(0), "y": F(-1)})
    lines = report.widening_text(vanishing).splitlines()
    assert (
        "  y moves like n^(-1/2) from step 1 on: vanishes" in lines and "  features that stay as they start: y" in lines
    )


def test_names_that_nobody_gave_stand_where_there_are_no_others():
    assert report.named({"_1": 1, "h": 2}) == {"h": 2} and report.named({"_1": 1}) == {"_1": 1}
    assert [report.power_of_n(F(p)) for p in (0, 1, 2, -1, "1/2")] == ["1", "n", "n^(2)", "n^(-1)", "n^(1/2)"]


def test_kernels_that_evolve():
    def verdict(**given):
        base = {"regime": "feature", "evolves": None, "evolving": ("h",)}
        return SimpleNamespace(**{**base, **given})

    assert report._about_kernels(verdict(evolves=sympy.true)) == ["feature kernels evolve, from h on"]
    assert report._about_kernels(verdict(evolves=sympy.true, evolving=())) == ["feature kernels evolve"]
    assert report._about_kernels(verdict(evolves=sympy.false, evolving=())) == ["feature kernels are fixed"]
    r = sympy.Symbol("r")
    assert report._about_kernels(verdict(evolves=r > 1)) == ["feature kernels evolve if r > 1"]
    assert (
        report._about_kernels(verdict(regime="unstable")) == report._about_kernels(verdict(regime="unfaithful")) == []
    )
    shifts = SimpleNamespace(shifts={"U": F(-1, 2), "v": F(1)})
    told = report._about_powers(SimpleNamespace(doubt="", scaling=shifts))
    assert told == ["powers of n in the program count as part of a: U: a − 1/2, v: a + 1"]
    for nothing in (None, SimpleNamespace(shifts={})):
        assert report._about_powers(SimpleNamespace(doubt="", scaling=nothing)) == []
    assert report._about_powers(SimpleNamespace(doubt="why", scaling=shifts)) == ["why"]


def test_what_is_open_before_training_and_which_regime_holds():
    start = SimpleNamespace(lines=lambda: ["open"])
    told = {
        r: report.about_start(SimpleNamespace(regime=r, at_start=start))
        for r in ("unstable", "unfaithful", "feature", "")
    }
    assert told == {"unstable": [], "unfaithful": [], "feature": ["open"], "": ["open"]}
    conditions = {
        "unstable": sympy.Symbol("r") < 0,
        "kernel": False,
        "feature": sympy.Symbol("r") >= 0,
        "trivial": True,
    }
    assert report._regime(SimpleNamespace(regime="", conditions=conditions)) == "unstable if r < 0; feature if r >= 0"
    assert report._regime(SimpleNamespace(regime="kernel", conditions=conditions)) == "kernel"
