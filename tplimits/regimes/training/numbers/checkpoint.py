"""Checkpoints of long runs: nested dictionaries of arrays, numbers and text in one NumPy archive.

Files are written whole or not at all, and reading one runs no code.  `kept` runs replicates one after another and keeps
in the file those that are done and, after its last whole step, the one that runs.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from tplimits.errors import EvaluationError
from tplimits.pages.files import write_by
from tplimits.program.files.arrays import digest_of, flat, nested, pack, unpack
from tplimits.program.files.locks import alone
from tplimits.program.network.loss import error_signal
from tplimits.program.network.losses import Loss

if TYPE_CHECKING:
    from tplimits.numbers.columns import State

#: bytes of a state that is copied before a step; an interruption in it goes back to the last file for a larger one
_COPIED = 1 << 22
#: of the time of a run, writing takes one part in so many, but for the first and the last time
_SHARE = 20
#: under which name a file holds the digest of the rest: arrays of another file in it would be numbers without a run
_SUM = "sum"
#: sizes of the outputs at which error signals are looked at
_PROBED = (0.1, 1.0, 10.0)


class Replicate(Protocol):
    """A run that can be left after every step and taken up again."""

    def advance(self) -> None:
        """The next time: its outputs, and a step of training unless it was the last."""

    def times(self) -> int:
        """How many times are done."""

    def finished(self) -> bool:
        """Whether all are."""

    def state(self) -> State:
        """All that is needed to go on."""

    def restore(self, state: State) -> None:
        """Back to what `state` gave."""

    def result(self) -> State:
        """What was found."""


def kept(
    path: Path, known: str, replicates: int, begin: Callable[[int], Replicate], told: Callable[[int], None]
) -> Iterator[State]:
    """The results of all replicates; `known` is the fingerprint of the run, `told` hears of every time that is done.

    Interrupted between steps, the file holds all of them; interrupted in a step, all before it, or for a large state
    those when the file was last written, some seconds ago.  Bit for bit the same numbers come from there.
    """
    with alone("checkpoint", path):
        yield from _kept(_File(path, known), replicates, begin, told)


def _kept(
    file: _File, replicates: int, begin: Callable[[int], Replicate], told: Callable[[int], None]
) -> Iterator[State]:
    for number in range(replicates):
        if number in file.done:
            told(file.times[number])
            yield file.done[number]
            continue
        replicate = begin(number)
        if number == file.running:
            file.give(replicate)
            told(replicate.times())
        try:
            while not replicate.finished():
                file.before(replicate)
                replicate.advance()
                file.after(number, replicate)
                told(1)
        except BaseException:
            file.write()
            raise
        file.finish(number, replicate)
        yield file.done[number]


class _File:
    """The file of a run: results of replicates that are done, and the state of the one that runs."""

    def __init__(self, path: Path, known: str) -> None:
        self.path, self.known = path, known
        held = load(path, known) or {"done": {}}
        try:
            self.done = {int(number): result["found"] for number, result in held["done"].items()}
            self.times = {int(number): int(result["times"]) for number, result in held["done"].items()}
            self.running: int | None = int(held["running"]) if "running" in held else None
            self.state: State = held.get("replicate", {})
        except (KeyError, TypeError, ValueError):
            raise _no_checkpoint(path) from None
        #: the running replicate between its steps, when its state can be read
        self._live: Replicate | None = None
        self._unwritten, self._due, self._bytes = False, 0.0, 0
        if not os.access(path.parent, os.W_OK) or path.is_dir():
            raise EvaluationError(f"checkpoint={str(path)!r}: this is no file that can be written.")

    def give(self, replicate: Replicate) -> None:
        """Put a replicate where the file has it."""
        try:
            replicate.restore(self.state)
        except (EvaluationError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            raise _no_checkpoint(self.path) from None

    def before(self, replicate: Replicate) -> None:
        """Before a step, which works in the arrays of the state: an interruption in it finds what is kept here."""
        if self._unwritten:
            small = self._bytes <= _COPIED
            self.state, self._unwritten = (self._seen(replicate, copied=True), True) if small else ({}, False)
        self._live = None

    def after(self, number: int, replicate: Replicate) -> None:
        """After a whole step of the running replicate: the file is written if it is time."""
        self.running, self._live, self._unwritten = number, replicate, True
        if time.monotonic() >= self._due:
            self.write()

    def _seen(self, replicate: Replicate, copied: bool = False) -> State:
        """The state of a replicate."""
        state = flat(replicate.state())
        self._bytes = sum(int(value.nbytes) for value in state.values())
        return {key: value.copy() for key, value in state.items()} if copied else state

    def finish(self, number: int, replicate: Replicate) -> None:
        """After the last step of a replicate."""
        self.done[number], self.times[number] = replicate.result(), replicate.times()
        self.running, self.state, self._live, self._unwritten = None, {}, None, True
        self.write()

    def write(self) -> None:
        """Write what is not yet in the file."""
        if not self._unwritten:
            return
        begun = time.monotonic()
        done = {str(k): {"found": found, "times": self.times[k]} for k, found in self.done.items()}
        state: State = {"fingerprint": self.known, "done": done}
        if self.running is not None:
            running = self.state if self._live is None else self._seen(self._live)
            state |= {"running": self.running, "replicate": running}
        save(self.path, state)
        self._unwritten = False
        ended = time.monotonic()
        # the next file waits in proportion to what this one took: large states do not slow a run down
        self._due = ended + _SHARE * (ended - begun)


def fingerprint(
    parts: Sequence[object], arrays: Mapping[str, Any], error: Any, shape: tuple[int, ...], steps: int
) -> str:
    """What a run was asked for, as a short text; `shape` is that of the outputs at one time.

    Losses by name are seen with all targets and weights.  Of other functions their values are seen, to nine
    digits, at a few fixed outputs, at the first step and at the last; what they do elsewhere is not.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode())
    if isinstance(error, Loss):
        digest.update(repr(error.facts).encode())
    else:
        digest.update(repr(_at_probes(error, shape, steps)).encode())
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        numbers = numpy.asarray(array, dtype=numpy.float64)
        digest.update(repr(numbers.shape).encode() + numpy.ascontiguousarray(numbers).tobytes())
    return digest.hexdigest()


