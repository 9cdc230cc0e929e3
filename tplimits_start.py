"""The command `tplimits`: its version at once, everything else by the package, which takes a second to load."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command and return its exit status."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(f"tplimits {version('tplimits')}")
        return 0
    from tplimits.cli import main as command

    return command()
