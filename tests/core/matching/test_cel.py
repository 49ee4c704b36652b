"""Selectors in CEL, in the environment that Kubernetes gives them."""

import subprocess
import sys

import pytest

from dds_core.matching.cel import CACHED, LONGEST, DeviceView, _environments, compile
from dds_core.matching.errors import SelectorError
from dds_core.matching.quantities import parse
from dds_core.matching.versions import Version

NVIDIA = "gpu.nvidia.com"
DEVICE = DeviceView(
    NVIDIA,
    {
        "type": "gpu",
        "index": 3,
        "ready": True,
        "productName": "NVIDIA A100 40GB PCIe",
        "driverVersion": Version("550.54.15+abc"),
        "resource.kubernetes.io/pcieRoot": "pci0000:01",
    },
    {"memory": parse("40Gi"), "net.example.com/bandwidth": parse("1500m")},
    allow_multiple=True,
)
GPU = f'device.attributes["{NVIDIA}"]'
MEMORY = f'device.capacity["{NVIDIA}"].memory'


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{NVIDIA}"',
        f'{GPU}.type == "gpu" && {GPU}.index > 2 && {GPU}.ready',
        f"{GPU}.ready",
        f"{GPU}['index'] in [1, 2, 3]",
        f"{GPU}.index == 3.0",
        f"{GPU}.productName.matches('^NVIDIA A[0-9]+ ')",
        f"{GPU}.productName.lowerAscii().startsWith('nvidia')",
        f"{GPU}.productName.split(' ')[1] == 'A100'",
        f"{GPU}.productName.contains('40GB') && {GPU}.productName.endsWith('PCIe')",
        f"{GPU}.productName.substring(0, 6).upperAscii() == 'NVIDIA'",
        "device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:01'",
        "device.allowMultipleAllocations",
        f"cel.bind(gpu, {GPU}, gpu.type == 'gpu' && gpu.index == 3)",
        "device.attributes[device.driver].type == 'gpu'",
        "sets.contains(['a', 'b'], ['b']) && !sets.intersects(['a'], ['b']) && sets.equivalent([1, 2], [2, 1])",
        "device . attributes // with a comment\n ['gpu.nvidia.com'] . type == r'gpu'",
        "'''device.attributes''' == \"device.attributes\"",
    ],
)
def test_what_selects_the_device(expression: str) -> None:
    assert compile(expression).matches(DEVICE) is True


@pytest.mark.parametrize(
    "expression",
    [
        f"{MEMORY}.compareTo(quantity('40960Mi')) == 0",
        f"{MEMORY} == quantity('40960Mi')",
        f"{MEMORY}.isGreaterThan(quantity('39Gi')) && {MEMORY}.isLessThan(quantity('41Gi'))",
        f"{MEMORY}.sign() == 1 && {MEMORY}.isInteger() && {MEMORY}.asInteger() == 42949672960",
        f"{MEMORY}.add(quantity('1Gi')).sub(1073741824) == {MEMORY}",
        f"{MEMORY}.add(1).compareTo({MEMORY}) == 1",
        "!device.capacity['net.example.com'].bandwidth.isInteger()",
        "device.capacity['net.example.com'].bandwidth.asApproximateFloat() == 1.5",
        "isQuantity('1.5Gi') && !isQuantity('1.5Gig')",
        "quantity('1k') == quantity('1000')",
    ],
)
def test_quantities(expression: str) -> None:
    assert compile(expression).matches(DEVICE) is True


