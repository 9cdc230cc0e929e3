"""The command line: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import numpy
import pytest

import tplimits as tp
from tplimits import cli, zoo
from tplimits.commands import limits
from tplimits.commands.loading import load

FILE = """
import tplimits as tp

@tp.program
def net(W: tp.Matrix["k", "n"], x: tp.Vector["token"], c: tp.Scalar["token"], *, γ):
    return tp.avg(tp.relu(W @ (x * c)) * γ)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own for every test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "user.py").write_text(FILE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(capsys):
    """Runs a command: (status, what it printed, what it said on the error stream)."""

    def running(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return running


def fails(run, *arguments: str, status: int = 2) -> str:
    """The one line of a command that ends in an error of the user."""
    found, out, err = run(*arguments)
    assert found == status and out == ""
    assert err.startswith("tplimits: ") and err.count("\n") == 1
    return err


# -- zoo ------------------------------------------------------------------------------------------


def test_zoo_lists_programs_then_networks_in_aligned_columns(run):
    status, out, _ = run("zoo")
    assert status == 0
    programs, networks = (part.splitlines() for part in out.split("\n\n"))
    for lines, second, names in ((programs, "program", zoo.PROGRAMS), (networks, "network", zoo.NETWORKS)):
        assert [line.split()[0] for line in lines] == ["name", *names]
        start = lines[0].index(second)
        assert all(line[start - 1] == " " and line[start] != " " for line in lines)


def test_zoo_in_a_terminal_is_a_table(run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, out, _ = run("zoo")
    assert "━" in out and "\x1b[1m" in out


# -- derive ---------------------------------------------------------------------------------------


def test_derive_prints_program_and_limit(run):
    status, out, err = run("derive", "tied_relu")
    limit = tp.derive(zoo.get("tied_relu").program)
    assert (status, err) == (0, "")
    assert out == f"{limit.program!r}\n\n{limit!r}\n"


def test_derive_with_steps(run):
    _, out, _ = run("derive", "tied_relu", "--steps")
    assert "Eq. (2.19)" in out
    assert re.search(r"^  1  \|x⟩ ~ N\(0, 1\)$", out, re.MULTILINE)


def test_derive_writes_latex_html_and_json(run, folder):
    status, _, err = run("derive", "tied_relu", "--latex", "a.tex", "--html", "a.html", "--json", "a.json")
    assert (status, err) == (0, "wrote a.tex\nwrote a.html\nwrote a.json\n")
    assert (folder / "a.tex").read_text().startswith("\\begin{align*}")
    assert "<math" in (folder / "a.html").read_text(encoding="utf-8")
    assert json.loads((folder / "a.json").read_text(encoding="utf-8"))["program"]["name"] == "tied_relu"
    assert {*os.listdir(folder)} - {"__pycache__"} == {"a.html", "a.json", "a.tex", "user.py"}


def test_a_report_is_a_target_again(run):
    _, first, _ = run("derive", "tied_relu", "--json", "a.json")
    _, again, _ = run("derive", "a.json")
    assert first == again


def test_sizes_and_constants_of_a_program_in_a_file(run):
    status, out, _ = run("derive", "user.py:net", "--size", "token=2", "--set", "γ=1/3")
    assert status == 0
    assert "return[token=1] → " in out and "γ" not in out.split("returns")[1]


# -- evaluate -------------------------------------------------------------------------------------


def test_evaluate_prints_numbers_with_errors(run):
    status, out, _ = run("evaluate", "tied_tanh")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert lines[0] == ["quantity", "value", "error", "method"]
    assert lines[1][0] == "return[0]" and float(lines[1][1]) == pytest.approx(0.6057055096, abs=1e-9)
    assert lines[1][-1] == "quadrature"


def test_evaluate_takes_sizes_constants_scalars_and_ratios(run):
    arguments = ("--size", "token=2", "--set", "γ=0.5", "--set", "c=1,-2", "--ratio", "k=3")
    _, out, _ = run("evaluate", "user.py:net", *arguments)
    values = [float(line.split()[1]) for line in out.splitlines()[1:]]
    mean = 0.5 / (2 * 3.141592653589793) ** 0.5
    assert values == pytest.approx([mean, 2 * mean])


def test_evaluate_shows_variances_of_what_stays_random(run):
    _, out, _ = run("evaluate", "attention_logits")
    assert out.splitlines()[0].split()[-1] == "variance"
    assert {line.split()[-1] for line in out.splitlines()[1:]} == {"4"}


def test_evaluate_by_particles_repeats_with_its_seed(run):
    arguments = ("evaluate", "tied_tanh", "--method", "particles", "--particles", "256", "--replicates", "2")
    _, first, _ = run(*arguments, "--seed", "5")
    _, again, _ = run(*arguments, "--seed", "5")
    _, other, _ = run(*arguments, "--seed", "6")
    assert first == again != other


def test_evaluate_writes_json(run, folder):
    run("evaluate", "two_widths", "--ratio", "k=2", "--json", "a.json")
    found = json.loads((folder / "a.json").read_text())
    assert [v["value"] for v in found["values"].values()] == [1.0, 2.0]


# -- check ----------------------------------------------------------------------------------------


@pytest.mark.sampling
def test_check_accepts_the_limit_and_draws_it(run, folder):
    status, out, err = run("check", "matched_product", "--seed", "7", "--plot", "a.png")
    assert (status, err) == (0, "wrote a.png\n")
    assert out.startswith("Accepted by the intercept")
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.sampling
def test_check_rejects_a_wrong_claim_with_status_1(run):
    status, out, _ = run("check", "matched_product", "--claim", "return=0.9", "--seed", "7")
    assert status == 1
    assert out.startswith("Rejected by the intercept")


@pytest.mark.sampling
def test_check_takes_widths_draws_and_level(run):
    options = ("--widths", "16,32,64", "--draws", "400,200,100", "--level", "0.001", "--seed", "1")
    _, out, _ = run("check", "matched_product", *options)
    assert "at level 0.001" in out
    assert "draws at width 16: 400, 32: 200, 64: 100" in out


@pytest.mark.sampling
def test_check_shows_no_progress_in_a_pipe(run):
    assert run("check", "matched_product", "--draws", "50")[2] == ""


@pytest.mark.long
@pytest.mark.parametrize("command", [("evaluate", "tied_relu"), ("derive", "tied_relu")])
def test_json_goes_down_a_pipe(command):
    done = subprocess.run(
        [sys.executable, "-m", "tplimits", *command, "--json", "/dev/stdout"], capture_output=True, check=True
    )
    assert json.loads(done.stdout[done.stdout.index(b"\n{\n") :])["tplimits"] == tp.__version__


def test_a_full_device_is_named(run):
    status, _, err = run("derive", "tied_relu", "--latex", "/dev/full")
    assert status == 2 and err == "tplimits: /dev/full: No space left on device.\n"


# -- errors of the user ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("derive", "tied_reul"), "near names are tied_relu"),
        (("derive", "missing.json"), "missing.json: No such file or directory."),
        (("derive", "missing.py:f"), "missing.py: No such file or directory."),
        (("derive", "user.py:nett"), "its programs include net"),
        (("derive", "user.py:net"), "the axis `token` of `net` has no size: add --size token=3"),
        (("derive", "user.py:net", "--size", "tokn=2"), "axes and constants"),
        (("derive", "user.py:net", "--size", "token"), "write --size NAME=VALUE"),
        (
            ("derive", "tied_relu", "--regime", "nonsense"),
            "this version knows the regimes width, finite-width, depth, kernels, feature, operator",
        ),
        (("derive", "tied_relu", "--regime", "kernels"), "is no network"),
        (("derive", "tied_relu", "--infinite", "head"), "--regime kernels"),
        (("derive", "mlp"), "tplimits derive --regime kernels"),
        (("derive", "transformer_blok"), "near names are transformer_block"),
        (("derive", "mlp", "--regime", "maximal", "--optimizer", "adm"), "the optimizers are sgd, signsgd, adam"),
        (("derive", "mlp", "--regime", "maximal", "--optimizer", "adam:ep=1"), "`ep` is none of adam's β1, β2, eps"),
        (("derive", "mlp", "--regime", "maximal", "--infinite", "d"), "--regime kernels or --regime operator"),
        (("derive", "mlp", "--regime", "tangent", "--train", "v"), "--train goes with --regime kernels"),
        (("derive", "mlp", "--regime", "tangent", "--weight-decay", "2"), "a step keeps 1 − weight_decay"),
        (("classify", "2", "--weight-decay", "nan"), "--weight-decay=nan: give a number of 0 or more"),
        (("classify", "2", "--weight-decay", "-1"), "--weight-decay=-1.0: give a number of 0 or more"),
        (
            ("derive", "mlp", "--regime", "kernels", "--weight-decay", "0.1"),
            "--weight-decay goes with --regime feature",
        ),
        (
            ("evaluate", "mlp", "--regime", "depth"),
            "numbers are those of width, finite-width, kernels, feature, operator",
        ),
        (("evaluate", "mlp", "--lr", "1"), "--lr goes with --regime feature or --regime operator"),
        (("evaluate", "mlp", "--regime", "maximal"), "takes its inputs from --data FILE"),
        (("check", "mlp", "--regime", "tangent", "--data", "x.npy"), "add --targets FILE"),
        (("check", "mlp", "--regime", "tangent", "--data", "x.npy", "--targets", "y.npy"), "add --lr 0.1"),
        (
            ("check", "mlp", "--regime", "width", "--data", "x.npy"),
            "--data goes with --regime kernels or",
        ),
        (("classify", "mlp", "--parametrization", "npt"), "it is one of sp, ntp, mup and up:S"),
        (("classify", "mlp", "--parametrization", "up:2"), "s is between 0"),
        (("classify", "mlp", "--exponents", "W=1,2"), "W"),
        (("classify", "tied_relu"), "is no network"),
        (("evaluate", "mlp"), "with --data"),
        (("evaluate", "mlp", "--train", "v"), "--data FILE: one batch, or two"),
        (("check", "mlp"), "with --data"),
        (("check", "mlp", "--infinite", "d"), "--data FILE: one batch, or two"),
        (("derive", "tied_relu", "--latex", "missing/a.tex"), "missing: No such file or directory."),
        (("derive", "tied_relu", "--latex", "."), "Is a directory"),
        (("derive", "tied_relu", "--latex", "a", "--html", "./a"), "two outputs go to the same file"),
        (("derive", "tied_relu", "--nonsense"), "No such option"),
        (("derive",), "Missing argument"),
        (("nonsense",), "No such command"),
        (
            ("evaluate", "tied_tanh", "--method", "guess"),
            "give one of the words 'auto', 'exact', 'quadrature', 'particles'",
        ),
        (("evaluate", "tied_tanh", "--method", "exact"), "no closed form for return[0]"),
        (
            ("evaluate", "tied_tanh", "--set", "γ=1"),
            "--set γ=…: the constants and given scalars of `tied_tanh` are none",
        ),
        (
            ("evaluate", "user.py:net", "--size", "token=2", "--set", "q=1"),
            "--set q=…: the constants and given scalars",
        ),
        (("evaluate", "user.py:net", "--set", "c=1"), "add --size token=3"),
        (
            ("evaluate", "user.py:net", "--size", "token=1", "--set", "c=1"),
            "`γ` of `net` has no value: add --set γ=0.5",
        ),
        (
            ("check", "user.py:net", "--size", "token=1", "--set", "γ=1"),
            "the scalar `c` of `net` has no value: add --set c=",
        ),
        (("evaluate", "tied_tanh", "--set", "γ=one"), "'one' is not a number"),
        (("evaluate", "tied_tanh", "--set", "γ=nan"), "'nan' is not a number"),
        (("evaluate", "tied_tanh", "--set", "γ=1", "--set", "γ=2"), "`γ` is given twice"),
        (("evaluate", "tied_tanh", "--ratio", "k=2"), "k"),
        (("evaluate", "tied_tanh", "--seed", "-1"), "greater than or equal to 0"),
        (("evaluate", "tied_tanh", "--particles", "many"), "--particles"),
        (("check", "tied_tanh", "--widths", "64,x"), "whole numbers with commas"),
        (("check", "tied_tanh", "--widths", "64"), "needs at least 2 widths"),
        (("check", "tied_tanh", "--draws", "2"), "at least 8 draws"),
        (("check", "tied_tanh", "--level", "2"), "a probability between 0 and 1"),
        (("check", "tied_tanh", "--claim", "nothing=1"), "no observable `nothing`"),
        (("check", "tied_tanh", "--plot", "a.bmp"), "pictures are written as .png, .pdf, .svg"),
    ],
)
def test_errors_are_one_line_with_status_2(run, folder, arguments, words):
    assert words in fails(run, *arguments)
    assert {*os.listdir(folder)} - {"__pycache__"} == {"user.py"}


def test_a_limit_that_does_not_exist_is_told_in_one_line(run, folder):
    text = "import tplimits as tp\n@tp.program\ndef f(W: tp.Matrix, x: tp.Vector):\n    return tp.avg(1 / (W @ x))\n"
    (folder / "pole.py").write_text(text)
    assert "no finite second moment" in fails(run, "derive", "pole.py:f")


def test_a_picture_without_matplotlib_is_refused_before_any_work(run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'tplimits[plot]'" in fails(run, "check", "tied_tanh", "--plot", "a.png")


def test_a_defect_shows_its_traceback_and_has_a_status_of_its_own(run, monkeypatch):
    def defect(*_):
        raise ZeroDivisionError("of our own")

    monkeypatch.setattr(limits, "derive_limit", defect)
    status, _, err = run("derive", "tied_relu")
    assert status == 70
    assert "Traceback" in err and err.splitlines()[-1].startswith("tplimits: this is a defect")


# -- the process ----------------------------------------------------------------------------------


def test_help_and_version(run):
    assert run("--version") == (0, f"tplimits {tp.__version__}\n", "")
    for arguments in ((), ("--help",), ("check", "--help")):
        status, out, _ = run(*arguments)
        assert status == 0 and "Usage: tplimits" in out


def process(*arguments: str, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tplimits", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_interrupts_end_with_one_line_and_status_130(run, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(limits, "derive_limit", interrupted)
    assert fails(run, "derive", "tied_relu", status=130) == "tplimits: interrupted.\n"


@pytest.mark.long
def test_a_reader_that_leaves_ends_the_command_quietly():
    running = process("zoo")
    assert running.stdout is not None and running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.wait(timeout=60) == 141
    running.stderr.close()


@pytest.mark.long
def test_a_terminal_without_unicode_gets_escapes():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    out, err = process("derive", "tied_relu", env=environment).communicate(timeout=60)
    assert err == ""
    assert "n\\xd7n" in out


BLOCK = """
import tplimits as tp

@tp.block
def resnet(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ, λ):
    h = W @ x
    shaped = (1 + 1 / tp.sqrt(tp.n)) * tp.relu(h) - (1 - 1 / tp.sqrt(tp.n)) * tp.relu(-h)
    return λ * x + γ * (U @ shaped)
"""


def test_a_block_derives_in_the_proportional_regime(run, tmp_path):
    file = tmp_path / "layers.py"
    file.write_text(BLOCK, encoding="utf-8")
    proportional = ("derive", f"{file}:resnet", "--regime", "depth")
    status, out, _ = run(*proportional, "--set", "γ=3/5", "--set", "λ=4/5")
    assert status == 0
    assert "covariance SDE of resnet" in out
    assert "--regime depth" in fails(run, "derive", f"{file}:resnet")
    page, data = tmp_path / "a.html", tmp_path / "a.json"
    assert run(*proportional, "--set", "γ=3/5", "--set", "λ=4/5", "--html", str(page), "--json", str(data))[0] == 0
    assert "<math" in page.read_text(encoding="utf-8") and json.loads(data.read_text(encoding="utf-8"))["fixed"] == []
    assert run("derive", str(data), "--regime", "depth")[1] == out
    assert "--fixed goes with" in fails(run, "derive", "tied_relu", "--fixed", "k")


NETWORK = """
import tplimits as tp

@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    return v * tp.relu(W @ x)
"""


def test_kernels_of_a_network_print_go_to_files_and_become_numbers(run, folder):
    (folder / "nets.py").write_text(NETWORK, encoding="utf-8")
    files = ("--latex", "k.tex", "--html", "k.html", "--json", "k.json")
    status, out, _ = run("derive", "nets.py:mlp", "--regime", "kernels", "--steps", *files)
    assert status == 0
    assert "Θ(ξ,ξ′) = " in out and "[tangent kernel; Jacot" in out
    tex = (folder / "k.tex").read_text(encoding="ascii")
    assert tex.removeprefix("{\\allowdisplaybreaks\n").startswith("\\begin{align*}")
    page = (folder / "k.html").read_text(encoding="utf-8")
    assert "<title>Kernels of mlp</title>" in page and "<mtable" in page
    document = json.loads((folder / "k.json").read_text(encoding="utf-8"))
    assert document["trained"] == ["U", "W", "v"]
    assert document["recursion"][-1]["left"] == "Θ(ξ,ξ′)"

    X = numpy.random.default_rng(0).standard_normal((3, 4))
    numpy.save(folder / "x.npy", X)
    status, out, _ = run("evaluate", "k.json", "--data", "x.npy", "--json", "numbers.json")
    assert status == 0 and out.startswith("NNGP\n")
    found = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))["kernels"]
    limit = tp.derive(tp.from_json(json.dumps(document["program"])), tp.Kernels())
    nngp, ntk = limit.evaluate(X)
    assert numpy.array_equal(found["nngp"], nngp) and numpy.array_equal(found["ntk"], ntk)


@pytest.mark.parametrize(("regime", "start"), [("feature", "|x_t⟩"), ("operator", "f_{t+1} = f_t")])
@pytest.mark.parametrize("optimizer", ["sgd", "adam:eps=0.1", "adafactor:eps=0.1"])
def test_limits_of_training_go_to_files(regime, start, optimizer, run, folder):
    (folder / "nets.py").write_text(NETWORK, encoding="utf-8")
    asked = ("derive", "nets.py:mlp", "--regime", regime, "--optimizer", optimizer)
    status, out, _ = run(*asked, "--html", "t.html", "--json", "t.json")
    assert status == 0
    page = (folder / "t.html").read_text(encoding="utf-8")
    assert "<title>mlp in training</title>" in page
    formulas = re.findall(r"<math.*?</math>", page, re.DOTALL)
    assert len(formulas) >= 3 * 3
    for formula in formulas:
        ElementTree.fromstring(formula)  # refuses what is no XML
        assert not re.search(r"\\\\|[<>]&[<>]|\\[A-Za-z]", formula)
    document = json.loads((folder / "t.json").read_text(encoding="utf-8"))
    assert document["format"] == "tplimits training limit" and document["regime"] == regime
    assert set(document["optimizers"]) == {"U", "W", "v"}
    assert any(start in line for line in document["text"]) and "\n".join(document["text"]) in out
    assert len(document["steps"]) >= 3 and all(step["conclusion"] for step in document["steps"])
    status, again, _ = run("derive", "t.json", *asked[2:])  # the file stands for the program
    assert status == 0 and "\n".join(document["text"]) in again


def test_training_some_parameters_changes_what_is_printed(run, folder):
    (folder / "nets.py").write_text(NETWORK, encoding="utf-8")
    status, out, _ = run("derive", "nets.py:mlp", "--regime", "kernels", "--train", "v")
    assert status == 0 and "tangent kernel Θ of v" in out
    assert "`b` is no parameter" in fails(run, "derive", "nets.py:mlp", "--regime", "kernels", "--train", "b")


def test_networks_of_the_zoo_are_targets(run, folder):
    X = numpy.random.default_rng(0).standard_normal((2, 3, 3))
    numpy.save(folder / "x.npy", X)
    status, out, _ = run("derive", "many_heads", "--regime", "kernels")
    limit = tp.derive(zoo.get("many_heads").program, tp.Kernels(infinite=("head",)))
    assert status == 0 and out == f"{limit.program!r}\n\n{limit!r}\n"
    status, out, _ = run("evaluate", "many_heads", "--data", "x.npy", "--json", "k.json")
    found = json.loads((folder / "k.json").read_text(encoding="utf-8"))["kernels"]
    assert status == 0 and numpy.array_equal(found["ntk"], limit.evaluate(X).ntk)
    # a number of heads instead of infinitely many: a mixture
    assert "mixture" in fails(run, "evaluate", "many_heads", "--size", "head=2", "--data", "x.npy")


CONSTANTS = """
import tplimits as tp

@tp.network
def masked(ξ: tp.Input["d", "token"], m: tp.Input["token"], U: tp.Vector["d"], v: tp.Vector, s: tp.Scalar = 3, *, γ):
    x = tp.relu(γ * s * tp.sum(U * ξ, over="d"))
    return v * tp.sum(m * x, over="token")
"""


def test_kernels_of_several_inputs_with_constants_and_scalars(run, folder):
    (folder / "nets.py").write_text(CONSTANTS, encoding="utf-8")
    rng = numpy.random.default_rng(1)
    X = {"ξ": rng.standard_normal((2, 3, 4)), "m": numpy.array([[1.0, 1, 1, 1], [1, 1, 0, 0]])}
    numpy.savez(folder / "x.npz", **X)
    numbers = ("--set", "γ=1/2")
    status, _, _ = run("evaluate", "nets.py:masked", "--data", "x.npz", *numbers, "--json", "k.json")
    assert status == 0
    found = json.loads((folder / "k.json").read_text(encoding="utf-8"))["kernels"]
    # relu is homogeneous: both kernels are those of γ = 1, times γ²
    limit = tp.derive(load("nets.py:masked"), tp.Kernels())
    nngp, ntk = limit.evaluate(X, γ=1)
    assert numpy.allclose(found["nngp"], nngp / 4, rtol=1e-14)
    assert numpy.allclose(found["ntk"], ntk / 4, rtol=1e-14)
    assert "`γ` of `masked` has no value" in fails(run, "evaluate", "nets.py:masked", "--data", "x.npz")


@pytest.mark.long
@pytest.mark.sampling
def test_kernels_are_checked_between_the_inputs_of_files(run, folder):
    rng = numpy.random.default_rng(2)
    numpy.save(folder / "x.npy", rng.standard_normal((1, 3)))
    numpy.save(folder / "y.npy", rng.standard_normal((2, 3)))
    options = ("check", "mlp", "--data", "x.npy", "--data", "y.npy", "--widths", "32,64,128", "--draws", "200")
    status, out, _ = run(*options, "--level", "0.001")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[3:]] == ["K[0,0]", "K[0,1]", "Θ[0,0]", "Θ[0,1]"]
    status, out, _ = run(*options, "--claim", "Θ[0,1]=9")
    assert status == 1 and out.startswith("Rejected by the intercept")


