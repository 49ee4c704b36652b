"""The libraries of Kubernetes' CEL environment in selectors. What each function gives is taken from its documentation
(kubernetes.io, "Common Expression Language in Kubernetes"; cel-go, package ext, for comprehensions with two variables)."""

from __future__ import annotations

import pytest

from dds_core.matching.cel import DeviceView, compile
from dds_core.matching.errors import SelectorError
from dds_core.matching.macros import expanded
from dds_core.matching.quantities import parse

GPU, CAPACITY = 'device.attributes["gpu.example"]', 'device.capacity["gpu.example"]'
DEVICE = DeviceView(
    "gpu.example", {"productName": "NVIDIA A100", "index": 3, "address": "192.168.1.5"}, {"memory": parse("40Gi")}
)

TRUE = {
    "regular expressions": (
        f'{GPU}.productName.find("A[0-9]+") == "A100"',
        '"abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]+") == ""',
        '"gpu-07".find("[[:digit:]]+") == "07" && "a]".find("[]]") == "]" && "a.b".find("\\\\.b$") == ".b"',
        '"123 abc 456".findAll("[0-9]+") == ["123", "456"]',
        '"123 abc 456".findAll("[0-9]+", 1) == ["123"] && "1".findAll("1", 0) == [] && "1 2".findAll("[0-9]", -1).size() == 2',
        '"line\\n".find("e$") == "" && "a$".find("a[$]") == "a$" && "ä".find("\\\\w") == ""',
    ),
    "lists": (
        '[1, 2].isSorted() && !["b", "a"].isSorted() && [].isSorted()',
        "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0",
        '[3, 1].min() == 1 && ["a", "c"].max() == "c"',
        '[quantity("2Gi"), quantity("1Gi")].max() == quantity("2Gi")',
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1",
        '["a"].indexOf("a") == 0 && "abcabc".indexOf("c") == 2 && "abcabc".lastIndexOf("c") == 5',
        '"tacocat".indexOf("a", 3) == 5 && "tacocat".lastIndexOf("at", 4) == -1',
    ),
    "sets": ("sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",),
    "addresses": (
        'ip("192.168.0.1").family() == 4 && ip("::1").family() == 6',
        'isIP("::1") && !isIP("::ffff:1.2.3.4") && !isIP("127.0.0.01") && !isIP("fe80::1%eth0")',
        'ip("127.0.0.1").isLoopback() && ip("::").isUnspecified() && ip("192.168.0.1").isGlobalUnicast()',
        'ip("169.254.0.1").isLinkLocalUnicast() && ip("224.0.0.1").isLinkLocalMulticast()',
        'ip("ff02::1").isLinkLocalMulticast() && !ip("ff05::1").isLinkLocalMulticast()',
        '!ip("255.255.255.255").isGlobalUnicast() && !ip("224.0.0.1").isGlobalUnicast()',
        'ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD") && ip("2001:DB8::ABCD") == ip("2001:db8::abcd")',
        f'cidr("192.168.0.0/16").containsIP({GPU}.address) && cidr("192.168.0.0/16").containsIP(ip("192.168.0.1"))',
        '!cidr("2001:db8::/32").containsIP("1.2.3.4") && cidr("::1/128").containsIP("::1")',
        'cidr("192.168.0.0/16").containsCIDR("192.168.10.0/24") && !cidr("192.168.0.0/16").containsCIDR(cidr("192.168.0.0/8"))',
        'cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24") && cidr("192.168.0.1/24").ip() == ip("192.168.0.1")',
        'cidr("192.168.0.0/24").prefixLength() == 24 && !isCIDR("192.168.0.0/33") && !isCIDR("192.168.0.0/255.255.0.0")',
    ),
    "addresses of the web": (
        'url("https://example.com:80/").getPort() == "80" && url("https://example.com/").getPort() == ""',
        'url("https://[::1]:80/").getHostname() == "::1" && url("https://[::1]:80/").getHost() == "[::1]:80"',
        'url("https://example.com/path with spaces/").getEscapedPath() == "/path%20with%20spaces/"'.replace(
            " with ", "%20with%20"
        ),
        'url("https://example.com/?k=1&k=2").getQuery()["k"] == ["1", "2"] && url("/absolute").getScheme() == ""',
        'isURL("/absolute-path") && !isURL("relative") && !isURL("http://a b/")',
    ),
    "formats": (
        '!format.dns1123Label().validate("my-name").hasValue() && format.dns1123Label().validate("My_name").hasValue()',
        'format.named("dns1123Label").hasValue() && !format.named("unknown").hasValue()',
        'format.named("uuid").value().validate("not one").hasValue()',
        '!format.qualifiedName().validate("example.com/name").hasValue() && format.qualifiedName().validate("a/b/c").hasValue()',
        '!format.date().validate("2024-02-29").hasValue() && format.date().validate("2024-02-30").hasValue()',
        '!format.datetime().validate("2024-02-29T10:00:00Z").hasValue() && format.byte().validate("a===").hasValue()',
        '!format.labelValue().validate("").hasValue() && !format.dns1123LabelPrefix().validate("my-").hasValue()',
    ),
    "two variables": (
        f'{GPU}.exists(k, v, k == "productName") && !{GPU}.exists(k, v, k == "none")',
        f'{GPU}.exists(k, v, k == "productName" && v == "NVIDIA A100")',
        '{"a": 1, "b": 2}.all(k, v, v > 0) && {"a": 1, "b": 2}.existsOne(k, v, v == 1)',
        '["a", "b"].exists(i, v, i == 1 && v == "b") && !["a", "b"].all(i, v, i > 0)',
        '"a,b".split(",").exists(i, v, i == 1 && v == "b") && "a,b".split(",").transformMap(i, v, v)[0] == "a"',
        '{"a": 1, "b": 2}.exists_one(k, v, v == 1)',
        '{"a": 1, "b": 2}.transformList(k, v, v > 1, v * 2) == [4] && [10, 20].transformList(i, v, i + v) == [10, 21]',
        f'{CAPACITY}.exists(name, amount, amount.isGreaterThan(quantity("20Gi")))',
        '{"a": [1, 2]}.all(k, v, v.exists(i, i == 2)) && {"a": {"b": 1}}.exists(k, v, v.exists(x, y, y == 1))',
        'device.attributes["none.example"].all(k, v, false)',
        '{"a": 1, "b": 2}.transformMap(k, v, v + 1) == {"a": 2, "b": 3} && {"a": 1}.transformMap(k, v, v > 1, v) == {}',
        '["x", "y"].transformMap(i, v, v)[1] == "y" && {"a": "b"}.transformMapEntry(k, v, {v: k}) == {"b": "a"}',
    ),
    "numbers": (
        "1 < 1.5 && 2u > 1 && 1 <= 1.0",
        f"{CAPACITY}.memory.asApproximateFloat() > 1000",
    ),
    "versions": (
        'semver("v1.2", true).minor() == 2 && isSemver("1.0.0") && semver("1.2.3").isLessThan(semver("2.0.0"))',
    ),
}


