"""Programs as files: exact round trips, and nothing that a hostile file can do."""

import copy
import dataclasses
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.files import fields, postfix, serial
from tplimits.program.files.serial import from_json, to_json
from tplimits.program.network.backward import backpropagation
from tplimits.program.network.schedules import moving
from tplimits.program.nodes import functions
from tplimits.program.nodes.kinds import InitialVector, Instruction
from tplimits.program.nodes.program import Program
from tplimits.program.nodes.stated import IndexTable


@tp.program
def everything(
    W: tp.Matrix,
    U: tp.Matrix["k", "n", "head"],
    x: tp.Vector["token"],
    g: tp.Vector["k"] = tp.init(mean=0.1, std=2),  # noqa: B008 - the documented spelling of a law
    b: tp.Scalar["token"] = 0.3,
    s: tp.Scalar = None,
    *,
    γ,
    τ=1 / 3,
):
    β, δ = tp.neuron("β"), tp.neuron("δ")
    h = (W.T @ x).named("h^1")
    k = (U.sel(head=1).T @ g).named("k")
    h = tp.softmax(tp.avg(h * k) * tp.sqrt(tp.n) / τ, over="token") * h
    patches = (tp.exp(h) + 1).take(token=np.array([[-1, 0], [1, 2]]), axes=("tap", "pos"))
    c = tp.constant(np.array([0.1, -0.0]), axes="tap")
    third = tp.avg(tp.relu(k[β] * h - h[δ]) * g[tp.neuron("ε")], over=(β, δ, tp.neuron("ε")))
    mean = tp.expect(lambda z: tp.relu(γ * z) ** 2 * tp.expect(lambda w: sympy.pi * w * z))
    return tp.sum(c * patches, over=("tap", "pos")) * mean, third * s + b / tp.size("token"), tp.avg(k) * tp.width("k")


@tp.network
def discrete(
    x: tp.Input["token"].of("vocab"),
    E: tp.Vector["vocab"].uniform(-0.1, 0.3),
    w: tp.Vector["vocab"].truncated(0.5, 1),
    q: tp.Scalar["token"].normal(1, 2),
    r: tp.Scalar.truncated(1, 2),
):
    return tp.readout(tp.sum(q * (w * tp.tanh(E)).sel(vocab=x), over="token")) + r


@tp.network
def mlp_of_data(ξ: tp.Input, v: tp.Vector, *, c):
    return v * tp.tanh(c * ξ)


@tp.program
def mlp(W: tp.Matrix, x: tp.Vector, *, γ=0.5):
    h = W @ x
    for _ in range(2):
        h = W @ tp.relu(γ * h)
    return tp.avg(h * h)


def round_trip(program):
    text = to_json(program)
    back = from_json(text)
    assert back == program and hash(back) == hash(program) and repr(back) == repr(program)
    assert to_json(back) == text
    return back


def test_a_program_comes_back_equal():
    back = round_trip(everything)
    for field in dataclasses.fields(Program):
        assert getattr(back, field.name) == getattr(everything, field.name), field.name
    assert list(back.names) == list(everything.names) and back.widths == ("n", "k")
    assert np.signbit(back.arrays[0].values[1]), "-0.0 stays -0.0"
    assert back[everything.position("third")].slot_names == everything[everything.position("third")].slot_names


def test_it_still_runs_and_binds_after_reading():
    back = round_trip(everything.bind(token=3, head=2))
    assert back.bind(γ=2) == everything.bind(token=3, head=2, γ=2)
    known = {"γ": 2, "s": 1.5}
    here, there = everything.bind(token=3, head=2).run(n=6, seed=1, **known), back.run(n=6, seed=1, **known)
    for name, value in here.items():
        np.testing.assert_array_equal(value, there[name])


