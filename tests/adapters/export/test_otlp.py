"""An OTLP file tells what the histories tell: one trace a claim, attempts in it, stages in these."""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dds_adapters.export import Story
from dds_adapters.export.otlp import otlp
from dds_core.scaler.history import ClaimHistory
from dds_core.scaler.history.claims import Attempt
from tests.core.scaler.history.told import LOGS, RECORDINGS, told

OVER = 1000


def story(name: str) -> Story:
    return Story("prod-eu", told(name), lambda at, position: True)


def spans(story: Story) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in otlp(story)]
    return [one for line in lines for one in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def attributes(one: dict[str, Any]) -> dict[str, Any]:
    return {item["key"]: next(iter(item["value"].values())) for item in one["attributes"]}


def times(one: dict[str, Any]) -> tuple[int, int]:
    return int(one["startTimeUnixNano"]), int(one["endTimeUnixNano"])


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_spans_are_those_of_the_history(name: str) -> None:
    whole = story(name)
    found, now = spans(whole), whole.now
    expected: Counter[tuple[str, int, int]] = Counter()
    for claim in whole.claims:
        if claim.spans:
            expected[f"claim {claim.name}", claim.origin * OVER, (claim.spans[-1].until or now) * OVER] += 1
            expected.update(("attempt", one.since * OVER, (one.until or now) * OVER) for one in claim.attempts)
            expected.update((one.stage, one.since * OVER, (one.until or now) * OVER) for one in claim.spans)
    assert Counter((one["name"], *times(one)) for one in found) == expected
    assert len({one["spanId"] for one in found}) == len(found)


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_a_claim_is_a_tree(name: str) -> None:
    traces = defaultdict(list)
    for one in spans(story(name)):
        traces[one["traceId"]].append(one)
    for trace in traces.values():
        by_id = {one["spanId"]: one for one in trace}
        (root,) = (one for one in trace if "parentSpanId" not in one)
        for one in trace:
            assert len(one["traceId"]) == 32 and len(one["spanId"]) == 16
            parent = by_id[one["parentSpanId"]] if one is not root else root
            assert times(parent)[0] <= times(one)[0] <= times(one)[1] <= times(parent)[1]
            if one["name"] == "attempt":
                assert parent is root
        stages = [one for one in trace if one["name"] in ("order", "fabric", "driver", "hand-over")]
        assert all(by_id[one["parentSpanId"]]["name"] == "attempt" for one in stages)


def test_what_a_span_says() -> None:
    found = spans(story("node_limit"))
    failed = next(one for one in found if one["name"] == "attempt" and attributes(one).get("dds.reason") == "NodeLimit")
    assert failed["status"] == {"code": 2, "message": attributes(failed)["dds.cause"]}
    assert attributes(failed)["dds.outcome"] == "failed"
    root = next(one for one in found if one["name"] == "claim default/job-2")
    assert root["status"]["code"] == 2 and "NodeLimit" in root["status"]["message"]
    good = next(one for one in found if one["name"] == "claim default/job-0")
    assert "status" not in good
    about = attributes(next(one for one in spans(story("first_attach")) if one["name"] == "fabric"))
    assert about == {
        "dds.stage": "fabric",
        "dds.whose": "the fabric: attaching the device",
        "dds.node": "node0000",
    }
    line = json.loads(next(otlp(story("first_attach"))))
    assert attributes(line["resourceSpans"][0]["resource"]) == {"service.name": "dds", "k8s.cluster.name": "prod-eu"}


def test_ids_follow_from_the_claim() -> None:
    """A later export of the same log has the same traces, further on."""
    moments = list(told("first_attach"))
    early = spans(Story("c", moments[: len(moments) // 2], lambda at, position: True))
    late = {one["spanId"]: one for one in spans(Story("other", moments, lambda at, position: True))}
    assert early[0]["spanId"] in late and early[0]["traceId"] == next(iter(late.values()))["traceId"]
    assert "dds.open" in attributes(early[0]) and "dds.open" not in attributes(late[early[0]["spanId"]])


def test_a_long_trace_is_cut_into_lines_that_collectors_take() -> None:
    whole = story("node_limit")
    claim = next(iter(whole.history.claims.values()))
    step = 1000
    claim.attempts = [
        Attempt(
            1,
            number,
            claim.first + number * step,
            "node0000",
            claim.first + (number + 1) * step,
            "failed",
            "Odd",
            "x" * 5000,
        )
        for number in range(1000)
    ]
    lines = list(otlp(whole))
    assert max(map(len, lines)) < 1 << 20
    assert len([one for one in spans(whole) if one["name"] == "attempt"]) >= 1000


def test_nobody_who_waited_is_no_trace() -> None:
    whole = story("first_attach")
    whole.history.claims = {"u": ClaimHistory("u", "a/b", 1)}
    assert list(otlp(whole)) == []


@pytest.mark.parametrize("name", ["first_attach", "attach_failure", "node_limit", "burst"])
def test_a_collector_takes_each_line(name: str) -> None:
    whole = story(name)
    parsed = []
    for line in otlp(whole):
        data = json.loads(line)
        for one in data["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            assert one["kind"] == 1, "enumerations are numbers in OTLP"
            for key in one.keys() & {"traceId", "spanId", "parentSpanId"}:  # hexadecimal in OTLP, base64 in protobuf
                one[key] = base64.b64encode(bytes.fromhex(one[key])).decode()
        request = ParseDict(data, ExportTraceServiceRequest())
        parsed += [one for part in request.resource_spans[0].scope_spans for one in part.spans]
    assert [(one.span_id.hex(), one.start_time_unix_nano, one.end_time_unix_nano) for one in parsed] == [
        (one["spanId"], *times(one)) for one in spans(whole)
    ]
    assert {one.status.code for one in parsed} <= {0, 2}
