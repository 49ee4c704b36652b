"""Traces in the file form of OpenTelemetry: JSON lines of OTLP, which a collector's otlpjsonfile receiver and Jaeger's page read.

One trace a claim: all it waited and was in use, in it the attempts, in these the stages. Ids follow from the claim's uid, so that
the same claim is the same trace in each export.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec

from dds_adapters.export.story import Story
from dds_core.scaler.history import WHOSE, Attempt, ClaimHistory, Span

_INTERNAL, _ERROR = 1, 2
"""A kind of span, and a code of its status."""
_AT_ONCE = 80
"""Spans a line at most: collectors cut a line at a mebibyte, and readers put together what belongs to one trace."""
_NANOSECONDS = 1_000


def otlp(story: Story) -> Iterator[bytes]:
    """The file, line by line."""
    resource = {"attributes": _attributes({"service.name": "dds", "k8s.cluster.name": story.cluster})}
    for claim in story.claims:
        spans = list(_spans(claim, story))
        for begin in range(0, len(spans), _AT_ONCE):
            scope = {"scope": {"name": "dds"}, "spans": spans[begin : begin + _AT_ONCE]}
            yield msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + b"\n"


def _spans(claim: ClaimHistory, story: Story) -> Iterator[dict[str, Any]]:
    """All spans of a claim, the root span first; none for a claim that no pod ever waited for. A span without an end is cut
    at the end of the log, and marked as open."""

    def span(own: str, parent: str, name: str, times: tuple[int, int], about: dict[str, Any]) -> dict[str, Any]:
        since, until = times
        wrong = {"code": _ERROR, "message": about["cause"]} if about.get("outcome") == "failed" else {}
        return {
            "traceId": _id(16, claim.uid),
            "spanId": own,
            "parentSpanId": parent,
            "name": name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(since * _NANOSECONDS),
            "endTimeUnixNano": str((until or story.now) * _NANOSECONDS),
            "attributes": _attributes({f"dds.{key}": value for key, value in {**about, "open": not until}.items()}),
            "status": wrong,
        }

    if not claim.spans:
        return
    root, begun = _id(8, claim.uid), [one.since for one in claim.attempts]
    times = (min([claim.origin, *begun]), claim.spans[-1].until)
    about: dict[str, Any] = {"claim": claim.name, "claim.uid": claim.uid, "namespace": claim.namespace}
    about |= {"node": claim.node, "pods": claim.pods, "outcome": claim.outcome, "cause": claim.cause}
    yield span(root, "", f"claim {claim.name}", times, about)
    ids = [_id(8, claim.uid, "attempt", number) for number in range(len(begun))]
    for own, one in zip(ids, claim.attempts, strict=True):
        about = {"attempt": f"{one.cycle}.{one.number}", "node": one.node, "models": one.models}
        about |= {"devices": story.names(one.devices), "outcome": one.outcome, "reason": one.reason, "cause": one.cause}
        yield span(own, root, "attempt", (one.since, one.until), about)
    for part in claim.spans:
        number = bisect_right(begun, part.since) - 1
        parent = ids[number] if number >= 0 and _within(part, claim.attempts[number]) else root
        about = {"stage": part.stage, "whose": WHOSE.get(part.stage), "node": part.node}
        yield span(_id(8, claim.uid, "stage", part.since), parent, part.stage, (part.since, part.until), about)


def _within(span: Span, one: Attempt) -> bool:
    return not one.until or 0 < span.until <= one.until


def _attributes(about: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in about.items() if value]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(one) for one in value]}}


def _id(length: int, *parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).digest()[:length].hex()
