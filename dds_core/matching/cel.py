"""CEL selectors of DeviceClasses and requests, as Kubernetes 1.36 compiles and evaluates them on a device.

`compile` returns a `Program`; `Program.matches(device)` says whether the device is selected. The environment is that of
k8s.io/dynamic-resource-allocation/cel: `device.driver`, `device.attributes`, `device.capacity` (an empty map for a domain that
the device does not have), `device.allowMultipleAllocations`, quantities, versions, `cel.bind`, strings, sets, lists, regular
expressions, IP addresses and networks, URLs, formats, comprehensions with two variables, optionals. Not supported, so refused by
`compile`: image references, `string()` of an address, the alpha `includes()`, optionals and null beside functions of lists, and
`device` alone as a value. Kubernetes limits
the cost of a run (1,000,000 units); here the library's own limit on iterations applies.

The library (`cel-expr-python`, Google's C++ CEL) is loaded when the first selector is compiled, not when this is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dds_core.errors import DdsError
from dds_core.matching.errors import SelectorError
from dds_core.matching.macros import expanded, unsafe
from dds_core.matching.quantities import Quantity
from dds_core.matching.versions import Version

if TYPE_CHECKING:
    from cel_expr_python import cel

LONGEST = 10 * 1024
"""Longest expression, in bytes (resource.k8s.io: CELSelectorExpressionMaxLength)."""

CACHED = 1024
"""Number of compiled expressions that are cached. The least recently used is dropped first."""

Attribute = str | int | bool | Version

_TOKEN = re.compile(
    r"""(?P<string>[rR]?(?:\"\"\"(?:\\.|(?!\"\"\").)*\"\"\"|'''(?:\\.|(?!''').)*'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"|(?P<space>\s+|//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<other>.)",
    re.DOTALL,
)
_LOOKED_UP = {"attributes": "__attributes", "capacity": "__capacity"}
_NO_KEY = re.compile(r'Key not found in map : "?(.*?)"?$')


class DeviceView:
    """A device as an expression sees it. `attributes` and `capacity` have the published names; a name without a domain belongs
    to the driver's domain. Immutable; the values for the library are made once."""

    __slots__ = ("_attributes", "_capacity", "_values", "allow_multiple", "attributes", "capacity", "driver")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Attribute] | None = None,
        capacity: Mapping[str, Quantity] | None = None,
        allow_multiple: bool = False,
    ) -> None:
        self.driver = driver
        self.attributes = attributes or {}
        self.capacity = capacity or {}
        self.allow_multiple = allow_multiple
        self._values: dict[str, Any] | None = None
        self._attributes: dict[str, dict[str, Any]] = {}
        self._capacity: dict[str, dict[str, Any]] = {}

    def values(self, domains: Mapping[str, Any]) -> dict[str, Any]:
        """The variables for an expression that looks up these domains."""
        if self._values is None:
            self._values = self._made()
        nothing: dict[str, Any] = {self.driver: {}, **domains}
        return {
            **self._values,
            "__attributes": {**nothing, **self._attributes},
            "__capacity": {**nothing, **self._capacity},
        }

    def _made(self) -> dict[str, Any]:
        from dds_core.matching.functions import quantity_value, semver_value

        for name, value in self.attributes.items():
            domain, key = _qualified(name, self.driver)
            given = semver_value(value) if isinstance(value, Version) else value
            self._attributes.setdefault(domain, {})[key] = given
        for name, amount in self.capacity.items():
            domain, key = _qualified(name, self.driver)
            self._capacity.setdefault(domain, {})[key] = quantity_value(amount)
        return {
            "device.driver": self.driver,
            "device.attributes": self._attributes,
            "device.capacity": self._capacity,
            "device.allowMultipleAllocations": self.allow_multiple,
        }


class Program:
    """A compiled selector."""

    __slots__ = ("_domains", "_run", "expression")

    def __init__(self, expression: str, run: cel.Expression, domains: Mapping[str, Any]) -> None:
        self.expression = expression
        self._run = run
        self._domains = domains

    def matches(self, device: DeviceView) -> bool:
        """Whether the device is selected. SelectorError when the expression fails on it or gives no boolean; the scheduler then
        fails the whole pod."""
        try:
            found = self._run.eval(data=device.values(self._domains))
            value = found.value()
        except DdsError as error:
            raise SelectorError(self.expression, error.what) from error
        except RuntimeError as error:
            raise SelectorError(self.expression, reason(str(error))) from error
        if isinstance(value, bool):
            return value
        kind = found.type().name()
        why = reason(str(value)) if kind == "ERROR" else f"gives {kind.lower()} where a bool is wanted"
        raise SelectorError(self.expression, why)


