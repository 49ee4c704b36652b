"""Makes text of a manager fit for dds's errors: short, on one line, without secrets.

`dds_core.text.scrub` knows the forms of secrets; a caller that knows the secrets themselves hides them too. A manager may quote
what it was sent, in the encoding of the request or encoded once more.
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
    """The text, fit for an error, without the secrets in `hidden`."""
    forms = sorted({form for one in hidden for form in _forms(one)}, key=len, reverse=True)
    read, more = text[:_READ], len(text) > _READ
    for form in forms:
        read = read.replace(form, REMOVED)
    if more and forms:
        read = read[: -len(forms[0])]  # the end may be the beginning of a secret
    if _holds(read, hidden):
        return REMOVED
    text = scrub(read)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@lru_cache(maxsize=16_384)
def named(name: str | None) -> str:
    """A machine's name, fit to be shown; cached, because thousands of names come every few seconds."""
    return said(name or "")


def _forms(secret: str) -> Iterable[str]:
    """The encodings of a secret; one of a letter or two occurs in every text, so it cannot be hidden."""
    if len(secret) > 2:
        yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
        yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])


_ESCAPED = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[a-z])")
_BESIDES = re.compile(r"[^A-Za-z0-9]+")


def _holds(text: str, hidden: Iterable[str]) -> bool:
    """Whether a secret is left in an unexpected form (encoded twice, quotes in quotes); then the whole text is dropped.

    Only letters and digits are compared, for secrets that have enough of them to be no ordinary word.
    """
    plain = {_plain(text), _plain(unquote_plus(text)), _plain(unquote_plus(unquote_plus(text)))}
    return any(len(core := _plain(one)) >= 6 and any(core in form for form in plain) for one in hidden)


def _plain(text: str) -> str:
    return _BESIDES.sub("", _ESCAPED.sub("", text))
