"""Watch events to facts: one for each change that matters, none for the rest, one rejection for what is broken."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dds_adapters.kubernetes import RESOURCES, Translator, UnknownResource, UnknownWatchType, WatchFailed
from dds_core.errors import DdsError
from dds_core.events import ClaimGone, ClaimObserved, ConfigMissing, Event, FabricResourceObserved, Rejected
from dds_core.model import Claim
from dds_core.scaler.component import Engine
from dds_core.scaler.events import (
    AttachRequestObserved,
    ConfigObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    SliceObserved,
)
from tests.adapters.kubernetes.decode.test_decode import WHOLE
from tests.adapters.kubernetes.samples import DictView, NamingView, Watched, put, raw_of, sample


def changed(event: Event) -> dict[str, Any]:
    """What a fact says has changed."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    return {**found.get("changes", {}), **{f"devices/{k}": v for k, v in found.get("devices", {}).items()}}


@pytest.mark.parametrize("resource", RESOURCES)
def test_first_one_fact_then_none_then_gone_then_none(resource: str) -> None:
    watched = Watched()
    events = watched.sees(resource, sample(resource), "ADDED")
    assert [type(event).__name__ for event in events] == [f"{RESOURCES[resource].kind.__name__}Observed"]
    if resource in WHOLE:
        assert watched.the(resource) == WHOLE[resource]
    assert watched.sees(resource, sample(resource), "MODIFIED") == ()
    assert watched.sees(resource, sample(resource), "ADDED") == ()
    gone = watched.sees(resource, sample(resource), "DELETED")
    if resource == "configmaps":  # it stays in force
        assert gone == (ConfigMissing("u-1"),)
        return
    assert [type(event).__name__ for event in gone] == [f"{RESOURCES[resource].kind.__name__}Gone"]
    assert watched.sees(resource, sample(resource), "DELETED") == ()


NOISE = [
    ("resourceclaims", "metadata/resourceVersion", "99"),
    ("resourceclaims", "metadata/managedFields", []),
    ("resourceclaims", "metadata/finalizers", ["example.com/wait", "resource.kubernetes.io/delete-protection"]),
    ("resourceclaims", "metadata/annotations/note", "x"),
    ("resourceclaims", "status/devices/0/conditions/0/message", "other"),
    ("resourceclaims", "status/devices/0/conditions/0/lastTransitionTime", "2026-11-21T03:00:00Z"),
    ("resourceclaims", "status/devices/0/data", {"a": 1}),
    ("resourceslices", "metadata/generation", 9),
    ("resourceslices", "spec/devices/0/attributes/links", {"strings": ["c"]}),
    ("resourceslices", "spec/devices/0/taints/0/timeAdded", "2026-11-21T03:00:00Z"),
    ("nodes", "status/conditions/0/lastHeartbeatTime", "2026-11-21T03:00:00Z"),
    ("nodes", "metadata/annotations/note", "x"),
    ("pods", "status/conditions/0/message", "other"),
    ("pods", "status/conditions/1", {"type": "Ready", "status": "True"}),
    ("composableresources", "metadata/annotations/cohdi.io#last-used-time", "2026-11-21T03:00:00Z"),
    ("composableresources", "metadata/resourceVersion", "99"),
    ("composabilityrequests", "status/resources/gpu-1", {"state": "Detaching", "error": "other"}),
]


@pytest.mark.parametrize(("resource", "path", "value"), NOISE)
def test_what_does_not_matter_is_no_fact(resource: str, path: str, value: Any) -> None:
    watched = Watched()
    watched.sees(resource, sample(resource))
    obj = sample(resource)
    if "#" in path:
        obj["metadata"]["annotations"][path.split("/")[-1].replace("#", "/")] = value
    else:
        put(obj, path, value)
    assert watched.sees(resource, obj) == ()