def test_only_trained_parameters_move_in_a_check(run, folder):
    numpy.save(folder / "x.npy", numpy.eye(2)[:1])
    options = ("check", "mlp", "--data", "x.npy", "--train", "c", "--widths", "16,32", "--draws", "20")
    # f = … + c/4: Θ = 1/16 at every width
    status, out, _ = run(*options, "--claim", "Θ[0,0]=1/16")
    assert status == 0 and "0.0625 ± 0" in " ".join(out.split())
    assert run(*options, "--claim", "Θ[0,0]=0.07")[0] == 1


def test_data_that_is_no_array_is_told_in_a_line(run, folder):
    (folder / "nets.py").write_text(NETWORK, encoding="utf-8")
    (folder / "x.npy").write_text("not an array")
    assert "numpy.save" in fails(run, "evaluate", "nets.py:mlp", "--data", "x.npy")
    assert "No such file" in fails(run, "evaluate", "nets.py:mlp", "--data", "y.npy")
    assert "one batch" in fails(run, "evaluate", "nets.py:mlp", *(3 * ("--data", "x.npy")))
    (folder / "x.npz").write_bytes(b"PK\x03\x04 and no more")
    assert "numpy.savez" in fails(run, "evaluate", "nets.py:mlp", "--data", "x.npz")


