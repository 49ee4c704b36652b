"""What became of each device, as a person reads it off the raw events."""

from __future__ import annotations

import pytest

from dds_core.scaler.history import History
from dds_core.scaler.history.verdicts import never_used, verdict
from dds_core.scaler.spending import USED
from tests.core.scaler.history.told import LOGS, RECORDINGS, told

IN_VAIN = {
    "node_limit": {
        "GPU-e4b06ce6": "never used: ordered for default/job-1, which went to node0000 after another client set "
        "FabricDeviceReschedule",
        "GPU-78e51061": "never used: ordered for default/job-2, which went to node0000 after another client set "
        "FabricDeviceReschedule",
    },
    "first_attach": {
        "GPU-1027c4d1": "never used: ordered for default/train-1, which went to node0001 after another client set "
        "FabricDeviceReschedule",
    },
    "withdrawn": {
        "GPU-1027c4d1": "never used: ordered for default/hasty, which was given up: no pod refers to it any more",
    },
    "burst": {},
}


@pytest.mark.parametrize("name", IN_VAIN)
def test_devices_that_were_ordered_in_vain_are_named_with_the_reason(name: str) -> None:
    history = History().read(told(name))
    found = {one.name[:12]: verdict(one, history) for one in history.devices.values() if never_used(one, history)}
    assert found == IN_VAIN[name]


def test_a_device_that_another_claim_takes_is_told_as_taken() -> None:
    """many_devices, B10: the claim of one takes a device of the claim of three while that still waits."""
    history = History().read(told("many_devices"))
    found = [verdict(one, history) for one in history.devices.values()]
    assert any(text.startswith("ordered for default/big, taken by default/small") for text in found), found


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_no_device_that_was_used_is_in_vain_and_each_of_a_request_is_for_somebody(name: str) -> None:
    history = History().read(told(name))
    for one in history.devices.values():
        used = any(span.state == USED for span in one.spans)
        assert not (used and never_used(one, history))
        assert verdict(one, history).startswith(
            ("used by", "ordered for") if used else ("never", "not used", "made", "ordered")
        )
        if one.meant[0]:
            claim = history.claims[one.meant[0]]
            assert any(attempt.since == one.meant[1] for attempt in claim.attempts)
            assert one.model in next(a for a in claim.attempts if a.since == one.meant[1]).models
