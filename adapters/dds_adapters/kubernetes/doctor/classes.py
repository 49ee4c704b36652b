"""DeviceClasses and claims against what is published of a pool's devices: a selector that asks for what a device does not say is
no mismatch but a run-time error, at which the scheduler gives the whole pod up (structured allocator of Kubernetes 1.36; D13).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from dds_adapters.kubernetes.doctor.findings import Finding, error, many, note, ok, several, unknown, warning
from dds_adapters.kubernetes.doctor.patient import Patient
from dds_core.matching import cel
from dds_core.matching.claims import Alternative, Claim
from dds_core.matching.errors import SelectorError
from dds_core.matching.objects import Device, DeviceClass
from dds_core.publishing.describe import device_of
from dds_core.publishing.model import PoolModel

_CHECK = "classes"
_NO_KEY = "no such key"


def classes(patient: Patient) -> Iterator[Finding]:
    """Every class on a device of every model, as device-info has it published."""
    found = _classes(patient)
    for model in patient.pools_or_usual().models:
        yield from _of_model(model, view_of(model), found)


def claims(patient: Patient) -> Iterator[Finding]:
    """What claims ask besides, of a model that their class chooses."""
    check, models, found = "claims", patient.pools_or_usual().models, _classes(patient)
    views = {model.model: view_of(model) for model in models}
    choosing = {name: {one.name for one in found if _surely(one.selectors, view)} for name, view in views.items()}
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    number = 0
    for raw in patient.objects("resourceclaims"):
        claim = Claim.from_object(msgspec.json.decode(raw))
        number += 1
        for one in (choice for request in claim.requests for choice in request.alternatives):
            for name, view in views.items():
                if one.device_class in choosing[name] and (reason := _unsaid(one, view)):
                    wrong[name, reason].append(str(claim))
    for (name, reason), some in sorted(wrong.items()):
        asked = f"a device of {name} is asked for what it does not say ({reason[:120]})"
        what = f"{asked} by {several(some)}: their pods are given up when they come to the pool"
        yield warning(check, what, "add it to attributes or capacity of the model in device-info, or mend the claims")
    if not wrong and models:
        yield ok(check, f"{many(number, 'claim')} looked at: none asks for what pool devices do not say")


def _classes(patient: Patient) -> list[DeviceClass]:
    found = [DeviceClass.from_object(msgspec.json.decode(raw)) for raw in patient.everything("deviceclasses")]
    return sorted(found, key=lambda one: one.name)


def _surely(selectors: tuple[str, ...], device: cel.DeviceView) -> bool:
    with suppress(SelectorError):
        return _selects(selectors, device)
    return False


def _unsaid(one: Alternative, device: cel.DeviceView) -> str:
    """What its selectors ask for that the device does not say, "" for nothing."""
    try:
        _selects(one.selectors, device)
    except SelectorError as problem:
        return problem.reason if _NO_KEY in problem.reason else ""
    return ""


def _of_model(model: PoolModel, device: cel.DeviceView, found: list[DeviceClass]) -> Iterator[Finding]:
    chosen = []
    for one in found:
        try:
            if _selects(one.selectors, device):
                chosen.append(one.name)
        except SelectorError as problem:
            yield _failed(model, one, problem)
    if chosen:
        yield ok(_CHECK, f"{model.model}: its devices are chosen by {several(chosen)}")
    else:
        what = f"{model.model}: no DeviceClass chooses its devices, so no claim can ask for them"
        yield note(_CHECK, what, "make a DeviceClass whose selectors fit what device-info says of the model")


def _selects(selectors: tuple[str, ...], device: cel.DeviceView) -> bool:
    """One selector after the other up to the first that does not fit, as the scheduler goes. Raises SelectorError."""
    return all(cel.compile(text).matches(device) for text in selectors)


def _failed(model: PoolModel, one: DeviceClass, problem: SelectorError) -> Finding:
    if _NO_KEY not in problem.reason:
        return unknown(_CHECK, f"DeviceClass {one.name} on {model.model}: {problem.reason[:160]}", problem.fix)
    say = error if model.driver in problem.expression else warning  # a class for others may never be asked of us
    what = (
        f"DeviceClass {one.name} asks a device of {model.model} for what it does not say ({problem.reason[:120]}): "
        "the scheduler gives up every pod of the class that comes to look at the pool"
    )
    return say(_CHECK, what, "add it to attributes or capacity of the model in device-info, typed as the class asks")


def view_of(model: PoolModel) -> cel.DeviceView:
    """A device of the model as a selector sees it."""
    device = Device.from_object(device_of(model, "example"))
    amounts = {name: one.value for name, one in device.capacity.items()}
    return cel.DeviceView(model.driver, device.attributes, amounts, device.shared)