# -- networks in training -------------------------------------------------------------------------

TRAINED = """
import tplimits as tp

@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))
"""
X = numpy.array([[0.9, -0.4], [-0.2, 1.3], [1.1, 0.8]])
Y = numpy.array([1.0, -0.8, numpy.nan])
ASKED = ("--data", "x.npy", "--targets", "y.npy", "--lr", "0.1", "--steps", "2", "--optimizer", "adam:eps=0.1")


@pytest.fixture
def trained(folder):
    """A network in a file, its data, targets with one input that is not trained on, and a start."""
    (folder / "nets.py").write_text(TRAINED, encoding="utf-8")
    for name, array in (("x", X), ("y", Y), ("start", numpy.zeros(3))):
        numpy.save(folder / f"{name}.npy", array)
    return load("nets.py:net")


def test_training_derives_with_an_optimizer(run, trained, folder):
    for regime, kind in (("feature", tp.MaximalUpdate), ("operator", tp.NeuralTangent)):
        options = ("--optimizer", "adam:eps=1/16,beta1=0.5", "--weight-decay", "0.25")
        status, out, _ = run("derive", "nets.py:net", "--regime", regime, *options, "--latex", "a.tex", "--steps")
        limit = tp.derive(trained, kind(tp.Adam(0.5, eps=Fraction(1, 16)), weight_decay=0.25))
        assert status == 0 and repr(limit) in out and str(limit.steps[-1]) in out
        assert (folder / "a.tex").read_text(encoding="utf-8") == limit.latex() + "\n"


