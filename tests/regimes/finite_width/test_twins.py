"""Real matrices tell the expansion from what one gets by leaving a term out."""

import pytest
from expanded import tied, tied_relu, vanishing

import tplimits as tp
from tplimits.numbers.expansion.averages import Averages
from tplimits.numbers.expansion.fields import constant
from tplimits.numbers.expansion.jets import Slopes, number
from tplimits.numbers.expansion.kinks import Kinks
from tplimits.regimes.finite_width.limit import FiniteWidthLimit

pytestmark = pytest.mark.sampling


def without_fresh_parts(monkeypatch):
    """The term −p Avg(p g), whose limit is 0."""
    right = Averages.average
    left_out = lambda self, x, axis, label: (  # noqa: E731 - a rule with one case more
        number(0.0) if label.startswith("fresh part") else right(self, x, axis, label)
    )
    monkeypatch.setattr(Averages, "average", left_out)


def without_cross_terms(monkeypatch):
    """E[∂f ψ]."""
    monkeypatch.setattr(Averages, "cross", lambda self, x, axis, of=None: constant(0.0))


def without_diagonal(monkeypatch):
    """The share of neuron α in an average over β."""
    right = Averages.cross

    def cross(self, x, axis, of=lambda piece: piece):
        kept = Slopes.of({i: d for i, d in x.slopes.items() if i < 0 or ", over " not in self.known[i].label})
        return right(self, type(x)(x.value, kept, x.shift), axis, of)

    monkeypatch.setattr(Averages, "cross", cross)


def without_delta(monkeypatch):
    """The second derivative at a kink."""
    monkeypatch.setattr(Kinks, "delta", lambda self, x: None)


@tp.program
def paired(x: tp.Vector):
    β = tp.neuron("β")
    y = tp.avg(tp.tanh(x * x[β]) * x[β], over=β)
    return tp.avg(y**2)


#: what is left out, of which program, whose scalar, and draws at each width
TWINS = {
    "P⊥ term": (without_fresh_parts, tied, "return[1]", 600),
    "cross term": (without_cross_terms, tied, "return[1]", 300),
    "diagonal of an outer average": (without_diagonal, paired, "return", 12000),
    "delta at a kink": (without_delta, tied_relu, "return[2]", 600),
}


def bias(program, name):
    return float(FiniteWidthLimit.bias(tp.derive(program, tp.FiniteWidth()), name))


@pytest.mark.parametrize("name", TWINS)
def test_a_term_that_is_left_out_is_missed(name, monkeypatch):
    change, program, scalar, draws = TWINS[name]
    true = tp.derive(program, tp.FiniteWidth())
    right = float(true.bias(scalar))
    with monkeypatch.context() as changed:
        change(changed)
        wrong = bias(program, scalar)
    asked = {"widths": (16, 32, 64), "draws": draws, "seed": 0}
    assert tp.check(true, claims={f"b({scalar})": right}, **asked).accepted
    assert not tp.check(true, claims={f"b({scalar})": wrong}, **asked).accepted


def test_a_direction_that_vanishes_in_the_limit_counts():
    found = tp.derive(vanishing, tp.FiniteWidth())
    asked = {"widths": (16, 32, 64), "draws": 300, "seed": 0}
    assert tp.check(found, claims={"b(return)": 1.0}, **asked).accepted
    assert not tp.check(found, claims={"b(return)": 0.0}, **asked).accepted


def test_a_wrong_variance_is_rejected():
    found = tp.derive(tied, tp.FiniteWidth())
    asked = {"widths": (16, 32, 64), "draws": 2000, "seed": 0}
    assert not tp.check(found, claims={"C(return[1])": 1.2}, **asked).accepted
