"""Letters for running indices: of finite axes, as many as there are, none of them the name of an axis."""

from types import SimpleNamespace

from tplimits.regimes.kernels.report.outline import Outline


def lettered(axes, *tables):
    derivation = SimpleNamespace(axes=axes, tables=[SimpleNamespace(left=left, right=right) for left, right in tables])
    return Outline._letters(SimpleNamespace(derivation=derivation))


def test_every_axis_has_a_letter_of_its_own():
    assert lettered(("row", "b"), (("x",), ("y",)), (("x",), ())) == {"x": "a", "y": "c", "row": "e", "b": "f"}
    many = [f"axis{i}" for i in range(12)]
    assert list(lettered(many).values()) == [*"abcefgh", "a1", "a2", "a3", "a4", "a5"]
