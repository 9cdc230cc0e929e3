"""tplimits errors"""

from __future__ import annotations

from typing import Annotated

import typer
from typer.exceptions import TyperException

from tplimits.commands.catalogue import KINDS, matching
from tplimits.terminal import show

#: messages that are shown at once
_MOST = 40

#: characters of a message that is looked for: words in any order are compared with all of them
_LONGEST = 1000


def errors(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD…", help="words of a message")] = None,
) -> None:
    """Find what a message means: every refusal with these words, what was found and what repairs it."""
    asked = " ".join(words or ())
    found = matching(asked) if len(asked) <= _LONGEST else ()
    if not found:
        raise TyperException(f"no message has {asked!r:.200}: give fewer of its words, without names and numbers.")
    for kind, about in KINDS.items():
        lines = [r.text for r in found if r.kind == kind]
        if lines:
            show(f"{kind}: {about}", *(f"  {line}" for line in lines[:_MOST]))
            if len(lines) > _MOST:
                show(f"  … {len(lines) - _MOST} more; give words of the message")
