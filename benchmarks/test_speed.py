"""How long things take, and that the budgets hold: import, derivation, quadrature, particles (`make bench`).

Budgets are asserted here and nowhere else: tests are not timed.  The clock is CPU time, of this process and of those
that it waits for, so that other work on the machine changes little.  A program is derived once, on empty caches: of
derivations the slowest round is judged; of all else the fastest.
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
IMPORT, DERIVATION, QUADRATURE, EXPANSION = 1.0, 2.0, 1.0, 10.0
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


def returning(activation: Callable) -> tp.Program:
    """The same, with the activation on the other side of the matrix."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        y = x
        for _ in range(64):
            y = W.T @ activation(W @ y)
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


def gram(activation: Callable) -> tp.Program:
    """Wᵀ behind W sixty-four times: dot-kets of dot-kets on both sides."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        y = x
        for _ in range(64):
            y = W.T @ activation(W @ y)
        return tp.avg(x * y)

    return program


def attention(tokens: int) -> tp.Program:
    """Two layers with the same matrices, one for queries and keys."""

    @tp.program
    def program(W: tp.Matrix, V: tp.Matrix, x: tp.Vector["token"]):
        for _ in range(2):
            q = W @ x
            weights = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
            x = tp.tanh(tp.sum(weights * (V @ x).rename(token="key"), over="key"))
        return tp.avg(x * x)

    return program.bind(token=tokens)


def bumps(count: int) -> tp.Program:
    """One bump of several hats, whose brackets are arc-cosine kernels."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector, z: tp.Vector, w: tp.Vector):
        seen = [tp.relu(u) for u in (x, x + y, x + z, x + y + z, x + w)[:count]]
        return tp.avg(tp.exp(-sum((W @ u) ** 2 for u in seen) / 2))

    return program


@tp.program
def nested_kinks(W: tp.Matrix, x: tp.Vector):
    """A kink of a mean over an oblique kink."""
    h, b = W @ x, tp.neuron("b")
    return tp.avg(tp.relu(tp.avg(tp.relu(h + h[b] * x[b]), over=b) - x))


@tp.program
def nested_kinks_of_two(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
    """The same with a kink that turns with the outer variable."""
    h, b = W @ x, tp.neuron("b")
    return tp.avg(tp.relu(tp.avg(tp.relu(h * x[b] - h[b]), over=b) - y))


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
    "returning tanh": returning(tp.tanh),
    "symmetric tanh": symmetric(tp.tanh),
}
#: derivations that long brackets, sums of sums or many indices could slow down
SWOLLEN = {
    "bumps of 4": bumps(4),
    "bumps of 5": bumps(5),
    "gram tanh": gram(tp.tanh),
    "attention of 8": attention(8),
    "attention of 16": attention(16),
    "attention of 32": attention(32),
}
#: blocks of deep networks whose orders are found before they are taken: powers of n that cancel, kinks of logits
LOGITS = {
    "cosine": lambda Y: tp.n * (tp.cos(Y) - 1 + Y**2 / 2),
    "square of relu": lambda Y: tp.relu(Y) ** 2,
}
#: means inside means, kinked inside and outside
NESTED = {"curved": nested_kinks, "turning": nested_kinks_of_two}
#: one of each kind: matrix polynomial, nonlinearity, scalars, several layers, averages over pairs and triples
SAMPLED = ("gram_power_4", "tied_tanh", "layer_norm", "tied_rnn", "mean_distance", "max_of_three")


def coder(layers: int) -> tp.Program:
    """Matrices, and their transposes in reverse order."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        h = x
        for i in range(layers):
            h = tp.tanh(W.sel(layer=i) @ h)
        for i in reversed(range(layers)):
            h = tp.tanh(W.sel(layer=i).T @ h)
        return tp.avg(h * x), tp.avg(h * h)

    return program.bind(layer=layers)


def loop(times: int) -> tp.Program:
    """One matrix, again and again."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = x
        for _ in range(times):
            h = tp.tanh(W @ h)
        return tp.avg(h * h)

    return program


