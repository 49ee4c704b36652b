"""The four cases: a device or a server, for each pod that waits; and the guard that a group is closed while a device will do."""

from __future__ import annotations

import pytest

from dds_core.autoscaler import events as e
from dds_core.model import CORDON, Claim, Constraint, Device, Requirement, Slice, Taint, Toleration
from tests.core.autoscaler.yard import CAPACITY, LABELS, Yard
from tests.support.world import A100, GPU, asks


def advice(yard: Yard, pod: str = "train") -> tuple[str, str]:
    """What was last seen for the pod."""
    told = [one for one in yard.events(e.PodAdvised) if one.pod == f"pod-{pod}"]
    return (told[-1].case, told[-1].text) if told else ("", "")


def waiting(nodes: int = 2, free: int = 0, **pod: object) -> Yard:
    """A pod that wants a device waits for long; `free` devices are in the pool."""
    yard = Yard(nodes)
    if free:
        yard.pool(free)
    yard.pod("train", claim=True, **pod)  # type: ignore[arg-type]
    yard.refresh()
    return yard


def test_a_device_will_do_where_a_node_has_room_and_the_pool_a_device() -> None:
    yard = waiting(free=1)
    assert advice(yard) == ("device", "node0 has room, and a device for it can be attached there")
    assert yard.group.maximum == yard.group.target == 2, "no node is added where a device will do"
    assert yard.grow().startswith(
        "refused: big takes no 1 more than 2: a device will do for default/train: node0 has room"
    )
    yard.sound()


def test_a_device_that_idles_elsewhere_will_do_too() -> None:
    yard = Yard()
    yard.device("node1")
    yard.see(local := yard.slice("node1", "GPU-1"))
    yard.pod("train", claim=True, terms=((Requirement("kubernetes.io/hostname", "NotIn", ("x",)),),))
    yard.refresh()
    assert advice(yard)[0] == "device"
    yard.claim("holder", "node1", "gpu-0", "node1")
    yard.refresh()
    assert advice(yard)[0] == "nothing", local
    yard.sound()