CHANGES: list[tuple[str, str, Any, type[Event], dict[str, Any]]] = [
    ("resourceclaims", "status/allocation", None, ClaimObserved, {"allocation": None, "config": ""}),
    ("resourceclaims", "status/devices", [], ClaimObserved, {"conditions": [], "told": []}),
    ("resourceclaims", "metadata/finalizers", [], ClaimObserved, {"protected": False}),
    ("resourceclaims", "status/reservedFor", [], ClaimObserved, {"consumers": []}),
    ("resourceslices", "spec/pool/generation", 6, SliceObserved, {"generation": 6}),
    ("resourceslices", "spec/devices", [], SliceObserved, {"devices/gpu-0": None}),
    ("nodes", "spec/unschedulable", False, NodeObserved, {"unschedulable": False}),
    ("pods", "status/nominatedNodeName", "n3", PodObserved, {"nominated": "n3"}),
    ("pods", "status/conditions/0/status", "True", PodObserved, {"waiting": ""}),
    ("composabilityrequests", "spec/resource/size", 3, AttachRequestObserved, {"size": 3}),
    ("composabilityrequests", "status/resources/gpu-0", {}, AttachRequestObserved, {"planned": ["gpu-0", "gpu-1"]}),
    ("composabilityrequests", "status/resources", {}, AttachRequestObserved, {"planned": None}),
    ("composabilityrequests", "status/resources", {"gpu-2": {}}, AttachRequestObserved, {"planned": ["gpu-2"]}),
    ("composableresources", "status/state", "Detaching", FabricResourceObserved, {"state": "Detaching"}),
    ("composableresources", "metadata/annotations", {}, FabricResourceObserved, {"marked": False}),
]


@pytest.mark.parametrize(("resource", "path", "value", "fact", "changes"), CHANGES)
def test_a_fact_holds_what_changed_and_nothing_else(
    resource: str, path: str, value: Any, fact: type[Event], changes: dict[str, Any]
) -> None:
    watched = Watched()
    watched.sees(resource, sample(resource))
    (event,) = watched.sees(resource, put(sample(resource), path, value))
    assert type(event) is fact and changed(event) == changes


def test_a_slices_device_differences_are_one_fact() -> None:
    watched = Watched()
    obj = sample("resourceslices")
    obj["spec"]["devices"] = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    watched.sees("resourceslices", obj)
    obj["spec"]["devices"] = [{"name": "c", "nodeName": "n1"}, {"name": "d"}, {"name": "a"}]
    (event,) = watched.sees("resourceslices", obj)
    assert changed(event) == {"devices/b": None, "devices/c": {"node": "n1"}, "devices/d": {}}


# -- what does not matter at all -------------------------------------------------------------------


def test_a_pod_without_claims_is_none_of_our_business() -> None:
    watched = Watched()
    pod = sample("pods")
    del pod["spec"]["resourceClaims"], pod["status"]["extendedResourceClaimStatus"]
    assert watched.sees("pods", pod, "ADDED") == watched.sees("pods", pod) == watched.sees("pods", pod, "DELETED") == ()


def test_a_pod_matters_from_its_special_claim_on_and_stays_known() -> None:
    watched = Watched()
    pod = sample("pods")
    del pod["spec"]["resourceClaims"]
    assert type(watched.sees("pods", pod)[0]) is PodObserved
    del pod["status"]["extendedResourceClaimStatus"]
    (event,) = watched.sees("pods", pod)
    assert changed(event) == {"extended_claim": ""}
    assert type(watched.sees("pods", pod, "DELETED")[0]) is PodGone


def waiting_pod(**requests: str) -> dict[str, Any]:
    """A pod without claims for which the scheduler has found no node; `gpu` is example.com/gpu."""
    pod = sample("pods")
    del pod["spec"]["resourceClaims"], pod["spec"]["nodeName"], pod["status"]["extendedResourceClaimStatus"]
    asked = {"example.com/gpu" if name == "gpu" else name: amount for name, amount in requests.items()}
    pod["spec"]["containers"] = [{"name": "c", "resources": {"requests": asked}}]
    pod["status"]["phase"] = "Pending"
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return pod


def test_a_pod_that_waits_for_an_extended_resource_matters_as_long_as_it_waits() -> None:
    watched = Watched()
    pod = waiting_pod(gpu="2", cpu="1")
    (event,) = watched.sees("pods", pod, "ADDED")
    assert changed(event)["extended_resources"] == {"example.com/gpu": 2} and changed(event)["created"] > 0
    (event,) = watched.sees("pods", put(pod, "spec/nodeName", "n1"))
    assert type(event) is PodGone, "a device plugin of its node serves it"
    assert watched.sees("pods", pod, "DELETED") == ()