def _at_probes(error: Any, shape: tuple[int, ...], steps: int) -> list[list[str]]:
    """What an error signal gives at the probes, or what it raises.

    Last digits, in which sums differ between machines, are left out.
    """
    signal, rng = error_signal(error), numpy.random.Generator(numpy.random.PCG64(0))
    probes = [size * rng.standard_normal(shape) for size in _PROBED]
    found = []
    for t in dict.fromkeys((0, max(steps - 1, 0))):
        for f in probes:
            try:
                with numpy.errstate(all="ignore"):
                    found.append([f"{value + 0.0:.8e}" for value in signal(f, t).ravel()])
            except Exception as problem:  # training may never come to such outputs
                found.append([type(problem).__name__])
    return found


def save(path: Path, state: State) -> None:
    """Write a nested dictionary; interrupted, the old file is left as it was."""
    arrays = flat(state)
    arrays[_SUM] = numpy.asarray(digest_of(arrays))
    try:
        write_by(path, lambda file: pack(file, arrays))
    except OSError as error:
        raise EvaluationError(f"checkpoint={str(path)!r}: it cannot be written: {error.strerror or error}.") from None


def load(path: Path, expected: str) -> State | None:
    """Read what `save` wrote; None if there is no such file.

    Raises EvaluationError for a file that is no checkpoint, is damaged, or belongs to another run.
    """
    if not path.exists():
        return None
    try:
        arrays = unpack(path)
        if str(arrays.pop(_SUM)) != digest_of(arrays):
            raise _no_checkpoint(path)
        state = nested(arrays)
        found = str(state["fingerprint"])
    except (EvaluationError, OSError, KeyError, ValueError):
        raise _no_checkpoint(path) from None
    if found != expected:
        raise EvaluationError(
            f"checkpoint={str(path)!r}: the file belongs to another run (another network, data, error function, "
            "optimizer, seed or number of particles); give another file, or delete it."
        )
    return state


def _no_checkpoint(path: Path) -> EvaluationError:
    return EvaluationError(
        f"checkpoint={str(path)!r}: the file is no checkpoint of tplimits, or damaged; give another, or delete it."
    )
