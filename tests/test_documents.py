"""The code in README and docs/ runs, and prints what stands under it."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
#: documents whose code takes more than a second or two of the processor
LONG = (
    *("clustering-heads", "covariance-sde", "errata", "feature-learning", "first-steps", "kernels", "operator-regime"),
    *("parametrizations", "tour"),
)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")


@dataclass(frozen=True)
class Block:
    """Python of a document, the line it starts on, and the text block right under it."""

    line: int
    code: str
    printed: str | None


def blocks(text: str) -> list[Block]:
    """Blocks marked python; one marked text right after is what it prints."""
    found = []
    for match in re.finditer(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$)?", text, re.DOTALL | re.MULTILINE):
        found.append(Block(text[: match.start()].count("\n") + 2, match[1], match[2]))
    return found


def same(printed: str, written: str) -> bool:
    """Equal up to spacing and to the last digits of numbers, which differ between machines."""
    texts = [unicodedata.normalize("NFC", t) for t in (printed, written)]
    words = [" ".join(NUMBER.sub("0", t).split()) for t in texts]
    numbers = [[float(x.replace("−", "-")) for x in NUMBER.findall(t)] for t in texts]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.long] * (p.stem in LONG)) for p in DOCUMENTS]
)
def test_code_runs_and_prints_what_is_written_under_it(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "document"}
    for block in blocks(path.read_text(encoding="utf-8")):
        place = f"{path.name}, line {block.line}"
        linecache.cache[place] = (len(block.code), None, block.code.splitlines(keepends=True), place)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block.code, place, "exec"), names)
        if block.printed is not None:
            assert same(output.getvalue(), block.printed), f"{place} prints\n{output.getvalue()}"


def test_blocks_and_their_output_are_found():
    text = "a\n```python\nx = 1\n```\n\n```text\n1\n```\n```python\ny\n```\nb\n```text\n2\n```\n"
    assert blocks(text) == [Block(3, "x = 1\n", "1\n"), Block(10, "y\n", None)]


def test_outputs_are_compared_by_words_and_numbers():
    assert same("x  0.5000000001\n", "x 0.5")
    assert same("0.6 ± 3.0e-15", "0.6 ± 1.1e-16")
    assert not same("0.51", "0.5")
    assert not same("x 1", "y 1")
    assert not same("−1", "1")


def test_documents_that_are_long_exist():
    assert set(LONG) <= {p.stem for p in DOCUMENTS}


def test_readme_runs_an_example():
    assert any(b.printed for b in blocks((ROOT / "README.md").read_text(encoding="utf-8")))