def test_with_its_claim_it_stays_known_on_its_node() -> None:
    watched = Watched()
    pod = waiting_pod(gpu="1")
    watched.sees("pods", pod, "ADDED")
    watched.sees("pods", put(pod, "status/extendedResourceClaimStatus", {"resourceClaimName": "x"}))
    (event,) = watched.sees("pods", put(pod, "spec/nodeName", "n1"))
    assert changed(event) == {"node": "n1", "extended_resources": {}, "created": 0}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec/containers/0/resources/requests", {"cpu": "1", "hugepages-2Mi": "2Mi", "pods.kubernetes.io/x": "1"}),
        ("spec/containers/0/resources/requests", {"example.com/gpu": "0"}),
        ("status/conditions", []),
        ("status/conditions/0/reason", "SchedulingGated"),
        ("status/phase", "Failed"),
        ("spec/nodeName", "n1"),
    ],
    ids=["native", "none", "not tried", "gated", "ended", "bound"],
)
def test_a_pod_that_waits_for_none_is_none_of_our_business(path: str, value: Any) -> None:
    assert Watched().sees("pods", put(waiting_pod(gpu="1"), path, value), "ADDED") == ()


@pytest.mark.parametrize("where", [{"name": "kube-root-ca.crt"}, {"namespace": "default"}, {"namespace": ...}])
def test_another_config_map_is_not_looked_at(where: dict[str, Any]) -> None:
    watched = Watched()
    obj = sample("configmaps")
    for key, value in where.items():
        put(obj, f"metadata/{key}", value)
    obj["data"] = "anything at all"
    assert watched.sees("configmaps", obj, "ADDED") == watched.sees("configmaps", obj, "DELETED") == ()


def test_the_config_maps_namespace_can_be_chosen() -> None:
    view = DictView()
    obj = put(sample("configmaps"), "metadata/namespace", "elsewhere")
    (event,) = Translator(view, config_namespace="elsewhere").translate("configmaps", "ADDED", raw_of(obj))
    assert type(event) is ConfigObserved


@pytest.mark.parametrize("namespace", ["default", "composable-dra"])
def test_a_hold_is_one_in_our_own_namespace_only(namespace: str) -> None:
    """Anybody who may make claims could keep a device from everybody: it was in use by nobody, and given to nobody."""
    claim = put(put(sample("resourceclaims"), "metadata/namespace", namespace), "status/reservedFor", None)
    put(claim, "metadata/labels", {"app.kubernetes.io/managed-by": "dds"})
    put(claim, "metadata/ownerReferences", [{"kind": "ComposableResource", "name": "a", "uid": "r-1"}])
    for installed in ("composable-dra", "default", ""):
        view = DictView()
        (event,) = Translator(view, namespace=installed).translate("resourceclaims", "ADDED", raw_of(claim))
        view.fold(event)
        assert view.object(Claim, "u-1").hold == ("r-1" if installed in ("", namespace) else "")


def test_a_bookmark_is_no_fact_whatever_it_holds() -> None:
    watched = Watched()
    for resource in RESOURCES:
        assert watched.sees(resource, {"metadata": {"resourceVersion": "9"}, "spec": {}}, "BOOKMARK") == ()


# -- what is broken --------------------------------------------------------------------------------


def test_a_broken_object_is_told_once_and_its_last_good_state_stands() -> None:
    watched = Watched()
    watched.sees("resourceslices", sample("resourceslices"))
    before = watched.the("resourceslices")
    broken = put(sample("resourceslices"), "spec/pool/generation", "6")
    assert watched.sees("resourceslices", broken) == (
        Rejected("ResourceSlice", "u-1", "s1", "spec.pool.generation", "expected int, got str"),
    )
    assert watched.sees("resourceslices", broken) == ()
    assert watched.the("resourceslices") == before
    other = put(sample("resourceslices"), "spec/driver", 5)
    assert [type(event) for event in watched.sees("resourceslices", other)] == [Rejected]
    mended = put(sample("resourceslices"), "spec/pool/generation", 6)
    (event,) = watched.sees("resourceslices", mended)
    assert changed(event) == {"generation": 6}


def test_one_broken_object_stops_no_other() -> None:
    watched = Watched()
    watched.sees("resourceclaims", put(sample("resourceclaims"), "spec", 5))
    good = put(sample("resourceclaims"), "metadata/uid", "u-2")
    assert [type(event) for event in watched.sees("resourceclaims", good)] == [ClaimObserved]


def test_the_end_of_an_object_that_was_only_ever_rejected_is_told_once_and_forgets_it() -> None:
    engine = Engine()
    translator = Translator(engine.state)
    broken = raw_of(put(sample("resourceclaims"), "spec", 5))
    for round in range(2):
        told = [
            type(event) for type_ in ("ADDED", "DELETED", "DELETED") for event in fed(engine, translator, type_, broken)
        ]
        assert told == [Rejected, ClaimGone], round
        assert not engine.state.notes.rejections.rows


