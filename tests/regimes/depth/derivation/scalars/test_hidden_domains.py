"""Domains of functions of scalars that cancel where they are written out: (√s)² of s = V − 2 is no s where V < 2."""

import numpy as np
import pytest
import sympy

import tplimits as tp

avg, sqrt, exp, log = tp.avg, tp.sqrt, tp.exp, tp.log
asin = tp.elementwise(sympy.asin)


def block_of(f):
    def block(x: tp.State["token"], M: tp.Matrix, Z: tp.Matrix):
        return x + f(x, M, Z) / tp.sqrt(tp.n)

    return tp.block(block)


def s(x):
    return avg(x * x) - 2


def logit(x, M):
    return sqrt(tp.n) * avg(x * (M @ x))


#: drifts had been those of z, of z s and of z S, at every V
OF_THE_STATE = {
    "roots": lambda x, M, Z: sqrt(s(x)) * sqrt(s(x)) * (Z @ x),
    "a square": lambda x, M, Z: (Z @ x) * sqrt(s(x)) ** 2,
    "inverse": lambda x, M, Z: (Z @ x) * s(x) ** 0.5 * s(x) ** (-0.5),
    "exponential": lambda x, M, Z: (Z @ x) * exp(2 * log(s(x))),
    "difference": lambda x, M, Z: (Z @ x) * (1 + log(s(x)) - log(2 * s(x))),
    "sine": lambda x, M, Z: (Z @ x) * tp.sin(asin(s(x))),
    "beside a vector": lambda x, M, Z: ((Z @ x) * sqrt(s(x))) * sqrt(s(x)),
    "another token": lambda x, M, Z: (Z @ x) * exp(log(tp.mean(avg(x * x.rename(token="b")), over="b"))),
}


@pytest.mark.parametrize("case", OF_THE_STATE)
def test_what_the_state_takes_out_of_a_domain_is_refused(case):
    with pytest.raises(tp.NoLimitError, match="is not continuous, or not finite, where V passes"):
        tp.derive(block_of(OF_THE_STATE[case]), tp.Proportional())


def test_what_is_random_beside_the_state_leaves_a_domain_as_well():
    block = block_of(lambda x, M, Z: (Z @ x) * exp(log(logit(x, M))))
    with pytest.raises(tp.NoLimitError, match=r"log\(S\).*has no second moment: .*not real"):
        tp.derive(block, tp.Proportional())


#: b at V = 1.7 of what keeps within its domain, or is read where it does
KEPT = {
    "a norm": (lambda x, M, Z: (Z @ x) * exp(log(avg(x * x))), lambda V: V**3),
    "twice": (lambda x, M, Z: (Z @ x) * sqrt(avg(x * x)) ** 2, lambda V: V**3),
    "kept off": (lambda x, M, Z: (Z @ x) * sqrt(s(x) ** 2 + 1) ** 2, lambda V: V * ((V - 2) ** 2 + 1) ** 2),
    "a square of a logit": (
        lambda x, M, Z: (Z @ x) * exp(log(1 + logit(x, M) ** 2)),
        lambda V: V * (1 + 2 * V**2 + 3 * V**4),
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_keeps_within_a_domain_has_its_drift(case):
    f, drift = KEPT[case]
    found = tp.derive(block_of(f), tp.Proportional()).drift_at(np.array([[1.7]])).item()
    assert found == pytest.approx(drift(1.7), rel=1e-9)
