"""A claim that waits for a device of the pool gets the node's, in two writes: nothing is taken away in whose place nothing could
be set, and nothing is set where another was before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import structs

from dds_adapters.kubernetes.cluster import Unreachable
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS, TellClaims, Telling
from dds_adapters.kubernetes.write.exchange import ClearAllocation, GiveDevices
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Task
from dds_core.events import WriteDone
from dds_core.model import Claim
from dds_core.scaler.events import Entry, Swap
from dds_core.scaler.model import ANY_VERSION
from tests.support.written_objects import FAILED, GPU, POOL, READY, RESCHEDULE, Object, WrittenObjects

NODE = "node0"
SELECTOR = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}]}
WHEN = "2026-01-02T03:04:05Z"
FINALIZER = "resource.kubernetes.io/delete-protection"
USER = {"resource": "pods", "name": "p", "uid": "uid-p"}
WAITS = {"bindingConditions": [READY], "bindingFailureConditions": [RESCHEDULE, FAILED]}
SHARE = "0f1e2d3c-0000-4000-8000-000000000001"


def opaque(word: str, *requests: str, **more: Any) -> Object:
    parameters = {"word": word, **more}
    named = {"requests": list(requests)} if requests else {}
    return {**named, "opaque": {"driver": GPU, "parameters": parameters}}


def from_pool(device: str = "dev-0", request: str = "r0", **more: Any) -> Object:
    return {"request": request, "driver": GPU, "pool": POOL, "device": device, **WAITS, **more}


def on_node(device: str = "gpu-0", request: str = "r0", **more: Any) -> Object:
    return {"request": request, "driver": GPU, "pool": NODE, "device": device, **more}


def exactly(name: str = "r0", **more: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


def node_slice(*devices: str) -> Object:
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": NODE, "pool": pool, "devices": [{"name": name} for name in devices]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "local"}, "spec": spec}


class Case:
    """A claim with this spec, allocated with these results and reserved, on a stage with class `gpu` and a node with two GPUs."""

    def __init__(
        self,
        *results: Object,
        requests: tuple[Object, ...] = (exactly(),),
        spec_config: tuple[Object, ...] = (),
        class_config: tuple[Object, ...] = (),
        config: tuple[Object, ...] = (),
        finalizers: tuple[str, ...] = (FINALIZER,),
    ) -> None:
        self.stage = WrittenObjects()
        self.client = self.stage.admin
        self.client.create("deviceclasses", device_class("gpu", *class_config))
        self.client.create("resourceslices", node_slice("gpu-0", "gpu-1"))
        self.results = results or (from_pool(),)
        devices = {"requests": list(requests), **({"config": list(spec_config)} if spec_config else {})}
        meta = {"name": "c", "finalizers": list(finalizers)}
        self.client.create(CLAIMS, {"metadata": meta, "spec": {"devices": devices}}, "default")
        self.allocation: Object = {
            "devices": {"results": list(self.results), **({"config": list(config)} if config else {})},
            "nodeSelector": SELECTOR,
            "allocationTimestamp": WHEN,
        }
        self.edit({"allocation": self.allocation, "reservedFor": [USER]})
        self.claim = self.decoded()
        self.ref = Ref(CLAIMS, "c", "default", self.claim.uid)

    @property
    def live(self) -> Object:
        return self.client.get(CLAIMS, "c", "default")

    @property
    def status(self) -> Object:
        found: Object = self.live["status"]
        return found

    @property
    def version(self) -> str:
        return str(self.live["metadata"]["resourceVersion"])

    def decoded(self) -> Claim:
        return decoding.claim(msgspec.json.encode(self.live))

    def edit(self, status: Object) -> None:
        self.stage.edit(CLAIMS, "c", {"status": status}, "default", "status")

    def swap(self, *results: Object, **more: Any) -> Swap:
        """The results that it is to have, as the core says it."""
        assert self.claim.allocation is not None
        body = {**self.live, "status": {"allocation": {"devices": {"results": list(results or (on_node(),))}}}}
        given = decoding.claim(msgspec.json.encode(body)).allocation
        assert given is not None
        swap = Swap(
            self.claim.uid, given.results, self.claim.consumers, self.claim.allocation.timestamp, self.claim.config
        )
        return structs.replace(swap, **more)

    def clear(self, swap: Swap | None = None) -> ClearAllocation:
        assert self.claim.allocation is not None
        return ClearAllocation(self.ref, self.claim.allocation, self.claim.consumers, swap or self.swap())

    def exchange(self, swap: Swap | None = None) -> Object:
        """Both writes; gives the status that is there then."""
        swap = swap or self.swap()
        cleared = self.stage.carry_out(self.clear(swap))
        assert isinstance(cleared, Done) and cleared.written, cleared
        assert self.status == {} and cleared.version == self.version
        given = self.stage.carry_out(GiveDevices(self.ref, swap, NODE, cleared.version))
        assert given == Done(version=self.version), given
        return self.status

    def obsolete(self, write: ClearAllocation | GiveDevices, words: str) -> None:
        """Nothing is written, for this reason."""
        before = self.version
        result = self.stage.carry_out(write)
        assert isinstance(result, Obsolete) and words in result.why, result
        assert self.version == before


def device_class(name: str, *config: Object) -> Object:
    return {"metadata": {"name": name}, "spec": {"config": list(config)} if config else {}}


def status_of(case: Case, *results: Object, config: tuple[Object, ...] = ()) -> Object:
    devices = {"results": list(results), **({"config": list(config)} if config else {})}
    return {"allocation": {**case.allocation, "devices": devices}, "reservedFor": [USER]}


# -- what is given ------------------------------------------------------------------------------------------------------


def test_the_nodes_device_takes_the_place_of_the_pools() -> None:
    case = Case()
    assert case.exchange() == status_of(case, on_node())
    assert case.stage.writes == 2


def test_a_device_that_stays_keeps_what_it_waits_for() -> None:
    case = Case(from_pool(), from_pool("dev-1", "r1"), requests=(exactly(), exactly("r1")))
    given = on_node(), from_pool("dev-1", "r1")
    assert case.exchange(case.swap(*given)) == status_of(case, *given)


def test_a_share_is_told_with_its_identity_and_amounts() -> None:
    asks = exactly(capacity={"requests": {"memory": "1Gi"}})
    share: Object = {"shareID": SHARE, "consumedCapacity": {"memory": "1Gi"}}
    case = Case(from_pool(**share), requests=(asks,))
    assert case.exchange(case.swap(on_node(**share))) == status_of(case, on_node(**share))
    again = GiveDevices(case.ref, case.swap(on_node(shareID=SHARE, consumedCapacity={"memory": "1024Mi"})), NODE, "1")
    assert case.stage.carry_out(again) == Done(written=False, version=case.version)
    other = GiveDevices(case.ref, case.swap(on_node(**{**share, "shareID": SHARE[:-1] + "2"})), NODE, "1")
    case.obsolete(other, "was changed since its allocation was cleared")


def test_the_request_says_who_administrates_and_what_is_tolerated() -> None:
    tolerations = [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    requests = exactly("r0", tolerations=tolerations), exactly("admin", adminAccess=True)
    case = Case(
        from_pool(), on_node("gpu-1", "admin"), requests=(exactly("r0", tolerations=tolerations), exactly("admin"))
    )
    given = case.exchange(case.swap(on_node(), on_node("gpu-1", "admin")))
    assert given["allocation"]["devices"]["results"] == [
        on_node(tolerations=tolerations),
        on_node("gpu-1", "admin"),
    ]
    case.client.create(
        "namespaces", {"metadata": {"name": "a", "labels": {"resource.kubernetes.io/admin-access": "true"}}}
    )
    spec = {"devices": {"requests": list(requests)}}
    made = case.client.create(CLAIMS, {"metadata": {"name": "d", "finalizers": [FINALIZER]}, "spec": spec}, "a")
    ref = Ref(CLAIMS, "d", "a", made["metadata"]["uid"])
    give = GiveDevices(ref, case.swap(on_node(), on_node("gpu-1", "admin")), NODE, made["metadata"]["resourceVersion"])
    assert isinstance(case.stage.carry_out(give), Done)
    results = case.client.get(CLAIMS, "d", "a")["status"]["allocation"]["devices"]["results"]
    assert results == [on_node(tolerations=tolerations), on_node("gpu-1", "admin", adminAccess=True)]


ROW = {
    "name": "r0",
    "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu", "tolerations": [{"key": "b", "operator": "Exists"}]},
        {"name": "small", "deviceClassName": "small"},
    ],
}


def prioritized() -> Case:
    """`big` was chosen; each alternative has a configuration of its own, by class and claim."""
    spec = opaque("big", "r0/big"), opaque("small", "r0/small"), opaque("any", "r0")
    config = (
        {"source": "FromClass", **opaque("class", "r0/big")},
        {"source": "FromClaim", **opaque("big", "r0/big")},
        {"source": "FromClaim", **opaque("any", "r0")},
    )
    case = Case(
        from_pool(request="r0/big"), requests=(ROW,), spec_config=spec, class_config=(opaque("class"),), config=config
    )
    case.client.create("deviceclasses", device_class("small", opaque("tiny")))
    return case


def test_the_alternative_that_was_chosen_stays() -> None:
    case = prioritized()
    given = case.exchange(case.swap(on_node(request="r0/big")))
    tolerations = ROW["firstAvailable"][0]["tolerations"]  # type: ignore[index]
    config = tuple(case.allocation["devices"]["config"])
    assert given == status_of(case, on_node(request="r0/big", tolerations=tolerations), config=config)


def test_another_alternative_has_its_own_configuration() -> None:
    case = prioritized()
    given = case.exchange(case.swap(on_node(request="r0/small"), config=""))
    config = (
        {"source": "FromClass", **opaque("tiny", "r0/small")},
        {"source": "FromClaim", **opaque("small", "r0/small")},
        {"source": "FromClaim", **opaque("any", "r0")},
    )
    assert given == status_of(case, on_node(request="r0/small"), config=config)
    case = prioritized()
    case.obsolete(
        case.clear(case.swap(on_node(request="r0/small"))), "configuration is not the one that was decided on"
    )
    case.client.delete("deviceclasses", "small")
    case.obsolete(case.clear(case.swap(on_node(request="r0/small"), config="")), "device class small: not found")


def configured(**more: Any) -> Case:
    config = (
        {"source": "FromClass", **opaque("class", "r0", empty=None, list=[None, {"a": None}])},
        {"source": "FromClaim", **opaque("claim")},
    )
    spec, of_class = (opaque("claim"),), (opaque("class", empty=None, list=[None, {"a": None}]),)
    return Case(spec_config=spec, class_config=of_class, config=more.pop("config", config), **more)


def test_the_configuration_is_made_anew_from_class_and_claim() -> None:
    case = configured()
    assert case.claim.config
    assert case.exchange() == status_of(case, on_node(), config=tuple(case.allocation["devices"]["config"]))


def test_a_configuration_that_the_allocator_would_write_otherwise_by_now_is_not_taken_away() -> None:
    case = configured()
    cleared = case.clear()
    case.client.patch("deviceclasses", "gpu", {"spec": {"config": [opaque("changed")]}})
    case.obsolete(cleared, "its configuration cannot be made anew")
    case.client.delete("deviceclasses", "gpu")
    case.obsolete(cleared, "its configuration cannot be made anew (could not retrieve device class gpu: not found)")
    case = configured(config=())
    case.obsolete(case.clear(), "its configuration cannot be made anew")


def test_a_configuration_that_changes_between_the_writes_is_not_given() -> None:
    case = configured()
    cleared = case.stage.carry_out(case.clear())
    assert isinstance(cleared, Done)
    give = GiveDevices(case.ref, case.swap(), NODE, cleared.version)
    case.client.patch("deviceclasses", "gpu", {"spec": {"config": [opaque("changed")]}})
    case.obsolete(give, "its configuration is not the one that was decided on")
    case.client.delete("deviceclasses", "gpu")
    case.obsolete(give, "cannot be made anew")
    case.obsolete(replace(give, swap=case.swap(config="")), "cannot be made anew")


def test_where_nobody_knows_what_clearing_left_the_devices_are_given_to_a_claim_that_is_nobodys() -> None:
    case = Case()
    assert isinstance(case.stage.carry_out(case.clear()), Done)
    case.stage.edit(CLAIMS, "c", {"metadata": {"labels": {"touched": "since"}}}, "default")
    give = GiveDevices(case.ref, case.swap(), NODE, ANY_VERSION)
    assert case.stage.carry_out(give) == Done(version=case.version)
    assert case.status["allocation"]["devices"]["results"] == [on_node()]
    case.obsolete(replace(give, swap=case.swap(on_node("gpu-1"))), "was changed since its allocation was cleared")


def test_classes_are_read_with_the_right_to_list() -> None:
    case = configured()
    rules = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status", "resourceclaims/binding"], "verbs": ["patch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses", "resourceslices"], "verbs": ["list"]},
    ]  # fmt: skip
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dds"}}
    dds = case.stage.grant("dds", {**role, "rules": rules})
    cleared = case.stage.carry_out(case.clear(), dds)
    assert isinstance(cleared, Done) and cleared.written
    assert isinstance(case.stage.carry_out(GiveDevices(case.ref, case.swap(), NODE, cleared.version), dds), Done)
    refused = case.stage.carry_out(case.clear(), case.stage.as_user("nobody"))
    assert isinstance(refused, Declined) and refused.code == 403


# -- what is not as it was decided on -----------------------------------------------------------------------------------


def test_a_device_that_is_not_listed_any_more_is_not_given_though_nobody_has_said_so_yet() -> None:
    """Watches of claims and of slices are not of one moment; a pod that is bound to what is gone never starts."""
    case = Case()
    write = case.clear()
    case.stage.edit("resourceslices", "local", {"spec": {"devices": [{"name": "gpu-1"}]}})
    case.obsolete(write, "gpu-0 is not listed any more")
    case.stage.edit("resourceslices", "local", {"spec": {"pool": {"resourceSliceCount": 2, "generation": 2}}})
    assert isinstance(case.stage.carry_out(write), Later), "the rest is on its way"
    case.client.delete("resourceslices", "local")
    case.obsolete(write, "gpu-0 is not listed any more")
    elsewhere = node_slice("gpu-0", "gpu-1")
    del elsewhere["spec"]["nodeName"]
    case.client.create("resourceslices", {**elsewhere, "spec": {**elsewhere["spec"], "nodeSelector": SELECTOR}})
    assert isinstance(case.stage.carry_out(write), Done), "a driver may name its node in another way"


def test_a_claim_that_is_allocated_or_reserved_otherwise_is_not_cleared() -> None:
    case = Case()
    write = case.clear()
    case.edit({"reservedFor": [USER, {**USER, "name": "q", "uid": "uid-q"}]})
    case.obsolete(write, "is not reserved as it was")
    case.edit({"reservedFor": None})
    case.obsolete(write, "is not reserved as it was")
    case.edit({"allocation": None})
    case.edit({"allocation": {**case.allocation, "nodeSelector": None}, "reservedFor": [USER]})
    case.obsolete(write, "is not allocated as it was")


def test_a_claim_without_its_finalizer_is_not_cleared() -> None:
    case = Case(finalizers=())
    case.obsolete(case.clear(), f"has no finalizer {FINALIZER}")


def test_a_claim_that_is_being_deleted_or_is_another_is_left_alone() -> None:
    case = Case()
    write, give = case.clear(), GiveDevices(case.ref, case.swap(), NODE, case.version)
    case.client.delete(CLAIMS, "c", "default")
    case.obsolete(write, "is being deleted")
    case.obsolete(give, "is being deleted")
    other = Ref(CLAIMS, "c", "default", "uid-of-another")
    case.obsolete(replace(write, ref=other), "is another object by now")
    for gone in (replace(write, ref=replace(case.ref, name="d")), replace(give, ref=replace(case.ref, name="d"))):
        assert isinstance(case.stage.carry_out(gone), Obsolete)


def entry(device: str, pool: str = POOL, **more: Any) -> Object:
    return {"driver": GPU, "pool": pool, "device": device, **more}


def test_an_entry_of_another_manager_keeps_the_allocation() -> None:
    case = Case(from_pool(), from_pool("dev-1", "r1"), requests=(exactly(), exactly("r1")))
    stays = case.swap(on_node(), from_pool("dev-1", "r1"))
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    applied = {**kind, "metadata": {"name": "c"}, "status": {"devices": [entry("dev-0", data={"a": 1})]}}
    case.client.patch(CLAIMS, "c", applied, "default", how="apply", subresource="status")
    case.obsolete(case.clear(stays), "has an entry of another manager")
    case.edit({"devices": [entry("dev-1", data={"a": 1})]})
    case.obsolete(case.clear(stays), "has an entry for a device that stays")
    case.edit({"devices": None})
    case.exchange(stays)


def test_our_own_signals_go_with_the_device_that_goes() -> None:
    case = Case(from_pool(), from_pool("dev-1", "r1"), requests=(exactly(), exactly("r1")))
    told = (Entry(GPU, POOL, "dev-0", FAILED, "AttachTimeout", ""),)
    stage, swap = case.stage, case.swap(on_node(), from_pool("dev-1", "r1"))
    assert stage.carry_out(TellClaims((Telling(case.ref, case.claim.allocation, told),), WHEN)) == Done()
    assert "devices" not in case.exchange(swap)
    case = Case(from_pool(), from_pool("dev-1", "r1"), requests=(exactly(), exactly("r1")))
    told = (Entry(GPU, POOL, "dev-1", FAILED, "AttachTimeout", ""),)
    assert case.stage.carry_out(TellClaims((Telling(case.ref, case.claim.allocation, told),), WHEN)) == Done()
    case.obsolete(case.clear(swap), "has an entry for a device that stays")


def test_what_the_claim_does_not_ask_for_is_not_given() -> None:
    case = Case()
    case.obsolete(case.clear(case.swap(on_node(), on_node("gpu-1", "r9"))), "does not ask for what it is to be given")
    case.obsolete(case.clear(case.swap(on_node(request="r9"))), "cannot be made anew")


CHANGES: dict[str, Callable[[Case], object]] = {
    "allocated afresh": lambda case: case.edit({"allocation": case.allocation, "reservedFor": [USER]}),
    "on another device of the node": lambda case: case.edit(status_of(case, on_node("gpu-7"))),
    "labelled": lambda case: case.stage.edit(CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, "default"),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("late", [False, True], ids=["before it is read", "after it was read"])
def test_a_claim_that_was_changed_in_the_gap_is_left_to_its_scheduler(case: str, late: bool) -> None:
    one = Case()
    cleared = one.stage.carry_out(one.clear())
    assert isinstance(cleared, Done)
    give = GiveDevices(one.ref, one.swap(), NODE, cleared.version)
    if late:
        one.stage.meanwhile("PATCH", lambda: CHANGES[case](one))
    else:
        CHANGES[case](one)
    result = one.stage.carry_out(give)
    assert isinstance(result, Obsolete) and "was changed since its allocation was cleared" in result.why
    assert one.status in ({}, status_of(one, *one.results), status_of(one, on_node("gpu-7")))


def test_a_claim_that_changes_while_it_is_read_is_not_cleared() -> None:
    case = Case()
    case.stage.meanwhile("PATCH", lambda: case.edit({"reservedFor": [USER, {**USER, "name": "q", "uid": "uid-q"}]}))
    result = case.stage.carry_out(case.clear())
    assert isinstance(result, Obsolete) and "is not reserved as it was" in result.why
    assert case.status["allocation"] == case.allocation


# -- twice, and cut short ------------------------------------------------------------------------------------------------


def test_each_write_twice_is_one_and_gives_the_version() -> None:
    case = Case()
    cleared = case.stage.carry_out(case.clear())
    assert isinstance(cleared, Done)
    assert case.stage.carry_out(case.clear()) == replace(cleared, written=False)
    give = GiveDevices(case.ref, case.swap(), NODE, cleared.version)
    given = case.stage.carry_out(give)
    assert isinstance(given, Done) and given.version == case.version
    assert case.stage.carry_out(give) == replace(given, written=False)
    assert case.stage.writes == 2
    case.obsolete(case.clear(), "is not allocated as it was")


@pytest.mark.parametrize("sent", [False, True], ids=["before it is sent", "after it was sent"])
def test_every_request_may_be_the_last(sent: bool) -> None:
    whole = configured()
    whole.exchange()
    requests = sum(whole.stage.writer.requests.values())
    assert requests == 8, "claim and class twice, a list and a write each, and two lists for what is to be given"
    for number in range(requests):
        case, left = configured(), [number]

        def lost(method: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Unreachable("the connection broke", where=path)

        setattr(case.stage.writer, "after" if sent else "before", lost)
        cuts = 0
        write: Any = case.clear()
        cleared = case.stage.carry_out(write)
        if isinstance(cleared, Later):
            cuts, cleared = cuts + 1, case.stage.carry_out(write)
        assert isinstance(cleared, Done)
        write = GiveDevices(case.ref, case.swap(), NODE, cleared.version)
        given = case.stage.carry_out(write)
        if isinstance(given, Later):
            cuts, given = cuts + 1, case.stage.carry_out(write)
        assert isinstance(given, Done) and cuts == 1
        assert case.status == whole.status


def test_the_version_is_told_as_a_fact() -> None:
    case, outbox = Case(), Outbox(Random(1))
    outbox.put([Task(case.clear(), (f"{CLAIMS}/{case.claim.uid}",), "1", "AllocationCleared", case.claim.uid)], 0.0)
    task = outbox.next(0.0)
    assert isinstance(task, Task)
    fact = outbox.finished(task, case.stage.carry_out(task.write), 0.0)
    assert fact == WriteDone("1", "AllocationCleared", case.claim.uid, case.version)
