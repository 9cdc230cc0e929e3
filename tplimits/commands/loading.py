"""What a TARGET of the command line stands for: a program of the zoo, of a Python file, or of a JSON file."""

from __future__ import annotations

import difflib
import importlib.util
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from tplimits import zoo
from tplimits.errors import EvaluationError, ProgramError, TplimitsError
from tplimits.program.files import fields
from tplimits.program.files.arrays import read
from tplimits.program.files.serial import from_json
from tplimits.program.network.losses import CrossEntropy, SquaredError, cross_entropy, squared_error
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.program.nodes.program import Program
from tplimits.report import json_report
from tplimits.report.written import DEPTH, KERNELS, TRAINING


def load(target: str) -> Program:
    """The program of a zoo name, of `file.py:name`, or of a `.json` file.

    Raises ProgramError for what is none of these, OSError for files that cannot be read.
    """
    if target.lower().endswith(".json"):
        return _from_json(Path(target))
    file, colon, name = target.rpartition(":")
    if colon and file.endswith(".py"):
        return _named(_executed(Path(file)), file, name)
    if target.endswith(".py"):
        return _only(_executed(Path(target)), target)
    known = {**zoo.PROGRAMS, **zoo.NETWORKS}
    if target in known:
        return zoo.get(target).program
    near = difflib.get_close_matches(target, known, n=3, cutoff=0.5)
    hint = f"near names are {', '.join(near)}" if near else "`tplimits zoo` lists them"
    raise ProgramError(
        f"`{target}` is no program of the zoo ({hint}), and neither a file.py:name nor the name of a .json file."
    )


def named_values(file: str, names: Sequence[str]) -> dict[str, Any]:
    """What a Python file defines under some names; ProgramError where it does not."""
    found = _executed(Path(file))
    for name in names:
        if name not in found:
            own = [known for known in found if not known.startswith("__")]
            near = difflib.get_close_matches(name, own, n=3, cutoff=0.4)
            raise ProgramError(
                f"{file}: nothing is named `{name}`" + (f"; near names are {', '.join(near)}." if near else ".")
            )
    return {name: found[name] for name in names}


def complete(program: Program, given: Mapping[str, Any] | None = None) -> None:
    """Refuse, in the words of the command line, sizes and numbers that are missing or belong to nothing.

    `given` holds the constants and scalars for an evaluation; without it these may stay open.
    """
    for axis in program.all_axes:
        if program.size(axis) is None:
            raise ProgramError(f"the axis `{axis}` of `{program.name}` has no size: add --size {axis}=3.")
    if given is None:
        return
    scalars = {s.name: s.value for s in program if isinstance(s, InitialScalar)}
    known = {**program.constants, **scalars}
    for name in given:
        if name not in known:
            has = f"are {', '.join(known)}" if known else "are none"
            raise ProgramError(f"--set {name}=…: the constants and given scalars of `{program.name}` {has}.")
    for name, value in known.items():
        if value is None and name not in given:
            what = "scalar" if name in scalars else "constant"
            raise ProgramError(f"the {what} `{name}` of `{program.name}` has no value: add --set {name}=0.5.")


def infinite_axes(target: str, program: Program) -> tuple[str, ...]:
    """The axes that a network of the zoo sends to infinity, as far as they have no size.

    >>> infinite_axes("many_heads", load("many_heads"))
    ('head',)
    """
    entry = zoo.NETWORKS.get(target)
    return tuple(axis for axis in entry.infinite if program.size(axis) is None) if entry else ()


def batch(path: Path) -> numpy.ndarray | dict[str, numpy.ndarray]:
    """The inputs in a file: the array of a .npy file, or those of a .npz file by name.

    Raises EvaluationError for a file that holds none, OSError for one that cannot be read.
    """
    try:
        return read(path)
    except EvaluationError:
        raise EvaluationError(f"{path}: no arrays of numbers as numpy.save and numpy.savez write them.") from None


