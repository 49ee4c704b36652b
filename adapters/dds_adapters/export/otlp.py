"""Traces in the file form of OpenTelemetry: JSON lines of OTLP, which a collector's otlpjsonfile receiver and Jaeger's page read.

One trace a claim: all it waited and was in use, in it the attempts, in these the stages. Ids follow from the claim's uid, so that
the same claim is the same trace in each export.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status, TracesData

from dds_adapters.export.story import Story
from dds_core.scaler.history import WHOSE, Attempt, ClaimHistory

_AT_ONCE = 80
"""Spans a line at most: collectors cut a line at a mebibyte, and readers put together what belongs to one trace."""
_NANOSECONDS = 1_000


def otlp(story: Story) -> Iterator[bytes]:
    """The file, line by line."""
    resource = Resource(attributes=_attributes({"service.name": "dds", "k8s.cluster.name": story.cluster}))
    for claim in story.claims:
        spans = list(_spans(claim, story))
        for begin in range(0, len(spans), _AT_ONCE):
            scope = ScopeSpans(scope=InstrumentationScope(name="dds"), spans=spans[begin : begin + _AT_ONCE])
            yield _line(TracesData(resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]))


def _line(data: TracesData) -> bytes:
    """OTLP's JSON is that of protobuf, but for enumerations, which are numbers, and ids, which are hexadecimal and not base64."""
    line = MessageToDict(data, use_integers_for_enums=True)
    for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span |= {key: b64decode(span[key]).hex() for key in ("traceId", "spanId", "parentSpanId") if key in span}
    return msgspec.json.encode(line) + b"\n"


def _spans(claim: ClaimHistory, story: Story) -> Iterator[Span]:
    """All spans of a claim, the root span first; none for a claim that no pod ever waited for. A span without an end is cut
    at the end of the log, and marked as open."""

    def span(own: bytes, parent: bytes, name: str, times: tuple[int, int], about: dict[str, Any]) -> Span:
        since, until = times
        failed = about.get("outcome") == "failed"
        return Span(
            trace_id=_id(16, claim.uid),
            span_id=own,
            parent_span_id=parent,
            name=name,
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=since * _NANOSECONDS,
            end_time_unix_nano=(until or story.now) * _NANOSECONDS,
            attributes=_attributes({f"dds.{key}": value for key, value in {**about, "open": not until}.items()}),
            status=Status(code=Status.STATUS_CODE_ERROR, message=about["cause"]) if failed else None,
        )

    if not claim.spans:
        return
    root, begun = _id(8, claim.uid), [one.since for one in claim.attempts]
    times = (min([claim.origin, *begun]), claim.spans[-1].until)
    about: dict[str, Any] = {"claim": claim.name, "claim.uid": claim.uid, "namespace": claim.namespace}
    about |= {"node": claim.node, "pods": claim.pods, "outcome": claim.outcome, "cause": claim.cause}
    yield span(root, b"", f"claim {claim.name}", times, about)
    ids = [_id(8, claim.uid, "attempt", number) for number in range(len(begun))]
    for own, one in zip(ids, claim.attempts, strict=True):
        about = {"attempt": f"{one.cycle}.{one.number}", "node": one.node, "models": one.models}
        about |= {"devices": story.names(one.devices), "outcome": one.outcome, "reason": one.reason, "cause": one.cause}
        yield span(own, root, "attempt", (one.since, one.until), about)
    for part in claim.spans:
        number = bisect_right(begun, part.since) - 1
        parent = ids[number] if number >= 0 and _within(part.until, claim.attempts[number]) else root
        about = {"stage": part.stage, "whose": WHOSE.get(part.stage), "node": part.node}
        yield span(_id(8, claim.uid, "stage", part.since), parent, part.stage, (part.since, part.until), about)


def _within(until: int, one: Attempt) -> bool:
    return not one.until or 0 < until <= one.until


def _attributes(about: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in about.items() if value]


def _value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=map(_value, value)))


def _id(length: int, *parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()[:length]
