"""Checks of the syntax of names, keys and values, with the messages and limits of k8s.io/apimachinery.

Each check returns what is wrong as messages; none means valid.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from dds_core.errors import InputError
from dds_core.matching.quantities import NANO as NANO
from dds_core.matching.quantities import parse

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_IS_NAME = re.compile(_NAME)
_IS_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)
_IS_CONFIG_KEY = re.compile("[-._a-zA-Z0-9]+")

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

Problems = tuple[str, ...]
Check = Callable[[str], Problems]


def too_long(length: int) -> str:
    return f"must be no more than {length} bytes"


def _regex(words: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    hint = f"e.g. {shown}, " if examples else ""
    return f"{words} ({hint}regex used for validation is '{pattern}')"


def _syntax(words: str, pattern: str, *examples: str, longest: int = 0) -> Check:
    fits = re.compile(pattern)
    problem = _regex(words, pattern, *examples)

    @lru_cache(maxsize=8192)
    def check(value: str) -> Problems:
        found = [too_long(longest)] if longest and len(value.encode()) > longest else []
        return tuple(found if fits.fullmatch(value) else [*found, problem])

    return check


dns_label = _syntax(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character",
    _LABEL, "my-name", "123-abc", longest=LABEL_LENGTH,
)  # fmt: skip
"""RFC 1123 label: names of devices, requests, namespaces."""

dns_subdomain = _syntax(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character",
    _SUBDOMAIN, "example.com", longest=SUBDOMAIN_LENGTH,
)  # fmt: skip
"""RFC 1123 subdomain: names of most objects, of drivers and domains."""

label_value = _syntax(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character",
    f"({_NAME})?", "MyValue", "my_value", "12345", longest=LABEL_LENGTH,
)  # fmt: skip

c_identifier = _syntax(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
    "[A-Za-z_][A-Za-z0-9_]*", "my_name", "MY_NAME", "MyName",
)  # fmt: skip
"""Names of attributes and capacities of devices."""

condition_reason = _syntax(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or "
    "'_,:', and must end with an alphanumeric character or '_'",
    "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB",
)  # fmt: skip


@lru_cache(maxsize=8192)
def path_segment(value: str) -> Problems:
    """The syntax of RBAC names: any text that can be a part of an API path."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{part}'" for part in "/%" if part in value)


_QUALIFIED = _regex(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _NAME, "MyName", "my.name", "123-abc",
)  # fmt: skip


@lru_cache(maxsize=8192)
def qualified_name(value: str) -> Problems:
    """`[prefix/]name`: keys of labels, annotations and taints, types of conditions, names of finalizers."""
    parts = value.split("/")
    found: list[str] = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        found += [f"prefix part {problem}" for problem in (dns_subdomain(parts[0]) if parts[0] else ())]
    elif len(parts) > 2:
        return (
            f"a qualified name {_QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > LABEL_LENGTH:
        found.append(f"name part {too_long(LABEL_LENGTH)}")
    if not _IS_NAME.fullmatch(name):
        found.append(f"name part {_QUALIFIED}")
    return tuple(found)


@lru_cache(maxsize=8192)
def semantic_version(value: str) -> Problems:
    return () if _IS_SEMVER.fullmatch(value) else ("must be a string compatible with semver.org spec 2.0.0",)


@lru_cache(maxsize=8192)
def lower_uuid(value: str) -> Problems:
    if _UUID.fullmatch(value):
        return ()
    form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`"
    return (f"uuid must be in RFC 4122 normalized form, {form} with lowercase hexadecimal characters",)


@lru_cache(maxsize=8192)
def config_key(value: str) -> Problems:
    """Keys of ConfigMaps and Secrets."""
    found = [] if len(value) <= SUBDOMAIN_LENGTH else [too_long(SUBDOMAIN_LENGTH)]
    if not _IS_CONFIG_KEY.fullmatch(value):
        words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        found.append(_regex(words, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    elif value in (".", "..") or value.startswith(".."):
        found.append(f"must not be '{value}'" if value in (".", "..") else "must not start with '..'")
    return tuple(found)


def prefix_of(check_name: str) -> str:
    """A generateName as a name to check: a trailing dash becomes a letter, as servers do."""
    return check_name[:-1] + "a" if check_name.endswith("-") and len(check_name) > 1 else check_name


# -- quantities (their arithmetic is in dds_core)

QUANTITY = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


def canonical(text: str) -> str | None:
    """The quantity as a server writes it; None if it is none."""
    try:
        return str(parse(text))
    except InputError:
        return None


def nanos(text: str | None) -> int:
    """The amount in 10⁻⁹; 0 if it is no quantity."""
    try:
        return parse(text or "").nanos
    except InputError:
        return 0
