"""Gram matrices by the workers of an executor: the same numbers, data sent once, one thread each."""

from __future__ import annotations

import pickle
from collections import Counter
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numba
import numpy as np
import pytest
from distributed import Client, LocalCluster

import tplimits as tp
from tplimits.regimes.kernels.numbers import evaluation, job, workers

TAPS = np.array([[-1, *range(7)], range(8), [*range(1, 8), -1]])


@tp.network
def convolution(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
    x = tp.relu(tp.sum(U * ξ.take(at=TAPS, axes=("tap", "at")), over=("d", "tap")))
    y = tp.relu(tp.sum(W @ x.take(at=TAPS, axes=("tap", "at")), over="tap"))
    return tp.sum(v * y, over="at") / 4


@tp.network
def softmax_heads(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    Q: tp.Matrix["n", "n", "head"],
    P: tp.Matrix["n", "n", "head"],
    V: tp.Matrix["n", "n", "head"],
    v: tp.Vector["head"],
):
    x = tp.sum(U * ξ, over="d")
    logits = tp.sqrt(tp.n) * tp.avg((Q @ x) * (P @ x).rename(token="key"))
    values = tp.mean(tp.sum(tp.softmax(logits, over="key") * (V @ x).rename(token="key"), over="key"), over="token")
    return tp.sum(v * values, over="head") / tp.sqrt(tp.size("head"))


LIMIT = tp.derive(convolution, tp.Kernels())
X = np.random.default_rng(0).standard_normal((150, 2, 8)).astype(np.float32)
WHOLE = LIMIT.evaluate(X)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Some tiles, where a tile is usually worth half a second."""
    monkeypatch.setattr(evaluation, "_TILE", 1 << 10)
    monkeypatch.setattr(job, "_TILE", 1e-3)


def same(found, wanted=WHOLE):
    return [np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, wanted, strict=True)] == [True, True]


class Remote(Executor):
    """Workers with a memory of their own, asked in turn; what is sent to them is pickled."""

    def __init__(self, many, dies_at=None):
        self._max_workers, self.dies_at = many, dies_at
        self.jobs, self.sent, self.tasks, self.done = [{} for _ in range(many)], Counter(), [], 0

    def submit(self, function, /, *arguments):
        text, worker = pickle.dumps((function, arguments)), len(self.tasks) % self._max_workers
        self.tasks.append(function.__name__)
        self.sent[worker] += len(text) > X.nbytes / 2
        here, home, future = dict(workers._JOBS), dict(workers._HOME), Future()
        for known, other in ((workers._JOBS, self.jobs[worker]), (workers._HOME, {})):
            known.clear()
            known.update(other)
        try:
            if len(self.tasks) == self.dies_at:
                raise MemoryError("the worker is gone")
            call, arguments = pickle.loads(text)
            future.set_result(pickle.loads(pickle.dumps(call(*arguments))))
            self.done += future.result() is not None
        except Exception as error:
            future.set_exception(error)
        finally:
            self.jobs[worker] = dict(workers._JOBS)
            for known, other in ((workers._JOBS, here), (workers._HOME, home)):
                known.clear()
                known.update(other)
        return future


class Counting(ThreadPoolExecutor):
    """Threads that count the most tasks that were under way at once."""

    most = running = 0

    def submit(self, function, /, *arguments):
        self.running += 1
        self.most = max(self.most, self.running)
        future = super().submit(function, *arguments)
        future.add_done_callback(lambda _: setattr(self, "running", self.running - 1))
        return future


def test_data_travels_once_to_each_worker():
    executor, seen = Remote(3), []
    assert same(LIMIT.evaluate(X, executor=executor, progress=lambda *told: seen.append(told)))
    assert executor.sent == {0: 1, 1: 1, 2: 1}
    assert executor.tasks[0] == "_begin" and executor.done == seen[-1][0] == seen[-1][1] >= 10
    assert workers._JOBS == workers._HOME == {}
    executor.jobs = [{} for _ in executor.jobs]  # workers that were started again
    assert same(LIMIT.evaluate(X, executor=executor))


def test_workers_have_a_tile_at_a_time():
    with Counting(3) as executor:
        assert same(LIMIT.evaluate(X, executor=executor))
        assert executor.most <= 3


def test_tiles_that_were_finished_stay_when_a_worker_is_lost(tmp_path):
    with pytest.raises(tp.EvaluationError, match=r"the executor gave up \(MemoryError: the worker is gone\): a worker"):
        LIMIT.evaluate(X, out=tmp_path / "gram", executor=Remote(2, dies_at=6))
    many = len(list((tmp_path / "gram").glob("tile-*.npz")))
    assert many >= 3
    executor, seen = Remote(2), []
    progress = lambda *told: seen.append(told)  # noqa: E731
    assert same(LIMIT.evaluate(X, out=tmp_path / "gram", executor=executor, progress=progress))
    assert executor.done == seen[-1][1] - many


def test_threads():
    with ThreadPoolExecutor(2) as executor:
        assert same(LIMIT.evaluate(X, executor=executor))


def test_a_worker_keeps_to_one_thread(monkeypatch):
    set_to = []
    monkeypatch.setattr(numba, "set_num_threads", set_to.append)
    LIMIT.evaluate(X, executor=Remote(1))
    assert set(set_to) == {1}
    with ThreadPoolExecutor(2) as executor:  # as many as there are: those of the caller's process, whose they are
        set_to.clear()
        LIMIT.evaluate(X, executor=executor)
        assert set_to == []


@pytest.mark.long
def test_processes_that_are_started_afresh(tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        assert same(LIMIT.evaluate(X, executor=executor))
        assert same(LIMIT.evaluate(X, out=tmp_path / "gram", executor=executor))


@pytest.mark.long
def test_dask(tmp_path):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        assert workers._workers(executor) == 2
        assert same(LIMIT.evaluate(X, executor=executor))
        assert same(LIMIT.evaluate(X, out=tmp_path / "gram", executor=executor))
        bad = np.where(np.arange(150)[:, None, None] == 140, 1e200, X.astype(float))
        with pytest.raises(tp.EvaluationError, match="is not a finite number"):
            LIMIT.evaluate(bad, executor=executor)


def test_other_kernels_by_workers():
    drawn, data = tp.derive(softmax_heads, tp.Kernels(infinite=("head",))), X[:3, :, :2].astype(float)
    wanted = drawn.evaluate(data, draws=64, seed=3)
    found = drawn.evaluate(data, draws=64, seed=3, executor=Remote(2))
    assert same(found, wanted) and np.array_equal(found.ntk_error, wanted.ntk_error)


def test_draws_are_stored_with_their_errors(tmp_path):
    drawn, data = tp.derive(softmax_heads, tp.Kernels(infinite=("head",))), X[:3, :, :2].astype(float)
    wanted = drawn.evaluate(data, draws=64, seed=3)
    found = drawn.evaluate(data, draws=64, seed=3, out=tmp_path / "gram")
    assert same(found, wanted) and np.array_equal(found.ntk_error, wanted.ntk_error)
    with pytest.raises(tp.EvaluationError, match="other draws"):
        drawn.evaluate(data, draws=64, seed=4, out=tmp_path / "gram")


def test_two_batches_and_the_nngp_alone():
    found = LIMIT.evaluate(X, X[:70] + 1, executor=Remote(2))
    assert same(found, LIMIT.evaluate(X, X[:70] + 1))
    signs = tp.derive(tp.network(jump), tp.Kernels())
    alone = signs.evaluate(X[:, 0], executor=Remote(2))
    assert np.array_equal(alone.nngp, signs.evaluate(X[:, 0]).nngp)
    with pytest.raises(tp.NoLimitError, match="two jumps"):
        alone.ntk  # noqa: B018


def jump(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sign(tp.sum(U * ξ, over="d"))


def test_executors_that_cannot_be():
    with pytest.raises(tp.EvaluationError, match=r"give an executor of concurrent.futures"):
        LIMIT.evaluate(X, executor=4)
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(tp.EvaluationError, match=r"gave up \(RuntimeError: cannot schedule new futures after"):
        LIMIT.evaluate(X, executor=executor)


def test_processes_that_would_be_killed_are_not_started(monkeypatch):
    """GNU OpenMP ends a process that was forked after it ran."""
    monkeypatch.setattr(numba, "threading_layer", lambda: "omp")
    with (
        ProcessPoolExecutor(2, mp_context=get_context("fork")) as executor,
        pytest.raises(tp.EvaluationError, match="starts its processes by fork, and compiled loops have run"),
    ):
        LIMIT.evaluate(X, executor=executor)