def array(path: Path) -> numpy.ndarray:
    """The array of a .npy file, or the only one of a .npz file."""
    found = batch(path)
    if isinstance(found, dict):
        if len(found) != 1:
            raise EvaluationError(f"{path}: it holds {len(found)} arrays; give a file with one.")
        (found,) = found.values()
    return found


def targets_in(path: Path, held_out: int = 0) -> SquaredError:
    """The squared error of targets in a file, (inputs, *outputs); inputs with a NaN are not trained on.

    So are the last `held_out` ones.
    """
    found = array(path)
    if found.dtype.kind not in "biuf" or not found.ndim or not found.size:
        raise EvaluationError(f"{path}: targets are an array of numbers, one row for each input.")
    numbers = found.astype(numpy.float64)
    known = ~numpy.isnan(numbers.reshape(len(numbers), -1)).any(axis=1)
    return squared_error(numbers, known & _first(path, len(numbers), held_out))


def labels_in(path: Path, held_out: int = 0) -> CrossEntropy:
    """The cross-entropy of labels in a file, (inputs, …), whole numbers; the last `held_out` are not trained on."""
    found = array(path)
    if found.dtype.kind not in "iuf" or not found.ndim:
        raise EvaluationError(f"{path}: labels are an array of whole numbers, one row for each input.")
    return cross_entropy(found, _first(path, len(found), held_out))


def _first(path: Path, count: int, held_out: int) -> numpy.ndarray:
    """Whether an input is trained on."""
    if not 0 <= held_out < count:
        raise EvaluationError(f"{path}: of {count} inputs {held_out} are held out; one at least is trained on.")
    return numpy.arange(count) < count - held_out


def _from_json(path: Path) -> Program:
    try:
        return from_json(_program_part(fields.text_in(path)))
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None


def _program_part(text: str) -> str:
    """The program inside a report of `tplimits derive --json`; any other text as it is."""
    if not any(f'"format": "{kind}"' in text[:200] for kind in (json_report.LIMIT, KERNELS, TRAINING, DEPTH)):
        return text
    return json.dumps(fields.parse(text).plain("program"))


def _executed(path: Path) -> Mapping[str, Any]:
    """The names a Python file defines when it is run, not as __main__."""
    if not path.is_file():
        path.open("rb").close()  # raises the OSError that says why
    elif b"\0" in path.read_bytes():
        raise ProgramError(f"{path}: not valid Python: it holds NUL bytes.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    label = f"_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(label, path)
    assert spec is not None and spec.loader is not None  # of what is called .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[label] = module  # dataclasses and pickles of the file look themselves up
    try:
        spec.loader.exec_module(module)
    except TplimitsError:
        raise
    except SyntaxError as error:
        raise ProgramError(f"{error.filename}, line {error.lineno}: not valid Python: {error.msg}.") from None
    except (Exception, SystemExit) as error:
        raise ProgramError(f"{path}, line {_line(error, path)}: {type(error).__name__}: {error}") from None
    return vars(module)


def _line(error: BaseException, path: Path) -> int | str:
    """The last line of the file that was running."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
    return lines[-1] if lines and lines[-1] else "?"


def _named(names: Mapping[str, Any], file: str, name: str) -> Program:
    found = names.get(name)
    if isinstance(found, Program):
        return found
    known = _programs(names)
    if callable(found):
        raise ProgramError(f"{file}: `{name}` is not a program: put @tp.program above its definition.")
    if found is not None:
        raise ProgramError(f"{file}: `{name}` is a value of type {type(found).__name__}, not a program.")
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)[:12]
    shown = f"its programs include {', '.join(near)}" if near else "it defines no program"
    raise ProgramError(f"{file}: nothing is named `{name}`; {shown}.")


def _only(names: Mapping[str, Any], file: str) -> Program:
    known = _programs(names)
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        raise ProgramError(f"{file}: it defines no program: put @tp.program above a function.")
    raise ProgramError(f"{file}: it defines several programs; name one, as in {file}:{next(iter(known))}.")


def _programs(names: Mapping[str, Any]) -> dict[str, Program]:
    return {n: p for n, p in names.items() if isinstance(p, Program) and not n.startswith("_")}