def fed(engine: Engine, translator: Translator, type: str, raw: bytes) -> tuple[Event, ...]:
    events = translator.translate("resourceclaims", type, raw)
    for event in events:
        engine.feed(event, 1)
    return events


def test_a_rejection_names_the_object() -> None:
    watched = Watched()
    (event,) = watched.sees("resourceclaims", put(sample("resourceclaims"), "spec", 5))
    assert event == Rejected("ResourceClaim", "u-1", "c1", "spec", "expected object | null, got int", "default")


@pytest.mark.parametrize(
    ("raw", "field", "name"),
    [
        (b"", "object", ""),
        (b'{"metadata": 5}', "metadata", ""),
        (b'{"metadata": {"uid": 5, "name": "n1"}}', "metadata.uid", "n1"),
        (b'{"metadata": {"name": "n1"}}', "metadata.uid", "n1"),
        (b'{"metadata": {"name": {"a": 1}}}', "metadata.name", ""),
    ],
)
def test_what_cannot_be_identified_is_told_in_the_scalers_stream(raw: bytes, field: str, name: str) -> None:
    watched = Watched()
    (event,) = watched.sees("nodes", raw)
    assert isinstance(event, Rejected)
    assert (event.subject, event.kind, event.field, event.name) == ("scaler", "Node", field, name)
    assert watched.sees("nodes", raw) == ()


def test_a_broken_object_can_still_go() -> None:
    watched = Watched()
    watched.sees("nodes", sample("nodes"))
    assert watched.sees("nodes", {"metadata": {"uid": "u-1"}, "spec": "broken"}, "DELETED") == (NodeGone("u-1"),)
    (event,) = watched.sees("nodes", b"broken", "DELETED")
    assert isinstance(event, Rejected) and event.field == "metadata.uid"


def test_bad_entries_of_the_config_map_are_told_beside_the_good_ones() -> None:
    watched = Watched()
    obj = sample("configmaps")
    obj["data"]["device-info"] = obj["data"]["device-info"].replace('"index": 1', '"index": -1')
    obj["data"]["mode"] = "halt"
    first, *rest = watched.sees("configmaps", obj, "ADDED")
    assert isinstance(first, ConfigObserved) and changed(first) == {"fabrics": [1], "mode": "observe"}
    assert [(e.field, e.uid, e.kind) for e in rest if isinstance(e, Rejected)] == [
        ("data.device-info[A100 40G].index", "u-1", "ConfigMap"),
        ("data.mode", "u-1", "ConfigMap"),
    ]
    assert watched.sees("configmaps", obj) == ()
    assert watched.sees("configmaps", obj, "DELETED") == (ConfigMissing("u-1"),)


def test_two_faults_alike_are_told_once() -> None:
    watched = Watched()
    obj = put(sample("configmaps"), "data/device-info", '[{"cdi-model-name": "A"}, {"cdi-model-name": "A"}]')
    assert [type(event) for event in watched.sees("configmaps", obj)] == [ConfigObserved, Rejected]


def test_a_config_map_that_is_broken_as_a_whole_leaves_the_last_good_one() -> None:
    watched = Watched()
    watched.sees("configmaps", sample("configmaps"))
    before = watched.the("configmaps")
    (event,) = watched.sees("configmaps", put(sample("configmaps"), "data", "text"))
    assert isinstance(event, Rejected) and event.field == "data"
    assert watched.the("configmaps") == before


# -- names that are used again ---------------------------------------------------------------------


@pytest.mark.parametrize("resource", [name for name in RESOURCES if name != "configmaps"])
def test_a_new_uid_under_the_same_name_is_the_end_of_the_old(resource: str) -> None:
    watched = Watched(NamingView())
    watched.sees(resource, sample(resource))
    gone, observed = watched.sees(resource, put(sample(resource), "metadata/uid", "u-2"))
    kind = RESOURCES[resource].kind.__name__
    assert (type(gone).__name__, gone.subject, type(observed).__name__) == (f"{kind}Gone", "u-1", f"{kind}Observed")
    assert watched.the(resource, "u-1") is None and watched.the(resource, "u-2") is not None
    assert watched.sees(resource, sample(resource), "DELETED") == ()


def test_a_config_map_that_is_made_again_goes_on_from_what_was_in_force() -> None:
    watched = Watched(NamingView())
    watched.sees("configmaps", sample("configmaps"))
    again = put(put(sample("configmaps"), "metadata/uid", "u-2"), "data/device-info", "no list")
    observed, rejected = watched.sees("configmaps", again)
    assert (observed.subject, type(rejected)) == ("u-2", Rejected)
    assert watched.the("configmaps", "u-2").models == watched.the("configmaps", "u-1").models


