"""Selectors of devices in three CEL packages, as the scheduler's device choice uses them: compiled once, evaluated on devices.

`cel-expr-python` is Google's C++ CEL (what `dds_core.matching.cel` runs on), `common-expression-language` the Rust crate,
`cel-python` pure Python. Besides speed: what of Kubernetes' CEL each can do as it comes, before anybody adds functions.
"""

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cel as rust
import celpy
import celpy.adapter
from cel_expr_python import cel as cpp
from cel_expr_python.ext import ext_bindings, ext_strings

from benchmarks.measure import Row, compare, contender, side_by_side
from dds_core.matching import cel as ours
from dds_core.matching.quantities import parse
from dds_core.matching.versions import Version

DRIVER = "gpu.nvidia.com"
EXPRESSION = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].productName == "NVIDIA A100 40GB PCIe"'
ATTRIBUTES: dict[str, str | int | bool] = {
    "type": "gpu",
    "productName": "NVIDIA A100 40GB PCIe",
    "uuid": "GPU-8a2c4e5d-0b1f-4c57-9d3f-2f6a7c1e9b40",
    "brand": "Nvidia",
    "architecture": "Ampere",
    "index": 1,
    "minor": 1,
}
DEVICE: dict[str, Any] = {"device": {"driver": DRIVER, "attributes": {DRIVER: ATTRIBUTES}, "capacity": {}}}
NAMES = {
    "ours": "ours (C++)",
    "cpp": "cel-expr-python alone",
    "rust": "common-expression-language",
    "pure": "cel-python",
}

IMPORTS = ("cel_expr_python.ext.ext_bindings, cel_expr_python.ext.ext_strings", "cel", "celpy")

ABILITIES: dict[str, tuple[str, bool | None]] = {
    "`cel.bind`": (f"cel.bind(a, device.attributes['{DRIVER}'], a.type == 'gpu')", True),
    "string functions": ("'A,B'.split(',')[1].lowerAscii() == 'b'", True),
    "a guard before a missing name": (f"has(device.attributes['{DRIVER}'].none) || device.driver != ''", True),
    "refuses unknown variables when compiling": ("node == 'x'", None),
    "refuses wrong types when compiling": ("'a' + 1 == 'b'", None),
    "bounds nested loops": (
        "[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, [1,2,3,4,5,6,7,8].all(d, "
        "[1,2,3,4,5,6,7,8].all(e, a + b + c + d + e > 0)))))",
        None,
    ),
}
"""What, an expression for it, and what it gives; None: that it is refused, when it is compiled or (loops) when it runs."""


def _environment() -> cpp.Env:
    device = cpp.Type.Map(cpp.Type.STRING, cpp.Type.DYN)
    return cpp.NewEnv(variables={"device": device}, extensions=[ext_bindings.ExtBindings(), ext_strings.ExtStrings()])


logging.getLogger("celpy").setLevel(logging.CRITICAL)  # it reports what it cannot do, which is what we ask
_CPP = _environment()
_PURE = celpy.Environment(runner_class=celpy.CompiledRunner)
_VIEW = {"device": celpy.adapter.json_to_cel(DEVICE["device"])}

COMPILE: dict[str, Callable[[str], Any]] = {
    "ours": lambda text: ours.compile.__wrapped__(text),
    "cpp": lambda text: _CPP.compile(text),
    "rust": lambda text: rust.compile(text),
    "pure": lambda text: _PURE.program(_PURE.compile(text)),
}


def _device() -> ours.DeviceView:
    return ours.DeviceView(DRIVER, ATTRIBUTES | {"driverVersion": Version("550.54.15")}, {"memory": parse("40Gi")})


def _cpp_value(program: Any) -> Any:
    found = program.eval(data=DEVICE)
    if found.type().name() == "ERROR":
        raise ValueError(found.value())
    return found.value()


EVALUATE: dict[str, Callable[[Any], Any]] = {
    "ours": lambda program: program.matches(_device()),
    "cpp": _cpp_value,
    "rust": lambda program: program.execute(DEVICE),
    "pure": lambda program: bool(program.evaluate({"device": celpy.adapter.json_to_cel(DEVICE["device"])})),
}
"""Each is given a device as it has to be: nothing of it may be kept from one evaluation to the next."""


def _compiled(name: str, times: int) -> int:
    for number in range(times):
        COMPILE[name](f"{EXPRESSION} && {number} >= 0")
    return times


def _evaluated(name: str, program: Any, times: int) -> int:
    evaluate = EVALUATE[name]
    for _ in range(times):
        assert evaluate(program) is True
    return times


def _able(name: str, expression: str, expected: bool | None) -> str:
    try:
        program = COMPILE[name](expression)
        if expected is None and not expression.startswith("["):
            return "no"
        return "yes" if EVALUATE[name](program) is expected else "no"
    except Exception:  # each package has errors of its own, and none of them is common
        return "yes" if expected is None else "no"


def _speed(rounds: int, what: str, work: Callable[[str], Callable[[], int]]) -> list[Row]:
    found = side_by_side([contender(NAMES[name], work(name)) for name in NAMES], rounds)
    mine = found[NAMES["ours"]]
    return [compare(what, mine, found[NAMES[name]], unit=what.split()[0]) for name in NAMES if name != "ours"]


def _import(module: str) -> Row:
    """Time and resident memory of the import, in a process of its own."""
    script = (
        "import time\n"
        "def resident():\n"
        "    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmRSS'))\n"
        "before, start = resident(), time.perf_counter()\n"
        f"import {module}\n"
        "taken = time.perf_counter() - start\n"
        "print(f'{taken * 1000:.0f} ms, {(resident() - before) / 1024:.0f} MiB')\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return Row(f"`import {module}`", said.strip())


def measure(rounds: int) -> list[Row]:
    """Compile and evaluate side by side, then tell what each can do and what its import costs."""
    programs = {name: COMPILE[name](EXPRESSION) for name in NAMES}
    times = {"ours": 2000, "cpp": 2000, "rust": 2000, "pure": 200}
    rows = _speed(rounds, "compilations of a selector", lambda name: lambda: _compiled(name, times[name] // 10))
    rows += _speed(
        rounds, "evaluations on a device", lambda name: lambda: _evaluated(name, programs[name], times[name])
    )
    able: dict[tuple[str, str], list[str]] = {}
    for what, (expression, expected) in ABILITIES.items():
        own, *others = (_able(name, expression, expected) for name in ("ours", "rust", "pure"))
        beside = ", ".join(f"{NAMES[name]}: {other}" for name, other in zip(("rust", "pure"), others, strict=True))
        able.setdefault((own, beside), []).append(what)
    rows += [Row("; ".join(what), own, beside) for (own, beside), what in able.items()]
    return [*rows, *(_import(module) for module in IMPORTS)]
