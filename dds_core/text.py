"""Makes texts of other systems (a fabric's or an operator's error text) safe to keep, and compares such texts.

Every such text passes `scrub` before it enters an event. The rules remove a harmless word rather than keep a secret. Nothing here
may quote what it removed.
"""

from __future__ import annotations

import re

MAX_BYTES = 1024
"""Longest text that is kept, in bytes of UTF-8."""

REMOVED = "[removed]"
CUT = "…"

_MAX_READ = 16_384  # characters looked at; the rest cannot be part of what is kept and would only cost time

# Every repetition that can start anywhere is bounded, so that no text takes more than linear time.
_SECRET_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|(?<!com)(?<!by)(?<!sur)pass(?![a-z])|pwd|secret|token|api[-_ ]?key|"
    r"access[-_ ]?key|private[-_ ]?key|encryption[-_ ]?key|credentials?|authorization|cookie|signature|"
    r"session[-_ ]?(?:id|key|state)|"
    r"(?<![a-z])sig(?![a-z])|(?<![a-z])otp(?![a-z])|client[-_ ]?assertion)"
)
_QUOTE = r"(?:\\*[\"'])"
_QUOTED_VALUE = (  # plain, with escapes inside; or with the quotes themselves escaped, as in JSON within JSON
    r"(?P<q>[\"'])(?:(?!(?P=q))[^\\]|\\.)*(?:(?P=q)|\\?\Z)|(?P<b>\\+)(?P<e>[\"']).*?(?:(?<!\\)(?P=b)(?P=e)|\Z)"
)
_DONE = r"\[removed\][\])}.,;:\\]*(?![^\s&\"'<>])"  # removed before: a text that is scrubbed twice is scrubbed once
_BARE_VALUE = rf"(?!{_DONE})[^\s&\"'<>]+"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        # a PEM block, closed or cut off
        (r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", REMOVED),
        # user and password of a URL; the password may hold "/" or "@" if it is not encoded
        (r"\b([a-z][a-z0-9+.-]{0,30}://)[^\s\"'<>]{0,2048}@", rf"\1{REMOVED}@"),
        # headers whose whole value is secret, up to the end of the line or of the quoted string
        (rf"\b((?:proxy-)?authorization|(?:set-)?cookie)({_QUOTE}?\s*[:=]\s*{_QUOTE}?)[^\r\n\"']+", rf"\1\2{REMOVED}"),
        (r"\b(bearer|negotiate)(?:\s+|\s*[:=]\s*)[^\s,;\"']+", rf"\1 {REMOVED}"),
        (r"\b(basic|digest)\s+(?-i:(?=[^\s,;\"']*[A-Z0-9+/=]))[^\s,;\"']{6,}", rf"\1 {REMOVED}"),
        # name=value, name: value, "name": "value", and the same with the quotes escaped once or more
        (
            rf"({_SECRET_NAME}[\w.-]{{0,40}}{_QUOTE}?\s*(?:=>|:=|[:=])\s*)(?:{_QUOTED_VALUE}|{_BARE_VALUE})",
            rf"\1{REMOVED}",
        ),
        # --password value, password 'value', <password>value</password>
        (
            rf"((?<![\w-])--?[\w-]{{0,40}}{_SECRET_NAME}[\w-]{{0,40}}\s+)(?:{_QUOTED_VALUE}|{_BARE_VALUE})",
            rf"\1{REMOVED}",
        ),
        (rf"({_SECRET_NAME}\s+(?:is\s+|was\s+)?)(?:{_QUOTED_VALUE})", rf"\1{REMOVED}"),
        (rf"(<[\w:.-]{{0,40}}{_SECRET_NAME}[\w.-]{{0,40}}>)[^<]*", rf"\1{REMOVED}"),
        # what looks like a token wherever it stands: JWT, well-known prefixes, a long run of mixed letters and digits
        (r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,4}", REMOVED),
        (r"\b(?-i:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|AKIA|ASIA|sha256~|ya29\.)[\w-]{10,}", REMOVED),
        (r"(?-i:\b(?=\w*[a-z])(?=\w*[A-Z])(?=\w*[0-9])[A-Za-z0-9_]{32,}\b=*)", REMOVED),
    )
)


def scrub(text: str) -> str:
    """The text without secrets, control characters and line breaks, at most `MAX_BYTES` of UTF-8, whole characters.

    Removed are bearer and basic credentials, cookies, passwords, tokens and keys written as name and value in the usual
    ways, the user part of URLs, PEM blocks and whatever looks like a token.
    """
    if not text:
        return ""
    if len(text) > _MAX_READ:  # never in the middle of a word: half a URL is not known for one
        text = text[:_MAX_READ].rpartition(" ")[0]
    text = "".join(c for c in text if c.isprintable() or c in "\n\t\r")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _shortened(" ".join(text.split()))


def _shortened(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_BYTES:
        return text
    return data[: MAX_BYTES - len(CUT.encode())].decode(errors="ignore") + CUT


_WORD = re.compile(r"[^\s,;()\[\]{}\"'=<>|]+")
_CODE = re.compile(r"[A-Z]{1,2}[0-9]{2,5}[A-Z]{0,4}")  # an error code (E02XXXX, E40010), though it holds digits
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")  # the suffix of metadata.generateName
_CALENDAR = re.compile(
    r"mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|utc|gmt|am|pm", re.IGNORECASE
)


def same_words(one: str, other: str) -> bool:
    """Whether two texts are equal but for ids, numbers and times. An empty text equals only an empty one."""
    if one == other:
        return True
    if not one or not other:
        return False
    left, right = _words(one), _words(other)
    if one.endswith(CUT) and other.endswith(CUT):  # cut at the same length, but not at the same word
        shorter = min(len(left), len(right))
        return left[:shorter] == right[:shorter]
    return left == right


def _words(text: str) -> list[str]:
    words: list[str] = []
    for raw in _WORD.findall(text.removesuffix(CUT)):
        word = raw.strip(".:!?-")
        if _CODE.fullmatch(word):
            words.append(word)
        elif not any(c.isdigit() for c in word):
            plain = _GENERATED.sub("", word).casefold()
            if plain and not _CALENDAR.fullmatch(plain):
                words.append(plain)
        elif suffix := _GENERATED.search(word):  # name-x7k2q: the name is kept when the digits are all in the suffix
            stem = word[: suffix.start()]
            if not any(c.isdigit() for c in stem):
                words.append(stem.casefold())
    return words