def test_every_head_comes_back():
    u, v, w = sympy.symbols("u v w", real=True)
    arguments = {1: (u,), 2: (u, v), 3: (u, v, w)}
    heads = [(head, arity or 2) for name, (head, arity) in functions.HEADS.items() if name != "dirac"]
    functions_ = [sympy.Lambda((u, v, w), head(*arguments[arity])) for head, arity in heads]

    @tp.program
    def every(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return [tp.elementwise(function)(x, y, z) for function in functions_]

    back = round_trip(every)
    words = json.loads(to_json(back))["instructions"]
    written = {word.split(" ")[0] for s in words for word in s.get("body", ())}
    assert written >= functions.HEADS.keys() - {"dirac"}


def test_what_sympy_would_simplify_or_reorder_comes_back_as_it_was():
    x = sympy.Symbol("x", real=True)
    unusual = [
        sympy.Mul(2, sympy.Add(x, 1), evaluate=False),
        sympy.Add(x, sympy.Add(x, 1), evaluate=False),
        sympy.Pow(sympy.Pow(x, 2), sympy.Rational(1, 2), evaluate=False),
        sympy.tanh(-x, evaluate=False),
        sympy.Mul(x, 3, x, evaluate=False),
        functions.maximum(x, sympy.Integer(1), evaluate=False),
    ]

    @tp.program
    def plain(y: tp.Vector):
        return tp.tanh(y)

    entry = plain[1].body.args[0]
    for body in unusual:
        odd = plain.replace(instructions=(plain[0], dataclasses.replace(plain[1], body=_swapped(body, x, entry))))
        assert round_trip(odd)[1].body.args == odd[1].body.args


def _swapped(expr, old, new):
    if expr == old:
        return new
    return expr.func(*(_swapped(a, old, new) for a in expr.args), evaluate=False) if expr.args else expr


def test_exact_numbers():
    @tp.program
    def numbers(x: tp.Vector, a: tp.Scalar = 1e-300, *, γ=-1e300):
        c = tp.constant([5e-324, 1.7976931348623157e308, 0.1], axes="i")
        return x * 1e-308 + 12345678901234567890123 * tp.sum(c, over="i") + sympy.E - sympy.EulerGamma

    back = round_trip(numbers)
    assert back.arrays[0].values.tolist() == [5e-324, 1.7976931348623157e308, 0.1]


def test_data_as_indices_and_laws():
    back = round_trip(discrete)
    assert [s.law for s in back if isinstance(s, InitialVector)] == [
        s.law for s in discrete if s.width and not s.operands
    ]
    assert back[0].of == "vocab" and round_trip(backpropagation(discrete.bind(vocab=3, token=2)).program)
    old = json.loads(to_json(everything))
    assert not any({"of", "shape", "cut"} & s.keys() for s in old["instructions"]), "files of before are as they were"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"of": True}, "a name"),
        ({"of": ""}, "is not a name"),
        ({"shape": "cauchy"}, "this version reads 'normal', 'uniform', 'truncated'"),
        ({"shape": "truncated"}, "law|not legal"),
        ({"cut": ["0"]}, "law|not legal"),
        ({"std": ["-1"]}, "law|not legal"),
        ({"body": ["index token", "data 1 1", "entry 1 own 1"]}, "earlier instructions"),
        ({"body": ["index token", "data 0 1"]}, "functions|earlier"),
        ({"body": ["index token", "same"]}, "it takes 2 expressions"),
        ({"body": ["1", "2", "add 2", "3", "same"]}, "is not an index"),
    ],
)
def test_wrong_data_and_laws_in_files(change, what):
    document = json.loads(to_json(discrete))
    (key,) = change
    place = 0 if key == "of" else 1
    outer = next(s for s in document["instructions"] if s["kind"] == "outer")
    (outer if key == "body" else document["instructions"][place]).update(change)
    with pytest.raises(ProgramError, match=what):
        from_json(json.dumps(document))


def test_a_returned_number_and_a_program_without_arguments():
    @tp.program
    def number():
        return 3 * tp.sqrt(tp.n)

    @tp.program
    def pair(x: tp.Vector):
        return (x,)

    assert round_trip(number).arguments == () and round_trip(pair).returns_tuple


def kinds_of(cls):
    return [kind for c in cls.__subclasses__() for kind in kinds_of(c)] or [cls]


def test_every_field_of_every_instruction_is_written():
    programs = (everything, discrete, moving(mlp_of_data, {"c": lambda t: 1 + t})[0])
    written = {key for program in programs for s in json.loads(to_json(program))["instructions"] for key in s}
    renamed = {"law": "mean", "matrix_indices": "indices", "slots": "slot_widths"}
    for cls in kinds_of(Instruction):
        for field in dataclasses.fields(cls):
            assert field.name == "line" or renamed.get(field.name, field.name) in written, (cls, field.name)
    of_roles = {"state", "parts", "inputs"}  # of blocks and networks
    of_print = {"functions"}  # names of a script's own functions: a file holds what they are
    unread = {"docstring", "written_out"}  # nothing that is computed reads them
    named = {f.name for f in dataclasses.fields(Program)} - of_roles - of_print - unread
    assert named < json.loads(to_json(everything)).keys()


