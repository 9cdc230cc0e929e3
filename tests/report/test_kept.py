"""What is printed, and where formulas break: as it was when it was looked at in print.

`PYTHONPATH=tests/support python tests/report/test_kept.py` writes prints.txt and lines.json anew; their difference is
to be looked at.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from printed import LIMITS

from tplimits.report import text
from tplimits.report.latex_boxes import boxes_of, width_of
from tplimits.report.latex_lines import lines

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "lines.json").read_text(encoding="utf-8"))
PRINTS = dict(
    re.findall(r"^=== (.*)\n((?:(?!===).*\n)*)", (HERE / "prints.txt").read_text(encoding="utf-8"), re.MULTILINE)
)


def measured(text: str, room: float) -> dict[str, object]:
    """A formula, its width, and its lines."""
    return {"text": text, "room": room, "width": round(width_of(boxes_of(text)), 3), "lines": lines(text, room)}


def printed(name: str) -> str:
    """A limit as text, short, by names and in full, and as LaTeX."""
    limit = LIMITS[name]()
    with pytest.MonkeyPatch.context() as patch:
        shown = [str(limit), limit.latex()]
        patch.setattr(text, "MOST_NODES", 1)
        patch.setattr(text, "MOST_DEFINITIONS", 2)
        shown += [limit.text(full=True)] if hasattr(limit, "text") else []
        patch.setattr(text, "SCREEN", 12)
        shown += [str(limit)]
    return "\n".join(dict.fromkeys(shown)) + "\n"


@pytest.mark.parametrize("row", ROWS, ids=[row["text"][:40] for row in ROWS])
def test_formulas_break_where_they_did(row):
    assert measured(row["text"], row["room"]) == row


@pytest.mark.parametrize("name", LIMITS)
def test_limits_print_as_they_did(name):
    assert printed(name) == PRINTS[name]


if __name__ == "__main__":
    found = [json.dumps(measured(row["text"], row["room"]), ensure_ascii=False) for row in ROWS]
    (HERE / "lines.json").write_text("[\n" + ",\n".join(found) + "\n]\n", encoding="utf-8")
    (HERE / "prints.txt").write_text("".join(f"=== {name}\n{printed(name)}" for name in LIMITS), encoding="utf-8")
