"""Times that the project promises, measured apart from the tests: `make bench`.

import below 1 s; a program of 200 instructions derived below 2 s; quadrature of any program of the zoo below 1 s once
its kernels are compiled.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import tplimits as tp
from tplimits import zoo


@tp.program
def deep(W: tp.Matrix, U: tp.Matrix, x: tp.Vector, y: tp.Vector):
    """Two hundred instructions: layers that use W, its transpose and U again and again."""
    h, k = x, y
    for _ in range(28):
        h, k = tp.tanh(W @ h + k), tp.relu(U @ k - h)
        m = tp.avg(h * k)
        h = h - m * k
    return tp.avg(h * h), tp.avg(k * k)


def test_import(benchmark):
    benchmark.pedantic(lambda: subprocess.run([sys.executable, "-c", "import tplimits"], check=True), rounds=5)


def test_derivation_of_two_hundred_instructions(benchmark):
    assert 190 <= len(deep) <= 260
    benchmark.pedantic(lambda: tp.derive(deep), rounds=3)


@pytest.mark.parametrize("name", list(zoo.PROGRAMS))
def test_quadrature(benchmark, name):
    limit = tp.derive(zoo.get(name).program)
    limit.evaluate()  # compiles
    benchmark.pedantic(limit.evaluate, rounds=3)
