"""Stills and films of a page, drawn by a headless browser: the pictures are those that a reader of the page sees."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.pages.files import place_of, write_by
from tplimits.program.nodes.given import positive_number, several, whole_number
from tplimits.progress import Progress, reporting
from tplimits.watch.page.browser import Browser
from tplimits.watch.page.document import html

if TYPE_CHECKING:
    from tplimits.watch.recording import Recording

#: what ffmpeg makes of pictures, by the end of the file's name; even sizes, and colours that every player shows
_FFMPEG = {
    ".mp4": ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"),
    ".webm": ("-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-crf", "30", "-b:v", "0"),
    ".gif": ("-loop", "0"),
}
#: what panels draw over training is computed before the first picture
_PREPARE = "page.then((app) => { app.draw(); for (let k = 0; k < 20; k++) app.work(performance.now() + 200); })"


def still(recording: Recording, path: str | PathLike[str], frame: int = -1, fragment: str = "", **page: Any) -> None:
    """Write a picture of all panels at a frame, .svg or .png; `page` is what `Recording.page` takes."""
    place = place_of("path", path)
    if place.suffix not in (".svg", ".png"):
        raise EvaluationError(f"{place}: a still is an .svg or a .png file.")
    with _opened(recording, fragment, page) as browser:
        at = _frames(recording, [frame])[0]
        if place.suffix == ".svg":
            data = browser.run(f"page.then((app) => {{ app.at({at}); app.draw(); return still(app); }})").encode(
                "utf-8"
            )
        else:
            data = _picture(browser, at)
    write_by(place, lambda file: file.write(data))


def film(
    recording: Recording,
    path: str | PathLike[str],
    frames: Iterable[int] | None = None,
    rate: float = 20.0,
    fragment: str = "",
    progress: Progress = None,
    **page: Any,
) -> None:
    """Write a film of all panels, .mp4, .webm or .gif; `frames` are all, `rate` of them a second.

    Raises EvaluationError without a browser, and without ffmpeg (for .gif, without Pillow too).
    """
    place = place_of("path", path)
    encode = _encoder(place, rate)
    with _opened(recording, fragment, page) as browser, reporting(progress) as report:
        listed = _frames(recording, range(len(recording.steps)) if frames is None else frames)
        report.plan(len(listed), f"drawing {recording.program.name}")

        def pictures() -> Iterator[bytes]:
            for frame in listed:
                yield _picture(browser, frame)
                report.advance(1)

        data = encode(pictures())
    write_by(place, lambda file: file.write(data))


def _frames(recording: Recording, frames: Iterable[int]) -> list[int]:
    """Frames counted from the first one."""
    count = len(recording.steps)
    numbers = [whole_number(f) for f in several(frames) or (None,)]
    found = [f % count for f in numbers if f is not None and -count <= f < count]
    if len(found) < len(numbers):
        raise EvaluationError(f"frames={frames!r:.60}: the recording has the frames 0, …, {count - 1}.")
    return found


@contextmanager
def _opened(recording: Recording, fragment: str, page: dict[str, Any]) -> Iterator[Browser]:
    """A browser that shows the page of a recording."""
    text = html(recording, **page)
    with Browser() as browser:
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            browser.open(file.name, fragment)
            browser.run(_PREPARE)
        yield browser


def _picture(browser: Browser, frame: int) -> bytes:
    """All panels at a frame, as PNG."""
    draw = f"app.at({frame}); app.draw(); return painted(app, document.createElement('canvas')).toDataURL('image/png')"
    text = browser.run(f"page.then((app) => {{ {draw}; }})")
    return base64.b64decode(text.partition(",")[2])


def _encoder(place: Path, rate: float) -> Callable[[Iterable[bytes]], bytes]:
    """What makes a film of pictures; EvaluationError where nothing installed does."""
    if place.suffix not in _FFMPEG:
        raise EvaluationError(f"{place}: a film is an {', '.join(_FFMPEG)} file.")
    number = positive_number("rate", rate, EvaluationError)
    if number > 120:
        raise EvaluationError(f"rate={rate!r}: give frames a second, up to 120.")
    program = _ffmpeg()
    if program is not None:
        return lambda pictures: _by_ffmpeg(program, pictures, place.suffix, number)
    if place.suffix == ".gif":
        return lambda pictures: _by_pillow(pictures, number)
    raise EvaluationError(
        f"{place}: ffmpeg is not installed; install it, or pip install 'tplimits[film]', or write a .gif file."
    )


def _ffmpeg() -> str | None:
    """The program: the system's, or the one that a package brings."""
    found = shutil.which("ffmpeg")
    if found is not None:
        return found
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):  # a package without a program for this machine raises the latter
        return None


def _by_ffmpeg(program: str, pictures: Iterable[bytes], suffix: str, rate: float) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, f"film{suffix}")
        reading = (program, "-y", "-loglevel", "error", "-f", "image2pipe", "-framerate", f"{rate:g}", "-i", "-")
        command = [*reading, *_FFMPEG[suffix], str(made)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stderr is not None
            try:
                for picture in pictures:
                    process.stdin.write(picture)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, and says why
            said = process.stderr.read().decode("utf-8", "replace").strip()
        if process.returncode or not made.exists():
            raise EvaluationError(f"ffmpeg made no film: {said[:200]}")
        return made.read_bytes()


def _by_pillow(pictures: Iterable[bytes], rate: float) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        raise EvaluationError("films need ffmpeg or Pillow: pip install 'tplimits[plot]'.") from None
    first, *rest = (Image.open(io.BytesIO(p)).convert("P", palette=Image.Palette.ADAPTIVE) for p in pictures)
    made = io.BytesIO()
    first.save(made, "GIF", save_all=True, append_images=rest, duration=round(1000 / rate), loop=0)
    return made.getvalue()
