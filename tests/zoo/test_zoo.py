"""The zoo as a whole: every program derives as it is, is described, has its own tests, and can be asked for."""

import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.errors import ProgramError
from tplimits.zoo.entry import PARTS, ZooEntry


@pytest.mark.parametrize("name", zoo.PROGRAMS)
def test_a_program_derives_and_prints_as_it_is(name):
    entry = zoo.get(name)
    assert entry.name == entry.program.name == name
    assert entry.name in repr(tp.derive(entry.program))


@pytest.mark.parametrize("name", zoo.PROGRAMS)
def test_a_program_survives_its_file_form(name):
    program = zoo.get(name).program
    assert tp.from_json(tp.to_json(program)) == program


@pytest.mark.parametrize("name", zoo.PROGRAMS)
def test_an_entry_is_described(name):
    entry = zoo.get(name)
    assert entry.limit and entry.symbols and entry.reference
    assert len(entry.summary) <= 120, "one line of a terminal"
    assert "→" in entry.limit


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(ProgramError, match=r"no program `tied_tanch`; near names are tied_tanh"):
        zoo.get("tied_tanch")
    with pytest.raises(ProgramError, match="there are one_matmul, matched_product"):
        zoo.get("§")


@pytest.mark.parametrize("part", PARTS)
def test_a_docstring_without_a_part_is_refused(part):
    text = "A line.\n\n" + "\n\n".join(f"{p}: something" for p in PARTS if p != part)
    with pytest.raises(ValueError, match=f"lacks {part}"):
        ZooEntry.described(zoo.get("one_matmul").program, text)
