"""What a frozen program holds does not change."""

import copy
import pickle

import pytest

import tplimits as tp
from tplimits.program.nodes.frozen import FrozenDict


@tp.program
def held(x: tp.Vector["token"], *, γ=2):
    y = x.rename(token="key")
    return γ * y * tp.constant([1, 2], axes="key")


CHANGES = {
    "set": lambda d: d.__setitem__("q", 1),
    "delete": lambda d: d.__delitem__("q"),
    "update": lambda d: d.update(q=1),
    "or": lambda d: d.__ior__({"q": 1}),
    "pop": lambda d: d.pop("q", None),
    "setdefault": lambda d: d.setdefault("q", 1),
    "clear": lambda d: d.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", ["names", "constants", "sizes", "size_of"])
def test_the_mappings_of_a_program_are_frozen(field, change):
    before = dict(getattr(held, field))
    with pytest.raises(TypeError, match=r"programs are frozen; \.bind\(…\) and \.replace\(…\) make another one"):
        CHANGES[change](getattr(held, field))
    assert before == getattr(held, field) != {}


def test_programs_are_copied_pickled_and_hashed():
    for other in (copy.copy(held), copy.deepcopy(held), pickle.loads(pickle.dumps(held)), held.replace()):
        assert other == held and hash(other) == hash(held) and isinstance(other.names, FrozenDict)
    assert {held: 1}[copy.deepcopy(held)] == 1
