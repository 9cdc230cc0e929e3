"""Claims: what they are about, and what is refused."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from tplimits.errors import CheckError
from tplimits.law.observables import observables
from tplimits.sampling.claims import Claim, checked


def test_names():
    assert Claim("s", 1.0, statistic="covariance").labels == ("s", "s")
    assert Claim("s", 1.0, 0.0, "covariance", "t").name == "Cov(s, t)"


def test_a_returned_vector_is_its_own_bracket(programs):
    (claim,) = checked([Claim("return", 0.75)], observables(programs.feedback))
    assert claim.label == "⟨return|return⟩"
    (claim,) = checked([Claim("return[token=1]", 0.5)], observables(programs.tokens))
    assert claim.label == "⟨return[token=1]|return[token=1]⟩"


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Claim("retrun", 0.6), r"no observable `retrun` to check; the program has return; did you mean `return`\?"),
        (Claim("return", math.nan), "the claim return = nan is not a finite number"),
        (Claim("return", math.inf), "the claim return = inf is not a finite number"),
        (Claim("return", 0.6, -1.0), "has error -1.0; give a standard error, finite and ≥ 0"),
        (Claim("return", 0.6, math.nan), "has error nan; give a standard error"),
        (Claim("return", "much"), "the claim on `return` is 'much' ± 0.0; give numbers"),
        (Claim("return", 0.6, statistic="median"), "has statistic='median'; use 'mean' or 'covariance'"),
        (Claim("return", 0.6, other="return"), "a mean is about one scalar, not `return` and `return`"),
        (Claim("return", 0.6, 0.0, "covariance", "s"), "no observable `s` to check"),
    ],
)
def test_refusals(programs, claim, words):
    with pytest.raises(CheckError, match=words):
        checked([claim], observables(programs.tied))


def test_no_claims(programs):
    with pytest.raises(CheckError, match="there is no claim to judge; claim a value of one of return"):
        checked([], observables(programs.tied))


@pytest.mark.parametrize(("many", "more"), [(1, None), (12, None), (13, 1), (20, 8)])
def test_of_many_observables_a_dozen_are_named(many, more):
    known = [SimpleNamespace(label=f"s{i}") for i in range(many)]
    with pytest.raises(CheckError) as refused:
        checked([Claim("quite another", 1.0)], known)
    named = ", ".join(f"s{i}" for i in range(min(many, 12))) + (f" and {more} more" if more else "")
    assert str(refused.value) == f"there is no observable `quite another` to check; the program has {named}."
