"""Gram matrices in folders: gone on with after an interruption, refused where they are not of this computation."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.files import locks
from tplimits.regimes.kernels.numbers import evaluation, job
from tplimits.regimes.kernels.numbers.passes import plan

SIDE = 2


@tp.network
def ratio(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, γ=1):
    x = tp.sum(U * ξ, over="d")
    return γ * v * x / tp.sqrt(tp.avg(x**2))


@tp.network
def twice(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, γ=1):
    x = tp.sum(U * ξ, over="d")
    return 2 * γ * v * x / tp.sqrt(tp.avg(x**2))


@tp.network
def two_axes(ξ: tp.Input["d", "at"], U: tp.Vector["d"], b: tp.Vector["at"], v: tp.Vector):
    return v * tp.gelu(tp.sum(U * ξ, over="d") + b)


@tp.network
def positions(ξ: tp.Input["d", "at"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d") + 0.3 * tp.mean(tp.sum(U * ξ, over="d").rename(at="all"), over="all"))


LIMIT = tp.derive(ratio, tp.Kernels())
X = np.random.default_rng(0).standard_normal((7, 3))
FILES = ["lock", "manifest.json", "nngp.npy", "ntk.npy"]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of two inputs a side, where a tile is usually worth half a second."""
    monkeypatch.setattr(evaluation, "_TILE", SIDE**2)
    monkeypatch.setattr(job, "_TILE", 0.0)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


class Interrupted(Exception):
    """What a progress callback raises after some tiles."""


def interrupted(folder, tiles, X=X, limit=LIMIT, **options):
    """A call that does not get further than some tiles."""
    seen = []

    def stop(done, total, text):
        seen.append(done)
        if done >= tiles:
            raise Interrupted

    with pytest.raises(Interrupted):
        limit.evaluate(X, out=folder, progress=stop, **options)
    assert len([n for n in names(folder) if n.startswith("tile-")]) == tiles
    return seen


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_files_hold_what_is_given(tmp_path, dtype):
    wanted = LIMIT.evaluate(X.astype(dtype))
    found = LIMIT.evaluate(X.astype(dtype), out=tmp_path / "gram")
    assert names(tmp_path / "gram") == FILES
    for kernel in ("nngp", "ntk"):
        stored = np.load(tmp_path / "gram" / f"{kernel}.npy", allow_pickle=False)
        assert stored.dtype == dtype and isinstance(getattr(found, kernel), np.memmap)
        assert not getattr(found, kernel).flags.writeable
        np.testing.assert_array_equal(stored, getattr(wanted, kernel))
        np.testing.assert_array_equal(getattr(found, kernel), stored)
    again = tp.load_kernels(tmp_path / "gram")
    np.testing.assert_array_equal(again.ntk, wanted.ntk)
    assert again.program == ratio and again.trained == ("U", "v") and f"of shape {stored.shape}" in repr(again)
    assert np.array_equal(pickle.loads(pickle.dumps(again)).nngp, wanted.nngp)