@pytest.mark.long
def test_outputs_in_training_are_printed_written_and_go_on_from_a_file(run, trained, folder):
    signal = tp.squared_error(Y, train=[0, 1])
    for regime, kind, start in (
        ("feature", tp.MaximalUpdate, {}),
        ("operator", tp.NeuralTangent, {"f0": numpy.zeros(3)}),
    ):
        few = ("--particles", "256", "--replicates", "2", "--seed", "3")
        more = (*few, *(("--f0", "start.npy") if start else ()), "--json", "n.json", "--checkpoint", f"{regime}.npz")
        status, out, _ = run("evaluate", "nets.py:net", "--regime", regime, *ASKED, *more)
        assert status == 0
        limit = tp.derive(trained, kind(tp.Adam(eps=0.1)))
        found = limit.evaluate(X, error=signal, lr=0.1, steps=2, particles=256, replicates=2, seed=3, **start)
        lines = [line.split() for line in out.splitlines()]
        assert lines[0] == ["output", "value", "error"] and tuple(line[0] for line in lines[1:]) == found.labels
        assert [float(line[1]) for line in lines[1:]] == pytest.approx(found.f.ravel(), rel=1e-5)
        written = json.loads((folder / "n.json").read_text(encoding="utf-8"))["training"]
        assert numpy.array_equal(written["f"], found.f) and numpy.array_equal(written["stderr"], found.stderr)
        assert run("evaluate", "nets.py:net", "--regime", regime, *ASKED, *more)[1] == out
        assert "another run" in fails(run, "evaluate", "nets.py:net", "--regime", regime, *ASKED, *more, "--seed", "4")


