"""What becomes of a choice: the JSON of status.allocation."""

from typing import Any

import pytest

from dds_core.matching.allocator import AllocationError, Allocator, Gates
from dds_core.matching.from_api import read_class
from dds_core.matching.results import configuration
from dds_core.model import Node
from tests.core.matching.given import (
    GPU,
    NODE,
    allocator,
    asked,
    claim,
    class_of,
    device,
    exactly,
    first_of,
    selecting,
    slice_of,
    waiting,
    written_claim,
    written_class,
)

THIS_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node0"]}]}]}


def written(
    *slices: Any, requests: list[Any] | None = None, classes: Any = (), gates: Gates | None = None, **more: Any
) -> Any:
    """`classes`: as they are written, beside class gpu."""
    asks = written_claim(*(requests or []), **more)
    chosen = allocator(*slices, classes=map(read_class, classes), gates=gates)
    fit = chosen.allocate(NODE, [claim(*(requests or []), **more)])
    assert fit, fit.reason
    return fit.allocations[0].to_object(asks, _by_name(classes))


def test_a_device_of_the_node() -> None:
    assert written(slice_of("d0")) == {
        "devices": {"results": [{"request": "gpu", "driver": GPU, "pool": "node0", "device": "d0"}]},
        "nodeSelector": THIS_NODE,
    }


# -- the nodes where it can be used --------------------------------------------------------------------------


def test_a_device_that_binds_to_its_node_is_for_this_node() -> None:
    fabric = slice_of(waiting("far"), pool="fabric", node=None, **selecting(zone="a"))
    assert written(fabric)["nodeSelector"] == THIS_NODE


def test_devices_that_bind_to_no_node_leave_the_choice() -> None:
    zone = slice_of("a", pool="a", node=None, **selecting(zone="a", cores="16"))
    again = slice_of("b", pool="b", node=None, **selecting(cores="16"))
    wanted = written(zone, again, requests=[exactly(count=2)])["nodeSelector"]
    keys = [each["key"] for each in wanted["nodeSelectorTerms"][0]["matchExpressions"]]
    assert (len(wanted["nodeSelectorTerms"]), keys) == (1, ["zone", "cores"])
    everywhere = slice_of("c", pool="c", node=None, allNodes=True)
    assert "nodeSelector" not in written(everywhere)
    assert written(zone, slice_of("local"), requests=[exactly(count=2)])["nodeSelector"] == THIS_NODE


@pytest.mark.parametrize(
    ("where", "selector"),
    [
        ({"nodeName": "node0"}, THIS_NODE),
        ({"allNodes": True}, None),
        (selecting(zone="a"), selecting(zone="a")["nodeSelector"]),
    ],
)
def test_where_each_device_selects_its_nodes(where: dict[str, Any], selector: Any) -> None:
    one = slice_of(device("d", **where), pool="p", node=None, perDeviceNodeSelection=True)
    assert written(one).get("nodeSelector") == selector


# -- binding conditions --------------------------------------------------------------------------------------


def test_binding_conditions_are_copied() -> None:
    result = written(slice_of(waiting("far", bindingConditions=["A", "B"], bindingFailureConditions=["C"])))["devices"][
        "results"
    ][0]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["A", "B"], ["C"])


def test_without_the_gate_devices_with_conditions_are_skipped() -> None:
    off = Gates(binding_conditions=False)
    result = written(slice_of(waiting("far"), "near"), gates=off)["devices"]["results"][0]
    assert result == {"request": "gpu", "driver": GPU, "pool": "node0", "device": "near"}
    assert not allocator(slice_of(waiting("far")), gates=off).allocate(NODE, [claim()])


# -- configuration -------------------------------------------------------------------------------------------


def opaque(word: str, *requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"opaque": {"driver": GPU, "parameters": {"word": word}}}
    return found | ({"requests": list(requests)} if requests else {})