def test_a_name_taken_by_a_pod_that_does_not_matter() -> None:
    watched = Watched(NamingView())
    watched.sees("pods", sample("pods"))
    pod = put(sample("pods"), "metadata/uid", "u-2")
    del pod["spec"]["resourceClaims"], pod["status"]["extendedResourceClaimStatus"]
    assert watched.sees("pods", pod) == (PodGone("u-1"),)


def test_equal_names_in_two_namespaces_are_two_claims() -> None:
    watched = Watched(NamingView())
    watched.sees("resourceclaims", sample("resourceclaims"))
    other = put(put(sample("resourceclaims"), "metadata/uid", "u-2"), "metadata/namespace", "other")
    assert [type(event) for event in watched.sees("resourceclaims", other)] == [ClaimObserved]


def test_a_view_without_names_waits_for_the_deletion() -> None:
    watched = Watched()
    watched.sees("resourceclaims", sample("resourceclaims"))
    new = put(sample("resourceclaims"), "metadata/uid", "u-2")
    assert [type(event) for event in watched.sees("resourceclaims", new)] == [ClaimObserved]
    assert watched.sees("resourceclaims", sample("resourceclaims"), "DELETED") == (ClaimGone("u-1"),)


# -- the fabric's words ----------------------------------------------------------------------------


@pytest.mark.parametrize("resource", ["composabilityrequests", "composableresources"])
def test_a_retry_is_not_news_and_other_words_are(resource: str) -> None:
    def failing(words: str) -> tuple[Event, ...]:
        return watched.sees(resource, put(sample(resource), "status/error", words))

    watched = Watched()
    failing("attach of 7f8b430d failed at 02:11:04, E02XXXX")
    assert failing("attach of 4c5725c7 failed at 02:11:34, E02XXXX") == ()
    assert watched.the(resource).error == "attach of 7f8b430d failed at 02:11:04, E02XXXX"
    (event,) = failing("attach of 4c5725c7 failed at 02:12:04, E05XXXX")
    assert changed(event) == {"error": "attach of 4c5725c7 failed at 02:12:04, E05XXXX"}
    (event,) = failing("")
    assert changed(event) == {"error": ""}


def test_with_another_change_the_old_words_stay() -> None:
    watched = Watched()
    watched.sees("composableresources", put(sample("composableresources"), "status/error", "try 1 failed"))
    obj = put(sample("composableresources"), "status/error", "try 2 failed")
    (event,) = watched.sees("composableresources", put(obj, "status/state", "Detaching"))
    assert changed(event) == {"state": "Detaching"}


def test_words_are_scrubbed_and_short() -> None:
    watched = Watched()
    obj = put(sample("composableresources"), "status/error", "token=abc " + "x" * 5000)
    watched.sees("composableresources", obj)
    error = watched.the("composableresources").error
    assert error.startswith("token=[removed] xxx") and len(error.encode()) <= 1024


# -- what is no watch event ------------------------------------------------------------------------


def test_an_unknown_resource_and_an_unknown_type() -> None:
    watched = Watched()
    with pytest.raises(
        UnknownResource, match=r"^'secrets' is not a resource that is translated; known: resourceclaims, "
    ):
        watched.sees("secrets", {})
    with pytest.raises(UnknownWatchType, match=r"^nodes: 'PATCHED' is not a type of watch event$"):
        watched.sees("nodes", sample("nodes"), "PATCHED")


def test_an_error_says_that_the_watch_is_over() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version; token=abc"}
    with pytest.raises(WatchFailed) as e:
        Watched().sees("nodes", status, "ERROR")
    assert (e.value.code, e.value.reason) == (410, "Expired") and isinstance(e.value, DdsError)
    assert str(e.value) == (
        "nodes: the watch ended: 410 Expired: too old resource version; token=[removed]; list and watch again"
    )
    with pytest.raises(WatchFailed, match="unreadable"):
        Watched().sees("nodes", b"broken", "ERROR")


def test_the_translator_remembers_nothing() -> None:
    view = DictView()
    raw = raw_of(sample("resourceclaims"))
    for _ in range(2):  # nothing was folded, so it is as new as before
        (event,) = Translator(view).translate("resourceclaims", "MODIFIED", raw)
        assert type(event) is ClaimObserved
    assert view.object(Claim, "u-1") is None
