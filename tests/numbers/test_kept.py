"""Compiled code on disk: only what is ours and whole is read, and a function by all that it calls."""

import linecache
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worlds import FEW, WORLDS, run

from tplimits.numbers import generated, jit, kept
from tplimits.numbers.generated import functions
from tplimits.numbers.jit import njit
from tplimits.numbers.loops import machine

RETURNS = "define i64 @f(i64 %a) {{\n  %b = add i64 %a, {more}\n  ret i64 %b\n}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    found = tmp_path / "kept"
    monkeypatch.setenv("TPLIMITS_CACHE", str(found))
    return found


def test_what_is_kept_is_found_by_its_name_alone(folder):
    kept.write("one", b"content")
    assert kept.read("one") == b"content" and kept.read("two") is None
    (folder / "one").rename(folder / "two")
    assert kept.read("two") is None


@pytest.mark.parametrize("length", [0, 10, 30, 60, -1])
def test_a_file_that_was_cut_is_written_again(folder, length):
    machine._compiled.cache_clear()
    text = RETURNS.format(more=7)
    assert machine.compiled(text).function("f", 1)(1) == 8
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    machine._compiled.cache_clear()
    assert machine.compiled(text).function("f", 1)(1) == 8
    assert path.read_bytes() == whole


@pytest.mark.parametrize("place", range(0, 400, 37))
def test_a_byte_that_is_another_is_seen(folder, place):
    kept.write("one", b"x" * 400)
    path = folder / "one"
    changed = bytearray(path.read_bytes())
    changed[place] ^= 1
    path.write_bytes(changed)
    assert kept.read("one") is None


def test_what_others_may_write_to_is_not_read(folder, monkeypatch):
    kept.write("one", b"content")
    path = folder / "one"
    for mode in (0o620, 0o602):
        path.chmod(mode)
        assert kept.read("one") is None
    path.chmod(0o600)
    assert kept.read("one") == b"content"
    for mode in (0o770, 0o707):
        folder.chmod(mode)
        assert kept.read("one") is None and kept.trusted_folder() is None
    folder.chmod(0o700)
    monkeypatch.setattr(kept, "_USER", lambda: os.geteuid() + 1)
    assert kept.read("one") is None and kept.trusted_folder() is None


def test_links_pipes_and_folders_are_not_read(folder, tmp_path):
    kept.write("one", b"content")
    (folder / "link").symlink_to(folder / "one")
    os.mkfifo(folder / "pipe")
    (folder / "inner").mkdir()
    assert [kept.read(name) for name in ("link", "pipe", "inner")] == [None] * 3


def test_a_file_in_the_place_of_the_folder_is_no_obstacle(folder):
    folder.write_text("a file")
    kept.write("one", b"content")
    assert kept.read("one") is None and folder.read_text() == "a file"


def test_without_a_home_nothing_is_kept(monkeypatch, tmp_path):
    for name in ("TPLIMITS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    kept.write("one", b"content")
    assert kept.read("one") is None and list(tmp_path.iterdir()) == []


TEXT = """from tplimits.numbers.jit import njit

@njit
def inner(x):
    return x + {more}

@njit
def outer(x):
    return 2.0 * inner(x)
"""


def test_a_function_is_known_by_what_it_calls(folder):
    """The text of `outer` is the same in both modules, and so is its name."""
    digests = []
    for more in ("1.0", "2.0"):
        made = functions(TEXT.format(more=more), "test")["outer"]
        assert made(1.0) == 2 * (1 + float(more))
        digests.append(jit._digest_of(made))
    assert digests[0] != digests[1]
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("value", [1.0, (1.0, 2), b"x", {1: 2.0}, None])
def test_numbers_of_the_module_are_part_of_what_a_function_is(value):
    def digest(given):
        names = {"given": given}
        exec("def f():\n    return given", names)
        return jit._digest_of(njit(names["f"]))

    assert digest(value) == digest(value) != digest(3.0)


@pytest.mark.long
def test_the_digest_does_not_depend_on_the_seed_of_hashes():
    text = (
        "from tplimits.numbers import jit\n@jit.njit(fastmath={'nnan', 'ninf', 'contract', 'nsz'})\n"
        "def f(x):\n    return x in {'a', 'b', 'c', 'd'}\nprint(jit._digest_of(f))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", text], env=os.environ | {"PYTHONHASHSEED": str(s)}, capture_output=True, text=True
        ).stdout
        for s in range(2)
    ]
    assert said[0] == said[1] != ""


def test_damage_that_has_its_digest_is_compiled_again(folder):
    """What Numba cannot read is no reason to stop, even if it is ours and whole."""
    text = TEXT.format(more="3.0")
    generated._run("damage", text)["outer"](1.0)
    for path in folder.iterdir():
        kept.write(path.name, b"\x80\x04not a pickle")
    made = generated._LOADED["damage"] = generated._run("damage", text)
    assert made["outer"](1.0) == 8.0
    generated._forget("damage")


def test_modules_that_were_not_used_for_long_are_forgotten(monkeypatch):
    """Who holds a function of one keeps it, as interpreted and as compiled for further types."""
    monkeypatch.setattr(generated, "_LOADED", {})
    monkeypatch.setattr(generated, "_MOST", 2)
    outer = functions(TEXT.format(more="4.0"), "test")["outer"]
    name = outer.__module__
    assert outer(1.0) == 10.0 and name in sys.modules
    for number in range(3):
        assert functions(f"value = {number}", "test")["value"] == number
    assert len(generated._LOADED) == 2
    assert name not in sys.modules and not any(name.endswith(file.strip("<>")) for file in linecache.cache)
    assert outer(1) == outer(1.0) == 10.0
    assert functions(TEXT.format(more="4.0"), "test")["outer"](1.0) == 10.0 and name in sys.modules


def test_what_killed_processes_left_unfinished_is_removed_after_a_day(folder):
    kept.write("one", b"content")
    ages = {"old.tmp": 90_000, "new.tmp": 80_000, "old": 90_000, "ahead.tmp": -90_000}
    for name, age in ages.items():
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age,) * 2)
    (folder / "folder.tmp").mkdir()
    os.utime(folder / "folder.tmp", (0, 0))
    kept.write("two", b"content")
    assert {p.name for p in folder.iterdir()} == {"one", "two", "new.tmp", "old", "ahead.tmp", "folder.tmp"}


def test_two_processes_may_clear_one_folder(folder, monkeypatch):
    """The other one removes the file between the look at it and its removal, or the whole folder."""
    kept.write("one", b"content")
    for name in ("a.tmp", "b.tmp"):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (0, 0))
    unlink = os.unlink

    def late(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr(kept.os, "unlink", late)
    kept.write("two", b"content")
    assert kept.read("two") == b"content" and not list(folder.glob("*.tmp"))
    kept._clear(folder / "gone")


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS[:2], ids=lambda world: world.name)
def test_numbers_come_where_nothing_can_be_kept(world):
    names: dict = {}
    exec(FEW, names)
    assert run(world) == names["found"]
