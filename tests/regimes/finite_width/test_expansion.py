"""The expansion in 1/n as a user meets it: numbers, reports, widths, fluctuations, pickles, the command line."""

import json
import pickle

import numpy as np
import pytest
from expanded import norm, tied, two_widths, vanishing

import tplimits as tp
from tplimits.cli import main
from tplimits.errors import EvaluationError


@pytest.fixture(scope="module")
def found():
    return tp.derive(tied, tp.FiniteWidth())


def test_mean_and_variance_at_a_width(found):
    at = found.at(100)["return[1]"]
    assert abs(at.value - (0.7611736548 - 0.3414331121 / 100)) < 1e-8
    assert abs(at.variance - 1.6464466 / 100) < 1e-7


def test_how_wide_is_wide_enough(found):
    enough = found.width_for("return[1]", relative=0.01)
    assert (enough.mean, enough.network) == (45, 28418)
    assert found.width_for("return[1]", absolute=0.05).network == 659
    with pytest.raises(EvaluationError, match="absolute=-1: give a positive, finite number"):
        found.width_for("return[0]", absolute=-1)
    with pytest.raises(EvaluationError, match="`return` tends to 0"):
        tp.derive(vanishing, tp.FiniteWidth()).width_for("return")


def test_no_width_is_enough_for_what_stays_random():
    """√n avg(h² − 1) of networks keeps its standard deviation 2; "from width 1" had been the answer."""

    @tp.program
    def subject(W: tp.Matrix, x: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg((W @ x) ** 2 - 1)

    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 256))
    drawn = 16 * ((x * x).mean(1) * rng.chisquare(256, 4000) / 256 - 1)  # |W x|² given x
    assert abs(drawn.std() - 2) < 0.1
    limit = tp.derive(subject, tp.FiniteWidth())
    for nearness in ({}, {"absolute": 0.1}, {"relative": 0.5}):
        with pytest.raises(EvaluationError, match="stays random: one network is some 2 off its mean"):
            limit.width_for("return", **nearness)


def test_limits_that_are_small_and_shares_that_are_none():
    @tp.program
    def small(x: tp.Vector):
        return tp.avg(x**2) * 1e-11

    limit = tp.derive(small, tp.FiniteWidth())
    assert limit.width_for("return").network == 20_000  # 2/n = 0.01²
    for share in (-1, 0, float("nan")):
        with pytest.raises(EvaluationError, match="give a positive, finite number"):
            limit.width_for("return", relative=share)


def test_one_network_is_no_nearer_than_all_are_on_average():
    """Avg(x)² is 1/n on average, and fluctuates by as little: b = 1, C = 0."""

    @tp.program
    def square(x: tp.Vector):
        return tp.avg(x) ** 2

    found = tp.derive(square, tp.FiniteWidth()).width_for("return", absolute=0.01)
    assert (found.mean, found.network) == (100, 100)


def test_ratios_of_widths():
    found = tp.derive(two_widths, tp.FiniteWidth())
    assert abs(float(found.bias("return[1]", ratios={"k": 0.5})) + 0.17129345) < 1e-7
    assert float(found.covariance("return[1]", ratios={"k": 2})) < float(found.covariance("return[1]"))


def test_reports(found):
    text = repr(found)
    assert "L = 0.76117365    b = -0.34143311   C = 1.6464466" in text
    assert "⟨" in text
    report = found.report()
    assert report.answer == "At width n return[0] is 0.60570551 - 0.19230193/n on average, with variance 0.75040638/n."
    assert "\\frac{0.19230193}{n}" in report.latex
    document = json.loads(found.document())
    assert document["format"] == "tplimits expansion in 1/n"
    assert abs(document["scalars"]["return[0]"]["bias"]["value"] + 0.192301928) < 1e-8
    assert "Bolthausen" in report.citation
    assert "von Mises" in str(found.steps[-1])
    assert "<svg" in found.page()


def test_pickles_and_changes_nothing(found):
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.bias("return[0]") == found.bias("return[0]")


