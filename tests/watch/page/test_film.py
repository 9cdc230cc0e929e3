"""Stills and films of recordings."""

from __future__ import annotations

import sys
import types

import pytest
from PIL import Image
from recorded_head import recorded

import tplimits as tp
from tplimits.watch.page import browser as browsers
from tplimits.watch.page import film


@pytest.fixture(scope="module")
def short():
    return recorded(4)


@pytest.mark.long
def test_a_film_has_the_frames_that_are_asked_for(short, tmp_path):
    short.film(tmp_path / "film.gif", frames=[0, 2, -1], rate=10)
    with Image.open(tmp_path / "film.gif") as made:
        assert made.n_frames == 3
        assert made.info["duration"] == 100
        assert min(made.size) > 500
        first = made.convert("RGB").tobytes()
        made.seek(2)
        assert made.convert("RGB").tobytes() != first


def test_a_still_is_a_picture_of_a_frame(short, tmp_path):
    short.still(tmp_path / "frame.svg", 2)
    text = (tmp_path / "frame.svg").read_text(encoding="utf-8")
    assert text.startswith("<svg") and "step 128" in text


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rec, path: rec.film(path / "film.avi"), "a film is an .mp4, .webm, .gif file"),
        (lambda rec, path: rec.film(path / "film.gif", rate=0), "rate=0: give a positive, finite number"),
        (lambda rec, path: rec.film(path / "film.gif", rate="fast"), "rate='fast': give a positive, finite number"),
        (lambda rec, path: rec.film(path / "film.gif", rate=500), "give frames a second, up to 120"),
        (lambda rec, path: rec.film(path / "film.mp4"), "ffmpeg is not installed"),
        (lambda rec, path: rec.still(path / "frame.jpg"), "a still is an .svg or a .png file"),
        (lambda rec, path: rec.still(path / "frame.svg", 9), "no browser is installed"),
    ],
)
def test_what_cannot_be_made_is_refused_by_its_reason(short, tmp_path, monkeypatch, call, said):
    monkeypatch.setattr(browsers.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(tp.EvaluationError, match=said):
        call(short, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_frames_that_are_not_there_are_refused(short):
    with pytest.raises(tp.EvaluationError, match=r"frames=\[0, 9\]: the recording has the frames 0, …, 3"):
        film._frames(short, [0, 9])


#: stands for ffmpeg: the film is what it was told, and how many pictures came in
ENCODER = """#!/bin/sh
for last; do :; done
echo "$@" > "$last"
grep -ac IHDR >> "$last"
"""


@pytest.mark.long
@pytest.mark.parametrize("brought", [False, True])
@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_films_are_encoded_by_ffmpeg_the_system_s_or_a_package_s(short, tmp_path, monkeypatch, suffix, brought):
    program = tmp_path / "ffmpeg"
    program.write_text(ENCODER)
    program.chmod(0o755)
    found = film.shutil.which
    package = types.SimpleNamespace(get_ffmpeg_exe=lambda: str(program))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", package if brought else None)
    own = None if brought else str(program)
    monkeypatch.setattr(film.shutil, "which", lambda name: own if name == "ffmpeg" else found(name))
    short.film(tmp_path / f"film{suffix}", frames=[0, 3], rate=12.5)
    told, pictures = (tmp_path / f"film{suffix}").read_text().splitlines()
    assert "image2pipe -framerate 12.5" in told and told.endswith(f"film{suffix}") and pictures == "2"


def test_an_encoder_that_fails_says_why(short, tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\necho 'Unknown encoder libx264' >&2\nexit 1\n")
    program.chmod(0o755)
    found = film.shutil.which
    monkeypatch.setattr(film.shutil, "which", lambda name: str(program) if name == "ffmpeg" else found(name))
    with pytest.raises(tp.EvaluationError, match="ffmpeg made no film: Unknown encoder libx264"):
        short.film(tmp_path / "film.mp4", frames=[0])
    assert not (tmp_path / "film.mp4").exists()
