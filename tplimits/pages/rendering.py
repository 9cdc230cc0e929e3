"""Pages from templates; loading them takes longer than deriving a short limit, so only who wants a page does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from tplimits.pages.report import harmless

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("tplimits", "pages/templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    finalize=harmless,
)


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """A template with its context, all texts escaped and made harmless."""
    return _TEMPLATES.get_template(template).render(context)