def test_what_takes_too_many_steps_is_said_and_every_other_pod_is_judged() -> None:
    """Of twelve pairs of devices thirteen have to be each of another pair, which takes 531,441 ways to see that it cannot be, on
    every node."""
    yard = Yard()
    terms = tuple(Requirement(key, "In", (value,)) for key, value in LABELS.items())
    pairs = {
        f"a{i}": Device({**A100.attributes, "serial": i, "pair": i // 2}, binding=("FabricDeviceReady",))
        for i in range(24)
    }
    yard.see(Slice("pool", "pool", GPU, "nvidia-a100-40-fabric1", 1, 1, selector=terms, devices=pairs))
    unlike = tuple(Constraint(distinct=f"{GPU}/{name}") for name in ("serial", "pair"))
    request = asks("gpu", A100.device, count=13)
    yard.see(Claim("claim-train", "default", "train", requests=(request,), constraints=unlike))
    yard.pod("train", claim=True)
    yard.pod("plain", claim=True)
    yard.refresh()
    assert advice(yard) == ("nothing", "whether there are devices for it was not found in 3000 steps")
    assert advice(yard, "plain")[0] == "device"
    yard.sound()


def test_a_claim_that_is_allocated_waits_for_its_device_alone() -> None:
    yard = Yard()
    yard.pool(1)
    yard.claim("train", "node1")
    yard.pod("train", claim=True)
    yard.refresh()
    assert advice(yard) == ("device", "node1 has, or is about to have, devices for it")
    yard.sound()


def test_a_server_is_needed_where_no_node_has_room() -> None:
    yard = waiting(1, free=1, cpu=12_000)
    yard.pod("other", cpu=12_000, node="node0", waiting="")
    yard.refresh()
    assert advice(yard) == ("server", "node0 has too little cpu; a server of big would take it")
    assert yard.group.maximum == 4 and yard.grow() == ""
    yard.sound()


def test_nothing_helps_where_the_pool_is_empty_or_no_server_is_big_enough() -> None:
    yard = waiting()
    assert advice(yard) == ("nothing", "no node takes it, nor has the pool a device for it")
    yard.pod("huge", cpu=99_000)
    yard.refresh()
    assert advice(yard, "huge") == ("nothing", "node0 has too little cpu, nor would a server of any group")
    assert yard.group.maximum == 4, "Cluster Autoscaler sees that by itself"
    yard.sound()


@pytest.mark.parametrize(("takes", "case"), [({}, "server"), ({A100.model: 2}, "server"), ({A100.model: 1}, "nothing")])
def test_a_fresh_server_takes_no_more_devices_than_its_template_says(takes: dict[str, int], case: str) -> None:
    """The founding slides: a node group shows the maximum number of GPUs that a server takes."""
    yard = Yard(0, group={"template": {"capacity": CAPACITY, "labels": LABELS, "devices": takes}})
    yard.pool(4)
    yard.see(Claim("claim-train", "default", "train", requests=(asks("gpu", A100.device, count=2),)))
    yard.pod("train", claim=True)
    yard.refresh()
    assert advice(yard)[0] == case
    yard.sound()


def test_while_devices_will_do_for_some_only_the_servers_that_others_need_are_added() -> None:
    yard = waiting(1, free=1)
    for number in range(3):
        yard.pod(f"wide{number}", cpu=15_500 if number else 7_000)
    yard.refresh()
    cases = {one.pod: one.case for one in yard.events(e.PodAdvised)}
    assert cases == {"pod-train": "device", "pod-wide1": "server", "pod-wide2": "server"}, "wide0 fits"
    assert yard.group.maximum == 1 + 2
    assert yard.grow(3).startswith("refused") and yard.grow(2) == ""
    yard.sound()


def test_it_opens_again_when_the_pod_is_served() -> None:
    yard = waiting(free=1)
    yard.claim("train", "node0")
    yard.pod("train", claim=True, nominated="node0", waiting="")
    yard.refresh()
    assert yard.group.debug == "1 members" and yard.group.maximum == 3
    assert advice(yard) == ("", "it waits no more")
    yard.sound()


def test_nothing_is_closed_where_the_policy_says_so() -> None:
    yard = Yard(close_for_devices=False)
    yard.pool(1)
    yard.pod("train", claim=True)
    yard.refresh()
    assert yard.group.maximum == 4


@pytest.mark.parametrize("why", ["taint", "cordon", "not ready", "selector", "condemned"])
def test_what_keeps_a_pod_from_a_node_keeps_a_device_from_helping_there(why: str) -> None:
    yard = Yard(1)
    yard.pool(1)
    terms: tuple[tuple[Requirement, ...], ...] = ()
    match why:
        case "taint":
            yard.change("node0", taints=(Taint("only", "others", "NoSchedule"),))
        case "cordon":
            yard.change("node0", unschedulable=True)
        case "not ready":
            yard.change("node0", ready=False)
        case "condemned":
            yard.condemn("node0")
        case _:
            terms = ((Requirement("kubernetes.io/hostname", "In", ("elsewhere",)),),)
    yard.pod("train", claim=True, terms=terms)
    yard.refresh()
    assert advice(yard)[0] == ("nothing" if why == "selector" else "server")
    yard.sound()


def test_a_pod_that_tolerates_a_taint_is_put_there() -> None:
    yard = Yard(1)
    yard.pool(1)
    yard.change("node0", taints=(CORDON,))
    yard.pod("train", claim=True, tolerations=(Toleration(operator="Exists"),))
    yard.refresh()
    assert advice(yard)[0] == "device"


def test_a_claim_that_is_not_made_yet_says_nothing() -> None:
    yard = Yard()
    yard.pool(1)
    yard.pod("train", claims=("later",))
    yard.refresh()
    assert advice(yard) == ("", "") and yard.group.maximum == 4
