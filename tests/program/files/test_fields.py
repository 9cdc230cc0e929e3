"""JSON read field by field."""

import json

import pytest

from tplimits.errors import ProgramError
from tplimits.program.files.fields import MAX_LEVELS, hexadecimal, name, parse, rational, whole


def fields(**document):
    return parse(json.dumps(document))


def test_every_kind_of_field():
    read = fields(
        t="text", w="a", f=False, c="12", b=["1"], o=None, e=["entry 0 own 0"], ts=["a"], cs=["-1"], bs=[["1"]],
        os=[{}], m={"k": "1"}, x={"γ": None},
    )  # fmt: skip
    assert read.text("t") == "text" and read.one_of("w", ("a", "b")) == "a" and read.flag("f") is False
    assert read.count("c") == 12 and read.body("b") == 1 and read.is_null("o")
    assert read.entry("e").source == 0 and read.texts("ts") == ("a",) and read.counts("cs") == (-1,)
    assert read.bodies("bs") == (1,) and read.objects("os", "thing", 1)[0].where == "thing 1"
    assert read.mapping("m", whole) == {"k": 1} and read.expressions("x") == {"γ": None}
    read.finish()


@pytest.mark.parametrize("word", ["1e999", "-1e999"])
def test_numbers_of_documents_are_finite(word):
    with pytest.raises(ProgramError, match=f"the file: the number '{word}'; numbers are finite"):
        parse(f'{{"a": {word}}}', numbers=True)
    assert parse('{"a": -1e308}', numbers=True)


def test_what_is_left_is_refused():
    with pytest.raises(ProgramError, match="the file: the unknown field 'b'; remove it"):
        fields(c="1", b="1").finish()


def test_a_field_is_taken_once():
    read = fields(a="1")
    read.count("a")
    with pytest.raises(ProgramError, match="the file: the field 'a' is missing; it holds"):
        read.count("a")


def test_nesting_is_counted_outside_strings_only():
    assert parse(json.dumps({"a": "[[[[[[[[[[[[[[["})).text("a").startswith("[")
    assert parse(json.dumps({"a": '\\"[[[[[[[[[[[[[\\'})).text("a")
    deep = "x"
    for _ in range(MAX_LEVELS):
        deep = [deep]
    with pytest.raises(ProgramError, match="more than 8 levels of nesting"):
        parse(json.dumps({"a": deep}))


@pytest.mark.parametrize(
    "number", ["1.0", "0x1.8p+0x", "0x1p+0", "1", "0x2.0p+0", "inf", "-nan", "0X1.0P+0", " 0x1.0p+0", None, 1]
)
def test_floats_are_written_as_float_hex_writes_them(number):
    with pytest.raises(ProgramError, match=r"array 1: .* is not a hexadecimal float"):
        hexadecimal(number, "array 1")


@pytest.mark.parametrize("value", [3, None, "x", "1/0", "1.5", "1/2/3", ["1"]])
def test_fractions_are_written_as_two_whole_numbers(value):
    with pytest.raises(ProgramError, match=r"here: .* is no fraction"):
        rational(value, "here")
    assert rational("-1/2", "here") == -0.5


@pytest.mark.parametrize("number", [0.0, -0.0, 0.1, -1e300, 5e-324, 1.7976931348623157e308, 1.0])
def test_floats_come_back_exactly(number):
    assert hexadecimal(number.hex(), "here").hex() == number.hex()


@pytest.mark.parametrize("number", ["+1", "1e3", "-0", "-2", "007", "1_000", "", "٣", None, 3, True, ["1"]])
def test_whole_numbers_are_plain_digits(number):
    with pytest.raises(ProgramError, match="is not a whole number; write it as a string"):
        whole(number, "here")


@pytest.mark.parametrize("text", ["", "a\nb", "\x00", "\u202e", "\ud800", "x" * 201, None, 3])
def test_names_are_printable(text):
    with pytest.raises(ProgramError, match="is not a name; names are printable strings"):
        name(text, "here")
