"""Batch normalisation over three inputs: each neuron by its own mean and variance over a finite axis.

The statistics are vectors, not scalars: they stay random in the limit, and y is a function of three correlated
kets.  The three normalised vectors add up to zero, so their products are −1/2 of their squares.

Limit: ⟨return|return⟩ → E[V/(V + 1/4)] ≈ 0.5929 for one input, −1/2 of it for two, V = (χ² with 2 degrees)/3

Symbols: W is n × n with entries N(0, 1/n); the three vectors x have entries N(0, 1); V is the law of the
variance of three standard normals around their mean; 1/4 is added to it under the root.

Reference: Ioffe & Szegedy 2015, ICML; Yang et al. 2019, A mean field theory of batch normalization, ICLR
"""

from fractions import Fraction

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import mean, sqrt
from tplimits.program.language.trace import program


@program
def batch_norm(W: Matrix, x: Vector["input"]):
    h = W @ x
    m = mean(h, over="input")
    v = mean((h - m) ** 2, over="input")
    y = (h - m) / sqrt(v + Fraction(1, 4))
    return y


batch_norm = batch_norm.bind(input=3)