def two_neurons(layers: int) -> tp.Program:
    """Averages over a second neuron."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], u: tp.Vector, v: tp.Vector):
        y, β = u, tp.neuron("β")
        for i in range(layers):
            z = tp.avg(tp.tanh(y * v[β] / 2) * v[β], over=β)
            y = tp.tanh(W.sel(layer=i) @ z + v)
        return tp.avg(y**2), tp.avg(y * v)

    return program.bind(layer=layers)


def layer_norms(layers: int) -> tp.Program:
    """A residual stream with layer norms."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        h = x
        for i in range(layers):
            c = h - tp.avg(h)
            h = h + tp.tanh(W.sel(layer=i) @ (c / tp.sqrt(tp.avg(c**2)))) / 2
        return tp.avg(h**2), tp.avg(h * x)

    return program.bind(layer=layers)


#: programs of about fifty instructions, to order 1/n
EXPANDED = {
    "coder": coder(11),
    "loop": loop(24),
    "two neurons": two_neurons(12),
    "layer norms": layer_norms(8),
    "attention of 4": attention(4),
}


# -- times --------------------------------------------------------------------------------------


def test_import(benchmark):
    """In a new interpreter, its start included; what is needed for numbers or pictures alone stays out."""
    look = f"import sys, tplimits; print(*set({LATE}) & set(sys.modules))"

    def import_alone():
        done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
        assert done.stdout.split() == []

    benchmark.pedantic(import_alone, rounds=5)
    assert benchmark.stats["min"] < IMPORT


def empty_caches() -> None:
    """Forget SymPy's results and the package's: parts that are equal but not the same would be compared at length."""
    sympy.core.cache.clear_cache()
    for module in [m for name, m in sys.modules.items() if name.startswith("tplimits.")]:
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


def time_derivation(benchmark, program: tp.Program) -> None:
    """Rounds of tp.derive on empty caches; one that takes too long is stopped."""

    def derive():
        with given_up_after(PATIENCE):
            tp.derive(program)

    benchmark.pedantic(derive, setup=empty_caches, rounds=ROUNDS)


@pytest.mark.parametrize("name", LONG)
def test_derivation_of_two_hundred_instructions(benchmark, name):
    assert 195 <= len(LONG[name]) <= 205
    time_derivation(benchmark, LONG[name])
    assert benchmark.stats["max"] < DERIVATION


@pytest.mark.parametrize("name", QUADRATIC)
def test_derivation_where_every_layer_meets_every_other(benchmark, name):
    assert 145 <= len(QUADRATIC[name]) <= 205
    time_derivation(benchmark, QUADRATIC[name])


@pytest.mark.parametrize("name", SWOLLEN)
def test_derivation_of_swollen_expressions(benchmark, name):
    """No budget, to be compared over time."""
    time_derivation(benchmark, SWOLLEN[name])


@pytest.mark.parametrize("name", LOGITS)
def test_derivation_of_functions_of_logits(benchmark, name):
    """No budget, to be compared over time."""

    def block(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix, *, γ, τ0):
        v = W @ x
        Y = tp.avg((Q @ x) * (K @ x).rename(token="key")) / τ0
        keys = v.rename(token="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(LOGITS[name](Y) * keys, over="key"))

    made = tp.block(block)
    benchmark.pedantic(lambda: tp.derive(made, tp.Proportional()), setup=empty_caches, rounds=ROUNDS)


@pytest.mark.parametrize("name", NESTED)
def test_nested_quadrature(benchmark, name):
    """No budget, to be compared over time."""
    limit = tp.derive(NESTED[name])
    benchmark.pedantic(limit.evaluate, args=("quadrature",), rounds=ROUNDS)


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


@pytest.mark.parametrize("name", EXPANDED)
def test_expansion_to_order_one_over_n(benchmark, name):
    benchmark.pedantic(
        lambda: tp.derive(EXPANDED[name], tp.FiniteWidth()).evaluate(), setup=empty_caches, rounds=ROUNDS
    )
    assert benchmark.stats["max"] < EXPANSION