def test_fluctuations_have_a_variance():
    @tp.program
    def fluctuating(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        z = W.T @ tp.tanh(h)
        return tp.sqrt(tp.n) * tp.avg(h**2 - 1), tp.sqrt(tp.n) * tp.avg(h**2 - x**2), tp.avg(z**2)

    found = tp.derive(fluctuating, tp.FiniteWidth())
    assert abs(found.limit("return[0]").value) < 1e-12
    assert abs(found.evaluate()["return[0]"].limit.variance - 4) < 1e-9
    assert abs(float(found.covariance("return[0]", "return[1]")) - 2) < 1e-9
    assert "random in the limit, variance 4" in repr(found)


def test_what_stays_random_is_judged_by_its_own_variance():
    """√n ⟨x y⟩ has variance 1 at every width, and the claim on it is called so; n is no factor of it."""

    @tp.program
    def net(x: tp.Vector, y: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(x * y)

    found = tp.derive(net, tp.FiniteWidth())
    settings = {"widths": (8, 16, 32), "draws": 2000}
    (row,) = tp.check(found, **settings).rows
    assert (row.claim.name, row.claim.value, row.accepted) == ("Var(return)", pytest.approx(1), True)
    assert not tp.check(found, claims={"C(return)": 1.5}, **settings).accepted
    with pytest.raises(tp.CheckError, match="there is no claim"):
        tp.check(found, claims={"b(return)": 0.0}, **settings)
    with pytest.raises(tp.CheckError, match="no claim to judge"):
        tp.check(found, claims={}, **settings)
    assert found.report().answer == "At width n return has variance 1 in the limit."
    assert found.shown(found.evaluate()).rows[0][1] == "variance 1"
    assert found.latex().count(r"\text{return} &\to N(0, 1)") == 1


def test_powers_of_the_width():
    """(1 + c/√n) x has mean square 1 + 2c/√n + c²/n."""

    @tp.program
    def shaped(x: tp.Vector):
        y = (1 + 3 / tp.sqrt(tp.n)) * x + 0.5 * x / tp.n
        return tp.avg(y**2)

    e = tp.derive(shaped, tp.FiniteWidth()).evaluate()["return"]
    assert abs(float(e.root) - 6) < 1e-9
    assert abs(float(e.bias) - 10) < 1e-9


def test_the_command_line(tmp_path, capsys):
    source = tmp_path / "mine.py"
    source.write_text(
        "import tplimits as tp\n\n\n@tp.program\ndef norm(W: tp.Matrix, x: tp.Vector):\n"
        "    return tp.avg(tp.tanh(W @ x) ** 2)\n"
    )
    assert main(["width", f"{source}:norm", "--width", "100"]) == 0
    assert "within 0.01 of its limit from width 44 on average, 10525 in one" in capsys.readouterr().out
    assert main(["width", f"{source}:norm", "--relative", "-1"]) == 2
    assert "--relative=-1.0: give a positive, finite number" in capsys.readouterr().err
    assert main(["derive", f"{source}:norm", "--regime", "finite-width"]) == 0
    assert "b = -0.17129345" in capsys.readouterr().out
    assert main(["evaluate", f"{source}:norm", "--regime", "finite-width"]) == 0
    assert "variance · n" in capsys.readouterr().out


def test_the_command_line_warns(tmp_path, capsys):
    source = tmp_path / "mine.py"
    source.write_text(
        "import tplimits as tp\n\n\n@tp.program\ndef heavy(g: tp.Vector):\n"
        "    return tp.avg((g**2 + g) ** 3) / tp.avg((g**2 + g) ** 2) ** 1.5\n"
    )
    assert main(["width", f"{source}:heavy", "--width", "32"]) == 0
    assert "|b|/n = 0.89 is not small beside its limit" in " ".join(capsys.readouterr().out.split())


def test_digits_end_where_errors_begin():
    """A kink that is crossed for some values of the other variables alone is read with an error that is shown."""

    @tp.program
    def grazing(W: tp.Matrix, x: tp.Vector):
        y = x * tp.tanh(x)
        return tp.avg(tp.relu(y * tp.tanh(W @ y) - 0.3))

    found = tp.derive(grazing, tp.FiniteWidth())
    assert found.bias("return").error > 1e-4
    assert "±" in repr(found).split("b = ")[1].split("C = ")[0]
    assert r"\pm" in found.latex()


@pytest.mark.sampling
def test_networks_in_which_no_neuron_is_active():
    """Of six entries none is above 1 in every third network: W is applied to the vector 0 there, and not in others."""

    @tp.program
    def sparse(W: tp.Matrix, x: tp.Vector):
        return tp.avg((W @ tp.relu(x - 1)) ** 2)

    found = tp.derive(sparse, tp.FiniteWidth())
    exact = float(found.limit("return"))
    verdict = tp.check(found, widths=(6, 12, 24), draws=400, seed=0, claims={"b(return)": 0.0})
    assert verdict.accepted and exact < 0.1


@pytest.mark.parametrize("claims", [None, {"b(return[1])": -0.17129345, "C(return[0], return[1])": None}])
@pytest.mark.sampling
def test_true_claims_are_accepted(claims):
    found = tp.derive(norm, tp.FiniteWidth())
    if claims is not None:
        claims = {**claims, "C(return[0], return[1])": float(found.covariance("return[0]", "return[1]"))}
    verdict = tp.check(found, widths=(16, 32, 64), draws=600, seed=1, claims=claims)
    assert verdict.accepted, verdict


@pytest.mark.sampling
def test_roots_of_the_width_bring_their_powers_into_b_and_c(seed):
    """(1 + 1/√n)² Avg x²: n Var is 2 (1 + 1/√n)⁴, no series in 1/n."""

    @tp.program
    def shaped(x: tp.Vector):
        return tp.avg(((1 + tp.n**-0.5) * x) ** 2)

    verdict = tp.check(tp.derive(shaped, tp.FiniteWidth()), widths=(16, 32, 64, 128), draws=4000, seed=seed)
    assert verdict.accepted, verdict
    assert {str(row.series) for row in verdict.rows} == {"L + b/√n + c/n"}


@pytest.mark.parametrize(
    ("chosen", "kinked"),
    [
        (lambda h, x, s: tp.where(h - s * x, h, s * x), lambda h, x, s: tp.maximum(h, s * x)),
        (lambda h, x, s: tp.where(h - s, h * h, s * s), lambda h, x, s: (h + s) * tp.relu(h - s) + s * s),
    ],
    ids=["max", "product"],
)
def test_a_choice_that_does_not_jump_is_a_kink(chosen, kinked):
    """At places that move with averages, where the derivative of a jump would count."""

    def read(function):
        @tp.program
        def program(W: tp.Matrix, x: tp.Vector):
            h = W @ x
            return tp.avg(function(h, x, tp.avg(h**2)))

        found = tp.derive(program, tp.FiniteWidth())
        return [float(a) for a in (found.limit("return"), found.bias("return"), found.covariance("return"))]

    assert read(chosen) == pytest.approx(read(kinked), rel=1e-6)