def test_source_lines_are_not_kept():
    assert "test_serial" in everything.where(0) and "test_serial" not in from_json(to_json(everything)).where(0)


# -- what cannot be written ---------------------------------------------------------------------


def test_only_programs_are_written_and_only_text_is_read():
    with pytest.raises(ProgramError, match="to_json of a value of type int; it takes a program"):
        to_json(3)
    with pytest.raises(ProgramError, match="from_json of a value of type bytes; it takes text"):
        from_json(b"{}")


def test_programs_beyond_the_limits_are_not_written():
    @tp.program
    def huge(x: tp.Vector):
        return x * sympy.Integer(7) ** 9000

    with pytest.raises(ProgramError, match=r"instruction 2 `return` .*4000 digits or more cannot be written; round it"):
        to_json(huge)

    @tp.program
    def steep(x: tp.Vector):
        return x**20_000

    with pytest.raises(ProgramError, match="the exponent '20000'; use one of at most 10000"):
        to_json(steep)


# -- what cannot be read ----------------------------------------------------------------------


DOCUMENT = json.loads(to_json(mlp))
FULL = json.loads(to_json(everything))


def altered(path, value, document=DOCUMENT):
    """The document with one place changed; a path ends in a key or an index."""
    found = place = copy.copy(document)
    for key in path[:-1]:
        place[key] = copy.copy(place[key])
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(found)


def test_the_unaltered_documents_are_read():
    assert from_json(json.dumps(DOCUMENT)) == mlp
    assert from_json(json.dumps(FULL)) == everything


