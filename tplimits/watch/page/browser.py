"""A headless Chromium that shows a page: for films, and for tests of the page.

It is spoken to over two pipes in the DevTools protocol: JSON messages that end in a zero byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from tplimits.errors import EvaluationError

#: names under which it is installed
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: nothing is fetched, and nothing asked
_FLAGS = (
    *("--headless=new", "--disable-gpu", "--hide-scrollbars", "--mute-audio", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--disable-features=Translate,OptimizationHints,MediaRouter"),
    *("--force-color-profile=srgb", "--remote-debugging-pipe"),
)


def executable() -> str | None:
    """The path of an installed Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One Chromium with one page; `events` holds what it told, in order."""

    def __init__(self, width: int = 1280, height: int = 1100, timeout: float = 60.0) -> None:
        program = executable()
        if program is None:
            raise EvaluationError(f"no browser is installed: none of {', '.join(NAMES)} is on the path.")
        self.timeout, self.numbers, self.events = timeout, itertools.count(1), list[dict[str, Any]]()
        self.folder = tempfile.mkdtemp(prefix="tplimits-browser-")
        theirs, self.out = _pipe()
        self.into, their_out = _pipe()
        self.buffer = b""
        arguments = [
            program,
            *_FLAGS,
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # root has none
            f"--user-data-dir={self.folder}",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        quiet = os.open(os.devnull, os.O_RDWR)
        places = {0: quiet, 1: quiet, 2: quiet, 3: theirs, 4: their_out}
        actions = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in places.items()]
        self.pid = os.posix_spawn(program, arguments, os.environ, file_actions=actions)
        for fd in (quiet, theirs, their_out):
            os.close(fd)
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer; EvaluationError if it is refused."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        _write(self.out, json.dumps(message).encode("utf-8") + b"\0")
        while True:
            found = self._message()
            if found.get("id") == number:
                if "error" in found:
                    raise EvaluationError(f"the browser refused {method}: {found['error'].get('message')}.")
                return found["result"]
            self.events.append(found)

    def wait(self, event: str) -> None:
        """Wait for an event that has not been told yet."""
        while True:
            found = self._message()
            self.events.append(found)
            if found.get("method") == event:
                return

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + self.timeout
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self.into, 1 << 20) if ready else b""
            if not more:
                what = "has ended" if ready else f"did not answer for {self.timeout:g} seconds"
                raise EvaluationError(f"the browser {what}.")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: str | os.PathLike[str], fragment: str = "") -> None:
        """Show a file, afresh even where it is shown already, and wait until it is loaded."""
        for url in ("about:blank", Path(path).resolve().as_uri() + fragment):
            self.call("Page.navigate", url=url)
            self.wait("Page.loadEventFired")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise EvaluationError(f"the page failed: {details.get('exception', details).get('description', details)}")
        return found["result"].get("value")

    def close(self) -> None:
        """End the browser, and remove what it wrote."""
        with contextlib.suppress(OSError, EvaluationError):
            self.session = None
            self.call("Browser.close")
        for fd in (self.out, self.into):
            os.close(fd)
        self._ended()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ended(self) -> None:
        for _ in range(100):
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pipe() -> tuple[int, int]:
    """The ends of a pipe above the numbers that a browser reads and writes."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 16) for fd in ends)
    for fd in ends:
        os.close(fd)
    return moved[0], moved[1]


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