@pytest.mark.parametrize("expression", [one for each in TRUE.values() for one in each])
def test_a_function_of_kubernetes_gives_what_its_documentation_says(expression: str) -> None:
    assert compile(expression).matches(DEVICE)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('ip("1.2.3").family() == 4', "is no IP address"),
        ('cidr("10.0.0.0").prefixLength() == 8', "is no network"),
        ('url("relative").getHost() == ""', "is no absolute URL"),
        ("[].min() == 1", "empty list"),
        ('{"a": 1, "b": 1}.transformMapEntry(k, v, {v: k}).size() == 1', "twice"),
        ('"a".find("(?=a)") == "a"', "cannot be read"),
        ('"a".find("(") == "a"', "cannot be read"),
        (f'{GPU}.productName.containsIP("1.2.3.4")', "No matching overload"),
    ],
)
def test_one_that_fails_fails_the_selector_as_it_does_the_pod_in_kubernetes(expression: str, words: str) -> None:
    with pytest.raises(SelectorError, match=words):
        compile(expression).matches(DEVICE)


@pytest.mark.parametrize("expression", ['image("a/b:c").tag() == "c"', 'string(ip("1.2.3.4")) == "1.2.3.4"'])
def test_what_the_library_cannot_do_is_refused_when_it_is_compiled(expression: str) -> None:
    with pytest.raises(SelectorError):
        compile(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "[optional.of(1)].isSorted()",
        '[{"a": 1}.?a].sum() == 1',
        '[{"a": 1} . // comment\n ? a].max() == 1',
        '[{"a": 1}[?"a"]].min() == 1',
        '[format.named("uuid")].indexOf(1) == 0',
        '["a"].map(x, format.uuid().validate(x)).lastIndexOf(1) == 0',
        '{"a": 1}.transformMap(k, v, optional.none()).size() == 1',
        '{"a": 1}.transformMapEntry(k, v, {k: dyn(null)}).size() == 1',
        "[dyn(google.protobuf.Value{})].isSorted()",
    ],
)
def test_what_the_library_would_crash_on_is_refused(expression: str) -> None:
    """A list with an optional that is passed to a function of Python's ends the process, and null takes a reference from None
    each time. Beside other functions both are right."""
    with pytest.raises(SelectorError, match="dds cannot evaluate that"):
        compile(expression)
    assert compile('sets.equivalent([{"a": 1}.?a.orValue(0)], [1]) && dyn(null) == null').matches(DEVICE)


def test_no_expression_takes_longer_than_its_text() -> None:
    """RE2 does not try again: Python's own expressions would take 2^64 steps here."""
    assert compile(f'"{"a" * 64}b".find("(a+)+$") == ""').matches(DEVICE)


@pytest.mark.parametrize(
    "text",
    [
        "a.exists_one(k, k == 1)",
        'x == "a.exists_one(k, v, w)"',
        "exists_one(k, v, w)",
        "a.exists_one(k, v",
        "",
        "a.validate()",
    ],
)
def test_what_is_no_such_macro_stays_as_it_is_written(text: str) -> None:
    assert expanded(text) == text