def test_names_that_regimes_had_before_still_stand_for_them(run, trained):
    for now, before in (("feature", "maximal"), ("operator", "tangent")):
        assert run("derive", "nets.py:net", "--regime", before) == run("derive", "nets.py:net", "--regime", now)


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("regime", ["feature", "operator"])
def test_outputs_in_training_are_checked(run, trained, regime):
    options = ("check", "nets.py:net", "--regime", regime, *ASKED, "--widths", "16,32,64", "--draws", "400")
    status, out, _ = run(*options, "--level", "0.001")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[3:]] == [f"f[{t},{i}]" for t in (1, 2) for i in range(3)]
    status, out, _ = run(*options, "--claim", "f[2,0]=0.5")
    assert status == 1 and out.startswith("Rejected by the intercept")


def test_files_of_training_that_do_not_fit(run, trained, folder):
    options = ("evaluate", "nets.py:net", "--regime")
    assert "--f0 goes with --regime operator" in fails(run, *options, "feature", *ASKED, "--f0", "start.npy")
    numpy.save(folder / "y.npy", numpy.zeros(2))
    assert "targets have shape (2,)" in fails(run, *options, "maximal", *ASKED)
    numpy.save(folder / "y.npy", numpy.full(3, numpy.nan))
    assert "selects no input" in fails(run, *options, "maximal", *ASKED)
    for unfit in (numpy.array(["a", "b", "c"]), numpy.zeros((0, 2)), numpy.zeros(0), numpy.array(1.0)):
        numpy.save(folder / "y.npy", unfit)
        assert "targets are an array of numbers" in fails(run, *options, "maximal", *ASKED)
    numpy.savez(folder / "two.npz", a=Y, b=Y)
    changed = tuple("two.npz" if a == "y.npy" else a for a in ASKED)
    assert "it holds 2 arrays" in fails(run, *options, "maximal", *changed)


