"""Two tiers of tests: together all of them, both run before a change is taken; the short one judges every regime."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest
from source import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
REGIMES = {p.name: p for p in sorted((ROOT / "tests" / "regimes").iterdir()) if any(p.glob("**/test_*.py"))}
#: programs of the zoo are those of the regime of width
REGIMES["width"] = ROOT / "tests" / "zoo"


def command(target: str) -> str:
    """What `make target` runs."""
    return re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1].strip()


def test_a_test_is_in_one_tier_and_the_two_are_all():
    assert command("test-all") == "$(PYTEST)"
    assert command("test") == '$(PYTEST) -m "not long"'
    assert command("test-long") == "$(PYTEST) -m long"


def test_nothing_else_leaves_a_test_out():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    run = re.search(r"^PYTEST := .* -m pytest(.*)$", MAKEFILE, re.MULTILINE)[1].split()
    assert run == ["-n", "2", "--dist", "worksteal"]
    for option in options["addopts"]:
        assert not option.startswith(("-m", "-k", "--ignore", "--deselect", "--maxfail", "-x"))


def test_a_change_is_judged_by_both():
    steps = re.findall(r"^step make (.*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert "test-long" in steps and steps[-1] == "test"


def marks(decorators: list[ast.expr]) -> set[str]:
    return {m[1] for d in decorators if (m := re.match(r"pytest\.mark\.(\w+)", ast.unparse(d)))}


def short_checks(text: str) -> list[str]:
    """Tests of a file that draw networks, turn something wrong down and are not long."""
    tree = ast.parse(text)
    whole = re.search(r"^pytestmark = .*$", text, re.MULTILINE)
    for_all = set(re.findall(r"pytest\.mark\.(\w+)", whole[0] if whole else ""))
    return [
        f.name
        for f in ast.walk(tree)
        if isinstance(f, ast.FunctionDef)
        and f.name.startswith("test_")
        and "sampling" in (own := marks(f.decorator_list) | for_all)
        and "long" not in own
        and re.search(r"assert not |reject| != | > | < \w+ < ", ast.unparse(f))
    ]


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_has_short_tests_on_drawn_networks(regime):
    files = REGIMES[regime].rglob("test_*.py")
    assert len([name for p in files for name in short_checks(p.read_text(encoding="utf-8"))]) >= 3


def test_a_long_file_and_a_long_test_are_seen():
    body = "    assert not check(1).accepted\n"
    short = f"@pytest.mark.sampling\ndef test_a():\n{body}"
    assert short_checks(short) == ["test_a"]
    assert short_checks(f"@pytest.mark.long\n{short}") == []
    assert short_checks(f"pytestmark = [pytest.mark.long]\n\n{short}") == []
    assert short_checks(f"def test_a():\n{body}") == []
