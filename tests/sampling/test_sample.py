"""Sampling: what is read off, and numbers that do not depend on who runs the batches."""

from __future__ import annotations

import math
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy
import pytest
import threadpoolctl

import tplimits as tp
from tplimits.errors import CheckError
from tplimits.law.observables import observables
from tplimits.numbers.threads import one_thread
from tplimits.progress import Report
from tplimits.sampling.sample import Sampler, sample, tasks

QUIET = Report(lambda done, total, text: None)


def sampler(program, seed=0, **options):
    return Sampler(program, observables(program), seed, **options)


def draws_of(source, wanted, executor=None):
    return sample(source, wanted, executor, QUIET)


def test_observables_are_those_of_the_program(programs, seed):
    """One batch against `Program.run` on the same arrays."""
    rng = numpy.random.default_rng(seed)
    n, W, x = 16, rng.standard_normal((16, 16)) / 4, rng.standard_normal((3, 16))
    given = {"W": W, "x": x}
    found = sampler(programs.tokens, given=given).run(n, 0, 2)
    vector = programs.tokens.run(n=n, **given)["return"]
    labels = [o.label for o in observables(programs.tokens)]
    assert labels[:2] == ["⟨return[token=0]|return[token=0]⟩", "⟨return[token=0]|return[token=1]⟩"]
    expected = [(vector[i] * vector[j]).mean() for i in range(3) for j in range(i, 3)]
    assert found.values.shape == (2, 6) and numpy.allclose(found.values, expected)
    scale = [math.sqrt(((vector[i] * vector[j]) ** 2).mean()) for i in range(3) for j in range(i, 3)]
    assert numpy.allclose(found.scale, scale)


def test_draws_are_independent_networks(programs, seed):
    values = draws_of(sampler(programs.tied, seed), {32: (0, 400)})[32].values[:, 0]
    assert len(numpy.unique(values)) == 400
    assert abs(numpy.corrcoef(values[:-1], values[1:])[0, 1]) < 4 / math.sqrt(400)


def test_the_seed_fixes_the_numbers(programs):
    first, again, other = (draws_of(sampler(programs.tied, s), {32: (0, 50)})[32].values for s in (7, 7, 8))
    assert (first == again).all() and not (first == other).any()


@pytest.mark.long
def test_numbers_do_not_depend_on_the_executor(programs):
    source, wanted = sampler(programs.tied, 3), {32: (0, 5000), 64: (2, 300)}
    alone = draws_of(source, wanted)
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(1, get_context("spawn")) as processes:
        for executor in (threads, processes):
            other = draws_of(source, wanted, executor)
            for n in wanted:
                assert (alone[n].values == other[n].values).all() and (alone[n].squares == other[n].squares).all()


def test_later_batches_continue_the_earlier_ones(programs):
    source = sampler(programs.pairs, 3)
    size = source.batch(64)
    whole = draws_of(source, {64: (0, 3 * size)})[64]
    parts = draws_of(source, {64: (0, size)})[64].joined([draws_of(source, {64: (1, 2 * size)})[64]])
    assert (whole.values == parts.values).all() and numpy.allclose(whole.squares, parts.squares, rtol=1e-12)


def test_batches_are_bounded_and_cover_the_draws(programs):
    source = sampler(programs.tied)
    jobs = tasks(source, 256, 5, 100)
    sizes = [size for job in jobs for _, size in job.batches]
    assert sum(sizes) == 100 and max(sizes) == source.batch(256) <= 16
    assert [index for job in jobs for index, _ in job.batches] == list(range(5, 5 + len(sizes)))


def test_products_use_one_thread_each_while_sampling():
    before = [p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
    with one_thread():
        assert {p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"} <= {1}
    assert [p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"] == before


def test_a_draw_that_is_not_finite_is_an_error_with_its_place(programs):
    with pytest.raises(CheckError, match=r"`return` is not finite in \d+ of 20 draws at width n = 16: look for"):
        draws_of(sampler(programs.logarithm), {16: (0, 20)})


def test_an_executor_keeps_working_after_an_error(programs):
    with ThreadPoolExecutor(2) as threads:
        with pytest.raises(CheckError, match="not finite"):
            draws_of(sampler(programs.logarithm), {16: (0, 20_000)}, threads)
        assert threads.submit(lambda: 1).result(timeout=10) == 1


def test_other_widths_keep_their_ratio(programs, seed):
    """⟨z|z⟩ of z = Wᵀrelu(Wx), W k×n: at ratio 4 its limit 1/4 k²/n² + 1/2 k/n = 4·1 + 2 is that of k = 4n."""
    square = draws_of(sampler(programs.two_widths, seed, ratios={"k": 4}), {64: (0, 400)})[64].values[:, 0]
    assert abs(square.mean() - 6.0) < 0.6


def test_what_is_not_finite_is_named():
    @tp.program
    def root(x: tp.Vector):
        fine = tp.avg(x**2)
        odd = tp.avg(tp.sqrt(x - 2))
        return fine, odd

    with pytest.raises(CheckError, match=r"`return\[1\]` is not finite in 4 of 4 draws at width n = 50: look"):
        draws_of(sampler(root), {50: (0, 4)})


def test_networks_that_are_not_finite_are_counted_one_by_one():
    """⟨x⟩ + 0.1 at width 16 is negative with probability Φ(−0.4), in a third of the networks and not in all."""

    @tp.program
    def root(x: tp.Vector, y: tp.Vector):
        return tp.avg(x * y * tp.sqrt(tp.avg(x) + 0.1))

    with pytest.raises(CheckError, match="is not finite") as found:
        draws_of(sampler(root), {16: (0, 1000)})
    bad, many = map(int, re.findall(r"in (\d+) of (\d+) draws", str(found.value))[0])
    p = math.erfc(0.4 / math.sqrt(2)) / 2
    assert abs(bad - many * p) < 5 * math.sqrt(many * p * (1 - p)) < many * (1 - p)
