"""The CEL functions that Kubernetes adds, for the C++ library that evaluates selectors: quantities, versions, sets, lists,
regular expressions, IP addresses and networks, URLs, formats of names.

The library has no custom types of values. So those of Kubernetes are passed as bytes with a tag in front; no attribute is of type
bytes. Equal values are equal bytes, and functions read the type from the tag. The environment that checks (`declared`)
has them as types of their own, the one that runs (`runnable`) as bytes. Import this module only to compile a selector: it loads
the library.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

import re2
from cel_expr_python import cel

from dds_core.errors import InputError
from dds_core.matching import versions
from dds_core.matching.quantities import NANO, Quantity, parse

QUANTITY = b"kubernetes.Quantity:"
SEMVER = b"kubernetes.Semver:"
ADDRESS, NETWORK, LINK, FORMAT = b"net.IP:", b"net.CIDR:", b"kubernetes.URL:", b"kubernetes.NamedFormat:"

_T = cel.Type
_QUANTITY_TYPE = _T.AbstractType("kubernetes.Quantity")
_SEMVER_TYPE = _T.AbstractType("kubernetes.Semver")
_TYPES = {
    "Q": _QUANTITY_TYPE,
    "V": _SEMVER_TYPE,
    "P": _T.AbstractType("net.IP"),
    "N": _T.AbstractType("net.CIDR"),
    "U": _T.AbstractType("kubernetes.URL"),
    "F": _T.AbstractType("kubernetes.NamedFormat"),
    "s": _T.STRING,
    "i": _T.INT,
    "b": _T.BOOL,
    "d": _T.DOUBLE,
    "D": _T.DYN,
    "L": _T.List(_T.DYN),
    "S": _T.List(_T.STRING),
    "M": _T.Map(_T.STRING, _T.List(_T.STRING)),
}
_OWN = "QVPNUF"
"""Kubernetes' own types, which run as bytes."""
_AS_ONE = str.maketrans(_OWN, "Q" * len(_OWN))
_RUN_TYPES = _TYPES | dict.fromkeys(_OWN, _T.BYTES)


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


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


# -- lists -------------------------------------------------------------------------------------------------------------


