"""Limits by names: entries of families, what has no such part, tables of numbers, nodes that are spent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.numbers.budget import AUTO, QUADRATURE
from tplimits.numbers.number import Number
from tplimits.regimes.width.evaluation import _Evaluation


@tp.program
def family(W: tp.Matrix, x: tp.Vector["token"], y: tp.Vector):
    h = W @ x
    return tp.avg(h * h), tp.sqrt(tp.n) * tp.avg(x * y)


LIMIT = tp.derive(family.bind(token=2))


def test_entries_of_families_by_name():
    assert LIMIT.ket("h[token=1]") == LIMIT.ket("h[ token=1]") != LIMIT.ket("h[token=0]")
    for name in ("h[token=01", "h[token=1", "h[1]", "h[token=1] ", "h(token=1]", "h[token:1]", "h[token=one]"):
        with pytest.raises(ProgramError):
            LIMIT.ket(name)


def test_what_is_asked_for_in_the_wrong_place_is_said():
    for ask, name, said in (
        (LIMIT.scalar, "h[token=0]", r"`h` is not a scalar: ask for \.ket\('h'\)"),
        (LIMIT.ket, "W", "`W` is a matrix; matrices have no ket"),
        (LIMIT.ket, "h[token=2]", r"`h\[token=2\]` is out of range"),
        (LIMIT.ket, "h[layer=0]", r"`h` has no axis `layer`; its axes are \(token\)"),
        (LIMIT.ket, 3, r"3 is not a name"),
    ):
        with pytest.raises(ProgramError, match=said):
            ask(name)
    with pytest.raises(ProgramError, match=r"token=0\.5: the index of an axis is a whole number"):
        LIMIT.ket("h", token=0.5)
    assert LIMIT.ket("h", token=1) == LIMIT.ket("h[token=1]")


def test_what_is_no_image_has_no_hat():
    assert LIMIT.hat("h[token=0]") is not None
    for part in (LIMIT.hat, LIMIT.dot):
        with pytest.raises(ProgramError, match="`y` is not an image W x"):
            part("y")


def test_covariances_of_what_is_no_scalar():
    assert LIMIT.covariance("return[1][token=0]", "return[1][token=0]") == 1
    for pair in (("nothing", "return[0][token=0]"), ("return[0][token=0]", "h"), (3, "return[0][token=0]")):
        with pytest.raises(ProgramError, match=r"no scalar .*; the scalars are return"):
            LIMIT.covariance(*pair)


def test_a_column_of_variances_where_something_stays_random():
    fixed, random = Number(1.0, 0.0, "exact"), Number(0.0, 0.1, "quadrature", variance=2.0)
    shown = LIMIT.shown({"a": fixed})
    assert shown.head == ("quantity", "value", "error", "method") and list(shown.rows) == [("a", "1", "", "exact")]
    shown = LIMIT.shown({"a": fixed, "b": random})
    assert shown.head[4:] == ("variance",)
    assert list(shown.rows) == [("a", "1", "", "exact", ""), ("b", "0", "± 1.0e-01", "quadrature", "2")]


@pytest.mark.parametrize(
    ("method", "fluctuations", "nodes"),
    [("auto", (), AUTO), ("quadrature", (), QUADRATURE), ("auto", (1,), QUADRATURE), ("quadrature", (1,), QUADRATURE)],
)
def test_fewer_nodes_where_particles_may_take_over(method, fluctuations, nodes):
    assert AUTO != QUADRATURE
    asked = _Evaluation(None, SimpleNamespace(fluctuations=fluctuations), {}, method, None)
    assert vars(asked.budget) == vars(type(asked.budget)(nodes))
