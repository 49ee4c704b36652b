"""Label and field selectors, in the full syntax of the API. Malformed text raises ApiError 400.

Labels: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, `a<1`. Fields: `a=b`, `a==b`, `a!=b`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dds_lab.api.status import ApiError, bad_request

_TOKEN = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")
_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label or field. `operator` is one of in, notin, exists, absent, gt, lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        try:
            number, bound = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return number > bound if self.operator == "gt" else number < bound


Selector = tuple[Requirement, ...]
"""All requirements must hold; an empty selector matches everything."""


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(requirement.matches(labels) for requirement in selector)


OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
"""Operators of a LabelSelector object, as requirements name them."""


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object matches the labels. An empty one matches all."""
    wanted = [Requirement(key, "in", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        wanted.append(Requirement(each["key"], OPERATORS[each["operator"]], tuple(each.get("values") or ())))
    return matches(tuple(wanted), labels)


def selector_text(selector: Mapping[str, Any]) -> str:
    """A LabelSelector object in the syntax of `labels`."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each["key"], OPERATORS[each["operator"]], sorted(each.get("values") or ())
        set_of = f"{key} {operator} ({','.join(values)})"
        terms.append({"exists": key, "absent": f"!{key}"}.get(operator, set_of))
    return ",".join(sorted(terms))


def labels(text: str) -> Selector:
    """Parse a label selector."""
    return _Parser(text).requirements() if text.strip() else ()


def fields(text: str, known: tuple[str, ...], custom: bool = False) -> Selector:
    """Parse a field selector. Fields that are not `known` are refused in the words for built-in or custom kinds."""
    found: list[Requirement] = []
    for term in _split(text):
        if not term:
            continue
        key, operator, value = _field_term(term, text)
        if key not in known:
            raise bad_request(_unknown_field(key, known, custom))
        found.append(Requirement(key, operator, (value,)))
    return tuple(found)


def exact_name(text: str) -> str:
    """The name that a field selector demands, as permissions see it; "" if there is none or the text is malformed."""
    try:
        terms = [_field_term(term, text) for term in _split(text) if term]
    except ApiError:
        return ""
    return next((value for key, operator, value in terms if (key, operator) == ("metadata.name", "in")), "")


def _unknown_field(key: str, known: tuple[str, ...], custom: bool) -> str:
    if custom:
        return f"field label not supported: {key}"
    return f'"{key}" is not a known field selector: only {", ".join(f"{chr(34)}{name}{chr(34)}" for name in known)}'


def _split(text: str) -> list[str]:
    """Split at commas, but not after a backslash."""
    terms, term, escaped = [], "", False
    for char in text:
        if escaped or char == "\\":
            term += char
            escaped = not escaped
        elif char == ",":
            terms.append(term)
            term = ""
        else:
            term += char
    return [*terms, term]


def _field_term(term: str, text: str) -> tuple[str, str, str]:
    for sign, operator in (("!=", "notin"), ("==", "in"), ("=", "in")):
        key, found, value = term.partition(sign)
        if found:
            return key, operator, re.sub(r"\\(.)", r"\1", value)
    raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")


class _Parser:
    """Recursive descent over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan(text)
        self._at = 0

    def _scan(self, text: str) -> list[str]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:  # pragma: no cover - every character is in one class of the expression
                raise self._wrong(f"found '{text[at:]}'")
            tokens.append(found.group(1) or found.group(2))
            at = found.end()
        return tokens

    def requirements(self) -> Selector:
        found = [self._requirement()]
        while self._at < len(self._tokens):
            self._expect(",")
            if self._at == len(self._tokens):
                raise self._wrong("found '', expected: identifier after ','")
            found.append(self._requirement())
        return tuple(found)

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "absent")
        key = self._key()
        sign = self._peek()
        if sign in ("", ","):
            return Requirement(key, "exists")
        self._next()
        if sign in ("in", "notin"):
            return Requirement(key, sign, self._values())
        if sign in ("=", "==", "!="):
            return Requirement(key, "notin" if sign == "!=" else "in", (self._value(),))
        if sign in ("<", ">"):
            return Requirement(key, "gt" if sign == ">" else "lt", (self._number(key),))
        raise self._wrong(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")

    def _values(self) -> tuple[str, ...]:
        self._expect("(")
        values = [self._value()]
        while self._peek() == ",":
            self._next()
            values.append(self._value())
        self._expect(")")
        return tuple(dict.fromkeys(values))

    def _value(self) -> str:
        """A value; empty if the text goes on with a comma or a bracket, or ends."""
        token = self._peek()
        if token in ("", ",", ")"):
            return ""
        self._next()
        if len(token) > 63 or not _VALUE.fullmatch(token):
            raise self._wrong(
                f'values[0][x]: Invalid value: "{token}": a valid label must be an empty string or consist of'
                " alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            )
        return token

    def _number(self, key: str) -> str:
        value = self._value()
        if not re.fullmatch(r"[-+]?\d+", value):
            raise self._wrong(
                f"values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return value

    def _key(self) -> str:
        token = self._peek()
        if not token or not re.match(r"[^=!(),<>]", token):
            raise self._wrong(f"found '{token}', expected: !, identifier, or 'end of string'")
        self._next()
        if not _KEY.fullmatch(token):
            raise self._wrong(f'key: Invalid value: "{token}": name part must consist of alphanumeric characters')
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> None:
        self._at += 1

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._wrong(f"found '{self._peek()}', expected: '{token}'")
        self._next()

    def _wrong(self, why: str) -> Exception:
        return bad_request(f"unable to parse requirement: {why}")
