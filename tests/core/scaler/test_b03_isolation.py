"""B3: one bad object ended the scan of the whole cluster with an error.

Here an object that is none of ours is not looked at, one that is wrong affects itself only, and all others are served.
"""

import pytest
from msgspec.structs import replace

from dds_core.model import Claim, Condition, FabricResource, Model, Result
from dds_core.scaler import events as e
from tests.support.world import A100, GPU, H100, READY, RESCHEDULE, World


def foreign_binding_claim(world: World) -> None:
    world.waits("foreign", "node0", Result("r0", "nic.example.com", "fabric-nics", "nic-0", (READY,), ("Broken",)))


def pool_of_an_unknown_model(world: World) -> None:
    world.claim("unknown")
    world.allocate(
        "unknown", "node0", Result("r0", GPU, "mystery-fabric1", "mystery-0", (READY,), ("FabricDeviceFailed",))
    )


def a_label_that_is_no_number(world: World) -> None:
    world.relabel("node0", {"cohdi.io/nvidia-a100-40-size-max": "lots", "cohdi.io/mystery-size-min": "-3"})


def a_limit_lowered_below_what_is_there(world: World) -> None:
    world.online("res", "node0", request="gone")
    world.relabel("node0", {"cohdi.io/nvidia-a100-40-size-max": "0"})
    world.waits("over", "node0")


def a_rejected_field(world: World) -> None:
    world.feed(e.Rejected("ComposableResource", "res9", "res9", "metadata.annotations", "last-used-time is no time"))


def a_resource_without_anything(world: World) -> None:
    world.observe(FabricResource("empty"))


def a_condition_on_a_device_that_is_not_allocated(world: World) -> None:
    world.claim("odd")
    world.update(world.get(Claim, "odd"), conditions=(Condition(GPU, "p", "d", "FabricDeviceFailed", "True"),))


@pytest.mark.parametrize(
    "trouble",
    [
        foreign_binding_claim,
        pool_of_an_unknown_model,
        a_label_that_is_no_number,
        a_limit_lowered_below_what_is_there,
        a_rejected_field,
        a_resource_without_anything,
        a_condition_on_a_device_that_is_not_allocated,
    ],
    ids=lambda trouble: trouble.__name__,
)
def test_b03_others_are_served_whatever_is_wrong_elsewhere(trouble: object) -> None:
    world = World("attach")
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    assert callable(trouble)
    trouble(world)
    world.waits("train", "node1")
    world.settle()
    assert world.state_of("train") == "Attached"
    assert [o.node for o in world.events(e.AttachOrdered) if world.uid("train") in o.claims] == ["node1"]


def test_b03_a_label_that_is_no_number_counts_as_absent() -> None:
    world = World("attach")
    world.node("node0", labels={"cohdi.io/nvidia-a100-40-size-max": "lots"})
    world.pool(A100, 4)
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).size == 1


def test_b03_a_model_has_its_own_request_type() -> None:
    """It hung on the driver, and the shipped example of CXL memory ordered a GPU."""
    memory = replace(H100, index=3, model="CXL-512", device="cxl-512", type="cxlmemory")
    world = World("attach", models=(A100, memory))
    world.node("node0")
    for number, model in enumerate((A100, memory)):
        world.pool(model, 1)
        world.waits(f"train{number}", "node0", (model, 1))
    assert [(one.model, one.type) for one in world.events(e.AttachOrdered)] == [
        (A100.model, "gpu"),
        ("CXL-512", "cxlmemory"),
    ]
    world.settle()
    assert [world.state_of(f"train{number}") for number in range(2)] == ["Attached"] * 2


def test_a_request_that_is_there_keeps_its_own_force_detach() -> None:
    """Changing it would detach every device of the request."""
    world = World("attach", models=(A100, H100))
    world.node("node0")
    world.pool(A100, 2)
    world.pool(H100, 1)
    world.waits("before", "node0")
    world.settle()
    world.change_policy(driver={"force_detach": True})
    world.waits("same", "node0")
    world.waits("other", "node0", (H100, 1))
    assert [(one.model, one.previous, one.force_detach) for one in world.events(e.AttachOrdered)] == [
        (A100.model, None, False),
        (A100.model, 1, False),
        (H100.model, None, True),
    ]


def test_b03_devices_of_another_request_type_count_for_the_limit() -> None:
    world = World("attach", models=(A100,), limit={"max": 1})
    world.node("node0")
    world.pool(A100, 4)
    world.waits("first", "node0")
    world.settle()
    config = world.state.settings.config
    world.update(config, models=(replace(A100, type="cxlmemory"),))
    world.waits(
        "second", "node0", Result("r0", GPU, f"{A100.device}-fabric1", f"{A100.device}-3", (READY,), (RESCHEDULE,))
    )
    assert world.only(e.ClaimFailed).reason == "NodeLimit"


def test_b03_each_driver_has_its_own_request_type() -> None:
    """The reference sent type "" for a driver that it did not know, which the operator's schema refuses."""
    memory = Model(7, "CXL 256G", "cxl-256", "cxl.example.com", {"productName": "CXL 256"})
    world = World("attach", models=(A100, H100, memory), drivers={"cxl.example.com": {"request_type": "cxlmemory"}})
    world.node("node0")
    world.pool(memory, 2)
    world.waits("train", "node0", (memory, 1))
    assert (world.only(e.AttachOrdered).type, world.only(e.AttachOrdered).model) == ("cxlmemory", "CXL 256G")