def _key(value: Any) -> Any:
    """A value by which the library's lists are ordered; InputError for one without an order."""
    if isinstance(value, bytearray):
        value = bytes(value)
        return _order(value) if value.startswith(SEMVER) else _nanos(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    raise InputError("no such overload: the values of the list have no order")


def _extreme(pick: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def extreme(values: list[Any]) -> Any:
        if not values:
            raise InputError("min and max are called on an empty list")
        found = pick(values, key=_key)
        return bytes(found) if isinstance(found, bytearray) else found

    return extreme


def _is_sorted(values: list[Any]) -> bool:
    keys = [_key(one) for one in values]
    return all(one <= other for one, other in pairwise(keys))


def _total(values: list[Any]) -> Any:
    if any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in values):
        raise InputError("no such overload: only numbers have a sum")
    return sum(values)


def _index(values: list[Any] | str, wanted: Any, start: int = 0) -> int:
    if isinstance(values, str):
        if not 0 <= start <= len(values):
            raise InputError(f"index out of range: {start}")
        return values.find(wanted, start)
    return next((place for place, one in enumerate(values) if _same(one, wanted)), -1)


def _last_index(values: list[Any] | str, wanted: Any, start: int | None = None) -> int:
    if isinstance(values, str):
        if start is not None and not 0 <= start <= len(values):
            raise InputError(f"index out of range: {start}")
        return values.rfind(wanted) if start is None else values.rfind(wanted, 0, start + len(wanted))
    return next((place for place in range(len(values) - 1, -1, -1) if _same(values[place], wanted)), -1)


def _merged(maps: list[dict[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in (entry for one in maps for entry in one.items()):
        if key in found:
            raise InputError(f"transformMapEntry gives the key {key!r} twice")
        found[key] = value
    return found


# -- regular expressions -----------------------------------------------------------------------------------------------

_QUIET = re2.Options()
_QUIET.log_errors = False


def _pattern(text: str) -> Any:
    try:
        return re2.compile(text, _QUIET)
    except re2.error as problem:
        why = problem.args[0]
        raise InputError(f"the regular expression cannot be read: {why.decode(errors='replace')}") from None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found[0] if found is not None else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [one[0] for one in _pattern(pattern).finditer(text)]
    return found if most < 0 else found[:most]


# -- addresses ---------------------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"(.+)/(0|[1-9][0-9]{0,2})")
_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
_Net = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _read_ip(text: str) -> _Ip:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise InputError(f"{text!r} is no IP address") from None
    if isinstance(found, ipaddress.IPv6Address) and (found.ipv4_mapped or found.scope_id):
        raise InputError(f"{text!r} is an IPv4 address written as an IPv6 one, or has a zone")
    return found


def _read_net(text: str) -> _Net:
    form = _PREFIX.fullmatch(text)
    if form is None:
        raise InputError(f"{text!r} is no network such as 192.168.0.0/24")
    _read_ip(form[1])
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        raise InputError(f"{text!r} is no network such as 192.168.0.0/24") from None


def _untagged(value: bytes | str, tag: bytes) -> str:
    if isinstance(value, str):
        return value
    if not value.startswith(tag):
        raise InputError("no such overload: a value of another type is wanted here")
    return bytes(value[len(tag) :]).decode()


def _ip(value: bytes | str) -> _Ip:
    return _read_ip(_untagged(value, ADDRESS))


def _net(value: bytes | str) -> _Net:
    return _read_net(_untagged(value, NETWORK))


def _contains_ip(net: bytes, ip: bytes | str) -> bool:
    return _ip(ip) in _net(net).network


def _contains_net(net: bytes, other: bytes | str) -> bool:
    one, two = _net(net).network, _net(other).network
    return one.version == two.version and one.prefixlen <= two.prefixlen and two.network_address in one


_LOCAL_GROUPS = tuple(ipaddress.ip_network(one) for one in ("224.0.0.0/24", "ff02::/16"))
_BROADCAST = ipaddress.ip_address("255.255.255.255")


def _is_global(value: bytes) -> bool:
    ip = _ip(value)
    return not (ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local or ip == _BROADCAST)


# -- URLs --------------------------------------------------------------------------------------------------------------


def _read_url(text: str) -> SplitResult:
    try:
        found = urlsplit(text)
        _ = found.port
    except ValueError:
        raise InputError(f"{text!r} is no URL") from None
    if not (found.scheme or text.startswith("/")) or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise InputError(f"{text!r} is no absolute URL and no absolute path")
    return found


def _url(value: bytes) -> SplitResult:
    return _read_url(_untagged(value, LINK))


def _hostname(value: bytes) -> str:
    host = _url(value).netloc.rpartition("@")[2]
    return host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.partition(":")[0]


# -- formats -----------------------------------------------------------------------------------------------------------

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _label_value(text: str) -> bool:
    return not text or _QUALIFIED.fullmatch(text) is not None


def _qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return _QUALIFIED.fullmatch(name) is not None and (not slash or _subdomain(prefix))


def _subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def _of_form(form: str, most: int) -> Callable[[str], bool]:
    read = re.compile(form)
    return lambda text: len(text) <= most and read.fullmatch(text) is not None


def _prefix_of(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """Of a name that more follows after, also after a hyphen."""
    return lambda text: check(text[:-1] + "a" if text.endswith("-") else text)


def _time(*forms: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        for form in forms:
            with suppress(ValueError):
                datetime.strptime(text, form)  # noqa: DTZ007  # only whether it can be read
                return True
        return False

    return check


_FORMATS: dict[str, Callable[[str], bool]] = {
    "dns1123Label": _of_form(_LABEL, 63),
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _of_form(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _prefix_of(_of_form(_LABEL, 63)),
    "dns1123SubdomainPrefix": _prefix_of(_subdomain),
    "dns1035LabelPrefix": _prefix_of(_of_form(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63)),
    "labelValue": _label_value,
    "uri": _holds(_read_url),
    "uuid": _of_form(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})", 36),
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "date": _time("%Y-%m-%d"),
    "datetime": _time("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"),
}
"""The formats that Kubernetes names, each with its check."""


def _violations(format: bytes, text: str) -> list[str]:
    name = _untagged(format, FORMAT)
    return [] if _FORMATS[name](text) else [f"{text!r} is no {name}"]


def _formats() -> Iterator[tuple[str, tuple[tuple[str, str, bool, Callable[..., Any]], ...]]]:
    for name in _FORMATS:
        yield f"format.{name}", (("F", "", False, partial(bytes, FORMAT + name.encode())),)
    yield "format.__is", (("b", "s", False, lambda name: name in _FORMATS),)
    yield "format.__named", (("F", "s", False, lambda name: FORMAT + name.encode()),)
    yield "__violations", (("S", "Fs", True, _violations),)


# -- all ---------------------------------------------------------------------------------------------------------------


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
    ("isSorted", (("b", "L", True, _is_sorted),)),
    ("sum", (("D", "L", True, _total),)),
    ("min", (("D", "L", True, _extreme(min)),)),
    ("max", (("D", "L", True, _extreme(max)),)),
    ("__indexOf", tuple(("i", form, True, _index) for form in ("Li", "Ld", "Lb", "Ls", "LQ", "LV", "ss", "ssi"))),
    (
        "__lastIndexOf",
        tuple(("i", form, True, _last_index) for form in ("Li", "Ld", "Lb", "Ls", "LQ", "LV", "ss", "ssi")),
    ),
    ("find", (("s", "ss", True, _find),)),
    ("findAll", (("S", "ss", True, _find_all), ("S", "ssi", True, _find_all))),
    (
        "ip",
        (
            ("P", "s", False, lambda text: ADDRESS + str(_read_ip(text)).encode()),
            ("P", "N", True, lambda net: ADDRESS + str(_net(net).ip).encode()),
        ),
    ),
    ("isIP", (("b", "s", False, _holds(_read_ip)),)),
    ("ip.isCanonical", (("b", "s", False, lambda text: str(_read_ip(text)) == text),)),
    ("family", (("i", "P", True, lambda ip: _ip(ip).version),)),
    ("isUnspecified", (("b", "P", True, lambda ip: _ip(ip).is_unspecified),)),
    ("isLoopback", (("b", "P", True, lambda ip: _ip(ip).is_loopback),)),
    ("isLinkLocalMulticast", (("b", "P", True, lambda ip: any(_ip(ip) in one for one in _LOCAL_GROUPS)),)),
    ("isLinkLocalUnicast", (("b", "P", True, lambda ip: _ip(ip).is_link_local),)),
    ("isGlobalUnicast", (("b", "P", True, _is_global),)),
    ("cidr", (("N", "s", False, lambda text: NETWORK + str(_read_net(text)).encode()),)),
    ("isCIDR", (("b", "s", False, _holds(_read_net)),)),
    ("containsIP", (("b", "Ns", True, _contains_ip), ("b", "NP", True, _contains_ip))),
    ("containsCIDR", (("b", "Ns", True, _contains_net), ("b", "NN", True, _contains_net))),
    ("masked", (("N", "N", True, lambda net: NETWORK + str(_net(net).network).encode()),)),
    ("prefixLength", (("i", "N", True, lambda net: _net(net).network.prefixlen),)),
    ("url", (("U", "s", False, lambda text: LINK + _read_url(text).geturl().encode()),)),
    ("isURL", (("b", "s", False, _holds(_read_url)),)),
    ("getScheme", (("s", "U", True, lambda url: _url(url).scheme),)),
    ("getHost", (("s", "U", True, lambda url: _url(url).netloc.rpartition("@")[2]),)),
    ("getHostname", (("s", "U", True, _hostname),)),
    ("getPort", (("s", "U", True, lambda url: str(_url(url).port or "")),)),
    ("getEscapedPath", (("s", "U", True, lambda url: quote(_url(url).path, safe="/%:@!$&'()*+,;=~")),)),
    ("getQuery", (("M", "U", True, lambda url: parse_qs(_url(url).query, keep_blank_values=True)),)),
    ("__map_of", (("D", "L", False, dict),)),
    ("__merged", (("D", "L", False, _merged),)),
    *_formats(),
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
        by_form = {each[1].translate(_AS_ONE): each for each in overloads}
        found.append(cel.FunctionDecl(name, [_overload(name, each, _RUN_TYPES, run=True) for each in by_form.values()]))
    return found


_COMPARED = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_ORDERED = {
    "bool": _T.BOOL, "int64": _T.INT, "uint64": _T.UINT, "double": _T.DOUBLE, "string": _T.STRING, "bytes": _T.BYTES,
    "timestamp": _T.TIMESTAMP, "duration": _T.DURATION,
}  # fmt: skip
_NUMBERS = ("int64", "uint64", "double")


def configured() -> tuple[cel.EnvConfig, list[cel.FunctionDecl]]:
    """The library's own sets and comprehensions with two variables; and comparisons of numbers of different types. It can run
    those and does not declare them, so its own declarations are left out and replaced."""
    names = "".join(f"  - name: {name}\n" for name in _COMPARED)
    pairs = [(one, one) for one in _ORDERED] + [(one, two) for one in _NUMBERS for two in _NUMBERS if one != two]
    found = [cel.FunctionDecl(name, [_comparison(stem, *pair) for pair in pairs]) for name, stem in _COMPARED.items()]
    own = "extensions:\n  - name: sets\n  - name: two-var-comprehensions\n"
    return cel.NewEnvConfigFromYaml(f"{own}stdlib:\n  exclude_functions:\n{names}"), found


def _comparison(stem: str, one: str, two: str) -> cel.Overload:
    identity = f"{stem}_{one}" if one == two else f"{stem}_{one}_{two}"
    return cel.Overload(identity, return_type=_T.BOOL, parameters=[_ORDERED[one], _ORDERED[two]], is_member=False)


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
