"""Standard normals from one stream a path: xoshiro256++ and the ziggurat of Marsaglia and Tsang with 1024 layers.

A path owns its stream, so that its numbers depend neither on the number of threads nor on other paths.  A stream is
several generators side by side, which are advanced together in vector registers.  One more is kept apart for the few
words in a thousand that do not settle a normal, so that how many these are shifts no other number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.numbers.jit import njit

#: generators of one stream that are advanced together
LANES = 32
#: in a state, after the 4·LANES words of the generators: the words found last, and a generator of replacements
_FOUND, _REPLACING = 4 * LANES, 5 * LANES
#: words of a state
SIZE = 5 * LANES + 4
#: layers of the ziggurat, and where the lowest ends so that all have the same area
_LAYERS = 1024
_EDGE = 4.0388498461095045
_BITS = 2.0**52


def _tables() -> tuple[NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.float64]]:
    """Widths of the layers over 2^52, the part of each that is wholly under the density, and densities at the edges."""
    density = math.exp(-0.5 * _EDGE**2)
    # a rectangle and the tail beyond: what every layer has as its area
    area = _EDGE * density + math.sqrt(math.pi / 2) * math.erfc(_EDGE / math.sqrt(2))
    edges = numpy.zeros(_LAYERS)
    edges[-1] = _EDGE
    # each edge from the next one out by equal areas; with this _EDGE the innermost ends at 0
    for i in range(_LAYERS - 2, 0, -1):
        edges[i] = math.sqrt(-2.0 * math.log(area / edges[i + 1] + math.exp(-0.5 * edges[i + 1] ** 2)))
    widths, inside = edges / _BITS, numpy.zeros(_LAYERS)
    widths[0] = area / density / _BITS  # the base layer with the tail
    # the base counts as a rectangle as wide as its area allows: beyond the edge stands the tail
    inside[0] = _EDGE * density / area * _BITS
    inside[1:] = edges[:-1] / edges[1:] * _BITS
    return widths, inside.astype(numpy.int64), numpy.exp(-0.5 * edges**2)


_WIDTHS, _INSIDE, _DENSITIES = _tables()
_U11, _U17 = (numpy.uint64(k) for k in (11, 17))
_U19, _U23, _U41, _U45 = (numpy.uint64(k) for k in (19, 23, 41, 45))
_GOLDEN, _MIX1, _MIX2 = (numpy.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_U27, _U30, _U31 = (numpy.uint64(k) for k in (27, 30, 31))
# the layer is in the 10 lowest bits, the number in the 53 highest ones: no bit has two uses
_LAYER, _TO_53_BITS = numpy.uint64(_LAYERS - 1), numpy.int64(11)


def streams(seed: int, paths: int) -> NDArray[numpy.uint64]:
    """The states of the streams of paths 0, 1, …: that of a path does not depend on how many there are."""
    # longer states begin like shorter ones, which is what keeps a path's stream
    words = numpy.random.SeedSequence(seed).generate_state(4 * paths, numpy.uint64)
    return numpy.asarray(words.reshape(paths, 4), dtype=numpy.uint64)


@njit(nogil=True)
def _word(state: Any) -> Any:
    """The next 64 bits (xoshiro256++)."""
    mixed = state[0] + state[3]
    found = ((mixed << _U23) | (mixed >> _U41)) + state[0]
    shifted = state[1] << _U17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << _U45) | (state[3] >> _U19)
    return found


@njit(nogil=True)
def _uniform(state: Any) -> float:
    """Uniform on (0, 1]."""
    # never 0: logarithms are taken of it
    return (float(_word(state) >> _U11) + 1.0) * 2.0**-53


@njit(nogil=True)
def _tail_or_wedge(state: Any, layer: Any, x: float) -> tuple[bool, float]:
    """What is not wholly under the density: accepted or not, and the number."""
    # the tail by Marsaglia's method: an exponential, accepted against the Gaussian beyond the edge
    if layer == 0:
        while True:
            beyond = -math.log(_uniform(state)) / _EDGE
            if -2.0 * math.log(_uniform(state)) > beyond * beyond:
                return True, (_EDGE + beyond if x > 0.0 else -_EDGE - beyond)
    height = (_DENSITIES[layer - 1] - _DENSITIES[layer]) * _uniform(state) + _DENSITIES[layer]
    return height < math.exp(-0.5 * x * x), x


@njit(nogil=True)
def start(stream: Any, state: Any) -> None:
    """The state of a stream, of SIZE words: generators side by side, each seeded from the stream by SplitMix64."""
    for word in range(4):
        for lane in range(LANES + 1):
            # SplitMix64
            bits = stream[word] + numpy.uint64(lane + 1) * _GOLDEN
            bits = (bits ^ (bits >> _U30)) * _MIX1
            bits = (bits ^ (bits >> _U27)) * _MIX2
            state[word * LANES + lane if lane < LANES else _REPLACING + word] = bits ^ (bits >> _U31)


@njit(nogil=True)
def _advance(state: Any) -> None:
    """The next word of every lane, at _FOUND: _word of all at once, on one array that the compiler can vectorise."""
    for lane in range(LANES):
        a, b, c, d = state[lane], state[LANES + lane], state[2 * LANES + lane], state[3 * LANES + lane]
        mixed = a + d
        state[_FOUND + lane] = ((mixed << _U23) | (mixed >> _U41)) + a
        c ^= a
        d ^= b
        state[lane] = a ^ d
        state[LANES + lane] = b ^ c
        state[2 * LANES + lane] = c ^ (b << _U17)
        state[3 * LANES + lane] = (d << _U45) | (d >> _U19)


@njit(nogil=True)
def _replaced(state: Any, layer: Any, x: float) -> float:
    """The normal where a word fell outside what is wholly under the density; more words are from a generator apart."""
    own = state[_REPLACING:]
    while True:
        accepted, x = _tail_or_wedge(own, layer, x)
        if accepted:
            return x
        bits = _word(own)
        layer = numpy.int64(bits & _LAYER)
        signed = numpy.int64(bits) >> _TO_53_BITS
        x = signed * _WIDTHS[layer]
        if abs(signed) < _INSIDE[layer]:
            return x


@njit(nogil=True)
def fill(state: Any, out: Any) -> None:
    """Standard normals into an array of one dimension; what is left of the last words is not used."""
    # whole words of all lanes at a time: how many normals a step takes fixes how far the generators move
    for first in range(0, out.shape[0], LANES):
        _advance(state)
        for lane in range(min(LANES, out.shape[0] - first)):
            bits = state[_FOUND + lane]
            layer = numpy.int64(bits & _LAYER)
            signed = numpy.int64(bits) >> _TO_53_BITS  # no branch on the sign, which no processor can predict
            x = signed * _WIDTHS[layer]
            if abs(signed) >= _INSIDE[layer]:
                x = _replaced(state, layer, x)
            out[first + lane] = x


@njit(nogil=True)
def draw(state: Any, halves: int, out: Any, spare: Any) -> None:
    """The normals of one step; with two halves, the sum of those of two steps over √2, which a finer run would draw."""
    fill(state, out)
    if halves == 2:
        fill(state, spare)
        for k in range(out.shape[0]):
            # √h (g + g′)/√2 is the increment over h of a path that the finer run makes of g and g′
            out[k] = (out[k] + spare[k]) * 0.7071067811865476
