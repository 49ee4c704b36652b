"""What becomes of a choice: the JSON of status.allocation, which test_against_kubernetes.py compares whole; here what is refused
and what is drawn at random."""

from typing import Any

import pytest

from dds_core.matching.allocator import AllocationError, Allocator
from dds_core.matching.results import configuration
from dds_core.model import Node
from tests.core.matching.given import (
    NODE,
    asked,
    claim,
    class_of,
    device,
    exactly,
    first_of,
    slice_of,
    written_claim,
    written_class,
)

# -- the nodes where it can be used --------------------------------------------------------------------------


# -- binding conditions --------------------------------------------------------------------------------------


# -- configuration -------------------------------------------------------------------------------------------


def _by_name(classes: Any) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in (written_class(), *classes)}


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