def config(**given: Any) -> list[tuple[str, str, list[str] | None]]:
    """(source, word, requests) of each configuration, which is the same when it is made anew from the results."""
    devices = written(slice_of("d0", "d1", "d2"), **given)["devices"]
    entries = devices.get("config", [])
    asks = written_claim(*given["requests"], config=given.get("config") or [])
    names = {one["request"] for one in devices["results"]}
    assert configuration(asks, names, _by_name(given.get("classes", ()))) == entries
    return [(each["source"], each["opaque"]["parameters"]["word"], each.get("requests")) for each in entries]


def _by_name(classes: Any) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in (written_class(), *classes)}


def test_configuration_of_the_class_then_of_the_claim() -> None:
    tuned = written_class("tuned", config=[opaque("class-1"), opaque("class-2")])
    found = config(
        classes=[tuned], requests=[exactly("a", device_class="tuned"), exactly("b")], config=[opaque("claim")]
    )
    assert found == [
        ("FromClass", "class-1", ["a"]),
        ("FromClass", "class-2", ["a"]),
        ("FromClaim", "claim", None),
    ]


def test_a_class_is_named_once_for_all_its_requests() -> None:
    tuned = written_class("tuned", config=[opaque("class")])
    requests = [exactly("a", device_class="tuned"), exactly("b"), exactly("c", device_class="tuned")]
    assert config(classes=[tuned], requests=requests) == [("FromClass", "class", ["a", "c"])]


def test_requests_are_named_once_for_a_class_and_once_for_each_that_an_entry_of_the_claim_names() -> None:
    tuned = written_class("tuned", config=[opaque("class")])
    requests = [exactly("a", device_class="tuned"), exactly("b", device_class="tuned")]
    assert config(classes=[tuned], requests=requests, config=[opaque("both", "a", "b"), opaque("all")]) == [
        ("FromClass", "class", ["a", "b"]),
        ("FromClaim", "both", ["a", "b"]),
        ("FromClaim", "both", ["a", "b"]),
        ("FromClaim", "all", None),
    ]


def test_configuration_follows_the_alternative_that_was_chosen() -> None:
    tuned = written_class("tuned", config=[opaque("class")])
    requests = [first_of("x", many=asked(count=9), few=asked(device_class="tuned")), exactly("y")]
    entries = [opaque("many", "x/many"), opaque("few", "x/few"), opaque("any", "x"), opaque("other", "y")]
    assert config(classes=[tuned], requests=requests, config=entries) == [
        ("FromClass", "class", ["x/few"]),
        ("FromClaim", "few", ["x/few"]),
        ("FromClaim", "any", ["x"]),
        ("FromClaim", "other", ["y"]),
    ]


@pytest.mark.parametrize("names", [(), ("x/many", "x/few"), ("x",)], ids=str)
def test_no_configuration_can_be_made_for_results_that_do_not_fit_the_claim(names: tuple[str, ...]) -> None:
    asks = written_claim(first_of("x", many=asked(count=9), few=asked()))
    with pytest.raises(AllocationError, match="of request x are chosen, and not one"):
        configuration(asks, names, _by_name(()))
    with pytest.raises(AllocationError, match="device class gpu: not found"):
        configuration(asks, ("x/few",), {})


# -- identifiers of shares -----------------------------------------------------------------------------------


def test_identifiers_are_drawn_for_what_is_given_and_not_for_what_was_tried() -> None:
    drawn: list[str] = []

    def draw() -> str:
        drawn.append(f"id-{len(drawn)}")
        return drawn[-1]

    shared = device(
        "s", allowMultipleAllocations=True, capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}
    )
    chosen = Allocator([slice_of(shared, "plain")], [class_of()], share_id=draw)
    wanted = claim(exactly("any"), exactly("shared", "device.allowMultipleAllocations"))
    fit = chosen.allocate(NODE, [wanted])
    assert [(result.device, result.share) for result in fit.allocations[0].results] == [("plain", ""), ("s", "id-0")]
    assert not chosen.allocate(Node("", "node9"), [wanted])
    assert drawn == ["id-0"]


def test_without_a_source_of_identifiers_nothing_is_shared() -> None:
    chosen = Allocator([slice_of(device("s", allowMultipleAllocations=True))], [class_of()])
    with pytest.raises(AllocationError, match="a device is shared and nobody gives identifiers"):
        chosen.allocate(NODE, [claim()])
