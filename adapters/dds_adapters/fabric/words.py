"""Foreign words in our errors: without line breaks, without secrets, short.

`dds_core.text.scrub` knows what secrets look like; who knows the secrets themselves hides them by name besides. A manager may
quote what it was sent, also encoded as it was sent, or once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote_plus

from dds_core.text import REMOVED, scrub

LONGEST = 200
"""Characters of foreign text in an error."""
_READ = 64 * 1024


def said(text: str, hidden: Collection[str] = ()) -> str:
    """The text, fit for an error; `hidden` are secrets that must not be in it."""
    forms = sorted({form for one in hidden for form in _forms(one)}, key=len, reverse=True)
    read, more = text[:_READ], len(text) > _READ
    for form in forms:
        read = read.replace(form, REMOVED)
    if more and forms:
        read = read[: -len(forms[0])]  # may be the beginning of one that was cut
    if _holds(read, hidden):
        return REMOVED
    text = scrub(read)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@lru_cache(maxsize=16_384)
def named(name: str | None) -> str:
    """A machine's name, fit for people; remembered, because the same thousands of names come every few seconds."""
    return said(name or "")


def _forms(secret: str) -> Iterable[str]:
    """A secret as it may be written; one of a letter or two is in every text and gives nothing away."""
    if len(secret) > 2:
        yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
        yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])


_ESCAPED = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[a-z])")
_BESIDES = re.compile(r"[^A-Za-z0-9]+")


def _holds(text: str, hidden: Iterable[str]) -> bool:
    """Whether a secret is left in a form that nobody thought of (encoded twice, quoted within quotes): then nothing is told.

    Compared are letters and digits alone, of secrets that have enough of them to be no ordinary word.
    """
    plain = {_plain(text), _plain(unquote_plus(text)), _plain(unquote_plus(unquote_plus(text)))}
    return any(len(core := _plain(one)) >= 6 and any(core in form for form in plain) for one in hidden)


def _plain(text: str) -> str:
    return _BESIDES.sub("", _ESCAPED.sub("", text))
