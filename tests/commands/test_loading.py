"""Targets of the command line: zoo names, Python files, JSON files."""

from __future__ import annotations

import json
import re
import sys

import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.commands.loading import load, named_values
from tplimits.errors import ProgramError
from tplimits.report import json_report

GOOD = """
import tplimits as tp
from beside import act

@tp.program
def net(W: tp.Matrix, x: tp.Vector):
    return tp.avg(act(W @ x))

@tp.program
def other(x: tp.Vector):
    return x

def plain(x):
    return x

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program file and the file it imports; what they add to Python is taken away again."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "beside.py").write_text("import tplimits as tp\nact = tp.relu\n", encoding="utf-8")
    yield tmp_path
    for name in ("beside", *(m for m in sys.modules if m.startswith("_target_"))):
        sys.modules.pop(name, None)


def refused(target: str) -> str:
    with pytest.raises(ProgramError) as error:
        load(target)
    return str(error.value)


def test_programs_of_the_zoo():
    assert load("tied_tanh") is zoo.get("tied_tanh").program
    assert load("tied_attention") is zoo.get("tied_attention").program
    assert "near names are tied_tanh" in refused("tied_tanhh")
    assert "`tplimits zoo` lists them" in refused("quux")


def test_programs_of_a_file_that_imports_its_neighbour(folder):
    assert load("good.py:net").name == "net"
    assert load(f"{folder}/good.py:net").name == "net"


def test_names_that_are_no_programs(folder):
    assert "nothing is named `nett`; its programs include net" in refused("good.py:nett")
    assert "put @tp.program above" in refused("good.py:plain")
    assert "a value of type int" in refused("good.py:number")
    assert "several programs" in refused("good.py")


def test_near_names_are_those_that_a_file_gives(folder):
    """`__name__` is near to `example` and no name of anybody's."""
    for name, told in (("example", "`example`."), ("numbers", "`numbers`; near names are number, net.")):
        with pytest.raises(ProgramError, match=rf"nothing is named {re.escape(told)}$"):
            named_values("good.py", (name,))


def test_a_file_with_one_program_needs_no_name(folder):
    (folder / "one.py").write_text("import tplimits as tp\n@tp.program\ndef f(x: tp.Vector):\n    return x\n")
    assert load("one.py").name == "f"
    (folder / "none.py").write_text("x = 1\n")
    assert "defines no program" in refused("none.py")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "line 1: not valid Python"),
        ("x = 1\n\n1/0\n", "line 3: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "line 2: SystemExit: 3"),
        ("import no_such_module_here\n", "line 1: ModuleNotFoundError"),
        ("import tplimits as tp\n@tp.program\ndef f(x: tp.Vector):\n    return y\n", "line 4: NameError"),
        ("\0", "bad.py: not valid Python: it holds NUL bytes"),
    ],
)
def test_files_that_fail_say_where(folder, text, words):
    (folder / "bad.py").write_text(text, encoding="utf-8")
    assert words in refused("bad.py:f")


def test_errors_of_a_program_keep_their_own_words(folder):
    (folder / "bad.py").write_text(
        "import tplimits as tp\n@tp.program\ndef f(x: tp.Vector):\n    return x if x else 1\n"
    )
    assert "used as a condition" in refused("bad.py:f")


def test_missing_files_are_os_errors(folder):
    for target in ("missing.py:f", "missing.json", "good.py/x.py:f"):
        with pytest.raises(OSError):
            load(target)


def test_json_programs_and_reports(folder):
    limit = tp.derive(zoo.get("tied_relu").program)
    (folder / "program.json").write_text(tp.to_json(limit.program), encoding="utf-8")
    report = limit.document()
    (folder / "report.json").write_text(report, encoding="utf-8")
    assert load("program.json") == load("report.json") == limit.program


def test_hostile_json_is_refused_and_nothing_runs(folder):
    limit = tp.derive(zoo.get("tied_relu").program)
    report = json.loads(limit.document())
    texts = {
        "bytes.json": b"\xff\xfe\x00",
        "deep.json": b"[" * 100_000,
        "number.json": b'{"a": 1}',
        "open.json": b"{",
        "report.json": json.dumps({**report, "program": ["x"]}).encode(),
        "deep_report.json": f'{{"format": "{json_report.LIMIT}", "program": {"[" * 100_000}'.encode(),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
        assert refused(name).startswith(f"{name}: ")
