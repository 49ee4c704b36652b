"""What is read of a Lease, what is written into it, and what is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dds_adapters.kubernetes.lease.state import (
    API_VERSION,
    UnexpectedLease,
    Written,
    changed_lease,
    new_lease,
    read_record,
)

WHERE = "lease default/dds"
WRITTEN = Written("me", 15, "2026-11-21T02:00:00.000000Z", "2026-11-21T02:00:04.000000Z", 3)


def lease(**spec: Any) -> dict[str, Any]:
    meta = {"name": "dds", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"team": "x"}}
    return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": meta, "spec": spec}


def raw(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def test_an_update_changes_the_election_and_nothing_else() -> None:
    owned = lease(holderIdentity="you", leaseDurationSeconds=30, leaseTransitions=2, novelty={"a": 1})
    body = json.loads(changed_lease(read_record(raw(owned), WHERE), WRITTEN))
    assert body["metadata"] == owned["metadata"]
    assert body["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T02:00:00.000000Z",
        "renewTime": "2026-11-21T02:00:04.000000Z",
        "leaseTransitions": 3,
        "novelty": {"a": 1},
    }


def test_what_was_written_is_read_again() -> None:
    made = json.loads(new_lease(WRITTEN, "default", "dds"))
    assert made["metadata"] == {"name": "dds", "namespace": "default"}
    made["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    record = read_record(raw(made), WHERE)
    assert (record.holder, record.seconds, record.transitions) == (WRITTEN.holder, WRITTEN.seconds, WRITTEN.transitions)
    assert (record.acquired, record.renewed) == (WRITTEN.acquired, WRITTEN.renewed)


@pytest.mark.parametrize(
    "bare", [{**lease(), "spec": None}, {k: v for k, v in lease().items() if k != "spec"}, lease()]
)
def test_a_lease_without_words_has_no_holder(bare: dict[str, Any]) -> None:
    record = read_record(raw(bare), WHERE)
    assert (record.holder, record.seconds, record.renewed, record.transitions) == ("", 0, "", 0)
    assert json.loads(changed_lease(record, WRITTEN))["spec"]["holderIdentity"] == "me"


def test_only_the_election_counts_as_a_change() -> None:
    one = read_record(raw(lease(holderIdentity="you", renewTime="1")), WHERE)
    relabelled = lease(holderIdentity="you", renewTime="1")
    relabelled["metadata"] |= {"labels": {}, "resourceVersion": "8"}
    assert read_record(raw(relabelled), WHERE).same_as(one)
    assert not read_record(raw(lease(holderIdentity="you", renewTime="2")), WHERE).same_as(one)
    other = lease(holderIdentity="you", renewTime="1")
    other["metadata"]["uid"] = "v"
    assert not read_record(raw(other), WHERE).same_as(one)
    assert not one.same_as(None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>a proxy</html>",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        raw({**lease(), "kind": "ConfigMap"}),
        raw({**lease(), "metadata": {"name": "dds"}}),
        raw({**lease(), "metadata": {"uid": "", "resourceVersion": "1"}}),
        raw({**lease(), "metadata": {"uid": "u", "resourceVersion": ""}}),
        raw({**lease(), "metadata": {"uid": "u", "resourceVersion": 7}}),
        raw({**lease(), "spec": "text"}),
        raw(lease(holderIdentity=7)),
        raw(lease(leaseDurationSeconds="15")),
        raw(lease(leaseTransitions=1.5)),
        raw(lease(strategy="OldestEmulationVersion")),
    ],
)
def test_what_is_no_lease_to_contend_for_is_told_in_one_line(body: bytes) -> None:
    with pytest.raises(UnexpectedLease) as told:
        read_record(body, WHERE)
    assert str(told.value).startswith("lease default/dds: ")
    assert "\n" not in str(told.value)


def test_negative_numbers_are_none() -> None:
    record = read_record(raw(lease(leaseDurationSeconds=-5, leaseTransitions=-1)), WHERE)
    assert (record.seconds, record.transitions) == (0, 0)
