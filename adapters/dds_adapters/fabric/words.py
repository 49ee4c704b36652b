"""Foreign words in our errors: without line breaks, without secrets, short.

`dds_core.text.scrub` knows what secrets look like; who knows the secrets themselves hides them by name besides. A manager may
quote what it was sent, also encoded as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from dds_core.text import REMOVED, scrub

LONGEST = 200
"""Characters of foreign text in an error."""


def said(text: str, hidden: Iterable[str] = ()) -> str:
    """The text, fit for an error; `hidden` are secrets that must not be in it."""
    text = text[: 32 * LONGEST]
    for secret in sorted({form for one in hidden for form in _forms(one)}, key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    text = scrub(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _forms(secret: str) -> Iterable[str]:
    """A secret as it may be written; one of a letter or two is in every text and gives nothing away."""
    if len(secret) > 2:
        yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
        yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
