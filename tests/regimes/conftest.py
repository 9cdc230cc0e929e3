"""Seeds that nobody picks."""

from __future__ import annotations

import zlib

import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The CRC of the test's name."""
    return zlib.crc32(request.node.name.encode())
