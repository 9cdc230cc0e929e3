"""BibTeX of the theorems and closed forms a derivation really used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources

from tplimits.law.closed_forms.table import CLOSED_FORMS


@cache
def entries() -> dict[str, str]:
    """All entries of `references.bib` by their keys; an empty line stands between two."""
    text = resources.files("tplimits.report").joinpath("references.bib").read_text(encoding="utf-8")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.strip().split("\n\n")}


def bibtex(references: Iterable[str], closed_forms: Iterable[str]) -> str:
    """The entries for some citation keys and rows of the table of closed forms, each once."""
    row = {r.name: r.citation for r in CLOSED_FORMS}
    keys = dict.fromkeys([*references, *(row[name] for name in closed_forms)])
    return "\n\n".join(entries()[k] for k in keys)