def test_classify_prints_inequalities_and_the_table_for_a_script(run, trained):
    status, out, _ = run("classify", "nets.py:net", "--parametrization", "mup", "--optimizer", "adam", "--full")
    found = tp.classify(trained, tp.MUP, tp.Adam())
    assert status == 0 and out == f"{found!r}\n\n{found.multipliers!r}\n"
    _, out, _ = run("classify", "2", "--parametrization", "sp", "--exponents", "hidden=0,1/2,1/2,0", "--full")
    found = tp.classify(2, tp.ABCD({"hidden": (0, "1/2", "1/2", 0)}, name="SP with other exponents"), tp.SGD())
    assert found.breaks and all(line in out for line in found.breaks)
    assert out.endswith(f"nearest maximal update parametrization\n{found.nearest}\n")


def test_classify_says_it_in_ten_lines(run, trained):
    for asked in (("mup",), ("sp", "--weight-decay", "0.1"), ("ntp", "--optimizer", "adam")):
        status, out, _ = run("classify", "nets.py:net", "--parametrization", *asked)
        assert status == 0 and 3 <= len(out.splitlines()) <= 10
        assert "initial std" in out and ("weight decay 0.1 ×" in out) == ("0.1" in asked)
    _, out, _ = run("classify", "transformer_block", "--parametrization", "sp", "--optimizer", "adam")
    assert len(out.splitlines()) <= 10 and "nearest table" in out and "more" in out


ROOT_ATTENTION = """
import tplimits as tp

@tp.network
def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return tp.mean(v * tp.sum(A * x.rename(token="key"), over="key"), over="token")
"""


def test_classify_says_where_there_is_no_maximal_update(run, folder):
    (folder / "nets.py").write_text(ROOT_ATTENTION, encoding="utf-8")
    status, out, _ = run("classify", "nets.py:net", "--size", "token=3", "--parametrization", "sp", "--full")
    assert status == 0
    assert "powers of n are counted: the inequalities are for programs without powers of n" in out
    last = out.splitlines()[-1]
    assert last.startswith("none: no maximal update parametrization of `net` near SP was found: μP itself is unstable")