LIST = "instructions"
BODY = (LIST, 3, "body")
NOT_LEGAL = "is not legal: expected that "
ALTERATIONS = [
    # the frame
    (("format",), "other", r"the file, format: it is 'other'; this version reads 'tplimits program'"),
    (("version",), "2", r"the file, version: it is '2'; this version reads '1'"),
    (("version",), KeyError, "the file: the field 'version' is missing; it holds a word"),
    (("extra",), "1", "the file: the unknown field 'extra'; remove it"),
    (("name",), ["p"], r"the file, name: it is \['p'\]; it must be a name"),
    (("name",), "", "the file, name: '' is not a name"),
    (("name",), "a\u001b[2Jb", r"the file, name: 'a\\x1b\[2Jb' is not a name"),
    (("name",), "\ud800", r"'\\ud800' is not a name"),
    (("name",), "x" * 300, "names are printable strings of at most 200 characters"),
    (("widths",), [], NOT_LEGAL + "n is a width"),
    (("widths",), ["n", "n"], "different identifiers"),
    (("widths",), ["n", "k l"], "different identifiers"),
    (("widths",), "n", "the file, widths: it is 'n'; it must be a list"),
    (("widths",), ["n", "γ"], "widths, axes and constants are different identifiers"),
    (("constants",), {"γ": "1/2"}, "the file, constants, γ: it is '1/2'; it must be a list of words"),
    (("constants",), {"γ": []}, "the file, constants, γ: it leaves 0 expressions"),
    (("constants",), {"γ": ["entry 0 none 0"]}, "defaults of constants are finite real numbers"),
    (("constants",), {"γ": ["constant δ"]}, "defaults of constants are finite real numbers"),
    (("constants",), {}, "its symbols are constants, widths or sizes of the program"),
    (("sizes",), {"a": "0"}, "sizes are positive whole numbers"),
    (("sizes",), {"a": "-1"}, "sizes are positive whole numbers"),
    (("sizes",), {"a": "2.5"}, "the file, sizes, a: '2.5' is not a whole number"),
    (("sizes",), {"a": "9" * 30}, "is not a whole number; write it as a string"),
    (("sizes",), {"a b": "2"}, "different identifiers"),
    (("size_of",), {"a": "b", "b": "a"}, "no axis shares its size with itself"),
    (("size_of",), {"a": "a"}, "no axis shares its size with itself"),
    (("size_of",), {"a": 1.0}, "the bare number '1.0'"),
    (
        ("arrays",),
        [{"axes": [], "shape": [], "values": ["0.5"]}],
        "array 1: '0.5' is not a hexadecimal float|is not a hex",
    ),
    (("arrays",), [{"axes": [], "shape": [], "values": ["nan"]}], "is not a hexadecimal float; write it as float.hex"),
    (("arrays",), [{"axes": [], "shape": [], "values": ["0x1.0p+5000"]}], "is beyond double precision"),
    (("arrays",), [{"axes": ["a"], "shape": ["2"], "values": ["0x1.0p+0"]}], r"array 1: 1 values for the shape \(2,\)"),
    (("arrays",), [{"axes": ["a"], "shape": ["1"], "values": ["0x1.0p+0"]}], "as long as their axes"),
    (("arrays",), [{"axes": ["a"], "shape": ["0"], "values": []}], "array 1: 0 values for the shape"),
    (("arrays",), [{"axes": ["a"], "shape": ["-1"], "values": []}], "array 1: 0 values for the shape"),
    (("arrays",), [{"axes": ["a"], "shape": ["1" + "0" * 17, "0"], "values": []}], "array 1: 0 values for the shape"),
    (("tables",), [{"axes": ["a"], "shape": ["1"], "values": ["-2"]}], "'-2' is not a whole number"),
    (("tables",), [{"axes": ["a"], "shape": ["1"], "values": ["0"]}], "as long as their axes"),
    (("tables",), ["x"], "table 1: it is 'x'; it must be an object"),
    (("names", "h"), "99", "names point at its instructions"),
    (("names", "h"), "-1", "names point at its instructions"),
    (("names", ""), "0", "'' is not a name"),
    (("returns",), [], "it returns some of its instructions"),
    (("returns",), ["99"], "it returns some of its instructions"),
    (("returns",), ["0"], "it returns vectors and scalars"),
    (("returns",), ["1", "2"], "it returns one value, or a tuple"),
    (("returns",), "7", "the file, returns: it is '7'; it must be a list"),
    (("arguments",), ["2"], "its arguments are initial data"),
    (("arguments",), ["0", "0"], "its arguments are initial data"),
    (("arguments",), ["١"], "'١' is not a whole number"),
    (("returns_tuple",), "yes", "the file, returns_tuple: it is 'yes'; it must be true or false"),
    # instructions
    ((LIST,), {}, "the file, instructions: it is {}; it must be a list of objects"),
    ((LIST, 0), [], r"instruction 1: it is \[\]; it must be an object"),
    ((LIST, 0, "kind"), "weights", "instruction 1, kind: it is 'weights'; this version reads 'matrix', 'vector'"),
    ((LIST, 0, "kind"), "vector", "instruction 1: the field 'over' is missing"),
    (
        (LIST, 0, "rows"),
        "k",
        r"instruction 1 `W` \(no source line\) is not a legal InitialMatrix: .* widths of the program",
    ),
    ((LIST, 0, "rows"), KeyError, "instruction 1: the field 'rows' is missing; it holds a name"),
    ((LIST, 0, "columns"), None, "instruction 1, columns: it is None; it must be a name"),
    ((LIST, 0, "transposed"), True, "instruction 1: the unknown field 'transposed'"),
    ((LIST, 0, "name"), "x", "instructions have different printable names"),
    ((LIST, 1, "axes"), ["a", "a"], "its axes differ from one another"),
    ((LIST, 1, "axes"), ["n"], "widths, axes and constants are different identifiers"),
    ((LIST, 1, "axes"), ["a"], "instruction 3 `h` .* all indices exist"),
    ((LIST, 1, "over"), "k", "it lives on a width of the program"),
    ((LIST, 1, "std"), ["-1"], "a finite, non-negative standard deviation"),
    ((LIST, 1, "std"), ["constant δ"], "a finite, non-negative standard deviation"),
    ((LIST, 1, "mean"), ["1", "0", "-1", "pow", "mul 2"], "word 4, 'pow': it is not a finite real number"),
    ((LIST, 2, "matrix"), "1", "instruction 3 `h` .* is not a legal MatMul"),
    ((LIST, 2, "matrix"), "5", "is not a legal MatMul: expected that the matrix takes vectors"),
    ((LIST, 2, "matrix"), "-1", "is not a legal MatMul"),
    ((LIST, 2, "operand"), ["entry 0 own 0"], "is not a legal MatMul"),
    ((LIST, 2, "operand"), ["entry 2 own 0"], "is not a legal MatMul"),
    ((LIST, 2, "operand"), ["entry 1 none 0"], "is not a legal MatMul"),
    ((LIST, 2, "operand"), ["1"], "instruction 3, operand: it is '1'; it must be one entry of an instruction"),
    ((LIST, 2, "indices"), [["0"]], "all indices exist"),
    ((LIST, 2, "indices"), ["0"], "instruction 3, indices: it is '0'; it must be a list of words"),
    ((LIST, 2, "transposed"), "false", "instruction 3, transposed: it is 'false'; it must be true or false"),
    # bodies
    (BODY, "x", "instruction 4, body: it is 'x'; it must be a list of words"),
    (BODY, [], "instruction 4, body: it leaves 0 expressions; a postfix list leaves exactly one"),
    (BODY, ["1", "2"], "it leaves 2 expressions"),
    (BODY, [["1"]], r"instruction 4, body: word 1 is \['1'\]; words are strings"),
    (BODY, [None], "word 1 is None; words are strings"),
    (BODY, ["add 2"], "word 1, 'add 2': it takes 2 expressions, but 0 stand before it; write operands first"),
    (BODY, ["1", "add 1000000"], "it takes 1000000 expressions, but 1 stand before it"),
    (BODY, ["1", "add -1"], "'-1' is not a count"),
    (BODY, ["1", "add 0"], "a sum or product of nothing; write 0 or 1"),
    (BODY, ["1", "add"], "it has the wrong number of parts; write `add 3`"),
    (BODY, ["1", "tanh 1"], "it has the wrong number of parts"),
    (
        BODY,
        ["entry 2 own 0", "eval"],
        "word 2, 'eval': there is no such word; use a number, a leaf or one of the heads add",
    ),
    (BODY, ["__import__('os').system('true')"], "there is no such word"),
    (BODY, ["Symbol('x')"], "there is no such word"),
    (BODY, ["held add 2"], "there is no such word"),
    (BODY, [""], "word 1, '': there is no such word"),
    (BODY, ["1.5"], "there is no such word"),
    (BODY, ["nan"], "there is no such word"),
    (BODY, ["oo"], "there is no such word"),
    (BODY, ["I"], "there is no such word"),
    (BODY, ["1/0"], "there is no such word"),
    (BODY, ["01"], "there is no such word"),
    (BODY, ["１"], "there is no such word"),
    (BODY, ["9" * 4001], "a number of more than 4000 digits; round it"),
    (BODY, ["entry 3 own 0"], "instruction 4 .* reads entries of earlier instructions"),
    (BODY, ["entry 9 own 0"], "reads entries of earlier instructions"),
    (BODY, ["entry -1 own 0"], "'-1' is not a count"),
    (BODY, ["entry 0 own 0"], "reads entries of earlier instructions"),
    (BODY, ["entry 2 none 0"], "reads entries of earlier instructions"),
    (BODY, ["entry 2 1 0"], "there is no such word"),
    (BODY, ["entry 2 own"], "there is no such word"),
    (BODY, ["0", "entry 2 own 1"], "reads entries of earlier instructions at existing indices"),
    (BODY, ["entry 2 own 0", "entry 2 own 1"], "is not an index; indices are numbers"),
    (BODY, ["index a"], "symbols are constants|existing indices"),
    (BODY, ["array 0 0"], "existing indices"),
    (BODY, ["lookup 0 0"], "its functions are those of"),
    (BODY, ["constant δ"], "its symbols are constants, widths or sizes of the program"),
    (BODY, ["width k"], "its symbols are constants, widths or sizes"),
    (BODY, ["size a"], "its symbols are constants, widths or sizes"),
    (BODY, ["normal g"], "its symbols are constants, widths or sizes"),
    (BODY, ["constant "], "there is no such word"),
    (BODY, ["constant γ", "mean γ"], "its symbols are constants, widths or sizes"),
    (BODY, ["entry 2 own 0", "mean g"], "existing indices"),
    (BODY, ["entry 2 own 0", "sum a a′1"], "existing indices"),
    (BODY, ["width n", "2", "1/2", "pow", "pow"], "widths stand to rational powers"),
    (BODY, ["width n", "exp"], "widths stand to rational powers"),
    (BODY, ["2", "2", "1000000000", "pow", "pow"], "the exponent '1000000000'; use one of at most 10000"),
    (BODY, ["entry 2 own 0", "1000000000", "pow"], "the exponent '1000000000'"),
    (BODY, ["3", "entry 2 own 0", "mul 2", "10000", "pow", "10000", "pow"], "multiplied out, its numbers would have"),
    (BODY, ["1000000000", "2", "entry 2 own 0", "mul 2", "log", "mul 2", "exp"], "the exponent '1000000000'"),
    (BODY, ["10", "exp", "exp", "exp"], "a constant too large or too small"),
    (BODY, ["10", "exp", "10", "exp", "pow"], "a constant too large or too small"),
    (BODY, ["-1", "1/2", "pow"], "it is not a finite real number"),
    (BODY, ["-1", "1/3", "pow"], "it is not a finite real number"),
    (BODY, ["-2", "log"], "it is not a finite real number"),
    (BODY, ["0", "log"], "it is not a finite real number"),
    (BODY, ["2", "asin"], "it is not a finite real number"),
    (BODY, ["0", "-1", "pow"], "a division by zero"),
    (BODY, ["0", "dirac"], "it is not a finite real number"),
    (BODY, ["2", "1/2", "pow", "-1", "2", "1/2", "pow", "mul 2", "add 2", "step"], "constants that cancel"),
    (BODY, ["entry 2 own 0"] + ["tanh"] * 200, "more than 100 levels of nesting; split the body into instructions"),
    (BODY, ["1"] * 20_001, "it has 20001 words; split the body"),
]