def test_bits_do_not_depend_on_calls_before(tmp_path, monkeypatch):
    """Who asks twice gets compiled kernels; what a folder holds is gone on with by processes that know of no call."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))

    limit = tp.derive(net, tp.Kernels())
    data = np.random.default_rng(1).standard_normal((12, 3))
    monkeypatch.setattr(plan, "_REPEATED_STATEMENTS", 0)
    kept = [np.array(a) for a in limit.evaluate(data, out=tmp_path / "before", progress=False)]
    limit.evaluate(data)
    again = limit.evaluate(data, out=tmp_path / "after", progress=False)
    assert [np.array(a).tobytes() for a in again] == [a.tobytes() for a in kept]
    compiled = limit.evaluate(data)
    assert [np.array(a).tobytes() for a in compiled] != [a.tobytes() for a in kept], "else nothing is shown"


def test_two_batches_are_stored_as_well(tmp_path):
    found = LIMIT.evaluate(X, X[:3] + 1, out=tmp_path / "gram")
    np.testing.assert_array_equal(found.ntk, LIMIT.evaluate(X, X[:3] + 1).ntk)


def test_an_interrupted_run_is_gone_on_with(tmp_path):
    whole = LIMIT.evaluate(X, out=tmp_path / "whole")
    many = 10  # 4 rows of tiles, on and above the diagonal
    assert interrupted(tmp_path / "gram", 4) == [0, 0, 1, 2, 3, 4]
    (tmp_path / "gram" / "tile-00007.npz.part").write_bytes(b"half a tile of a process that was killed")
    seen = []
    found = LIMIT.evaluate(X, out=tmp_path / "gram", progress=lambda done, total, text: seen.append((done, total)))
    assert seen == [(0, many), *((done, many) for done in range(4, many + 1))]
    np.testing.assert_array_equal(found.nngp, whole.nngp)
    np.testing.assert_array_equal(found.ntk, whole.ntk)
    assert names(tmp_path / "gram") == FILES
    for kernel in ("nngp", "ntk"):
        assert (tmp_path / "gram" / f"{kernel}.npy").read_bytes() == (tmp_path / "whole" / f"{kernel}.npy").read_bytes()
    seen.clear()
    LIMIT.evaluate(X, out=tmp_path / "gram", progress=lambda *told: seen.append(told))
    assert seen == []  # nothing is computed again


@pytest.mark.parametrize("limit", [tp.derive(two_axes, tp.Kernels()), tp.derive(positions, tp.Kernels())])
def test_symmetric_kernels_are_symmetric_to_the_bit(limit, tmp_path):
    data = np.random.default_rng(1).standard_normal((5, 3, 4))
    data[3] = data[1] * (1 + 1e-12)
    for array in limit.evaluate(data, out=tmp_path / "gram"):
        axes = array.ndim // 2 - 1
        order = (1, 0, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes))
        np.testing.assert_array_equal(array, array.transpose(order))


def test_what_cannot_be_evaluated_leaves_the_tiles_before_it(tmp_path):
    """The last input is 0, which a layer norm divides by."""
    bad = np.concatenate([X, np.zeros((1, 3))])
    with pytest.raises(tp.EvaluationError, match=r"the NNGP of inputs . and 7 is not a finite number"):
        LIMIT.evaluate(bad, out=tmp_path / "gram")
    assert "tile-00000.npz" in names(tmp_path / "gram") and "nngp.npy" not in names(tmp_path / "gram")
    with pytest.raises(tp.EvaluationError, match=r"holds 3 of 10 tiles: evaluate\(…, out=…\) of the same data"):
        tp.load_kernels(tmp_path / "gram")


FACTORS = dict.fromkeys(LIMIT.trained, 2)
OTHERS = {
    "data": lambda f: LIMIT.evaluate(X + 1, out=f),
    "other data": lambda f: LIMIT.evaluate(X, X, out=f),
    "constants or sizes": lambda f: LIMIT.evaluate(X, out=f, γ=2),
    "trained parameters": lambda f: LIMIT.contribution("v").evaluate(X, out=f),
    "factors of squared gradients": lambda f: tp.derive(LIMIT.program, tp.Kernels(train=FACTORS)).evaluate(X, out=f),
    "network": lambda f: tp.derive(twice, tp.Kernels()).evaluate(X, out=f),
    "another precision": lambda f: (
        LIMIT.evaluate(X.astype(np.float32).astype(float), out=f) and LIMIT.evaluate(X.astype(np.float32), out=f)
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_folders_of_another_computation_are_refused(what, tmp_path):
    if what == "another precision":
        LIMIT.evaluate(X.astype(np.float32), out=tmp_path / "gram")
    else:
        LIMIT.evaluate(X, out=tmp_path / "gram")
    before = {n: (tmp_path / "gram" / n).read_bytes() for n in FILES}
    with pytest.raises(
        tp.EvaluationError, match=rf"of another computation \(.*{what}.*\); give another folder, or del"
    ):
        OTHERS[what](tmp_path / "gram")
    assert {n: (tmp_path / "gram" / n).read_bytes() for n in names(tmp_path / "gram")} == before


def test_factors_of_squared_gradients_belong_to_the_folder(tmp_path):
    """Θ of doubled factors is 2 Θ; what is stored for factors of 1 had been given for it."""
    doubled = tp.derive(LIMIT.program, tp.Kernels(train=FACTORS))
    stored = doubled.evaluate(X, out=tmp_path / "gram")
    np.testing.assert_allclose(stored.ntk, 2 * LIMIT.evaluate(X).ntk, rtol=1e-12)
    np.testing.assert_array_equal(doubled.evaluate(X, out=tmp_path / "gram").ntk, stored.ntk)
    ones = tp.derive(LIMIT.program, tp.Kernels(train=dict.fromkeys(LIMIT.trained, 1)))
    assert ones.evaluate(X, out=LIMIT.evaluate(X, out=tmp_path / "one").path).ntk.shape == stored.ntk.shape


def test_a_run_that_other_versions_began_is_refused_and_a_complete_one_is_read(tmp_path):
    interrupted(tmp_path / "gram", 2)
    place = tmp_path / "gram" / "manifest.json"
    text = place.read_text(encoding="utf-8")
    place.write_text(text.replace(f'"numpy": "{np.__version__}"', '"numpy": "1.0"'), encoding="utf-8")
    with pytest.raises(tp.EvaluationError, match=r"begun with other versions: tplimits .*numpy 1\.0"):
        LIMIT.evaluate(X, out=tmp_path / "gram")
    place.write_text(text, encoding="utf-8")
    wanted = LIMIT.evaluate(X, out=tmp_path / "gram").ntk
    text = place.read_text(encoding="utf-8")
    place.write_text(text.replace(f'"numpy": "{np.__version__}"', '"numpy": "1.0"'), encoding="utf-8")
    np.testing.assert_array_equal(LIMIT.evaluate(X, out=tmp_path / "gram").ntk, wanted)


def test_where_files_cannot_be(tmp_path):
    with pytest.raises(tp.EvaluationError, match="there is no folder"):
        LIMIT.evaluate(X, out=tmp_path / "nowhere" / "gram")
    with pytest.raises(tp.EvaluationError, match='out=3: give a folder, as in out="gram"'):
        LIMIT.evaluate(X, out=3)
    with pytest.raises(tp.EvaluationError, match="it has no name; give a folder"):
        LIMIT.evaluate(X, out="a\0b")
    (tmp_path / "file").write_text("")
    with pytest.raises(tp.EvaluationError, match="it is a file; give a folder"):
        LIMIT.evaluate(X, out=tmp_path / "file")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to a friend").write_text("")
    with pytest.raises(tp.EvaluationError, match="it holds other files \\('to a friend'\\)"):
        LIMIT.evaluate(X, out=tmp_path / "letters")
    assert names(tmp_path / "letters") == ["to a friend"]
    (tmp_path / "empty").mkdir()
    assert LIMIT.evaluate(X, out=str(tmp_path / "empty")).path == tmp_path / "empty"


# -- locks ------------------------------------------------------------------------------------


@pytest.mark.long
def test_two_processes_in_one_folder(tmp_path):
    """The second says who the first is, and changes nothing; what the first leaves when it is killed is no obstacle."""
    interrupted(tmp_path / "gram", 2)
    before = {n: (tmp_path / "gram" / n).read_bytes() for n in names(tmp_path / "gram") if n != "lock"}
    code = (
        "import sys, time, pathlib\nfrom tplimits.program.files import locks\n"
        "with locks.FileLock(pathlib.Path(sys.argv[1]) / 'lock'):\n    print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path / "gram"], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(
        tp.EvaluationError, match=rf"process {other.pid} on '.*' is writing there; wait for it, or give"
    ):
        LIMIT.evaluate(X, out=tmp_path / "gram")
    assert {n: (tmp_path / "gram" / n).read_bytes() for n in before} == before
    other.send_signal(signal.SIGKILL)
    other.wait()
    other.stdout.close()
    assert json.loads((tmp_path / "gram" / "lock").read_text())["process"] == other.pid
    np.testing.assert_array_equal(LIMIT.evaluate(X, out=tmp_path / "gram").ntk, LIMIT.evaluate(X).ntk)


def test_two_threads_in_one_folder(tmp_path):
    interrupted(tmp_path / "gram", 2)
    with (
        locks.FileLock(tmp_path / "gram" / "lock"),
        pytest.raises(tp.EvaluationError, match="another thread of this process"),
    ):
        LIMIT.evaluate(X, out=tmp_path / "gram")
    LIMIT.evaluate(X, out=tmp_path / "gram")


def test_workers_that_are_forked_do_not_hold_the_lock(tmp_path):
    """A worker outlives a parent that is killed, for a moment or for good."""
    reading, writing = os.pipe()
    with locks.FileLock(tmp_path / "lock"):
        child = os.fork()
        if not child:
            os.read(reading, 1)
            os._exit(0)
    try:
        with locks.FileLock(tmp_path / "lock"):
            pass
    finally:
        os.write(writing, b".")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_without_locks_of_the_system_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    with pytest.raises(tp.EvaluationError, match="No locks available"):
        LIMIT.evaluate(X, out=tmp_path / "gram")


# -- disks ------------------------------------------------------------------------------------


def test_a_full_disk(tmp_path):
    """Files may have 4000 bytes: arrays of 40 inputs have more.  What was complete stays, and is gone on with."""
    many = np.random.default_rng(2).standard_normal((40, 3))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with pytest.raises(tp.EvaluationError, match=r"File too large; 210 of 210 tiles are complete and "):
            LIMIT.evaluate(many, out=tmp_path / "gram")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(names(tmp_path / "gram")) == 212
    np.testing.assert_array_equal(LIMIT.evaluate(many, out=tmp_path / "gram").ntk, LIMIT.evaluate(many).ntk)
    assert names(tmp_path / "gram") == FILES


def test_a_disk_that_is_full_before_a_tile_is_written(tmp_path, monkeypatch):
    begun = os.fsync
    written = []

    def full(file):
        written.append(file)
        if len(written) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        begun(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(tp.EvaluationError, match="No space left on device; 2 of 10 tiles are complete and stay"):
        LIMIT.evaluate(X, out=tmp_path / "gram")
    assert names(tmp_path / "gram") == ["lock", "manifest.json", "tile-00000.npz", "tile-00001.npz"]
    LIMIT.evaluate(X, out=tmp_path / "gram")


def test_a_folder_that_cannot_be_written_to(tmp_path):
    with pytest.raises(tp.EvaluationError, match=r"out='/proc/gram': .*; 0 of 10 tiles are complete and stay"):
        LIMIT.evaluate(X, out="/proc/gram")
    interrupted(tmp_path / "gram", 2)
    wanted = LIMIT.evaluate(X, out=tmp_path / "complete")
    code = (
        "import os, sys\nos.setgid(65534), os.setuid(65534)\n"
        "os.access(sys.argv[1], os.W_OK) and sys.exit('it can be written to')\n"
    )
    for folder in (tmp_path / "gram", tmp_path / "complete"):
        folder.chmod(0o555)
    if os.geteuid() == 0:  # who may write anywhere looks with the eyes of somebody else
        assert subprocess.run([sys.executable, "-c", code, tmp_path / "gram"], check=False).returncode == 0
    else:
        with pytest.raises(tp.EvaluationError, match="Permission denied; 0 of 10 tiles are complete and stay"):
            LIMIT.evaluate(X, out=tmp_path / "gram")
    np.testing.assert_array_equal(LIMIT.evaluate(X, out=tmp_path / "complete").ntk, wanted.ntk)
    for folder in (tmp_path / "gram", tmp_path / "complete"):
        folder.chmod(0o755)
    assert {"tile-00000.npz", "tile-00001.npz"} < set(names(tmp_path / "gram"))


def test_a_read_only_disk_under_a_run(tmp_path, monkeypatch):
    interrupted(tmp_path / "gram", 2)
    before = names(tmp_path / "gram")

    def refused(file, *rest):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(locks.fcntl, "lockf", refused)
    with pytest.raises(tp.EvaluationError, match="Read-only file system"):
        LIMIT.evaluate(X, out=tmp_path / "gram")
    assert names(tmp_path / "gram") == before


# -- damage -----------------------------------------------------------------------------------


def test_a_damaged_tile_is_named(tmp_path):
    interrupted(tmp_path / "gram", 4)
    place = tmp_path / "gram" / "tile-00002.npz"
    content = place.read_bytes()
    for bad in (content[: len(content) // 2], b"", b"PK nonsense", content[:60] + b"\xff" * 8 + content[68:]):
        place.write_bytes(bad)
        with pytest.raises(tp.EvaluationError, match=r"tile-00002.npz is damaged .*; delete it and call again"):
            LIMIT.evaluate(X, out=tmp_path / "gram")
    place.unlink()
    np.testing.assert_array_equal(LIMIT.evaluate(X, out=tmp_path / "gram").ntk, LIMIT.evaluate(X).ntk)


def test_nothing_in_a_folder_is_run(tmp_path):
    """Arrays of objects are pickles, which run code when they are read: refused, like all that does not fit."""
    LIMIT.evaluate(X, out=tmp_path / "gram")

    class Evil:
        def __reduce__(self):
            return os.abort, ()

    place = tmp_path / "gram" / "ntk.npy"
    np.save(place, np.array([Evil()] * 49, dtype=object).reshape(7, 7), allow_pickle=True)
    with pytest.raises(tp.EvaluationError, match=r"ntk.npy' cannot be read: .*objects"):
        tp.load_kernels(tmp_path / "gram")
    np.save(place, np.zeros((3, 3)))
    with pytest.raises(tp.EvaluationError, match=r"holds float64 of shape \(3, 3\), not float64 of \(7, 7\)"):
        tp.load_kernels(tmp_path / "gram")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 3}', '{"format": "tplimits gram matrices", "version": "9"}']
)
def test_manifests_that_are_none(text, tmp_path):
    LIMIT.evaluate(X, out=tmp_path / "gram")
    (tmp_path / "gram" / "manifest.json").write_text(text)
    for ask in (lambda: tp.load_kernels(tmp_path / "gram"), lambda: LIMIT.evaluate(X, out=tmp_path / "gram")):
        with pytest.raises(tp.EvaluationError, match="is no manifest of Gram matrices"):
            ask()


def test_folders_that_are_none(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(tp.EvaluationError, match="is no manifest of Gram matrices"):
            tp.load_kernels(place)
