"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tplimits.pages.files import check_writable, short, write, write_by
from tplimits.program.files.locks import alone


def test_text_and_bytes(tmp_path):
    write(tmp_path / "a.txt", "ẑ\n")
    write(tmp_path / "b.bin", b"\x00\xff")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "ẑ\n"
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.bin"]


def test_an_old_file_stays_when_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_links_are_followed(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write(tmp_path / "new", "")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_devices_are_written_to():
    write(Path(os.devnull), "nothing")
    assert not Path(os.devnull).is_file()


def test_devices_and_pipes_stay_what_they_are(tmp_path):
    """A file took their place, /dev/null's too, where its writer fills it by a function."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_by(pipe, lambda file: file.write(b"whole"))
    assert os.read(reader, 10) == b"whole" and pipe.is_fifo()
    os.close(reader)


def test_open_files_and_pipes_are_added_to(tmp_path):
    out, into = os.pipe()
    write(Path(f"/dev/fd/{into}"), "down the pipe")
    os.close(into)
    with open(out, "rb") as pipe:
        assert pipe.read() == b"down the pipe"
    with (tmp_path / "log.txt").open("w") as file:
        file.write("before\n")
        file.flush()
        write(Path(f"/dev/fd/{file.fileno()}"), "after\n")
    assert (tmp_path / "log.txt").read_text() == "before\nafter\n"


def test_a_full_device_is_named():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write(Path("/dev/full"), "x")


def test_what_cannot_be_written_is_told_before(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        check_writable(tmp_path / "missing" / "a.txt")
    with pytest.raises(IsADirectoryError):
        check_writable(tmp_path)
    monkey = tmp_path / "locked"
    monkey.mkdir()
    check_writable(monkey / "a.txt")


def test_folders_without_write_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        check_writable(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_names_may_be_as_long_as_files_take_them(tmp_path, name):
    """New files beside it, and its lock, have names of their own; another file of a long name keeps its parts."""
    path, other = tmp_path / name, tmp_path / f"{name[:-1]}y"
    part = tmp_path / f"{short(other.name)}.1-2.part"
    part.write_bytes(b"")
    write(path, "one")
    with alone("path", path):
        assert len(list(tmp_path.iterdir())) == 3
        write_by(path, lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two" and sorted(tmp_path.iterdir()) == sorted([path, part])
