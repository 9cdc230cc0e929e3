"""Tangent kernels through jumps at the zeros of nonlinear functions: the NNGP stands, the NTK is refused by name."""

import numpy as np
import pytest
import sympy

import tplimits as tp


@tp.network
def chosen(ξ: tp.Input["d"], U: tp.Vector["d"], R: tp.Matrix, v: tp.Vector):
    y = R @ tp.sum(U * ξ, over="d")
    bump = tp.elementwise(lambda u: u * sympy.exp(-(u**2) / 2))(y)
    return v * tp.where(bump, y, 0.5)


def test_a_jump_at_the_zeros_of_a_nonlinear_function():
    found = tp.derive(chosen, tp.Kernels()).evaluate(X1=np.array([[1.0, 0.0]]))
    # E (z 1{z > 0} + ½ 1{z < 0})² = ½ + ⅛
    assert found.nngp[0, 0] == pytest.approx(0.625, rel=1e-6)
    with pytest.raises(tp.NoLimitError, match=r"derivative of a jump .* not linear in Gaussian vectors"):
        _ = found.ntk
