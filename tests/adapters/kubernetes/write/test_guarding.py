"""Devices that nobody else may be given: guarded once the API server is seen to refuse them, and let go of."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from dds_adapters.kubernetes import guard as shipped
from dds_adapters.kubernetes.cluster import Unreachable
from dds_adapters.kubernetes.write.devices import rfc3339
from dds_adapters.kubernetes.write.exchange import LONG_OVER, GiveDevices, GuardDevices, LiftGuards, not_guarded
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Task
from dds_core.events import WriteRefused
from dds_core.model import Consumer, Result
from dds_core.scaler.events import Swap
from dds_lab.api.requests import MASTERS
from dds_lab.client import ApiError
from dds_lab.setup import install_guard
from tests.support import guarding
from tests.support.fed_engine import START
from tests.support.guarding import NAMESPACE, guarded
from tests.support.written_objects import GPU, Object, WrittenObjects, uid_of

DEVICE, OTHER = (GPU, "node0", "gpu-0"), (GPU, "node0", "gpu-1")
UNTIL = START + 60_000_000
KEY = f"{GPU}_node0_gpu-0"


def stage_with_guard(user: str = "writer") -> WrittenObjects:
    stage = WrittenObjects()
    install_guard(stage.admin, user)
    return stage


def guard(*devices: tuple[str, str, str], until: int = UNTIL) -> GuardDevices:
    return GuardDevices(NAMESPACE, devices or (DEVICE,), until, "node0")


def gives(stage: WrittenObjects, device: tuple[str, str, str], at: int = START) -> bool:
    """Whether a scheduler may give the device now."""
    stage.claim("rival")
    driver, pool, name = device
    result = {"request": "r0", "driver": driver, "pool": pool, "device": name}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": rfc3339(at)}
    try:
        stage.edit("resourceclaims", "rival", {"status": {"allocation": allocation}}, "default", "status")
    except ApiError as error:
        assert "denied request: dds is giving" in str(error)
        return False
    finally:
        stage.admin.delete("resourceclaims", "rival", "default")
    return True


def test_a_guarded_device_is_given_by_nobody_else_until_the_guard_is_lifted() -> None:
    stage = stage_with_guard()
    assert gives(stage, DEVICE)
    assert stage.carry_out(guard(DEVICE, OTHER)) == Done()
    assert guarded(stage.admin)[KEY] == rfc3339(UNTIL, precise=True)
    assert stage.carry_out(guard(DEVICE, OTHER)) == Done(written=False)
    assert not gives(stage, DEVICE) and not gives(stage, OTHER) and gives(stage, (GPU, "node1", "gpu-0"))
    assert gives(stage, DEVICE, UNTIL + 1_000_000), "a guard ends by itself"
    assert stage.get("resourceclaims", "dds-probe", NAMESPACE)["status"] == {}, "the probe is never kept"
    assert stage.carry_out(LiftGuards(NAMESPACE, (DEVICE,))) == Done()
    assert gives(stage, DEVICE) and not gives(stage, OTHER)
    assert stage.carry_out(LiftGuards(NAMESPACE, (DEVICE,))) == Done(written=False)


def test_a_guard_that_stands_is_prolonged_and_others_stay() -> None:
    stage = stage_with_guard()
    assert stage.carry_out(guard(OTHER)) == Done()
    assert stage.carry_out(guard()) == Done()
    assert stage.carry_out(guard(until=UNTIL + 5_000_000)) == Done()
    assert guarded(stage.admin) == {
        KEY: rfc3339(UNTIL + 5_000_000, precise=True),
        f"{GPU}_node0_gpu-1": rfc3339(UNTIL, precise=True),
    }


def test_a_guard_that_ended_long_ago_goes_with_the_next_one() -> None:
    """A write of a process that is gone may have set it; nobody else knows of it."""
    stage = stage_with_guard()
    lately = guard(OTHER, until=UNTIL + 1)
    assert stage.carry_out(guard((GPU, "node1", "gpu-0"))) == Done() and stage.carry_out(lately) == Done()
    assert stage.carry_out(guard(until=UNTIL + LONG_OVER + 1)) == Done()
    assert guarded(stage.admin).keys() == {KEY, f"{GPU}_node0_gpu-1"}


def test_the_longest_guard_lets_none_go_that_still_lasts() -> None:
    stage = stage_with_guard()
    now = UNTIL - 1
    assert stage.carry_out(guard(OTHER)) == Done()
    assert stage.carry_out(guard(until=now + 86_400_000_000)) == Done()
    assert len(guarded(stage.admin)) == 2


def test_one_that_is_guarded_anew_at_that_moment_stays() -> None:
    stage = stage_with_guard()
    assert stage.carry_out(guard(OTHER)) == Done()
    anew = {f"{GPU}_node0_gpu-1": rfc3339(UNTIL + LONG_OVER + 1, precise=True)}
    stage.meanwhile("PATCH", lambda: stage.edit("configmaps", "dds-guards", {"data": anew}, NAMESPACE))
    assert stage.carry_out(guard(until=UNTIL + LONG_OVER + 1)) == Done()
    assert guarded(stage.admin).keys() == {KEY, *anew}


def test_a_key_that_another_takes_meanwhile_does_not_matter() -> None:
    stage = stage_with_guard()
    path = "configmaps", "dds-guards"
    stage.meanwhile("PATCH", lambda: stage.edit(*path, {"data": {"other": "x"}}, NAMESPACE))
    assert stage.carry_out(guard()) == Done()
    assert guarded(stage.admin).keys() == {KEY, "other"}
    stage.meanwhile("PATCH", lambda: stage.edit(*path, {"data": {"other": None}}, NAMESPACE))
    assert stage.carry_out(LiftGuards(NAMESPACE, (DEVICE,))) == Done()
    assert guarded(stage.admin) == {}


def test_a_pool_whose_name_has_a_slash() -> None:
    stage = stage_with_guard()
    device = (GPU, "rack-1/pool", "gpu-0")
    assert shipped.key(*device) == f"{GPU}_rack-1__pool_gpu-0"
    assert stage.carry_out(guard(device)) == Done()
    assert not gives(stage, device)


def test_names_that_make_no_key_cannot_be_guarded_and_nothing_is_sent() -> None:
    stage = stage_with_guard()
    device = (GPU, "/".join(["p" * 60] * 4), "d" * 10)
    result = stage.carry_out(guard(DEVICE, device))
    assert isinstance(result, Declined) and result.reason == "NameTooLong" and stage.writer.requests == {}
    assert stage.carry_out(LiftGuards(NAMESPACE, (device,))) == Done(written=False)


def test_nothing_is_guarded_for_shares_and_administrators() -> None:
    stage = WrittenObjects()
    assert stage.carry_out(GuardDevices(NAMESPACE, (), UNTIL, "node0")) == Done(written=False)
    assert stage.writer.requests == {}


def test_what_is_guarded_is_given_by_us() -> None:
    stage = stage_with_guard()
    stage.admin.create("deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    made = stage.claim("c")
    assert stage.carry_out(guard()) == Done()
    swap = Swap(uid_of(made), (Result("r0", *DEVICE),), (Consumer("uid-p", "p"),), START)
    ref = Ref("resourceclaims", "c", "default", uid_of(made))
    give = GiveDevices(ref, swap, "node0", made["metadata"]["resourceVersion"])
    refused = stage.carry_out(give, stage.as_user("another", MASTERS))
    assert isinstance(refused, Declined) and "dds is giving" in refused.text
    assert isinstance(stage.carry_out(give), Done)


# -- what keeps a guard from being one


OURS = {"name": "others", "expression": "request.userInfo.username != 'writer'"}
LACKS: dict[str, Callable[[WrittenObjects], object]] = {
    "no policy": lambda stage: stage.admin.delete(guarding.POLICIES, "dds-guard"),
    "no binding": lambda stage: stage.admin.delete(guarding.BINDINGS, "dds-guard"),
    "our dry runs are let": lambda stage: stage.edit(
        guarding.POLICIES, "dds-guard", {"spec": {"matchConditions": [OURS]}}
    ),
    "it only warns": lambda stage: stage.edit(
        guarding.BINDINGS, "dds-guard", {"spec": {"validationActions": ["Warn"]}}
    ),
    "another ConfigMap": lambda stage: stage.edit(
        guarding.BINDINGS, "dds-guard", {"spec": {"paramRef": {"name": "dds-guard"}}}
    ),
}


@pytest.mark.parametrize("lack", LACKS)
def test_a_guard_that_does_not_act_is_probed_again_and_given_up(lack: str) -> None:
    stage = stage_with_guard()
    LACKS[lack](stage)
    result = stage.carry_out(guard())
    assert result == Later("the API server does not guard the devices yet", 0.05)
    outbox = Outbox(Random(1))
    task = Task(guard(), ("configmaps/dds-guards",), "1", "ExchangeBegun", "c", within=2.0, too_late=not_guarded(2.0))
    now, fact = 0.0, None
    outbox.put([task], now)
    while fact is None:
        found = outbox.next(now)
        if isinstance(found, Task):
            fact = outbox.finished(found, stage.carry_out(found.write), now)
        else:
            assert found is not None
            now = found
    assert (
        isinstance(fact, WriteRefused) and (fact.code, fact.reason) == (0, "NotGuarded") and now == pytest.approx(2.0)
    )
    assert "within 2 s: see to policy dds-guard" in fact.text


def test_a_guard_that_acts_late_is_seen() -> None:
    stage = stage_with_guard()
    stage.admin.delete(guarding.BINDINGS, "dds-guard")
    probes: list[str] = []

    def before(method: str, path: str) -> None:
        if path.endswith("/status"):
            probes.append(path)
            if len(probes) == 3:
                stage.admin.create(guarding.BINDINGS, shipped.binding(NAMESPACE))

    stage.writer.before = before
    assert stage.carry_out(guard()) == Done() and len(probes) == 3


MISSING = {
    "the ConfigMap": (("configmaps", "dds-guards"), "configmaps composable-dra/dds-guards is not there"),
    "the probe": (("resourceclaims", "dds-probe"), "resourceclaims composable-dra/dds-probe is not there"),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_the_installation_should_have_brought_is_named(case: str) -> None:
    stage = stage_with_guard()
    (resource, name), words = MISSING[case]
    stage.admin.delete(resource, name, NAMESPACE)
    result = stage.carry_out(guard())
    assert isinstance(result, Declined) and (result.code, result.reason) == (404, "NotFound") and words in result.text
    assert stage.writes == 0
    assert stage.carry_out(LiftGuards(NAMESPACE, (DEVICE,))) == Done(written=False)


RIGHTS: dict[str, list[Object]] = {
    "map": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]}],
    "probe": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    ],
    "binding": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
    ],
}


@pytest.mark.parametrize("case", RIGHTS)
def test_a_missing_permission_is_told_as_one(case: str) -> None:
    stage = stage_with_guard("dds")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dds"}}
    result = stage.carry_out(guard(), stage.grant("dds", {**role, "rules": RIGHTS[case]}))
    assert isinstance(result, Declined) and result.reason == "Forbidden"
    assert case == "map" or result.text.startswith("the guard cannot be probed: ")


def test_a_probe_that_is_no_probe_is_told() -> None:
    stage = stage_with_guard()
    stage.admin.delete("resourceclaims", "dds-probe", NAMESPACE)
    two = shipped.probe(NAMESPACE)
    requests = two["spec"]["devices"]["requests"]
    requests.append({**requests[0], "name": "second"})
    stage.admin.create("resourceclaims", two, NAMESPACE)
    result = stage.carry_out(guard())
    assert isinstance(result, Declined) and result.reason == "NotGuarded" and "is to have one request" in result.text


@pytest.mark.parametrize("sent", [False, True], ids=["before it is sent", "after it was sent"])
@pytest.mark.parametrize("number", range(4))
def test_a_guard_whose_answer_is_lost_is_carried_out_again(number: int, sent: bool) -> None:
    stage = stage_with_guard()
    left = [number]

    def lost(method: str, path: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise Unreachable("the connection broke", where=path)

    setattr(stage.writer, "after" if sent else "before", lost)
    assert isinstance(stage.carry_out(guard()), Later)
    assert isinstance(stage.carry_out(guard()), Done)
    assert not gives(stage, DEVICE)
