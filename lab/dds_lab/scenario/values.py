"""Types of single values in a scenario: durations, instants, amounts, names, delays. Each defines syntax and bounds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from dds_core.matching.quantities import amount
from dds_core.timeline.instants import micros
from dds_lab import latency

YEAR = 366 * 86_400

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


class Written(BaseModel):
    """Base of everything in a scenario: no unknown fields, no silent conversions, frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def seconds(written: Any) -> Any:
    """Seconds, from a number or a text such as 250ms, 5s, 10m, 1h30m, 1d. Raises ValueError."""
    if isinstance(written, str):
        if not _DURATION.fullmatch(written):
            raise ValueError("is no duration: write 250ms, 5s, 10m, 1h30m, 1d, or a number of seconds")
        written = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(written))
    if isinstance(written, int | float) and not isinstance(written, bool):
        if not 0 <= written <= YEAR:
            raise ValueError("must lie between 0s and 366d")
        return float(written)
    raise ValueError("is no duration: write 250ms, 5s, 10m, 1h30m, 1d, or a number of seconds")


def _offset(written: Any) -> Any:
    """Seconds with a sign."""
    if isinstance(written, str) and written[:1] in "+-":
        found = seconds(written[1:])
        return -found if written[0] == "-" else found
    if isinstance(written, int | float) and not isinstance(written, bool) and written < 0:
        return -seconds(-written)
    return seconds(written)


def _instant(written: Any) -> Any:
    """Microseconds since 1970-01-01 UTC of an RFC 3339 instant."""
    if not isinstance(written, str):
        raise ValueError("is no instant: write it as 2026-11-21T08:00:00Z")
    try:
        when = datetime.fromisoformat(written)
    except ValueError:
        raise ValueError("is no instant: write it as 2026-11-21T08:00:00Z") from None
    if when.tzinfo is None:
        raise ValueError("names no time zone: write it as 2026-11-21T08:00:00Z")
    found = micros(when)
    if not 0 <= found < 253_402_300_800_000_000:
        raise ValueError("must lie between the years 1970 and 9999")
    return found


def _as_instant(at: int) -> str:
    return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)).isoformat()


def _amount(written: Any) -> Any:
    """A Kubernetes quantity, as text."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError("is no amount: write it as 4, 500m, 1.5 or 16Gi")
    text = str(written)
    found = amount(text)
    if found is None or found < 0:
        raise ValueError("is no amount: write it as 4, 500m, 1.5 or 16Gi")
    return text


def _at_least_one_microsecond(found: float) -> float:
    if found < 1e-6:
        raise ValueError("must be more than nothing")
    return found


_DURATION_FORM = WithJsonSchema({"type": "string", "format": "duration"})

Duration = Annotated[float, BeforeValidator(seconds), _DURATION_FORM]
"""Seconds."""
Period = Annotated[float, BeforeValidator(seconds), AfterValidator(_at_least_one_microsecond), _DURATION_FORM]
"""Seconds, more than 0."""
Offset = Annotated[
    float, BeforeValidator(_offset), WithJsonSchema({"type": "string", "format": "duration with a sign"})
]
"""Seconds, ahead (+) or behind (-)."""
Instant = Annotated[
    int,
    BeforeValidator(_instant),
    PlainSerializer(_as_instant, when_used="json"),
    WithJsonSchema({"type": "string", "format": "instant"}),
]
"""Microseconds since 1970-01-01 UTC."""
Amount = Annotated[str, BeforeValidator(_amount), WithJsonSchema({"type": "string", "format": "amount"})]
"""A Kubernetes quantity."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A part of all, 0 to 1."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
DnsLabel = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63),
    WithJsonSchema({"type": "string"}),
]
DnsName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253),
    WithJsonSchema({"type": "string"}),
]
Count = Annotated[int, Field(ge=1, le=100_000)]
Number = Annotated[int, Field(ge=0, le=100_000)]
Labels = dict[Text, Annotated[str, StringConstraints(max_length=63)]]


class Delay(Written):
    """How long something takes: always the same (`5s`), or drawn anew each time."""

    fixed: Duration | None = Field(default=None, description="Always so long. `5s` alone says the same.")
    between: tuple[Duration, Duration] | None = Field(
        default=None, strict=False, description="Anything between two durations, each as likely."
    )
    median: Period | None = Field(default=None, description="Around this, with a long upper tail (log-normal).")
    spread: Annotated[float, Field(gt=0, le=3)] = Field(
        default=0.5, description="With `median`: how wide; the standard deviation of the logarithm."
    )
    most: Duration | None = Field(default=None, description="With `median`: never longer than this.")
    measured: tuple[Duration, ...] | None = Field(
        default=None, strict=False, max_length=10_000, description="Drawn from durations that were measured."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, written: Any) -> Any:
        return written if isinstance(written, dict) else {"fixed": written}

    @model_validator(mode="after")
    def _one_form(self) -> Delay:
        given = [name for name in ("fixed", "between", "median", "measured") if getattr(self, name) not in (None, ())]
        if len(given) != 1:
            raise ValueError("needs exactly one of fixed, between, median, measured")
        if self.between is not None and self.between[0] > self.between[1]:
            raise ValueError("between needs the shorter duration first")
        return self

    def latency(self) -> latency.Latency:
        """The distribution, in seconds."""
        if self.between is not None:
            return latency.Uniform(*self.between)
        if self.median is not None:
            return latency.LogNormal(self.median, self.spread, self.most if self.most is not None else float("inf"))
        if self.measured:
            return latency.Measured(tuple(sorted(self.measured)))
        return latency.Fixed(self.fixed or 0.0)


def fixed(of: float) -> Delay:
    """A delay that is always the same, for defaults."""
    return Delay(fixed=of)


def between(low: float, high: float) -> Delay:
    """A delay between two bounds, for defaults."""
    return Delay(between=(low, high))
