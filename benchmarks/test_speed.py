"""How long it takes: import, derivation, quadrature, particles (pytest-benchmark; `make bench`).

The bounds are those the project holds itself to; they are asserted on the fastest round, in CPU time, apart from the
tests.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

import tplimits as tp
from tplimits import zoo

#: seconds of CPU time
IMPORT, DERIVE_200, QUADRATURE = 1.0, 2.0, 1.0


def chain(activation, depth, residual=False, tied=False, transpose=False):
    """A program of about three instructions a layer."""
    arguments = ["x: tp.Vector", *(["W: tp.Matrix"] if tied else [f"W{i}: tp.Matrix" for i in range(depth)])]
    lines = [f"def program({', '.join(arguments)}):", " h = x"]
    for i in range(depth):
        matrix = "W" if tied else f"W{i}"
        lines.append(f" g = {matrix + ('.T' if transpose and i % 2 else '')} @ h")
        lines.append(f" h = {'h + ' if residual else ''}tp.{activation}(g{' + x' if tied else ''})")
    lines.append(" return tp.avg(h * h)")
    space = {"tp": tp}
    exec("\n".join(lines), space)
    return tp.program(space["program"])


LONG = {
    "relu chain": lambda: chain("relu", 66),
    "tanh chain": lambda: chain("tanh", 66),
    "relu residual": lambda: chain("relu", 66, residual=True),
    "tanh residual": lambda: chain("tanh", 66, residual=True),
    "tied tanh": lambda: chain("tanh", 99, tied=True),
    "tied relu": lambda: chain("relu", 99, tied=True),
}


def cpu_seconds(command):
    """CPU time of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import(benchmark):
    command = [sys.executable, "-c", "import tplimits"]
    seconds = min(cpu_seconds(command) for _ in range(5))
    benchmark.extra_info["cpu_seconds"] = seconds
    benchmark.pedantic(subprocess.run, args=(command,), kwargs={"check": True}, rounds=5)
    assert seconds < IMPORT


@pytest.mark.parametrize("name", LONG)
def test_derive_200_instructions(benchmark, name):
    program = LONG[name]()
    assert len(program) >= 199
    benchmark.pedantic(tp.derive, args=(program,), rounds=3, warmup_rounds=1)
    assert benchmark.stats["min"] < DERIVE_200


@pytest.mark.parametrize("name", [n for n, e in zoo.PROGRAMS.items()])
def test_quadrature(benchmark, name):
    limit = tp.derive(zoo.PROGRAMS[name].program)
    try:
        limit.evaluate("quadrature")
    except tp.EvaluationError as error:
        pytest.fail(str(error))
    benchmark.pedantic(limit.evaluate, args=("quadrature",), rounds=3)
    assert benchmark.stats["min"] < QUADRATURE


@pytest.mark.parametrize("name", ["tied_tanh", "mean_distance", "max_of_three", "tied_rnn"])
def test_particles(benchmark, name):
    limit = tp.derive(zoo.PROGRAMS[name].program)
    benchmark.pedantic(limit.evaluate, args=("particles",), rounds=3, warmup_rounds=1)