@lru_cache(maxsize=CACHED)
def compile(expression: str) -> Program:
    """Compile a selector. SelectorError when it is too long, does not compile, or can never give a boolean."""
    if len(expression.encode("utf-8", "surrogatepass")) > LONGEST:
        raise SelectorError(expression, f"is longer than {LONGEST} bytes")
    if unsafe(expression):
        raise SelectorError(
            expression, "uses optionals or null beside a function of lists or maps; dds cannot evaluate that"
        )
    try:
        checked, run = _environments()
    except ImportError as error:
        missing = f"cannot be evaluated: the package {error.name} is not installed"
        raise SelectorError(expression, missing, "pip install cel-expr-python google-re2") from error
    try:
        plain = expanded(expression)
        result = checked.compile(plain).return_type().name()
        if result not in ("BOOL", "DYN"):
            raise SelectorError(expression, f"must evaluate to bool or the unknown type, not {result.lower()}")
        rewritten, domains = _rewritten(plain)
        return Program(expression, run.compile(rewritten), domains)
    except RuntimeError as error:
        raise SelectorError(expression, reason(str(error))) from error


@lru_cache(maxsize=1)
def _environments() -> tuple[cel.Env, cel.Env]:
    """Two environments: one to check types as Kubernetes does, one to run."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    from dds_core.matching import functions

    config, compared = functions.configured()

    def environment(functions: Any, capacity: cel.Type, **more: cel.Type) -> cel.Env:
        text = cel.Type.STRING
        attributes = cel.Type.Map(text, cel.Type.Map(text, cel.Type.DYN))
        capacities = cel.Type.Map(text, cel.Type.Map(text, capacity))
        variables = {
            "device.driver": text,
            "device.attributes": attributes,
            "device.capacity": capacities,
            "device.allowMultipleAllocations": cel.Type.BOOL,
        }
        extensions = [ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_optional.ExtOptional()]
        return cel.NewEnv(
            config=config, variables=variables | more, extensions=extensions, functions=[*functions, *compared]
        )

    nested = cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    checked = environment(functions.declared(), functions.quantity_type())
    run = environment(functions.runnable(), cel.Type.DYN, __attributes=nested, __capacity=nested)
    return checked, run


def _rewritten(expression: str) -> tuple[str, dict[str, Any]]:
    """The expression, changed so that look-ups of domains read `__attributes` and `__capacity`; and the domains that it may name.

    When an expression looks up a domain that the device does not have, Kubernetes gives an empty map; `in` and the macros see
    only the existing domains. The library's maps cannot do both. So a look-up reads another variable, whose map has every domain.
    """
    tokens = [(found.lastgroup, found[0]) for found in _TOKEN.finditer(expression)]
    solid = [index for index, (kind, _) in enumerate(tokens) if kind != "space"]
    text = [token for _, token in tokens]
    domains: dict[str, Any] = {}
    for place, index in enumerate(solid):
        kind, token = tokens[index]
        _, dot, field, *rest = [text[i] for i in solid[place : place + 6]] + [""] * 6
        if kind == "string":
            domains[_literal(token)] = {}
        if token != "device" or dot != "." or field not in _LOOKED_UP or not _looks_up(rest):
            continue
        if rest[0] == ".":
            domains[rest[1]] = {}
        text[index] = _LOOKED_UP[field]
        text[solid[place + 1]] = text[solid[place + 2]] = ""
    return "".join(text), domains


def _looks_up(ahead: list[str]) -> bool:
    """Whether the tokens after a map are an index or a field, and not a call or the end."""
    return ahead[0] == "[" or (ahead[0] == "." and ahead[2] != "(")


def _literal(token: str) -> str:
    """The text of a string literal. Only escaped quotes and backslashes are handled; others do not occur in domains."""
    raw = token[0] in "rR"
    body = token[1:] if raw else token
    body = body[3:-3] if len(body) >= 6 and body[:3] in ('"""', "'''") else body[1:-1]
    return body if raw else re.sub(r"\\(.)", r"\1", body)


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def reason(text: str) -> str:
    """The library's message without its status codes; a missing key in the words of Kubernetes."""
    text = " ".join(re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", text).split())
    found = _NO_KEY.search(text)
    return f"no such key: {found[1]}" if found else text
