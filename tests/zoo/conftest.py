"""What every test of a zoo program does: compare numbers with an oracle, compare the limit with finite width.

An oracle is a number that the test itself makes, from a published formula or an integral by mpmath; it never
comes from the package.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.regimes.width.derivation import derive_width
from tplimits.sampling.verdict import Verdict
from tplimits.sampling.work import affordable, work

#: agreement asked of closed forms and of quadrature, relative to max(1, |value|)
TOLERANCE = 1e-8
#: one check may reject a true limit with this probability; over the 31 programs that is 3 % in all.  Seeds are
#: the CRC of the program's name: nobody picks them.
LEVEL = 1e-3
WIDTHS = (32, 64, 128, 256)
#: work of one check, in normal random numbers (under a second), in equal parts for each width: a claim 5 % off is
#: then found in most programs; tests of the others ask for more
WORK = 1e8


def draws(program: tp.Program, widths: tuple[int, ...], total: float) -> list[int]:
    """Draws at each width so that all widths cost the same, `total` together."""
    return [int(total / len(widths) / work(program, n)) for n in affordable(program, widths)]


class Judge:
    """Checks of zoo programs at finite width."""

    def verdict(self, name: str, claims: Mapping[str, float] | None, total: float, widths: tuple[int, ...]) -> Verdict:
        program = zoo.get(name).program
        return tp.check(
            tp.derive(program),
            widths=widths,
            draws=draws(program, widths, total),
            seed=zlib.crc32(name.encode()),
            level=LEVEL,
            claims=claims,
            progress=False,
        )

    def accepts(self, name: str, total: float = WORK, widths: tuple[int, ...] = WIDTHS) -> None:
        """The derived limit is where finite widths point."""
        verdict = self.verdict(name, None, total, widths)
        assert verdict.accepted, verdict

    def rejects(
        self, name: str, claims: Mapping[str, float], total: float = WORK, widths: tuple[int, ...] = WIDTHS
    ) -> None:
        """A wrong value is found out."""
        verdict = self.verdict(name, claims, total, widths)
        assert not verdict.accepted, verdict

    def without_dots(self, name: str) -> dict[str, float]:
        """What would follow if W and Wᵀ were independent."""
        program = zoo.get(name).program
        wrong = tp.WidthLimit(program, derive_width(program, with_dots=False))
        return {label: number.value for label, number in wrong.evaluate().items()}


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def agrees() -> Callable[..., None]:
    """Both ways to a number, closed forms and plain quadrature, against the oracle's values of all observables."""

    def compare(name: str, expected: Mapping[str, Any], **options: Any) -> None:
        limit = tp.derive(zoo.get(name).program)
        for method in ("auto", "quadrature"):
            numbers = limit.evaluate(method, **options)
            assert set(numbers) == set(expected)
            for label, value in expected.items():
                off = abs(numbers[label].value - float(value))
                assert off <= TOLERANCE * max(1.0, abs(float(value))), (method, label, numbers[label], value)

    return compare


@pytest.fixture
def mean() -> Callable[..., mpmath.mpf]:
    """E f(g) for a standard normal g by mpmath; the integral is cut at the given kinks."""

    def integral(f: Callable[[Any], Any], kinks: tuple[float, ...] = ()) -> mpmath.mpf:
        return mpmath.quad(lambda g: f(g) * mpmath.npdf(g), sorted({-14, -7, -3, 0, 3, 7, 14, *kinks}))

    return integral


@pytest.fixture
def symmetric() -> Callable[..., dict[str, Any]]:
    """The brackets of a returned family: one value on the diagonal, another off it."""

    def brackets(axis: str, size: int, diagonal: Any, other: Any) -> dict[str, Any]:
        return {
            f"⟨return[{axis}={i}]|return[{axis}={j}]⟩": diagonal if i == j else other
            for i in range(size)
            for j in range(i, size)
        }

    return brackets
