"""BibTeX of what was used."""

from __future__ import annotations

import re

import tplimits as tp
from tplimits import zoo
from tplimits.law.closed_forms.table import CLOSED_FORMS
from tplimits.report.written import bibtex, entries


def test_entries_carry_their_own_key_and_close():
    for key, entry in entries().items():
        assert re.match(r"@\w+\{" + key + ",", entry)
        assert entry.count("{") == entry.count("}")


def test_every_rule_and_closed_form_has_an_entry():
    assert {row.citation for row in CLOSED_FORMS} <= set(entries())
    for name in zoo.PROGRAMS:
        assert {s.reference.citation for s in tp.derive(zoo.get(name).program).steps} <= set(entries())


def test_only_what_was_used_is_cited_and_once():
    linear = tp.derive(zoo.get("matched_product").program).citation()
    relu = tp.derive(zoo.get("relu_kernel").program).citation()
    assert "cho2009kernel" not in linear
    assert relu.count("@inproceedings{cho2009kernel") == 1
    assert bibtex([], []) == ""
