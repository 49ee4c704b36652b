"""Kubernetes Events and the question about a pod: one event for one thing, and the answer that the watch no longer gives."""

from __future__ import annotations

import json

from dds_adapters.kubernetes.watch.delta_queue import DELETED, MODIFIED, DeltaQueue
from dds_adapters.kubernetes.write.events import Regarding, TellPeople
from dds_adapters.kubernetes.write.pods import ask_pod
from dds_adapters.kubernetes.write.tasks import Declined, Done
from tests.support.fed_engine import START
from tests.support.written_objects import WrittenObjects, uid_of


def about(stage: WrittenObjects, note: str = "asked the fabric", name: str = "p") -> TellPeople:
    pod = Regarding("Pod", "pods", name, "uid-p", "default", "v1")
    claim = Regarding("ResourceClaim", "resourceclaims", "c", "uid-c", "default")
    return TellPeople(pod, "AttachOrdered", "Attach", note, "Normal", START, "dds-epoch-3", claim)


def test_an_event_is_made_once() -> None:
    stage = WrittenObjects()
    assert stage.carry_out(about(stage)) == Done()
    assert stage.carry_out(about(stage)) == Done(written=False)
    (made,) = stage.admin.list("events.events.k8s.io", "default")
    assert made["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "default",
        "uid": "uid-p",
    }
    assert made["related"]["apiVersion"] == "resource.k8s.io/v1"
    assert (made["reason"], made["action"], made["type"]) == ("AttachOrdered", "Attach", "Normal")
    assert (made["reportingController"], made["reportingInstance"]) == ("dds", "dds-epoch-3")
    assert made["eventTime"].startswith("2023-11-14T22:13:20")


def test_an_event_about_an_object_of_no_namespace_lands_in_default() -> None:
    stage = WrittenObjects()
    device = Regarding("ComposableResource", "composableresources", "gpu-1", "uid-r")
    assert stage.carry_out(TellPeople(device, "DeviceIdle", "Release", "idle", "Normal", START, "dds-1")) == Done()
    (made,) = stage.admin.list("events.events.k8s.io", "default")
    assert made["regarding"]["apiVersion"] == "cro.hpsys.ibm.ie.com/v1alpha1" and "related" not in made


def test_foreign_words_are_cut_and_scrubbed_and_long_names_fit() -> None:
    stage = WrittenObjects()
    assert stage.carry_out(about(stage, "password=hunter2 " + "ä" * 2000, "x" * 253)) == Done()
    (made,) = stage.admin.list("events.events.k8s.io", "default")
    assert len(made["note"].encode()) <= 1024 and "hunter2" not in made["note"]
    assert len(made["metadata"]["name"]) <= 253


def test_a_refused_event_is_declined() -> None:
    stage = WrittenObjects()
    result = stage.carry_out(about(stage), stage.as_user("nobody"))
    assert isinstance(result, Declined) and result.code == 403


def test_a_pod_that_got_a_node_is_told_as_it_is_now() -> None:
    stage, arrivals = WrittenObjects(), DeltaQueue()
    uid = uid_of(stage.pod("p"))
    assert stage.carry_out(ask_pod("default", "p", uid, arrivals)) == Done(written=False)
    assert len(arrivals) == 0  # it waits still: the watch tells
    stage.node("node0")
    stage.admin.bind("p", "default", "node0")
    assert stage.carry_out(ask_pod("default", "p", uid, arrivals)) == Done(written=False)
    (told,) = arrivals.take(0)
    assert (told.resource, told.type) == ("pods", MODIFIED)
    assert json.loads(told.raw)["spec"]["nodeName"] == "node0"


def test_a_pod_that_has_finished_is_told_as_gone() -> None:
    """Nobody would hear of its end."""
    stage, arrivals = WrittenObjects(), DeltaQueue()
    uid = uid_of(stage.pod("p"))
    stage.node("node0")
    stage.admin.bind("p", "default", "node0")
    stage.admin.patch("pods", "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    assert stage.carry_out(ask_pod("default", "p", uid, arrivals)) == Done(written=False)
    (told,) = arrivals.take(0)
    assert told.type == DELETED and json.loads(told.raw)["metadata"]["uid"] == uid


def test_a_pod_that_is_gone_or_replaced_is_told_as_gone() -> None:
    stage, arrivals = WrittenObjects(), DeltaQueue()
    assert stage.carry_out(ask_pod("default", "p", "uid-old", arrivals)) == Done(written=False)
    (told,) = arrivals.take(0)
    assert told.type == DELETED and json.loads(told.raw)["metadata"]["uid"] == "uid-old"
    stage.pod("p")
    assert stage.carry_out(ask_pod("default", "p", "uid-old", arrivals)) == Done(written=False)
    (told,) = arrivals.take(0)
    assert told.type == DELETED
    assert stage.writes == 0