@pytest.mark.parametrize(
    "expression",
    [
        f"{GPU}.driverVersion.isGreaterThan(semver('550.54.2')) && {GPU}.driverVersion.isLessThan(semver('550.54.16'))",
        f"{GPU}.driverVersion == semver('550.54.15')",
        f"{GPU}.driverVersion.compareTo(semver('v550.54', true)) == 1",
        f"{GPU}.driverVersion.major() == 550 && {GPU}.driverVersion.minor() == 54 && {GPU}.driverVersion.patch() == 15",
        "isSemver('1.2.3-rc.1') && !isSemver('1.2') && isSemver('v1.2', true)",
        f"!({GPU}.driverVersion == '550.54.15')",
    ],
)
def test_versions(expression: str) -> None:
    assert compile(expression).matches(DEVICE) is True


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("has(device.attributes['other'].name)", False),
        ("'name' in device.attributes['other']", False),
        ("has(device.attributes.other.name)", False),
        ("'other' in device.attributes", False),
        ("'other' in device.attributes && device.attributes['other'].name == 'x'", False),
        (f"'{NVIDIA}' in device.attributes && {GPU}.type == 'gpu'", True),
        ("device.attributes.exists(domain, domain == 'other')", False),
        (
            "size(device.attributes) == 2 && device.attributes.size() == 2 && size(device.attributes['other']) == 0",
            True,
        ),
        ("has(device.capacity['other'].name)", False),
        ("device.attributes[?'other'].?name.orValue('none') == 'none'", True),
    ],
)
def test_an_unknown_domain_is_an_empty_map(expression: str, selected: bool) -> None:
    assert compile(expression).matches(DEVICE) is selected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (f"{GPU}.missing == 'x'", "no such key: missing"),
        ("device.attributes['other'].name == 'x'", "no such key: name"),
        ("device.capacity['other'].name.sign() == 1", "no such key: name"),
        (f"{GPU}.type", "gives string where a bool is wanted"),
        (f"{GPU}.index", "gives int where a bool is wanted"),
        (f"{GPU}.type + 1 == 2", "No matching overloads found"),
        (f"{GPU}.driverVersion.compareTo(quantity('1')) == 0", "no such overload"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        ("quantity('wrong').sign() == 1", "'wrong' is no quantity"),
        ("semver('1').major() == 1", "'1' is no semantic version"),
        ("1 / (device.attributes['gpu.nvidia.com'].index - 3) == 1", "divide by zero"),
        (f"{GPU}.type.matches('(')", "regular expression"),
        ("[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, "
         "[0,1,2,3,4,5,6,7,8,9].all(e, a+b+c+d+e >= 0)))))", "budget"),
    ],
)  # fmt: skip
def test_what_fails_on_a_device_is_an_error(expression: str, reason: str) -> None:
    program = compile(expression)
    with pytest.raises(SelectorError, match=reason) as caught:
        program.matches(DEVICE)
    assert caught.value.expression == expression
    assert "\n" not in str(caught.value)


def test_an_error_beside_a_decided_or_does_not_matter() -> None:
    assert compile(f"{GPU}.missing == 'x' || true").matches(DEVICE)
    assert not compile(f"{GPU}.missing == 'x' && false").matches(DEVICE)


def test_an_attribute_that_is_no_version_fails() -> None:
    with pytest.raises(SelectorError, match="is no semantic version"):
        compile("true").matches(DeviceView(NVIDIA, {"version": Version("1.x")}))


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "Syntax error"),
        ("device.driver ==", "Syntax error"),
        ("device.name == 'x'", "undeclared reference to 'device.name'"),
        ("node == 'x'", "undeclared reference to 'node'"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("1 + 1", "must evaluate to bool or the unknown type, not int"),
        ("device.driver == 1", "no matching overload for '_==_'"),
        (f"{MEMORY} > quantity('1Gi')", "no matching overload for '_>_'"),
        (f"{MEMORY} == '40Gi'", "no matching overload for '_==_'"),
        (f"{MEMORY}.major() == 1", "no matching overload for 'major'"),
        ("quantity(1) == quantity('1')", "no matching overload for 'quantity'"),
        ("device.attributes['d'].list.includes('x')", "undeclared reference to 'includes'"),
    ],
)
def test_what_does_not_compile_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(SelectorError, match=reason) as caught:
        compile(expression)
    assert "\n" not in str(caught.value)


def test_an_expression_has_at_most_ten_kibibytes() -> None:
    longest = f"true{' ' * (LONGEST - 4)}"
    assert compile(longest).matches(DEVICE)
    with pytest.raises(SelectorError, match="longer than 10240 bytes"):
        compile(f"{longest} ")
    with pytest.raises(SelectorError, match="longer than 10240 bytes"):
        compile(f"'{'é' * (LONGEST // 2)}' == ''")


def test_compiled_expressions_are_kept_but_not_all() -> None:
    assert compile("true") is compile("true")
    for number in range(CACHED + 1):
        compile(f"{number} == {number}")
    assert compile.cache_info().currsize == CACHED


def test_a_look_up_in_a_bound_map_knows_the_domains_there_are() -> None:
    """A known difference: only look-ups written as such give an empty map."""
    assert compile(f"cel.bind(a, device.attributes, a['{NVIDIA}'].type == 'gpu')").matches(DEVICE)
    with pytest.raises(SelectorError, match="no such key: other"):
        compile("cel.bind(a, device.attributes, has(a['other'].name))").matches(DEVICE)


def test_without_the_package_a_selector_says_so_and_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    compile.cache_clear()
    _environments.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(SelectorError, match=r"cel_expr_python is not installed.*pip install"):
        compile("device.driver == 'gpu.nvidia.com'")
    monkeypatch.undo()
    assert compile(f"device.driver == '{NVIDIA}'").matches(DEVICE)


@pytest.mark.parametrize("module", ["dds_core", "dds_core.matching.allocator", "dds_core.matching.cel"])
def test_no_cel_library_is_loaded_before_the_first_selector(module: str) -> None:
    unwanted = ("cel", "celpy", "cel_expr_python")
    script = f"import sys, {module}; print([name for name in {unwanted} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