@pytest.mark.parametrize(("path", "value", "words"), ALTERATIONS)
def test_an_altered_file_is_refused(path, value, words):
    with pytest.raises(ProgramError, match=words) as caught:
        from_json(altered(path, value))
    assert str(caught.value).isprintable()


TABLE = next(i for i, s in enumerate(FULL[LIST]) if any("lookup" in word for word in s.get("body", ())))
FULL_ALTERATIONS = [
    (
        (LIST, TABLE, "body"),
        ["index tap", "index pos", "lookup 0 2", "index pos", "lookup 0 2", "entry 9 own 1"],
        "existing indices",
    ),
    ((LIST, TABLE, "body"), ["index tap", "lookup 0 1", "entry 9 own 1"], "existing indices"),
    ((LIST, TABLE, "body"), ["index tap", "index pos", "lookup 7 2", "entry 9 own 1"], "existing indices"),
    (("tables", 0, "values"), ["-1", "0", "1", "x"], "table 1, values: 'x' is not a whole number"),
    (("tables", 0, "axes"), ["tap", "tap"], "look-up tables hold indices or -1 and are as long as their axes"),
    (("arrays", 0, "axes"), ["token"], "constant arrays hold finite numbers and are as long as their axes"),
    (("sizes", "tap"), "3", "constant arrays hold finite numbers and are as long as their axes"),
    (("sizes", "token"), "2", "existing indices"),
    ((LIST, 1, "axes"), [], "all indices exist"),
]


