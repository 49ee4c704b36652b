"""Decodes managers' answers into strict forms: unused fields are ignored, used fields must be right.

An error names the call, the field and the request id. It never quotes a value: an answer may contain anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from dds_adapters.fabric.fabric_settings import FABRIC_ID, checked_id
from dds_adapters.fabric.provider import FabricOdd, FabricPartly
from dds_core.publisher.model import Machine


class Part(BaseModel):
    """Base of the forms of answers."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)


def _fabric_id(value: Any) -> Any:
    """Managers number their fabrics; labels are text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


Uuid = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
FabricId = Annotated[
    str, BeforeValidator(_fabric_id), StringConstraints(pattern=rf"^{FABRIC_ID.pattern}$"), AfterValidator(checked_id)
]
Free = Annotated[int, Field(ge=0, lt=1_000_000)]
DeviceId = Annotated[str, StringConstraints(pattern=r"^[!-~](?:[ -~]{0,251}[!-~])?$")]
"""Printable ASCII without a space at either end."""
Text = Annotated[str, StringConstraints(max_length=1000)]

P = TypeVar("P", bound=Part)
T = TypeVar("T")

Items = Annotated[list[T], Field(fail_fast=True)]
"""Reports the first wrong item only: counting the others would take a thousand times the memory of the answer."""
MOST = 1_000_000
"""Most values in an answer: a malicious answer can have many small values, each of which takes some hundred bytes in memory."""
MAX_MACHINES = 50_000
"""In a list."""


def read(form: type[P], body: bytes, where: str) -> P:
    """The decoded answer. `where` names the call and the request. Raises FabricOdd for the first wrong field."""
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST:
        raise odd(where, "", f"holds more than {MOST} values")
    try:
        return form.model_validate_json(body.removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        if faults[0]["type"] == "json_invalid":
            raise _no_json(body, where) from None
        raise odd(where, *_first(faults), more=len(faults) - 1) from None
    except (ValueError, RecursionError):  # not Unicode, or nested too deeply
        raise _no_json(body, where) from None


def _no_json(body: bytes, where: str) -> FabricOdd:
    return odd(where, "", "is a web page, not JSON" if body.lstrip()[:1] == b"<" else "is not JSON")


def each(form: type[P], items: Iterable[Any], field: str, where: str) -> tuple[list[tuple[int, P]], list[FabricOdd]]:
    """The good entries of a list under this field, with their positions, and a fault for each bad one. All faults are the first
    one, since only that is reported."""
    good: list[tuple[int, P]] = []
    bad: list[FabricOdd] = []
    for place, item in enumerate(items):
        try:
            good.append((place, form.model_validate(item)))
        except ValidationError as error:
            if bad:
                bad.append(bad[0])
                continue
            faults = error.errors(include_url=False, include_input=False, include_context=False)
            name, what = _first(faults)
            bad.append(odd(where, ".".join(part for part in (field, str(place), name) if part), what))
    return good, bad


_LOOK = "look the request up in the manager's log, and compare its version"


def partly(machines: Iterable[Machine], bad: Sequence[FabricOdd]) -> tuple[Machine, ...]:
    """The machines of a list. Raises FabricPartly if there were faults."""
    read = tuple(machines)
    if not bad:
        return read
    fix = f"what is known of such a machine stands; {_LOOK}"
    raise FabricPartly(_first_of(bad), machines=read, where=bad[0].where, fix=fix)


def left_out(bad: Sequence[FabricOdd]) -> str:
    """The faults of entries, as one line; "" without any."""
    return str(FabricOdd(_first_of(bad), where=bad[0].where, fix=f"such an entry is left out; {_LOOK}")) if bad else ""


def _first_of(bad: Sequence[FabricOdd]) -> str:
    return f"{bad[0].what} (and {len(bad) - 1} more)" if len(bad) > 1 else bad[0].what


def odd(where: str, field: str, what: str, more: int = 0) -> FabricOdd:
    """An answer in which `field` (its path; "": the whole) is wrong, and `more` other fields."""
    besides = f" (and {more} more)" if more > 0 else ""
    about = f"field {field} {what}" if field else f"the answer {what}"
    return FabricOdd(
        f"{about}{besides}",
        where=where,
        fix="nothing of it was taken; look the request up in the manager's log, and compare its version",
    )


def _first(faults: list[Any]) -> tuple[str, str]:
    fault = faults[0]
    field = ".".join(str(part) for part in fault["loc"])[:200]
    if fault["type"] == "missing":
        return field, "is missing"
    if fault["type"] == "string_pattern_mismatch":
        return field, "is not of the form that it must have"
    if not field:
        return "", f"is not as expected: {fault['msg']}"
    return field, f"is not as expected: {fault['msg']}"
