"""The CEL functions that Kubernetes adds (quantities, versions, sets), for the C++ library that evaluates selectors.

The library has no custom types of values. So quantities and versions are passed as bytes with a tag in front; no attribute is
of type bytes. Equal values are equal bytes, and functions read the type from the tag. The environment that checks (`declared`)
has them as types of their own, the one that runs (`runnable`) as bytes. Import this module only to compile a selector: it loads
the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cel_expr_python import cel

from dds_core.errors import InputError
from dds_core.matching import versions
from dds_core.matching.quantities import NANO, Quantity, parse

QUANTITY = b"kubernetes.Quantity:"
SEMVER = b"kubernetes.Semver:"

_T = cel.Type
_QUANTITY_TYPE = _T.AbstractType("kubernetes.Quantity")
_SEMVER_TYPE = _T.AbstractType("kubernetes.Semver")
_TYPES = {
    "Q": _QUANTITY_TYPE,
    "V": _SEMVER_TYPE,
    "s": _T.STRING,
    "i": _T.INT,
    "b": _T.BOOL,
    "d": _T.DOUBLE,
    "L": _T.List(_T.DYN),
}
_RUN_TYPES = _TYPES | {"Q": _T.BYTES, "V": _T.BYTES}


def quantity_value(quantity: Quantity) -> bytes:
    """A quantity as a value for the library."""
    return QUANTITY + b"%d" % quantity.nanos


def semver_value(text: str) -> bytes:
    """A version as a value for the library. InputError when the text is no version."""
    return SEMVER + versions.canonical(text).encode()


def _nanos(value: bytes) -> int:
    if not value.startswith(QUANTITY):
        raise InputError("no such overload: a quantity is wanted here")
    return int(bytes(value[len(QUANTITY) :]))


def _order(value: bytes) -> versions.Order:
    return versions.order(bytes(value[len(SEMVER) :]).decode())


def _compare(left: bytes, right: bytes) -> int:
    if left.startswith(SEMVER) and right.startswith(SEMVER):
        one, other = _order(left), _order(right)
        return (one > other) - (one < other)
    return _signum(_nanos(left) - _nanos(right))


def _signum(number: int) -> int:
    return (number > 0) - (number < 0)


def _holds(read: Callable[..., object]) -> Callable[..., bool]:
    def holds(*values: Any) -> bool:
        try:
            read(*values)
        except InputError:
            return False
        return True

    return holds


def _as_integer(value: bytes) -> int:
    whole, rest = divmod(_nanos(value), NANO)
    if rest:
        raise InputError("cannot convert value to integer")
    return whole


def _is_integer(value: bytes) -> bool:
    return _nanos(value) % NANO == 0


def _sum(sign: int) -> Callable[[bytes, bytes | int], bytes]:
    def total(left: bytes, right: bytes | int) -> bytes:
        added = right * NANO if isinstance(right, int) else _nanos(right)
        return quantity_value(Quantity(_nanos(left) + sign * added))

    return total


def _semver(text: str, normalize: bool = False) -> bytes:
    return semver_value(versions.normalized(text) if normalize else text)


def _contains(one: list[Any], other: list[Any]) -> bool:
    return all(any(_same(a, b) for a in one) for b in other)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


_FUNCTIONS: tuple[tuple[str, tuple[tuple[str, str, bool, Callable[..., Any]], ...]], ...] = (
    ("quantity", (("Q", "s", False, lambda text: quantity_value(parse(text))),)),
    ("isQuantity", (("b", "s", False, _holds(parse)),)),
    ("isInteger", (("b", "Q", True, _is_integer),)),
    ("asInteger", (("i", "Q", True, _as_integer),)),
    ("asApproximateFloat", (("d", "Q", True, lambda value: _nanos(value) / NANO),)),
    ("sign", (("i", "Q", True, lambda value: _signum(_nanos(value))),)),
    ("add", (("Q", "QQ", True, _sum(1)), ("Q", "Qi", True, _sum(1)))),
    ("sub", (("Q", "QQ", True, _sum(-1)), ("Q", "Qi", True, _sum(-1)))),
    ("semver", (("V", "s", False, _semver), ("V", "sb", False, _semver))),
    ("isSemver", (("b", "s", False, _holds(_semver)), ("b", "sb", False, _holds(_semver)))),
    ("major", (("i", "V", True, lambda value: _order(value)[0]),)),
    ("minor", (("i", "V", True, lambda value: _order(value)[1]),)),
    ("patch", (("i", "V", True, lambda value: _order(value)[2]),)),
    ("compareTo", (("i", "QQ", True, _compare), ("i", "VV", True, _compare))),
    (
        "isLessThan",
        (("b", "QQ", True, lambda a, b: _compare(a, b) < 0), ("b", "VV", True, lambda a, b: _compare(a, b) < 0)),
    ),
    (
        "isGreaterThan",
        (("b", "QQ", True, lambda a, b: _compare(a, b) > 0), ("b", "VV", True, lambda a, b: _compare(a, b) > 0)),
    ),
    ("sets.contains", (("b", "LL", False, _contains),)),
    ("sets.equivalent", (("b", "LL", False, lambda a, b: _contains(a, b) and _contains(b, a)),)),
    ("sets.intersects", (("b", "LL", False, lambda a, b: any(_same(x, y) for x in a for y in b)),)),
)
"""Name, and for each overload: result, parameters, whether it is a method, implementation. The letters are keys of `_TYPES`."""


def declared() -> Sequence[cel.FunctionDecl]:
    """The functions for the environment that checks: quantities and versions are types of their own."""
    return [
        cel.FunctionDecl(name, [_overload(name, each, _TYPES, run=False) for each in overloads])
        for name, overloads in _FUNCTIONS
    ]


def runnable() -> Sequence[cel.FunctionDecl]:
    """The functions for the environment that runs: overloads that differ only in quantity or version are merged."""
    found = []
    for name, overloads in _FUNCTIONS:
        by_form = {each[1].replace("V", "Q"): each for each in overloads}
        found.append(cel.FunctionDecl(name, [_overload(name, each, _RUN_TYPES, run=True) for each in by_form.values()]))
    return found


def quantity_type() -> cel.Type:
    """The type of `device.capacity[domain].name` for checking."""
    return _QUANTITY_TYPE


def _overload(
    name: str, overload: tuple[str, str, bool, Callable[..., Any]], types: dict[str, cel.Type], *, run: bool
) -> cel.Overload:
    result, parameters, member, call = overload
    identity = f"{name}_{result}_{parameters}"
    kinds = [types[letter] for letter in parameters]
    if run:
        return cel.Overload(identity, return_type=types[result], parameters=kinds, is_member=member, impl=call)
    return cel.Overload(identity, return_type=types[result], parameters=kinds, is_member=member)