@pytest.mark.parametrize(("path", "value", "words"), FULL_ALTERATIONS)
def test_an_altered_file_with_tables_is_refused(path, value, words):
    with pytest.raises(ProgramError, match=words):
        from_json(altered(path, value, FULL))


def test_slots_are_checked():
    place = next(i for i, s in enumerate(FULL[LIST]) if s.get("slot_widths"))
    for path, value, words in [
        ((LIST, place, "slot_widths"), ["n", "n"], "there is no such word"),
        ((LIST, place, "slot_widths"), ["n", "n", "m"], "its averaged indices are β1, β2, ... on widths"),
        ((LIST, place, "slot_widths"), ["n", "n", "n"], "existing indices"),
        ((LIST, place, "slot_names"), ["β"], "its averaged indices are β1, β2"),
        ((LIST, place, "slot_names"), ["β", "", "δ"], "'' is not a name"),
    ]:
        with pytest.raises(ProgramError, match=words):
            from_json(altered(path, value, FULL))


def test_removing_any_field_is_refused():
    for document in (DOCUMENT, FULL):
        for key in document:
            with pytest.raises(ProgramError, match="is missing"):
                from_json(altered((key,), KeyError, document))
        for i, s in enumerate(document[LIST]):
            for key in s:
                with pytest.raises(ProgramError, match="is missing"):
                    from_json(altered((LIST, i, key), KeyError, document))


