"""Programs whose expansion in 1/n is known from elsewhere."""

from __future__ import annotations

import numpy as np

import tplimits as tp


def expansion_of_one_layer(function):
    """The expansion of avg f(W x), f a function of the language."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(function(W @ x))

    return tp.derive(program, tp.FiniteWidth()).evaluate()["return"]


def of_one_layer(f, kinks=()):
    """L, b and C of avg f(W x), from integrals over the line, cut at the kinks of f, an array function.

    Given x it has the mean m(q) = E f(√q g), q = avg x² with variance 2/n: b = m″(1), C = Var f + 2 m′(1)², and the
    last is told apart.  Derivatives in q are those of the density, not of f.
    """
    ends = np.unique([*np.linspace(-12, 12, 49), *kinks])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    x, w = (middle + half * nodes).ravel(), (half * weights).ravel()
    w = w * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    m, slope, bend = (w @ (f(x) * h) for h in (1, (x**2 - 1) / 2, (x**4 - 6 * x**2 + 3) / 4))
    return m, bend, w @ f(x) ** 2 - m**2 + 2 * slope**2, 2 * slope**2


@tp.program
def norm(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    return tp.avg(h**2), tp.avg(tp.tanh(h) ** 2)


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    z = W.T @ tp.tanh(W @ x)
    return tp.avg(x * z), tp.avg(z**2)


@tp.program
def tied_relu(W: tp.Matrix, x: tp.Vector):
    z = W.T @ tp.relu(W @ x)
    return tp.avg(x * z), tp.avg(z**2), tp.avg(tp.relu(z))


@tp.program
def wishart(W: tp.Matrix, x: tp.Vector):
    a = W.T @ (W @ x)
    b = W.T @ (W @ a)
    return tp.avg(x * b), tp.avg(x * (W.T @ (W @ b))), tp.avg(x * (W @ (W @ x)))


@tp.program
def recurrent(W: tp.Matrix, x: tp.Vector):
    h1 = tp.tanh(W @ x)
    h2 = tp.tanh(W @ h1)
    h3 = tp.tanh(W @ h2)
    return tp.avg(h2**2), tp.avg(h3**2), tp.avg(h1 * h3)


@tp.program
def perceptron(W1: tp.Matrix, W2: tp.Matrix, x: tp.Vector):
    return tp.avg(tp.tanh(W2 @ tp.tanh(W1 @ (x / tp.sqrt(tp.avg(x**2))))) ** 2)


@tp.program
def bent(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * tp.tanh(W.T @ tp.tanh(W @ x)))


@tp.program
def fourth(x: tp.Vector):
    u = x / tp.sqrt(tp.avg(x**2))
    return tp.avg(u**4)


@tp.program
def tangent_one(x: tp.Vector, v: tp.Vector):
    return tp.avg(tp.tanh(x) ** 2) + tp.avg((v * (1 - tp.tanh(x) ** 2)) ** 2)


@tp.program
def tangent_two(W: tp.Matrix, h: tp.Vector, v: tp.Vector):
    x = tp.tanh(h)
    g = W @ x
    d2 = v * (1 - tp.tanh(g) ** 2)
    d1 = (W.T @ d2) * (1 - x**2)
    return tp.avg(tp.tanh(g) ** 2) + tp.avg(x**2) * tp.avg(d2**2) + tp.avg(d1**2)


@tp.program
def he(W1: tp.Matrix, W2: tp.Matrix, h: tp.Vector):
    x = tp.sqrt(2) * tp.relu(h)
    for W in (W1, W2):
        x = tp.sqrt(2) * tp.relu(W @ x)
    return tp.avg(x**2)


@tp.program
def normed(W: tp.Matrix, U: tp.Matrix, x: tp.Vector):
    t = tp.tanh(W @ x + 0.5)
    m = tp.avg(t)
    ell = (t - m) / tp.sqrt(tp.avg((t - m) ** 2))
    z = tp.tanh(U @ ell + ell)
    return tp.avg(z**2), tp.avg(ell * z), tp.avg(ell**4)


@tp.program
def attention(Q: tp.Matrix, V: tp.Matrix, c: tp.Vector, e: tp.Vector["token"]):
    x = 0.6 * c + 0.8 * e
    q = Q @ x
    p = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
    o = tp.sum(p * (V @ x).rename(token="key"), over="key")
    first, second = o.sel(token=0), o.sel(token=1)
    return p.sel(token=0, key=0), tp.avg(first**2), tp.avg(first * second)


@tp.program
def outer(W: tp.Matrix, u: tp.Vector, v: tp.Vector):
    β = tp.neuron("β")
    y = tp.avg(tp.sin(u * v[β] / 2) * v[β], over=β)
    return tp.avg(y**2), tp.avg(tp.tanh(W @ y) ** 2)


@tp.program
def two_widths(W: tp.Matrix["k", "n"], U: tp.Matrix["n", "k"], x: tp.Vector):
    y = tp.tanh(W @ x)
    z = W.T @ y
    h = U @ y
    return tp.avg(z**2), tp.avg(h**2), tp.avg(tp.tanh(z + h) ** 2)


@tp.program
def vanishing(W: tp.Matrix, x: tp.Vector, u: tp.Vector):
    y = x + u * tp.avg(x * u)
    return tp.avg((W @ y - W @ x) ** 2)


@tp.program
def uniform(W: tp.Matrix, x: tp.Vector.uniform(-(3**0.5), 3**0.5)):
    return tp.avg(tp.tanh(W @ x) ** 2)


@tp.program
def cubed(g: tp.Vector):
    y = (g**2 + g - 1) / tp.sqrt(3)
    m = tp.avg(y)
    return tp.avg(((y - m) / tp.sqrt(tp.avg((y - m) ** 2))) ** 3)


#: program, ratios, "L b C" of each returned scalar: decimals hold to one unit of their last digit, all else is exact,
#: ? is not known.  Tied relu: h = √A g, z = √A (q B + √B (g′ − q D)) with A = |x|²/n, B = Avg relu(g)², D = Avg q g′:
#: the mean of relu(z) is √((B − √B D)² + A B)/√(2π); b and C are derivatives of it
KNOWN = {
    "norm": (norm, {}, ("1 0 4", "0.394294 -0.171293 0.163624")),
    "tied": (tied, {}, ("0.605706 -0.19230 0.75041", "0.761174 -0.34143 1.64645")),
    "tied relu": (
        tied_relu,
        {},
        ("1/2 0 7/4", "3/4 3/4 53/8", "sqrt(3/(8*pi)) -13/(12*sqrt(6*pi)) 3/8+13/(24*pi)"),
    ),
    "Wishart": (wishart, {}, ("2 1 28", "5 6 264", "0 1 1")),
    "fourth": (fourth, {}, ("3 -6 24",)),
    "recurrent": (recurrent, {}, ("0.23645 -0.1174 0.0775", "0.16666 -0.1023 0.0527", "0 0.48433 0.1260")),
    "perceptron": (perceptron, {}, ("0.236450 -0.03093 0.06781",)),
    "one hidden layer": (tangent_one, {}, ("0.858697 0 0.69026",)),
    "two hidden layers": (tangent_two, {}, ("0.783049 -0.0519 1.0191",)),
    "critical relu": (he, {}, ("1 0 15",)),
    "layer norm": (normed, {}, ("0.531373 -0.0448 0.1065", "0.507250 -0.1109 0.1870", "2.0702 4.291 7.997")),
    "attention": (
        attention.bind(token=2),
        {},
        ("0.654753 -0.11821 0.17267", "0.710654 0.68233 2.1025", "0.649346 0.33241 1.8735"),
    ),
    "two neurons": (outer, {}, ("0.13608 0.1871 0.1061", "0.10881 0.0320 0.0610")),
    "two widths": (
        two_widths,
        {"k": 0.5},
        ("0.288867 -0.1290 0.34287", "0.394294 -0.1713 0.57208", "0.326273 -0.2227 0.14170"),
    ),
    "vanishing": (vanishing, {}, ("0 1 0",)),
    "uniform": (uniform, {}, ("0.394294 -0.0685 ?",)),
    "cubed": (cubed, {}, ("14/sqrt(27) ? ?",)),
    "bent": (bent, {}, ("? ? ?",)),
}
