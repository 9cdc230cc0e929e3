"""Seeds that nobody picks, and the programs that the tests of check run."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from drawing import drawing_once

import tplimits as tp
from tplimits.sampling import adaptive, sample

#: Python looks for cycles after every 700 new objects; formulas are millions of small ones without any, and the search
#: takes a tenth of the tests' time
gc.set_threshold(100_000, 20, 50)

#: there is a test process for each processor: threads that take turns cost a twelfth of the time of networks
sample._MOST_THREADS = 1


def _holds_a_set(value: object) -> bool:
    if isinstance(value, set | frozenset):
        return len(value) > 1
    if isinstance(value, dict):
        return any(map(_holds_a_set, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_a_set, value))


def pytest_itemcollected(item: pytest.Item) -> None:
    """A set printed in a test's name stands in an order that changes with the process: workers would disagree."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    printed = [str(value) for value in given.values() if _holds_a_set(value)]
    if any(text in item.name for text in printed):
        raise pytest.UsageError(f"{item.nodeid}: its name prints a set, whose order depends on hashes; give it an id")


def pytest_collection_finish() -> None:
    """What collection has made stays to the end: no search looks through it again."""
    gc.freeze()


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)))


@tp.program
def feedback(W: tp.Matrix, x: tp.Vector):
    return W.T @ tp.relu(W @ x)


@tp.program
def twice(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W @ (W @ x)))


@tp.program
def gram(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    square, cube = tp.avg(h * h), tp.avg(h**3)
    return square - cube


@tp.program
def pairs(x: tp.Vector):
    β = tp.neuron("β")
    y = tp.avg(tp.abs(x - x[β]), over=β)
    return tp.avg(y)


@tp.program
def triples(x: tp.Vector):
    β, γ = tp.neuron("β"), tp.neuron("γ")
    y = tp.avg(tp.maximum(tp.maximum(x, x[β]), x[γ]), over=(β, γ))
    return tp.avg(y)


@tp.program
def fluctuation(u: tp.Vector, v: tp.Vector, w: tp.Vector):
    s = tp.avg(u * v) * tp.sqrt(tp.n)
    t = tp.avg(u * w) * tp.sqrt(tp.n)
    return s, t


@tp.program
def shaped(x: tp.Vector):
    return tp.avg((1 + 1 / tp.sqrt(tp.n)) * tp.relu(x))


@tp.program
def constant(x: tp.Vector = 1):
    return tp.avg(x * (1 + 1 / tp.n))


@tp.program
def logarithm(x: tp.Vector):
    return tp.avg(tp.log(x))


@tp.program
def two_widths(W: tp.Matrix["k", "n"], x: tp.Vector):
    return W.T @ tp.relu(W @ x)


@tp.program
def tokens(W: tp.Matrix, x: tp.Vector["token"]):
    return tp.relu(W @ x)


_PROGRAMS = SimpleNamespace(
    tied=tied,
    feedback=feedback,
    twice=twice,
    gram=gram,
    pairs=pairs,
    triples=triples,
    fluctuation=fluctuation,
    shaped=shaped,
    constant=constant,
    logarithm=logarithm,
    two_widths=two_widths,
    tokens=tokens.bind(token=3),
)


@pytest.fixture
def programs() -> SimpleNamespace:
    return _PROGRAMS


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The CRC of the test's name."""
    return zlib.crc32(request.node.name.encode())


@pytest.fixture(autouse=True)
def networks_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that judges several claims draws the networks of one seed once."""
    if request.node.get_closest_marker("sampling") is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(adaptive, "sample", drawing_once({}))
        yield