WRONG = [None, True, [], {}, "", "x", ["x"], [["x"]], [None], {"x": None}, "-1", "٣", ["9" * 5000], "1" * 30]


@pytest.mark.long
def test_a_wrong_type_anywhere_is_a_program_error():
    for document in (DOCUMENT, FULL, json.loads(to_json(discrete))):
        for path in _places(document):
            for value in WRONG:
                try:
                    from_json(altered(path, value, document))
                except ProgramError as error:
                    assert str(error)


def _places(node, path=()):
    """Every sixth place of a document, so that the sweep stays short."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for number, (key, value) in enumerate(items):
        if len(path) < 2 or number % 6 == 0:
            yield (*path, key)
        yield from _places(value, (*path, key))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is not JSON: line 1, column 1"),
        ("{", "the file is not JSON"),
        ("[]", r"the file: it is \[\]; it must be an object"),
        ('"x"', "the file: it is 'x'; it must be an object"),
        ("null", "the file: it is None"),
        ('{"a": 1}', "the bare number '1'; integers are strings"),
        ('{"a": 1.5}', "the bare number '1.5'"),
        ('{"a": NaN}', "the bare number 'NaN'"),
        ('{"a": -Infinity}', "the bare number '-Infinity'"),
        ('{"a": ' + "9" * 10_000 + "}", "the bare number '999"),
        ('{"a": "1", "a": "2"}', "the key 'a' stands twice in one object; keep one of the two"),
        ('{"a": {"b": [], "b": []}}', "the key 'b' stands twice"),
        ("{'a': 'b'}", "the file is not JSON: line 1, column 2"),
        ('{"a": "\x00"}', "the file is not JSON"),
        ('{"a": eval}', "the file is not JSON"),
        ("\ufeff{}", "the file is not JSON"),
    ],
)
def test_text_that_is_no_program(text, words):
    with pytest.raises(ProgramError, match=words):
        from_json(text)


def instructions(count, body):
    first = {"kind": "scalar", "name": "s", "axes": [], "value": None}
    rest = [{"kind": "nonlin", "name": f"y{i}", "axes": [], "body": body} for i in range(count)]
    fields = {**DOCUMENT, "constants": {}, "names": {}, "arguments": ["0"], "returns": ["0"]}
    return json.dumps({**fields, LIST: [first, *rest]})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: "[" * 10_000 + "]" * 10_000, "more than 8 levels of nesting; a program file is flat"),
        (lambda: "[" * 1_000_000, "more than 8 levels of nesting"),
        (lambda: '{"a":' * 100_000, "more than 8 levels of nesting"),
        (lambda: '"' * 1_500_000, "not JSON"),
        (lambda: '"' + '\\"' * 900_000, "not JSON"),
        (lambda: "[" + ",".join(['"ab"'] * 1_100_000) + "]", "more than 1000000 entries"),
        (lambda: " " * (1 << 25) + "{}", "33554434 characters; at most 33554432 are read"),
        (lambda: instructions(100_000, ["1"]), "it has 100001 members; at most 20000 are read"),
        (lambda: instructions(19_000, ["entry 0 none 0", "tanh"] * 6), "leaves 6 expressions"),
        (lambda: instructions(19_000, ["entry 0 none 0"] + ["tanh"] * 11), "more than 200000 words; split the program"),
    ],
)
def test_large_and_deep_text_is_refused_quickly(make, words):
    text = make()
    start = time.process_time()
    with pytest.raises(ProgramError, match=words):
        from_json(text)
    assert time.process_time() - start < 10


def test_many_instructions_are_read_quickly():
    start = time.process_time()
    assert len(from_json(instructions(3000, ["entry 0 none 0", "tanh", "1/3", "mul 2"]))) == 3001
    assert time.process_time() - start < 10


def many(**changed):
    """A program of one vector, many maps of it, and many names."""
    first = {"kind": "vector", "name": "x", "axes": changed.pop("axes", []), "over": "n", "mean": ["0"], "std": ["1"]}
    bodies = changed.pop("bodies", [])
    slots = {"slot_names": [], "slot_widths": [], "over": "n"}
    rest = [{"kind": "outer", "name": f"y{i}", "axes": [], **slots, "body": body} for i, body in enumerate(bodies)]
    empty = {"widths": ["n"], "constants": {}, "sizes": {}, "size_of": {}, "arrays": [], "tables": [], "names": {}}
    fields = {**DOCUMENT, **empty, "arguments": [], "returns": ["0"], "returns_tuple": False}
    return json.dumps({**fields, **changed, LIST: [first, *rest]})


WIDE = ["n", *(f"k{i}" for i in range(9000))]
LONG = 3000


@pytest.mark.long
@pytest.mark.parametrize(
    "make",
    [
        lambda: many(widths=WIDE, bodies=[["entry 0 own 0", f"width k{i}", "mul 2"] for i in range(LONG)]),
        lambda: many(
            constants={f"c{i}": None for i in range(LONG)},
            bodies=[["entry 0 own 0", f"constant c{i}", "mul 2"] for i in range(LONG)],
        ),
        lambda: many(
            constants={f"c{i}": None for i in range(LONG)},
            bodies=[["normal g′1", f"constant c{i}", "mul 2", "mean g′1"] for i in range(LONG)],
        ),
        lambda: many(
            sizes={f"a{i}": "2" for i in range(LONG)},
            axes=["a0"],
            bodies=[["index a0′1", "entry 0 own 1", "sum a0 a0′1"]] * LONG,
        ),
        lambda: many(
            size_of={f"a{i}": f"a{i + 1}" for i in range(LONG)},
            axes=["a0"],
            bodies=[["index a0′1", "entry 0 own 1", f"sum a{i} a0′1"] for i in range(LONG)],
        ),
        lambda: many(
            sizes={"a": "400000"},
            tables=[{"axes": ["a"], "shape": ["400000"], "values": ["0"] * 400_000}],
            axes=["a"],
            bodies=[["index a′1", "lookup 0 1", "entry 0 own 1", "sum a a′1"]] * LONG,
        ),
    ],
    ids=["widths", "constants", "means", "sizes", "shared sizes", "look-ups"],
)
def test_many_names_are_read_written_and_printed_quickly(make):
    start = time.process_time()
    program = from_json(make())
    assert from_json(to_json(program)) == program
    assert len(repr(program).splitlines()) == LONG + 3 + len(program.tables)
    assert len(program.graph) == LONG + 1
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: many(widths=[*WIDE, *"abcdefgh", *(f"l{i}" for i in range(1000))]), "widths: it has 10009 members"),
        (lambda: many(constants={f"c{i}": None for i in range(10_001)}), "constants: it has 10001 members"),
        (lambda: many(sizes={f"a{i}": "1" for i in range(10_001)}), "sizes: it has 10001 members; at most 10000"),
        (
            lambda: many(sizes={f"a{i}": "1" for i in range(9000)}, size_of={f"b{i}": "a0" for i in range(9000)}),
            "axes: it has 18000 members; at most 10000 are read",
        ),
        (lambda: many(axes=[f"a{i}" for i in range(33)]), "axes: it has 33 members; at most 32 are read"),
        (lambda: many(size_of={f"a{i}": f"a{(i + 1) % LONG}" for i in range(LONG)}), "no axis shares its size"),
    ],
)
def test_too_many_names_are_refused(make, words):
    with pytest.raises(ProgramError, match=words):
        from_json(make())


def test_long_lines_of_a_print_out_do_not_widen_the_others():
    long = [word for i in range(400) for word in ("entry 0 own 0", str(i + 2), "mul 2", "tanh")]
    text = repr(from_json(many(bodies=[[*long, "add 400"], *([["entry 0 own 0", "tanh"]] * 100)])))
    assert len(text.splitlines()[2]) > 4000 and max(map(len, text.splitlines()[3:])) < 100


def test_nothing_in_the_reader_evaluates_text():
    for module in (fields, postfix, serial):
        source = Path(module.__file__).read_text()
        assert not re.search(
            r"(?<!re\.)\b(eval|exec|compile|sympify|parse_expr|S\(|__import__|pickle|getattr\(functions)\b", source
        )


def test_tables_of_every_shape():
    @tp.program
    def shapes(x: tp.Vector["a", "b"]):
        c = tp.constant(np.arange(6.0).reshape(2, 3), axes=("a", "b"))
        return tp.sum(c * x.take(a=np.array([[[0, 1], [-1, 0]]]), axes=("i", "j", "l")), over=("a", "b", "i", "j", "l"))

    assert round_trip(shapes).arrays == (IndexTable(np.arange(6.0).reshape(2, 3), ("a", "b")),)
