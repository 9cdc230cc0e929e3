"""How long things take, and that the budgets hold: import, derivation, quadrature, particles (`make bench`).

Budgets are asserted here and nowhere else: tests are not timed.  The clock is CPU time, of this process and of those
that it waits for, so that other work on the machine changes little.  A program is derived once, on empty caches: of
derivations the slowest round is judged, after SymPy's caches have been emptied; of all else the fastest.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sympy.core.cache

import tplimits as tp
from tplimits import zoo

#: CPU seconds
IMPORT, DERIVATION, QUADRATURE = 1.0, 2.0, 1.0
#: seconds after which a derivation is stopped: it has missed its budget by far
PATIENCE = 20
ROUNDS = 3
PACKAGE = Path(tp.__file__).parent
#: what `import tplimits` leaves for later: whatever computes numbers or draws pictures
LATE = ("numba", "scipy.special", "scipy.optimize", "matplotlib")


def cpu_seconds() -> float:
    """CPU time so far, of this process and of the children it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


pytestmark = pytest.mark.benchmark(timer=cpu_seconds, warmup=False)


@contextmanager
def given_up_after(seconds: int) -> Iterator[None]:
    """Fail where the work is not done by then, and name the place in the package where it was."""

    def stop(signum, frame):
        stack = traceback.extract_stack(frame)
        inside = [f"{Path(f.filename).stem}.{f.name}" for f in stack if PACKAGE in Path(f.filename).parents]
        message = f"not done after {seconds} s; stopped in {' > '.join(inside[-6:])}"
        raise pytest.fail.Exception(message, pytrace=False) from None

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- programs of two hundred instructions -------------------------------------------------------


def chain(activation: Callable) -> tp.Program:
    """A fresh matrix in every layer."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        h = x
        for layer in range(98):
            h = activation(W.sel(layer=layer) @ h)
        return tp.avg(h * h)

    return program.bind(layer=98)


def residual(activation: Callable) -> tp.Program:
    """Sums that grow by a term a layer."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        h = x
        for layer in range(98):
            h = h + activation(W.sel(layer=layer) @ h)
        return tp.avg(h * h)

    return program.bind(layer=98)


def recurrent(activation: Callable) -> tp.Program:
    """One matrix in all layers: the hats of all layers are correlated."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = x
        for _ in range(98):
            h = activation(W @ h + x)
        return tp.avg(h * h)

    return program


def prenorm(activation: Callable) -> tp.Program:
    """A residual stream, normalised in front of each layer."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        h = x
        for layer in range(33):
            a = W.sel(layer=layer) @ h
            a = a - tp.avg(a)
            h = h + activation(a / tp.sqrt(tp.avg(a * a) + 1e-5))
        return tp.avg(h * x)

    return program.bind(layer=33)


def symmetric(activation: Callable) -> tp.Program:
    """A matrix and its transpose side by side."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = x
        for _ in range(49):
            h = activation(W @ h + W.T @ h)
        return tp.avg(h * x)

    return program


def tied(activation: Callable) -> tp.Program:
    """One matrix and its transpose in turn: a dot-ket for every earlier layer."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        y = x
        for _ in range(65):
            y = W @ activation(W.T @ y)
        return tp.avg(x * y)

    return program


def normalised(activation: Callable) -> tp.Program:
    """Layer normalisation by averages."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        y = x
        for layer in range(33):
            r = activation(W.sel(layer=layer) @ y)
            m = tp.avg(r)
            y = (r - m) / tp.sqrt(tp.avg((r - m) ** 2))
        return tp.avg(y * y)

    return program.bind(layer=33)


def averages(first: Callable, second: Callable) -> tp.Program:
    """Two streams that meet in an average and inside each other's nonlinearity."""

    @tp.program
    def program(W: tp.Matrix, U: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h, k = x, y
        for _ in range(27):
            h, k = first(W @ h + k), second(U @ k - h)
            m = tp.avg(h * k)
            h = h - m * k
        return tp.avg(h * h), tp.avg(k * k)

    return program


LONG = {
    "chain of relu": chain(tp.relu),
    "chain of tanh": chain(tp.tanh),
    "residual relu": residual(tp.relu),
    "residual tanh": residual(tp.tanh),
    "recurrent relu": recurrent(tp.relu),
    "recurrent tanh": recurrent(tp.tanh),
    "normalised relu": normalised(tp.relu),
    "normalised tanh": normalised(tp.tanh),
    "prenorm gelu": prenorm(tp.gelu),
    "averages": averages(tp.tanh, tp.relu),
}
#: a dot coefficient for every pair of an earlier and a later layer, thousands of them: no budget, but an end
QUADRATIC = {
    "tied relu": tied(tp.relu),
    "tied tanh": tied(tp.tanh),
    "symmetric tanh": symmetric(tp.tanh),
}
#: one of each kind: matrix polynomial, nonlinearity, scalars, several layers, averages over pairs and triples
SAMPLED = ("gram_power_4", "tied_tanh", "layer_norm", "tied_rnn", "mean_distance", "max_of_three")


# -- times --------------------------------------------------------------------------------------


def test_import(benchmark):
    """In a new interpreter, its start included; what is needed for numbers or pictures alone stays out."""
    look = f"import sys, tplimits; print(*set({LATE}) & set(sys.modules))"

    def import_alone():
        done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
        assert done.stdout.split() == []

    benchmark.pedantic(import_alone, rounds=5)
    assert benchmark.stats["min"] < IMPORT


def time_derivation(benchmark, program: tp.Program) -> None:
    """Rounds of tp.derive on empty caches of SymPy; one that takes too long is stopped."""

    def derive():
        with given_up_after(PATIENCE):
            tp.derive(program)

    benchmark.pedantic(derive, setup=sympy.core.cache.clear_cache, rounds=ROUNDS)


@pytest.mark.parametrize("name", LONG)
def test_derivation_of_two_hundred_instructions(benchmark, name):
    assert 195 <= len(LONG[name]) <= 205
    time_derivation(benchmark, LONG[name])
    assert benchmark.stats["max"] < DERIVATION


@pytest.mark.parametrize("name", QUADRATIC)
def test_derivation_where_every_layer_meets_every_other(benchmark, name):
    assert 145 <= len(QUADRATIC[name]) <= 205
    time_derivation(benchmark, QUADRATIC[name])


@pytest.mark.parametrize("name", zoo.PROGRAMS)
def test_quadrature(benchmark, name):
    """Every mean integrated, none closed; the first evaluation compiles and is not counted."""
    limit = tp.derive(zoo.get(name).program)
    limit.evaluate("quadrature")
    benchmark.pedantic(limit.evaluate, args=("quadrature",), rounds=ROUNDS)
    assert benchmark.stats["min"] < QUADRATURE


@pytest.mark.parametrize("name", SAMPLED)
def test_particles(benchmark, name):
    """At the particles and replicates that `evaluate` takes by itself; no budget, to be compared over time."""
    limit = tp.derive(zoo.get(name).program)
    limit.evaluate("particles")
    benchmark.pedantic(limit.evaluate, args=("particles",), rounds=ROUNDS)
