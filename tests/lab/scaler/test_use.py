"""The time for which our log has a device on a node is that for which the fabric had it there.

What comes is known but for the delay of a watch. What goes is gone when the operator says so: it waits until no slice lists the
device, looks every 3 s, and first restarts the plugin, which must be older than 10 s. It does not look whose slice that is: of a
device that has come to another node meanwhile, it says so when the device has left that node too.
"""

from __future__ import annotations

import pytest

from dds_core.replay import moments
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from tests.support.ours import running, told_to_us

COMES, GOES = 1_000_000, 20_000_000


@pytest.mark.parametrize("name", ["first_attach", "many_devices", "burst"])
def test_each_device_comes_and_goes_when_the_fabric_says(name: str) -> None:
    with running(told_to_us(name)) as run:
        run.lab.run()
        run.lab.run(60)
    history = History().read(moments(run.log.read(), SCALER))
    ours = sorted((one.uuid, one.named, one.gone, one.node, one.model) for one in history.devices.values())
    moves = [one for one in run.lab.fabric.ledger if one.outcome == "done"]
    came = sorted((one.serial, one.at, one.node, one.model) for one in moves if one.operation == "attach")
    went = sorted((one.serial, one.at) for one in moves if one.operation == "detach")
    assert len(ours) == len(came) == len(went) > 0
    for (uuid, named, gone, *place), (serial, attached, *where), (_, detached) in zip(ours, came, went, strict=True):
        assert (uuid, place) == (serial, where)
        assert 0 <= named - attached <= COMES
        again = [other for other in history.devices.values() if other.uuid == uuid and other.named > attached + COMES]
        assert 0 <= gone - detached <= GOES or again
