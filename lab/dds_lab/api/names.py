"""The syntaxes of names, keys and values in the API, with the words in which a server refuses what breaks them.

Each check returns what is wrong as messages (empty: nothing). The words and limits are those of k8s.io/apimachinery's
validation packages. This module must never know where in an object a name stands.
"""

import re
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_IS_LABEL = re.compile(_LABEL)
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN)
_IS_NAME = re.compile(_NAME)
_IS_VALUE = re.compile(_VALUE)
_IS_C_IDENTIFIER = re.compile(_C_IDENTIFIER)
_IS_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)
_IS_CONFIG_KEY = re.compile("[-._a-zA-Z0-9]+")
_IS_CONDITION_REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

Problems = tuple[str, ...]


def too_long(length: int) -> str:
    return f"must be no more than {length} bytes"


def _regex(words: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    hint = f"e.g. {shown}, " if examples else ""
    return f"{words} ({hint}regex used for validation is '{pattern}')"


@lru_cache(maxsize=8192)
def dns_label(value: str) -> Problems:
    """RFC 1123 label: what names of devices, requests, namespaces are made of."""
    found = [] if len(value.encode()) <= LABEL_LENGTH else [too_long(LABEL_LENGTH)]
    if not _IS_LABEL.fullmatch(value):
        found.append(
            _regex(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                "and end with an alphanumeric character",
                _LABEL, "my-name", "123-abc",
            )
        )  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=8192)
def dns_subdomain(value: str) -> Problems:
    """RFC 1123 subdomain: names of most objects, of drivers and domains."""
    found = [] if len(value.encode()) <= SUBDOMAIN_LENGTH else [too_long(SUBDOMAIN_LENGTH)]
    if not _IS_SUBDOMAIN.fullmatch(value):
        found.append(
            _regex(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
                "must start and end with an alphanumeric character",
                rf"{_LABEL}(\.{_LABEL})*", "example.com",
            )
        )  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=8192)
def path_segment(value: str) -> Problems:
    """What may stand in a path of the API at all: names of RBAC objects."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{part}'" for part in "/%" if part in value)


@lru_cache(maxsize=8192)
def label_value(value: str) -> Problems:
    found = [] if len(value.encode()) <= LABEL_LENGTH else [too_long(LABEL_LENGTH)]
    if not _IS_VALUE.fullmatch(value):
        found.append(
            _regex(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
                "must start and end with an alphanumeric character",
                _VALUE, "MyValue", "my_value", "12345",
            )
        )  # fmt: skip
    return tuple(found)


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
            "a qualified name "
            + _regex(
                "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
                "character",
                _NAME, "MyName", "my.name", "123-abc",
            )
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )  # fmt: skip
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > LABEL_LENGTH:
        found.append(f"name part {too_long(LABEL_LENGTH)}")
    if not _IS_NAME.fullmatch(name):
        found.append(
            "name part "
            + _regex(
                "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
                "character",
                _NAME, "MyName", "my.name", "123-abc",
            )
        )  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=8192)
def c_identifier(value: str) -> Problems:
    """What attributes and capacities of devices are called."""
    if _IS_C_IDENTIFIER.fullmatch(value):
        return ()
    return (
        _regex(
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
            "characters or '_'",
            _C_IDENTIFIER, "my_name", "MY_NAME", "MyName",
        ),
    )  # fmt: skip


@lru_cache(maxsize=8192)
def semantic_version(value: str) -> Problems:
    return () if _IS_SEMVER.fullmatch(value) else ("must be a string compatible with semver.org spec 2.0.0",)


@lru_cache(maxsize=8192)
def lower_uuid(value: str) -> Problems:
    """RFC 4122, lower case."""
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


@lru_cache(maxsize=8192)
def condition_reason(value: str) -> Problems:
    if _IS_CONDITION_REASON.fullmatch(value):
        return ()
    return (
        _regex(
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
            "characters or '_,:', and must end with an alphanumeric character or '_'",
            "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB",
            "ReasonA:ReasonB",
        ),
    )  # fmt: skip


def prefix_of(check_name: str) -> str:
    """A generateName as a name whose end is still to come: trailing dashes are masked as servers do."""
    return check_name[:-1] + "a" if check_name.endswith("-") and len(check_name) > 1 else check_name
