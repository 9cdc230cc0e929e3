"""What people read: messages without glued words, documents that name what exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePosixPath

import pytest
from source import MODULES, ROOT

GLUED = re.compile(r"""([^\s\\"'(\[{/])["']\n\s*[rf]*["']([^\s"'.,;:)\]}/\\])""")
#: two literals that are one word on purpose: patterns and formulas
ONE_WORD = {"tplimits/report/latex_names.py"}
#: what is written where it is read by all; commands make these paths
MADE = {"demo/", ".venv", ".venv/bin/python"}


def tracked() -> list[str]:
    """Files under version control, or about to be; all files where there is none."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    found = [f for f in listed.split("\n") if f and (ROOT / f).is_file()]
    return found or [
        p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.*") if ".venv" not in p.parts and p.is_file()
    ]


def test_messages_over_two_literals_keep_their_space():
    glued = {m.place: [found[0] for found in GLUED.finditer(m.text)] for m in MODULES if m.place not in ONE_WORD}
    assert {place: found for place, found in glued.items() if found} == {}


def test_glued_words_would_be_seen():
    assert GLUED.search('fail("a word"\n     "and another")')
    assert not GLUED.search('fail("a word "\n     f"and another")')


def named_paths(text: str) -> set[str]:
    """Paths in links and in code of a document."""
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    quoted = {
        p for p in re.findall(r"`([\w.-]+(?:/[\w.-]+)*/?)`", text) if "/" in p or re.search(r"\.(py|md|toml)$", p)
    }
    return {p for p in links | quoted if p} - MADE


DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in DOCUMENTS])
def test_documents_name_paths_that_exist(path):
    known = [f"/{f}" for f in tracked()]
    known += [f"{folder}/" for f in known for folder in PurePosixPath(f).parents]
    named = (p.removeprefix("../").removeprefix("./") for p in named_paths(path.read_text(encoding="utf-8")))
    assert [p for p in sorted(named) if not any(k.endswith(f"/{p}") for k in known)] == []


def test_makefile_names_scripts_and_folders_that_exist():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:benchmarks|derivations|tests|docs|tplimits)(?:/[\w.]+)?)\b", text))
    assert [p for p in named if not (ROOT / p).exists()] == []
    assert (ROOT / "tplimits" / "demo.py").is_file()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_commands_that_are_named_can_be_made(document):
    text, makefile = ((ROOT / f).read_text(encoding="utf-8") for f in (document, "Makefile"))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)(?=`|$|\s+#)", text, re.MULTILINE))
    assert named, f"{document} names no command"
    assert named <= targets


def test_the_top_level_holds_what_documents_name():
    named = "".join((ROOT / f).read_text(encoding="utf-8") for f in ("README.md", "CONTRIBUTING.md"))
    known = {"README.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "pyproject.toml", ".gitignore"}
    top = {f.split("/")[0] for f in tracked()} - known
    assert {f for f in top if not re.search(rf"(?<![\w/.-]){re.escape(f)}(?![\w.-])", named)} == set()


def test_no_file_names_a_path_of_one_machine():
    machine = re.compile(r"/(?:home|root|tmp|work|Users)/\w")
    texts = {f: (ROOT / f).read_bytes().decode("utf-8", "replace") for f in tracked()}
    assert {f: machine.findall(t) for f, t in texts.items() if machine.search(t)} == {}


def test_nothing_is_left_undone_or_skipped():
    words = ("TO" + "DO", "FIX" + "ME", "X" + "XX")  # in two parts: this file is read too
    calls = ("raise Not" + "ImplementedError", r"pytest\.(?:mark\.)?" + "(?:skip|xfail)")
    marks = re.compile(rf"\b(?:{'|'.join((*words, *calls))})\b")
    python = [f for f in tracked() if f.endswith(".py")]
    texts = {f: (ROOT / f).read_text(encoding="utf-8") for f in python}
    assert {f: marks.findall(t) for f, t in texts.items() if marks.search(t)} == {}
