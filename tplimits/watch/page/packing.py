"""Recorded arrays in few bytes: whole multiples of a step, as differences along the frames, split into bytes."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import AnyArray as Array

#: binary digits that are kept of the largest entry of an array: an error below 1.2e-7 of it
DIGITS = 22


class Pack:
    """The bytes of a page: arrays one after the other, and what a reader needs to unpack them."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def _added(self, data: bytes) -> int:
        self.parts.append(data)
        self.length += len(data)
        return self.length - len(data)

    def moving(self, array: Array, exact: bool = False) -> dict[str, Any]:
        """An array (frames, …) that changes little from frame to frame: to 22 binary digits of its largest entry.

        With `exact`, to all digits of numbers in single precision: what a network computes from parameters that were
        small at first and large in the end, or divides by a norm that is nearly zero, sees far more of them than 22.
        """
        flat = numpy.asarray(array, dtype=numpy.float64).reshape(len(array), -1)
        whole, step = _in_order(flat), 0.0
        if not exact:
            largest = float(numpy.abs(flat).max(initial=0.0))
            step = 2.0 ** (math.ceil(math.log2(largest)) - DIGITS) if largest > 0 else 1.0
            whole = numpy.rint(flat / step).astype(numpy.int64)
        order, coded = min(((k, _differences(whole, k)) for k in range(3)), key=lambda found: _cost(found[1]))
        zigzag = ((coded << 1) ^ (coded >> 63)).astype(numpy.uint64).T.ravel()  # the frames of one entry in a row
        planes = max(1, (int(zigzag.max(initial=0)).bit_length() + 7) // 8)
        data = b"".join(((zigzag >> (8 * i)) & 255).astype(numpy.uint8).tobytes() for i in range(planes))
        return {
            **{"at": self._added(data), "planes": planes, "order": order, "step": step},
            **{"frames": len(flat), "size": flat.shape[1]},
        }

    def curve(self, array: Array) -> dict[str, Any]:
        """Numbers of any size, to 17 binary digits each, as the two upper and one lower byte of a float."""
        bits = numpy.asarray(array, dtype=numpy.float32).ravel().view(numpy.uint32) & numpy.uint32(0xFFFFFF80)
        data = b"".join(((bits >> (8 * i)) & 255).astype(numpy.uint8).tobytes() for i in range(4))
        return {"at": self._added(data), "size": int(bits.size)}

    def text(self, header: Mapping[str, Any]) -> str:
        """Everything as letters and digits: a header, its length in front of it, and the arrays, compressed."""
        written = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8")
        data = len(written).to_bytes(4, "little") + written + b"".join(self.parts)
        return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def _in_order(flat: Array) -> NDArray[numpy.int64]:
    """Numbers in single precision as whole numbers in their order: neighbours are one apart.

    >>> _in_order(numpy.array([0.0, 1.4e-45, -1.4e-45])).tolist()
    [0, 1, -1]
    """
    bits = flat.astype(numpy.float32).view(numpy.int32).astype(numpy.int64)
    return numpy.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _differences(whole: NDArray[numpy.int64], order: int) -> NDArray[numpy.int64]:
    """Differences along the frames, with what they start from in front: cumulative sums give the array back.

    >>> _differences(numpy.array([[5], [7], [9]]), 1).ravel().tolist()
    [5, 2, 2]
    """
    for _ in range(order):
        whole = numpy.diff(whole, axis=0, prepend=numpy.zeros_like(whole[:1]))
    return whole


def _cost(coded: NDArray[numpy.int64]) -> float:
    """About how many bits an array takes."""
    return float(numpy.log2(1.0 + numpy.abs(coded)).sum())
