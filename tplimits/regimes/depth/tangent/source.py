"""Source of one joint SDE of state and tangent: the loop over paths and steps around its coefficients."""

from __future__ import annotations

from collections.abc import Sequence

from tplimits.regimes.depth.numbers.source import Generated, Output, assembly, drawn

_MODULE = '''"""Generated: the coefficients of one SDE of state and tangent, and paths made from them."""
import math

import numpy as np
from tplimits.numbers.jit import njit

from tplimits.regimes.depth.numbers import matrices, moves, normals, products, tabulated
from tplimits.regimes.depth.tangent import steps


{means}@njit(nogil=True, error_model="numpy", fastmath={{"contract", "reassoc", "nsz"}})
def assemble(V, C, D, d, s, N, A, B, r, {given}c, w1, w2, w3, k1, k2, DV, DC, DD, X, Y):
    m = V.shape[0]
{body}


@njit(nogil=True, error_model="numpy")
def batch(W, streams, step_count, halves, c, spread, low, high, alike, {arrays}every, history, logs, stopped, clipped):
    size = W.shape[1]
    m = size // 2
    V, C, Ct, D = np.empty((m, m)), np.empty((m, m)), np.empty((m, m)), np.empty((m, m))
    d, s, r, N = np.empty(m), np.empty(m), np.empty(m), np.empty((m, m))
    A, M = np.empty((m, m)), np.empty((m, m))
    w1, w2, w3 = np.empty(({n1}, m)), np.empty(({n2}, m, m)), np.empty(({n3}, m, m, m))
    k1, k2 = np.empty(({k1}, m)), np.empty(({k2}, m, m))
    DV, DC, DD = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    X, Y, small = np.zeros((m, m)), np.zeros((m, m)), np.empty((m, m))
    added, factor = np.zeros((size, size)), np.zeros((size, size))
    K, B, Bt = np.zeros((size, size)), np.empty((size, size)), np.empty((size, size))
    spare, other, fresh = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    R, parts = np.empty((size, size)), np.empty(({responses}, 4, m, m))
    noisy, centre = spread > 0.0, np.empty(size)
    moves.centres(spread, centre)
    isotropic = size * (size + 1) // 2 if noisy else 0
    gaussians = np.empty(isotropic + {counts})
    more, state = np.empty(gaussians.shape[0]), np.empty(normals.SIZE, np.uint64)
    for path in range(W.shape[0]):
        S = W[path]
        normals.start(streams[path], state)
        stopped[path], clipped[path], total = -1, 0, 0.0
        steps.corner(S, V)
        if matrices.is_outside(V, low, high, small):
            stopped[path] = 0
        else:
            if alike:
                total -= steps.rescaled(S, B, Bt)
            if not matrices.root(S, B, spare):
                clipped[path] += 1
        products.transpose(B, Bt)
        if every > 0:
            products.copy(S, history[path, 0])
            logs[path, 0] = total
        for step in range(1, step_count + 1):
            if stopped[path] < 0:
                normals.draw(state, halves, gaussians, more)
                blocks = products.diagonal_blocks(B)
                if noisy:
                    moves.triangular_noise(gaussians, spread, centre, K)
{draws}
                steps.blocks(S, V, C, Ct, D)
                moves.kernels(V, {rooted}, d, s, N)
                if {moved}:
                    steps.moved_kernels(V, C, D, A, M, r)
                assemble(V, C, D, d, s, N, A, M, r, {passed}c, w1, w2, w3, k1, k2, DV, DC, DD, X, Y)
                steps.joined(DV, DC, DD, X, Y, added, factor)
                clipped[path] += moves.multiply_and_add(
                    S, added, {added}, factor, {factor}, K, noisy, B, Bt, blocks, spare, other, fresh
                )
                if matrices.is_finite(fresh):
                    products.copy(fresh, S)
                    if alike:
                        total -= steps.rescaled(S, B, Bt)
                    steps.corner(S, V)
                    if matrices.is_outside(V, low, high, small):
                        stopped[path] = step
                else:
                    stopped[path] = step
            if every > 0 and step % every == 0:
                products.copy(S, history[path, step // every])
                logs[path, step // every] = total
        logs[path, logs.shape[1] - 1] = total
'''
#: what the blocks of R are called in loops, by the labels of forms, and their places
RESPONSES = {"R": "xx", "R·δ": "xd", "Rδ·": "dx", "Rδδ": "dd"}


def tangent_source(outputs: Sequence[Output], symmetric: Sequence[bool]) -> Generated:
    """The module of one SDE; `outputs` are DV, DC, DD, X and Y."""
    made = assembly(outputs)
    filled = {output.name: bool(output.terms) for output in outputs}
    names = [[f"R{k}{part}" for part in RESPONSES.values()] for k in range(len(symmetric))]
    draw = (
        "                moves.response(B, Bt, blocks, gaussians[{start} :], {symmetric}, R, spare, other)\n"
        "                steps.blocks(R, parts[{k}, 0], parts[{k}, 1], parts[{k}, 2], parts[{k}, 3])"
    )
    counts, draws = drawn(symmetric, "size", draw)
    text = _MODULE.format(
        given="".join(f"{name}, " for part in names for name in part) + made.parameters,
        passed="".join(f"parts[{k}, {i}], " for k in range(len(names)) for i in range(4)) + made.parameters,
        **made.filled,
        responses=max(len(names), 1),
        counts=counts,
        draws=draws,
        rooted=bool(made.inside & {"N", "s"}),
        moved=bool(made.inside & {"A", "B", "r"}),
        added=filled["DV"] or filled["DC"] or filled["DD"],
        factor=filled["X"] or filled["Y"],
    )
    return Generated(text, made.arrays, made.plan, made.means)
